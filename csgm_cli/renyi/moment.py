"""A log-moment with its derivatives: the value that every Renyi bound is made of.

Standard library only, so that the Gaussian mechanism is accounted without numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

#: Logarithms above this count as infinite, since float64 overflows at exp(709).
LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class LogMoment:
    """K = log E[Y^order], at one order and noise.

    ``error`` bounds the relative error of ``value``. The derivatives only guide searches.
    """

    value: float
    d_order: float
    d2_order: float
    error: float


_NOTHING = LogMoment(0.0, 0.0, 0.0, 0.0)
INFINITE_MOMENT = LogMoment(math.inf, math.inf, math.inf, math.inf)


def gaussian_moment(order: float, t: float) -> LogMoment:
    """K of the plain Gaussian: order (order - 1) t / 2 with t = (sensitivity / sigma)^2."""
    value = order * (order - 1) * t / 2
    return LogMoment(value, (order - 0.5) * t, t, 2.0**-50)


def combine(terms: Iterable[tuple[float, LogMoment]]) -> LogMoment:
    """Sum of weight * moment over (weight >= 0, moment): independent coordinates and rounds."""
    pairs = list(terms)
    value = math.fsum(w * m.value for w, m in pairs)
    return LogMoment(
        value,
        math.fsum(w * m.d_order for w, m in pairs),
        math.fsum(w * m.d2_order for w, m in pairs),
        max(m.error for _, m in pairs) + 2.0**-52,
    )


def summed(terms: Iterable[tuple[float, LogMoment]]) -> LogMoment:
    """The weighted sum of moments: zero where there are none, infinite where one is."""
    pairs = list(terms)
    if not pairs:
        return _NOTHING
    return INFINITE_MOMENT if any(math.isinf(m.value) for _, m in pairs) else combine(pairs)


def replace_one(order: float, at_odd: LogMoment, at_even: LogMoment) -> LogMoment:
    """(order - 1) times the replace-one Renyi bound, from the add-remove moments.

    ``at_odd`` is K at 2 order - 1, ``at_even`` K at 2 order (docs/theory.md, "Replace-one"):
    eps(a) <= (2a/(2a-1)) eps(2a-1) + eps(2a), which is K -> c K(2a-1) + (1-c) K(2a) with
    c = a/(2a-1) and 1-c = (a-1)/(2a-1).
    """
    if math.isinf(at_even.value):
        return INFINITE_MOMENT
    b = 2 * order - 1
    c, slope, curvature = order / b, 1 / b**2, 4 / b**3
    step, d_step = at_even.value - at_odd.value, at_even.d_order - at_odd.d_order
    mixed = combine([(c, at_odd), ((order - 1) / b, at_even)])
    return LogMoment(
        mixed.value,
        2 * mixed.d_order + slope * step,
        4 * mixed.d2_order + 4 * slope * d_step - curvature * step,
        mixed.error,
    )
