"""L-BFGS with backtracking: every step ends at a finite and lower value.

SciPy's line search fails where the value overflows, as it does for unstable filters.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: A step must lower the value by this fraction of the linear prediction; most halvings of a step.
_SUFFICIENT, _MOST_HALVINGS = 1e-4, 40
#: Curvature below this fraction of |s| |y| is rounding error.
_LEAST_CURVATURE = 1e-12


@dataclass(frozen=True, eq=False)
class Point:
    """``value`` and ``gradient`` at ``x``, both one-dimensional."""

    x: Array
    value: float
    gradient: Array


Evaluate: TypeAlias = Callable[[Array], Point]


def descent(evaluate: Evaluate, start: Array, pairs: int, scale: Array | float = 1.0) -> Iterator[Point]:
    """Yield the points of L-BFGS with this many ``pairs`` from ``start``, until no step lowers the value.

    ``scale``: approximate inverse second derivatives, up to a factor.
    """
    point: Point | None = evaluate(start)
    held: deque[tuple[Array, Array, float]] = deque(maxlen=pairs)
    while point is not None:
        yield point
        found = _step(evaluate, point, _direction(point, held, scale))
        if found is None and held:  # old pairs may mislead: retry without them
            held.clear()
            found = _step(evaluate, point, _direction(point, held, scale))
        if found is not None:
            s, y = found.x - point.x, found.gradient - point.gradient
            product = _dot(s, y)
            if product > _LEAST_CURVATURE * math.sqrt(_dot(s, s) * _dot(y, y)):
                held.append((s, y, product))
        point = found


def _direction(point: Point, held: deque[tuple[Array, Array, float]], scale: Array | float) -> Array:
    """Minus the gradient times the approximate inverse Hessian of the pairs."""
    from scipy.linalg.blas import daxpy  # in place

    found = -point.gradient
    factors = []
    for s, y, product in reversed(held):
        factors.append(_dot(s, found) / product)
        daxpy(y, found, a=-factors[-1])
    found *= scale
    if held:
        _, y, product = held[-1]
        found *= product / _dot(y, y * scale)
    else:
        found *= 1.0 / max(1.0, math.sqrt(_dot(found, found)))
    for (s, y, product), factor in zip(held, reversed(factors), strict=True):
        daxpy(s, found, a=factor - _dot(y, found) / product)
    return found


def _step(evaluate: Evaluate, point: Point, direction: Array) -> Point | None:
    """The first of the steps 1, 1/2, 1/4, ... that lowers the value sufficiently; None if none does."""
    slope = _dot(point.gradient, direction)
    length = 1.0
    for _ in range(_MOST_HALVINGS):
        found = evaluate(point.x + length * direction)
        if found.value <= point.value + _SUFFICIENT * length * slope and found.value < point.value:
            return found
        length /= 2.0
    return None


def _dot(x: Array, y: Array) -> float:
    return float(np.dot(x, y))
