"""The proven fall of E[Y^(a + iy)] against its values: no contour may end before the integrand does."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from csgm_cli.model.certificate import Direction
from csgm_cli.profile.contour import build_contour
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.profile.decay import decay, dip_between_peaks, missing
from csgm_cli.renyi.complex_log_moment import complex_log_moment
from csgm_cli.renyi.law import Coordinates, Law
from csgm_cli.renyi.log_moment import log_moment
from csgm_cli.verify.contour import TiltedNodes


def bound(order, gamma, t, height):
    """Log of the proven bound on |E[Y^(order + iy)]| / E[Y^order] for y >= height."""
    return decay(order, gamma, t, log_moment(order, gamma, t).value).log_bound(height)


@settings(max_examples=60, deadline=None)
@given(
    order=st.floats(1.01, 8.0) | st.floats(-8.0, -0.01),
    gamma=st.floats(math.log(1e-6), math.log(0.97)).map(math.exp),
    s=st.floats(math.log(1e-3), math.log(3.0)).map(math.exp),
    turns=st.floats(-3.0, 1.5),
)
def test_no_value_is_above_the_bound(order, gamma, s, turns):
    """At the height asked for and at many above, near and far."""
    height = 10.0**turns / s
    limit = bound(order, gamma, s * s, height)
    with np.errstate(all="ignore"):
        values = complex_log_moment(order + 1j * height * np.linspace(1.0, 5.0, 41), gamma, s * s)
    assume(values is not None and np.isfinite(values).all())
    falls = values.real - log_moment(order, gamma, s * s).value
    assert limit <= 0.0
    assert (falls <= limit + 1e-11 * (1 + abs(values[0].real)) + np.log1p(1e-13 * np.exp(-falls))).all()


@pytest.mark.parametrize(
    ("order", "gamma", "s", "height"),
    [(-588.0, 0.9987, 0.5034, 12.6), (-201.0, 0.98932, 1.2356, 286.0), (-789.0, 0.99839, 0.3122, 51.3)],
)
def test_bounds_hold_at_orders_far_below_zero(order, gamma, s, height):
    """There the peak is narrow and far from 0, and nodes in x must not miss it: a plain sum is the truth."""
    step = 1e-3
    x = np.arange(-320.0, 20.0, step)
    loss = np.logaddexp(math.log1p(-gamma), math.log(gamma) + s * (x - s / 2))
    log_terms = order * loss - x * x / 2
    terms = np.exp(log_terms - log_terms.max())
    terms /= terms.sum()
    values = [abs((terms * np.exp(1j * height * far * loss)).sum()) for far in (1.0, 1.05, 1.1, 1.3, 1.7)]
    assert math.log(max(values)) <= bound(order, gamma, s * s, height)


@pytest.mark.parametrize(("order", "gamma", "s"), [(3.0, 0.01, 1.0), (-2.0, 0.2, 1.5), (9.0, 0.3, 3.0)])
def test_high_precision_agrees(order, gamma, s):
    """The same against 20 digits, where the density has one peak and where it has two."""
    for height in (0.5, 3.0, 12.0):
        with mpmath.workdps(30):
            there = mpmath.mpf(1.1 * height)
            nodes = TiltedNodes.at(mpmath.mpf(order), gamma, s * s, there, 20)
            turned = mpmath.fdot(nodes.weights, [mpmath.expj(there * u) for u in nodes.losses])
            fall = float(mpmath.log(abs(turned)))
        assert fall <= bound(order, gamma, s * s, height)


def test_gaussian_losses_are_bounded_by_their_own_decay():
    """With gamma 1, |E[Y^(a + iy)]| falls like exp(-y^2 t/2): that is nearly found up to y^2 t = 1/4."""
    t = 0.04
    for height, share in ((25.0, 0.1), (2.5, 0.9), (1.0, 0.94), (0.05, 0.94)):
        assert -(height**2) * t / 2 <= bound(2.0, 1.0, t, height) < -share * height**2 * t / 2


def test_missing_part_of_sinc_is_a_lower_bound():
    """1 - |sin y/y| at all y from x on, near 0, at the side lobes and far out."""
    y = np.concatenate([np.geomspace(1e-9, 1.0, 400), np.linspace(1.0, 60.0, 40_001)])
    left = 1 - np.abs(np.sin(y) / y)
    least = np.minimum.accumulate(left[::-1])[::-1]
    tiny = y < 1e-3  # there 1 - sin(y)/y in floats is noise
    found = missing(y)
    assert (found <= np.where(tiny, y * y / 6, least) * (1 + 1e-9)).all()
    assert (found >= 0.93 * np.where(tiny, y * y / 6, least)).all()


@pytest.mark.parametrize("gaussian", [0.0, 0.1])
@pytest.mark.parametrize("direction", Direction)
def test_what_lies_beyond_a_contour_is_within_its_error(direction, gaussian):
    """Three times as many nodes change the integral by less than the interval is wide."""
    law, epsilon = Law((Coordinates(400.0, 0.02, 0.5),), gaussian), 1.0
    function = ConvexFunction(direction, epsilon)
    built = build_contour(law, direction, epsilon)
    z = built.shift + 1j * built.step * np.arange(3 * built.z.size)
    orders = 1.0 + z if direction is Direction.ADD else -z
    longer = replace(built, z=z, exponent=law.complex_log_moment(orders))
    short, long = built.mean(function), longer.mean(function)
    assert (
        math.exp(short.log_lower)
        <= (math.exp(long.log_lower) + math.exp(long.log_upper)) / 2
        <= math.exp(short.log_upper)
    )


@pytest.mark.parametrize(("order", "gamma", "s"), [(50.0, 0.01, 1.0), (3.0, 1e-3, 3.0), (4e17, 1e-35, 4.35)])
def test_a_minimum_ends_where_the_slope_may_not_rise(order, gamma, s):
    """At its ends R (1 - R) is 1/((order + 1) s^2), also where no float64 tells R from 1."""
    for x in dip_between_peaks(order, gamma, s):
        with mpmath.workdps(60):
            odds = gamma / (1 - mpmath.mpf(gamma)) * mpmath.exp(x * mpmath.mpf(s) - mpmath.mpf(s) ** 2 / 2)
            product = odds / (1 + odds) ** 2 * (order + 1) * s * s
        assert float(product) == pytest.approx(1.0, rel=1e-9)
