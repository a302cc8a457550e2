"""Sums of log-moments and the replace-one bound."""

import math

import mpmath
import pytest

from csgm_cli.renyi.log_moment import log_moment
from csgm_cli.renyi.moment import INFINITE_MOMENT, LogMoment, combine, gaussian_moment, replace_one, summed
from csgm_cli.verify.log_moment import log_moment as precise_log_moment


def test_combine_adds_values_and_derivatives_and_keeps_the_worst_error():
    """Independent coordinates add; the relative error of a sum of positive terms is at most the largest."""
    one, other = LogMoment(1.0, 2.0, 3.0, 1e-12), LogMoment(10.0, 20.0, 30.0, 1e-14)
    total = combine([(3.0, one), (0.5, other)])
    assert (total.value, total.d_order, total.d2_order) == (8.0, 16.0, 24.0)
    assert 1e-12 < total.error < 1.001e-12


def test_combine_loses_no_small_part():
    """A remainder of 1e-16 of the whole is not rounded away term by term."""
    small = LogMoment(1e-16, 0.0, 0.0, 0.0)
    whole = LogMoment(1.0, 0.0, 0.0, 0.0)
    assert combine([(1.0, whole)] + [(1.0, small)] * 10_000).value == pytest.approx(1 + 1e-12, rel=1e-16)


def test_sum_of_no_moments_is_zero():
    """Nothing released, nothing charged; nothing is infinite but what has an infinite part."""
    assert summed([]) == LogMoment(0.0, 0.0, 0.0, 0.0)
    one = gaussian_moment(3.0, 0.5)
    assert summed([(2.0, one)]).value == 2 * one.value
    assert summed([(2.0, one), (1.0, INFINITE_MOMENT)]) == INFINITE_MOMENT


def through_the_absent_world(order, gamma, t):
    """(a-1) times the weak triangle bound, from Renyi divergences, in 40 digits."""
    with mpmath.workdps(50):
        a = mpmath.mpf(order)
        there = precise_log_moment(2 * a - 1, gamma, t, 45) / (2 * a - 2)
        back = precise_log_moment(2 * a, gamma, t, 45) / (2 * a - 1)
        return (a - 1) * (2 * a / (2 * a - 1) * there + back)


@pytest.mark.parametrize(
    ("order", "gamma", "t"),
    [(1 + 2.0**-30, 0.1, 0.5), (1.001, 0.1, 0.5), (2.7, 0.01, 1.0), (20.0, 0.3, 0.01), (150.5, 1e-3, 0.02)],
)
def test_replace_one_is_the_weak_triangle_bound_with_its_derivatives(order, gamma, t):
    """eps(a) <= 2a/(2a-1) eps(2a-1) + eps(2a), and finite differences of it."""
    found = replace_one(order, log_moment(2 * order - 1, gamma, t), log_moment(2 * order, gamma, t))
    with mpmath.workdps(50):
        a, gap = mpmath.mpf(order), mpmath.mpf(10) ** -12 * (order - 1)
        below, here, above = (through_the_absent_world(a + side * gap, gamma, t) for side in (-1, 0, 1))
        slope, bend = (above - below) / (2 * gap), (above - 2 * here + below) / gap**2
    assert found.value == pytest.approx(float(here), rel=1e-13)
    assert found.d_order == pytest.approx(float(slope), rel=1e-7)
    assert found.d2_order == pytest.approx(float(bend), rel=1e-4)


def test_replace_one_of_a_gaussian_curve_is_four_times_it():
    """For the curve a rho nothing is lost: 4 a rho, the value at twice the sensitivity."""
    for order in (1.001, 2.0, 7.5, 1e6):
        found = replace_one(order, gaussian_moment(2 * order - 1, 0.3), gaussian_moment(2 * order, 0.3))
        expected = gaussian_moment(order, 4 * 0.3)
        for name in ("value", "d_order", "d2_order"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12)


def test_replace_one_out_of_reach_stays_out_of_reach():
    """An infinite moment at 2a makes every field infinite, never NaN."""
    found = replace_one(3.0, gaussian_moment(5.0, 1.0), INFINITE_MOMENT)
    assert all(math.isinf(value) for value in vars(found).values())
