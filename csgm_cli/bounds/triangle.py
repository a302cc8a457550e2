"""The bound under replace-one: the hockey-stick triangle inequality of the add and remove bounds.

    delta(epsilon) <= delta_add(e1) + e^e1 delta_remove(epsilon - e1),   0 <= e1 <= epsilon

(docs/theory.md, Theorem 13). Any e1 is valid, and the best one is close to half of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from csgm_cli.bounds.tight import direction_bound
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.profile.means import profile_supported
from csgm_cli.roots import bracketed_minimum, lattice_minimum

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: log(e1/e2) -> logarithms of the two terms; the first decreases and the second increases.
Terms = Callable[[float], tuple[float, float]]

#: Search over log(e1/e2): largest magnitude, initial step from 0, initial step from a known value, and final
#: width, whose effect on log delta is of second order, below 1e-9.
_FURTHEST, _STRIDE, _WARM_STRIDE, _WIDTH = 8.0, 0.5, 0.01, 3e-6
#: With client sampling, where the bounds of both directions are slow: log(e1/e2) = _LEAST + i _SPACING.
_LEAST, _SPACING, _LAST = -0.5, 0.5, 9
#: The search ends when the logarithms of the slopes of both terms differ by less than `_BALANCED`, which
#: costs 1.3e-9 of delta. After `_STEPS` evaluations the minimum is bracketed instead.
_BALANCED, _STEPS = 1e-4, 12


def triangle(law: Law, epsilon: float, near: float | None = None, *, by_profile: bool = True) -> Certificate:
    """The smallest bound under replace-one; ``near``: a guess at the best e1/epsilon.

    ``by_profile``: whether to use contours and grids, if they are supported at ``epsilon``.
    """
    by_profile = by_profile and profile_supported(law, epsilon)
    seen: dict[float, tuple[Certificate, Certificate]] = {}
    orders: dict[Direction, float | None] = dict.fromkeys(Direction)

    def part(direction: Direction, at: float) -> Certificate:
        found = direction_bound(law, direction, at, orders[direction], by_profile=by_profile)
        if found.proof is Proof.GAUSSIAN_MATCHED:
            orders[direction] = found.order
        return found

    def terms(log_odds: float) -> tuple[float, float]:
        if log_odds not in seen:
            e1, e2 = epsilon / (1 + math.exp(-log_odds)), epsilon / (1 + math.exp(log_odds))
            seen[log_odds] = part(Direction.ADD, e1), part(Direction.REMOVE, e2)
        add, remove = seen[log_odds]
        return add.log_delta, add.epsilon + remove.log_delta

    if law.sampled:
        _search_lattice(terms, near)
    else:
        _search(terms, near)
    log_odds = min(seen, key=lambda x: _log_sum(*terms(x)))
    return Certificate(Proof.TRIANGLE, None, epsilon, _log_sum(*terms(log_odds)), parts=seen[log_odds])


def _search_lattice(terms: Terms, near: float | None) -> None:
    log_odds = math.log(near / (1 - near)) if near is not None and 0.0 < near < 1.0 else 0.5
    start = round((log_odds - _LEAST) / _SPACING)
    lattice_minimum(lambda i: _log_sum(*terms(_LEAST + i * _SPACING)), start, _LAST)


def _search(terms: Terms, near: float | None) -> None:
    """Evaluate the terms up to the place where their sum is least."""
    start, stride = 0.0, _STRIDE
    if near is not None and 0.0 < near < 1.0:
        start = min(max(math.log(near / (1 - near)), -_FURTHEST), _FURTHEST)
        stride = _WARM_STRIDE
    if not _reaches_least_sum(terms, start, stride):
        bracketed_minimum(
            lambda x: _log_sum(*terms(x)), start, stride=stride, low=-_FURTHEST, high=_FURTHEST, width=_WIDTH
        )


def _reaches_least_sum(terms: Terms, start: float, stride: float) -> bool:
    """Evaluate the terms until their slopes cancel; False if that fails.

    The next point is the minimum of the sum with the logarithms of both terms extrapolated linearly.
    """
    places = [start, start - math.copysign(stride, start)]
    while len(places) < _STEPS:
        values = [terms(x) for x in places[-3:]]
        down, up = -_slope(places[-3:], [v[0] for v in values]), _slope(places[-3:], [v[1] for v in values])
        if not (0.0 < down < math.inf and 0.0 < up < math.inf):
            return False
        falling, rising = values[-1]
        derivative = rising + math.log(up) - falling - math.log(down)  # has the sign of the sum's
        if abs(derivative) < _BALANCED:
            return True
        ahead = places[-1] - min(max(derivative / (down + up), -1.0), 1.0)
        ahead = min(max(ahead, -_FURTHEST), _FURTHEST)
        if ahead in places[-2:]:
            return abs(ahead) == _FURTHEST
        places.append(ahead)
    return False


def _slope(places: Sequence[float], values: Sequence[float]) -> float:
    """The slope at the last point of the parabola through three points, or of the line through two."""
    secants = [(a - b) / (x - y) for (x, a), (y, b) in combinations(zip(places, values, strict=True), 2)]
    return sum(secants[1:]) - secants[0] if len(secants) == 3 else secants[0]


def _log_sum(a: float, b: float) -> float:
    top = max(a, b)
    return top if math.isinf(top) else top + math.log1p(math.exp(min(a, b) - top)) + 2.0**-51 * (1 + abs(top))
