"""Root finding that ends on the private side of the root."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from csgm_cli.errors import NoAnswerError

#: A function value and its derivative.
Slope = tuple[float, float]

_MAX_STEPS = 300
#: Descents to a positive floor, which may be far below all that counts, take no longer steps than this
#: factor, and secants end further away than that.
_FARTHEST = 16.0
_ULP = 2.0**-53
#: Relative width of the brackets of `least_safe`.
_SAFE_WIDTH = 4e-13
#: Of a secant: points closer than the second, relative, do not tell its slope; roots are found to the third.
_MOST_SECANTS, _TOO_CLOSE, _SECANT_WIDTH = 12, 1e-7, 1e-13
#: The smaller part of a golden section.
_GOLDEN = (3.0 - math.sqrt(5.0)) / 2.0


def increasing_root(
    function: Callable[[float], Slope],
    start: float,
    *,
    tolerance: float = 0.0,
    settled: Callable[[float, float, float], bool] | None = None,
    stride: float = 2.0,
) -> float:
    """The root of an increasing function of one real variable, by Newton steps inside a bracket.

    Stops when a Newton step is at most ``tolerance`` or rounding (the step is taken), or at the x last
    looked at when ``settled(x, value, newton step)``, or when the bracket is down to rounding. While
    the root is not bracketed, ``stride`` limits a step, and steps grow where Newton's do not halve the
    least so far (they creep along a cliff, or hop about on a staircase). In the bracket, a Newton step
    that leaves it or does not halve the step before gives way to bisection. Values may be infinite.

    Raises:
        NoAnswerError: no root was found, for lack of a sign change or of convergence.
    """
    low, high = -math.inf, math.inf
    x, last = start, math.inf
    reach, least = 0.0, math.inf
    for _ in range(_MAX_STEPS):
        value, slope = function(x)
        low, high = (x, high) if value < 0.0 else (low, x)
        newton = -value / slope if slope > 0.0 and math.isfinite(value) else math.inf
        if (settled and settled(x, value, newton)) or high - low <= 4 * _ULP * abs(x):
            return x
        if abs(newton) <= max(tolerance, _ULP * abs(x)):
            return min(max(x + newton, low), high)
        if math.isinf(high - low):
            reach = 2 * reach if abs(newton) > least / 2 else 0.0
            reach, least = min(max(abs(newton), reach), stride), min(abs(newton), least)
            step = math.copysign(reach, -value)
        elif low < x + newton < high and abs(newton) <= last / 2:
            step = newton
        else:
            step = (low + high) / 2 - x
        x, last = x + step, abs(step)
    raise NoAnswerError("no-root", "the search did not converge")


def least_safe(is_safe: Callable[[float], bool], near: float) -> float:
    """A point x close to ``near`` with ``is_safe(x)`` and not ``is_safe(x (1 - 8e-13))``.

    ``is_safe`` is false below some positive point and true above it, up to rounding noise.
    ``near`` is an estimate of that point; from it the bracket opens up only as far as needed.

    Raises:
        NoAnswerError: no such point within a factor two of ``near``.
    """
    high, step = near * (1 + _SAFE_WIDTH), _SAFE_WIDTH
    while not is_safe(high):
        step *= 2
        if step > 1.0:
            raise NoAnswerError("not-certified", "no certified answer near the root that was found")
        high *= 1 + step
    low, step = high * (1 - 2 * _SAFE_WIDTH), _SAFE_WIDTH
    while is_safe(low):
        high, step = low, step * 2
        if step > 0.5:
            raise NoAnswerError("not-certified", "no certified answer near the root that was found")
        low *= 1 - step
    while high > low * (1 + 2 * _SAFE_WIDTH):
        middle = math.sqrt(low * high) if high > 2 * low else low + (high - low) / 2
        low, high = (low, middle) if is_safe(middle) else (middle, high)
    return high


def descend(
    function: Callable[[float], float],
    high: float,
    floor: float,
    *,
    width: float = 1e-12,
    slope: float = 50.0,
) -> float:
    """How far below ``high`` a decreasing function stays at most 0: the safe end of its root.

    ``width`` is relative, or absolute where ``floor`` is negative (logarithms), and so is the unit of
    ``slope``, about how steep the function is at the root. ``high`` itself where the function is not
    negative there, or NaN, ``floor`` where it never is, and where it is exactly 0 the search is over. Opens a
    bracket downwards, then Chandrupatla's method (1997): inverse quadratic interpolation where that is
    safe, else bisection.
    """
    at_high = function(high)
    if high <= floor or not at_high < 0.0:
        return high
    relative = floor >= 0.0
    step = -1.1 * at_high / slope
    step = abs(high) * step / (1.0 + step) if relative and step < math.inf else min(step, 0.5)
    low, at_low = high, at_high
    while at_low <= 0.0:
        before, at_before = high, at_high
        high, at_high = low, at_low
        if low <= floor:
            return floor
        wide = width * (abs(high) if relative else 1.0)
        low = max(floor, low - max(wide, step), low / _FARTHEST if floor > 0.0 else -math.inf)
        at_low = function(low)
        if at_low == 0.0:
            return low
        gain = at_low - at_high
        ahead = -1.1 * at_low * (high - low) / gain if gain > 0.0 and math.isfinite(gain) else math.inf
        step = min(ahead, 4 * (high - low))
    return narrowed(function, (low, at_low), (high, at_high), width, (before, at_before), relative=relative)


#: An argument and the value there.
Point = tuple[float, float]


def secant(function: Callable[[float], float], x: float, value: float, slope: float) -> float | None:
    """A root of a smooth function near ``x``, where it has about that ``value`` and ``slope``.

    To about 1e-13, relative; None where it is not found soon and close by. No bracket, no guarantee:
    for estimates.
    """
    low, high, before = x / _FARTHEST, x * _FARTHEST, 1.0
    for _ in range(_MOST_SECANTS):
        step = -value / slope if slope != 0.0 else math.nan
        ahead = x + step
        if not low <= ahead <= high:
            return None
        if abs(step * before) <= _SECANT_WIDTH * x * x:  # secants square what is off, and better
            return ahead
        at_ahead = function(ahead)
        if abs(step) > _TOO_CLOSE * x:
            slope = (at_ahead - value) / step
        x, value, before = ahead, at_ahead, abs(step)
    return None


def interpolated(points: Sequence[Point], x: float) -> float:
    """The polynomial through the points, at ``x`` (Lagrange)."""
    return math.fsum(
        value * math.prod((x - other) / (at - other) for other, _ in points if other != at)
        for at, value in points
    )


def narrowed(
    function: Callable[[float], float],
    new: Point,
    old: Point,
    width: float,
    third: Point | None = None,
    *,
    relative: bool = False,
) -> float:
    """The end where the function is at most 0 of a bracket new ... old narrowed to ``width``.

    ``third`` is another point where its value is known, if there is one.
    """
    steep = old[1] - new[1]
    share = -new[1] / steep if math.isfinite(steep) else 0.5
    third = third or old
    while True:
        wide = width * (max(abs(old[0]), abs(new[0])) if relative else 1.0)
        if abs(old[0] - new[0]) <= wide:
            break
        least = wide / 3 / abs(old[0] - new[0])
        share = min(max(share, least), 1.0 - least)
        x = new[0] + share * (old[0] - new[0])
        if not min(new[0], old[0]) < x < max(new[0], old[0]):
            break
        point = (x, function(x))
        if point[1] == 0.0:
            return x
        if (point[1] > 0.0) == (new[1] > 0.0):
            third, new = new, point
        else:
            third, old, new = old, new, point
        share = _share(new, old, third)
    return new[0] if new[1] <= 0.0 else old[0]


def _share(new: Point, old: Point, third: Point) -> float:
    """How far from ``new`` towards ``old`` to look next."""
    (a, f_a), (b, f_b), (c, f_c) = new, old, third
    if not all(map(math.isfinite, (f_a, f_b, f_c))) or c in (a, b) or f_c in (f_a, f_b) or f_a == f_b:
        return 0.5
    xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
    if not (phi**2 < xi and (1 - phi) ** 2 < 1 - xi):
        return 0.5
    alpha = (c - a) / (b - a)
    return f_a / (f_b - f_a) * f_c / (f_b - f_c) + alpha * f_a / (f_c - f_a) * f_b / (f_c - f_b)


def downhill(function: Callable[[int], float], at: int, last: int, enough: float = -math.inf) -> int:
    """The local minimum that is downhill of ``at`` in 0 ... ``last``, by steps that double and halve.

    Or a point on the way where the function is at most ``enough``.
    """
    step = 1
    while step != 0 and function(at) > enough:
        best = min((at, at + step, at - step), key=lambda i: function(i) if 0 <= i <= last else math.inf)
        step = 2 * step if best != at else step // 2
        at = best
    return at


def lowest(function: Callable[[float], float], low: float, high: float, width: float) -> Point:
    """Where a function of one valley is least in ``low`` ... ``high``, and its value there.

    To an absolute ``width``. Brent's method (1973): a parabola through the three best points says where to
    look next, or a golden section where that is outside or steps do not shrink. Here, for the library's
    import takes 0.2 s.
    """
    at = low + _GOLDEN * (high - low)
    best = second = third = (at, function(at))
    step = before = 0.0
    while abs(inwards := (low + high) / 2 - best[0]) > 2 * width - (high - low) / 2:
        x = best[0]
        last, before = before, step
        step = _to_vertex(best, second, third)
        if not (abs(step) < abs(last) / 2 and low < x + step < high):
            before = (high if inwards > 0.0 else low) - x
            step = _GOLDEN * before
        elif min(x + step - low, high - x - step) < 2 * width:
            step = math.copysign(width, inwards)
        there = x + (step if abs(step) >= width else math.copysign(width, step))
        point = (there, function(there))
        if point[1] <= best[1]:
            low, high = (x, high) if there >= x else (low, x)
            best, second, third = point, best, second
        else:
            low, high = (there, high) if there < x else (low, there)
            if point[1] <= second[1] or second == best:
                second, third = point, second
            elif point[1] <= third[1] or third in (best, second):
                third = point
    return best


def _to_vertex(best: Point, second: Point, third: Point) -> float:
    """How far from ``best`` the vertex of the parabola through all three is; infinite where there is none."""
    (x, f), (w, f_w), (v, f_v) = best, second, third
    left, right = (x - w) * (f - f_v), (x - v) * (f - f_w)
    twice = 2.0 * (left - right)
    return ((x - v) * right - (x - w) * left) / twice if twice != 0.0 else math.inf
