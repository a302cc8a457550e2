"""Sums over a line of orders, at strikes beside the one that it was made for, against mpmath."""

from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

from csgm_cli.core.loss_line import Transform
from csgm_cli.core.sliced_law import Line


@pytest.mark.parametrize("count", [64, 96, 1536])
@pytest.mark.parametrize("away", [0.0, 1e-4, -0.3, 2.0])
@pytest.mark.parametrize("variance", [0.0, 1e-3])
@pytest.mark.parametrize("exponent", [None, 0.7])
def test_sums_beside_a_strike_are_those_of_exponentials(count, away, variance, exponent):
    line = Line(1, 3.0, 0.7, count)
    values = np.exp(-np.arange(count) / 20.0 + 0.1j * np.arange(count))
    cuts = SimpleNamespace(log_peak=0.0, shift=3.0)
    sums = Transform(cuts, line, values, np.full(count, 1e-15), -1000.0)
    value, error = sums.integral(variance, away, exponent)
    with mpmath.workdps(40):
        total = mpmath.mpf(0)
        for j, at in enumerate(values.tolist()):
            z = mpmath.mpc(3, mpmath.mpf(0.7) * j)
            kernel = mpmath.exp(z * (z + 1) * mpmath.mpf(variance) / 2 - z * mpmath.mpf(away)) / (z * (z + 1))
            if exponent is not None:
                kernel *= (1 + mpmath.mpf(exponent)) / (mpmath.mpf(exponent) + z)
            total += (mpmath.mpc(at) * kernel).real * (0.5 if j == 0 else 1)
        exact = float(mpmath.mpf(0.7) * total / mpmath.pi)
    assert abs(value - exact) <= error
    assert error <= 1e-11 * abs(exact)
