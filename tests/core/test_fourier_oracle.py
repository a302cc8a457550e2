"""Sums of exponentials in high precision against the sums written out."""

import mpmath
import pytest

from csgm_cli.core.fourier_oracle import exponential_sums


@pytest.mark.parametrize("count", [1, 7, 80, 81, 128, 300])
@pytest.mark.parametrize("digits", [8, 25])
def test_every_sum_is_right(count, digits):
    """Few frequencies and many, a power of 2 and not, points on both sides of 0 and many turns away."""
    with mpmath.workdps(digits + 15):
        points = [mpmath.mpf(k) ** 2 / 7 - 9 for k in range(25)]
        weights = [mpmath.mpf(k + 1) / 325 for k in range(25)]
        first, step = mpmath.mpf("1.7"), mpmath.mpf("0.37")
        sums = exponential_sums(points, weights, first, step, count, digits)
        assert len(sums) == count
        for j in {0, 1 % count, count // 2, count - 1}:
            y = first + j * step
            exact = mpmath.fsum(w * mpmath.expj(y * u) for u, w in zip(points, weights, strict=True))
            assert abs(sums[j] - exact) < mpmath.mpf(10) ** -digits
