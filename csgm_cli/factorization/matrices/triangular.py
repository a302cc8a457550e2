"""Quotients of lower-triangular matrices, by substitution, so that what is left over is rounding.

Products with an inverse would leave a remainder that grows with the condition of the divisor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Columns that are done at once: the rest of the work is matrix products.
_BLOCK = 64


def right_quotient(a: Array, c: Array) -> Array:
    """The X with X C = A; all three are n x n and lower-triangular, and C has no zero on its diagonal.

    Backward stable by rows: each entry of row i of X C - A is within n 2^-53 of (|X_i| |C|), whatever the
    condition of C (Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, theorem 8.5).
    """
    x = np.array(a, dtype=np.float64)
    n = len(c)
    with np.errstate(over="ignore", invalid="ignore"):  # the result is checked for overflow
        for start in reversed(range(0, n, _BLOCK)):
            stop = min(start + _BLOCK, n)
            x[stop:, start:stop] -= x[stop:, stop:] @ c[stop:, start:stop]
            part = x[start:, start:stop]  # above are zeros
            for j in reversed(range(stop - start)):
                part[:, j] -= part[:, j + 1 :] @ c[start + j + 1 : stop, start + j]
                part[:, j] /= c[start + j, start + j]
    return x


def left_quotient(b: Array, a: Array) -> Array:
    """The X with B X = A, likewise: backward stable by columns."""
    return _flipped(right_quotient(_flipped(a), _flipped(b)))


def inverse(c: Array) -> Array:
    """The X with X C = 1, as `right_quotient`."""
    return right_quotient(np.eye(len(c)), c)


def _flipped(x: Array) -> Array:
    """Transposed and with its indices reversed: lower-triangular again, products in the other order."""
    return x[::-1, ::-1].T
