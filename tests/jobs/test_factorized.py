"""SGMF, its L-inf form and the matrix mechanism: privacy and error of factorized streams."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.factorization import factor_norms, factorize, norms_of_arrays, parse_workload
from csgm_cli.jobs.account import account_delta, account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.jobs.compare import compare, compare_at_equal_mse
from csgm_cli.jobs.plan import plan
from csgm_cli.jobs.utility import Rows, error_parts
from csgm_cli.model.factorization import strategy_named
from csgm_cli.model.mechanism import FactorNorms, Mechanism, RowNorms, Target
from csgm_cli.model.mechanism_table import Geometry

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "accounting.json").read_text())["sgmf"]
TARGET = Target(5.0, 1e-6)
SIZES = Geometry(30.0, 2.0, dim=10**5, cohort_size=200)
ACCOUNTANTS = [
    ("l2-csgm", 0.1, "auto"),
    ("l2-csgm", 0.1, "rdp"),
    ("l2-csgm", 0.1, "paper"),
    ("l2-csgm", 0.1, "tight"),
    ("l2-csgm", 1.0, "exact"),
    ("linf-csgm", 0.1, "tight"),
    ("linf-csgm", 0.1, "rdp"),
    ("gaussian", 1.0, "exact"),
    ("gaussian", 1.0, "rdp"),
]


def norms(strategy="optimal", T=8):
    return factor_norms(factorize(parse_workload("prefix-sum", T), strategy_named(strategy)))


def scaled(found, c):
    """The norms of (B / c, c C)."""
    rows = found.rows
    lengths = {name: getattr(rows, name) / c for name in ("least", "mean", "largest")}
    squares = {name: getattr(rows, name) / c**2 for name in ("mean_squared", "last_squared")}
    return replace(found, sensitivity=found.sensitivity * c, rows=replace(rows, **lengths, **squares))


def with_factors(name, gamma, found, epochs=3, geometry=SIZES, adjacency="add-remove"):
    return Mechanism(name, gamma, geometry, adjacency=adjacency, factorization=found, epochs=epochs)


@pytest.mark.parametrize("case", REFERENCE, ids=lambda case: f"gamma={case['gamma']}")
@pytest.mark.parametrize("strategy", ["optimal", "streaming:4"])
def test_reference(case, strategy):
    """Column norms of 1: the noise of as many rounds as there are epochs, by outside code."""
    found = norms(strategy, case["T"])
    mechanism = with_factors("l2-csgm", case["gamma"], found, case["epochs"], Geometry(case["norm_ratio"]))
    answer = calibrate(mechanism, Target(case["epsilon"], case["delta"]), "rdp")
    assert answer.noise_multiplier == pytest.approx(case["noise_multiplier"], rel=1e-8)
    assert answer.mechanism.releases == 16
    assert "one-participation-per-epoch" in answer.guarantee.assumptions
    assert "one-participation-per-round" not in answer.guarantee.assumptions
    for part in ("T = 32 steps", f"the strategy {strategy}", "16 epochs", "most once to each epoch"):
        assert part in answer.statement


@pytest.mark.parametrize(("name", "gamma", "accountant"), ACCOUNTANTS)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_scaling_c_scales_the_noise_and_no_error(name, gamma, accountant, adjacency):
    """C and 3 C with B / 3 are the same mechanism: Theorem 5.1 and the MSE are homogeneous."""
    found = norms("tree")
    here, there = (
        calibrate(with_factors(name, gamma, factors, adjacency=adjacency), TARGET, accountant)
        for factors in (found, scaled(found, 3.0))
    )
    assert there.sigma == pytest.approx(3.0 * here.sigma, rel=1e-9)
    for mse, other in ((here.mse, there.mse), (here.mse_last_row, there.mse_last_row)):
        assert other.total == pytest.approx(mse.total, rel=1e-9)
        assert other.ratio == pytest.approx(mse.ratio, rel=1e-9)
    assert there.noise_std_per_row.mean == pytest.approx(here.noise_std_per_row.mean, rel=1e-9)


@pytest.mark.parametrize(("name", "gamma", "accountant"), ACCOUNTANTS)
def test_epochs_of_independent_noise_are_rounds(name, gamma, accountant):
    """Identity: C = 1, so that one epoch is one release of the mechanism itself."""
    factors = norms("identity", 5)
    plain = Mechanism(name, gamma, SIZES, rounds=3)
    expected = calibrate(plain, TARGET, accountant)
    found = calibrate(with_factors(name, gamma, factors, 3), TARGET, accountant)
    assert found.sigma == expected.sigma
    assert found.guarantee.lower_bound == expected.guarantee.lower_bound
    # A sum of t cohorts has t times the error of one, (T + 1)/2 of them on average.
    assert found.mse.total == pytest.approx(3 * expected.mse.total, rel=1e-12)
    assert found.mse_last_row.total == pytest.approx(5 * expected.mse.total, rel=1e-12)
    assert found.mse.ratio == pytest.approx(expected.mse.ratio, rel=1e-12)


def test_one_step_is_the_mechanism_itself():
    """T = 1: nothing is correlated, whatever the strategy."""
    expected = calibrate(Mechanism("l2-csgm", 0.1, SIZES, rounds=2), TARGET, "rdp")
    for strategy in ("optimal", "identity", "tree", "streaming:2"):
        found = calibrate(with_factors("l2-csgm", 0.1, norms(strategy, 1), 2), TARGET, "rdp")
        assert found.sigma == pytest.approx(expected.sigma, rel=1e-11)
        assert found.mse.total == pytest.approx(expected.mse.total, rel=1e-11)
        assert found.mse_last_row.total == pytest.approx(expected.mse.total, rel=1e-11)
        assert found.noise_std_per_row.max == pytest.approx(expected.mean_noise_std, rel=1e-11)


@pytest.mark.parametrize("accountant", ["auto", "exact", "rdp", "tight"])
def test_sending_everything_is_the_matrix_mechanism(accountant):
    """gamma = 1 equals the uncompressed mechanism with the same factorization."""
    factors = norms()
    found = calibrate(with_factors("l2-csgm", 1.0, factors), TARGET, accountant)
    matrix = calibrate(with_factors("gaussian", 1.0, factors), TARGET, accountant)
    assert found.sigma == matrix.sigma
    assert found.mse.total == matrix.mse.total == matrix.mse.gaussian_total
    assert found.mse.sparsification == 0.0


def test_matrix_mechanism_by_the_analytic_gaussian():
    """Sensitivity sqrt(4) Delta_2 of the tree over 8 steps, one epoch: the exact curve of one release."""
    expected = calibrate(Mechanism("gaussian", 1.0, Geometry(l2_norm=2.0)), TARGET)
    found = calibrate(with_factors("gaussian", 1.0, norms("tree"), 1, Geometry(l2_norm=2.0)), TARGET)
    assert found.sigma == pytest.approx(2.0 * expected.sigma, rel=1e-12)


SQUARE_ROOT = {  # A = B C with B = C, worked by hand
    "B": np.array([[1.0, 0.0], [0.5, 1.0]]),
    "C": np.array([[1.0, 0.0], [0.5, 1.0]]),
}


@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_delta_of_a_stream_by_integration(gamma):
    """One coordinate, two rows: the hockey-stick divergence of C G + Z itself, integrated over the plane."""
    sigma, epsilon, l2_norm = 0.9, 0.5, 1.3
    factors = norms_of_arrays(parse_workload("prefix-sum", 2), SQUARE_ROOT)
    geometry = Geometry(1.0, l2_norm, dim=1)
    mechanism = with_factors("linf-csgm", gamma, factors, 1, geometry)
    found = account_delta(mechanism, sigma, epsilon, "tight").guarantees[0].delta
    step = 0.01
    x = np.arange(-9.0, 9.0, step)
    first, second = np.meshgrid(x, x, indexing="ij")

    def density(move):
        squares = ((first - move[0]) ** 2 + (second - move[1]) ** 2) / sigma**2
        return np.exp(-squares / 2) / (2 * np.pi * sigma**2)

    without = density((0.0, 0.0))
    # The client is in the first step, whose column of C is the longer one, (1, 1/2).
    present = (1 - gamma) * without + gamma * density((l2_norm, l2_norm / 2))
    raised = math.exp(epsilon)
    deltas = [
        np.maximum(one - raised * other, 0.0).sum() * step**2
        for one, other in ((present, without), (without, present))
    ]
    assert found == pytest.approx(max(deltas), rel=1e-4)


def test_errors_by_hand():
    """T = 2, B = C = [[1, 0], [1/2, 1]]: ||B[t]||^2 is 1 and 5/4, the column norm of C sqrt(5)/2."""
    factors = norms_of_arrays(parse_workload("prefix-sum", 2), SQUARE_ROOT)
    assert factors.sensitivity == pytest.approx(math.sqrt(1.25), rel=1e-14)
    assert factors.sensitivity >= math.sqrt(1.25)
    d, n, gamma, l2_norm, sigma = 100, 10, 0.5, 3.0, 2.0
    mechanism = with_factors("l2-csgm", gamma, factors, 1, Geometry(2.0, l2_norm, d, n))
    one, lost = d * sigma**2 / (n * gamma) ** 2, (1 - gamma) * l2_norm**2 / (n * gamma)
    assert error_parts(mechanism, sigma) == pytest.approx((one * 9 / 8, lost * 3 / 2), rel=1e-14)
    answer = calibrate(mechanism, TARGET, "rdp")
    factor = answer.sigma / (n * gamma)
    rows = answer.noise_std_per_row
    assert rows.min == pytest.approx(factor, rel=1e-14)
    assert rows.max == pytest.approx(factor * math.sqrt(1.25), rel=1e-14)
    assert rows.mean == pytest.approx(factor * (1 + math.sqrt(1.25)) / 2, rel=1e-14)
    last = answer.mse_last_row
    assert last.privacy == pytest.approx(d * factor**2 * 1.25, rel=1e-14)
    assert last.sparsification == pytest.approx(lost * 2, rel=1e-14)
    assert answer.mean_noise_std is None


def test_the_formula_is_what_a_stream_does():
    """Simulated streams of three disjoint cohorts: mean and last squared error agree, 5 standard errors."""
    rng = np.random.default_rng(5)
    T, d, n, gamma, sigma, l2_norm, runs = 3, 6, 4, 0.3, 0.7, 2.0, 6000
    b = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.375, 0.5, 1.0]])
    factors = norms_of_arrays(parse_workload("prefix-sum", T), {"B": b, "C": b})
    clients = rng.normal(size=(T, n, d))
    clients *= l2_norm / np.linalg.norm(clients, axis=2, keepdims=True)
    sent = (clients * (rng.random((runs, T, n, d)) < gamma)).sum(axis=2)
    noise = np.einsum("ts,rsd->rtd", b, rng.normal(scale=sigma, size=(runs, T, d)))
    found = (np.cumsum(sent, axis=1) + noise) / (n * gamma)
    errors = ((found - np.cumsum(clients.mean(axis=1), axis=0)) ** 2).sum(axis=2)
    mechanism = with_factors("l2-csgm", gamma, factors, 1, Geometry(1.0, l2_norm, d, n))
    answer = replace(calibrate(mechanism, TARGET, "rdp"), sigma=sigma)
    assert answer.mechanism.factorization.T == T
    for of, seen in ((Rows.MEAN, errors.mean(axis=1)), (Rows.LAST, errors[:, -1])):
        expected = sum(error_parts(mechanism, sigma, of))
        assert abs(seen.mean() - expected) < 5 * seen.std() / math.sqrt(runs)


@pytest.mark.parametrize(
    ("name", "gamma", "accountant"), [case for case in ACCOUNTANTS if case[2] != "paper"]
)
def test_verified_by_independent_code(name, gamma, accountant):
    """The independent code knows the column norm, too, and a wrong one would show in every digit."""
    answer = calibrate(with_factors(name, gamma, norms("tree", 4)), TARGET, accountant, verify=True)
    assert answer.guarantee.verified.relative_difference < 1e-9


@pytest.mark.parametrize("accountant", ["rdp", "tight"])
def test_account_confirms(accountant):
    """At the noise of calibrate the target holds, and the delta of the epsilon is the target's."""
    mechanism = with_factors("l2-csgm", 0.05, norms("honaker-full"))
    sigma = calibrate(mechanism, TARGET, accountant).sigma
    assert account_epsilon(mechanism, sigma, [TARGET.delta], accountant).guarantees[0].epsilon <= 5.0
    found = account_delta(mechanism, sigma, TARGET.epsilon, accountant)
    assert found.guarantees[0].delta <= TARGET.delta * (1 + 1e-9)
    assert found.guarantees[0].delta >= TARGET.delta * (1 - 1e-5)


def test_comparison():
    """The matrix mechanism, SGMF and its L-inf form, then the others; each row is what calibrate says."""
    ours, others = norms("optimal"), [norms("identity"), norms("tree")]
    found = compare(
        SIZES,
        TARGET,
        gammas=[0.1],
        accountant="rdp",
        factorization=ours,
        epochs=3,
        other_strategies=others,
    )
    assert [(row.mechanism.name, row.mechanism.factorization.strategy) for row in found.rows] == [
        ("gaussian", "optimal"),
        ("l2-csgm", "optimal"),
        ("linf-csgm", "optimal"),
        ("l2-csgm", "identity"),
        ("l2-csgm", "tree"),
    ]
    for row in found.rows:
        assert row.mechanism.releases == 3
        alone = calibrate(row.mechanism, TARGET, "rdp")
        alike = replace(row.calibration, mse=alone.mse, mse_last_row=alone.mse_last_row)
        assert alike == alone
        assert row.calibration.mse.total == alone.mse.total
    totals = [row.calibration.mse.total for row in found.rows]
    assert totals[1] < min(totals[3:])


@pytest.mark.parametrize("made", [compare, compare_at_equal_mse])
@pytest.mark.parametrize(("adjacency", "accountant"), [("add-remove", "auto"), ("replace-one", "rdp")])
def test_ratios_of_a_comparison_are_to_its_first_row(made, adjacency, accountant):
    """One reference, the matrix mechanism asked about: ratios order strategies as errors do."""
    ours, others = norms("optimal"), [norms("identity"), norms("tree"), norms("honaker-full")]
    found = made(
        SIZES,
        TARGET,
        gammas=[0.3, 1.0],
        adjacency=adjacency,
        accountant=accountant,
        factorization=ours,
        epochs=3,
        other_strategies=others,
    )
    answers = [row.calibration for row in found.rows]
    first = answers[0]
    for answer in answers:
        for mse, reference in ((answer.mse, first.mse), (answer.mse_last_row, first.mse_last_row)):
            assert mse.gaussian_total == pytest.approx(reference.total, rel=1e-12)
            assert mse.ratio == pytest.approx(mse.total / reference.total, rel=1e-12)
    # By hand at gamma 1, where CSGM is the Gaussian mechanism: errors are ||B||_F^2 sensitivity^2.
    if made is compare:
        errors = [f.rows.mean_squared * f.sensitivity**2 for f in (ours, *others)]
        ratios = [
            answer.mse.ratio
            for answer in answers
            if answer.mechanism.name == "l2-csgm" and answer.mechanism.gamma == 1
        ]
        assert ratios == pytest.approx([error / errors[0] for error in errors], rel=1e-9)


def test_comparison_at_equal_mse():
    """At the noise found every row has the MSE of the matrix mechanism."""
    found = compare_at_equal_mse(
        SIZES,
        TARGET,
        gammas=[0.3],
        accountant="rdp",
        factorization=norms("optimal"),
        epochs=2,
        other_strategies=[norms("tree")],
    )
    wanted = found.rows[0].calibration.mse.total
    for row in found.rows[1:]:
        assert row.calibration.mse.total == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("strategy", ["optimal", "tree"])
def test_plan_by_its_definition(strategy):
    """Within the overhead over the matrix mechanism, and 1 % less gamma is not."""
    factors = norms(strategy)
    found = plan(
        "l2-csgm",
        SIZES,
        TARGET,
        max_mse_overhead=0.1,
        accountant="rdp",
        factorization=factors,
        epochs=3,
    )
    matrix = calibrate(with_factors("gaussian", 1.0, factors), TARGET, "rdp").mse.total
    assert found.calibration.mse.gaussian_total == pytest.approx(matrix, rel=1e-9)
    assert found.calibration.mse.total <= 1.1 * matrix * (1 + 1e-9)
    less = calibrate(with_factors("l2-csgm", found.gamma * 0.99, factors), TARGET, "rdp")
    assert less.mse.total > 1.1 * matrix


@pytest.mark.parametrize("accountant", ["rdp", "tight"])
@pytest.mark.parametrize("c", [1e-3, 1e3])
def test_plan_does_not_depend_on_the_scale_of_c(accountant, c):
    """B / c and c C are the same factorization, also to the quick rejections of a search."""
    here, there = (
        plan(
            "l2-csgm",
            SIZES,
            TARGET,
            max_mse_overhead=0.3,
            accountant=accountant,
            factorization=factors,
            epochs=2,
        )
        for factors in (norms("optimal"), scaled(norms("optimal"), c))
    )
    assert there.gamma == pytest.approx(here.gamma, rel=1e-7)


def test_participation_is_said_once():
    """Rounds and a factorization exclude each other, epochs belong to one."""
    with pytest.raises(UsageError) as caught:
        Mechanism("gaussian", rounds=2, factorization=norms())
    assert caught.value.slug == "rounds-with-factorization"
    with pytest.raises(UsageError) as caught:
        Mechanism("gaussian", epochs=2)
    assert caught.value.slug == "epochs-without-factorization"
    for wrong in (0, 1.5, -1, math.nan, True):
        with pytest.raises(UsageError, match="epochs"):
            Mechanism("gaussian", factorization=norms(), epochs=wrong)
    with pytest.raises(UsageError, match="factorization"):
        Mechanism("gaussian", factorization="optimal:32")
    assert Mechanism("gaussian", factorization=norms()).releases == 1


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.nan, math.inf, 1e16, 1e-16, "1", None])
def test_norms_in_range(sensitivity):
    """A norm that could not be computed with is refused."""
    with pytest.raises(UsageError, match="sensitivity"):
        FactorNorms(4, "prefix-sum", None, sensitivity)
    with pytest.raises(UsageError, match="least of the rows"):
        FactorNorms(4, "prefix-sum", None, 1.0, RowNorms(0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0))
