"""The high-precision profile and bounds against printed values, other methods and theorems."""

import itertools
import math
import random

import mpmath
import numpy as np
import pytest
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtr

from csgm_cli.core import contour_oracle, law_oracle, oracle, profile_oracle
from csgm_cli.core.profile_oracle import Direction
from csgm_cli.errors import NoAnswerError, UsageError

INFINITE = math.inf


def relative(value, expected):
    """Relative difference, computed with more digits than any of the two has."""
    with mpmath.workdps(100):
        return float(abs(mpmath.mpmathify(value) / mpmath.mpmathify(expected) - 1))


def reference_parts(row):
    """The parts of kappa* of a reference row: whole coordinates and the rest of k, in every round."""
    with mpmath.workdps(60):
        t = 1 / mpmath.mpf(row["sigma_over_dinf"]) ** 2
        whole = math.floor(row["k"])
        parts = [(row["rounds"] * whole, t)]
        if row["k"] > whole:
            parts.append((row["rounds"], (mpmath.mpf(row["k"]) - whole) * t))
    return tuple(parts)


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
    monkeypatch.setattr(contour_oracle, "_MOST_NODES", 4000)
    with pytest.raises(NoAnswerError) as caught:
        profile_oracle.profile_delta(0.01, ((100, 2500.0),), "add", 1000.0)
    assert caught.value.slug == "oracle-not-converged"


# ---------------------------------------------------------------- test functions


def power_integral(power, r):
    """Integral of x^(power-1) from 1 to ``r``."""
    return np.log(r) if power == 0 else np.expm1(power * np.log(r)) / power


def add_phi(u, scale, knee, exponent):
    """The convex function with phi'' u = scale (u/knee)^-B from the knee on, 0 before: integrated by hand."""
    r = np.maximum(u / knee, 1.0)
    return scale * knee * (r * power_integral(-exponent, r) - power_integral(1 - exponent, r))


def remove_phi(u, scale, knee, exponent):
    """The one with phi(inf) = 0."""
    beyond = np.maximum(u / knee, 1.0) ** (1 - exponent) / (exponent * (exponent - 1))
    return scale * knee * (beyond + np.maximum(1 - u / knee, 0.0) / exponent)


def concave_phi(u, scale, knee, exponent):
    """The one with phi'' u = scale (u/knee)^-B' up to the knee, 0 beyond."""
    r = np.minimum(u / knee, 1.0)
    return scale * knee * (r * power_integral(-exponent, r) - power_integral(1 - exponent, r))


ADD_SHAPES = [
    (epsilon, exponent, r)
    for epsilon in (0.0, 0.3, 5.0)
    for exponent in (0, 1e-9, 0.4, 1, 1 + 1e-9, 2.5, 34, 500)
    for r in (1.001, 1.5, 20.0, INFINITE)
    if r < INFINITE or exponent > 1
]
REMOVE_SHAPES = [(epsilon, exponent) for epsilon in (0.0, 0.3, 5.0) for exponent in (1.001, 1.6, 3, 34, 500)]
CONCAVE_SHAPES = [
    (epsilon, exponent, r)
    for epsilon in (0.0, 0.3, 5.0)
    for exponent in (0, 1e-9, 0.4, 1, 1 + 1e-9, 4.6, 34)
    for r in (0.01, 0.3, 0.8, 0.999)
]


def floats(pair):
    """A pair of mpf as floats."""
    return tuple(map(float, pair))


def test_every_add_function_dominates_its_hockey_stick_and_touches_it():
    """phi >= (u - e^eps)_+ for u from 1e-6 to 1e6 strikes, with equality at r v."""
    for epsilon, exponent, r in ADD_SHAPES:
        scale, knee = floats(profile_oracle.add_shape(epsilon, exponent, r))
        strike = math.exp(epsilon)
        u = np.concatenate([strike * np.geomspace(1e-6, 1e6, 20001), np.linspace(0.5, 2, 5001) * strike])
        gap = add_phi(u, scale, knee, exponent) - np.maximum(u - strike, 0.0)
        assert (gap >= -1e-7 * (u + strike)).all(), (epsilon, exponent, r)
        assert knee < strike
        if r == INFINITE:
            continue
        touch = knee * r
        assert abs(add_phi(touch, scale, knee, exponent) - touch + strike) < 1e-6 * touch, (
            epsilon,
            exponent,
            r,
        )


def test_every_remove_function_dominates_its_hockey_stick_and_touches_it():
    """phi >= (1 - e^eps u)_+, with equality below v in one family and at r v in the other."""
    for epsilon, exponent in REMOVE_SHAPES:
        scale, knee = floats(profile_oracle.remove_shape(epsilon, exponent))
        u = math.exp(-epsilon) * np.geomspace(1e-6, 1e6, 20001)
        phi, line = remove_phi(u, scale, knee, exponent), 1 - math.exp(epsilon) * u
        assert (phi - np.maximum(line, 0.0) >= -1e-12).all(), (epsilon, exponent)
        assert np.allclose(phi[u < knee], line[u < knee], atol=1e-9, rtol=0)
    for epsilon, exponent, r in CONCAVE_SHAPES:
        scale, knee = floats(profile_oracle.concave_shape(epsilon, exponent, r))
        u = math.exp(-epsilon) * np.geomspace(1e-6, 1e6, 20001)
        with np.errstate(over="ignore"):
            phi, line = concave_phi(u, scale, knee, exponent), 1 - math.exp(epsilon) * u
        assert (phi - np.maximum(line, 0.0) >= -1e-7 * np.maximum(phi, 1)).all(), (epsilon, exponent, r)
        touch = concave_phi(r * knee, scale, knee, exponent)
        assert touch == pytest.approx(1 - math.exp(epsilon) * r * knee, abs=1e-6), (epsilon, exponent, r)


@pytest.mark.parametrize(
    ("phi", "shape", "shapes", "sign"),
    [
        (add_phi, profile_oracle.add_shape, ADD_SHAPES, 1),
        (remove_phi, profile_oracle.remove_shape, REMOVE_SHAPES, 1),
        (concave_phi, profile_oracle.concave_shape, CONCAVE_SHAPES, -1),
    ],
)
def test_curvature_is_monotone_as_the_cones_ask(phi, shape, shapes, sign):
    """By second differences W(u) u^B = phi'' u^(1+B) never falls (add, remove) or never rises (concave)."""
    for arguments in shapes:
        scale, knee = floats(shape(*arguments))
        exponent = arguments[1]
        if exponent > 10:  # too steep for second differences
            continue
        ratio, step = np.geomspace(0.3, 3.0, 300), 1e-3
        second = sum(
            w * phi(knee * ratio * (1 + j * step), scale, knee, exponent)
            for j, w in ((-1, 1), (0, -2), (1, 1))
        )
        lifted = second / step**2 / (knee * ratio) * ratio**exponent / scale
        inside = (ratio > 1.01) if sign > 0 else (ratio < 0.99)
        outside = (ratio < 0.99) if sign > 0 else (ratio > 1.01)
        assert np.allclose(lifted[inside], 1.0, rtol=5e-3, atol=5e-3), arguments
        assert np.allclose(lifted[outside], 0.0, atol=1e-4 * 3**exponent), arguments


# ---------------------------------------------------------------- bounds


def test_bounds_are_the_expectations_of_their_test_functions():
    """The contour integrals are E_Q[phi(e^L)]: two coordinates by a two-dimensional trapezoid rule."""
    gamma, t = 0.8, 0.16
    x = np.arange(-9.0, 12.0, 0.01)
    ratio, weight = (
        1 - gamma + gamma * np.exp(x * math.sqrt(t) - t / 2),
        np.exp(-x * x / 2) * 0.01 / math.sqrt(2 * math.pi),
    )
    u, mass = np.outer(ratio, ratio), np.outer(weight, weight)
    for epsilon, exponent, r in ((0.5, 0, 2.0), (0.5, 0.7, 1.3), (0.2, 1, 1.5), (1.0, 6, INFINITE)):
        shape = floats(profile_oracle.add_shape(epsilon, exponent, r))
        value = profile_oracle.cone_add(gamma, ((2, t),), epsilon, exponent, r, 9)
        assert relative(value, (mass * add_phi(u, *shape, exponent)).sum()) < 1e-6
    for epsilon, exponent in ((0.5, 6), (0.2, 30)):
        shape = floats(profile_oracle.remove_shape(epsilon, exponent))
        value = profile_oracle.cone_remove(gamma, ((2, t),), epsilon, exponent, 9)
        assert relative(value, (mass * remove_phi(u, *shape, exponent)).sum()) < 1e-6
    limit = np.exp(x * gamma * math.sqrt(2 * t) - gamma**2 * t)
    for epsilon, exponent, r in ((0.5, 0, 0.5), (0.5, 0.6, 0.7), (0.2, 1, 0.6), (1.0, 6, 0.8)):
        shape = floats(profile_oracle.concave_shape(epsilon, exponent, r))
        value = profile_oracle.concave_remove(gamma, 2 * t, epsilon, exponent, r, 9)
        assert relative(value, (weight * concave_phi(limit, *shape, exponent)).sum()) < 1e-5


@pytest.mark.parametrize("row", range(6))
def test_bounds_are_just_above_the_profile(reference, row):
    """Each bound without its error exceeds the profile, by up to 1.42 at B = 0, by 3 % where B is large."""
    case = reference["profile"][row]
    gamma, parts, epsilon = case["gamma"], reference_parts(case), case["epsilon"]
    add, remove = (profile_oracle.profile_delta(gamma, parts, d, epsilon, 8) for d in Direction)
    ratios = (1.038, 1.116, 1.2, 1.355, 1.65)
    flat = min(profile_oracle.cone_add(gamma, parts, epsilon, 0, r, 8) for r in ratios)
    assert 1.3 * add < flat < 1.42 * add
    large = 0.7 * (1 - gamma) / (2 * gamma)
    steep = min(profile_oracle.cone_add(gamma, parts, epsilon, large, r, 8) for r in ratios)
    assert add < steep < flat
    if gamma == 0.01:  # the saddle is far below B there
        assert steep < 1.03 * add
        assert remove < profile_oracle.cone_remove(gamma, parts, epsilon, large, 8) < 1.05 * remove


def test_the_concave_twin_is_as_tight_as_recorded():
    """At gamma 0.1, T = 100, k = 24414, epsilon 3 the twin with its error is 1.9 times the profile."""
    gamma, total, epsilon, s = 0.1, 2441400, 3.0, 1 / 217.28
    exact = profile_oracle.profile_delta(gamma, ((total, s * s),), "remove", epsilon, 8)
    z = 5.5 * s + s * s / 2
    exponent = profile_oracle.concave_exponent(gamma, z)
    value = profile_oracle.concave_remove(gamma, total * s * s, epsilon, exponent, 0.65, 8)
    error = profile_oracle.err_concave(z, s, total * s * s, gamma, epsilon, exponent, 0.65)
    assert relative(exact, 1e-5) < 1e-3
    assert error < 2e-3 * exact
    assert (value + error) / exact == pytest.approx(1.9, abs=0.02)


def test_admissible_exponents_are_those_of_the_posteriors():
    """At z = 0 both are (1-g)/(2g); hand-worked at odds 1/4 e^(+-log 2): posteriors 1/3 and 1/9."""
    for gamma in (0.01, 0.3, 1.0):
        expected = (1 - gamma) / (2 * gamma)
        assert profile_oracle.admissible_exponent(gamma, 0) == pytest.approx(expected, abs=1e-12)
        assert profile_oracle.concave_exponent(gamma, 0) == pytest.approx(expected, abs=1e-12)
    assert profile_oracle.admissible_exponent(0.2, math.log(2)) == pytest.approx(1.5 + 3 / 8 - 1)
    assert profile_oracle.concave_exponent(0.2, math.log(2)) == pytest.approx(4.5 - 0.5)
    assert profile_oracle.admissible_exponent(0.5, 30) == 0


def test_errors_are_the_formulas_by_hand():
    """2 k s^2 T times the largest W times the tail; none at exponent 0."""
    z, s, total, tail = 1.0, 0.25, 3.0, float(ndtr(-(1.0 - 0.03125) / 0.25))
    assert profile_oracle.err_add(z, s, total, 0, 1.3) == 0
    assert relative(profile_oracle.err_add(z, s, total, 3, INFINITE), 2 * 3 * 3 * tail) < 1e-12
    assert relative(profile_oracle.err_add(z, s, total, 2, 2), 2 * 3 * (2 / (1 - 0.25)) * tail) < 1e-12
    assert relative(profile_oracle.err_remove(z, s, total, 0.5, 3), 2 * 3 * 3 * math.exp(0.5) * tail) < 1e-12
    scale, knee = floats(profile_oracle.concave_shape(0.5, 4, 0.5))
    others = math.exp(4 * 3 / 2 * 0.01 * 3.0 / s**2 * math.expm1(s * s))
    expected = 2 * 3 * scale * knee**4 * 0.9**-8 * others * tail
    assert relative(profile_oracle.err_concave(z, s, total, 0.1, 0.5, 4, 0.5), expected) < 1e-12


def test_renyi_fallback_covers_random_vectors_and_is_never_above_the_plain_form():
    """sum_j K(-a; t_j) of spread, random and extreme vectors stays below the bound, kappa* within 4 %."""
    draw = random.Random(20)
    for gamma, s, k, order in ((0.1, 1.0, 4, 3.0), (0.3, 0.5, 6, 8.0), (0.05, 1.5, 3, 20.0)):
        bound = profile_oracle.renyi_remove(gamma, s, k * s * s, order, 10)
        plain = order * (order + 1) / 2 * gamma**2 * k * math.expm1(s * s)
        assert bound <= plain * (1 + 1e-9)
        vectors = [[1.0] * k, [k / (3 * k)] * (3 * k), [k / (40 * k)] * (40 * k)]
        vectors += [[min(1.0, share) for share in (draw.expovariate(1) for _ in range(k))] for _ in range(2)]
        for vector in vectors:
            scale = min(1.0, k / sum(vector))
            moment = {
                share: profile_oracle.complex_log_moment(-order, gamma, scale * share * s * s, 10).real
                for share in set(vector)
            }
            total = sum(moment[share] for share in vector)
            assert total <= bound
    assert (
        relative(profile_oracle.renyi_remove(0.1, 0.2, 1.0, 3.0), 6 * 0.01 * math.expm1(0.04) / 0.04) < 1e-12
    )


# ---------------------------------------------------------------- the theorems, by quadrature


class Pair:
    """Two coordinates at signals t1 >= t2 on a grid in (x1, x2): e^L, mass under Q, R_1^2 - R_2^2."""

    STEP = 0.06

    def __init__(self, gamma, t1, t2):
        x = np.arange(-8.5, 9.5 + math.sqrt(t1), self.STEP)
        weight = np.exp(-x * x / 2) * self.STEP / math.sqrt(2 * math.pi)
        sent = [gamma * np.exp(x * math.sqrt(t) - t / 2) for t in (t1, t2)]
        one, other = (1 - gamma + each for each in sent)
        self.u = np.outer(one, other)
        self.mass = np.outer(weight, weight)
        self.difference = ((sent[0] / one) ** 2)[:, None] - ((sent[1] / other) ** 2)[None, :]

    def slope(self, w):
        """E_P[(R_1^2 - R_2^2) w]: twice what moving signal from the second to the first gains."""
        return float((self.mass * self.u * self.difference * w).sum())

    def expectation(self, phi, history, *shape):
        """E_Q[phi(history e^L)]."""
        return float((self.mass * phi(history * self.u, *shape)).sum())


PAIRS = [
    (gamma, s, share, other)
    for gamma in (0.01, 0.2, 0.7)
    for s in (0.1, 1.0, 2.5)
    for share, other in ((1.0, 0.9), (1.0, 0.2), (0.5, 0.4), (0.1, 0.0))
]


def step_at(u, strike, width):
    """A smooth nondecreasing step of log u, from 0 to 1: sharp edges would cost the quadrature its digits."""
    return 1 / (1 + np.exp(-np.clip((np.log(u) - strike) / width, -700, 700)))


@pytest.mark.parametrize(("gamma", "s", "share", "other"), PAIRS)
def test_lemma(gamma, s, share, other):
    """E_P[(R_1^2 - R_2^2) w(Y_1 Y_2)] >= 0 for t1 >= t2 and nondecreasing w; < 0 for a decreasing w."""
    pair = Pair(gamma, share * s * s, other * s * s)
    spread = math.sqrt(float((pair.mass * np.log(pair.u) ** 2).sum()))
    for power in (0.0, 0.5, 2.0):
        assert pair.slope(np.minimum(pair.u, 1e3) ** power) >= -1e-12
    for strikes in (-3, -1, 0, 0.5, 1, 2, 4):
        assert pair.slope(step_at(pair.u, strikes * spread, 0.15 * s)) >= -1e-12
    assert pair.slope((pair.u / pair.u.min()) ** (-1.5 * (1 - gamma) / gamma)) < 0


MOVES = [
    (gamma, s, share, other)
    for gamma in (0.01, 0.2, 0.7)
    for s in (0.1, 1.0, 2.0)
    for share, other in ((0.9, 0.9), (0.6, 0.3))
]


@pytest.mark.parametrize(("gamma", "s", "share", "other"), MOVES)
def test_concentrating_a_pair_costs_privacy_up_to_the_error(gamma, s, share, other):
    """Moving signal to the larger of two coordinates raises E_Q[phi(c e^L)] to within c err, add and remove.

    At z = s/2 + s^2/2 most pairs are outside of the good set, at 3 s few; the history c puts the
    knee of phi at different quantiles of e^L.
    """
    amount = 0.9 * min(1 - share, other) * s * s
    before = Pair(gamma, share * s * s, other * s * s)
    after = Pair(gamma, share * s * s + amount, other * s * s - amount)
    spread = math.sqrt(float((before.mass * np.log(before.u) ** 2).sum()))
    for z in (0.5 * s + s * s / 2, 3 * s + s * s / 2):
        exponent = float(profile_oracle.admissible_exponent(gamma, z))
        cases = [
            (add_phi, profile_oracle.add_shape(0.1, exponent, 1.3), (exponent, 1.3), profile_oracle.err_add)
        ]
        if exponent > 1:
            shape = profile_oracle.remove_shape(0.1, exponent)
            cases.append((remove_phi, shape, (0.1, exponent), profile_oracle.err_remove))
        for (phi, shape, arguments, err), position in itertools.product(cases, (-1, 0, 2)):
            scale, knee = floats(shape)
            history = knee / math.exp(position * spread)
            gains = [pair.expectation(phi, history, scale, knee, exponent) for pair in (before, after)]
            assert gains[1] - gains[0] >= -history * (float(err(z, s, amount, *arguments)) + 1e-10)


@pytest.mark.parametrize(("gamma", "s", "share", "other"), MOVES)
def test_spreading_a_pair_costs_privacy_up_to_the_error_of_the_twin(gamma, s, share, other):
    """For the Schur-concave twin the opposite move raises E_Q[phi(c e^L)], to within its err."""
    amount = 0.9 * min(1 - share, other) * s * s
    after = Pair(gamma, share * s * s, other * s * s)
    before = Pair(gamma, share * s * s + amount, other * s * s - amount)
    spread = math.sqrt(float((before.mass * np.log(before.u) ** 2).sum()))
    for z in (0.5 * s + s * s / 2, 3 * s + s * s / 2):
        exponent = float(profile_oracle.concave_exponent(gamma, z))
        if exponent > 60:  # the function is 0 but for a few ulps
            continue
        scale, knee = floats(profile_oracle.concave_shape(0.1, exponent, 0.7))
        error = float(profile_oracle.err_concave(z, s, amount, gamma, 0.1, exponent, 0.7))
        for position in (-1, 0, 2):
            history = knee / math.exp(position * spread)
            gains = [
                pair.expectation(concave_phi, history, scale, knee, exponent) for pair in (before, after)
            ]
            assert gains[1] - gains[0] >= -(history ** (1 - exponent)) * error - 1e-10 * history


def test_cone_inequalities_fail_beyond_their_exponents():
    """With B a third above (1-g)/(2g), or B' a third below, the order of vectors is reversed."""
    gamma, s = 0.2, 0.2
    before, after = Pair(gamma, 0.6 * s * s, 0.3 * s * s), Pair(gamma, 0.8 * s * s, 0.1 * s * s)
    for factor, sign in ((4 / 3, -1), (2 / 3, 1)):
        exponent = factor * (1 - gamma) / (2 * gamma)
        values = [float((pair.mass * pair.u ** (1 - exponent)).sum()) for pair in (before, after)]
        assert sign * (values[1] - values[0]) > 1e-9  # phi = u^(1-B), convex for B > 1


def test_one_coordinate_is_a_plain_integral():
    """It is a little below the blurred function's contour integral: a blur of v adds scale v/2 at most."""
    law, digits, blur = law_oracle.Law(0.3, ((1, 0.25),), Direction.ADD), 15, 1e-4
    plain = profile_oracle.cone_add(0.3, ((1, 0.25),), 0.4, 0, 1.2, digits)
    blurred = contour_oracle.contour_integral(
        law, profile_oracle.add_kernel(0.4, 0, 1.2, digits, blur), digits
    )
    assert plain < blurred < plain + blur / (2 * mpmath.log(1.2))
