"""Errors of a banded C for prefix sums, and their gradient, by a Markov chain over blocks of rows.

The noise w = C^-1 z is autoregressive. In blocks of m rows, with L_k and U_k the blocks of C on and left of
the diagonal, the state x_k = (w of block k, sum s of all w so far) is F_k x_{k-1} + G_k z_k,

    F_k = [-L^-1 U, 0; -1^T L^-1 U, 1],    G_k = [L^-1; 1^T L^-1],

and row t of B has the squared norm Var(s_t). A forward recursion computes the covariances, a backward one
the gradient. Only the L_k are inverted, so no condition number is squared. With p bands this takes O(T p^2)
operations and O(T p) memory.
"""

# ruff: noqa: N806 - T, L, U, F, G, D and M are the names in the formulas

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Smaller blocks spend more time on the overhead of a step than on arithmetic.
_LEAST_BLOCK = 16


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks L_k and U_k of C, both (K, m, m), padded with rows of the identity."""

    lower: Array
    left: Array
    rows: int

    @property
    def size(self) -> int:
        """Rows of a block."""
        return int(self.lower.shape[1])

    @cached_property
    def inverse(self) -> Array:
        """L_k^-1."""
        return np.asarray(np.linalg.inv(self.lower))

    @cached_property
    def carried(self) -> Array:
        """M_k = L_k^-1 U_k."""
        return np.asarray(self.inverse @ self.left)

    @cached_property
    def steps(self) -> Array:
        """F_k, shape (K, m+1, m+1)."""
        m = self.size
        found = np.zeros((len(self.lower), m + 1, m + 1))
        found[:, :m, :m] = -self.carried
        found[:, m, :m] = -self.carried.sum(axis=1)
        found[:, m, m] = 1.0
        return found

    @cached_property
    def covariances(self) -> Array:
        """Cov(x_k), shape (K, m+1, m+1)."""
        drive = np.concatenate([self.inverse, self.inverse.sum(axis=1, keepdims=True)], axis=1)
        found = drive @ drive.transpose(0, 2, 1)
        for k in range(1, len(found)):
            step = self.steps[k]
            found[k] += step @ found[k - 1] @ step.T
        return np.asarray(found)

    def row_errors(self) -> Array:
        """The squared norm of each row of B, shape (T,)."""
        reads = _reads(self.size)
        rows = np.einsum("ti,kij,tj->kt", reads, self.covariances, reads, optimize=True)
        return np.asarray(rows.reshape(-1)[: self.rows])


def blocks_of(bands: Array) -> Blocks:
    """The blocks of the C with these ``bands``, of max(p, 16) rows each."""
    p, T = bands.shape
    m = max(p, min(_LEAST_BLOCK, T))
    K = -(-T // m)
    padded = np.zeros((K * m, p))
    padded[:T] = bands.T
    padded[T:, 0] = 1.0
    # Column j of a block begins in its row j: one number later in memory than column j - 1, in rows of 2 m.
    flat = np.zeros((K, m * (2 * m + 1)))
    flat.reshape(K, m, 2 * m + 1)[:, :, :p] = padded.reshape(K, m, p)
    columns = flat[:, : 2 * m * m].reshape(K, m, 2 * m)
    left = np.zeros((K, m, m))
    left[1:] = columns[:-1, :, m:].transpose(0, 2, 1)
    return Blocks(np.ascontiguousarray(columns[:, :, :m].transpose(0, 2, 1)), left, T)


def bands_from(lower: Array, left: Array, shape: tuple[int, int]) -> Array:
    """The bands (p, T) of a matrix with these blocks: the inverse of `blocks_of`."""
    p, T = shape
    K, m, _ = lower.shape
    flat = np.zeros((K, m * (2 * m + 1)))
    columns = flat[:, : 2 * m * m].reshape(K, m, 2 * m)
    columns[:, :, :m] = lower.transpose(0, 2, 1)
    columns[:-1, :, m:] = left[1:].transpose(0, 2, 1)
    return trimmed(flat.reshape(K, m, 2 * m + 1)[:, :, :p].reshape(K * m, p)[:T].T)


def trimmed(bands: Array) -> Array:
    """Set the entries of ``bands`` below row T - 1 to 0, in place."""
    for row in range(1, len(bands)):
        bands[row, -row:] = 0.0
    return bands


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Row errors of C and the products Y = C D, D = X^-1 A^T D_u A X^-1, in the blocks of C.

    The weighted error f = sum_t u_t Var(s_t) has the gradient -2 Y in the bands.
    """

    blocks: Blocks
    rows: Array
    weights: Array
    lower: Array
    left: Array

    @property
    def value(self) -> float:
        """The weighted error f."""
        return float(self.weights @ self.rows)


def evaluate(bands: Array, weights: Array | Callable[[Array], Array]) -> Evaluation:
    """The errors of C and their gradient.

    ``weights``: u, shape (T,), positive; or a function that computes them from the row errors.
    """
    blocks = blocks_of(bands)
    m, covariances, rows = blocks.size, blocks.covariances, blocks.row_errors()
    weights = weights(rows) if callable(weights) else weights
    values = _value_forms(blocks, weights)
    # L^-T J^T Lambda, J = [I; 1^T].
    seen = blocks.inverse.transpose(0, 2, 1) @ (values[:, :m] + values[:, m:])
    left = np.zeros_like(blocks.lower)
    left[1:] = seen[1:] @ (blocks.steps[1:] @ covariances[:-1, :, :m])
    return Evaluation(blocks, rows, weights, seen @ covariances[:, :, :m], left)


def dual_blocks(found: Evaluation) -> tuple[Array, Array]:
    """D = C^-1 Y = X^-1 A^T D_u A X^-1 in the blocks (k, k) and (k, k-1)."""
    inverse, carried = found.blocks.inverse, found.blocks.carried
    lower, left = inverse @ found.lower, inverse @ found.left
    for k in range(len(lower)):
        if k:
            left[k] -= carried[k] @ lower[k - 1]
            lower[k] -= carried[k] @ left[k].T
        lower[k] = (lower[k] + lower[k].T) / 2.0
    return lower, left


def _reads(m: int) -> Array:
    """The matrix, shape (m, m+1), whose row t maps the state to s_t = s - (sum of w over later rows)."""
    return np.concatenate([-np.triu(np.ones((m, m)), 1), np.ones((m, 1))], axis=1)


def _value_forms(blocks: Blocks, weights: Array) -> Array:
    """Lambda_k with f = sum <V_k, Cov(x_k)> and df = sum <Lambda_k, own change of Cov(x_k)>."""
    K, m = len(blocks.lower), blocks.size
    padded = np.zeros(K * m)
    padded[: len(weights)] = weights
    reads = _reads(m)
    found = np.asarray(np.einsum("ti,kt,tj->kij", reads, padded.reshape(K, m), reads, optimize=True))
    for k in range(K - 2, -1, -1):
        step = blocks.steps[k + 1]
        found[k] += step.T @ found[k + 1] @ step
    return found
