"""Conversion of log-moments to (epsilon, delta), at the best real order.

A conversion computes log delta from the log-moment K at one order and epsilon. It decreases in epsilon and
increases in K. `renyi_log_delta` is Proposition 12 of Canonne, Kamath and Steinke (2020):

    log delta = K - (a - 1) epsilon - log(a - 1) + a log(1 - 1/a),   K = (a - 1) times the Renyi divergence
"""

from __future__ import annotations

import math
from collections.abc import Callable

from csgm_cli.errors import NoAnswerError
from csgm_cli.renyi.moment import LogMoment
from csgm_cli.renyi.orders import (
    RenyiCurve,
    Value,
    adjacent_integers,
    best_order,
    best_order_by_bracketing,
    best_sampled_order,
    extrapolated_best,
    grows_abruptly,
    initial_order,
)
from csgm_cli.roots import smallest_nonpositive

#: (order, log-moment at that order, epsilon) -> an upper bound on log delta, including rounding errors.
Conversion = Callable[[float, LogMoment, float], float]

_ULP = 2.0**-53
#: Maximal number of iterations of the search for epsilon; relative improvement of log delta at which it ends.
_MAX_ITERATIONS, _NO_GAIN = 60, 1e-15
#: The range of log epsilon that is searched, and the width of the final bracket.
LEAST_LOG_EPSILON, MOST_LOG_EPSILON, _EPSILON_WIDTH = math.log(1e-12), math.log(1e60), 2e-14


def typical_slope(log_delta: float) -> float:
    """Approximate -d log delta / d log epsilon, and / d log sigma, at ``log_delta``."""
    return 2.0 * abs(log_delta) + 1.0


def log_shrink(order: float) -> float:
    """log(1 - 1/order), for any order > 1."""
    return math.log((order - 1) / order) if order < 2 else math.log1p(-1 / order)


def renyi_log_delta(order: float, moment: LogMoment, epsilon: float) -> float:
    """Log delta at one order; infinite if the moment is."""
    if math.isinf(moment.value):
        return math.inf
    gap = order - 1
    spent = gap * epsilon
    if order < 2:  # in a form that vanishes as order -> 1
        terms = (gap * math.log(gap), -order * math.log(order))
    else:
        terms = (-math.log(gap), order * log_shrink(order))
    error = moment.value * moment.error + 4 * _ULP * (moment.value + spent + sum(map(abs, terms)))
    return math.fsum((moment.value, -spent, *terms, error))


def best_log_delta(
    curve: RenyiCurve,
    convert: Conversion,
    epsilon: float,
    near: float | None = None,
    goal: float | None = None,
) -> tuple[float, float]:
    """The smallest log delta over the orders that ``curve`` allows, and the order.

    ``near``: a guess at the best order. ``goal``: a target log delta; far from it, less accuracy is enough.
    """
    start = near or initial_order(curve.law, epsilon)
    found = best_order(curve, at_epsilon(convert, epsilon), start, goal)
    if near is not None and not found[0] < 0.0:  # the guess led to orders without a finite moment
        return best_log_delta(curve, convert, epsilon, None, goal)
    return found


def best_epsilon(
    curve: RenyiCurve, convert: Conversion, log_delta: float, near: float = 1.0
) -> tuple[float, float]:
    """The smallest epsilon >= 0 over the orders that ``curve`` allows (or infinity), and its order.

    ``near``: a guess at epsilon. Alternates between the best order at the current epsilon and the epsilon at
    which that order gives delta, which only decreases.
    """
    if curve.law.sampled:
        return _best_epsilon_by_bracketing(curve, convert, log_delta, near)
    best, (_, order) = (math.inf, 0.0), best_log_delta(curve, convert, near)
    for _ in range(_MAX_ITERATIONS):
        moment = curve.moment(order)
        found = _epsilon_at(order, moment, convert, log_delta, math.log(min(near, best[0])))
        if found < best[0]:
            best = found, order
            if found == 0.0:
                break
            least, order = extrapolated_best(order, moment, at_epsilon(convert, found))
        elif math.isinf(found):
            break
        else:
            least, order = best_order(curve, at_epsilon(convert, best[0]), best[1])
        if not least < log_delta - _NO_GAIN * abs(log_delta):
            break
    if math.isinf(best[0]):
        return best

    def epsilon(order: float, moment: LogMoment) -> float:
        return _epsilon_at(order, moment, convert, log_delta, math.log(best[0] or near))

    if not curve.integer_orders:
        is_steep = best[0] > 0.0 and grows_abruptly(best[1], curve.moment(best[1]))
        return min(best, best_order_by_bracketing(curve, epsilon, best[1], stride=1e-3)) if is_steep else best
    return min((epsilon(order, curve.moment(order)), order) for order in adjacent_integers(best[1]))


def _best_epsilon_by_bracketing(
    curve: RenyiCurve, convert: Conversion, log_delta: float, near: float
) -> tuple[float, float]:
    """`best_epsilon` where log-moments cannot be extrapolated."""

    def epsilon(order: float, moment: LogMoment) -> float:
        return _epsilon_at(order, moment, convert, log_delta, math.log(near))

    return best_sampled_order(curve, epsilon, initial_order(curve.law, near))


def at_epsilon(convert: Conversion, epsilon: float) -> Value:
    """Log delta at one epsilon, as a function of the order and the log-moment at that order."""
    return lambda order, moment: convert(order, moment, epsilon)


def _epsilon_at(order: float, moment: LogMoment, convert: Conversion, log_delta: float, near: float) -> float:
    """The epsilon at which a fixed order gives ``log_delta``; ``near``: a guess at log epsilon."""
    if convert(order, moment, 0.0) <= log_delta:
        return 0.0
    try:
        found = smallest_nonpositive(
            lambda x: convert(order, moment, math.exp(x)) - log_delta,
            near,
            slope=typical_slope(log_delta),
            width=_EPSILON_WIDTH,
            floor=LEAST_LOG_EPSILON,
            ceiling=MOST_LOG_EPSILON,
        )
    except NoAnswerError:
        return math.inf
    return math.exp(found)


def allowed_moment(
    order: float, convert: Conversion, epsilon: float, log_delta: float, near: float = 1.0
) -> float:
    """The largest log-moment at one order that meets (epsilon, delta), 0 if none does; ``near``: a guess."""

    def excess(minus_log: float) -> float:
        moment = LogMoment(math.exp(-minus_log), 0.0, 0.0, 2.0**-50)
        return convert(order, moment, epsilon) - log_delta

    try:
        start = -math.log(near)
        return math.exp(
            -smallest_nonpositive(excess, start, slope=1.0, width=1e-13, floor=-60.0, ceiling=60.0)
        )
    except NoAnswerError:
        return 0.0
