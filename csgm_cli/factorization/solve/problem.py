"""The dual problem: weights, phi, and the certificate of any weights."""

# ruff: noqa: N806 - T is the number of rows in every formula

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.factorization.workload import row_weights
from csgm_cli.model.factorization import Dual, Objective, Workload

if TYPE_CHECKING:
    from csgm_cli.factorization.solve.oracle import Diagonals, Oracle

Array = NDArray[np.float64]

#: The optimal weights of prefix sums at T = 2 are this golden ratio squared to 1 (mean), and 2 to 1 (max).
_GOLDEN_SQUARED = (3.0 + 5.0**0.5) / 2.0
#: The least weight to the largest: what is computed from less may overflow.
LEAST_SHARE = 1e-50
#: Of a column that is nothing beside others a singular value decomposition may find nothing at all.
_VANISHED = 1e-200


@dataclass(frozen=True, eq=False)
class Point:
    """One evaluation: logarithmic weights ``x``, the step to phi, and the certificate."""

    x: Array
    residual: Array
    weight: Array
    dual: Dual
    lower: float
    upper: float
    column_scale: float
    gap_floor: float  # the part of the gap that is rounding

    @property
    def gap(self) -> float:
        """How far ``upper`` is above ``lower``, relatively."""
        return self.upper / self.lower - 1.0

    def steps_of(self, parts: int) -> Array:
        """The steps of log v, or with 2 ``parts`` of log v and log u, as columns (up to a constant each)."""
        if parts == 1 or len(self.residual) > len(self.dual.columns):
            return self.residual.reshape(parts, -1).T
        return np.stack([self.residual, self.residual[::-1]], axis=1)


@dataclass(frozen=True)
class Problem:
    """What is unknown: v; and u too for the max error, unless it is v reversed by symmetry."""

    workload: Workload
    objective: Objective
    oracle: Oracle
    accuracy: float

    @property
    def _rows_apart(self) -> bool:
        return self.objective is Objective.MAX and not self.workload.is_toeplitz

    def pack(self, dual: Dual) -> Array:
        """The unknowns of ``dual``; ``UsageError`` unless its weights fit this problem."""
        v, u = np.asarray(dual.columns, dtype=float), np.asarray(dual.rows, dtype=float)
        for weights in (v, u):
            if weights.shape != (self.workload.T,):
                raise UsageError(
                    "bad-dual",
                    f"the weights to start from have shape {weights.shape}, not ({self.workload.T},)",
                )
            if not (np.isfinite(weights).all() and (weights > 0).all()):
                raise UsageError("bad-dual", "the weights to start from must be positive and finite")
            if weights.min() < LEAST_SHARE * weights.max():
                raise UsageError(
                    "bad-dual",
                    f"of the weights to start from the least must be {LEAST_SHARE:g} of the largest or more,"
                    f" got {weights.min():g} and {weights.max():g}",
                )
        return self.normalized(np.log(np.concatenate([v, u]) if self._rows_apart else v))

    def first(self) -> Array:
        """Exact at T <= 2 for prefix sums; elsewhere one plain step from equal weights."""
        T = self.workload.T
        if T <= 2 and self.workload.name == "prefix-sum" and self.workload.epochs == 1:
            ratio = _GOLDEN_SQUARED if self.objective is Objective.MEAN else 2.0
            return self.normalized(np.log(np.array([ratio, 1.0])[-T:]))
        x = self.equal()
        x = x + self.at(x).residual
        return self.normalized(np.maximum(x, x.max() + math.log(2.0 * LEAST_SHARE)))

    def equal(self) -> Array:
        """All weights 1."""
        return np.zeros(2 * self.workload.T if self._rows_apart else self.workload.T)

    def normalized(self, x: Array) -> Array:
        """The same weights with mean 1."""
        parts = np.split(x, 2) if self._rows_apart else [x]
        return np.concatenate(
            [part - np.log(np.exp(part - part.max()).mean()) - part.max() for part in parts]
        )

    def at(self, x: Array) -> Point:
        """Evaluate phi and the certificate at the weights exp(x)."""
        weight = np.exp(x)
        dual = self._dual(weight)
        found = self.oracle.diagonals(dual, self.accuracy, rows=self._rows_apart)
        phi = found.columns if found.rows is None else np.concatenate([found.columns, found.rows])
        phi = np.maximum(phi, _VANISHED)
        residual = np.log(phi / weight)
        # h scales phi: the step keeps the sum of the weights, roughly.
        residual -= float(residual @ weight / weight.sum())
        lower, upper = self._bounds(dual, found)
        scale = float(((found.columns + found.absolute) / dual.columns).max())
        scale *= 1.0 + found.error  # rounded up: errors of rows are claimed from it
        return Point(x, residual, weight, dual, lower, upper, scale, 4.0 * found.error)

    def _dual(self, weight: Array) -> Dual:
        if self.objective is Objective.MEAN:
            return Dual(weight, row_weights(self.workload))
        if self._rows_apart:
            return Dual(*np.split(weight, 2))
        return Dual(weight, weight[::-1].copy())

    def _bounds(self, dual: Dual, found: Diagonals) -> tuple[float, float]:
        """Certified bounds: errors of phi and of these few operations on the safe side."""
        v, u, h = dual.columns, dual.rows, found.h
        error = found.error + self.workload.T * 2.0**-53
        weight = float(self.workload.T) if self.objective is Objective.MEAN else float(u.sum())
        lower = h**2 / (float(v.sum()) * weight) * (1.0 - 3.0 * error)
        columns = float(((found.columns + found.absolute) / v).max())
        if self.objective is Objective.MEAN:
            rows = h / self.workload.T
        else:
            rows = columns if found.rows is None else float(((found.rows + found.absolute) / u).max())
        return float(lower), float(columns * rows * (1.0 + 3.0 * error))
