"""The high-precision upper bounds over all vectors, and the test functions that they are expectations of."""

import math
import random

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from csgm_cli.core import contour_oracle, law_oracle, profile_oracle
from csgm_cli.core.profile_oracle import Direction
from tests.core.cone_functions import (
    ADD_SHAPES,
    CONCAVE_SHAPES,
    INFINITE,
    REMOVE_SHAPES,
    add_phi,
    concave_phi,
    floats,
    remove_phi,
)
from tests.core.printed_values import reference_parts, relative


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


@pytest.mark.parametrize("exponent", [0, 0.5, 1, 6])
def test_one_coordinate_is_a_plain_integral(exponent):
    """It is a little below the blurred function's contour integral: a blur of v adds scale v/2 at most."""
    law, digits, blur = law_oracle.Law(0.3, ((1, 0.25),), Direction.ADD), 15, 1e-4
    plain = profile_oracle.cone_add(0.3, ((1, 0.25),), 0.4, exponent, 1.2, digits)
    blurred = contour_oracle.contour_integral(
        law, profile_oracle.add_kernel(0.4, exponent, 1.2, digits, blur), digits
    )
    scale, _ = profile_oracle.add_shape(0.4, exponent, 1.2, digits)
    assert plain < blurred < plain + blur * scale / 2


@pytest.mark.parametrize("s", [0.5, 0.113, 0.0645])
def test_one_coordinate_keeps_its_digits_far_out(s):
    """It mixes hockey-sticks, which are closed forms, at strikes dy/y; down to 1e-300."""
    gamma, epsilon, r = 0.2, 1.0, 1.007
    scale, knee = profile_oracle.add_shape(epsilon, 0, r, 40)

    def hockey_stick(log_y):
        odds = (mpmath.expm1(log_y) + mpmath.mpf(gamma)) / mpmath.mpf(gamma)
        x = mpmath.log(odds) / s + mpmath.mpf(s) / 2
        return mpmath.mpf(gamma) * (mpmath.ncdf(s - x) - odds * mpmath.ncdf(-x))

    with mpmath.workdps(40):
        low, unit = mpmath.log(knee), hockey_stick(mpmath.log(knee))
        ends = [low, *(low + s * s / 25 * 2**j for j in range(12))]
        mixed = scale * unit * mpmath.quad(lambda log_y: hockey_stick(log_y) / unit, ends)
        found = profile_oracle.cone_add(gamma, ((1, mpmath.mpf(s) ** 2),), epsilon, 0, r, 15)
    assert relative(found, mixed) < 1e-14
