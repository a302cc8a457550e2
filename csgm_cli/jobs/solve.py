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
from typing import TYPE_CHECKING

from csgm_cli.bounds.lower import lower_log_delta
from csgm_cli.bounds.tight import Method, methods_of
from csgm_cli.bounds.worst_case import Release, is_elementwise_largest, worst_case_law
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.certificate import Direction
from csgm_cli.roots import safe_end

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: By how much a method must lower the answer to be worth a search, in units of the width of brackets.
_NOTICEABLE = 4.0


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


def epsilon_path(releases: Sequence[Release], log_delta: float, near: float) -> Path:
    """x = epsilon at given noise, to 1e-13 of ``near``."""
    slope = max(2.0 * abs(log_delta), 1.0) / max(near, 1e-9)
    return Path(lambda x: (releases, x), log_delta, slope, 1e-13 * max(near, 1e-9), 0.0, 1e9)


@dataclass
class _Side:
    """One direction: the methods not tried yet, and the least x that one of the others proves."""

    methods: list[Method]
    x: float = math.inf


def least_proven(path: Path, near: float) -> float:
    """The least x at which the tight bound is at most the path's delta, from a guess.

    Raises:
        NoAnswerError: it is not at most that at any x in range.
    """
    exact = is_elementwise_largest(path.at(near)[0])
    sides = {direction: _Side(list(methods)) for direction, methods in methods_of(exact=exact).items()}
    while True:
        decisive = max(Direction, key=lambda direction: sides[direction].x)
        side = sides[decisive]
        if not side.methods:
            break
        [other] = [sides[direction] for direction in Direction if direction is not decisive]
        floor = other.x if math.isfinite(other.x) else path.floor
        side.x = min(side.x, _root(path, side.methods.pop(0), side.x, near, floor))
    if math.isinf(side.x):
        raise NoAnswerError("no-root", "no bound in range proves the target")
    return side.x


def _root(path: Path, method: Method, known: float, near: float, floor: float) -> float:
    """The least x from ``floor`` on at which one method proves the target; ``known`` if that is not below."""
    excess = _excess_of(path, method)
    if math.isfinite(known):
        near = known - _NOTICEABLE * path.width
        if near <= floor or excess(near) > 0.0:
            return known
    elif floor > path.floor and excess(floor) <= 0.0:
        return floor
    try:
        return safe_end(
            excess, max(near, floor), slope=path.slope, width=path.width, floor=floor, ceiling=path.ceiling
        )
    except NoAnswerError:
        return math.inf


def _excess_of(path: Path, method: Method) -> Callable[[float], float]:
    """log of the method's delta over the target's, at x; each order is sought from the one before."""
    seen: dict[float, float] = {}
    start: float | None = None

    def excess(x: float) -> float:
        nonlocal start
        if x not in seen:
            releases, epsilon = path.at(x)
            law: Law = worst_case_law(releases)
            found = method(law, epsilon, start)
            if found is not None and found.order is not None and found.log_delta < 0.0:
                start = found.order
            seen[x] = math.inf if found is None else found.log_delta - path.log_delta
        return seen[x]

    return excess


def greatest_refuted(path: Path, near: float) -> float:
    """The greatest x at which a lower bound on delta exceeds the path's: below it no analysis can go.

    -infinity where none does.
    """

    def excess(minus_x: float) -> float:
        releases, epsilon = path.at(-minus_x)
        return path.log_delta - lower_log_delta(releases, epsilon)

    try:
        return -safe_end(
            excess, -near, slope=path.slope, width=path.width, floor=-path.ceiling, ceiling=-path.floor
        )
    except NoAnswerError:
        return -math.inf
