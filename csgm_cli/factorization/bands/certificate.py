"""A proven lower bound on the error of all banded C, from any one of them; quadratic in its gradient.

With X = C^T C, D = X^-1 A^T D_u A X^-1, E the part of D in the bands and off the diagonal, n_i the largest
norm that column i may have, and R = E D^-1 E / 4 (docs/theory.md):

    f*  >=  (f - tr(E X)/2)^2 / (sum_i D_ii n_i^2 + sum_{|i-j|<p} |R_ij| n_i n_j).
"""

# ruff: noqa: N803, N806 - T, D, E, R and X are what they are called in the formula

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.bands.blocks import bands_from, dual_blocks

if TYPE_CHECKING:
    from csgm_cli.factorization.bands.blocks import Evaluation

Array = NDArray[np.float64]

#: Rounding of f, D and R, relative: a modest multiple of the last bit for each row, as is customary.
_ROUNDING = 64.0 * 2.0**-53


def lower_bound(found: Evaluation, norms: Array, bands: int) -> float:
    """A lower bound on the weighted error of every C with so many ``bands`` and columns up to ``norms``."""
    T = len(norms)
    lower, left = dual_blocks(found)
    diagonal = np.einsum("kii->ki", lower).flatten()[:T]
    _keep_band(lower, left, bands, T)
    trace, spread = _products(found, lower, left, bands)
    most = float(diagonal @ norms**2) + _weighed(spread, norms)
    least = max(0.0, found.value - trace / 2.0) ** 2 / most
    return least * (1.0 - _ROUNDING * T)


def _keep_band(lower: Array, left: Array, bands: int, T: int) -> None:
    """Set to 0 all of D but E."""
    i = np.arange(lower.shape[1])
    gap = i[:, None] - i
    lower *= (abs(gap) < bands) & (gap != 0)
    left *= gap + len(i) < bands
    last = T - (len(lower) - 1) * len(i)
    lower[-1, last:] = lower[-1, :, last:] = left[-1, last:] = 0.0


def _products(found: Evaluation, lower: Array, left: Array, bands: int) -> tuple[float, Array]:
    """tr(E X), and |R| in its bands on and below the diagonal."""
    T = len(found.weights)
    gram, below = _gram(found.blocks.lower, found.blocks.left)
    e, x = _windows(lower, left), _windows(gram, below)
    trace = float(np.einsum("kij,kij->", e, x))
    m = lower.shape[1]
    # Row i of E X, columns from block k - 2 to k + 2; then of E X N, N first differences of rows.
    wide = np.zeros((len(e), m, 5 * m))
    padded = np.concatenate([np.zeros((1, m, 3 * m)), x, np.zeros((1, m, 3 * m))])
    for shift in range(3):
        part = e[:, :, shift * m : (shift + 1) * m] @ padded[shift : len(e) + shift]
        wide[:, :, shift * m : (shift + 3) * m] += part
    wide[:, :, :-1] -= wide[:, :, 1:].copy()
    wide *= _root_weights(found.weights, len(e), m)[:, None]
    own = wide @ wide.transpose(0, 2, 1) / 4.0
    other = np.zeros_like(own)
    other[1:] = wide[1:, :, : 4 * m] @ wide[:-1, :, m:].transpose(0, 2, 1) / 4.0
    return trace, np.abs(bands_from(own, other, (bands, T)))


def _gram(lower: Array, left: Array) -> tuple[Array, Array]:
    """X = C^T C in the blocks (k, k) and (k, k-1)."""
    gram = lower.transpose(0, 2, 1) @ lower
    gram[:-1] += left[1:].transpose(0, 2, 1) @ left[1:]
    return gram, lower.transpose(0, 2, 1) @ left


def _windows(own: Array, left: Array) -> Array:
    """Block rows of a symmetric matrix, from block k - 1 to k + 1, shape (K, m, 3 m)."""
    right = np.zeros_like(left)
    right[:-1] = left[1:].transpose(0, 2, 1)
    return np.concatenate([left, own, right], axis=2)


def _root_weights(weights: Array, blocks: int, m: int) -> Array:
    """u_t^(-1/2) for the columns of each block row's window, 0 outside of the matrix, shape (K, 5 m)."""
    padded = np.zeros((blocks + 4) * m)
    padded[2 * m : 2 * m + len(weights)] = weights**-0.5
    at = np.arange(blocks)[:, None] * m + np.arange(5 * m)
    return np.asarray(padded[at])


def _weighed(spread: Array, norms: Array) -> float:
    """The sum of |R_ij| n_i n_j over |i-j| < p."""
    total = float(spread[0] @ norms**2)
    for row in range(1, len(spread)):
        total += 2.0 * float(spread[row, :-row] @ (norms[row:] * norms[:-row]))
    return total
