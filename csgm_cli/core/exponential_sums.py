"""Sums of exponentials at scattered points, for all multiples of one frequency at once."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Each point is spread over this many cells of a grid twice as fine as the frequencies need.
_WIDTH = 18
_SHARPNESS = 2.3 * _WIDTH
#: So many points are spread at a time: all at once they would take a hundred times the memory of the points.
_BLOCK = 1 << 16


def exponential_sums(points: Array, weights: Array, step: float, count: int) -> ComplexArray:
    """sum_p weights_p exp(i j step points_p) for j = 0 ... count - 1.

    Spread by exp(b sqrt(1 - x^2)), one real FFT, and division by that bump's own transform
    (Barnett, Magland and af Klinteberg 2019). See `sum_errors`.
    """
    cells = 1 << math.ceil(math.log2(max(4 * count, 4 * _WIDTH)))
    grid = np.zeros(cells)
    for first in range(0, points.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        grid += _spread(points[block], weights[block], step, cells)
    return np.asarray(np.conj(np.fft.rfft(grid)[:count]) / _bump_transform(count, cells))


def _spread(points: Array, weights: Array, step: float, cells: int) -> Array:
    """The weights, each spread around its place on the grid."""
    place = points * (step / (2 * math.pi))
    place -= np.rint(place)  # small phases keep their digits
    place *= cells
    first, offsets = np.ceil(place - _WIDTH / 2), np.arange(_WIDTH)[:, None]
    x = (offsets + (first - place)) * (2 / _WIDTH)
    np.subtract(1.0, x * x, out=x)
    bumps = np.sqrt(np.maximum(x, 0.0, out=x), out=x)  # in place: memory is what takes the time
    bumps -= 1.0
    bumps *= _SHARPNESS
    np.exp(bumps, out=bumps)
    bumps *= weights
    cell = offsets + first.astype(np.int64) % cells
    beyond = np.bincount(cell.ravel(), bumps.ravel(), minlength=cells + _WIDTH)
    beyond[:_WIDTH] += beyond[cells:]
    return np.asarray(beyond[:cells], dtype=np.float64)


def sum_errors(points: Array, weights: Array, step: float, count: int) -> Array:
    """Bounds on the errors of `exponential_sums`, also from points that are off by 1e-14 of themselves.

    1e-14 of the sum of the |weights|, and as much of all phases.
    """
    size = np.abs(weights)
    slope = 1e-14 * step * float((size * np.abs(points)).sum())
    return np.asarray(1e-14 * float(size.sum()) + slope * np.arange(count, dtype=np.float64))


@lru_cache(maxsize=8)
def _bump_transform(count: int, cells: int) -> Array:
    """The transform of the bump at the frequencies asked for, by Gauss-Legendre quadrature."""
    x, weight = np.polynomial.legendre.leggauss(2 * _WIDTH + 16)
    j = np.arange(count, dtype=np.float64)
    total = np.zeros(count)
    for x_i, w_i in zip(x[x > 0], weight[x > 0], strict=True):
        height = _WIDTH * w_i * math.exp(_SHARPNESS * (math.sqrt(1.0 - x_i * x_i) - 1.0))
        total += height * np.cos(j * (math.pi * _WIDTH / cells * x_i))
    return total
