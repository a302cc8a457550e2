"""Workloads: how they are named, checked, multiplied with, and bounded, in O(T) where they have structure.

With structure, A = E(left) diag(rates) E(right), where E(x)_ij = x^(i-j) for i >= j, so that
A^-1 = E(right)^-1 diag(1/rates) E(left)^-1 has three diagonals (docs/factorize.md).
"""

# ruff: noqa: N803, N806 - T is the number of rows in every formula

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csgm_cli.errors import UsageError
from csgm_cli.model.factorization import Workload
from csgm_cli.ranges import check_range, check_type

Array = NDArray[np.float64]

_SCALES = (1e-50, 1e50)


def parse_workload(spec: str, T: int) -> Workload:
    """The workload that ``prefix-sum`` or ``momentum=0.9`` names, with ``T`` rows.

    ``UsageError`` for another word (slug ``unknown-workload``) and for numbers out of range.
    """
    check_type("workload", spec, str)
    T = int(check_range("T", T))
    word, equals, number = spec.partition("=")
    if spec == "prefix-sum":
        return Workload(T)
    if word == "momentum" and equals:
        try:
            momentum = float(number)
        except ValueError:
            raise UsageError("not-a-number", f"momentum must be a number, got {number!r}") from None
        check_range("momentum", momentum)
        return Workload(T, momentum)
    raise UsageError(
        "unknown-workload",
        f"workload must be prefix-sum, momentum=NUMBER or a .npy file, got {spec!r}",
        f"momentum={spec.removeprefix('momentum:')}" if spec.startswith("momentum:") else "",
    )


def schedule_workload(learning_rates: ArrayLike, momentum: float = 0.0) -> Workload:
    """SGD with one positive learning rate per step and ``momentum`` in [0, 1); ``UsageError`` otherwise."""
    check_range("momentum", momentum)
    rates = _real(learning_rates, "learning rates")
    if rates.ndim != 1:
        raise UsageError(
            "bad-workload", f"learning rates must be one row of numbers, got shape {rates.shape}"
        )
    check_range("T", len(rates))
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise UsageError("bad-workload", "every learning rate must be positive and finite")
    _check_scale(rates, "learning rates")
    if np.ptp(rates) == 0 and rates[0] == 1:
        return Workload(len(rates), momentum)
    return Workload(len(rates), momentum, rates)


def matrix_workload(matrix: ArrayLike) -> Workload:
    """Any square, finite, lower-triangular matrix with no zero on its diagonal; ``UsageError`` otherwise."""
    a = _real(matrix, "a workload")
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not a.size:
        raise UsageError("bad-workload", f"a workload must be a square matrix, got shape {a.shape}")
    for t, row in enumerate(a):  # one at a time: a may take half of the memory
        _check_row(t, row)
    zeros = np.flatnonzero(np.diag(a) == 0)
    if len(zeros):
        raise UsageError(
            "bad-workload", f"a workload must not be singular: its diagonal is 0 in row {zeros[0]}"
        )
    for axis, side in ((1, "row"), (0, "column")):
        largest = np.maximum(a.max(axis), -a.min(axis))
        _check_scale(largest, f"the largest entries of each {side} of a workload")
    return Workload(len(a), matrix=a)


def _check_row(t: int, row: Array) -> None:
    if not np.isfinite(row).all():
        raise UsageError("bad-workload", "a workload must be finite: it has NaN or infinite entries")
    above = np.flatnonzero(row[t + 1 :])
    if len(above):
        column = t + 1 + above[0]
        raise UsageError(
            "bad-workload",
            f"a workload must be lower-triangular (row t may use steps up to t only): entry ({t}, {column})"
            f" is {row[column]:g}",
        )


def leading(workload: Workload, rows: int) -> Workload:
    """The first ``rows`` rows and columns of A, 1 <= ``rows`` <= T."""
    matrix, rates = workload.matrix, workload.learning_rates
    return replace(
        workload,
        T=rows,
        matrix=None if matrix is None else matrix[:rows, :rows].copy(),
        learning_rates=None if rates is None else rates[:rows].copy(),
    )


def _check_scale(magnitudes: Array, what: str) -> None:
    """Errors are squares, of which float64 holds no more."""
    low, high = _SCALES
    if magnitudes.min() < low or magnitudes.max() > high:
        found = magnitudes.max() if magnitudes.max() > high else magnitudes.min()
        raise UsageError(
            "bad-workload",
            f"{what} must be in [{low:g}, {high:g}], got {found:g}",
            "scale it: errors scale along",
        )


def _real(values: ArrayLike, what: str) -> Array:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths
        raise UsageError("bad-workload", f"{what} must be a regular array") from None
    if array.dtype.kind not in "iuf":
        raise UsageError("bad-workload", f"{what} must be real numbers, got an array of {array.dtype}")
    return np.array(array, dtype=np.float64)


@dataclass(frozen=True)
class Structure:
    """A = E(left) diag(rates) E(right): T positive ``rates``, the others in [0, 1] and not both 1."""

    left: float
    right: float
    rates: Array

    @property
    def flipped(self) -> Structure:
        """The structure of J A^T J, J the reversal of indices."""
        return Structure(self.right, self.left, self.rates[::-1].copy())

    def column_bound(self) -> Array:
        """For each j a bound on A_ij over i."""
        steps = np.arange(len(self.rates), 0.0, -1.0)
        spread = np.minimum(steps, 1.0 / (1.0 - min(self.left, self.right)))
        return np.asarray(np.maximum.accumulate(self.rates[::-1])[::-1] * spread)

    def trace_bound(self, v: Array, u: Array) -> float:
        """At least the trace of D_v A^T D_u A."""
        return float(v * self.column_bound() ** 2 @ np.cumsum(u[::-1])[::-1])

    def inverse_norm_bound(self, v: Array, u: Array) -> float:
        """At least the largest eigenvalue of (D_v^(1/2) A^T D_u A D_v^(1/2))^-1: its row sums, rescaled."""
        x = np.ones(len(v))
        x[:-1] += self.right  # |E(right)^-T|, then up the product
        x = x / self.rates
        x[:-1] += self.left * x[1:]
        x = x / u
        x[1:] += self.left * x[:-1]
        x = x / self.rates
        x[1:] += self.right * x[:-1]
        return float((x / v).max())


def structure(workload: Workload) -> Structure:
    """The factors of a workload that is not a matrix."""
    rates = workload.learning_rates
    return Structure(1.0, workload.momentum, np.ones(workload.T) if rates is None else np.asarray(rates))


def inverse_norm_bound(workload: Workload) -> float:
    """At least the spectral norm of A^-1, up to rounding; infinity for a matrix, whose inverse is unknown."""
    if workload.matrix is not None:
        return math.inf
    ones = np.ones(workload.T)
    return math.sqrt(structure(workload).inverse_norm_bound(ones, ones))


def solve(workload: Workload, x: Array) -> Array:
    """A^-1 x for T x T ``x``, without momentum and not for a matrix; an entry takes two roundings."""
    found = np.array(x)
    found[1:] -= x[:-1]
    if workload.learning_rates is not None:
        found /= np.asarray(workload.learning_rates)[:, None]
    return found


def apply(workload: Workload, x: Array) -> Array:
    """A x, along the first axis of ``x``."""
    if workload.matrix is not None:
        return np.asarray(workload.matrix @ x)
    y = np.array(x)
    if workload.momentum:
        for i in range(1, workload.T):
            y[i] += workload.momentum * y[i - 1]
    if workload.learning_rates is not None:
        y *= np.reshape(workload.learning_rates, (-1, *[1] * (x.ndim - 1)))
    return np.cumsum(y, axis=0, out=y)


def dense(workload: Workload) -> Array:
    """A itself, T x T."""
    if workload.matrix is not None:
        return np.asarray(workload.matrix)
    return columns(workload, 0, workload.T)


def columns(workload: Workload, start: int, stop: int) -> Array:
    """Columns ``start`` to ``stop`` of A, shape (T, stop - start), as an array of its own."""
    if workload.matrix is not None:
        return np.array(workload.matrix[:, start:stop], dtype=np.float64)
    if workload.momentum:
        return apply(workload, np.eye(workload.T, stop - start, -start))
    found = np.tri(workload.T, stop - start, -start)
    if workload.learning_rates is not None:
        found *= workload.learning_rates[start:stop]
    return found


def row_norms_squared(workload: Workload) -> Array:
    """The squared norm of each row of A."""
    if workload.matrix is not None:
        return np.asarray((workload.matrix**2).sum(axis=1))
    return _driven_variances(structure(workload))


def column_norms_squared(workload: Workload) -> Array:
    """The squared norm of each column of A."""
    if workload.matrix is not None:
        return np.asarray((workload.matrix**2).sum(axis=0))
    return _driven_variances(structure(workload).flipped)[::-1].copy()


def over_epochs(workload: Workload, epochs: int) -> Workload:
    """The same in so many epochs; ``UsageError`` (slug ``matrix-epochs``) for a matrix in more than one."""
    epochs = int(check_range("epochs", epochs))
    if workload.matrix is not None and epochs > 1:
        raise UsageError(
            "matrix-epochs",
            "a workload that is a matrix does not say what later epochs carry on: epochs must be 1",
        )
    return replace(workload, epochs=epochs)


def row_weights(workload: Workload) -> Array:
    """How often each row counts in T times the mean error: the last one for all later epochs, too."""
    weights = np.ones(workload.T)
    weights[-1] += 0.5 * workload.T * (workload.epochs - 1)
    return weights


def mean_and_max(workload: Workload, rows: Array) -> tuple[float, float]:
    """Mean and largest error over all epochs, from the squared norms of the ``rows`` of B."""
    carried = (workload.epochs - 1) * float(rows[-1])
    return float(rows.mean()) + carried / 2.0, float(rows.max()) + carried


def _driven_variances(a: Structure) -> Array:
    """Variances of A w for white w: m = right m + w, y = left y + rate m."""
    if a.right == 0.0 and a.left == 1.0:
        return np.cumsum(a.rates**2)
    mm = ym = yy = 0.0
    found = np.empty(len(a.rates))
    for i, rate in enumerate(a.rates.tolist()):
        mm = a.right * a.right * mm + 1.0
        ym = a.left * a.right * ym
        yy = a.left * a.left * yy + rate * (2.0 * ym + rate * mm)
        ym += rate * mm
        found[i] = yy
    return found


def series(workload: Workload, count: int | None = None) -> Array:
    """The first column of a Toeplitz workload: A_ij = series[i - j]."""
    k = np.arange(workload.T if count is None else count)
    if workload.momentum == 0.0:
        return np.ones(len(k))
    return np.asarray(-np.expm1((k + 1) * math.log(workload.momentum)) / (1.0 - workload.momentum))
