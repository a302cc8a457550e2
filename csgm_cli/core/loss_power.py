"""Test functions with phi''(y) y = c (y/v)^-B for y >= v, and their means where some loss is far out.

Unless said otherwise c = 1 + B: between y log(y/v) - y + v (B = 0) and a hockey-stick (B = inf). See
docs/theory.md, "The privacy profile": mixtures of hockey-sticks.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_far import (
    LOG_HEIGHTS,
    STAIRS,
    Far,
    Parts,
    log_kappa,
    negative_moments,
    nodes_above,
    rounded,
)
from csgm_cli.core.loss_nodes import TooManyNodesError
from csgm_cli.core.loss_window import Step, beyond
from csgm_cli.core.sliced_law import HIGHEST, Coordinates, excess, log_upper_tail

Array = NDArray[np.float64]

#: Relative error of moments of few coordinates, and what is added to it for each unit of their logarithm.
_ROUNDING, _PER_UNIT = 2e-13, 4e-15


def power_function(above: Array, exponent: float) -> Array:
    """phi(y)/v for log(y/v) = ``above`` >= 0 and ``exponent`` B: 0, or large enough for B^2 to count."""
    if exponent == 0.0:
        return np.asarray(np.exp(above) * excess(-above))
    return (1 + exponent) / exponent * (excess(above) - _excess_over(1.0 - exponent, above))


def _excess_over(a: float, above: Array) -> Array:
    """(e^(a x) - 1 - a x)/a."""
    return np.zeros(above.shape) if a == 0.0 else excess(a * above) / a


def far_power(far: Far, strike: float, exponent: float) -> tuple[float, float]:
    """An upper bound on the mean of phi, log v = ``strike``, where some coordinate is far, and its rounding.

    phi is at most itself continued below v, and equals its asymptote and a mixture of (k - y)_+, which
    only strays and slowly falling functions make count: the smaller of these two. For B > 0.
    """
    return min(_continued(far, strike, exponent), _asymptote(far, strike, exponent), key=sum)


def _continued(far: Far, strike: float, exponent: float) -> tuple[float, float]:
    """(1 + B)/B v ((Y/v - 1) - ((Y/v)^(1-B) - 1)/(1-B)), not negative below v either."""
    order = 1.0 - exponent
    try:
        log_moment, off = _far_moment(far.parts, far.tops, order)
    except TooManyNodesError:
        return math.inf, 0.0
    log_power = log_moment + exponent * strike  # v E[(Y/v)^(1-B); far]
    if order == 0.0 or not log_power < 700.0:
        return math.inf, 0.0
    q, power = math.exp(strike + far.log_q), math.exp(log_power)
    value = (far.p - q) - (power - q) / order
    error = 2 * far.error(strike) + (far.error(strike) + power * off) / abs(order)
    scale = (1 + exponent) / exponent
    return scale * value, scale * error


def _asymptote(far: Far, strike: float, exponent: float) -> tuple[float, float]:
    """Y/B - v/(B-1), and what phi is above that: int (k - Y)_+ (k/v)^-B dk/k over k > v."""
    if exponent <= 1.0:
        return math.inf, 0.0
    p, q = far.p / exponent, math.exp(strike + far.log_q) / (exponent - 1)
    error = far.error(strike) * (1 / exponent + 1 / (exponent - 1))
    return (1 + exponent) * (p - q) + _strays(far, strike, exponent), (1 + exponent) * error


def _strays(far: Far, strike: float, exponent: float) -> float:
    """A bound on the mean of that mixture, as of `Far.stray`: by Chernoff for each k, and integrated.

    Nowhere is the mixture larger than at Y = 0: by that beyond the last stair.
    """
    log_most = math.log((1 + exponent) / (exponent - 1))
    negative = negative_moments(rounded(far.parts))
    total = 0.0
    with np.errstate(all="ignore"):
        room = exponent - 1.0 - negative.shifts
        log_mixture = np.where(room > 0.0, np.log((1 + exponent) / room), np.inf)
        log_front = negative.log_moments + log_kappa(negative.shifts) + log_mixture
        for part, (losses, log_masses) in zip(far.parts, far.stairs, strict=True):
            terms = log_front - (losses - strike)[:, None] * negative.shifts
            terms = np.where(np.isfinite(terms), terms, np.inf).min(axis=1)
            bounds = log_masses + np.minimum(log_most, terms)
            total += float(np.exp(strike + math.log(part.count) + LOG_HEIGHTS + bounds).sum())
    count = sum(part.count for part in far.parts)
    log_rest = strike + math.log(count) + log_upper_tail(STAIRS[-1]) + log_most
    return total + math.exp(min(log_rest, 700.0))


@lru_cache(maxsize=256)
def _far_moment(parts: Parts, tops: tuple[Step, ...], order: float) -> tuple[float, float]:
    """The logarithm of E_Q[Y^order; some coordinate is above its step], order <= 1, and its error.

    Infinite where it is out of reach. Raises `TooManyNodesError`.
    """
    log_below, more = 0.0, 0.0
    for part, top in zip(parts, tops, strict=True):
        if order < 0.0 and not part.reached(-order):
            return math.inf, math.inf
        below = _log_below(part, top, order)
        log_below += part.count * below
        more += part.count * math.log1p(_above(part, top, order, below))
    if not 0.0 < more < math.inf:
        return (-math.inf if more == 0.0 else math.inf), 0.0
    log_more = more if more > 30.0 else math.log(math.expm1(more))
    return log_below + log_more, _ROUNDING + _PER_UNIT * (abs(log_below) + more)


def _log_below(part: Coordinates, top: Step, order: float) -> float:
    low = part.lowest(max(-order, 0.0))
    nodes = part.nodes(low, min(top.end, HIGHEST + part.s), max(1.0, abs(order)), bends=top.bends)
    nodes = nodes.weighted(top.below(nodes.x))
    return float(part.real_moments(nodes, beyond(part, top), np.array([order]))[0])


def _above(part: Coordinates, top: Step, order: float, log_below: float) -> float:
    """E_Q[Y^order; above the step] / E_Q[Y^order; below it]."""
    nodes = nodes_above(part, top, max(1.0, abs(order)))
    return float(np.exp(nodes.log_mass + order * nodes.loss - log_below).sum())
