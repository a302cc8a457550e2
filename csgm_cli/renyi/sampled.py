r"""The log-moment of one round in which a client takes part with probability q.

With y the likelihood ratio of the round if the client takes part, U = 1 - q + q y and S(w) = log E[y^w],

    K(a) = log E[U^a] = log1p(sum_l C(a, l) (1-q)^(a-l) q^l expm1(S(l))),       integer a,

and at other orders two such sums and a Mellin-Barnes integral (docs/theory.md, "Client sampling"). At the
worst-case vector this bounds the Renyi divergence of both directions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from csgm_cli.renyi.log_moment import log_moment
from csgm_cli.renyi.moment import INFINITE_MOMENT, LARGEST_EXPONENT, LogMoment

if TYPE_CHECKING:
    from csgm_cli.renyi.complex_log_moment import ComplexArray

#: K is computed exactly between these orders, and bounded elsewhere; see `sampled_log_moment`.
LEAST_ORDER, LARGEST_ORDER = 1.2, 64.0
#: Step of the integral relative to the contour's distance from the poles (the discretisation error is
#: e^-31), and the largest |Im w| (the integrand decays like exp(-pi |Im w|)).
_STEP, _END = 0.2, 10.0
#: If log E[y^a] is larger, the contour crosses at half of the order, where the integrand does not overflow.
_LARGEST_AT_ORDER = 300.0
#: Relative rounding error of the sums and of the integral.
_ROUNDING = 1e-11


class RoundLaw(Protocol):
    """The law of y: a `Law` without client sampling."""

    def log_moment(self, order: float) -> LogMoment:
        """Log E[y^order] at a real order above 1."""

    def complex_log_moment(self, orders: ComplexArray) -> ComplexArray | None:
        """The same at equidistant complex orders with a common real part."""


def dominating_variance(order: float, inner: RoundLaw) -> float:
    """Log-variance v of the Gaussian G_v that dominates y at ``order``, rounded up; infinite if unknown.

    Means of F_a over 1 - q + q y are at most those over 1 - q + q G_v, with v at order max(a, 2).
    """
    at = max(order, 2.0)
    moment = inner.log_moment(at)
    return 2 * moment.value / (at * (at - 1)) * (1 + moment.error + 2.0**-50)


def sampled_log_moment(order: float, rate: float, inner: RoundLaw) -> LogMoment:
    """A bound on K at a real order > 1, for participation with probability ``rate`` in (0, 1).

    Exact at orders in [`LEAST_ORDER`, `LARGEST_ORDER`]. Below, see `_near_one`; above, `dominating_variance`.
    """
    if order < LEAST_ORDER:
        return _near_one(order, rate, inner)
    if order > LARGEST_ORDER:
        variance = dominating_variance(order, inner)
        return log_moment(order, rate, variance) if math.isfinite(variance) else INFINITE_MOMENT
    value = _log_moment(order, rate, inner)
    if not 0.0 < value < math.inf:
        return INFINITE_MOMENT
    first, second = _derivatives(order, value, rate, inner)
    return LogMoment(value, first, second, _ROUNDING + 2 * inner.log_moment(math.ceil(order)).error)


def _near_one(order: float, rate: float, inner: RoundLaw) -> LogMoment:
    """The smaller of two bounds on K below `LEAST_ORDER`; the derivatives are rough.

    K is convex and 0 at order 1, and E[(1 - q + q y)^a] <= 1 - q + q E[y^a].
    """
    known, moment = sampled_log_moment(LEAST_ORDER, rate, inner), inner.log_moment(order)
    slope = known.value / (LEAST_ORDER - 1)
    jensen = _log1p_sum([math.log(rate) + _log_expm1(moment.value)])
    if jensen < (order - 1) * slope:  # the relative error of log(1 + q (e^S - 1)) is that of S e^S/(e^S - 1)
        error = moment.error * (1 + moment.value) + _ROUNDING
        return LogMoment(jensen, jensen / (order - 1), 0.0, error)
    return LogMoment((order - 1) * slope, slope, 0.0, known.error + 2.0**-50)


def _derivatives(order: float, value: float, rate: float, inner: RoundLaw) -> tuple[float, float]:
    """Approximate derivatives of K, from a parabola for log(K/(a (a-1))) through three integer orders a."""
    middle = max(3, round(order))
    known = [_at_integer(middle + i, rate, inner) / (middle + i) / (middle + i - 1) for i in (-1, 0, 1)]
    if not all(0.0 < each < math.inf for each in known):
        return value / (order - 1), 0.0
    below, at, above = map(math.log, known)
    curvature = above - 2 * at + below
    slope = (above - below) / 2 + (order - middle) * curvature + 1 / order + 1 / (order - 1)
    return value * slope, max(value * (slope**2 + curvature - 1 / order**2 - 1 / (order - 1) ** 2), 0.0)


def _log_moment(order: float, rate: float, inner: RoundLaw) -> float:
    whole = round(order)
    return _at_integer(whole, rate, inner) if order == whole else _at_non_integer(order, rate, inner)


def _at_integer(order: int, rate: float, inner: RoundLaw) -> float:
    return _log1p_sum(_terms(order, [float(power) for power in range(2, order + 1)], rate, inner))


def _at_non_integer(order: float, rate: float, inner: RoundLaw) -> float:
    """K at a non-integer order: sums of the first and last terms, and the Mellin-Barnes integral between."""
    fraction = order - math.floor(order)  # poles are at the integers, and at order minus integers
    apart = fraction / 2 if fraction >= 0.5 or order < 2.0 else (1 + fraction) / 2
    real = max(1.0, round(order / 2 - apart)) + apart
    if rate < 0.5:
        # next to the order, most terms have integer powers, whose moments are known from other orders
        near_order = inner.log_moment(math.ceil(order)).value < _LARGEST_AT_ORDER
        # at a small rate K is about q^2: the term l = 2 is in the sums, since the integral would cancel it
        real = max(2.0 + apart, math.floor(order) + apart if near_order else real)
    step = _STEP * (apart if apart < 0.5 else 1.0 - apart)
    low = _terms(order, [float(power) for power in range(2, math.ceil(real))], rate, inner)
    high = _terms(order, [order - j for j in range(math.ceil(order - real))], rate, inner)
    peak, integral = _integral(order, real, step, rate, inner)
    return _log1p_sum([*low, *high], (peak, integral))


def _terms(order: float, powers: list[float], rate: float, inner: RoundLaw) -> list[float]:
    """Logs of C(a, w) (1-q)^(a-w) q^w expm1(S(w)) for each power w."""
    log_binomials = [
        math.lgamma(order + 1) - math.lgamma(power + 1) - math.lgamma(order - power + 1) for power in powers
    ]
    return [
        each + (order - power) * math.log1p(-rate) + power * math.log(rate) + _log_expm1(moment)
        for each, power, moment in zip(
            log_binomials, powers, (inner.log_moment(power).value for power in powers), strict=True
        )
    ]


def _log_expm1(x: float) -> float:
    if x <= 0.0:
        return -math.inf
    return x + math.log(-math.expm1(-x))


def _integral(order: float, real: float, step: float, rate: float, inner: RoundLaw) -> tuple[float, float]:
    """(p, x) with the integral of C(a, w) (1-q)^(a-w) q^w expm1(S(w)) over Re w = ``real`` equal to x e^p."""
    from scipy.special import loggamma  # takes 0.2 s, and only client sampling needs it

    w = (real + 1j * step * np.arange(math.ceil(_END / step) + 1)).astype(np.complex128)
    kernel = loggamma(-w) + loggamma(w - order) + (order - w) * math.log1p(-rate) + w * math.log(rate)
    kernel -= loggamma(complex(-order)).real
    with np.errstate(all="ignore"):  # an overflow gives nan, which `_log1p_sum` turns into infinity
        moments = inner.complex_log_moment(w)
        if moments is None:
            return math.inf, 1.0
        peak = float(kernel[0].real) + max(float(moments[0].real), 0.0)
        if moments[0].real < 1.0:
            values = np.exp(kernel - peak) * np.expm1(moments)
        else:
            values = np.exp(kernel + moments - peak) - np.exp(kernel - peak)
    total = float(values.real.sum()) - float(values[0].real) / 2
    sign = -1.0 if math.floor(order) % 2 == 0 else 1.0  # of Gamma(-order)
    return peak, sign * total * step / math.pi


def _log1p_sum(logs: list[float], more: tuple[float, float] = (0.0, 0.0)) -> float:
    """log(1 + sum of exp(logs) + x e^p), for ``more`` = (p, x)."""
    peak, signed = more
    top = max([*logs, peak if signed else -math.inf])
    if not top < math.inf:
        return math.inf
    total = math.fsum(
        [*(math.exp(log - top) for log in logs), signed * math.exp(peak - top) if signed else 0.0]
    )
    if not total > 0.0:
        return math.inf
    if top + math.log(total) < LARGEST_EXPONENT / 2:
        return math.log1p(math.exp(top) * total)
    return top + math.log(total)
