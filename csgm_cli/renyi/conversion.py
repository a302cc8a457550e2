"""From log-moments to (epsilon, delta), at the best order (Canonne, Kamath and Steinke 2020, Proposition 12).

    log delta = K(a) - (a - 1) epsilon - log(a - 1) + a log(1 - 1/a),   K = (a - 1) times the Renyi divergence
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.renyi.moment import LogMoment, replace_one
from csgm_cli.roots import lowest

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

_ULP = 2.0**-53
#: Orders are sought in log(order - 1): the first step, that from an order next to the best, and the limits.
_STRIDE, _WARM_STRIDE, _LEAST, _MOST = 1.5, 0.1, -27.0, 42.0
#: Width of the bracket around the best order; what is left is of second order.
_WIDTH = 1e-7


@dataclass(frozen=True)
class AtOrder:
    """An upper bound on log delta, rounding errors added, and the ``order`` that it is from.

    ``error`` is what was added for rounding.
    """

    log_delta: float
    order: float
    error: float


@dataclass(frozen=True)
class RenyiCurve:
    """K(order) of a ``law``, or under ``replace_one`` what the weak triangle inequality makes of it.

    ``integer_orders``: only 2, 3, 4, ... are admitted, as in the paper.
    """

    law: Law
    replace_one: bool = False
    integer_orders: bool = False

    def moment(self, order: float) -> LogMoment:
        """(order - 1) times the bound on the Renyi divergence, for order > 1."""
        if not self.replace_one:
            return self.law.log_moment(order)
        at_even = self.law.log_moment(2 * order)
        return replace_one(order, self.law.log_moment(2 * order - 1), at_even)


def log_shrink(order: float) -> float:
    """log(1 - 1/order), for any order > 1."""
    return math.log((order - 1) / order) if order < 2 else math.log1p(-1 / order)


def log_delta_at(order: float, moment: LogMoment, epsilon: float) -> AtOrder:
    """Log delta at one order; infinite where the moment is."""
    if math.isinf(moment.value):
        return AtOrder(math.inf, order, math.inf)
    gap = order - 1
    spent = gap * epsilon
    if order < 2:  # written so that it vanishes as order -> 1
        terms = (gap * math.log(gap), -order * math.log(order))
    else:
        terms = (-math.log(gap), order * log_shrink(order))
    value = math.fsum((moment.value, -spent, *terms))
    error = moment.value * moment.error + 4 * _ULP * (moment.value + spent + sum(map(abs, terms)))
    return AtOrder(value + error, order, error)


def best_log_delta(curve: RenyiCurve, epsilon: float, start: float | None = None) -> AtOrder:
    """The least log delta over the orders that ``curve`` admits; ``start`` is an order to begin at."""

    def at(order: float) -> AtOrder:
        return log_delta_at(order, curve.moment(order), epsilon)

    order = best_order(lambda order: at(order).log_delta, first_order(curve.law, epsilon), start)
    if curve.integer_orders:
        return min(map(at, integers_next_to(order)), key=lambda found: found.log_delta)
    return at(order)


def best_order(log_delta: Callable[[float], float], guess: float, near: float | None = None) -> float:
    """The order above 1 at which a function with one valley is least, sought from ``guess`` on.

    ``near``: an order close to the best, where one is known.
    """
    seen: dict[float, float] = {}

    def at(log_gap: float) -> float:
        if log_gap not in seen:
            seen[log_gap] = log_delta(1.0 + math.exp(log_gap))
        return seen[log_gap]

    stride, start = (_STRIDE, guess) if near is None else (_WARM_STRIDE, near)
    middle = min(max(math.log(start - 1.0), _LEAST), _MOST)
    for side in (1.0, -1.0):
        at_end = False
        while not at_end:
            ahead = min(max(middle + side * stride, _LEAST), _MOST)
            at_end = ahead in (_LEAST, _MOST)
            stride *= 2.0 if near else 1.0
            if not at(ahead) < at(middle) and not math.isinf(at(middle)):
                break
            middle = ahead
    places = sorted(seen)
    index = places.index(min(places, key=at))
    low, high = places[max(index - 1, 0)], places[min(index + 1, len(places) - 1)]
    lowest(at, low, high, _WIDTH)
    return 1.0 + math.exp(min(seen, key=seen.__getitem__))


def integers_next_to(order: float) -> list[float]:
    """The one or two integer orders next to a real one, lowest first; the least is 2."""
    return sorted({float(max(2, math.floor(order))), float(max(2, math.ceil(order)))})


def first_order(law: Law, epsilon: float) -> float:
    """Where to begin: the best order of the law's Gaussian limit, (epsilon + V/2)/V."""
    variance = max(law.spread_variance, 1e-300)
    gap = (epsilon + math.sqrt(20.0 * variance)) / variance
    if law.coordinates:  # a single mask bit shows at orders far above this
        gap = min(gap, 1.0 + 40.0 / law.largest_t)
    return 1.0 + min(max(gap, 1e-9), 1e15)
