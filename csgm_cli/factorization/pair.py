"""B and C from arrays: the missing one computed from the other, both measured and multiplied out."""

# ruff: noqa: N806 - A, B, C and T are what they are called in every formula

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.array_contents import AGREE, Arrays, incomplete, wide, widened
from csgm_cli.factorization.matrices.triangular import (
    PANEL,
    Columns,
    left_quotient,
    right_quotient,
    unit_columns,
)
from csgm_cli.factorization.workload import columns, mean_and_max

if TYPE_CHECKING:
    from csgm_cli.model.factorization import Workload

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pair:
    """B (T, R) and C (R, T), in float32 or float64; all sums are in float64."""

    B: NDArray[Any]
    C: NDArray[Any]

    def measured(self, workload: Workload) -> tuple[float, float, float]:
        """Squared sensitivity, mean and largest squared error."""
        squared = float(squared_norms(self.C, axis=0).max())
        return squared, *mean_and_max(workload, squared * squared_norms(self.B, axis=1))

    def residual(self, a: Columns) -> float:
        """The largest entry of B C - A, each over its row's norm in B and column's in C; NaN beyond float64.

        An entry of B C is no larger than that, and R 2^-53 of it bounds the rounding of the entry, in
        whatever order it is summed. A scale for all would hide small rows behind a large one.
        """
        rows, cols = np.sqrt(squared_norms(self.B, axis=1)), np.sqrt(squared_norms(self.C, axis=0))
        if not np.isfinite(rows.max() * cols.max()):
            return float("nan")
        largest = []
        for start, product in self.product():
            stop = start + product.shape[1]
            off = a(start, stop)
            np.abs(np.subtract(product, off, out=off), out=off)
            np.divide(off, np.outer(rows, cols[start:stop]), out=off, where=off > 0.0)
            largest.append(off.max())
        return float(np.max(largest))

    def product(self) -> Iterator[tuple[int, Array]]:
        """B C, some columns at a time: the first of them, and all their rows. Skips what is exactly zero."""
        T = len(self.B)
        reach = [_last(self.B[i : i + PANEL]) for i in range(0, T, PANEL)]
        for start in range(0, T, PANEL):
            right = wide(self.C[:, start : start + PANEL])
            first = len(right) - _last(right[::-1].T)
            panel = np.zeros((T, right.shape[1]))
            for k, stop in enumerate(reach):
                rows = slice(k * PANEL, (k + 1) * PANEL)
                if first < stop:
                    np.matmul(wide(self.B[rows, first:stop]), right[first:stop], out=panel[rows])
            yield start, panel


def _last(x: NDArray[Any]) -> int:
    """How many columns of ``x`` there are up to the last that is not all zeros."""
    return int(np.flatnonzero(x.any(axis=0)).max(initial=-1)) + 1


def squared_norms(x: NDArray[Any], axis: int) -> Array:
    """Squared norms along ``axis``, summed in float64."""
    return np.asarray(np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", x, x, dtype=np.float64))


def pair_of(workload: Workload, arrays: Arrays) -> Pair | None:
    """B and C as given, or the missing one from the other: B = A C^+, C = B^+ A; None where neither is there.

    C comes from ``C_inv`` as C_inv^+. ``UsageError`` (slug ``incomplete-arrays``) where the given one has
    too low a rank.
    """
    B, C = arrays.get("B"), arrays.get("C")
    if C is None and (inverse := widened(arrays, "C_inv")) is not None:
        C = _right_factor("C_inv", inverse, unit_columns(workload.T))
    if C is None and B is not None:
        C = _right_factor("B", wide(B), partial(columns, workload))
    if B is None and C is not None:
        B = _left_factor("C" if "C" in arrays else "C_inv", wide(C), partial(columns, workload))
    return None if B is None or C is None else Pair(B, C)


def is_triangular(x: NDArray[Any]) -> bool:
    """True for a square without zeros on its diagonal and with nothing but zeros above it."""
    if x.shape[0] != x.shape[1] or not np.diag(x).all():
        return False
    return not any(np.triu(x[i : i + PANEL], i + 1).any() for i in range(0, len(x), PANEL))


def noise_quotient(workload: Workload, name: str, matrix: NDArray[Any]) -> tuple[Array, Columns] | None:
    """The triangle L and the columns of A in C = L^-1 A, for noise made with B (or C^-1, by ``name``).

    L is ``matrix``, or, by an orthogonal transform of Z, a triangle that makes noise of the same law. None
    without full rank.
    """
    x = wide(matrix)
    if not is_triangular(x):
        x = np.asarray(np.linalg.qr(x.T, mode="r")).T
    if not is_triangular(x):  # no product with it is A
        return None
    return x, partial(columns, workload) if name == "B" else unit_columns(workload.T)


def _right_factor(name: str, b: Array, a: Columns) -> Array:
    """The C of least column norms with B C = A."""
    if is_triangular(b):
        return left_quotient(b, a)
    q, r = np.linalg.qr(b.T)
    c = q @ left_quotient(np.ascontiguousarray(r.T), a) if np.diag(r).all() else np.zeros_like(b.T)
    _check_product(Pair(b, c), a, name)
    return c


def _left_factor(name: str, c: Array, a: Columns) -> Array:
    """The B of least row norms with B C = A."""
    T = c.shape[1]
    if is_triangular(c):
        return right_quotient(a(0, T), c)
    q, r = np.linalg.qr(c[:, ::-1])
    lower = np.ascontiguousarray(r[::-1, ::-1])
    b = right_quotient(a(0, T), lower) @ q[:, ::-1].T if np.diag(lower).all() else np.zeros_like(c.T)
    _check_product(Pair(b, c), a, name)
    return b


def _check_product(found: Pair, a: Columns, name: str) -> None:
    """Raise ``UsageError`` unless each row of B C is that of A to nine digits, which takes rank T."""
    off, rows = np.zeros(len(found.B)), np.zeros(len(found.B))
    for start, product in found.product():
        exact = a(start, start + product.shape[1])
        off += squared_norms(product - exact, axis=1)
        rows += squared_norms(exact, axis=1)
    if not (off <= AGREE["float64"] ** 2 * rows).all():
        low = "columns of C" if name == "C" else f"rows of {name}"
        raise incomplete(f"it holds no factorization: to nine digits the {low} are linearly dependent")
