"""From log-moments to (epsilon, delta), at the best real order.

A conversion gives log delta at one order from the log-moment K there and epsilon, and falls with epsilon
and rises with K. Of Canonne, Kamath and Steinke (2020), Proposition 12, here:

    log delta = K - (a - 1) epsilon - log(a - 1) + a log(1 - 1/a),   K = (a - 1) times the Renyi divergence
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.errors import NoAnswerError
from csgm_cli.renyi.moment import LogMoment, replace_one
from csgm_cli.roots import safe_end, valley

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: (order, log-moment at it, epsilon) -> an upper bound on log delta, rounding errors added.
Conversion = Callable[[float, LogMoment, float], float]

_ULP = 2.0**-53
#: Orders are sought in log(order - 1): the first step, that from an order next to the best, and the limits.
_STRIDE, _WARM_STRIDE, _LEAST, _MOST = 1.5, 0.1, -27.0, 42.0
#: Width of the bracket around the best order; what is left is of second order.
_WIDTH = 1e-9
#: Logarithms of epsilon between which one is sought, and the width of the bracket around it.
_LEAST_EPSILON, _MOST_EPSILON, _EPSILON_WIDTH = math.log(1e-12), math.log(1e60), 2e-14


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


def renyi_log_delta(order: float, moment: LogMoment, epsilon: float) -> float:
    """Log delta at one order; infinite where the moment is."""
    if math.isinf(moment.value):
        return math.inf
    gap = order - 1
    spent = gap * epsilon
    if order < 2:  # written so that it vanishes as order -> 1
        terms = (gap * math.log(gap), -order * math.log(order))
    else:
        terms = (-math.log(gap), order * log_shrink(order))
    error = moment.value * moment.error + 4 * _ULP * (moment.value + spent + sum(map(abs, terms)))
    return math.fsum((moment.value, -spent, *terms, error))


def best_log_delta(
    curve: RenyiCurve, convert: Conversion, epsilon: float, near: float | None = None
) -> tuple[float, float]:
    """The least log delta over the orders that ``curve`` admits, and its order; ``near``: one close to it."""
    found = _best(curve, lambda order, moment: convert(order, moment, epsilon), epsilon, near)
    if near is not None and not found[0] < 0.0:  # beyond orders at which no moment can be computed
        return best_log_delta(curve, convert, epsilon)
    return found


def best_epsilon(curve: RenyiCurve, convert: Conversion, log_delta: float) -> tuple[float, float]:
    """The least epsilon >= 0 over the orders that ``curve`` admits (or infinity), and its order."""
    known = [0.0]

    def epsilon(order: float, moment: LogMoment) -> float:
        if math.isinf(moment.value):
            return math.inf
        found = _epsilon_at(order, moment, convert, log_delta, known[-1])
        known.append(math.log(found) if 0.0 < found < math.inf else known[-1])
        return found

    return _best(curve, epsilon, 1.0, None)


def _epsilon_at(order: float, moment: LogMoment, convert: Conversion, log_delta: float, near: float) -> float:
    """The epsilon at which one order gives ``log_delta``; ``near``: a guess at its logarithm."""
    if convert(order, moment, 0.0) <= log_delta:
        return 0.0
    try:
        found = safe_end(
            lambda x: convert(order, moment, math.exp(x)) - log_delta,
            near,
            slope=2.0 * abs(log_delta) + 1.0,
            width=_EPSILON_WIDTH,
            floor=_LEAST_EPSILON,
            ceiling=_MOST_EPSILON,
        )
    except NoAnswerError:
        return math.inf
    return math.exp(found)


def allowed_moment(order: float, convert: Conversion, epsilon: float, log_delta: float) -> float:
    """The largest log-moment at one order that gives (epsilon, delta); 0 where none does."""

    def excess(minus_log: float) -> float:
        moment = LogMoment(math.exp(-minus_log), 0.0, 0.0, 2.0**-50)
        return convert(order, moment, epsilon) - log_delta

    try:
        return math.exp(-safe_end(excess, 0.0, slope=1.0, width=1e-13, floor=-60.0, ceiling=60.0))
    except NoAnswerError:
        return 0.0


def _best(
    curve: RenyiCurve, value: Callable[[float, LogMoment], float], epsilon: float, near: float | None
) -> tuple[float, float]:
    order = best_order(lambda order: value(order, curve.moment(order)), first_order(curve.law, epsilon), near)
    orders = integers_next_to(order) if curve.integer_orders else [order]
    return min((value(order, curve.moment(order)), order) for order in orders)


def best_order(value: Callable[[float], float], guess: float, near: float | None = None) -> float:
    """The order above 1 at which a function with one valley is least, sought from ``guess`` on.

    ``near``: an order close to the best, where one is known.
    """
    stride, start = (_STRIDE, guess) if near is None else (_WARM_STRIDE, near)
    log_gap, _ = valley(
        lambda x: value(1.0 + math.exp(x)),
        math.log(start - 1.0),
        stride=stride,
        low=_LEAST,
        high=_MOST,
        width=_WIDTH,
    )
    return 1.0 + math.exp(log_gap)


def integers_next_to(order: float) -> list[float]:
    """The one or two integer orders next to a real one, lowest first; the least is 2."""
    return sorted({float(max(2, math.floor(order))), float(max(2, math.ceil(order)))})


def first_order(law: Law, epsilon: float) -> float:
    """Where to begin: between the best orders of the Renyi and the matched bound in the Gaussian limit.

    A single mask bit shows at orders far above 1 + 8/t.
    """
    variance = min(max(law.spread_variance, 1e-300), 1e300)
    gap = (1.0 + epsilon + math.sqrt(20.0 * variance)) / variance
    if law.coordinates:
        gap = min(gap, 1.0 + 8.0 / law.largest_t)
    return 1.0 + min(max(gap, 1e-9), 1e15)
