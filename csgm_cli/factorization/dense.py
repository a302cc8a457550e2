"""B, C and C^-1 as arrays."""

# ruff: noqa: N806 - T is the number of rows in every formula

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError, shown
from csgm_cli.factorization.matrices.semiseparable import dense_from, generators, row_from
from csgm_cli.factorization.matrices.triangular import inverse, right_quotient
from csgm_cli.factorization.solve.oracle import SINGULAR_ERROR, chain_poles
from csgm_cli.factorization.solve.singular_values import singular_pairs
from csgm_cli.factorization.solve.solver import column_norms
from csgm_cli.factorization.strategies import tree
from csgm_cli.factorization.strategies.toeplitz import column_norms as column_norms_of
from csgm_cli.factorization.workload import columns, dense, inverse_norm_bound, mean_and_max, solve, structure
from csgm_cli.model.factorization import (
    Dual,
    Factorization,
    Factors,
    Generators,
    Objective,
    Strategy,
    StrategyName,
    Workload,
)
from csgm_cli.ranges import check_type

Array = NDArray[np.float64]
Precision: TypeAlias = Literal["float32", "float64"]

#: Relative errors of the quadrature for all of C, and for a few rows in a plot.
_ERROR, _ROW_ERROR = 1e-14, 1e-7
#: Up to this bound on ||A^-1 (B C - A)|| the inverse of C is A^-1 B: of prefix sums to about T = 10^4.
_ACCURATE = 1e-7
#: Rows that are scaled at a time, so that no second C is in memory.
_ROWS = 512
#: Norms are summed in float64: this relative margin exceeds their rounding for every T that fits in memory.
_MARGIN = 2.0**-44
#: A squared norm that rounding changes by more than this, relative, has subnormal or lost entries.
_KEPT = 1e-6


def dense_factors(factorization: Factorization, precision: Precision = "float64") -> Factors:
    """B, C and C^-1 in ``precision``, with column norms of C that are not above the sensitivity.

    C is scaled down by what rounding adds to it, and B and C^-1 up; each is rounded by itself. Takes
    ``dense_bytes``. For ``optimal`` and ``streaming`` columns of C have norm 1 up to rounding, or, with the
    max error, less where the worst rows depend little on them. ``UsageError`` (slug ``out-of-range``) for
    numbers that ``precision`` cannot hold, or whose squares float64 cannot.
    """
    check_type("factorization", factorization, Factorization)
    if precision not in ("float32", "float64"):
        raise UsageError("unknown-choice", f"precision must be float32 or float64, got {shown(precision)}")
    name = factorization.strategy.name
    if name.has_nodes:
        c, b = tree.nodes(factorization.T), tree.prefixes(factorization.T, name)
        return _measured(factorization.workload, b.astype(precision), c.astype(precision), None)
    c = _factor(factorization)
    # Norms of the identity are no sums: by itself it needs no scale, which would only round A.
    sensitivity = factorization.sensitivity
    scale = sensitivity if name is StrategyName.IDENTITY else fitting_scale(c, sensitivity, precision)
    # From the exact C: what belongs to the rounded one is as far from it as the condition of C says.
    b = right_quotient(columns(factorization.workload, 0, factorization.T), c)
    c_inverse = _inverse(factorization.workload, b, c)
    b = _rounded("B", b, 1.0 / scale, precision, axis=1)
    c_inverse = _rounded("C^-1", c_inverse, 1.0 / scale, precision, axis=1)
    return _measured(factorization.workload, b, _rounded("C", c, scale, precision, axis=0), c_inverse)


def _inverse(workload: Workload, b: Array, c: Array) -> Array:
    """C^-1: A^-1 B in O(T^2), where B C = A to so many digits that this is as good."""
    if workload.matrix is not None or workload.momentum:
        return inverse(c)
    size = math.sqrt(float(_squares(b, axis=1).sum()) * float(_squares(c, axis=1).sum()))
    rounding = len(c) * 2.0**-53 * size * inverse_norm_bound(workload)
    return solve(workload, b) if rounding <= _ACCURATE else inverse(c)


def _rounded(name: str, x: Array, scale: float, precision: Precision, axis: int) -> Array:
    """``x`` times ``scale``, which overwrites it, in ``precision``; norms along ``axis`` must survive."""
    with np.errstate(over="ignore", invalid="ignore"):
        x *= scale
        found = x.astype(precision, copy=False)
        exact, left = _squares(x, axis), _squares(found, axis)
        kept = (exact > 0.0) & np.isfinite(left) & (np.abs(left - exact) <= _KEPT * exact)
    if not kept.all():
        lost = f"a {'row' if axis else 'column'} of {name} is too large or too small for {precision}"
        hint = "`dtype` float64" if precision == "float32" else "scale the workload"
        raise UsageError("out-of-range", lost, hint)
    return found


def _measured(workload: Workload, b: Array, c: Array, inverse: Array | None) -> Factors:
    """With the sensitivity and the errors of exactly these numbers."""
    squared = float(_squares(c, axis=0).max())
    return Factors(b, c, inverse, squared**0.5, *mean_and_max(workload, squared * _squares(b, axis=1)))


def _squares(x: Array, axis: int) -> Array:
    """Squared norms along ``axis``, summed in float64."""
    subscripts = "ij,ij->j" if axis == 0 else "ij,ij->i"
    return np.asarray(np.einsum(subscripts, x, x, dtype=np.float64))


def fitting_scale(c: Array, sensitivity: float, precision: Precision) -> float:
    """By what to scale C so that no column norm exceeds ``sensitivity`` after rounding to ``precision``."""
    limit = sensitivity * (1.0 - _MARGIN)
    scale, extra = 1.0, float(np.finfo(precision).eps) / 16.0
    while True:
        with np.errstate(over="ignore"):
            parts = (c[i : i + _ROWS] * scale for i in range(0, len(c), _ROWS))
            squares = sum(_squares(part.astype(precision, copy=False), axis=0) for part in parts)
        norm = float(np.max(squares)) ** 0.5
        if norm <= limit or not np.isfinite(norm):
            return scale
        # A step below the spacing of the numbers may change nothing: each is longer than the last.
        scale *= limit / norm * (1.0 - extra)
        extra *= 2.0


def _factor(factorization: Factorization) -> Array:
    """The lower-triangular C."""
    if factorization.factor is not None:
        return np.array(factorization.factor, dtype=np.float64)
    if factorization.band_matrix is not None:
        return _from_bands(np.asarray(factorization.band_matrix, np.float64))
    return _factor_of_strategy(factorization)


def _factor_of_strategy(factorization: Factorization) -> Array:
    """C by what each strategy knows it by."""
    workload, name = factorization.workload, factorization.strategy.name
    if factorization.generators is not None:
        return dense_from(factorization.generators)
    if factorization.dual is not None:
        return _optimal_factor(workload, factorization.objective, factorization.dual)
    if factorization.series is not None:
        c = _toeplitz_matrix(np.asarray(factorization.series)[1])
        if name is StrategyName.TOEPLITZ_SQRT_NORMALIZED:
            c /= np.sqrt(_squares(c, axis=0))
        return c
    if name is StrategyName.HONAKER_FULL:
        nodes = tree.nodes(workload.T)
        return _reversed_cholesky(nodes.T @ nodes)
    return np.array(dense(workload)) if name is StrategyName.OUTPUT else np.eye(workload.T)


def rows_take_all(workload: Workload, strategy: Strategy) -> bool:
    """Whether ``factor_rows`` has to make all of C; ``UsageError`` (slug ``no-rows``) for trees."""
    name = strategy.name
    if name.has_nodes:
        raise UsageError("no-rows", f"the rows of C are nodes with {name}", "`compare` draws its error")
    if name in (StrategyName.OPTIMAL, StrategyName.STREAMING):
        return workload.matrix is not None or workload.momentum > 0.0
    return name in (
        StrategyName.HONAKER_FULL,
        StrategyName.OUTPUT,
        StrategyName.IDENTITY,
        StrategyName.FIXED_ORDER,
    )


def factor_rows(factorization: Factorization, rows: Sequence[int]) -> list[Array]:
    """The entries C[t, 0], ..., C[t, t] for each t in ``rows``, C scaled to sensitivity 1.

    O(T N) a row where C is known by N poles, to six digits, or by a series; see ``rows_take_all``.
    """
    workload, strategy = factorization.workload, factorization.strategy
    if rows_take_all(workload, strategy):
        c = _factor(factorization) / factorization.sensitivity
        return [c[t, : t + 1].copy() for t in rows]
    if factorization.series is not None:
        c = np.asarray(factorization.series)[1]
        normal = strategy.name is StrategyName.TOEPLITZ_SQRT_NORMALIZED
        norms = column_norms_of(c) if normal else np.full(len(c), factorization.sensitivity)
        return [c[t::-1] / norms[: t + 1] for t in rows]
    if factorization.band_matrix is not None:
        bands = np.asarray(factorization.band_matrix) / factorization.sensitivity
        return [_band_row(bands, t) for t in rows]
    g = factorization.generators
    if g is None:
        assert factorization.dual is not None  # optimal
        g = _generators(workload, factorization.objective, factorization.dual, _ROW_ERROR)
    return [row_from(g, t) for t in rows]


def _band_row(bands: Array, t: int) -> Array:
    """C[t, 0], ..., C[t, t]."""
    row = np.zeros(t + 1)
    held = np.arange(min(len(bands), t + 1))
    row[t - held] = bands[held, t - held]
    return row


def _optimal_factor(workload: Workload, objective: Objective, dual: Dual) -> Array:
    """The lower-triangular C, the largest column norm 1, of the factorization that belongs to ``dual``."""
    if workload.matrix is None and workload.momentum == 0.0:
        return dense_from(_generators(workload, objective, dual, _ERROR))
    root = np.sqrt(dual.columns)
    w = np.sqrt(dual.rows)[:, None] * dense(workload) * root
    values, m = singular_pairs(w, dual)
    # C^T C = X = m^T m: never formed, for its condition is that of C squared.
    m *= np.sqrt(values)[:, None]
    m /= root
    m /= np.sqrt(_squares(m, axis=0).max())
    # More on the diagonal of X makes no row of B longer, where scaling might: it makes up for what the gap
    # leaves open, and for rounding, so that the condition of C is bounded whatever that of the workload.
    squares = _squares(m, axis=0)
    more = np.maximum(column_norms(workload, objective, dual) ** 2 - squares, SINGULAR_ERROR * squares)
    c = _reversed_triangle(np.concatenate([m, np.diag(np.sqrt(more))]))
    c /= np.sqrt(_squares(c, axis=0).max())
    return c


def _generators(workload: Workload, objective: Objective, dual: Dual, error: float) -> Generators:
    """C of a workload without momentum, with poles enough for this relative ``error``."""
    poles = chain_poles(structure(workload), dual, error)
    return generators(workload, dual, poles, column_norms(workload, objective, dual))


def _reversed_triangle(m: Array) -> Array:
    """The lower-triangular C with C^T C = m^T m: a QR decomposition from the last column to the first."""
    r = np.asarray(np.linalg.qr(m[:, ::-1], mode="r"))
    c = r[::-1, ::-1]
    return np.ascontiguousarray(c * np.where(np.diag(c) < 0.0, -1.0, 1.0)[:, None])


def _reversed_cholesky(x: Array) -> Array:
    """The lower-triangular C with C^T C = x: Cholesky from the last index to the first."""
    return np.ascontiguousarray(np.linalg.cholesky(x[::-1, ::-1])[::-1, ::-1].T)


def _from_bands(bands: Array) -> Array:
    """C from its bands."""
    T = bands.shape[1]
    c = np.zeros((T, T))
    for at, band in enumerate(bands):
        np.fill_diagonal(c[at:], band[: T - at])
    return c


def _toeplitz_matrix(series: Array) -> Array:
    """The lower-triangular Toeplitz matrix with this first column."""
    T = len(series)
    c = np.zeros((T, T))
    for j in range(T):
        c[j:, j] = series[: T - j]
    return c
