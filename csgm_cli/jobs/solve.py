"""The least noise, or epsilon, at which the tight bound proves a target: bracketed root finding.

Each bound is monotone: a matched one at every fixed order, and the mean of a convex function at the
worst-case vector for a fixed exponent B, while the exponent that is proven only grows with sigma
(docs/theory.md, "The tight accountant"). So the answer of each method is one root, and of the two directions the
larger, each by its best method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from csgm_cli.bounds.by_order import ByOrder, Method
from csgm_cli.bounds.lower import lower_log_delta
from csgm_cli.bounds.tight import CLOSED_FORMS, at_worst_case
from csgm_cli.bounds.triangle import triangle
from csgm_cli.bounds.worst_case import is_elementwise_largest
from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.paths import Path, excess_of, least_by
from csgm_cli.model.certificate import Direction
from csgm_cli.model.mechanism import Adjacency
from csgm_cli.renyi.conversion import best_epsilon
from csgm_cli.roots import safe_end

#: By how much a method must lower the answer to be worth a search, in units of the width of brackets; and how
#: close in x to the lower bound an answer is where that is tried at the answer itself.
_NOTICEABLE, _CLOSE = 4.0, 0.02


@dataclass(frozen=True)
class Solved:
    """``proven``: the least x at which the tight bound is at most the path's delta.

    ``refuted``: the greatest x at which a lower bound on delta exceeds it, -infinity where none does.
    """

    proven: float
    refuted: float


def solve(path: Path, near: float) -> Solved:
    """The answer along a path, from a guess.

    Closed forms first; then the lower bound; then, from there, the bounds at the worst-case vector.

    Raises:
        NoAnswerError: no bound in range proves the target.
    """
    releases, _ = path.at(near)
    exact = is_elementwise_largest(releases)
    if releases[0][0].adjacency is Adjacency.REPLACE_ONE:
        proven = least_by(path, partial(triangle, exact=exact), near)
        return Solved(proven, min(_greatest_refuted(path, proven), proven))
    [matched] = CLOSED_FORMS[Direction.ADD]
    added = _root(path, matched, near, path.floor, path.ceiling)
    removed = _closed_form(path, Direction.REMOVE, added, path.ceiling)
    refuted = _greatest_refuted(path, removed)
    if removed > added:
        removed = _refined(path, at_worst_case(Direction.REMOVE, exact=exact), refuted, added, removed)
    if removed <= added:
        added = _refined(path, at_worst_case(Direction.ADD, exact=exact), refuted, path.floor, added)
        removed = _closed_form(path, Direction.REMOVE, added, removed)
        if removed > added:
            removed = _refined(path, at_worst_case(Direction.REMOVE, exact=exact), refuted, added, removed)
    proven = max(added, removed)
    if proven >= path.ceiling:
        raise NoAnswerError("no-root", "no bound in range proves the target")
    return Solved(proven, min(refuted, proven))


def _closed_form(path: Path, direction: Direction, floor: float, ceiling: float) -> float:
    """The least x in [floor, ceiling] at which a closed form of the direction proves the target."""
    least = ceiling
    for method in CLOSED_FORMS[direction]:
        if least > floor:
            least = _root(path, method, floor, floor, least)
    return least


def _refined(path: Path, method: Method, refuted: float, floor: float, known: float) -> float:
    """What a bound at the worst-case vector makes of an answer ``known``, down to ``floor`` at most.

    Far above its root such a bound may be out of reach, while it holds there, for delta falls: the root
    is sought upwards from the lower bound.
    """
    excess = excess_of(path, method)
    low = max(floor, refuted)
    if known - low < _CLOSE and excess(known - _NOTICEABLE * path.width) > 0.0:
        return known
    near = low + 1e-3 * (known - low) if math.isfinite(low) else known
    return _root(path, method, near, max(floor, path.floor), known)


def _root(path: Path, method: Method, near: float, floor: float, ceiling: float) -> float:
    """The least x in [floor, ceiling] at which one method proves the target; the ceiling where it does not."""
    if path.law is not None and isinstance(method, ByOrder):
        epsilon, _ = best_epsilon(method.curve(path.law), method.convert, path.log_delta)
        return min(max(math.log(epsilon) if epsilon > 0.0 else -math.inf, floor), ceiling)
    excess = excess_of(path, method)
    if floor > path.floor and excess(floor) <= 0.0:
        return floor
    try:
        return safe_end(
            excess, max(near, floor), slope=path.slope, width=path.width, floor=floor, ceiling=ceiling
        )
    except NoAnswerError:
        return ceiling


def _greatest_refuted(path: Path, near: float) -> float:
    def excess(minus_x: float) -> float:
        releases, epsilon = path.at(-minus_x)
        return path.log_delta - lower_log_delta(releases, epsilon)

    try:
        return -safe_end(
            excess, -near, slope=path.slope, width=path.width, floor=-path.ceiling, ceiling=-path.floor
        )
    except NoAnswerError:
        return -math.inf
