"""A lower bound on the error of all banded C, computed from any one of them.

Its gap is quadratic in the gradient at that C.

With X = C^T C, D = X^-1 A^T D_u A X^-1, E the part of D in the bands and off the diagonal, n_i the largest
norm that column i may have, and R = E D^-1 E / 4 (docs/theory.md):

    f*  >=  (f - tr(E X)/2)^2 / (sum_i D_ii n_i^2 + sum_{|i-j|<p} |R_ij| n_i n_j).
"""

# ruff: noqa: N803, N806 - T, D, E, R and X are the names in the formula

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.bands.blocks import bands_from, dual_blocks

if TYPE_CHECKING:
    from csgm_cli.factorization.bands.blocks import Evaluation

Array = NDArray[np.float64]

#: Relative rounding error of f, D and R for each row: a modest multiple of the last bit, as is customary.
_ROUNDING = 64.0 * 2.0**-53
#: Block rows processed at a time, to save memory.
_AT_ONCE = 256


def lower_bound(found: Evaluation, norms: Array, bands: int) -> float:
    """A lower bound on the weighted error of every C with this many ``bands`` and columns up to ``norms``."""
    T = len(norms)
    lower, left = dual_blocks(found)
    diagonal = np.einsum("kii->ki", lower).flatten()[:T]
    _keep_band(lower, left, bands, T)
    trace, spread = _products(found, lower, left, bands)
    most = float(diagonal @ norms**2) + _weighed(spread, norms)
    least = max(0.0, found.value - trace / 2.0) ** 2 / most
    return least * (1.0 - _ROUNDING * T)


def _keep_band(lower: Array, left: Array, bands: int, T: int) -> None:
    """Set all entries of D that are not in E to 0."""
    i = np.arange(lower.shape[1])
    gap = i[:, None] - i
    lower *= (abs(gap) < bands) & (gap != 0)
    left *= gap + len(i) < bands
    last = T - (len(lower) - 1) * len(i)
    lower[-1, last:] = lower[-1, :, last:] = left[-1, last:] = 0.0


def _products(found: Evaluation, lower: Array, left: Array, bands: int) -> tuple[float, Array]:
    """tr(E X), and |R| in its bands on and below the diagonal."""
    gram, below = _gram(found.blocks.lower, found.blocks.left)
    trace = float(np.einsum("kij,kij->", lower, gram) + 2.0 * np.einsum("kij,kij->", left, below))
    own, other = np.empty_like(lower), np.empty_like(left)
    for start in range(0, len(lower), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(lower))
        e, x = _windows(lower, left, start - 1, stop), _windows(gram, below, start - 2, stop + 1)
        wide = _rows_of_root(e, x) * _root_weights(found.weights, start - 1, len(e), lower.shape[1])
        m = lower.shape[1]
        own[start:stop] = wide[1:] @ wide[1:].transpose(0, 2, 1) / 4.0
        other[start:stop] = wide[1:, :, : 4 * m] @ wide[:-1, :, m:].transpose(0, 2, 1) / 4.0
    return trace, np.abs(bands_from(own, other, (bands, len(found.weights))))


def _rows_of_root(e: Array, x: Array) -> Array:
    """E X N, where N takes first differences: block row k from block k - 2 to k + 2, shape (K, m, 5 m)."""
    m = e.shape[1]
    wide = np.zeros((len(e), m, 5 * m))
    for shift in range(3):
        part = e[:, :, shift * m : (shift + 1) * m] @ x[shift : len(e) + shift]
        wide[:, :, shift * m : (shift + 3) * m] += part
    wide[:, :, :-1] -= wide[:, :, 1:].copy()
    return wide


def _gram(lower: Array, left: Array) -> tuple[Array, Array]:
    """X = C^T C in the blocks (k, k) and (k, k-1)."""
    gram = lower.transpose(0, 2, 1) @ lower
    gram[:-1] += left[1:].transpose(0, 2, 1) @ left[1:]
    return gram, lower.transpose(0, 2, 1) @ left


def _windows(own: Array, left: Array, start: int, stop: int) -> Array:
    """Block rows ``start`` to ``stop`` of a symmetric matrix, from block k - 1 to k + 1: (K, m, 3 m)."""
    right = _cut(left, start + 1, stop + 1).transpose(0, 2, 1)
    return np.concatenate([_cut(left, start, stop), _cut(own, start, stop), right], axis=2)


def _cut(blocks: Array, start: int, stop: int) -> Array:
    """The blocks from ``start`` to ``stop``, zeros where there are none."""
    found = np.zeros((stop - start, *blocks.shape[1:]))
    first, last = max(start, 0), min(stop, len(blocks))
    found[first - start : last - start] = blocks[first:last]
    return found


def _root_weights(weights: Array, start: int, rows: int, m: int) -> Array:
    """u_t^(-1/2) for the columns of each window from block row ``start``, shape (rows, 1, 5 m); 0 outside."""
    at = (start - 2 + np.arange(rows))[:, None] * m + np.arange(5 * m)
    inside = (at >= 0) & (at < len(weights))
    found = np.zeros(at.shape)
    found[inside] = weights[at[inside]] ** -0.5
    return found[:, None]


def _weighed(spread: Array, norms: Array) -> float:
    """The sum of |R_ij| n_i n_j over |i-j| < p."""
    total = float(spread[0] @ norms**2)
    for row in range(1, len(spread)):
        total += 2.0 * float(spread[row, :-row] @ (norms[row:] * norms[:-row]))
    return total
