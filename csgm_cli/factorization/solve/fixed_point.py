"""The iteration v <- phi(v), accelerated: O(T) a step, and fast where no optimal weight is 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csgm_cli.factorization.solve.problem import Point, Problem

Array = NDArray[np.float64]

_DEPTH = 8
#: The plain step is too short everywhere: its error shrinks by 1/2 to 1 - O(1/log T).
_RELAXATION = 1.8
#: Entries of log v move at most this far in one step.
_LONGEST_STEP = 3.0
#: Weights of columns that do not matter to the worst row tend to 0; they stop here, relative to the largest.
_LEAST_LOG_WEIGHT = -32.0
#: The pace: the gap should fall by a factor of ten in so many steps, after which it is checked each time.
_STEPS_PER_DIGIT = 16


def keeps_pace(steps: int, first: float, gap: float) -> bool:
    """Whether the fixed point converges fast enough: ``steps`` steps from gap ``first`` to ``gap``."""
    return steps % _STEPS_PER_DIGIT != 0 or gap <= min(first, 1.0) * 10.0 ** (1 - steps // _STEPS_PER_DIGIT)


def fixed_point(problem: Problem, x: Array) -> Iterator[Point]:
    """The points from logarithmic weights ``x`` on, without end."""
    anderson = _Anderson()
    best: Point | None = None
    while True:
        point = problem.at(x)
        yield point
        if best is not None and point.lower < best.lower * (1.0 - 0.1 * min(best.gap, 1.0)):
            # The dual value rises along plain steps: extrapolation has gone astray.
            anderson = _Anderson()
            x = best.x + best.residual
            continue
        if best is None or point.lower > best.lower:
            best = point
        x = problem.normalized(anderson.next(point.x, point.residual, point.weight))


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
            size = 1.0 / np.sqrt(
                np.maximum(np.diag(gram), np.finfo(np.float64).tiny)
            )  # 0 where nothing moved
            rhs = (changes * weight) @ residual
            mix = size * np.linalg.lstsq(gram * size * size[:, None], size * rhs, rcond=1e-13)[0]
            step = step - mix @ (moves + _RELAXATION * changes)
        self._points = [*self._points[1 - _DEPTH :], x]
        self._residuals = [*self._residuals[1 - _DEPTH :], residual]
        moved = x + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        return np.asarray(np.maximum(moved, moved.max() + _LEAST_LOG_WEIGHT))
