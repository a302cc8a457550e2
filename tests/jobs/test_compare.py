"""Mechanisms side by side: one accountant for all, and the two questions."""

import pytest

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.jobs import compare as module
from csgm_cli.jobs.account import account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.jobs.compare import common_accountant, compare, compare_at_equal_mse
from csgm_cli.model.geometry import resolve_geometry
from csgm_cli.model.mechanism import Accountant, Bound, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

TARGET = Target(5.0, 1e-8)
FULL = resolve_geometry(l2_norm=2.0, dim=10**6, cohort_size=1000)[0]


def shape(found):
    """(name, gamma) of every row."""
    return [(row.mechanism.name.value, row.mechanism.gamma) for row in found.rows]


def test_rows_in_order():
    """The Gaussian once, then both sparsified mechanisms at every gamma as given."""
    found = compare(FULL, TARGET, gammas=[0.1, 0.01])
    assert shape(found) == [
        ("gaussian", 1.0),
        ("l2-csgm", 0.1),
        ("linf-csgm", 0.1),
        ("l2-csgm", 0.01),
        ("linf-csgm", 0.01),
    ]
    assert found.target == TARGET
    assert not found.at_equal_mse
    assert [notice.slug for notice in found.notices] == ["one-round"]


def test_one_accountant_serves_all_rows():
    """Tight is exact for the Gaussian, and one bound for all sparsified rows."""
    found = compare(FULL, TARGET, gammas=[0.1], rounds=3, adjacency="replace-one")
    assert found.accountant is Accountant.TIGHT
    for row in found.rows:
        gaussian = row.mechanism.is_gaussian
        assert row.calibration.guarantee.bound is (Bound.EXACT if gaussian else Bound.REPLACE_ONE)
        assert row.calibration.sigma == calibrate(row.mechanism, TARGET, Accountant.TIGHT).sigma
        assert row.mechanism.rounds == 3
        assert row.mechanism.adjacency == "replace-one"
    gaussian = found.rows[0].calibration
    assert gaussian.mse.ratio == 1.0
    for row in found.rows[1:]:
        assert row.calibration.mse.gaussian_total == gaussian.mse.total


def test_exact_where_every_row_can_have_it():
    """With gamma 1 alone the exact accountant serves all."""
    assert compare(FULL, TARGET, gammas=[1.0]).accountant is Accountant.EXACT
    gaussian, sparse = Mechanism("gaussian"), Mechanism("l2-csgm", 0.5)
    assert common_accountant([gaussian], Accountant.AUTO) is Accountant.EXACT
    assert common_accountant([gaussian, sparse], Accountant.AUTO) is Accountant.TIGHT
    replaced = Mechanism("l2-csgm", 0.5, adjacency="replace-one")
    assert common_accountant([gaussian, replaced], Accountant.AUTO) is Accountant.TIGHT
    assert common_accountant([gaussian, sparse], Accountant.PAPER) is Accountant.PAPER


def test_without_a_dimension_linf_csgm_is_left_out():
    """It cannot be accounted, and a notice says so."""
    found = compare(Geometry(100.0), TARGET, gammas=[0.1])
    assert shape(found) == [("gaussian", 1.0), ("l2-csgm", 0.1)]
    assert [notice.slug for notice in found.notices] == ["one-round", "linf-csgm-left-out"]
    assert all(row.calibration.mse is None for row in found.rows)


def test_l2_csgm_never_needs_more_noise_than_linf_csgm():
    """Row by row."""
    found = compare(FULL, TARGET, gammas=[0.3, 0.03])
    for l2, linf in (found.rows[1:3], found.rows[3:5]):
        assert l2.calibration.sigma <= linf.calibration.sigma


def test_a_row_without_an_answer_stays_and_says_why():
    """Where delta alone covers a row, the other rows still have theirs."""
    found = compare(Geometry(1.0, dim=2), Target(1.0, 0.5), gammas=[0.01])
    gaussian, l2, linf = found.rows
    assert gaussian.calibration is not None
    assert l2.calibration is None
    assert linf.calibration is None
    assert [notice.slug for notice in found.notices] == ["one-round", *["row-without-answer"] * 2]
    assert "l2-csgm" in found.notices[1].message
    assert "0.01" in found.notices[1].message


def test_verify_reaches_every_row():
    """Each row carries its own verification."""
    found = compare(Geometry(20.0, dim=500), TARGET, gammas=[0.1], verify=True)
    assert all(row.calibration.guarantee.verified.relative_difference < 1e-9 for row in found.rows)


@pytest.mark.parametrize("function", [compare, compare_at_equal_mse])
def test_refusals(function):
    """No gamma, an accountant that cannot serve every row, bits out of range."""
    for arguments, slug in (
        ({"gammas": []}, "missing-gamma"),
        ({"gammas": [0.1], "accountant": Accountant.EXACT}, "no-exact-accountant"),
        ({"gammas": [0.1, 1.5]}, "out-of-range"),
        ({"gammas": [0.1], "value_bits": 0}, "out-of-range"),
    ):
        with pytest.raises(UsageError) as caught:
            function(FULL, TARGET, **arguments)
        assert caught.value.slug == slug


# ---------------------------------------------------------------- at equal MSE


@pytest.mark.parametrize("gamma", [0.9, 0.1, 0.02])
def test_equal_mse_is_equal_to_twelve_digits(gamma):
    """The erratum's equation, checked through the reported totals: privacy and sparsification add up."""
    found = compare_at_equal_mse(FULL, Target(0.5, 1e-8), gammas=[gamma])
    gaussian = found.rows[0].calibration
    assert found.at_equal_mse
    for row in found.rows[1:]:
        assert row.calibration.mse.total == pytest.approx(gaussian.mse.total, rel=1e-12)
        assert row.calibration.mse.ratio == pytest.approx(1.0, rel=1e-12)
        assert row.calibration.mse.sparsification > 0


def test_equal_mse_by_hand():
    """sigma_m^2 = gamma^2 (sigma_G^2 - n (1-gamma) Delta_2^2/(gamma d)), then the epsilon of that noise."""
    target, gamma = Target(0.5, 1e-8), 0.05
    found = compare_at_equal_mse(FULL, target, gammas=[gamma])
    gaussian, l2, _ = (row.calibration for row in found.rows)
    assert gaussian.sigma == calibrate(Mechanism("gaussian", 1.0, FULL), target, Accountant.EXACT).sigma
    sigma = gamma * (gaussian.sigma**2 - 1000 * (1 - gamma) * 2.0**2 / (gamma * 1e6)) ** 0.5
    assert l2.sigma == pytest.approx(sigma, rel=1e-14)
    (expected,) = account_epsilon(l2.mechanism, l2.sigma, [1e-8], Accountant.TIGHT).guarantees
    assert l2.guarantee == expected
    assert l2.guarantee.epsilon > target.epsilon  # sparsification is not free


def test_equal_mse_where_sparsification_alone_costs_more():
    """No noise is left to add: no calibration and a notice, for each mechanism."""
    geometry = resolve_geometry(l2_norm=1.0, dim=1000, cohort_size=10**6)[0]
    found = compare_at_equal_mse(geometry, TARGET, gammas=[0.01])
    assert [row.calibration is None for row in found.rows] == [False, True, True]
    assert [notice.slug for notice in found.notices] == ["one-round", *["row-without-answer"] * 2]
    assert "sparsification" in found.notices[1].message


def test_equal_mse_with_a_row_out_of_reach(monkeypatch):
    """A row whose epsilon cannot be computed has no calibration and a notice; the others stand."""
    right = module.epsilon_guarantee

    def out_of_reach(mechanism, *arguments, **options):
        if mechanism.name == "linf-csgm":
            raise NoAnswerError("out-of-reach", "the loss is too large")
        return right(mechanism, *arguments, **options)

    before = compare_at_equal_mse(FULL, TARGET, gammas=[0.1])
    monkeypatch.setattr(module, "epsilon_guarantee", out_of_reach)
    found = compare_at_equal_mse(FULL, TARGET, gammas=[0.1])
    assert found.rows[:2] == before.rows[:2]
    assert found.rows[2].calibration is None
    assert [notice.slug for notice in found.notices] == ["one-round", "row-without-answer"]
    assert "linf-csgm at gamma 0.1: the loss is too large" in found.notices[1].message


@pytest.mark.parametrize("geometry", [Geometry(2.0), Geometry(2.0, dim=9), Geometry(2.0, cohort_size=9)])
def test_equal_mse_needs_d_and_n(geometry):
    """Without them there is no MSE to equal."""
    with pytest.raises(UsageError) as caught:
        compare_at_equal_mse(geometry, TARGET, gammas=[0.1])
    assert caught.value.slug == "missing-utility-inputs"


def test_a_baseline_without_an_answer_ends_the_comparison(monkeypatch):
    """There is nothing to compare with."""

    def fails(*arguments, **options):
        raise NoAnswerError("not-certified", "no")

    monkeypatch.setattr(module, "calibrate", fails)
    with pytest.raises(NoAnswerError):
        compare_at_equal_mse(FULL, TARGET, gammas=[0.1])


@pytest.mark.parametrize("at_equal_mse", [False, True])
def test_one_accountant_under_replace_one(at_equal_mse):
    """Tight serves all rows there too, and ratios are to the row beside them."""
    geometry = Geometry(20.0, dim=1000, cohort_size=100)
    options = {"gammas": [0.5], "adjacency": "replace-one", "accountant": Accountant.TIGHT}
    made = compare_at_equal_mse if at_equal_mse else compare
    found = made(geometry, Target(1.0, 1e-6), **options)
    assert found.accountant is Accountant.TIGHT
    assert [notice.slug for notice in found.notices] == ["one-round"]
    gaussian, *others = [row.calibration.mse for row in found.rows]
    for mse in others:
        assert mse.ratio == pytest.approx(mse.total / gaussian.total, rel=1e-12)
        if at_equal_mse:
            assert mse.ratio == pytest.approx(1.0, rel=1e-12)
