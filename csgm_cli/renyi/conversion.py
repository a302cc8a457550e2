"""From a Renyi curve to (epsilon, delta), at the best order.

Canonne, Kamath and Steinke (2020), Proposition 12; docs/theory.md, "Conversion". With K the total
log-moment, both objectives have exactly one stationary order: the functions whose sign they
follow (`epsilon_slope`, and that of `best_log_delta`) are increasing because K is convex in the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

from csgm_cli.errors import NoAnswerError
from csgm_cli.roots import Slope, increasing_root

if TYPE_CHECKING:
    from typing import Protocol

    from csgm_cli.renyi.curves import Curve
    from csgm_cli.renyi.moment import LogMoment

    class RenyiCurve(Protocol):
        """What is converted: the curve of one mechanism, or of several that compose."""

        @property
        def integer_orders(self) -> bool:
            """True where only the orders 2, 3, 4, ... are admitted."""

        def moment(self, order: float, sigma: float) -> LogMoment:
            """(order - 1) times the Renyi divergence bound at this order, for order > 1."""


_ULP = 2.0**-53
#: How much of the Renyi divergence a better order may still gain.
_SETTLED = 1e-15
#: Orders closer to 1 than exp of this are not looked at: their float64 would not tell them apart.
_LEAST_LOG_GAP = -27.0
#: Below this what is wanted of a slope is itself a difference of nearly equal numbers.
_TOO_FEW_DIGITS = 1e-3
#: A log delta below this (that of 1e-300) is as good as any.
_LEAST_LOG_DELTA = -690.8


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


def allowed_moment(order: float, epsilon: float, log_delta: float) -> float:
    """The log-moment that converts to exactly ``epsilon`` at one order; not positive where none does."""
    return math.fsum(((order - 1) * epsilon, -(order - 1) * log_shrink(order), log_delta, math.log(order)))


def integers_next_to(order: float) -> list[float]:
    """The one or two integer orders next to a real one, lowest first; the least is 2."""
    return sorted({float(max(2, math.floor(order))), float(max(2, math.ceil(order)))})


def epsilon_slope(order: float, moment: LogMoment, log_delta: float) -> Slope:
    """(order - 1)^2 times the derivative of `epsilon_at` in the order; increasing, as is its derivative."""
    value = (order - 1) * moment.d_order - moment.value + math.log(order) + log_delta
    return value, (order - 1) * moment.d2_order + 1 / order


def _flattened(slope: Slope, wanted: float) -> Slope:
    """About the same close to its root, but for Newton's method: of what exceeds ``wanted`` the logarithm.

    For it may grow like an exponential, where K has a cliff.
    """
    value, derivative = slope
    found = value + wanted
    if found <= 0.0 or wanted < _TOO_FEW_DIGITS or not math.isfinite(value):
        return slope
    return wanted * math.log(found / wanted), derivative * wanted / found


def log_delta_at(order: float, moment: LogMoment, epsilon: float) -> Converted:
    """Log delta at one order: K - (a-1) eps - log(a-1) + a log(1 - 1/a)."""
    gap = order - 1
    spent = gap * epsilon
    if order < 2:  # - log gap + order (log gap - log order), written so that it vanishes as order -> 1
        terms = (gap * math.log(gap), -order * math.log(order))
    else:
        terms = (-math.log(gap), order * log_shrink(order))
    value = math.fsum((moment.value, -spent, *terms))
    error = moment.value * moment.error + 4 * _ULP * (moment.value + spent + sum(map(abs, terms)))
    return Converted(value, error, order, moment)


def best_epsilon(curve: Curve, sigma: float, log_delta: float, start: float | None = None) -> Converted:
    """The smallest epsilon over the orders that ``curve`` admits; ``start`` is a warm order."""
    if start is None:
        start = first_order(curve, sigma, -log_delta)
    return best_epsilon_from(curve, sigma, log_delta, start)


def best_epsilon_from(curve: RenyiCurve, sigma: float, log_delta: float, start: float) -> Converted:
    """`best_epsilon` of any curve, searched from the order ``start``."""

    def slope(order: float, moment: LogMoment) -> Slope:
        return _flattened(epsilon_slope(order, moment, log_delta), -log_delta - math.log(order))

    def settled(point: Converted, _: float, step: float) -> bool:
        renyi = point.moment.value / (point.order - 1)
        gain = abs(epsilon_slope(point.order, point.moment, log_delta)[0] * step) / (point.order - 1)
        return gain <= _SETTLED * max(renyi, abs(point.value))

    return _best(
        curve,
        sigma,
        start,
        slope,
        settled,
        lambda a, m: epsilon_at(a, m, log_delta),
    )


def best_log_delta(curve: Curve, sigma: float, epsilon: float) -> Converted:
    """The smallest log delta over the orders that ``curve`` admits."""

    def flattened(order: float, moment: LogMoment) -> Slope:
        """The derivative of log delta in the order."""
        wanted = epsilon - log_shrink(order)
        return _flattened((moment.d_order - wanted, moment.d2_order + 1 / (order * (order - 1))), wanted)

    def settled(point: Converted, _: float, step: float) -> bool:
        slope = point.moment.d_order - epsilon + log_shrink(point.order)
        gain = abs(slope * step) * (point.order - 1)
        return point.value < _LEAST_LOG_DELTA or gain <= _SETTLED * max(
            min(1.0, point.order - 1), abs(point.value)
        )

    start = first_order(curve, sigma, 10.0 + epsilon)
    return _best(curve, sigma, start, flattened, settled, lambda a, m: log_delta_at(a, m, epsilon))


def _best(
    curve: RenyiCurve,
    sigma: float,
    start: float,
    slope: Callable[[float, LogMoment], Slope],
    settled: Callable[[Converted, float, float], bool],
    convert: Callable[[float, LogMoment], Converted],
) -> Converted:
    """Solve for the stationary order, then convert there (or at its integers)."""
    seen: dict[float, Converted] = {}

    def at(order: float) -> Converted:
        if order not in seen:
            seen[order] = convert(order, curve.moment(order, sigma))
        return seen[order]

    def enough(order: float, value: float, step: float) -> bool:
        return settled(at(order), value, step)

    order = stationary_order(lambda a: at(a).moment, slope, start, enough)
    orders = integers_next_to(order) if curve.integer_orders else [order]
    best = min((at(a) for a in orders), key=lambda point: point.value)
    if not math.isfinite(best.value):
        raise NoAnswerError(
            "out-of-reach", f"the privacy loss at sigma {sigma:g} is beyond what can be computed"
        )
    return best


def stationary_order(
    moment: Callable[[float], LogMoment],
    slope: Callable[[float, LogMoment], Slope],
    start: float,
    settled: Callable[[float, float, float], bool],
) -> float:
    """The order at which ``slope``, which increases, is 0, sought in log(order - 1) from ``start``.

    Or where ``settled(order, slope, step in log(order - 1))``: where a Newton step would gain next to
    nothing. A tolerance on the order itself would not do: some curves have a cliff, where K is e-fold
    larger at an order larger by 1e-6.

    Raises:
        NoAnswerError: no such order was found.
    """

    def objective(log_gap: float) -> Slope:
        if log_gap < _LEAST_LOG_GAP:
            return -math.inf, 0.0
        order = 1.0 + math.exp(log_gap)
        there = moment(order)
        if math.isinf(there.value):
            return math.inf, math.inf
        value, derivative = slope(order, there)
        return value, derivative * (order - 1)

    def enough(log_gap: float, value: float, step: float) -> bool:
        return math.isfinite(step) and settled(1.0 + math.exp(log_gap), value, step)

    return 1.0 + math.exp(increasing_root(objective, math.log(start - 1), settled=enough))


def first_order(curve: Curve, sigma: float, log_tail: float) -> float:
    """Where to start looking: the optimum of the curve's Gaussian limit, but not beyond its cliff."""
    t_total = math.fsum(count * (delta / sigma) ** 2 for count, delta in curve.parts)
    gap = max(math.sqrt(2 * max(log_tail, 1e-3) / (curve.gamma**2 * t_total)), 1e-9)
    return 1.0 + min(gap, _cliff(curve, sigma, max(log_tail, 1e-3) / gap), 1e15)


def _cliff(curve: Curve, sigma: float, slope: float) -> float:
    """About the order - 1 at which n gamma^a exp(a (a-1) t/2), of the n largest coordinates, has that slope.

    Its logarithm rises by about -log gamma there.
    """
    count, delta = max(curve.parts, key=itemgetter(1))
    t, steepness = (delta / sigma) ** 2, -math.log(curve.gamma)
    height = math.log(slope / (count * max(steepness, 1.0)))
    middle = t / 2 + steepness
    square = middle * middle + 2 * t * height
    gap = (middle + math.sqrt(square)) / t - 1.0 if 0.0 < square < math.inf and steepness > 0.0 else 0.0
    return gap if gap > 1.0 else 0.5 + 2 * (3.0 + steepness) / t
