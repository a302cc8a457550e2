"""The analytic Gaussian mechanism against printed values, high precision and closed forms."""

import math
import random

import mpmath
import pytest

from csgm_cli import gaussian
from csgm_cli.verify.renyi import gaussian_delta, gaussian_epsilon

CLOSE = 1e-12  # relative, of mu: the safety margin is 2e-14


def relative(value, expected):
    """Signed relative difference, positive where ``value`` is the larger."""
    with mpmath.workdps(40):
        return float(mpmath.mpf(value) / mpmath.mpf(expected) - 1)


def random_targets(count, seed):
    """(epsilon, delta) over epsilon 1e-6..1e3 and delta 1e-300..1-1e-12."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        near_one = 1 - 10 ** rng.uniform(-12, 0)
        delta = rng.choice([10 ** rng.uniform(-300, 0), 10 ** rng.uniform(-12, 0), near_one])
        found.append((10 ** rng.uniform(-6, 3), min(max(delta, 1e-300), 1 - 1e-12)))
    return found


def test_printed_noise_multipliers(reference):
    """The eight reference values to 1e-9 (12 digits are reached), on the private side."""
    for row in reference["accounting"]["gaussian"]:
        mu = gaussian.mu_for(row["epsilon"], row["delta"])
        found = math.sqrt(row["rounds"]) / mu
        assert 0 <= relative(found, row["noise_multiplier"]) < CLOSE, row


@pytest.mark.parametrize(
    ("epsilon", "delta", "noise_multiplier"),
    [
        (20, 1e-8, 0.343777),
        (1, 1e-15, 7.487),
        (1, 1e-16, 7.774),
        (1, 1e-17, 8.052),
        (50, 1e-6, 0.15659),
        (1e4, 1e-8, 0.00735686),
        (1e-6, 1e-8, 1724094.5),
    ],
)
def test_targets_that_other_tools_get_wrong(epsilon, delta, noise_multiplier):
    """Published failures: too little noise at epsilon 20 and at delta 1e-15, the classic formula at 50."""
    assert 1 / gaussian.mu_for(epsilon, delta) == pytest.approx(noise_multiplier, rel=7e-5)


def test_mu_is_a_lower_bound_and_tight():
    """100 targets: the exact delta at mu is at most the target, at mu (1 + 1e-12) it is not."""
    for epsilon, delta in random_targets(100, seed=1):
        mu = gaussian.mu_for(epsilon, delta)
        assert gaussian_delta(mu, epsilon, 30) <= delta, (epsilon, delta)
        assert gaussian_delta(mu * (1 + CLOSE), epsilon, 30) > delta, (epsilon, delta)


def test_epsilon_is_an_upper_bound_and_tight():
    """100 points: at least the exact epsilon, at most that of mu (1 + 1e-12), and within 1e-8 of it."""
    rng = random.Random(2)
    for _, delta in random_targets(100, seed=3):
        mu = 10 ** rng.uniform(-7, 1.6)
        found = gaussian.epsilon_for(mu, delta)
        assert found >= gaussian_epsilon(mu, delta, 30), (mu, delta)
        assert found <= gaussian_epsilon(mu * (1 + CLOSE), delta, 30), (mu, delta)
        if found > 1e-4 * mu:  # below, epsilon is a small difference of large numbers
            assert relative(found, gaussian_epsilon(mu, delta, 30)) < 1e-8, (mu, delta)


def test_log_delta_is_an_upper_bound_and_tight():
    """100 points: at least the exact log delta, at most that of mu (1 + 1e-12), however small delta is."""
    rng = random.Random(4)
    for epsilon, _ in random_targets(100, seed=5):
        mu = 10 ** rng.uniform(-7, 1.6)
        found = gaussian.log_delta(mu, epsilon)
        with mpmath.workdps(120):  # where delta is 1 - 1e-87 its logarithm is -1e-87
            exact = mpmath.log(gaussian_delta(mu, epsilon, 120))
            later = mpmath.log(gaussian_delta(mu * (1 + CLOSE), epsilon, 120))
        assert exact <= found <= later, (mu, epsilon)


@pytest.mark.parametrize(
    ("mu", "delta"),
    [(1e-3, 1e-40), (1e-3, 1e-5), (0.1, 0.01), (1.0, 1e-8), (1.0, 0.3829), (6.0, 0.3), (30.0, 1e-8)],
)
def test_elasticity_is_the_slope_of_log_epsilon_in_log_mu(mu, delta):
    """Against the central difference of the oracle's epsilon; positive, as epsilon grows with mu."""
    epsilon = float(gaussian_epsilon(mu, delta, 40))
    found = gaussian.elasticity(mu, epsilon)
    with mpmath.workdps(40):
        step = mpmath.mpf("1e-12")
        up, down = (gaussian_epsilon(mu * (1 + sign * step), delta, 40) for sign in (1, -1))
        slope = mpmath.log(up / down) / mpmath.log((1 + step) / (1 - step))
    assert found > 0.0
    assert found == pytest.approx(float(slope), rel=1e-9)


@pytest.mark.parametrize("mu", [1e-12, 1e-3, 0.5, 3.0, 9.0])
def test_delta_without_epsilon_is_the_total_variation(mu):
    """At epsilon = 0 delta = erf(mu / sqrt(8)), and no epsilon is needed above that delta."""
    total = math.erf(mu / math.sqrt(8))
    assert math.exp(gaussian.log_delta(mu, 0.0)) == pytest.approx(total, rel=1e-12)
    assert gaussian.epsilon_for(mu, total * (1 + 1e-11)) == 0.0
    assert gaussian.epsilon_for(mu, total * (1 - 1e-11)) > 0.0


def test_the_two_directions_agree():
    """epsilon_for undoes mu_for up to the rounding on either side."""
    for epsilon, delta in [(1e-6, 1e-300), (1e-3, 1e-9), (1.0, 1e-5), (30.0, 0.1), (1e3, 1e-40)]:
        mu = gaussian.mu_for(epsilon, delta)
        assert gaussian.epsilon_for(mu, delta) == pytest.approx(epsilon, rel=1e-11)
        assert gaussian.log_delta(mu, epsilon) == pytest.approx(math.log(delta), rel=1e-11)


def test_delta_never_exceeds_one():
    """At a hopeless signal log delta is 0, not above, and not NaN."""
    for mu in (30.0, 1e4, 1e9):
        assert -1e-30 <= gaussian.log_delta(mu, 1e-3) <= 0.0


def test_epsilon_of_a_hopeless_signal_is_large_and_right():
    """For large mu epsilon tends to mu^2/2 + mu sqrt(2 log(1/delta)) from below, to first order."""
    mu, delta = 1e6, 1e-5
    exact = gaussian_epsilon(mu, delta, 30)
    assert 0 <= relative(gaussian.epsilon_for(mu, delta), exact) < CLOSE


@pytest.mark.parametrize("argument", [0.0, 0.3, 5.999, 6.0, 6.001, 40.0, 1e4, 1e8])
def test_mills_ratio(argument):
    """Phi(-u)/phi(u) by mpmath, across the change of method at 6."""
    with mpmath.workdps(40):
        exact = mpmath.ncdf(-argument) / mpmath.npdf(argument)
        assert abs(mpmath.mpf(gaussian.mills(argument)) / exact - 1) < 1e-14
