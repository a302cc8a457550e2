"""Gaussian-matched conversion: delta from the log-moment at one real order.

A release with log-moment K at order a is dominated, for every convex function of the class F_a, by the
Gaussian with log-variance V = 2 K/(a (a-1)), which has the same Renyi divergence of order a
(docs/theory.md, "Gaussian-matched conversion"). The test function of F_a above the hockey-stick has a
closed-form mean under that Gaussian. With c = exp(+-epsilon) a/(a-1), r = sqrt(V), d = (log c + V/2)/r and
the Mills ratio m,

    add:     c pdf(d) (m(d - r) - m(d) + (m(d) + m(a r - d))/a)
    remove:  exp(epsilon) c pdf(d) (m(-d) - m(r - d) - (m(-d) - m(a r - d))/a)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.gaussian import LOG_SQRT_TWO_PI, NODE_STEP, NODES, last_node, log_mills
from csgm_cli.model.certificate import Direction
from csgm_cli.renyi.conversion import log_shrink, renyi_log_delta

if TYPE_CHECKING:
    from csgm_cli.renyi.moment import LogMoment

Array = NDArray[np.float64]

_NODES = np.array(NODES)
#: Range of V for which float64 represents V^2 and the integrands; outside it the bound is infinite.
_LEAST_VARIANCE, _LARGEST_VARIANCE = 1e-100, 1e100
#: Relative rounding error of one evaluation: 16 ulp (at most 5 in 20,000 comparisons with mpmath).
_ROUNDING = 16 * 2.0**-53


def matched_add(order: float, moment: LogMoment, epsilon: float) -> float:
    """Conversion in the add direction: the smaller of `matched_log_delta` and the Renyi bound.

    The Renyi bound is never smaller in exact arithmetic, but its rounding-error estimate can be.
    """
    return min(
        matched_log_delta(Direction.ADD, order, moment, epsilon), renyi_log_delta(order, moment, epsilon)
    )


def matched_remove(order: float, moment: LogMoment, epsilon: float) -> float:
    """Conversion in the remove direction: the smaller of `matched_log_delta` and the Renyi bound."""
    return min(
        matched_log_delta(Direction.REMOVE, order, moment, epsilon), renyi_log_delta(order, moment, epsilon)
    )


def matched_log_delta(direction: Direction, order: float, moment: LogMoment, epsilon: float) -> float:
    """Log of the matched bound on delta at one order > 1, including rounding errors; it may be above 0.

    ``moment``: the log-moment K of all releases at that order; the bound is infinite if K is.
    """
    if not 0.0 < moment.value < math.inf:
        return math.inf if moment.value > 0.0 else -math.inf
    v = 2 * moment.value / (order * (order - 1))
    if not _LEAST_VARIANCE <= v <= _LARGEST_VARIANCE:
        return math.inf
    r = math.sqrt(v)
    sign = 1.0 if direction is Direction.ADD else -1.0
    shrink = log_shrink(order)
    log_c = sign * epsilon - shrink
    d = (log_c + v / 2) / r
    log_front = log_c - d * d / 2 - LOG_SQRT_TWO_PI
    if direction is Direction.ADD:
        log_bracket = _add_bracket(order, d, r)
    else:
        log_front, log_bracket = log_front + epsilon, _remove_bracket(order, d, r)
    value = log_front + log_bracket
    steepness = abs(d) * (abs(d) + r) + order * r * abs(order * r - d) / (1 + order)
    # Rounding error of d, since epsilon and log(1 - 1/order) may cancel.
    rounded = (epsilon - shrink) / r * (abs(d) + r)
    error = _ROUNDING * (1 + abs(value) + steepness + rounded + epsilon) + moment.error * (1 + steepness)
    return value + error


def _add_bracket(order: float, d: float, r: float) -> float:
    """Log of m(d - r) - m(d) + (m(d) + m(order r - d))/order; every part is positive, for d > 0."""
    u = d - r
    if u >= -1.0:
        difference = math.log(-_integral(u, lambda y: np.expm1(-r * y)))
    else:
        difference = log_mills(u) + math.log1p(-math.exp(log_mills(d) - log_mills(u)))
    return _log_sum(difference, log_mills(d) - math.log(order), log_mills(order * r - d) - math.log(order))


def _remove_bracket(order: float, d: float, r: float) -> float:
    """Log of m(-d) - m(r - d) - (m(-d) - m(order r - d))/order, as one integral of positive terms."""
    u = -d
    if u < -1.0:
        logs = (log_mills(u), log_mills(order * r + u) - math.log(order), log_mills(r + u))
        top = max(logs)
        first, second, third = (math.exp(x - top) for x in logs)
        # Add a bound on the rounding error of the difference: each exponent has an error up to 2^-53 d^2.
        rounding = (1e-15 + 2.0**-52 * u * u) * (first + second + third)
        return top + math.log((1 - 1 / order) * first + second - third + rounding)
    largest = order * r * last_node(u)
    if largest < 0.05:  # use the series of the difference, whose first terms cancel
        return math.log(_integral(u, lambda y: _small_difference(order, r * y)))
    return math.log(_integral(u, lambda y: _difference(order, r * y)))


def _difference(order: float, x: Array) -> Array:
    """1 - e^-x - (1 - e^(-order x))/order >= 0, accurate also for orders close to 1."""
    near, gap = order * x < 0.05, order - 1
    far = (np.exp(-x) * np.expm1(-gap * x) - gap * np.expm1(-x)) / order
    return np.asarray(np.where(near, _small_difference(order, np.where(near, x, 0.0)), far))


def _small_difference(order: float, x: Array) -> Array:
    """The same for order x < 0.05: sum over j >= 2 of (-1)^j (order^(j-1) - 1) x^j/j!, to 1e-16."""
    total = np.zeros_like(x)
    for j in range(9, 1, -1):
        coefficient = math.expm1((j - 1) * math.log(order)) / math.factorial(j)
        total = total * -x + coefficient
    return np.asarray(total * x * x)


def _integral(u: float, factor: Callable[[Array], Array]) -> float:
    """Integral over y > 0 of exp(-u y - y^2/2) factor(y), u >= -1, by the trapezoid rule in log y."""
    y = last_node(u) * _NODES
    return NODE_STEP * float((y * np.exp(-y * (u + y / 2)) * factor(y)).sum())


def _log_sum(*logs: float) -> float:
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs))
