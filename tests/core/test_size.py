"""Estimates of delta that steer searches, against high precision and the profile that they estimate."""

import math

import mpmath
import numpy as np
import pytest

from csgm_cli.core.loss_grid import none_above
from csgm_cli.core.profile import reach
from csgm_cli.core.size import Size
from csgm_cli.core.tight import kappa_delta, worst_law
from csgm_cli.model.mechanism import Bound
from csgm_cli.renyi.conversion import best_log_delta
from csgm_cli.renyi.curves import renyi_curve
from tests.core.mechanisms import csgm

#: gamma, norm ratio, rounds, noise multiplier times ratio, epsilon: few mask bits are sent, a few together.
LAWS = [
    (1.04e-4, 7.87, 2, 2.55, 0.00398),
    (6.7e-3, 1.735, 3, 1.386, 0.1853),
    (0.0195, 9.095, 1, 3.64, 0.2287),
    (0.0571, 1.014, 5, 2.45, 0.4665),
    (0.0229, 1.437, 2, 0.514, 9.47),
]


def of(gamma, ratio, rounds, relative):
    return csgm(gamma, ratio**2, rounds), relative / ratio


@pytest.mark.parametrize(("gamma", "ratio", "rounds", "relative", "epsilon"), LAWS)
@pytest.mark.parametrize("times", [0.3, 40.0])
def test_moments_below_a_strike_are_integrals(gamma, ratio, rounds, relative, epsilon, times):
    law = worst_law(*of(gamma, ratio, rounds, relative))
    found, z = none_above(law, epsilon).log_moment(times / epsilon), times / epsilon
    with mpmath.workdps(30):

        def one(t):
            s = mpmath.sqrt(t)
            loss = lambda x: mpmath.log1p(gamma * mpmath.expm1(x * s - mpmath.mpf(t) / 2))
            end = (mpmath.log1p(mpmath.expm1(epsilon) / gamma) + mpmath.mpf(t) / 2) / s
            inside = lambda power: mpmath.quad(
                lambda x: loss(x) ** power * mpmath.exp((1 + z) * loss(x)) * mpmath.npdf(x),
                mpmath.linspace(-12, end, 16),
            )
            total, slope = inside(0), inside(1)
            return mpmath.log(total), slope / total

        pairs = [(count, *one(t)) for count, t in law.parts]
        value, slope = (mpmath.fsum(pair[0] * pair[i] for pair in pairs) for i in (1, 2))
    assert found.value == pytest.approx(float(value), rel=0.02, abs=1e-6)
    assert found.d_order == pytest.approx(float(slope), rel=0.02)


@pytest.mark.parametrize(("gamma", "ratio", "rounds", "relative", "epsilon"), LAWS)
def test_sizes_are_near_the_profile_and_so_are_their_slopes(gamma, ratio, rounds, relative, epsilon):
    mechanism, sigma = of(gamma, ratio, rounds, relative)
    law = worst_law(mechanism, sigma)
    assert reach(law) == 0.0
    size = Size(lambda noise: (law.scaled(noise, 1.0), epsilon), 1.0, None)
    size.settle(1.0)
    here, more = (math.log(kappa_delta(mechanism, sigma * math.sqrt(x), epsilon)) for x in (1.0, 1.02))
    assert size.at(1.0) == pytest.approx(here, abs=0.5)
    assert size.slope(1.0, math.nan) == pytest.approx((here - more) / math.log(1.02), rel=0.1)


@pytest.mark.parametrize(("gamma", "ratio", "rounds", "relative", "epsilon"), LAWS)
@pytest.mark.parametrize("highest", [1.0, 3.0, 30.0])
def test_the_first_guess_has_the_size_that_is_sought(gamma, ratio, rounds, relative, epsilon, highest):
    """From far above too, where moments with rare large losses explode."""
    mechanism, sigma = of(gamma, ratio, rounds, relative)
    law, renyi = worst_law(mechanism, sigma), renyi_curve(mechanism, Bound.RDP)
    above = best_log_delta(renyi, sigma * math.sqrt(highest), epsilon)
    size = Size(lambda noise: (law.scaled(noise, 1.0), epsilon), highest, above)
    size.settle(1.0)
    goal = size.at(0.7)
    assert size.first(highest, 1e-6, goal, 10.0) == pytest.approx(0.7, rel=1e-3)


def test_what_is_nowhere_so_large_is_not_guessed():
    law = worst_law(*of(1e-6, 2.0, 3, 0.5))
    size = Size(lambda noise: (law.scaled(noise, 1.0), 0.1), 1.0, None)
    assert size.first(1.0, 1e-2, math.log(0.5), 10.0) == 1.0


def test_moments_below_are_smooth_in_the_order():
    """To what secants take for a slope: differences agree with the derivatives."""
    below = none_above(worst_law(*of(*LAWS[1][:4])), LAWS[1][4])
    z, step = below.saddle(), 1e-4
    low, here, high = (below.log_moment(z * (1 + k * step)) for k in (-1, 0, 1))
    assert (high.value - low.value) / (2 * step * z) == pytest.approx(here.d_order, rel=1e-5)
    assert (high.d_order - low.d_order) / (2 * step * z) == pytest.approx(here.d2_order, rel=1e-5)
    assert np.isfinite([low.value, high.value]).all()
