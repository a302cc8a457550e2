"""Root finding that returns a point on the private side of the root."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

from csgm_cli.errors import NoAnswerError

#: A function value and its derivative.
Slope = tuple[float, float]

_MAX_STEPS = 300
#: Longest step while a root is not bracketed; arguments are logarithms.
_LONGEST_STEP = 2.0
_ULP = math.ulp(1.0) / 2
#: Relative width of the brackets of `smallest_satisfying`.
_RELATIVE_WIDTH = 4e-13
#: The smaller part of a golden section.
_GOLDEN = (3.0 - math.sqrt(5.0)) / 2.0


def increasing_root(
    function: Callable[[float], Slope],
    start: float,
    *,
    tolerance: float = 0.0,
    settled: Callable[[float, float, float], bool] | None = None,
) -> float:
    """The root of an increasing function of one real variable, by Newton steps inside a bracket.

    Stops when a Newton step is at most ``tolerance`` or rounding (the step is taken), at the current x
    when ``settled(x, value, newton step)``, or when the bracket is down to rounding. While the root is
    not bracketed, steps have a maximal length, and grow if Newton's do not halve the smallest so far
    (as on very steep or stepwise functions). In the bracket, bisection replaces a Newton step that
    leaves it or does not halve the previous step. Values may be infinite.

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
            reach, least = min(max(abs(newton), reach), _LONGEST_STEP), min(abs(newton), least)
            step = math.copysign(reach, -value)
        elif low < x + newton < high and abs(newton) <= last / 2:
            step = newton
        else:
            step = (low + high) / 2 - x
        x, last = x + step, abs(step)
    raise NoAnswerError("no-root", "the search did not converge")


def smallest_satisfying(holds: Callable[[float], bool], near: float) -> float:
    """A point x close to ``near`` with ``holds(x)`` and not ``holds(x (1 - 8e-13))``.

    ``holds`` is false below some positive point and true above it, up to rounding errors. ``near`` is an
    estimate of that point; the bracket around it grows only as far as needed.

    Raises:
        NoAnswerError: no such point within a factor two of ``near``.
    """
    high, step = near * (1 + _RELATIVE_WIDTH), _RELATIVE_WIDTH
    while not holds(high):
        step *= 2
        if step > 1.0:
            raise NoAnswerError("not-certified", "no certified answer near the root that was found")
        high *= 1 + step
    low, step = high * (1 - 2 * _RELATIVE_WIDTH), _RELATIVE_WIDTH
    while holds(low):
        high, step = low, step * 2
        if step > 0.5:
            raise NoAnswerError("not-certified", "no certified answer near the root that was found")
        low *= 1 - step
    while high > low * (1 + 2 * _RELATIVE_WIDTH):
        middle = math.sqrt(low * high) if high > 2 * low else low + (high - low) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


#: An argument and the value there.
Point = tuple[float, float]


def smallest_nonpositive(
    function: Callable[[float], float],
    near: float,
    *,
    slope: float,
    width: float,
    floor: float = -math.inf,
    ceiling: float = math.inf,
) -> float:
    """The smallest x, to an absolute ``width``, from which on a decreasing function is at most 0.

    The function is at most 0 at the x returned, which is ``floor`` if it is at most 0 there. ``near``: a
    guess; ``slope`` > 0: about minus the derivative. Steps away from the guess grow. Values may be infinite.

    Raises:
        NoAnswerError: the function is above 0 up to ``ceiling``.
    """
    x = min(max(near, floor), ceiling)
    value = function(x)
    step = max(width, min(1.2 * abs(value) / slope, 1.0)) if math.isfinite(value) else 1.0
    least = width
    while True:
        below = value <= 0.0
        if below and x <= floor:
            return floor
        if not below and x >= ceiling:
            raise NoAnswerError("no-root", "no value in range is enough")
        ahead = max(x - step, floor) if below else min(x + step, ceiling)
        at_ahead = function(ahead)
        if (at_ahead <= 0.0) != below:
            return narrow_bracket(function, (ahead, at_ahead), (x, value), width)
        gain = abs(at_ahead - value)
        left = 1.2 * abs(at_ahead) * abs(ahead - x) / gain if gain > 0.0 and math.isfinite(gain) else math.inf
        least *= 2.0  # secant steps towards the root of a steep exponential are all short
        step = min(max(left, least), 8.0 * step, _LONGEST_STEP)
        x, value = ahead, at_ahead


def narrow_bracket(
    function: Callable[[float], float],
    new: Point,
    old: Point,
    width: float,
    *,
    relative: bool = False,
) -> float:
    """Narrow a bracket to ``width``; returns its end where the function is at most 0."""
    steep = old[1] - new[1]
    share = -new[1] / steep if math.isfinite(steep) else 0.5
    third = old
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
    """Where to evaluate next, as a share of the way from ``new`` to ``old``."""
    (a, f_a), (b, f_b), (c, f_c) = new, old, third
    if not all(map(math.isfinite, (f_a, f_b, f_c))) or c in (a, b) or f_c in (f_a, f_b) or f_a == f_b:
        return 0.5
    xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
    if not (phi**2 < xi and (1 - phi) ** 2 < 1 - xi):
        return 0.5
    alpha = (c - a) / (b - a)
    return f_a / (f_b - f_a) * f_c / (f_b - f_c) + alpha * f_a / (f_c - f_a) * f_b / (f_c - f_b)


def bracketed_minimum(
    function: Callable[[float], float], start: float, *, stride: float, low: float, high: float, width: float
) -> Point:
    """The minimum in ``low`` ... ``high`` of a unimodal function, by growing steps from ``start``.

    Values may be infinite away from the minimum.
    """
    seen: dict[float, float] = {}

    def at(x: float) -> float:
        if x not in seen:
            seen[x] = function(x)
        return seen[x]

    middle = min(max(start, low), high)
    if math.isinf(at(middle)):  # far from the minimum: locate it on a lattice
        count = math.ceil((high - low) / stride)
        middle = min((low + (high - low) * i / count for i in range(count + 1)), key=at)
    for side in (1.0, -1.0):
        step, at_end = side * stride, False
        while not at_end:
            ahead = min(max(middle + step, low), high)
            at_end = ahead in (low, high)
            if not at(ahead) < at(middle):
                break
            middle, step = ahead, 1.5 * step
    places = sorted(seen)
    index = places.index(min(places, key=at))
    left, right = places[max(index - 1, 0)], places[min(index + 1, len(places) - 1)]
    inside = [(x, at(x)) for x in (places[index], left, right)]
    brent_minimum(at, left, right, width, inside if left < places[index] < right else None)
    return min(seen.items(), key=lambda point: point[1])


def lattice_minimum(function: Callable[[int], float], start: int, last: int) -> int:
    """The i in 0 ... ``last`` where a unimodal function is least; steps from ``start`` double and halve.

    Values may be infinite away from the minimum.
    """
    at = cache(function)
    best, step = min(max(start, 0), last), 1
    if math.isinf(at(best)):
        best = min(range(0, last + 1, 4), key=at)
    while step:
        ahead = min((i for i in (best - step, best + step) if 0 <= i <= last), key=at, default=best)
        best, step = (ahead, 2 * step) if at(ahead) < at(best) else (best, step // 2)
    return best


def brent_minimum(
    function: Callable[[float], float],
    low: float,
    high: float,
    width: float,
    known: Sequence[Point] | None = None,
) -> Point:
    """The minimum of a unimodal function in ``low`` ... ``high``, and its value there.

    ``known``: a point inside with a smaller value than the two ends, and these. To an absolute ``width``.
    Brent's method (1973): the vertex of the parabola through the three best points, or a golden section
    if that is outside or steps do not shrink. Written here because importing SciPy takes 0.2 s.
    """
    width = max(width, 4 * _ULP * max(abs(low), abs(high)))  # a step must move x
    if known:
        best, second, third = known[0], *sorted(known[1:], key=lambda point: point[1])
        step = before = (high - low) / 2
    else:
        at = low + _GOLDEN * (high - low)
        best = second = third = (at, function(at))
        step = before = 0.0
    while abs(inwards := (low + high) / 2 - best[0]) > 2 * width - (high - low) / 2:
        if max(second[1], third[1]) - best[1] <= 64 * _ULP * abs(best[1]) and best is not second:
            break  # nothing but rounding is left
        x, last, before = best[0], before, step
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


def root_above(x: float) -> float:
    """The square root of ``x``, or the next float above it."""
    from fractions import Fraction  # of factorizations only

    root = math.sqrt(x)
    return root if Fraction(root) ** 2 >= Fraction(x) else math.nextafter(root, math.inf)
