"""Which bound an accountant uses, and the oracle's takeover where float64 cannot be trusted."""

import math

import mpmath
import pytest

from csgm_cli.core import bounds, oracle
from csgm_cli.core.bounds import bounds_of, resolved, spent_delta, spent_epsilon, total_mu
from csgm_cli.core.verify import AGREEMENT
from csgm_cli.errors import UsageError
from csgm_cli.jobs.account import account_delta, account_epsilon
from csgm_cli.jobs.calibrate import calibrate, least_sigma
from csgm_cli.model.mechanism import Accountant, Bound, Geometry, Mechanism, Target
from csgm_cli.renyi.conversion import best_epsilon
from csgm_cli.renyi.curves import renyi_curve

SPARSE = Mechanism("l2-csgm", 0.1, Geometry(3.0, dim=20))
DENSE = Mechanism("gaussian")


def relative(value, expected):
    """Signed relative difference in more digits than either has."""
    with mpmath.workdps(60):
        return float(mpmath.mpf(value) / mpmath.mpf(expected) - 1)


# ---------------------------------------------------------------- the table of accountants


@pytest.mark.parametrize(
    ("mechanism", "accountant", "expected"),
    [
        (DENSE, Accountant.AUTO, (Bound.EXACT,)),
        (DENSE, Accountant.EXACT, (Bound.EXACT,)),
        (DENSE, Accountant.RDP, (Bound.RDP,)),
        (DENSE, Accountant.PAPER, (Bound.PAPER,)),
        (Mechanism("l2-csgm", 1.0, Geometry(3.0)), Accountant.AUTO, (Bound.EXACT,)),
        (Mechanism("l2-csgm", 1.0, Geometry(3.0)), Accountant.EXACT, (Bound.EXACT,)),
        (SPARSE, Accountant.AUTO, (Bound.RDP, Bound.MASK_REVEALED)),
        (SPARSE, Accountant.RDP, (Bound.RDP,)),
        (SPARSE, Accountant.PAPER, (Bound.PAPER,)),
    ],
)
def test_the_table_of_accountants(mechanism, accountant, expected):
    """The table of the documentation, row by row."""
    assert bounds_of(mechanism, accountant) == expected


@pytest.mark.parametrize(
    ("mechanism", "accountant", "slug"),
    [
        (SPARSE, Accountant.EXACT, "no-exact-accountant"),
    ],
)
def test_what_the_table_does_not_have_is_refused(mechanism, accountant, slug):
    """A usage error that names the reason."""
    with pytest.raises(UsageError) as caught:
        bounds_of(mechanism, accountant)
    assert caught.value.slug == slug


def test_resolved_names_an_accountant_that_gives_the_same_answer():
    """auto resolves to exact or rdp; revealed masks are auto's alone."""
    assert resolved(DENSE, Accountant.AUTO, Bound.EXACT) is Accountant.EXACT
    assert resolved(SPARSE, Accountant.AUTO, Bound.RDP) is Accountant.RDP
    assert resolved(SPARSE, Accountant.AUTO, Bound.MASK_REVEALED) is Accountant.AUTO
    assert resolved(SPARSE, Accountant.PAPER, Bound.PAPER) is Accountant.PAPER


def test_total_mu_by_hand():
    """Sensitivity sqrt(rounds) / sigma, twice that under replace-one, sqrt(d) Delta_inf for L-inf-CSGM."""
    geometry = Geometry(4.0, 2.0, dim=64)
    assert total_mu(Mechanism("l2-csgm", 0.1, geometry, 9), 3.0) == 2.0
    assert total_mu(Mechanism("l2-csgm", 0.1, geometry, 9, "replace-one"), 3.0) == 4.0
    assert total_mu(Mechanism("linf-csgm", 0.1, geometry, 9), 3.0) == 4.0


@pytest.mark.parametrize("bound", [Bound.RDP, Bound.PAPER, Bound.MASK_REVEALED])
def test_both_directions_are_rounded_up(bound):
    """Each number is at least the oracle's at the same order, and within 1e-9 of it."""
    for sigma in (0.05, 0.4, 3.0):
        spent = spent_epsilon(SPARSE, bound, sigma, 1e-6)
        exact = oracle.epsilon(SPARSE, sigma, 1e-6, spent.order, bound)
        assert 0 <= relative(spent.value, exact) < 1e-9
        spent = spent_delta(SPARSE, bound, sigma, 2.0)
        exact = oracle.delta(SPARSE, sigma, 2.0, spent.order, bound)
        assert -1e-30 <= relative(spent.value, exact) < 1e-9  # a delta of 1 is 1


# ---------------------------------------------------------------- the takeover

# At each of these a float64 epsilon is a small difference of large numbers.
TAKEOVERS = {
    "a billion coordinates, order 6e7": (
        Mechanism("l2-csgm", 0.01, Geometry(math.sqrt(1e9))),
        606518.95,
        1e-8,
        Accountant.RDP,
    ),
    "delta close to 1, order 1 + 1e-6": (
        Mechanism("l2-csgm", 0.01, Geometry(1000.0)),
        0.0020218667706,
        0.999999,
        Accountant.RDP,
    ),
    "a thousand replaced rounds": (
        Mechanism("l2-csgm", 0.1, Geometry(100.0), 1000, "replace-one"),
        3.091334,
        0.9,
        Accountant.RDP,
    ),
    "the plain Gaussian by Renyi orders": (Mechanism("gaussian"), 0.48878163, 0.9, Accountant.RDP),
    "two million coordinates of L-inf-CSGM": (
        Mechanism("linf-csgm", 0.01, Geometry(1000.0, dim=2_000_000)),
        0.00277796075,
        0.999999,
        Accountant.RDP,
    ),
    "integer orders": (
        Mechanism("l2-csgm", 0.1, Geometry(10.0)),
        0.17,
        0.3,
        Accountant.PAPER,
    ),
}


@pytest.mark.parametrize("name", TAKEOVERS)
def test_the_oracle_takes_over_where_float64_cannot_be_trusted(name):
    """The error estimate exceeds 1e-9, the notice says so, and 12 digits are those of 50-digit arithmetic."""
    mechanism, sigma, delta, accountant = TAKEOVERS[name]
    sigma = just_above_zero(mechanism, sigma, delta, accountant)
    point = best_epsilon(renyi_curve(mechanism, Bound(accountant.value)), sigma, math.log(delta))
    assert point.error > bounds.TRUST * point.value > 0
    (found,) = account_epsilon(mechanism, sigma, [delta], accountant).guarantees
    assert [notice.slug for notice in found.notices] == ["high-precision"]
    exact = oracle.epsilon(mechanism, sigma, delta, found.order, found.bound, 50)
    assert 0 <= relative(found.epsilon, exact) < 1e-12
    assert 0 < found.epsilon < 1e-4


def just_above_zero(mechanism, near, delta, accountant):
    """The largest sigma found whose epsilon is positive and doubtful, by bisection from ``near``."""

    def doubt(sigma):
        point = best_epsilon(renyi_curve(mechanism, Bound(accountant.value)), sigma, math.log(delta))
        return point.value, point.error > bounds.TRUST * point.value

    low, high = near, near
    while doubt(low)[0] <= 0:
        low *= 0.9
    while doubt(high)[0] > 0:
        high *= 1.1
    while True:
        middle = math.sqrt(low * high)
        value, doubtful = doubt(middle)
        if value > 0 and doubtful:
            return middle
        low, high = (middle, high) if value > 0 else (low, middle)
        assert high / low - 1 > 1e-15


@pytest.mark.parametrize("name", TAKEOVERS)
def test_what_float64_is_still_trusted_with_passes_verification(name):
    """Noises close to the takeover on its other side: the added error keeps within what --verify accepts."""
    mechanism, sigma, delta, accountant = TAKEOVERS[name]
    edge = just_above_zero(mechanism, sigma, delta, accountant)
    trusted = 0
    for step in range(40):
        smaller = edge * (1 - 1e-14 * 2.0**step)
        (found,) = account_epsilon(mechanism, smaller, [delta], accountant, verify=True).guarantees
        trusted += not found.notices and found.verified.relative_difference > 1e-11
    assert trusted >= 3
    assert 2 * bounds.TRUST < AGREEMENT  # value + error when the value was itself an error too high


def test_calibration_next_to_where_delta_covers_all():
    """Target epsilon 1e-6 at delta 0.7: calibrate itself hands over, and its answer stands in 50 digits."""
    mechanism, target = Mechanism("l2-csgm", 1e-7, Geometry(20.0), 2000), Target(1e-6, 0.7)
    found = calibrate(mechanism, target, Accountant.PAPER, verify=True)
    assert [notice.slug for notice in found.guarantee.notices] == ["high-precision"]
    assert found.guarantee.verified.relative_difference < 1e-12
    assert found.guarantee.epsilon <= 1e-6


@pytest.mark.parametrize("accountant", [Accountant.RDP, Accountant.PAPER])
def test_the_oracle_alone_gives_what_float64_gives(monkeypatch, accountant):
    """With no trust in float64 at all, every evaluation goes to the oracle and the answers agree."""
    mechanism, target = Mechanism("l2-csgm", 0.02, Geometry(7.7)), Target(1.5, 1e-7)
    bound = Bound(accountant.value)
    sigma = least_sigma(mechanism, bound, target)
    epsilon, delta = (
        spent_epsilon(mechanism, bound, sigma, 1e-7),
        spent_delta(mechanism, bound, sigma, 1.5),
    )
    monkeypatch.setattr(bounds, "TRUST", 0.0)
    monkeypatch.setattr("csgm_cli.renyi.renyi_noise.TRUST", 0.0)
    assert least_sigma(mechanism, bound, target) == pytest.approx(sigma, rel=2e-12)
    sure = spent_epsilon(mechanism, bound, sigma, 1e-7), spent_delta(mechanism, bound, sigma, 1.5)
    for one, other in zip(sure, (epsilon, delta), strict=True):
        assert one.high_precision
        assert not other.high_precision
        assert one.value == pytest.approx(other.value, rel=1e-11)
        assert one.value <= other.value
    (shown,) = account_delta(mechanism, sigma, 1.5, accountant).guarantees
    assert [notice.slug for notice in shown.notices] == ["high-precision"]


def test_takeovers_are_not_needed_in_ordinary_use():
    """No notice over a spread of ordinary settings."""
    for gamma in (1e-3, 0.1, 0.9):
        for ratio in (1.0, 156.25, 1e4):
            mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), 10)
            for epsilon, delta in ((0.1, 1e-9), (8.0, 1e-5)):
                found = calibrate(mechanism, Target(epsilon, delta))
                assert not found.notices


# ---------------------------------------------------------------- delta next to 1


def test_a_delta_next_to_one_is_the_smallest_float_that_is_not_below():
    """A printed delta that a target holds is never shown as a breach of it: 200 logs from -0.5 to -1e-17."""
    for step in range(200):
        log_delta = -0.5 * 10 ** (-step / 12)
        found = bounds._delta_from_log(log_delta)
        with mpmath.workdps(40):
            exact = mpmath.exp(mpmath.mpf(log_delta))
            assert found >= exact
            assert math.nextafter(found, 0.0) <= exact + 2.0**-51 * (1 - exact)  # room for expm1


def test_noise_for_a_delta_next_to_one_meets_it():
    """Account, asked for delta at the calibrated noise, stays at the target to the last digit or two."""
    for gap in (1e-3, 3e-6, 1e-8):
        for epsilon in (1e-4, 0.5, 5.0):
            mechanism, target = Mechanism("l2-csgm", 0.01, Geometry(20.0)), Target(epsilon, 1 - gap)
            sigma = calibrate(mechanism, target, Accountant.RDP).sigma
            delta = account_delta(mechanism, sigma, epsilon, Accountant.RDP).guarantees[0].delta
            assert delta <= target.delta
