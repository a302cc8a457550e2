"""Accounting for a given noise, in both directions."""

import dataclasses
import itertools
import math

import pytest

from csgm_cli.accounting.accountants import LARGEST_TARGET_DELTA
from csgm_cli.errors import UsageError
from csgm_cli.jobs.account import account_delta, account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Conversion, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.verify import renyi

SPARSE = Mechanism("l2-csgm", 0.01, Geometry(1000.0))
MECHANISMS = [
    (Mechanism("gaussian", rounds=3), Accountant.EXACT),
    (Mechanism("gaussian", rounds=3, adjacency="replace-one"), Accountant.RDP),
    (SPARSE, Accountant.RDP),
    (SPARSE, Accountant.PAPER),
    (Mechanism("l2-csgm", 0.3, Geometry(2.3), 4), Accountant.AUTO),
    (Mechanism("l2-csgm", 0.98, Geometry(2.3), 4, "replace-one"), Accountant.AUTO),
    (Mechanism("linf-csgm", 0.05, Geometry(10.0, dim=5000)), Accountant.AUTO),
]


def epsilon_of(mechanism, sigma, delta, accountant):
    """The epsilon at one delta."""
    return account_epsilon(mechanism, sigma, [delta], accountant).guarantees[0].epsilon


def delta_of(mechanism, sigma, epsilon, accountant):
    """The delta at one epsilon."""
    return account_delta(mechanism, sigma, epsilon, accountant).guarantees[0].delta


def test_the_example_of_the_documentation():
    """Noise multiplier 0.0122 at gamma 0.01, ratio 1000, delta 1e-8, by brute force over orders."""
    (found,) = account_epsilon(SPARSE, 0.0122, [1e-8], Accountant.RDP).guarantees
    orders = [found.order + step / 10 for step in range(-30, 31)]
    brute = min(renyi.epsilon([(SPARSE, 0.0122)], 1e-8, order, Bound.RDP, 20) for order in orders)
    assert found.epsilon == pytest.approx(float(brute), rel=1e-12)


def _count(mechanism, accountant, closed, profile, triangle):
    """How many points of a grid are tried, by what one costs."""
    if accountant is not Accountant.AUTO:
        return closed
    return triangle if mechanism.adjacency is Adjacency.REPLACE_ONE else profile


@pytest.mark.parametrize(("mechanism", "accountant"), MECHANISMS)
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 3.0, 40.0])
def test_epsilon_and_delta_are_inverse(mechanism, accountant, epsilon):
    """The delta at epsilon, asked for its epsilon, gives epsilon back (no more, at integer orders too)."""
    triangle = accountant is Accountant.AUTO and mechanism.adjacency is Adjacency.REPLACE_ONE
    for factor in (0.4,) if triangle else (0.05, 0.4, 3.0):
        sigma = factor * mechanism.gamma
        delta = delta_of(mechanism, sigma, epsilon, accountant)
        if 1e-290 < delta < LARGEST_TARGET_DELTA:
            assert epsilon_of(mechanism, sigma, delta, accountant) == pytest.approx(epsilon, rel=1e-8)


@pytest.mark.parametrize(("mechanism", "accountant"), MECHANISMS)
def test_epsilon_falls_strictly_with_the_noise(mechanism, accountant):
    """Noises over four decades, or two where profiles take a second: every step down until epsilon is 0."""
    count = _count(mechanism, accountant, 120, 6, 3)
    first, decades = (-2.0, 4.0) if count == 120 else (-1.0, 2.0)
    sigmas = [10 ** (first + decades * step / count) * mechanism.gamma for step in range(count)]
    epsilons = [epsilon_of(mechanism, sigma, 1e-6, accountant) for sigma in sigmas]
    assert all(after < before or before == after == 0 for before, after in itertools.pairwise(epsilons))
    assert epsilons[0] > 10
    assert len(set(epsilons)) > 0.8 * count


@pytest.mark.parametrize(("mechanism", "accountant"), MECHANISMS)
def test_delta_falls_with_epsilon_and_with_the_noise(mechanism, accountant):
    """On grids, down to the floor."""
    sigma, count = 0.5 * mechanism.gamma * mechanism.sensitivity, _count(mechanism, accountant, 40, 8, 3)
    over_epsilon = [delta_of(mechanism, sigma, 20 * step / count, accountant) for step in range(count)]
    over_noise = [
        delta_of(mechanism, 10 ** (4 * step / count - 1) * mechanism.gamma, 1.0, accountant)
        for step in range(count)
    ]
    for deltas in (over_epsilon, over_noise):
        assert all(after <= before for before, after in itertools.pairwise(deltas))
        assert deltas[-1] < deltas[0]


def test_the_curve_over_deltas_keeps_the_order_asked_for():
    """One guarantee per delta, in the order given, each as if asked alone."""
    deltas = [1e-5, 1e-9, 0.3, 1e-300]
    found = account_epsilon(SPARSE, 0.02, deltas, Accountant.RDP)
    assert [guarantee.delta for guarantee in found.guarantees] == deltas
    assert len(found.statements) == len(deltas)
    for guarantee in found.guarantees:
        assert guarantee.epsilon == epsilon_of(SPARSE, 0.02, guarantee.delta, Accountant.RDP)
    by_delta = [guarantee.epsilon for guarantee in sorted(found.guarantees, key=lambda g: g.delta)]
    assert by_delta == sorted(by_delta, reverse=True)


def test_epsilon_zero_is_accepted_and_means_total_variation():
    """The exact Gaussian at epsilon 0 has delta erf(mu / sqrt(8)); sparsified ones have a delta below 1."""
    (found,) = account_delta(Mechanism("gaussian"), 2.0, 0.0).guarantees
    assert found.delta == pytest.approx(math.erf(0.5 / math.sqrt(8)), rel=1e-12)
    assert 0 < delta_of(SPARSE, 0.05, 0.0, Accountant.RDP) < 1


def test_epsilon_zero_is_given_where_delta_covers_the_loss():
    """A negative value of the conversion is 0, with no sign and no notice."""
    (found,) = account_epsilon(SPARSE, 10.0, [0.5], Accountant.RDP).guarantees
    assert found.epsilon == 0.0
    assert math.copysign(1.0, found.epsilon) == 1.0
    assert found.notices == ()


def test_a_delta_below_the_floor_is_shown_as_the_floor():
    """1e-300 stands for everything smaller, and a notice says so."""
    for mechanism, sigma, accountant in (
        (Mechanism("gaussian"), 1.0, Accountant.EXACT),
        (SPARSE, 10.0, Accountant.RDP),
        (SPARSE, 1e9, Accountant.PAPER),
    ):
        (found,) = account_delta(mechanism, sigma, 1e4, accountant).guarantees
        assert found.delta == 1e-300
        assert [notice.slug for notice in found.notices] == ["delta-floor"]


@pytest.mark.parametrize("accountant", [Accountant.AUTO, Accountant.RDP, Accountant.PAPER])
@pytest.mark.parametrize("sigma", [1e-15, 1e-9, 1e-5])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_noise_that_proves_nothing_says_so(accountant, sigma, adjacency):
    """Delta 1 is no guarantee; epsilon is finite, between the divergence of one coordinate and order 2."""
    rounds = 10**9
    mechanism = Mechanism("l2-csgm", 0.3, Geometry(100.0), rounds, adjacency)
    (found,) = account_delta(mechanism, sigma, 0.0, accountant).guarantees
    assert found.delta == pytest.approx(1.0, abs=1e-9)
    if accountant is Accountant.PAPER:
        assert found.delta == 1.0
    expected = ["no-guarantee"] * (found.delta == 1.0)
    assert [notice.slug for notice in found.notices] == expected
    if accountant is Accountant.AUTO and adjacency is Adjacency.REPLACE_ONE:
        return  # a search of ten seconds
    gaussian = rounds / (2 * sigma**2)  # the Kullback-Leibler divergence of the Gaussian mechanism
    most = gaussian * (1 if adjacency is Adjacency.ADD_REMOVE else 4)
    most *= 1 if accountant is Accountant.AUTO else 2
    assert 0.99 * 0.3 * gaussian < epsilon_of(mechanism, sigma, 1e-6, accountant) < 1.01 * most


def test_the_far_ends_of_the_noise_have_answers():
    """From the smallest to the largest noise multiplier, and k = 1e12 coordinates."""
    for sigma in (1e-15, 1e-6, 1.0, 1e6, 1e18):
        for mechanism in (Mechanism("gaussian"), Mechanism("l2-csgm", 1e-9, Geometry(1e6), 10**9)):
            for delta in (1e-300, 1e-6, 1 - 1e-12):
                epsilon = epsilon_of(mechanism, sigma, delta, Accountant.AUTO)
                assert 0 <= epsilon < math.inf
            assert 1e-300 <= delta_of(mechanism, sigma, 1.0, Accountant.AUTO) <= 1


@pytest.mark.parametrize(
    ("mechanism", "accountant", "bound"),
    [
        (Mechanism("gaussian"), Accountant.AUTO, Bound.EXACT),
        (SPARSE, Accountant.RDP, Bound.RDP),
        (SPARSE, Accountant.PAPER, Bound.PAPER),
        (
            Mechanism("l2-csgm", 1 - 1e-12, Geometry(2.0), 1, "replace-one"),
            Accountant.AUTO,
            Bound.MASK_REVEALED,
        ),
    ],
)
def test_every_guarantee_names_what_it_rests_on(mechanism, accountant, bound):
    """Bound, order and conversion belong together in both directions."""
    for found in (
        account_epsilon(mechanism, 1.0 * mechanism.gamma, [1e-6], accountant),
        account_delta(mechanism, 1.0 * mechanism.gamma, 3.0, accountant),
    ):
        (guarantee,) = found.guarantees
        assert guarantee.bound is bound
        by_order = bound in (Bound.RDP, Bound.PAPER)
        assert (guarantee.order is not None) == by_order
        assert guarantee.conversion == (Conversion.CKS20 if by_order else None)
        assert "clipping-enforced" in guarantee.assumptions
        assert ("masks-secret" in guarantee.assumptions) == by_order
        assert (guarantee.lower_bound is None) == by_order
        if bound is Bound.EXACT:
            assert guarantee.lower_bound in (guarantee.epsilon, guarantee.delta)
        assert guarantee.verified is None


def test_the_accountant_is_resolved_only_where_all_rows_agree():
    """Rows by tight bounds and by revealed masks together stay auto; each alone is named."""
    mechanism = Mechanism("l2-csgm", 1 - 1e-6, Geometry(2.0))
    bounds = [account_epsilon(mechanism, 0.8, [delta]).guarantees[0].bound for delta in (1e-80, 1e-6)]
    assert bounds == [Bound.TIGHT_ADD, Bound.MASK_REVEALED]
    assert account_epsilon(mechanism, 0.8, [1e-80]).accountant is Accountant.TIGHT
    assert account_epsilon(mechanism, 0.8, [1e-80, 1e-6]).accountant is Accountant.AUTO


def test_noise_multiplier_is_sigma_over_l2_norm():
    """Sigma is in the units of the clip norm; scaling both changes nothing else."""
    found = account_epsilon(Mechanism("l2-csgm", 0.01, Geometry(1000.0, 5.0)), 0.1, [1e-8])
    assert found.noise_multiplier == pytest.approx(0.02, rel=1e-15)
    same = epsilon_of(SPARSE, 0.02, 1e-8, Accountant.AUTO)
    assert found.guarantees[0].epsilon == pytest.approx(same, rel=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e300])
def test_bad_noise_is_refused(bad):
    """NaN is not perfect privacy."""
    for call in (
        lambda: account_epsilon(SPARSE, bad, [1e-6]),
        lambda: account_delta(SPARSE, bad, 1.0),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.slug == "out-of-range"


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1e-6, 1.0, 2.0, 1e-301])
def test_bad_deltas_are_refused(bad):
    """Also when only one of several is bad."""
    for deltas in ([bad], [1e-6, bad]):
        with pytest.raises(UsageError) as caught:
            account_epsilon(SPARSE, 0.1, deltas)
        assert caught.value.slug == "out-of-range"
        assert "delta" in caught.value.message


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1e-9, 1.0001e4])
def test_bad_epsilons_are_refused(bad):
    """Epsilon is in [0, 1e4] here."""
    with pytest.raises(UsageError) as caught:
        account_delta(SPARSE, 0.1, bad)
    assert caught.value.slug == "out-of-range"


def test_no_delta_is_refused():
    """A curve of no points is a mistake."""
    with pytest.raises(UsageError) as caught:
        account_epsilon(SPARSE, 0.1, [])
    assert caught.value.slug == "missing-delta"


def test_tight_under_replace_one_is_the_triangle():
    """By either name, between its lower bound and the Renyi bound, without a notice."""
    replaced = dataclasses.replace(SPARSE, adjacency=Adjacency.REPLACE_ONE)
    for accountant in (Accountant.TIGHT, Accountant.AUTO):
        for found in (
            account_epsilon(replaced, 0.05, [1e-6], accountant).guarantees[0],
            account_delta(replaced, 0.05, 2.0, accountant).guarantees[0],
            calibrate(replaced, Target(2.0, 1e-6), accountant).guarantee,
        ):
            assert found.notices == ()
            assert found.bound is Bound.REPLACE_ONE
    [at] = account_epsilon(replaced, 0.05, [1e-6]).guarantees
    assert at.lower_bound < at.epsilon < epsilon_of(replaced, 0.05, 1e-6, Accountant.RDP)


def test_more_coordinates_than_float64_can_tell_orders_apart():
    """1e21 coordinate-rounds, whose best order is 1 but for rounding: nothing is proven, and that is said."""
    mechanism = Mechanism("linf-csgm", 0.1, Geometry(5.0, 1.0, 10**12), 10**9)
    (guarantee,) = account_delta(mechanism, 4.0, 0.2).guarantees
    assert guarantee.delta == 1.0
