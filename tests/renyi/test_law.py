"""The law of the likelihood ratio at one client vector: what adds, and what is rounded up."""

import math

import mpmath
import numpy as np
import pytest

from csgm_cli.renyi.law import Coordinates, Law, merged_law
from csgm_cli.verify.renyi import total_log_moment

PARTS = [(2000, 0.02, 0.04), (30, 0.3, 0.01), (1, 0.3, 0.004)]
LAW = Law(tuple(Coordinates(float(n), gamma, t) for n, gamma, t in PARTS), 0.25)


@pytest.mark.parametrize("order", [1 + 1e-6, 2.5, 40.0, -0.5, -30.0])
def test_log_moments_of_all_factors_add(order):
    """Orders above 1 and below 0, in high precision."""
    exact = total_log_moment(PARTS, mpmath.mpf(0.25), order, 20)
    found = LAW.log_moment(order)
    assert found.value == pytest.approx(float(exact), rel=1e-13)
    assert abs(found.value - exact) <= found.error * exact


def test_complex_log_moment_is_the_real_one_on_the_real_axis():
    """And that of opposite orders is conjugate."""
    orders = 2.5 + 1j * np.array([-0.7, 0.0, 0.7])
    below, real, above = LAW.complex_log_moment(orders)
    assert real == pytest.approx(LAW.log_moment(2.5).value, rel=1e-13)
    assert below == pytest.approx(np.conj(above), rel=1e-13)
    assert below.real < real.real


def test_complex_log_moment_of_a_gaussian_is_a_parabola():
    orders = -1.0 + 1j * np.arange(3.0)
    assert Law((), 0.25).complex_log_moment(orders) == pytest.approx(orders * (orders - 1) / 8, rel=1e-14)


def test_equal_coordinates_are_gathered_whatever_their_order():
    """gamma 1 is a Gaussian release."""
    coordinates = [Coordinates(3.0, 0.2, 0.5), Coordinates(2.0, 1.0, 0.1), Coordinates(4.0, 0.1, 0.5)]
    again = [Coordinates(1.0, 0.2, 0.5), *coordinates]
    law = merged_law(again, 0.3)
    assert law == merged_law(reversed(again), 0.3)
    assert law.coordinates == (Coordinates(4.0, 0.1, 0.5), Coordinates(4.0, 0.2, 0.5))
    assert law.gaussian == pytest.approx(0.5, rel=1e-15)


def test_least_loss_is_that_of_no_coordinate_sent():
    """Without a limit beside a Gaussian."""
    law = merged_law([Coordinates(5.0, 0.3, 1.0), Coordinates(2.0, 0.1, 4.0)])
    assert law.least_loss == pytest.approx(5 * math.log(0.7) + 2 * math.log(0.9), rel=1e-15)
    assert LAW.least_loss == -math.inf
    assert Law(()).least_loss == 0.0


def test_largest_coordinate():
    assert LAW.largest_t == 0.04
    assert Law((), 3.0).largest_t == 0.0


def test_variances():
    """Of log u for spread vectors; of u at this one (E u^2 - 1 is its first order)."""
    assert LAW.spread_variance == pytest.approx(0.25 + 0.0004 * 80 + 0.09 * 0.304, rel=1e-14)
    small = merged_law([Coordinates(50.0, 0.01, 0.04)])
    assert small.variance == pytest.approx(math.expm1(small.log_moment(2.0).value), rel=1e-3)
    assert Law((Coordinates(1.0, 0.5, 1e6),)).variance < math.inf


@pytest.mark.parametrize("t", [1e-18, 1e-6, 0.3, 5.0, 300.0, 699.0])
def test_remove_variance_is_rounded_up(t):
    """gamma^2 count (e^t - 1), which bounds log E[u^-l] by l (l + 1)/2 times it, for all client vectors."""
    law = Law((Coordinates(7.0, 0.3, t),), 1e-3)
    with mpmath.workdps(30):
        exact = mpmath.mpf(1e-3) + 7 * mpmath.mpf(0.3) ** 2 * mpmath.expm1(mpmath.mpf(t))
        assert exact <= law.remove_variance <= exact * (1 + 1e-14 * (1 + t))
    if t < 1.0:
        for order in (0.5, 3.0, 20.0):
            bound = order * (order + 1) / 2 * law.remove_variance
            assert law.log_moment(-order).value <= bound * (1 + 1e-13)


def test_remove_variance_beyond_float64_is_infinite():
    assert Law((Coordinates(1.0, 0.3, 701.0),)).remove_variance == math.inf


@pytest.mark.parametrize("order", [-2.8522555546710373e96, -1e200, -1e30])
@pytest.mark.parametrize(("gamma", "t"), [(0.0008299385012698368, 439.8655), (0.3, 1e4), (1e-9, 1e-6)])
def test_moments_at_extreme_orders_are_bounds(order, gamma, t):
    """Y > 1 - gamma, so log E[Y^a] <= a log(1 - gamma) for a < 0; infinite if out of range."""
    with np.errstate(all="ignore"):  # as the search for a saddle point
        found = Law((Coordinates(1.0, gamma, t),)).log_moment(order).value
    assert found == math.inf or 0.0 <= found <= order * math.log1p(-gamma) * (1 + 1e-9)
