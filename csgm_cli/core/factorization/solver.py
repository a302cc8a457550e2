"""The optimal factorization, by its dual: v <- phi(v), accelerated, with a certificate at every step.

With h the nuclear norm of D_u^(1/2) A D_v^(1/2), any positive weights prove (docs/factorize.md)

    h^2 / (sum v sum u)  <=  best product of the largest squared row and column norms of B and C,

and C^T C = D_v^(-1/2) (W^T W)^(1/2) D_v^(-1/2) attains max(phi_v/v) max(phi_u/u). For the mean error u is
fixed at 1, and the sum of the squared row norms takes the place of their maximum.
"""

# ruff: noqa: N806 - T is the number of rows in every formula

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.factorization.oracle import Diagonals, Oracle, oracle_for
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.factorization_model import Dual, Objective, Workload
from csgm_cli.model import check_range

Array = NDArray[np.float64]
Progress = Callable[[int, float, Dual], None]

_DEPTH = 8
#: The plain step is too short everywhere: its error shrinks by 1/2 to 1 - O(1/log T).
_RELAXATION = 1.8
_MOST_STEPS = 1000
#: Entries of log v move at most this far in one step.
_LONGEST_STEP = 3.0
#: Weights of columns that do not matter to the worst row tend to 0; they stop here, relative to the largest.
_LEAST_LOG_WEIGHT = -32.0
#: The optimal weights of prefix sums at T = 2 are this golden ratio squared to 1 (mean), and 2 to 1 (max).
_GOLDEN_SQUARED = (3.0 + 5.0**0.5) / 2.0


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights with what they prove.

    No factorization has less error (||B||_F^2 sensitivity^2 / T, or the worst row's) than ``lower``; the
    one that belongs to ``dual`` has at most ``upper``. ``column_scale``: the largest diagonal entry
    of C^T C before it is scaled to 1. ``iterations``: evaluations of phi.
    """

    dual: Dual
    lower: float
    upper: float
    column_scale: float
    iterations: int

    @property
    def gap(self) -> float:
        """How far ``upper`` is above ``lower``, relatively."""
        return self.upper / self.lower - 1.0


def solve(
    workload: Workload,
    objective: Objective,
    tolerance: float = 1e-9,
    *,
    start: Dual | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Weights whose certified relative gap is at most ``tolerance`` (in [1e-13, 1]).

    ``start``: weights to resume from. ``progress(iteration, gap, dual)`` is called after every step.
    ``NoAnswerError`` (slug ``not-certified``) where rounding keeps the gap above the tolerance.
    """
    check_range("tolerance", tolerance)
    problem = _Problem(workload, objective, oracle_for(workload), max(1e-15, 1e-5 * tolerance))
    anderson = _Anderson()
    x = problem.pack(start) if start is not None else problem.first()
    best: _Point | None = None
    least = float("inf")
    for iteration in range(1, _MOST_STEPS + 1):
        point = problem.at(x)
        if progress is not None:
            progress(iteration, point.gap, point.dual)
        if point.gap <= tolerance:
            return Solution(point.dual, point.lower, point.upper, point.column_scale, iteration)
        least = min(least, point.gap)
        if point.gap_floor > tolerance:
            break
        if best is not None and point.lower < best.lower * (1.0 - 0.1 * min(best.gap, 1.0)):
            # The dual value rises along plain steps: extrapolation has gone astray.
            anderson = _Anderson()
            x = best.x + best.residual
            continue
        if best is None or point.lower > best.lower:
            best = point
        x = problem.normalized(anderson.next(point.x, point.residual, point.weight))
    raise NoAnswerError(
        "not-certified",
        f"the gap could not be brought to {tolerance:g} at T = {workload.T}: {least:.2g} was certified",
        "use a larger --tolerance",
    )


def certificate(workload: Workload, objective: Objective, dual: Dual) -> Solution:
    """What given weights prove, and what belongs to them, without a step of the solver.

    ``UsageError`` (slug ``bad-dual``) unless the weights are positive and as many as the workload has rows.
    """
    problem = _Problem(workload, objective, oracle_for(workload), 1e-14)
    point = problem.at(problem.pack(dual))
    return Solution(point.dual, point.lower, point.upper, point.column_scale, 0)


def lower_bound(workload: Workload, objective: Objective) -> float:
    """A proven bound without solving: that of equal weights, (nuclear norm of A / T)^2."""
    problem = _Problem(workload, objective, oracle_for(workload), 1e-13)
    return problem.at(problem.equal()).lower


@dataclass(frozen=True, eq=False)
class _Point:
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
        return self.upper / self.lower - 1.0


@dataclass(frozen=True)
class _Problem:
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
        return self.normalized(np.log(np.concatenate([v, u]) if self._rows_apart else v))

    def first(self) -> Array:
        """Exact at T <= 2 for prefix sums; elsewhere one plain step from equal weights."""
        T = self.workload.T
        if T <= 2 and self.workload.name == "prefix-sum":
            ratio = _GOLDEN_SQUARED if self.objective is Objective.MEAN else 2.0
            return self.normalized(np.log(np.array([ratio, 1.0])[-T:]))
        x = self.equal()
        return self.normalized(x + self.at(x).residual)

    def equal(self) -> Array:
        """All weights 1."""
        return np.zeros(2 * self.workload.T if self._rows_apart else self.workload.T)

    def normalized(self, x: Array) -> Array:
        """The same weights with mean 1."""
        parts = np.split(x, 2) if self._rows_apart else [x]
        return np.concatenate(
            [part - np.log(np.exp(part - part.max()).mean()) - part.max() for part in parts]
        )

    def at(self, x: Array) -> _Point:
        """Evaluate phi and the certificate at the weights exp(x)."""
        weight = np.exp(x)
        dual = self._dual(weight)
        found = self.oracle.diagonals(dual, self.accuracy, rows=self._rows_apart)
        phi = found.columns if found.rows is None else np.concatenate([found.columns, found.rows])
        residual = np.log(phi / weight)
        # h scales phi: the step keeps the sum of the weights, roughly.
        residual -= float(residual @ weight / weight.sum())
        lower, upper = self._bounds(dual, found)
        scale = float((found.columns / dual.columns).max())
        return _Point(x, residual, weight, dual, lower, upper, scale, 4.0 * found.error)

    def _dual(self, weight: Array) -> Dual:
        if self.objective is Objective.MEAN:
            return Dual(weight, np.ones(self.workload.T))
        if self._rows_apart:
            return Dual(*np.split(weight, 2))
        return Dual(weight, weight[::-1].copy())

    def _bounds(self, dual: Dual, found: Diagonals) -> tuple[float, float]:
        """Certified bounds: errors of phi and of these few operations on the safe side."""
        v, u, h = dual.columns, dual.rows, found.h
        error = found.error + self.workload.T * 2.0**-53
        lower = h**2 / float(v.sum() * u.sum()) * (1.0 - 3.0 * error)
        columns = float((found.columns / v).max())
        if self.objective is Objective.MEAN:
            rows = h / self.workload.T
        else:
            rows = columns if found.rows is None else float((found.rows / u).max())
        return float(lower), float(columns * rows * (1.0 + 3.0 * error))


class _Anderson:
    """Anderson acceleration of x <- x + residual: the best combination of the last few points."""

    def __init__(self) -> None:
        self._points: list[Array] = []
        self._residuals: list[Array] = []

    def next(self, x: Array, residual: Array, weight: Array) -> Array:
        """The next point; residuals are compared in the norm weighted by ``weight``."""
        step = _RELAXATION * residual
        if self._points:
            changes = np.stack([r - residual for r in self._residuals])
            moves = np.stack([p - x for p in self._points])
            gram = (changes * weight) @ changes.T
            size = 1.0 / np.sqrt(np.diag(gram))
            rhs = (changes * weight) @ residual
            mix = size * np.linalg.lstsq(gram * size * size[:, None], size * rhs, rcond=1e-13)[0]
            step = step - mix @ (moves + _RELAXATION * changes)
        self._points = [*self._points[1 - _DEPTH :], x]
        self._residuals = [*self._residuals[1 - _DEPTH :], residual]
        moved = x + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        return np.asarray(np.maximum(moved, moved.max() + _LEAST_LOG_WEIGHT))
