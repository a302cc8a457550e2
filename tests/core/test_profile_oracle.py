"""The high-precision log-moment and profile against printed values, other methods and theorems."""

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from csgm_cli.core import contour_oracle, law_oracle, oracle, profile_oracle
from csgm_cli.core.profile_oracle import Direction
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.jobs.account import account_delta
from csgm_cli.model.mechanism import Geometry, Mechanism
from tests.core.printed_values import reference_parts, relative


def bracket(gamma, parts, direction, epsilon, step, top):
    """Delta from below and above: each coordinate's loss is rounded down, then up, to a grid up to ``top``.

    The laws (of the world where the loss counts) are convolved by FFT. The losses of more than 16
    coordinates wrap around at ``top``, which they must practically never reach.
    """
    count, low, add = sum(n for n, _ in parts), math.log1p(-gamma), direction == "add"
    cells = int((top - low) / step) + 1
    size = next_fast_len(count * cells if count <= 16 else int((top - count * low) / step))
    transform = 1.0
    for n, t in parts:
        root, likelihood = math.sqrt(t), (np.expm1(low + step * np.arange(cells + 1)) + gamma) / gamma
        with np.errstate(divide="ignore"):
            x = (np.log(np.maximum(likelihood, 0.0)) + t / 2) / root
        below = (1 - gamma) * ndtr(x) + gamma * ndtr(x - root) if add else ndtr(x)
        below[-1] = 1.0
        transform = transform * rfft(np.diff(below), size) ** n
    law, loss = np.maximum(irfft(transform, size), 0.0), count * low + step * np.arange(size)
    ends = []
    for rounded in (loss, loss + count * step):
        exponent = epsilon - rounded if add else epsilon + rounded
        ends.append(float(law @ np.maximum(-np.expm1(np.minimum(exponent, 1.0)), 0.0)))
    return min(ends), max(ends)


# ---------------------------------------------------------------- log-moment at complex orders


@pytest.mark.parametrize(
    ("order", "gamma", "t"), [(2.5, 0.01, 1.0), (17, 0.3, 0.04), (300.5, 1e-6, 1e-3), (2, 1e-9, 1e-30)]
)
def test_real_orders_agree_with_the_oracle_of_real_orders(order, gamma, t):
    """At real orders K is that of the older oracle, down to 1e-48, and real."""
    value = profile_oracle.complex_log_moment(order, gamma, t)
    assert relative(value.real, oracle.log_moment(order, gamma, t)) < 1e-19
    assert value.imag == 0


@pytest.mark.parametrize(
    ("order", "gamma", "t"),
    [
        (2 + 3j, 0.1, 0.5),
        (-4.5 + 20j, 0.3, 0.2),
        (-2 - 1j, 0.9, 1.5),
        (1.5 + 40j, 0.02, 0.8),
        (5 + 3j, 0.999, 1),
    ],
)
def test_complex_orders_agree_with_the_definition(order, gamma, t):
    """A library quadrature of E[Y^a] over many short pieces gives the same 18 digits."""
    with mpmath.workdps(35):
        a, g, root = mpmath.mpc(order), mpmath.mpf(gamma), mpmath.sqrt(t)

        def weighted(x):
            return (1 - g + g * mpmath.exp(x * root - root**2 / 2)) ** a * mpmath.npdf(x)

        low, high = min(0, order.real) * float(root) - 12, max(0, order.real) * float(root) + 12
        pieces = [mpmath.mpf(j) / 2 for j in range(math.floor(2 * low), math.ceil(2 * high))]
        expected = mpmath.log(mpmath.quad(weighted, pieces, maxdegree=5))
    value = profile_oracle.complex_log_moment(order, gamma, t)
    assert float(abs(value - expected) / abs(expected)) < 1e-18


@pytest.mark.parametrize(
    ("order", "gamma", "t"),
    [
        (6000, 1.5e-6, 0.00025),
        (60, 1e-6, 1.0),
        (27, 1e-6, 1.0),
        (28, 1e-6, 1.0),
        (3, 1e-9, 25.0),
        (2, 0.5, 1e-3),
    ],
)
def test_far_orders_are_binomial_sums(order, gamma, t):
    """Where only the bump at 0 counts, or one that orders move away as well, or both about alike."""
    with mpmath.workdps(45):
        g, term, total = mpmath.mpf(gamma), (1 - mpmath.mpf(gamma)) ** order, mpmath.mpf(0)
        for k in range(order + 1):
            total += term * mpmath.expm1(k * (k - 1) * mpmath.mpf(t) / 2)
            term *= g / (1 - g) * (order - k) / (k + 1)
        expected = mpmath.log1p(total)
    value = profile_oracle.complex_log_moment(order, gamma, t)
    assert float(abs(value - expected) / expected) < 1e-18


def test_far_orders_that_move_nothing_are_verified():
    """Orders near 1e4 that leave the Gaussian where it is: they once took 1e5 steps."""
    mechanism = Mechanism("l2-csgm", 1.5e-6, Geometry(math.sqrt(22)), 552_965)
    [guarantee] = account_delta(mechanism, 13.5, 9e-6, verify=True).guarantees
    assert 0 < guarantee.verified.relative_difference < 2e-5


def test_gamma_one_is_lognormal_at_complex_orders():
    """Without a mask E[Y^a] = exp(a(a-1)t/2), even where that is 1e-40 of E[Y^(Re a)]."""
    for order, t in ((2 + 13.6j, 1.0), (-3 + 2j, 0.25)):
        with mpmath.workdps(60):
            moment = mpmath.exp(mpmath.mpc(order) * (mpmath.mpc(order) - 1) * t / 2)
            found = mpmath.exp(profile_oracle.complex_log_moment(order, 1.0, t, 30))
            assert abs(found / moment - 1) < 1e-28


def test_conjugate_orders_have_conjugate_moments_and_trivial_ones_none():
    """Y is real and positive; E[Y^0] = E[Y] = 1 = Y at t = 0."""
    with mpmath.workdps(40):
        one, other = (profile_oracle.complex_log_moment(2 + y * 1j, 0.1, 0.5) for y in (9, -9))
        assert abs(one - other.conjugate()) < 1e-24
    for order, t in ((0, 1.0), (1, 1.0), (3 + 1j, 0.0)):
        assert profile_oracle.complex_log_moment(order, 0.1, t) == 0


# ---------------------------------------------------------------- profile


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_reference_profiles(reference, direction):
    """Every printed delta at kappa* is met, in both directions."""
    for row in reference["profile"]:
        value = profile_oracle.profile_delta(row["gamma"], reference_parts(row), direction, row["epsilon"])
        assert relative(value, row[f"delta_{direction}"]) < max(1e-9, 10 * row["self_convergence"]), row


@pytest.mark.parametrize(("count", "t", "epsilon"), [(5, 0.2, 3.0), (1, 1.0, 0.5), (10**6, 1e-8, 0.7)])
def test_gamma_one_is_the_gaussian_mechanism(count, t, epsilon):
    """Without a mask both directions are the analytic Gaussian profile."""
    with mpmath.workdps(40):
        expected = oracle.gaussian_delta(mpmath.sqrt(count * mpmath.mpf(t)), epsilon, 30)
    for direction in Direction:
        value = profile_oracle.profile_delta(1.0, ((count, t),), direction, epsilon)
        assert relative(value, expected) < 1e-19


@pytest.mark.parametrize(
    ("gamma", "t", "direction", "epsilon"),
    [(0.01, 1.0, "add", 0.5), (0.3, 4.0, "add", 2.0), (0.3, 0.5, "remove", 0.2), (0.9, 1.0, "remove", 2.0)],
)
def test_one_coordinate_is_the_hockey_stick_integral(gamma, t, direction, epsilon):
    """A library quadrature of the two densities, from where they balance, gives the closed form."""
    with mpmath.workdps(35):
        g, root = mpmath.mpf(gamma), mpmath.sqrt(mpmath.mpf(t))
        balance = mpmath.exp(epsilon if direction == "add" else -epsilon)
        edge = (mpmath.log((balance - 1 + g) / g) + root**2 / 2) / root

        def present(x):
            return (1 - g) * mpmath.npdf(x) + g * mpmath.npdf(x - root)

        def gain(x):
            if direction == "add":
                return present(x) - mpmath.exp(epsilon) * mpmath.npdf(x)
            return mpmath.npdf(x) - mpmath.exp(epsilon) * present(x)

        away = 1 if direction == "add" else -1
        expected = away * mpmath.quad(gain, [edge + away * j for j in range(22)])
    assert relative(profile_oracle.profile_delta(gamma, ((1, t),), direction, epsilon), expected) < 1e-18


@pytest.mark.parametrize(
    ("gamma", "parts", "direction", "epsilon", "digits"),
    [
        (0.5, ((2, 0.09),), "add", 0.9, 16),
        (0.5, ((2, 0.09),), "remove", 0.8, 16),
        (0.7, ((1, 0.3), (1, 0.1)), "add", 1.0, 16),
        (0.7, ((1, 0.3), (1, 0.1)), "remove", 1.5, 16),
        (0.5, ((3, 0.1),), "add", 1.0, 4),
        (0.6, ((2, 0.1), (1, 0.05)), "remove", 1.0, 4),
    ],
)
def test_contour_and_conditioning_agree(gamma, parts, direction, epsilon, digits):
    """The contour integral is the quadrature over all coordinates but one, which shares no step with it."""
    law = law_oracle.Law(gamma, parts, Direction(direction))
    contour = contour_oracle.contour_integral(law, law_oracle.hockey_stick(epsilon), 18)
    conditional = profile_oracle.conditional_delta(gamma, parts, direction, epsilon, digits)
    assert relative(contour, conditional) < 10.0**-digits


@pytest.mark.parametrize(
    ("gamma", "parts", "direction", "epsilon", "step", "top"),
    [
        (0.01, ((300, 1.0),), "add", 1.0, 1e-5, 12.0),
        (0.1, ((40, 0.25), (1, 0.1)), "remove", 1.0, 1e-4, 8.0),
        (0.1, ((40, 0.25), (1, 0.1)), "add", 2.0, 1e-4, 20.0),
        (0.3, ((12, 1.0),), "remove", 2.0, 1e-4, 8.0),
        (0.01, ((2, 1.0),), "add", 0.5, 1e-4, 8.0),
        (0.2, ((2, 9.0),), "add", 1.0, 1e-3, 30.0),
    ],
)
def test_profile_lies_in_the_bracket_of_a_loss_grid(gamma, parts, direction, epsilon, step, top):
    """Rounding every loss down and up encloses delta, and the middle is 1e-3 from it."""
    low, high = bracket(gamma, parts, direction, epsilon, step, top)
    value = float(profile_oracle.profile_delta(gamma, parts, direction, epsilon, 8))
    assert low < value < high
    assert abs((low + high) / 2 - value) < 1e-3 * value


def test_the_corner_where_a_fixed_recipe_is_wrong():
    """Few rarely sent coordinates: 1.971908e-5, where 11 standard deviations of contour give 1.8946e-5."""
    value = profile_oracle.profile_delta(0.01, ((300, 1.0),), "add", 1.0, 10)
    assert relative(value, 1.971908e-5) < 1e-6
    value = profile_oracle.profile_delta(0.01, ((1, 1.0),), "add", 0.5)
    assert relative(value, 2.22e-7) < 3e-3


def test_kappa_star_is_not_the_worst_vector():
    """Five equal coordinates have a larger delta than four at the clip: 0.1353 against 0.1307."""
    t = 1 / 0.3**2
    _, few = bracket(0.05, ((4, t),), "add", 0.5, 1e-4, 12.0)
    spread, _ = bracket(0.05, ((5, 4 * t / 5),), "add", 0.5, 2e-4, 12.0)
    assert few == pytest.approx(0.1307, abs=5e-5)
    assert spread == pytest.approx(0.1353, abs=5e-5)


SETTINGS = [
    (1e-3, ((1e12, 1e-12),), "add", 1e-5),
    (1e-3, ((1e12, 1e-12),), "remove", 1e-5),
    (0.01, ((1e12, 1e-10),), "add", 2),
    (0.01, ((1e12, 1e-10),), "remove", 4),
    (0.01, ((2441400, 1 / 23.3**2),), "add", 12),
    (0.01, ((2441400, 1 / 23.3**2),), "remove", 24),
    (0.5, ((1000, 4),), "add", 900),
    (0.5, ((1000, 4),), "remove", 300),
    (0.999, ((10, 0.1),), "remove", 2),
    (0.1, ((100, 1),), "add", 0),
    (0.1, ((100, 1),), "remove", 0),
    (0.01, ((300, 1),), "remove", 1),
    (0.9, ((400, 0.04), (3, 1e-9)), "add", 80),
    (1 - 1e-9, ((50, 0.01),), "remove", 5),
    (1e-4, ((10**9, 0.04), (10**5, 0.001)), "add", 2),
    (0.3, ((7, 0.01),), "add", 0.2),
]


@pytest.mark.parametrize(("gamma", "parts", "direction", "epsilon"), SETTINGS)
def test_more_digits_confirm_the_digits_of_fewer(gamma, parts, direction, epsilon):
    """From delta 0.98 to 1e-300 and k T = 1e12, 15 digits are the first 15 of 28."""
    value, more = (
        profile_oracle.profile_delta(gamma, parts, direction, epsilon, digits) for digits in (15, 28)
    )
    assert 0 < value <= 1
    assert relative(value, more) < 1e-15


def test_remove_is_zero_beyond_any_loss():
    """Removing cannot lose more than -log(1 - gamma) per coordinate; below that delta is positive."""
    most = -2 * math.log1p(-0.05)
    assert profile_oracle.profile_delta(0.05, ((2, 1.0),), "remove", most * 1.0001) == 0
    assert profile_oracle.profile_delta(0.05, ((2, 1.0),), "remove", most * 0.5) > 0
    assert profile_oracle.profile_delta(0.05, ((200, 1.0),), "remove", 100 * most * 1.0001) == 0


def test_both_directions_agree_at_epsilon_zero():
    """The total variation has no direction."""
    one, other = (profile_oracle.profile_delta(0.1, ((100, 1.0),), direction, 0) for direction in Direction)
    assert relative(one, other) < 1e-19


@pytest.mark.parametrize(
    "arguments",
    [
        (0.0, ((3, 1.0),), "add", 1.0),
        (0.1, (), "add", 1.0),
        (0.1, ((2.5, 1.0),), "add", 1.0),
        (0.1, ((3, 0.0),), "add", 1.0),
        (0.1, ((3, 1.0),), "remove", -1.0),
        (0.1, ((3, math.nan),), "remove", 1.0),
    ],
)
def test_profile_refuses_what_it_is_not_defined_for(arguments):
    """Fractional counts, no signal, negative epsilon, NaN and gamma = 0 are usage errors."""
    with pytest.raises(UsageError):
        profile_oracle.profile_delta(*arguments)


def test_an_endless_contour_is_no_answer(monkeypatch):
    """Where the integrand does not decay, no number is returned."""
    monkeypatch.setattr(contour_oracle, "_MUCH", dataclasses.replace(contour_oracle._MUCH, nodes=4000))
    monkeypatch.setattr(contour_oracle, "split_laws", lambda law, kernel, error: ([], kernel))
    with pytest.raises(NoAnswerError) as caught:
        profile_oracle.profile_delta(0.01, ((100, 2500.0),), "add", 1000.0)
    assert caught.value.slug == "oracle-not-converged"
