"""Rational approximations of x^(-1/2): mpmath's elliptic functions, and the error they claim."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.factorization.matrices.quadrature import inverse_sqrt_poles, poles_for, zolotarev

RATIOS = (16.0, 100.0, 1e4, 1e8, 1e13)


def relative_error(poles, low, high):
    """The largest on a fine grid."""
    x = np.geomspace(low, high, 5001)[:, None]
    return abs((poles.weights / (x + poles.shifts)).sum(axis=1) * np.sqrt(x[:, 0]) - 1).max()


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("count", [1, 2, 5, 8, 31])
def test_poles_are_the_elliptic_ones(ratio, count):
    """Shifts and weights are those of the midpoint rule, from mpmath's sn, cn and dn."""
    found = inverse_sqrt_poles(1.0, ratio, count)
    with mpmath.workdps(40):
        m = 1 - 1 / mpmath.mpf(ratio)
        quarter = mpmath.ellipk(m)
        for j, (shift, weight) in enumerate(zip(found.shifts, found.weights, strict=True)):
            u = (j + mpmath.mpf(1) / 2) * quarter / count
            sn, cn, dn = (mpmath.ellipfun(name, u, m=m) for name in ("sn", "cn", "dn"))
            assert abs(shift / (sn / cn) ** 2 - 1) < 2e-14
            assert abs(weight / (2 * quarter / (mpmath.pi * count) * dn / cn**2) - 1) < 2e-14


@given(
    low=st.floats(1e-10, 1e3),
    ratio=st.floats(1.0, 1e14),
    count=st.integers(1, 60),
)
def test_error_is_a_bound(low, ratio, count):
    """The claimed relative error is never exceeded; beyond rounding it is not much too large."""
    poles = inverse_sqrt_poles(low, low * ratio, count)
    found = relative_error(poles, low, low * ratio)
    assert found <= poles.error
    if ratio >= 16 and 1e-12 < poles.error < 0.1:
        assert found > 0.8 * poles.error
    assert (poles.shifts > 0).all()
    assert (poles.weights > 0).all()
    assert (np.diff(poles.shifts) > 0).all()


@given(ratio=st.floats(1.0, 1e14), exponent=st.floats(1.0, 12.0))
def test_fewest_poles(ratio, exponent):
    """The error asked for is met, and one pole fewer would not meet it."""
    error = 10.0**-exponent
    poles = poles_for(1.0, ratio, error)
    assert relative_error(poles, 1.0, ratio) <= 1.5 * error
    if len(poles.shifts) > 1:
        assert inverse_sqrt_poles(1.0, ratio, len(poles.shifts) - 1).error > error


def test_counts_of_the_theory():
    """24 to 40 poles for 1e-12 at the condition numbers of T = 32 to 8192."""
    assert len(poles_for(1.0, 4 * 32.0**2, 1e-12).shifts) <= 24
    assert len(poles_for(1.0, 4 * 8192.0**2, 1e-12).shifts) <= 40


@pytest.mark.parametrize(("ratio", "count"), [(100.0, 1), (100.0, 3), (1e6, 2), (1e6, 8)])
def test_zolotarev_equioscillates(ratio, count):
    """log(sqrt(x) r(x)) has 2 count + 2 extrema of one size, which shows that r is the best of its type."""
    points = zolotarev(3.0, 3.0 * ratio, count)
    assert len(points) == 2 * count
    assert (np.diff(points) > 0).all()
    x = np.geomspace(3.0, 3.0 * ratio, 200_001)
    deviation = 0.5 * np.log(x)
    for pole, zero in points.reshape(-1, 2):
        deviation += np.log((x + zero) / (x + pole))
    inner = np.flatnonzero(np.diff(np.sign(np.diff(deviation)))) + 1
    extrema = deviation[[0, *inner, -1]]
    assert len(extrema) == 2 * count + 2
    signs = np.where(np.arange(len(extrema)) % 2 == 0, 1.0, -1.0)
    centred = (extrema - (deviation.max() + deviation.min()) / 2) * signs
    np.testing.assert_allclose(centred, centred[0], rtol=1e-6, atol=1e-12)
