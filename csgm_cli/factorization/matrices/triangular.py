"""Quotients of lower-triangular matrices, by substitution, so that what is left over is rounding.

Products with an inverse would leave a remainder that grows with the condition of the divisor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: (start, stop) -> columns start to stop of an n x n matrix, as an array of its own.
Columns: TypeAlias = Callable[[int, int], Array]

#: Rows, or columns, of the quotient that are computed together: what lies beyond the diagonal is skipped.
PANEL = 512
#: Up to this size a triangle is solved row by row; the rest of the work is matrix products.
_BLOCK = 64


def right_quotient(a: Array, c: Array) -> Array:
    """The X with X C = A, which overwrites ``a``.

    All are n x n and lower-triangular, and C has no zero on its diagonal.
    Backward stable by rows: each entry of row i of X C - A is within n 2^-53 of (|X_i| |C|), whatever the
    condition of C and the order of the sums (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
    edition, theorem 8.5).
    """
    n = len(c)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked for overflow
        for start in range(0, n, PANEL):
            stop = min(start + PANEL, n)
            _solve_rows(a[start:stop, :stop], c[:stop, :stop])
    return a


def left_quotient(b: Array, columns: Columns) -> Array:
    """The X with B X = A, A given by its ``columns``; backward stable by columns, as `right_quotient`."""
    x = np.zeros_like(b)
    for start, panel in left_quotient_panels(b, columns):
        x[:, start : start + panel.shape[1]] = panel
    return x


def left_quotient_panels(b: Array, columns: Columns) -> Iterator[tuple[int, Array]]:
    """`left_quotient`, a few of its columns at a time: the first of them, and all their rows."""
    n = len(b)
    for start in range(0, n, PANEL):
        panel = columns(start, min(start + PANEL, n))
        with np.errstate(over="ignore", invalid="ignore"):
            _solve_columns(b[start:, start:], panel[start:])
        yield start, panel


def inverse(c: Array) -> Array:
    """The X with X C = 1, as `right_quotient`."""
    return right_quotient(np.eye(len(c)), c)


def unit_columns(n: int) -> Columns:
    """The columns of the identity."""
    return lambda start, stop: np.eye(n, stop - start, -start)


def _solve_rows(x: Array, c: Array) -> None:
    """Replace ``x``, of any number of rows, by x C^-1."""
    n = len(c)
    if n > _BLOCK:
        half = n // 2
        _solve_rows(x[:, half:], c[half:, half:])
        x[:, :half] -= x[:, half:] @ c[half:, :half]
        _solve_rows(x[:, :half], c[:half, :half])
        return
    rows = x.T.copy()  # so that each step works on memory in one piece
    for j in reversed(range(n)):
        rows[j] -= c[j + 1 :, j] @ rows[j + 1 :]
        rows[j] /= c[j, j]
    x[...] = rows.T


def _solve_columns(b: Array, x: Array) -> None:
    """Replace ``x``, of any number of columns, by B^-1 x."""
    n = len(b)
    if n > _BLOCK:
        half = n // 2
        _solve_columns(b[:half, :half], x[:half])
        x[half:] -= b[half:, :half] @ x[:half]
        _solve_columns(b[half:, half:], x[half:])
        return
    for i in range(n):
        x[i] -= b[i, :i] @ x[:i]
        x[i] /= b[i, i]
