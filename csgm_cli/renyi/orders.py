"""The real order that minimises a conversion of log-moments.

Computing a log-moment K costs far more than converting it. So K is computed at one order and extrapolated
with its derivatives, and the order that is best for the extrapolated K is evaluated next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.renyi.moment import LARGEST_EXPONENT, LogMoment, gaussian_moment, replace_one
from csgm_cli.roots import bracketed_minimum

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: The function to minimise, of an order and the log-moment at that order.
Value = Callable[[float, LogMoment], float]

#: The range of log(order - 1) that is searched.
_LEAST, _MOST = -27.0, 42.0
#: Width of the final bracket of log(order - 1), without and with client sampling, where log-moments are slow.
_WIDTH, _SAMPLED_WIDTH = 1e-15, 1e-7
#: The search ends when the relative improvement is below this.
_NO_GAIN = 1e-13
#: Orders to begin with under client sampling.
_SOME_ORDERS = (1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 24.0, 36.0, 54.0, 200.0)
#: With a goal, it also ends when the improvement is below this share of the distance to the goal.
_ROUGH = 0.02
#: Above this, (order - 1)^2 K''(order) is too large for extrapolation (see `grows_abruptly`).
_ABRUPT = 1e6


@dataclass(frozen=True)
class RenyiCurve:
    """K(order) of a ``law``; with ``replace_one``, its bound under replace-one (docs/theory.md, Theorem 12).

    ``integer_orders``: only orders 2, 3, 4, ... are allowed, as in the paper. ``few_orders``: with client
    sampling, only a few orders are tried.
    """

    law: Law
    replace_one: bool = False
    integer_orders: bool = False
    few_orders: bool = False

    def moment(self, order: float) -> LogMoment:
        """(order - 1) times the bound on the Renyi divergence, for order > 1."""
        if not self.replace_one:
            return self.law.log_moment(order)
        at_even = self.law.log_moment(2 * order)
        return replace_one(order, self.law.log_moment(2 * order - 1), at_even)


def best_order(
    curve: RenyiCurve, value: Value, start: float, goal: float | None = None
) -> tuple[float, float]:
    """The minimum over the orders that ``curve`` allows, and the order; the search begins at ``start``.

    ``goal``: the further the minimum is from it, the less accurate the result.
    """
    if curve.law.sampled:
        found: tuple[float, float] | None = best_sampled_order(curve, value, start)
    else:
        found = _by_extrapolation(curve, value, start, goal)
    if found is None:
        found = best_order_by_bracketing(curve, value, start)
    elif not curve.law.sampled and grows_abruptly(found[1], curve.moment(found[1])):
        found = min(found, best_order_by_bracketing(curve, value, found[1], stride=1e-3))
    if not curve.integer_orders:
        return found
    return min((value(order, curve.moment(order)), order) for order in adjacent_integers(found[1]))


def best_sampled_order(curve: RenyiCurve, value: Value, start: float) -> tuple[float, float]:
    """`best_order` with client sampling, where derivatives of log-moments are too rough for extrapolation.

    From the best of a few orders, since with few sent coordinates values are infinite at most orders.
    """
    orders = [*_SOME_ORDERS, start, *_orders_before_growth(curve.law)]
    best, start = min((value(order, curve.moment(order)), order) for order in orders)
    if curve.few_orders:
        return best, start
    return best_order_by_bracketing(curve, value, start, stride=0.1)


def _orders_before_growth(law: Law) -> list[float]:
    """The orders a near 1 at which gamma^a exp(a (a-1) t/2), a large coordinate's moment, exceeds 1."""
    gaps = [2 * -math.log(c.gamma) / c.t for c in law.all_coordinates]
    return [1.0 + gap for gap in gaps if 1e-9 < gap < _SOME_ORDERS[0] - 1.0]


def _by_extrapolation(
    curve: RenyiCurve, value: Value, start: float, goal: float | None
) -> tuple[float, float] | None:
    """`best_order` by extrapolation; None if a moment or value is infinite, or without convergence."""
    best, at_best = (math.inf, start), gaussian_moment(start, 0.0)
    order, worse = start, (0.0, math.inf)
    for _ in range(30):
        moment = curve.moment(order)
        here = value(order, moment)
        if not 0.0 < moment.value < math.inf or math.isinf(here):
            return None
        if here < best[0]:
            best, at_best = (here, order), moment
        else:
            worse = (worse[0], order) if order > best[1] else (order, worse[1])
        predicted, order = extrapolated_best(best[1], at_best, value, worse)
        rough = 0.0 if goal is None else _ROUGH * abs(best[0] - goal)
        if not predicted < best[0] - max(_NO_GAIN * abs(best[0]), rough):
            return best
    return None


def extrapolated_best(
    order: float, moment: LogMoment, value: Value, worse: tuple[float, float] = (0.0, math.inf)
) -> tuple[float, float]:
    """The minimum for the K extrapolated from one order, and its order.

    ``worse``: orders below and above that are known to be worse; the result is at most half-way to them in
    log(order - 1).
    """
    centre, model = math.log(order - 1), extrapolated(order, moment)
    below = (centre - math.log(worse[0] - 1)) / 2 if worse[0] > 1.0 else 3.0
    above = (math.log(worse[1] - 1) - centre) / 2 if worse[1] < math.inf else 3.0
    log_gap, least = bracketed_minimum(
        lambda x: value(1 + math.exp(x), model(1 + math.exp(x))),
        centre,
        stride=min(0.1, below, above),
        low=max(_LEAST, centre - min(below, 3.0)),
        high=min(_MOST, centre + min(above, 3.0)),
        width=1e-7,
    )
    return least, 1 + math.exp(log_gap)


def extrapolated(order: float, moment: LogMoment) -> Callable[[float], LogMoment]:
    """Approximate log-moment at other orders a: log(K/(a (a-1))) as a parabola in log(a - 1)."""
    gap = order - 1
    steep = moment.d_order / moment.value
    slope = gap * steep - 1 - gap / order
    bend = gap * steep + gap**2 * (moment.d2_order / moment.value - steep**2) - gap / order**2
    log_gap, log_rest = math.log(gap), math.log(moment.value / order / gap)

    def at(other: float) -> LogMoment:
        away = math.log(other - 1) - log_gap
        log_value = log_rest + away * (slope + away * bend / 2) + math.log(other) + math.log(other - 1)
        value = math.exp(log_value) if log_value < LARGEST_EXPONENT else math.inf
        return LogMoment(value, 0.0, 0.0, moment.error)

    return at


def grows_abruptly(order: float, moment: LogMoment) -> bool:
    """Whether K grows too abruptly for its extrapolation to locate the best order accurately."""
    return (order - 1) ** 2 * moment.d2_order > _ABRUPT


def best_order_by_bracketing(
    curve: RenyiCurve, value: Value, start: float, stride: float = 1.5
) -> tuple[float, float]:
    """`best_order` without extrapolation: growing steps until the minimum is bracketed, then Brent's method.

    A smooth minimum is found to the square root of rounding, a kink to the final width.
    """
    log_gap, least = bracketed_minimum(
        lambda x: value(1 + math.exp(x), curve.moment(1 + math.exp(x))),
        math.log(start - 1),
        stride=stride,
        low=_LEAST,
        high=_MOST,
        width=_SAMPLED_WIDTH if curve.law.sampled else _WIDTH,
    )
    return least, 1 + math.exp(log_gap)


def adjacent_integers(order: float) -> list[float]:
    """The one or two integer orders adjacent to a real order, in increasing order and at least 2."""
    return sorted({float(max(2, math.floor(order))), float(max(2, math.ceil(order)))})


def initial_order(law: Law, epsilon: float) -> float:
    """Initial order: between the best orders of the Renyi and the matched bound in the Gaussian limit.

    At most 1 + 8/t: far above it, a single mask bit dominates the log-moment.
    """
    variance = min(max(law.spread_variance, 1e-300), 1e300)
    gap = (1.0 + epsilon + math.sqrt(20.0 * variance)) / variance
    if law.coordinates:
        gap = min(gap, 1.0 + 8.0 / law.largest_t)
    return 1.0 + min(max(gap, 1e-9), 1e15)
