"""A primal-dual interior point method for the dual: some twenty Newton steps, even where weights tend to 0.

The dual is the smooth convex problem: minimise mean v + mean u - 2 log h over v, u > 0 (u = 1 for the mean
error). Its gradient is (1 - G)/T, G = T phi / (h theta), so that theta is optimal where z = 1 - G >= 0 and
theta z = 0. Each step is Newton's for z = 1 - G and theta z = mu, with mu a tenth of the mean of theta z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.solve.curvature import curvature
from csgm_cli.factorization.solve.problem import LEAST_SHARE
from csgm_cli.factorization.workload import row_weights
from csgm_cli.model.factorization import Dual, Objective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csgm_cli.factorization.solve.problem import Point, Problem

Array = NDArray[np.float64]

#: One step aims to reduce the mean of theta z by this factor. No product may be less than this share of the
#: mean, and a step leaves at least this share of every positive number.
_REDUCTION = 0.1
#: The mean of theta z ends at this share of the tolerance: the gap is about two of it.
_END = 0.125
_FIRST_PRODUCT = 0.3
#: How far from the optimum the start may be, in the mean of theta (1 - G): the gap is that of one column.
_FAR = 10.0
#: Steps at the last mu: more would gain nothing.
_LAST_STEPS = 12
#: Of the second derivatives, tried in turn: where theta is tiny, a worse one may not be positive definite.
_ERRORS = (1e-6, 1e-9, 1e-12)


def interior(problem: Problem, start: Point, tolerance: float) -> Iterator[Point]:
    """The points after ``start``; ends where rounding leaves no Newton step, or steps no longer help."""
    rows = problem.objective is Objective.MAX
    theta = _weights(start.dual, rows=rows)
    share = min(1.0, start.gap, _FAR * float(np.abs(theta * (1.0 - _slopes(start, theta))).mean()))
    share = share or min(1.0, start.gap)  # slopes may agree to all their digits next to the optimum
    theta = (theta + share) / (1.0 + share)
    z = _FIRST_PRODUCT * share / theta
    left = _LAST_STEPS
    while left:
        theta = np.maximum(theta, 2.0 * LEAST_SHARE * theta.max(axis=0))
        u = theta[:, 1].copy() if rows else row_weights(problem.workload)
        dual = Dual(theta[:, 0].copy(), u)
        point = problem.at(problem.pack(dual))
        yield point
        theta = _weights(point.dual, rows=rows)
        gradient = 1.0 - _slopes(point, theta)
        mu = max(_REDUCTION * float((theta * z).mean()), _END * tolerance)
        left -= mu == _END * tolerance
        step = _newton(problem, point.dual, theta * z, mu - theta * gradient)
        if step is None:
            return
        change = mu / theta - z - z * step
        theta = theta * (1.0 + _length(step) * step)
        theta /= theta.mean(axis=0)
        z = z + _length(change / z) * change
        z = np.maximum(z, _REDUCTION * float((theta * z).mean()) / theta)


def _weights(dual: Dual, *, rows: bool) -> Array:
    """v, or v and u, as columns with mean 1."""
    weights = np.stack([dual.columns, dual.rows] if rows else [dual.columns], axis=1)
    return np.asarray(weights / weights.mean(axis=0))


def _slopes(point: Point, theta: Array) -> Array:
    """G: phi / theta, scaled so that phi has mean 1 like theta."""
    phi = theta * np.exp(point.steps_of(theta.shape[1]))
    return np.asarray(phi / phi.mean(axis=0) / theta)


def _newton(problem: Problem, dual: Dual, diagonal: Array, right: Array) -> Array | None:
    """The relative change of the weights."""
    for error in _ERRORS:
        try:
            second = curvature(problem.workload, dual, error, rows=diagonal.shape[1] == 2)
            return second.solve(diagonal, right)
        except ArithmeticError:
            continue
    return None


def _length(relative: Array) -> float:
    """The longest step, up to 1, that keeps all numbers well positive."""
    least = float(relative.min())
    return min(1.0, (1.0 - _REDUCTION) / -least) if least < 0.0 else 1.0
