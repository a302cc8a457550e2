"""Sums of exponentials at scattered points: for all multiples of one frequency, or for small exponents."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TypeVar

import numpy as np
from numpy.polynomial.chebyshev import chebfit, chebpts1, chebval
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]
_Numbers = TypeVar("_Numbers", Array, ComplexArray)

#: Each point is spread over this many cells of a grid twice as fine as the frequencies need.
_WIDTH = 18
_SHARPNESS = 2.3 * _WIDTH
#: Of the polynomial that is the logarithm of the bump's transform to 1e-15.
_DEGREE = 11
#: So many points are spread at a time: all at once they would take a hundred times the memory of the points.
_BLOCK = 1 << 16
#: The largest exponent of `excess_series`, which has so many rows of so many terms.
NEAR, _ROWS, _ROW = 4.0, 5, 8
_FACTORIALS = np.array([float(math.factorial(k + 2)) for k in range(_ROWS * _ROW)]).reshape(_ROWS, _ROW)


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
    x = offsets + (first - place)
    x *= 2 / _WIDTH  # in place, as all that follows: memory is what takes the time
    x *= x
    np.subtract(1.0, x, out=x)
    bumps = np.sqrt(np.maximum(x, 0.0, out=x), out=x)
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
    """The transform of the bump at j/cells <= 1/4 for j < count: even, and next to a Gaussian."""
    frequencies = np.arange(count) / cells
    return np.exp(chebval(32 * frequencies**2 - 1, _bump_polynomial()))


@cache
def _bump_polynomial() -> Array:
    """Its logarithm at frequencies f as Chebyshev polynomials in 32 f^2 - 1, of Gauss-Legendre quadrature."""
    x, weights = leggauss(2 * _WIDTH + 16)
    heights = _WIDTH / 2 * weights * np.exp(_SHARPNESS * (np.sqrt(1.0 - x * x) - 1.0))
    places = chebpts1(_DEGREE + 1)
    frequencies = np.sqrt((places + 1) / 32)
    transform = np.cos(np.multiply.outer(frequencies, math.pi * _WIDTH * x)) @ heights
    return np.asarray(chebfit(places, np.log(transform), _DEGREE), dtype=np.float64)


def excess_series(scaled: Array, weights: Array) -> tuple[Array, Array]:
    """c_k and |c_k| for `power_series`: sum_p weights_p (e^w - 1 - w), w = unit scaled_p, weights >= 0.

    For |w| <= `NEAR`. c_k is the moment of scaled^(k+2), k = `_ROW` i + j, over (k+2)!: what has the power
    `_ROW` i, and what has j, are multiplied as matrices. With |c_k| 4e-15 of the series is its error.
    """
    within = _powers(scaled, _ROW)
    blocks = _powers(within[-1] * scaled, _ROWS) * (weights * scaled * scaled)
    return blocks @ within.T / _FACTORIALS, blocks @ np.abs(within).T / _FACTORIALS


def power_series(unit: _Numbers, coefficients: Array) -> _Numbers:
    """The sum of unit^(k+2) c_k, a row of c for each `_ROW` powers."""
    powers = _powers(unit, _ROW)
    rows, step = coefficients @ powers, powers[-1] * unit
    total = rows[-1]
    for row in rows[-2::-1]:
        total = total * step + row
    return np.asarray(total * unit * unit)


def _powers(x: _Numbers, count: int) -> _Numbers:
    """Rows x^0, x^1, ... x^(count - 1), each twice as many as before at a time."""
    rows = np.empty((count, x.size), dtype=x.dtype)
    rows[0], rows[1], known = 1.0, x, 2
    while known < count:
        more = min(known - 1, count - known)
        np.multiply(rows[1 : 1 + more], rows[known - 1], out=rows[known : known + more])
        known += more
    return rows
