"""Sums of exponentials at scattered points, for all multiples of one frequency."""

from __future__ import annotations

import math
from functools import cache, lru_cache

import numpy as np
from numpy.polynomial.chebyshev import chebfit, chebpts1, chebval
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Each point is spread over this many cells of a grid twice as fine as the frequencies need.
_WIDTH = 18
_SHARPNESS = 2.3 * _WIDTH
#: Degree of the Chebyshev fit to the logarithm of the kernel's transform (error 1e-15).
_DEGREE = 11
#: Points per block; bounds the memory.
_BLOCK = 1 << 16


def exponential_sums(points: Array, weights: Array, step: float, count: int) -> ComplexArray:
    """sum_p weights_p exp(i j step points_p) for j = 0 ... count - 1.

    Spread by the kernel exp(b sqrt(1 - x^2)), one real FFT, and division by the kernel's transform
    (Barnett, Magland and af Klinteberg 2019); to 1e-14 of the sum of the |weights|.
    """
    cells = 1 << math.ceil(math.log2(max(4 * count, 4 * _WIDTH)))
    grid = np.zeros(cells)
    for first in range(0, points.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        grid += _spread(points[block], weights[block], step, cells)
    return np.asarray(np.conj(np.fft.rfft(grid)[:count]) / _kernel_transform(count, cells))


def _spread(points: Array, weights: Array, step: float, cells: int) -> Array:
    """The weights, each spread around its place on the grid."""
    place = points * (step / (2 * math.pi))
    place -= np.rint(place)  # small phases keep their digits
    place *= cells
    first, offsets = np.ceil(place - _WIDTH / 2), np.arange(_WIDTH)[:, None]
    x = offsets + (first - place)
    x *= 2 / _WIDTH  # in place, as all that follows: memory is what takes the time
    x *= x
    np.subtract(1.0, x, out=x)
    kernels = np.sqrt(np.maximum(x, 0.0, out=x), out=x)
    kernels -= 1.0
    kernels *= _SHARPNESS
    np.exp(kernels, out=kernels)
    kernels *= weights
    cell = offsets + first.astype(np.int64) % cells
    beyond = np.bincount(cell.ravel(), kernels.ravel(), minlength=cells + _WIDTH)
    beyond[:_WIDTH] += beyond[cells:]
    return np.asarray(beyond[:cells], dtype=np.float64)


@lru_cache(maxsize=8)
def _kernel_transform(count: int, cells: int) -> Array:
    """The transform of the kernel at j/cells <= 1/4 for j < count: even, and close to a Gaussian."""
    frequencies = np.arange(count) / cells
    return np.exp(chebval(32 * frequencies**2 - 1, _kernel_polynomial()))


@cache
def _kernel_polynomial() -> Array:
    """Its logarithm at frequencies f as Chebyshev polynomials in 32 f^2 - 1, of Gauss-Legendre quadrature."""
    x, weights = leggauss(2 * _WIDTH + 16)
    heights = _WIDTH / 2 * weights * np.exp(_SHARPNESS * (np.sqrt(1.0 - x * x) - 1.0))
    places = chebpts1(_DEGREE + 1)
    frequencies = np.sqrt((places + 1) / 32)
    transform = np.cos(np.multiply.outer(frequencies, math.pi * _WIDTH * x)) @ heights
    return np.asarray(chebfit(places, np.log(transform), _DEGREE), dtype=np.float64)
