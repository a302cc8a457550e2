"""Searches for where a bound on delta meets its target, steered by cheaper estimates of the bound.

A bound in full is dear. Around an answer it is mostly what ``retrace`` says, or else off by a factor that
changes slowly from something simpler. What a search ends with is a bound in full, whatever the estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from csgm_cli.roots import Point, descend, interpolated, narrowed, secant

#: So often an estimate is followed.
_MOST_STEPS = 6

#: So far beside a point, relative, estimates tell the slope.
_BESIDE = 1e-4

#: Points closer than this, relative, tell no more than one: what is between them may be rounding.
_TOO_CLOSE = 1e-7

#: Of one variable.
Function = Callable[[float], float]


@dataclass(frozen=True)
class Search:
    """For the x at which a decreasing ``excess``, which is exactly 0 where a search may end, is that.

    ``again(x)`` is what the excess is elsewhere, by the test function that decided at x, if it has one.
    ``size(x)`` differs from the excess by what changes slowly. ``slope``: of the excess in log x, about.
    Around x nothing is told apart that is closer than ``blind(x)``, relative.
    """

    excess: Function
    again: Callable[[float], Function | None]
    size: Callable[[float], Function]
    slope: float
    blind: Function = lambda _: 0.0

    def root(self, start: float, highest: float, lowest: float, width: float) -> float:
        """The x, or the end of a bracket of that relative width where the excess is at most 0.

        Sought from ``start``; ``highest`` where the excess is positive there, ``lowest`` where it never is.
        """
        points: list[Point] = []
        x: float | None = start
        while x is not None and 0.0 < x <= highest and len(points) < _MOST_STEPS:
            value = self.excess(x)
            if value == 0.0:
                return x
            points.append((x, value))
            x = self._ahead(points)
        safe = min((point for point in points if -math.inf < point[1] < 0.0), default=None)
        unsafe = max((point for point in points if 0.0 < point[1] < math.inf), default=None)
        if safe:
            width = max(width, self.blind(safe[0]))
        if safe and unsafe and unsafe < safe:
            return narrowed(self.excess, unsafe, safe, width, relative=True)
        return descend(self.excess, safe[0] if safe else highest, lowest, width=width, slope=self.slope)

    def _ahead(self, points: list[Point]) -> float | None:
        x, value = points[-1]
        try:
            with np.errstate(all="ignore"):
                again = self.again(x) or self._less_sure(points)
                slope = (again(x * (1 + _BESIDE)) - value) / (_BESIDE * x)
                return secant(again, x, value, slope)
        except (OverflowError, ValueError):  # too far from what is known
            return None

    def _less_sure(self, points: list[Point]) -> Function:
        last = points[-1][0]
        size = self.size(last)
        apart = [point for point in points[-3:-1] if abs(point[0] - last) > _TOO_CLOSE * last]
        rest = [(there, known - size(there)) for there, known in [*apart, points[-1]]]
        return lambda there: size(there) + interpolated(rest, there)


def settled(value: float, room: float) -> float:
    """``value`` + ``room``; 0, which ends a search, where ``value`` is at most 0 by less than 2 ``room``."""
    return value + room if not -2 * room <= value <= 0.0 else 0.0


def log_ratio(value: float, delta: float) -> float:
    """Log of ``value`` over ``delta``; -inf where it is 0."""
    return math.log(value / delta) if value > 0.0 else -math.inf
