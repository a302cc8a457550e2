"""The least noise, or epsilon, at which the tight bound proves a target: bracketed root finding.

Each bound is monotone: a matched one at every fixed order, and the mean of a convex function at the
worst-case vector for a fixed exponent B, while the exponent that is proven only grows with sigma
(docs/theory.md, "Monotonicity"). So the answer of each method is one root, and of the two directions the
larger, each by its best method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from csgm_cli.bounds.lower import lower_log_delta
from csgm_cli.bounds.tight import Method, methods_of
from csgm_cli.bounds.triangle import triangle
from csgm_cli.bounds.worst_case import Release, is_elementwise_largest, worst_case_law
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.certificate import Direction
from csgm_cli.model.mechanism import Adjacency
from csgm_cli.roots import safe_end

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

    #: The law of releases, at their worst-case vector or in the paper's form.
    LawOf = Callable[[Sequence[Release]], Law]

#: By how much a method must lower the answer to be worth a search, in units of the width of brackets; and how
#: close in x to the lower bound an answer is where that is tried at the answer itself.
_NOTICEABLE, _CLOSE = 4.0, 0.02
#: Logarithms of the epsilons between which answers are sought.
_LEAST_EPSILON, _MOST_EPSILON = math.log(1e-12), math.log(1e12)


@dataclass(frozen=True)
class Path:
    """Releases and epsilon as functions of one parameter x with which every bound on delta falls.

    ``width``: of the bracket around the answer, in x. ``slope``: about -d log delta/dx.
    """

    at: Callable[[float], tuple[Sequence[Release], float]]
    log_delta: float
    slope: float
    width: float
    floor: float
    ceiling: float


def sigma_path(release: Release, others: Sequence[Release], epsilon: float, log_delta: float) -> Path:
    """x = log sigma of one release beside others."""
    mechanism, _ = release

    def at(x: float) -> tuple[Sequence[Release], float]:
        return [(mechanism, math.exp(x)), *others], epsilon

    scale = math.log(mechanism.geometry.l2_norm)
    return Path(at, log_delta, 2.0 * abs(log_delta) + 1.0, 3e-13, scale - 36.0, scale + 42.0)


def epsilon_path(releases: Sequence[Release], log_delta: float) -> Path:
    """x = log epsilon at given noise."""
    slope = 2.0 * abs(log_delta) + 1.0
    return Path(lambda x: (releases, math.exp(x)), log_delta, slope, 1e-13, _LEAST_EPSILON, _MOST_EPSILON)


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
    methods = methods_of(exact=exact)
    matched, at_worst_case = methods[Direction.ADD]
    added = _root(path, matched, near, path.floor, path.ceiling)
    removed = _closed_form(path, methods[Direction.REMOVE], added, path.ceiling)
    refuted = _greatest_refuted(path, removed)
    if removed > added:
        removed = _refined(path, methods[Direction.REMOVE][-1], refuted, added, removed)
    if removed <= added:
        added = _refined(path, at_worst_case, refuted, path.floor, added)
        removed = _closed_form(path, methods[Direction.REMOVE], added, removed)
        if removed > added:
            removed = _refined(path, methods[Direction.REMOVE][-1], refuted, added, removed)
    proven = max(added, removed)
    if proven >= path.ceiling:
        raise NoAnswerError("no-root", "no bound in range proves the target")
    return Solved(proven, min(refuted, proven))


def _closed_form(path: Path, methods: Sequence[Method], floor: float, ceiling: float) -> float:
    """The least x in [floor, ceiling] at which one of all methods but the last proves the target."""
    least = ceiling
    for method in methods[:-1]:
        if least > floor:
            least = _root(path, method, floor, floor, least)
    return least


def _refined(path: Path, method: Method, refuted: float, floor: float, known: float) -> float:
    """What a bound at the worst-case vector makes of an answer ``known``, down to ``floor`` at most.

    Far above its root such a bound may be out of reach, while it holds there, for delta falls: the root
    is sought upwards from the lower bound.
    """
    excess = _excess_of(path, method)
    low = max(floor, refuted)
    if known - low < _CLOSE and excess(known - _NOTICEABLE * path.width) > 0.0:
        return known
    near = low + 1e-3 * (known - low) if math.isfinite(low) else known
    return _root(path, method, near, max(floor, path.floor), known)


def _root(path: Path, method: Method, near: float, floor: float, ceiling: float) -> float:
    """The least x in [floor, ceiling] at which one method proves the target; the ceiling where it does not."""
    excess = _excess_of(path, method)
    if floor > path.floor and excess(floor) <= 0.0:
        return floor
    try:
        return safe_end(
            excess, max(near, floor), slope=path.slope, width=path.width, floor=floor, ceiling=ceiling
        )
    except NoAnswerError:
        return ceiling


def _excess_of(path: Path, method: Method, law_of: LawOf = worst_case_law) -> Callable[[float], float]:
    """log of the method's delta over the target's, at x; each order is sought from the one before."""
    seen: dict[float, float] = {}
    start: float | None = None

    def excess(x: float) -> float:
        nonlocal start
        if x not in seen:
            releases, epsilon = path.at(x)
            found = method(law_of(releases), epsilon, start)
            if found is not None and found.log_delta < 0.0:
                start = found.hint or start
            seen[x] = math.inf if found is None else found.log_delta - path.log_delta
        return seen[x]

    return excess


def least_by(path: Path, method: Method, near: float, law_of: LawOf = worst_case_law) -> float:
    """The least x at which one method proves the target, from a guess.

    Raises:
        NoAnswerError: it proves it at no x in range.
    """
    excess = _excess_of(path, method, law_of)
    return safe_end(excess, near, slope=path.slope, width=path.width, floor=path.floor, ceiling=path.ceiling)


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
