"""Test functions of the cones: each dominates its hockey-stick, and what B = 0 costs."""

import math

import mpmath
import numpy as np
import pytest

from csgm_cli.core import profile_oracle, tight_oracle
from csgm_cli.core.certificate import Proof
from csgm_cli.core.cones import (
    _log_touch,
    _touching_below,
    add_cone,
    admissible_exponent,
    concave_twin,
    good_set,
    log_outside,
    posterior,
    remove_cone,
    touching,
)
from csgm_cli.core.tight import kappa_delta, tight_delta
from csgm_cli.model.mechanism import Geometry, Mechanism
from csgm_cli.profile.contour import Direction, Law, build_contour

_SHAPES = [(e, b) for e in (0.0, 0.5, 4.0) for b in (0.0, 1e-3, 0.5, 0.999, 1.0, 1.001, 2.0, 30.0)]


def power_integral(power, r):
    """The integral of w^(power - 1) over 1 < w < r (an array)."""
    return np.log(r) if power == 0 else np.expm1(power * np.log(r)) / power


def above(u, c, v, exponent):
    """phi(u), zero up to v, phi'' = c (u/v)^-B / u beyond: slope and value by direct integration."""
    r = np.maximum(u / v, 1.0)
    return c * v * (r * power_integral(-exponent, r) - power_integral(1 - exponent, r))


def below(u, c, v, exponent):
    """phi(u), zero from v on, phi'' = c (u/v)^-B' / u before."""
    r = np.minimum(u / v, 1.0)
    return c * v * (r * power_integral(-exponent, r) - power_integral(1 - exponent, r))


@pytest.mark.parametrize(("epsilon", "exponent"), _SHAPES)
def test_add_functions_dominate_and_touch(epsilon, exponent):
    """phi >= (u - e^eps)_+ everywhere, with equality at r v, for narrow and wide mixtures."""
    spreads = np.array([1e-3, 0.1, 1.0, 5.0, 20.0])
    for spread, c, log_v in zip(spreads, *touching(epsilon, exponent, spreads), strict=True):
        v, line = math.exp(log_v), math.exp(epsilon)
        u = line * np.geomspace(1e-6, 1e9, 20_001)
        stick = np.maximum(u - line, 0.0)
        phi = above(u, c, v, exponent)
        assert (phi >= stick - 1e-11 * (u + v)).all()
        at = np.array([v * math.exp(spread)])
        assert above(at, c, v, exponent) == pytest.approx(at - line, rel=1e-9, abs=1e-9 * at[0])


@pytest.mark.parametrize(("epsilon", "exponent"), [(e, b) for e, b in _SHAPES if b > 0.0])
def test_twin_functions_dominate_and_touch(epsilon, exponent):
    """phi >= (1 - e^eps u)_+ everywhere, with equality at r v, r < 1."""
    spreads = -np.array([1e-3, 0.1, 1.0, 5.0, 20.0]) / (1 + exponent)
    for spread, log_c, log_v in zip(spreads, *_touching_below(epsilon, exponent, spreads), strict=True):
        c, v = math.exp(log_c), math.exp(log_v)
        u = math.exp(-epsilon) * np.geomspace(1e-9, 1e6, 20_001)
        phi = below(u, c, v, exponent)
        with np.errstate(over="ignore"):
            assert (phi >= np.maximum(1 - math.exp(epsilon) * u, 0.0) - 1e-10).all()
        at = np.array([v * math.exp(spread)])
        assert below(at, c, v, exponent) == pytest.approx(1 - math.exp(epsilon) * at, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 0.999, 1.0, 1.001, 1.5, 2.0, 7.3, 300.0, 36917.77, 2e8, 1e10])
def test_touching_points_keep_their_digits(exponent):
    """Log of (int_1^r k^-B dk)/(int_1^r k^(-B-1) dk), which orders near 1/epsilon multiply in exponents.

    With B s = 1e5, errors of 1e-16 of that would put bounds 1.5e-6 below what they bound.
    """
    spreads = np.array([1e-9, 1e-6, 3e-4, 0.02, 0.1, 0.3, 0.6, 1.0, 2.0, 20.0, 60.0])
    for spread, found in zip(spreads.tolist(), _log_touch(exponent, spreads).tolist(), strict=True):
        with mpmath.workdps(60):
            b, s = mpmath.mpf(exponent), mpmath.mpf(spread)
            above = s if b == 1 else mpmath.expm1((1 - b) * s) / (1 - b)
            below = s if b == 0 else -mpmath.expm1(-b * s) / b
            exact = mpmath.log(above / below)
        assert abs(found - exact) <= 4e-15 * exact + 1e-19


@pytest.mark.parametrize("exponent", [0.5, 1.0, 7.3, 300.0])
def test_strikes_of_twins_keep_their_digits(exponent):
    """Likewise below."""
    epsilon, spreads = 1e-5, -np.array([1e-6, 3e-4, 0.02]) / (1 + exponent)
    for spread, log_v in zip(spreads, _touching_below(epsilon, exponent, spreads)[1], strict=True):
        with mpmath.workdps(40):
            _, v = profile_oracle.concave_shape(epsilon, exponent, mpmath.exp(spread), 30)
            assert abs(log_v - mpmath.log(v)) < 3e-15 * (epsilon - spread)


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "sigma"),
    [
        (1e-9, 1e5, 10_000, 1e-3),
        (2.3704087137278442e-09, 5538.844978567396, 261_657, 0.03726222603853957),
        (1e-7, 1e4, 10_000, 0.02),
    ],
)
def test_cones_of_huge_exponents_are_above_the_oracle(gamma, ratio, rounds, sigma):
    """Digits lost where they touch would put them below it, and even below the profile at kappa*."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
    for epsilon in (0.0, 5e-5, 3e-4):
        found = tight_delta(mechanism, sigma, epsilon)
        assert kappa_delta(mechanism, sigma, epsilon) <= found.upper
        exact = tight_oracle.certified_delta(mechanism, sigma, epsilon, "add", found.add, 10)
        assert found.add.proof is Proof.ADD_CONE
        assert found.add.exponent > 1e6
        assert exact <= found.add.value <= exact * (1 + 1e-10)


def test_a_twin_of_a_large_order_is_above_the_oracle():
    """Sums of logarithms near 7 for log v = -0.014, at orders near 1000, once left it 7e-14 below."""
    mechanism = Mechanism("l2-csgm", 0.0646, Geometry(1.38), 376)
    for sigma in (490.0, 500.0, 510.0):
        twin = tight_delta(mechanism, sigma, 0.0144).remove
        assert twin.proof is Proof.CONCAVE
        exact = tight_oracle.certified_delta(mechanism, sigma, 0.0144, Direction.REMOVE, twin)
        assert 0 < twin.value / exact - 1 < 1e-9


@pytest.mark.parametrize("exponent", [1.001, 1.5, 3.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 5.0])
def test_remove_functions_dominate(epsilon, exponent):
    """c = B e^eps and v = e^-eps (B-1)/B: 1 - e^eps u up to v, above (1 - e^eps u)_+ beyond."""
    c, v = exponent * math.exp(epsilon), math.exp(-epsilon) * (exponent - 1) / exponent
    u = math.exp(-epsilon) * np.geomspace(1e-6, 1e6, 20_001)
    phi = 1 - math.exp(epsilon) * u + above(u, c, v, exponent)
    assert (phi >= np.maximum(1 - math.exp(epsilon) * u, 0.0) - 1e-9 * np.maximum(u, 1.0)).all()


def test_posteriors_and_exponents_by_hand():
    """At z = 0 both posteriors are gamma, so B = 1/(2 gamma) - 1/2, as small clips are promised."""
    assert posterior(0.2, 0.0) == pytest.approx(0.2, rel=1e-14)
    assert posterior(0.2, math.log(4)) == pytest.approx(0.5, rel=1e-14)
    assert admissible_exponent(0.2, 0.0) == pytest.approx(2.0, rel=1e-13)
    assert admissible_exponent(0.9, 3.0) == 0.0


@pytest.mark.parametrize("gamma", [1e-4, 0.03, 0.4])
@pytest.mark.parametrize("z", [0.0, 0.1, 1.0, 4.0])
def test_exponents_agree_with_the_oracle(gamma, z):
    """The float64 exponent is the high-precision one."""
    assert admissible_exponent(gamma, z) == pytest.approx(
        float(profile_oracle.admissible_exponent(gamma, z)), rel=1e-12, abs=1e-13
    )


def test_good_sets_leave_out_what_they_promise():
    """The error of the chosen good set is at most the share asked for, and not far below it."""
    for t, share in ((1e-4, 1e-9), (0.3, 1e-20), (2.0, 1e-5)):
        law = Law(0.1, ((50.0, t),))
        error = 7.0 * math.exp(log_outside(law, good_set(law, 7.0, share)))
        assert share / 100 < error <= share


def at_kappa(law, direction, epsilon):
    """Contour and delta of one direction."""
    built = build_contour(law, direction, epsilon)
    return built, built.integral(-epsilon, np.ones_like(built.z))[0]


@pytest.mark.parametrize(
    ("gamma", "parts", "epsilon"),
    [
        (0.01, ((24414.0, 1 / 1.57**2),), 5.0),
        (0.1, ((400.0, 1 / 8.6**2),), 1.0),
        (0.3, ((20.0, 1.0),), 9.0),
        (0.8, ((10.0, 0.5),), 3.0),
    ],
)
def test_exponent_zero_costs_a_third_of_delta(gamma, parts, epsilon):
    """The unconditional cone is 1.33 to 1.5 times delta at kappa*, and no admissible B does worse."""
    law = Law(gamma, parts)
    built, scale = at_kappa(law, Direction.ADD, epsilon)
    chosen = add_cone(law, built, epsilon, scale)
    spreads = np.geomspace(0.01, 60.0, 2000) / built.shift
    weights, log_v = touching(epsilon, 0.0, spreads)
    zero = float(built.mixtures(-log_v, weights, 0.0).min())
    assert 1.33 < zero / scale < 1.5
    assert scale < chosen.value <= zero * 1.001


def test_large_exponents_cost_two_per_cent_of_delta():
    """At gamma .01 and s = .05 the exponent is about 34 and the bound within 3 % of kappa*."""
    law = Law(0.01, ((4_000_000.0, 0.0025),))
    built, scale = at_kappa(law, Direction.ADD, 3.0)
    found = add_cone(law, built, 3.0, scale)
    assert found.proof is Proof.ADD_CONE
    assert 25 < found.exponent < 50
    assert 1.0 < found.value / scale < 1.03


def test_values_are_those_of_the_oracle():
    """Each float64 bound is the high-precision bound of the parameters that it reports."""
    gamma, epsilon, parts = 0.01, 3.0, ((4_000_000.0, 0.0025),)
    law = Law(gamma, parts)
    add, scale = at_kappa(law, Direction.ADD, epsilon)
    found = add_cone(law, add, epsilon, scale)
    assert found.exponent <= profile_oracle.admissible_exponent(gamma, found.z) * (1 + 1e-12)
    r = math.exp(found.spread)
    exact = profile_oracle.cone_add(gamma, parts, epsilon, found.exponent, r, 10)
    exact += profile_oracle.err_add(found.z, 0.05, law.total_t, found.exponent, r)
    assert float(exact) <= found.value <= float(exact) * (1 + 1e-8)
    remove, scale = at_kappa(law, Direction.REMOVE, epsilon)
    found = remove_cone(law, remove, epsilon, scale)
    assert found.exponent <= profile_oracle.admissible_exponent(gamma, found.z) * (1 + 1e-12)
    exact = profile_oracle.cone_remove(gamma, parts, epsilon, found.exponent, 10)
    exact += profile_oracle.err_remove(found.z, 0.05, law.total_t, epsilon, found.exponent)
    assert float(exact) <= found.value <= float(exact) * (1 + 1e-8)


@pytest.mark.parametrize(("gamma", "epsilon"), [(0.3, 3.0), (0.5, 3.0), (0.2, 1.0)])
def test_the_twin_is_the_oracles_and_as_tight_as_recorded(gamma, epsilon):
    """At T = 100, k = 24414 the lognormal limit costs a factor 1.3 to 1.4 of delta, as recorded."""
    s = {(0.3, 3.0): 1 / 550, (0.5, 3.0): 1 / 900, (0.2, 1.0): 1 / 1000}[gamma, epsilon]
    law = Law(gamma, ((2_441_400.0, s * s),))
    _, scale = at_kappa(law, Direction.REMOVE, epsilon)
    found = concave_twin(law, epsilon, scale)
    assert found.proof is Proof.CONCAVE
    assert 1.0 < found.value / scale < 1.6
    assert found.exponent >= profile_oracle.concave_exponent(gamma, found.z) * (1 - 1e-12)
    r = math.exp(found.spread)
    exact = profile_oracle.concave_remove(gamma, law.total_t, epsilon, found.exponent, r, 10)
    error = profile_oracle.err_concave(found.z, s, law.total_t, gamma, epsilon, found.exponent, r)
    assert float(exact + error) * (1 - 1e-9) <= found.value <= float(exact + error) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("gamma", "ratio", "noise"),
    [
        (0.00345, 800.0, 0.0020381863035038093),  # the first exponent tried was 1.015, the best is 3.19
        (0.011459605341091679, 54.22286752486467, 0.05),
        (0.05257970228568257, 77.5728015322292, 0.03),
        (0.0019134865634282327, 1512.5983484763885, 0.001),
    ],
)
def test_delta_falls_with_epsilon_where_exponents_are_close_to_one(gamma, ratio, noise):
    """Delta of any mechanism falls as epsilon grows, 1-Lipschitz in e^eps; the bound must not come and go."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio))
    epsilons = np.geomspace(1e-3, 1.0, 25)
    deltas = np.array([tight_delta(mechanism, noise, float(epsilon)).upper for epsilon in epsilons])
    assert (deltas > 0.0).all()
    assert (np.diff(deltas) <= 0.0).all()
    assert (np.diff(deltas) >= -1.01 * np.diff(np.exp(epsilons))).all()
