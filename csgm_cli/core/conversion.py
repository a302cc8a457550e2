"""From a Renyi curve to (epsilon, delta), at the best order.

Canonne, Kamath and Steinke (2020), Proposition 12; docs/theory.md, "Conversion". With K the total
log-moment, both objectives have exactly one stationary order: the functions whose sign they
follow (`_epsilon_slope`, `_delta_slope`) are increasing because K is convex in the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from csgm_cli.core.curves import Curve
from csgm_cli.core.moment import LogMoment
from csgm_cli.core.search import Slope, increasing_root
from csgm_cli.errors import NoAnswerError

_ULP = 2.0**-53
#: Newton tolerance on log(order - 1): the optimum is flat, so this costs 1e-14 of epsilon.
_ORDER_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Converted:
    """One point of a conversion: epsilon (or log delta) at ``order``, unclipped.

    ``error`` bounds the absolute error of ``value``; ``moment`` is K at that order.
    """

    value: float
    error: float
    order: float
    moment: LogMoment


def log_shrink(order: float) -> float:
    """log(1 - 1/order), for any order > 1."""
    return math.log((order - 1) / order) if order < 2 else math.log1p(-1 / order)


def epsilon_at(order: float, moment: LogMoment, log_delta: float) -> Converted:
    """Epsilon at one order: K/(a-1) + log(1 - 1/a) - (log delta + log a)/(a-1)."""
    renyi = moment.value / (order - 1)
    shrink = log_shrink(order)
    tail, entropy = -log_delta / (order - 1), -math.log(order) / (order - 1)
    value = math.fsum((renyi, shrink, tail, entropy))
    error = renyi * moment.error + 4 * _ULP * (renyi + tail - shrink - entropy)
    return Converted(value, error, order, moment)


def log_delta_at(order: float, moment: LogMoment, epsilon: float) -> Converted:
    """Log delta at one order: K - (a-1) eps - log(a-1) + a log(1 - 1/a)."""
    spent = (order - 1) * epsilon
    gap, shrink = -math.log(order - 1), order * log_shrink(order)
    value = math.fsum((moment.value, -spent, gap, shrink))
    error = moment.value * moment.error + 4 * _ULP * (moment.value + spent + abs(gap) - shrink)
    return Converted(value, error, order, moment)


def best_epsilon(curve: Curve, sigma: float, log_delta: float, start: float | None = None) -> Converted:
    """The smallest epsilon over the orders that ``curve`` admits; ``start`` is a warm order."""

    def slope(order: float, moment: LogMoment) -> Slope:
        value = (order - 1) * moment.d_order - moment.value + math.log(order) + log_delta
        return value, (order - 1) * moment.d2_order + 1 / order

    if start is None:
        start = _first_order(curve, sigma, -log_delta)
    return _best(curve, sigma, start, slope, lambda a, m: epsilon_at(a, m, log_delta))


def best_log_delta(curve: Curve, sigma: float, epsilon: float) -> Converted:
    """The smallest log delta over the orders that ``curve`` admits."""

    def slope(order: float, moment: LogMoment) -> Slope:
        value = moment.d_order - epsilon + log_shrink(order)
        return value, moment.d2_order + 1 / (order * (order - 1))

    start = _first_order(curve, sigma, 10.0 + epsilon)
    return _best(curve, sigma, start, slope, lambda a, m: log_delta_at(a, m, epsilon))


def _best(
    curve: Curve,
    sigma: float,
    start: float,
    slope: Callable[[float, LogMoment], Slope],
    convert: Callable[[float, LogMoment], Converted],
) -> Converted:
    """Solve for the stationary order in log(order - 1), then convert there (or at its integers)."""

    def objective(log_gap: float) -> Slope:
        order = 1.0 + math.exp(log_gap)
        moment = curve.moment(order, sigma)
        if math.isinf(moment.value):
            return math.inf, math.inf
        value, derivative = slope(order, moment)
        return value, derivative * (order - 1)

    order = 1.0 + math.exp(increasing_root(objective, math.log(start - 1), tolerance=_ORDER_TOLERANCE))
    orders = {order}
    if curve.integer_orders:
        orders = {float(max(2, math.floor(order))), float(max(2, math.ceil(order)))}
    points = [convert(a, curve.moment(a, sigma)) for a in sorted(orders)]
    best = min(points, key=lambda point: point.value)
    if not math.isfinite(best.value):
        raise NoAnswerError(
            "out-of-reach", f"the privacy loss at sigma {sigma:g} is beyond what can be computed"
        )
    return best


def _first_order(curve: Curve, sigma: float, log_tail: float) -> float:
    """Where to start looking: the optimum of the curve's Gaussian limit, kept where it is finite."""
    t_total = math.fsum(count * (delta / sigma) ** 2 for count, delta in curve.parts)
    t_max = max((delta / sigma) ** 2 for _, delta in curve.parts)
    gap = math.sqrt(2 * max(log_tail, 1e-3) / (curve.gamma**2 * t_total))
    ceiling = 0.5 + 2 * (3.0 - math.log(curve.gamma)) / t_max
    return 1.0 + min(max(gap, 1e-9), ceiling, 1e15)
