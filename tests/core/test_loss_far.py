"""Two coordinates of which one is far next to the strike, and what is bounded there, against mpmath."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from csgm_cli import gaussian
from csgm_cli.core.grid_cone import grid_add_cone
from csgm_cli.core.loss_grid import grid_hockey_stick
from csgm_cli.core.loss_line import RAISED
from csgm_cli.core.loss_size import first_size
from csgm_cli.core.sliced_law import Coordinates
from csgm_cli.profile.contour import Direction, Law
from tests.core.few_rounds import add_stick

ADD = Direction.ADD


def two(gamma, s, epsilon):
    """The add hockey-stick of two coordinate-rounds: E_P1[E_Q2[(Y_2 - k/Y_1)_+]], in 30 digits."""
    with mpmath.workdps(30):
        gamma, s, epsilon = mpmath.mpf(gamma), mpmath.mpf(s), mpmath.mpf(epsilon)

        def term(x):
            loss = mpmath.log1p(gamma * mpmath.expm1(s * x - s * s / 2))
            density = (1 - gamma) * mpmath.npdf(x) + gamma * mpmath.npdf(x - s)
            return density * add_stick(gamma, s, epsilon - loss) * 10**30

        # From here on the second coordinate may lose anything
        m0 = mpmath.expm1(epsilon - mpmath.log1p(-gamma)) / gamma + 1
        kink = (mpmath.log(m0) + s * s / 2) / s
        closer = [mpmath.mpf(4) ** -n for n in range(20)]
        beside = [kink, *(kink + x for x in closer), *(kink - x for x in closer)]
        edges = sorted({*mpmath.linspace(-12, s + 12, math.ceil(s) + 25), *beside})
        return mpmath.quad(term, edges, method="gauss-legendre", maxdegree=3) / 10**30


NEXT_TO_NOTHING = [
    (2.135e-8, 11.127, 1.298e-8), (1e-6, 3.0, 1e-7), (1e-4, 6.0, 1e-5), (2.18e-4, 2.891, 2.09e-5),
    (1e-3, 12.0, 1e-6), (1e-5, 1.5, 3e-5),
]  # fmt: skip


@pytest.mark.parametrize(("gamma", "s", "epsilon"), NEXT_TO_NOTHING)
def test_two_coordinates_at_an_epsilon_next_to_nothing(gamma, s, epsilon):
    """Where hardly more than the sent mask bits is lost, the bracket contains the truth and is narrow."""
    exact = two(gamma, s, epsilon)
    bracket = grid_hockey_stick(Law(gamma, ((2.0, s * s),)), ADD, epsilon)
    assert bracket.lower * (1 - 1e-12) <= exact <= bracket.upper * (1 + 1e-12)
    assert bracket.upper <= bracket.lower * (1 + 1e-5)


@settings(max_examples=6, deadline=None)
@given(st.floats(-8, -3), st.floats(0.2, 1.3), st.floats(-8, -1))
def test_two_coordinates_anywhere(log_gamma, log_s, log_epsilon):
    """The same for random ones."""
    gamma, s, epsilon = 10**log_gamma, 10**log_s, 10**log_epsilon
    exact = two(gamma, s, epsilon)
    bracket = grid_hockey_stick(Law(gamma, ((2.0, s * s),)), ADD, epsilon)
    assert bracket.lower * (1 - 1e-12) - 1e-40 <= exact <= bracket.upper * (1 + 1e-12) + 1e-40
    assert exact < 1e-25 or bracket.upper <= bracket.lower * (1 + 1e-4)


@pytest.mark.parametrize(("gamma", "s", "epsilon"), NEXT_TO_NOTHING[:2])
def test_the_blur_that_a_bracket_takes(gamma, s, epsilon):
    """The blurred hockey-stick is at most the upper end, raised.

    All but the Q-mass of sent mask bits is an atom next to 0, whose own with a blur is a Gaussian's.
    """
    bracket = grid_hockey_stick(Law(gamma, ((2.0, s * s),)), ADD, epsilon)
    with mpmath.workdps(30):
        nodes, weights = np.polynomial.hermite_e.hermegauss(8)  # as far out as 4 deviations
        width = mpmath.sqrt(bracket.blur)
        strikes = [epsilon + width * x - width**2 / 2 for x in nodes.tolist()]
        assert strikes[0] + 2 * gamma > 0
        blurred = sum(w * two(gamma, s, strike) for w, strike in zip(weights.tolist(), strikes, strict=True))
        blurred /= math.fsum(weights)
        assert blurred <= bracket.upper * (1 + RAISED)
        assert bracket.blur > 0.0
        nothing_sent = gaussian.log_delta(float(width), epsilon - 2 * math.log1p(-gamma))
        assert math.exp(nothing_sent) < RAISED * bracket.upper


SENT = [
    (0.17587899182857086, 4, 0.0139, 1e4), (0.17587899182857086, 4, 0.0136149663384, 1e4),
    (0.17587899182857086, 4, 0.0135, 1e4), (1e-9, 27564, 0.0246952176989, 1e4),
    (1e-9, 27564, 0.02471307843734, 1e4), (1e-3, 50, 0.05, 900.0),
]  # fmt: skip


def all_sent(gamma, count, s, epsilon):
    """Where masks show: the sum over how many are sent of a Gaussian's hockey-stick."""
    total = 0.0
    for m in range(1, min(count, 40) + 1):
        log_ways = stats.binom.logpmf(m, count, gamma)
        shift = m * math.log(gamma) + (count - m) * math.log1p(-gamma)
        total += math.exp(log_ways + gaussian.log_delta(s * math.sqrt(m), epsilon - shift))
    return total


@pytest.mark.parametrize(("gamma", "count", "noise", "epsilon"), SENT)
def test_an_epsilon_that_takes_many_sent_coordinates(gamma, count, noise, epsilon):
    """Y of single coordinates is more than float64 holds, and not one of them is enough."""
    exact = all_sent(gamma, count, 1 / noise, epsilon)
    bracket = grid_hockey_stick(Law(gamma, ((float(count), noise**-2),)), ADD, epsilon)
    assert bracket.lower * (1 - 1e-8) <= exact <= bracket.upper * (1 + 1e-8)
    assert bracket.upper <= bracket.lower * (1 + 1e-6)
    assert 0.3 < first_size((Coordinates(count, gamma, 1 / noise),), epsilon) / exact < 3.0


def test_deltas_next_to_the_smallest():
    """1e15 coordinates, each of which adds 1e-315: what stairs leave out must be far less than that."""
    s, log_gamma, count, epsilon = 1 / 1.5242, math.log(1e-9), 856e12, 4.0
    with mpmath.workdps(30):
        exact = count * add_stick(mpmath.mpf(1e-9), mpmath.mpf(s), mpmath.mpf(epsilon))
    bracket = grid_hockey_stick(Law(math.exp(log_gamma), ((count, s * s),)), ADD, epsilon)
    assert 0.5 * exact < bracket.lower <= bracket.upper <= bracket.lower * (1 + 1e-6)


@pytest.mark.parametrize(("gamma", "count", "noise", "epsilon"), [
    (1e-9, 4, 1.8174, 1e-4), (1e-9, 25, 4.4906, 1e-6), (1e-9, 25, 4.9, 1e-6), (1e-6, 100, 1.0, 1e-3),
    (8.77e-8, 91523, 125.0, 5.3e-6), (6.254e-5, 486008, 1.01806, 31.255), (6.254e-5, 486008, 1.01806, 31.26),
    (1.064e-5, 17933, 46.0, 1.066e-3),
])  # fmt: skip
def test_test_functions_as_narrow_as_the_losses(gamma, count, noise, epsilon):
    """Far out hockey-sticks fall by e over 1 % of epsilon, and some test function is as narrow as that.

    In a tail that falls as exp(-a loss) the best is 1.3 to 1.4 times the hockey-stick. Also where many small
    losses make a large one, and where the integrand rises as the exp of an exp beside its saddle.
    """
    law = Law(gamma, ((float(count), noise**-2),))
    bracket, cone = grid_hockey_stick(law, ADD, epsilon), grid_add_cone(law, epsilon, 0.0)
    assert bracket.upper <= bracket.lower * (1 + 1e-8)
    assert bracket.upper <= cone.value <= 1.5 * bracket.lower
