"""Toeplitz factorizations: C and B by their first columns, series c and b with b * c = a.

The square root is that of Fichtenberger, Henzinger and Upadhyay (2022); with its columns scaled to norm 1 it
is lower-triangular but no longer Toeplitz.
"""

# ruff: noqa: N806 - T is the number of rows in every formula

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.factorization.workload import apply, series
from csgm_cli.model.factorization import Objective, Workload

Array = NDArray[np.float64]

#: Up to here the errors of the normalized square root are summed directly, in O(T^2).
_DIRECT = 2048
_LARGEST_DIRECT = 65536
_COLUMNS = 256
#: The errors of the trapezoid rule below are about exp(-pi^2/(2 step)) and exp(-reach).
_STEP, _REACH = 0.16, 34.0


def sqrt_series(workload: Workload) -> Array:
    """Coefficients of the power series A(z)^(1/2), T of them; ``UsageError`` unless A is Toeplitz."""
    _require_toeplitz(workload)
    k = np.arange(1, workload.T)
    root = np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))  # (1 - z)^(-1/2)
    if workload.momentum == 0.0:
        return root
    return _times(root, root * workload.momentum ** np.arange(workload.T))


def _require_toeplitz(workload: Workload) -> None:
    """``UsageError`` (slug ``not-toeplitz``) unless A_ij depends on i - j only, by its structure."""
    if not workload.is_toeplitz:
        raise UsageError(
            "not-toeplitz",
            f"Toeplitz strategies need the workload prefix-sum or momentum, got {workload.name}",
            "use optimal, identity or output",
        )


def row_errors(b: Array) -> Array:
    """Squared norm of each row of the Toeplitz B with first column ``b``."""
    return np.cumsum(b**2)


def column_norms(c: Array) -> Array:
    """Norm of each column of the Toeplitz C with first column ``c``."""
    return np.sqrt(np.cumsum(c**2)[::-1])


def normalized_row_errors(workload: Workload, c: Array) -> Array:
    """Squared row norms of B = A D C^-1: ``c`` is A(z)^(1/2), the first column of C, D its column norms."""
    if workload.T > _DIRECT and workload.momentum == 0.0:
        return _normalized_rows_of_sums(c)
    if workload.T > _LARGEST_DIRECT:
        raise UsageError(
            "too-large",
            f"toeplitz-sqrt-normalized with momentum takes T up to {_LARGEST_DIRECT}, got {workload.T}",
            "use toeplitz-sqrt or optimal",
        )
    T, inverse, norms = workload.T, _reciprocal(c), column_norms(c)
    padded = np.concatenate([np.zeros(T), inverse])
    errors = np.zeros(T)
    for start in range(0, T, _COLUMNS):
        columns = np.arange(start, min(start + _COLUMNS, T))
        shifted = padded[T + np.arange(T)[:, None] - columns]
        errors += (apply(workload, norms[:, None] * shifted) ** 2).sum(axis=1)
    return errors


def _normalized_rows_of_sums(c: Array) -> Array:
    """As `normalized_row_errors` for prefix sums, in O(T) for each of about 200 exponentials.

    Row i of B is D_i C_i + sum_{k<i} (D_k - D_{k+1}) C_k, and the products of the rows of C are sums of
    exponentials: C_i . C_k = sum_j w_j x_j^(i-k) sum_{p<=k} x_j^p c_p. All terms are positive.
    """
    from scipy.signal import lfilter

    norms = column_norms(c)
    squares = np.cumsum(c**2)
    falls = np.zeros_like(c)
    falls[:-1] = c[::-1][:-1] ** 2 / (norms[:-1] + norms[1:])  # D_k - D_{k+1} without cancellation
    nodes, weights = exponentials()
    k = np.arange(len(c))
    past = np.zeros_like(c)  # sum_{k<i} falls_k C_i . C_k
    for x, weight in zip(nodes, weights, strict=True):
        driven = np.cumsum(x**k * c) * falls
        past += weight * lfilter([0.0, x], [1.0, -x], driven)
    grown = np.concatenate([[0.0], np.cumsum(2.0 * falls * past + falls**2 * squares)[:-1]])
    return np.asarray(norms**2 * squares + 2.0 * norms * past + grown)


def exponentials() -> tuple[Array, Array]:
    """Nodes x and weights w with binom(2k, k)/4^k = sum_j w_j x_j^k, to 1e-13 and the rounding of x_j^k.

    (2/pi) int_0^(pi/2) sin(theta)^(2k) d theta at cos(theta) = 1/cosh(t), by the trapezoid rule in t.
    """
    t = np.arange(0.0, _REACH, _STEP)
    weights = (2.0 * _STEP / math.pi) / np.cosh(t)
    weights[0] /= 2.0
    return np.tanh(t) ** 2, weights


def optimal_series(workload: Workload, objective: Objective) -> tuple[Array, Array]:
    """First columns of B and C of the best Toeplitz factorization found from the square root.

    The problem is not convex: this is a local optimum, without a certificate of its own.
    """
    from scipy.optimize import minimize

    _require_toeplitz(workload)
    a, T = series(workload), workload.T
    carried = 0.5 * (workload.epochs - 1)
    weights = np.arange(T, 0.0, -1.0) / T + carried if objective is Objective.MEAN else np.ones(T)

    def loss(x: Array) -> tuple[float, Array]:
        """Return log ||c||^2 + log of the weighted ||b||^2, at c = (1, x)."""
        c = np.concatenate([[1.0], x])
        inverse = _reciprocal(c)
        b = _times(a, inverse)
        columns, rows = float(c @ c), float(weights @ b**2)
        # b = a / c, so that db = -(b / c) * dc.
        slope = 2.0 * c / columns - 2.0 * _correlated(_times(b, inverse), weights * b) / rows
        return math.log(columns) + math.log(rows), slope[1:]

    start = sqrt_series(workload)[1:]
    if not len(start):
        return a, np.ones(1)
    options = {"maxiter": 2000, "maxfun": 4000, "maxcor": 30, "ftol": 1e-16, "gtol": 1e-12}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    c = np.concatenate([[1.0], found.x])
    return _times(a, _reciprocal(c)), c


def _reciprocal(c: Array) -> Array:
    """The power series 1/c, as many terms as c has; c_0 must not be 0. Newton's iteration."""
    inverse = np.array([1.0 / c[0]])
    while len(inverse) < len(c):
        n = min(2 * len(inverse), len(c))
        padded = np.zeros(n)
        padded[: len(inverse)] = inverse
        residual = -_times(c[:n], padded)
        residual[0] = 0.0
        residual[: len(inverse)] = 0.0  # exactly so far
        inverse = padded + _times(padded, residual)
    return inverse


def _times(x: Array, y: Array) -> Array:
    """The product of two power series of equal length, truncated."""
    n = len(x)
    size = 1 << (2 * n - 1).bit_length()
    return np.asarray(np.fft.irfft(np.fft.rfft(x, size) * np.fft.rfft(y, size), size)[:n])


def _correlated(x: Array, y: Array) -> Array:
    """sum_i x_i y_(i+k) for each k."""
    return _times(x, y[::-1])[::-1]
