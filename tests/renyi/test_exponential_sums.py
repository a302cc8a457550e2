"""Nonuniform sums of exponentials against direct summation in high precision."""

import mpmath
import numpy as np
import pytest

from csgm_cli.renyi.exponential_sums import _SHARPNESS, _WIDTH, _kernel_transform, exponential_sums


@pytest.mark.parametrize("count", [3, 64, 1536, 1 << 15])
@pytest.mark.parametrize("span", [1e-3, 1.0, 500.0])
def test_every_sum_is_within_its_error(count, span):
    """Points inside one period and across thousands of them, the first, last and some other frequencies."""
    source = np.random.default_rng(count)
    points, weights, step = span * source.normal(size=60), source.random(60), 0.179
    sums = exponential_sums(points, weights, step, count)
    # 1e-14 of the sum of the weights, and as much of all phases
    errors = 1e-14 * (weights.sum() + step * (weights * np.abs(points)).sum() * np.arange(count))
    assert sums.shape == (count,)
    for j in {0, 1, 2, count // 3, count - 1}:
        with mpmath.workdps(30):
            direct = mpmath.fsum(
                mpmath.mpf(w) * mpmath.expj(mpmath.mpf(step) * j * mpmath.mpf(p))
                for p, w in zip(points.tolist(), weights.tolist(), strict=True)
            )
        assert abs(complex(direct) - sums[j]) <= errors[j]


def test_many_points_are_summed_block_by_block():
    """All sums of 150,000 points, of which each lies on one of 1000 places."""
    source = np.random.default_rng(5)
    places, weights, step, count = source.normal(size=1000), source.random((150, 1000)), 0.4, 500
    sums = exponential_sums(np.tile(places, 150), weights.ravel(), step, count)
    direct = np.exp(1j * step * np.arange(count)[:, None] * places) @ weights.sum(axis=0)
    assert np.abs(sums - direct).max() < 1e-12 * weights.sum()


def test_kernel_transform():
    """The polynomial is the integral of the kernel to 5e-15, from the frequency 0 to the last."""
    count, cells = 65, 256
    seen = _kernel_transform(count, cells)
    for j in range(0, count, 8):
        with mpmath.workdps(30):

            def integrand(x, frequency=j / cells):
                kernel = mpmath.exp(mpmath.mpf(_SHARPNESS) * (mpmath.sqrt(1 - x * x) - 1))
                return kernel * mpmath.cos(mpmath.pi * _WIDTH * x * frequency)

            exact = _WIDTH * mpmath.quad(integrand, mpmath.linspace(0, 1, 5))
        assert seen[j] == pytest.approx(float(exact), rel=5e-15)
