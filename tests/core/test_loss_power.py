"""Test functions with an exponent where contours do not reach: against quadrature and high precision."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.core import profile_oracle
from csgm_cli.core.cones import add_cone, lattice, touching
from csgm_cli.core.grid_cone import grid_add_cone
from csgm_cli.core.loss_grid import grid_convex, grid_powers
from csgm_cli.core.loss_mixture import Powers
from csgm_cli.core.loss_power import power_function
from csgm_cli.core.profile import profile, reach
from csgm_cli.core.tight import tight_delta
from csgm_cli.profile.contour import Direction, Law, build_contour
from tests.core.few_rounds import two_rounds
from tests.core.mechanisms import csgm


def powers(epsilon, exponent, spreads):
    """The functions that touch y - e^eps, whose means are for c = 1 + B, at no cost."""
    weights, log_v = touching(epsilon, exponent, np.asarray(spreads))
    costs = (0.0,) * len(spreads)
    return Powers(exponent, tuple((weights / (1 + exponent)).tolist()), tuple(log_v.tolist()), costs)


def high_precision(law, epsilon, exponent, spread):
    """The mean of one of them, in eight digits."""
    parts = tuple((int(count), mpmath.mpf(t)) for count, t in law.parts)
    r = mpmath.exp(mpmath.mpf(spread))
    return float(profile_oracle.cone_add(law.gamma, parts, epsilon, exponent, r, 8))


@pytest.mark.parametrize("exponent", [0.0, 0.01, 0.5, 0.95, 2.0, 30.0, 4e4, 5e8])
@pytest.mark.parametrize("above", [0.0, 1e-9, 1e-4, 0.019, 0.021, 1.0, 30.0])
def test_the_function_is_the_mixture_of_hockey_sticks(exponent, above):
    """(1 + B) int_1^w (w - k) k^(-B-1) dk."""
    with mpmath.workdps(60):
        w, b = mpmath.exp(mpmath.mpf(above)), mpmath.mpf(exponent)
        slopes = mpmath.log(w) if b == 0 else (1 - w**-b) / b
        exact = (1 + b) * (w * slopes - (w ** (1 - b) - 1) / (1 - b))
    found = float(power_function(np.array([above]), exponent)[0])
    assert found == pytest.approx(float(exact), rel=1e-12, abs=1e-300)


#: (gamma, coordinate-rounds, s, epsilon): rare bits, visible ones, and small losses that add up.
SETTINGS = [
    (1e-5, 1e6, 0.311, 0.01),
    (3.5e-7, 9e4, 2.524, 1.0),
    (0.01, 5.0, 0.975, 0.5),
    (0.01, 10.0, 1.639, 5.0),
    (0.02, 4.0, 2.9, 3.0),
    (0.3, 3.0, 0.5, 0.5),
    (0.3, 1.0, 0.7, 0.3),
]


_EXPONENTS = [
    (0.3, 30.0),
    (1.5,),
    (0.95,),
    (5.0, 30.0),
    (0.3, 3000.0),
    (0.95, 1.5, 5.0, 100.0),
    (0.3, 5.0, 3000.0),
]


@pytest.mark.parametrize(
    ("gamma", "count", "s", "epsilon", "exponent"),
    [(*setting, b) for setting, exponents in zip(SETTINGS, _EXPONENTS, strict=True) for b in exponents],
)
def test_means_are_above_the_truth_and_close(gamma, count, s, epsilon, exponent):
    """Against the oracle's integral, which knows of no far losses; raised by 1e-5."""
    law, spread = Law(gamma, ((count, s * s),)), 1 / (1 + exponent)
    found = grid_powers(law, powers(epsilon, exponent, [spread]), 0.0, (epsilon,))
    exact = high_precision(law, epsilon, exponent, spread)
    assert exact * (1 + 0.99e-5) <= found.upper <= exact * (1 + 1.5e-5)


@pytest.mark.parametrize(
    ("gamma", "s", "epsilon"), [(2.6e-7, 9.0, 0.1), (1e-4, 8.0, 1.5), (2e-5, 7.0, 0.01), (0.1, 1.0, 0.4)]
)
@pytest.mark.parametrize("exponent", [0.05, 0.7, 4.0, 200.0])
def test_two_rounds_are_a_plane(gamma, s, epsilon, exponent):
    """Against quadrature over both rounds of the hockey-sticks' mixture in another form."""
    losses, mass = two_rounds(gamma, s)
    family = powers(epsilon, exponent, [min(epsilon, 1 / (1 + exponent))])
    w = np.exp(np.maximum(losses - family.log_strikes[0], 0.0))
    phi = w * (1 - w**-exponent) / exponent - (1 - w ** (1 - exponent)) / (exponent - 1)
    exact = family.weights[0] * (1 + exponent) * math.exp(family.log_strikes[0]) * float(mass @ phi @ mass)
    found = grid_powers(Law(gamma, ((2.0, s * s),)), family, 0.0, (epsilon,))
    assert exact * (1 - 1e-6) <= found.upper <= exact * (1 + 5e-5)


@pytest.mark.parametrize(("gamma", "count", "s", "epsilon"), SETTINGS)
def test_small_exponents_tend_to_none(gamma, count, s, epsilon):
    """Extrapolated from B = 0.02 and 0.04 to 0, the mean is that of y log(y/v) - y + v."""
    law, log_v = Law(gamma, ((count, s * s),)), epsilon / 2
    plain = grid_convex(law, np.array([1.0]), np.array([log_v])).upper
    near, far = (
        grid_powers(law, Powers(b, (1 / (1 + b),), (log_v,), (0.0,)), 0.0, ()).upper for b in (0.02, 0.04)
    )
    assert far < near < plain
    assert 2 * near - far == pytest.approx(plain, rel=5e-3 * abs(1 - near / plain) + 2e-3)


#: A law that contours reach, as the grid does.
BOTH = Law(1e-9, ((8778290000000000.0, 0.4995582652851448), (1e9, 0.2503406371515683)))


@pytest.mark.parametrize("epsilon", [0.3, 0.37, 0.42, 0.6])
def test_the_grid_s_cone_is_that_of_contours(epsilon):
    """The same good set and exponent, and a bound above that one's by the 1e-5 of the grid."""
    contour = build_contour(BOTH, Direction.ADD, epsilon)
    assert contour is not None
    known = add_cone(BOTH, contour, epsilon, profile(BOTH, Direction.ADD, epsilon).lower)
    found = grid_add_cone(BOTH, epsilon, 0.0)
    assert found.exponent == known.exponent > 1000.0
    assert known.value * (1 + 0.99e-5) <= found.value <= known.value * (1 + 2e-5)


def test_bounds_do_not_jump_where_contours_begin():
    """Where 20 mask bits are sent, contours take over from the grid: delta rises evenly with k."""
    counts = [1.97e6 + 1e4 * step for step in range(7)]
    assert reach(Law(1e-5, ((counts[0], 0.04),))) == 0.0 < reach(Law(1e-5, ((counts[-1], 0.04),)))
    bounds = [tight_delta(csgm(1e-5, k), 3.16 / math.sqrt(k), 0.01).add for k in counts]
    assert all(bound.exponent > 100.0 for bound in bounds)
    logs = np.log([bound.value for bound in bounds])
    assert np.diff(logs).min() > 0.0
    assert np.abs(np.diff(logs, 3)).max() < 1e-5  # as smooth as without a border


@settings(max_examples=8, deadline=None)
@given(
    log_gamma=st.floats(-7.0, -4.0),
    sent=st.floats(0.5, 15.0),
    s=st.floats(0.1, 0.5),
    epsilon=st.floats(1e-3, 3e-2),
)
def test_bounds_fall_with_epsilon(log_gamma, sent, s, epsilon):
    """By the best exponent as by none, and none above the bound without one."""
    gamma = 10.0**log_gamma
    law = Law(gamma, ((float(round(sent / gamma)), s * s),))
    assert reach(law) == 0.0
    with np.errstate(all="ignore"):  # as where it is used
        bounds = [grid_add_cone(law, epsilon * (1 + i / 20), 0.0).value for i in range(4)]
        weights, log_v = touching(epsilon, 0.0, lattice(1e-6, 60.0))
        plain = grid_convex(law, weights, log_v).upper
    assert all(later < before or before < 1e-300 for before, later in itertools.pairwise(bounds))
    assert bounds[0] <= plain * (1 + 1e-6)
    assert bounds[0] >= profile(law, Direction.ADD, epsilon).lower


@pytest.mark.parametrize(
    ("gamma", "count", "s", "epsilon"),
    [(1e-5, 1e6, 0.311, 0.01), (1e-6, 1e7, 0.13, 1e-3), (1e-3, 3000.0, 0.3, 0.1), (0.01, 400.0, 0.2, 0.2)],
)
def test_no_spread_vector_has_more(gamma, count, s, epsilon):
    """With the same norm in m times as many coordinates the profile is below the bound with an exponent."""
    found = grid_add_cone(Law(gamma, ((count, s * s),)), epsilon, 0.0)
    assert found.exponent > 5.0
    for m in (1, 2, 3, 10, 100):
        spread = Law(gamma, ((count * m, s * s / m),))
        assert profile(spread, Direction.ADD, epsilon).lower < found.value
