"""The x at which the integrand Y^a exp(-x^2/2) of E[Y^a] is not negligible, for one coordinate.

    Y = (1 - g) + g exp(x s - s^2/2),   s = sqrt(t),   x ~ N(0, 1)

The slope of a log Y - x^2/2 is a s R(x) - x, R the probability, given x, that the coordinate was sent:
it rises with x from 0 to 1 (docs/theory.md, "One coordinate").
"""

from __future__ import annotations

import math

from csgm_cli.renyi.moment import LARGEST_EXPONENT

#: Further than this from its peaks, the integrand is below exp(-55) of their height.
_REACH = 10.5

#: The trapezoid rule in x with step h has the relative error exp(y^2/2 - 2 pi y/h) if the integrand is
#: analytic for |Im x| <= y. Y has zeros at Im x = pi/s, so y is at most `STRIP` of that; h makes the error
#: e^-`LOG_ACCURACY`.
STRIP, LOG_ACCURACY = 0.95, 44.0


def tilt(a: float, g: float, s: float) -> float:
    """How far Y^a moves the peak of exp(-x^2/2), at most: to x = a s R(x), where R rises with x."""
    return a * s * _posterior(g, s, max(a * s, 0.0))


def _posterior(g: float, s: float, x: float) -> float:
    """R, the probability that the coordinate was sent."""
    if g == 1.0:
        return 1.0
    return 1 / (1 + math.exp(min(LARGEST_EXPONENT, math.log1p(-g) - math.log(g) - s * x + s * s / 2)))


def integration_interval(a: float, g: float, s: float) -> tuple[float, float]:
    """The interval of x outside which the integrand, also with a factor y^2, is negligible.

    Right of max(a, 2) s it falls like a Gaussian.
    """
    moved = tilt(a, g, s)
    return min(moved, 0.0) - _REACH, min(max(a, 2.0) * s, 2 * s + max(moved, 0.0)) + _REACH


def peak_intervals(a: float, g: float, s: float) -> list[tuple[float, float]]:
    """One or two intervals around the peaks of Y^a exp(-x^2/2) if they are narrow; else an empty list.

    Peaks solve x = a s R(x), R the posterior probability that the coordinate was sent. The fixed-point
    iteration increases from 0 to the leftmost peak and decreases from a s to the rightmost.
    """
    left, right = _peak(a, g, s, 0.0), _peak(a, g, s, a * s)
    if left is None or right is None:
        return []
    if left[1] < right[0]:
        return [left, right]
    return [(min(left[0], right[0]), max(left[1], right[1]))]


def _peak(a: float, g: float, s: float, x: float) -> tuple[float, float] | None:
    """An interval around the peak to which the iteration from ``x`` converges; None if it is slow or flat.

    The second derivative of the logarithm is a s^2 R (1 - R) - 1; it changes over 1/s, which is
    more than the span wherever this is used.
    """
    for _ in range(300):
        sent = _posterior(g, s, x)
        x, before = a * s * sent, x
        if abs(x - before) <= 1e-3:
            break
    curvature = 1 - a * s * s * sent * (1 - sent)
    if abs(x - before) > 1e-3 or curvature < 0.5:
        return None
    reach = 1.5 * _REACH / math.sqrt(curvature)
    return x - reach, x + reach
