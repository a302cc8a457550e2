"""The smallest noise, or epsilon, at which the tight bound proves a target, and a lower bound on it.

Each bound is monotone: the matched bound at every fixed order, and the mean of a convex function at the
worst-case vector for a fixed exponent B; the proven B is nondecreasing in sigma (docs/theory.md, Theorem
15). So each method has one root. The answer in one direction is the smallest root of its methods, and the
answer for both directions is the larger of the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from csgm_cli.accounting.paths import Excess, SearchPath, solve_method
from csgm_cli.bounds.by_order import ByOrder, Method
from csgm_cli.bounds.lower import lower_log_delta
from csgm_cli.bounds.sampled import SampledMatched
from csgm_cli.bounds.tight import LEAST_LOG_DELTA, bounds_by_grid, bounds_for_every_vector
from csgm_cli.bounds.triangle import triangle
from csgm_cli.bounds.worst_case import is_replace_one, worst_case_law
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.certificate import Certificate, Direction
from csgm_cli.renyi.conversion import best_epsilon
from csgm_cli.roots import smallest_nonpositive

if TYPE_CHECKING:
    from csgm_cli.bounds.worst_case import Release

#: At a larger distance from the lower bound, a bound at the worst-case vector may not be computable.
_FAR = 0.02
#: Width in x of the bracket of the lower bound, without and with client sampling, and of the answer under
#: replace-one; approximate distance between the two.
_LOWER_WIDTH, _SAMPLED_LOWER_WIDTH, _TRIANGLE_WIDTH, _LOOSE = 1e-6, 1e-4, 3e-10, 0.02
#: Width of the bracket of a sigma from a certified grid, whose rounding errors are larger. account uses the
#: narrower default, since it must reproduce epsilon.
_GRID_WIDTH, _SAMPLED_GRID_WIDTH = 1e-8, 1e-6


@dataclass(frozen=True)
class Solved:
    """The result of `solve`.

    ``proven``: the smallest x at which the tight bound proves the target, by ``certificates``.
    ``refuted``: the largest x at which a lower bound on delta exceeds the target, -infinity if none does.
    """

    proven: float
    refuted: float
    certificates: tuple[Certificate, ...]


def solve(path: SearchPath, near: float) -> Solved:
    """The answer along a path; ``near``: a guess at x.

    Raises:
        NoAnswerError: no bound in range proves the target.
    """
    releases, _ = path.at(near)
    if is_replace_one(releases):
        method: Method = partial(triangle, by_profile=_uses_profile(path))
        near = _at_half_of_epsilon(path, near)
        refuted = _greatest_refuted(path, near)
        start = refuted + _LOOSE if math.isfinite(refuted) else near
        proven, certificate = solve_method(replace(path, width=_TRIANGLE_WIDTH), method, start)
        return Solved(proven, min(refuted, proven), (certificate,))
    search = _Search(path, near)
    added, by, refuted = search.solve_add(near)
    removed, by_other = search.solve_remove(added, refuted)
    proven = max(added, removed)
    if proven >= path.ceiling:
        raise NoAnswerError("no-root", "no bound in range proves the target")
    certificates = (search.certificate(by, proven), search.certificate(by_other, proven))
    return Solved(proven, min(refuted, proven), certificates)


class _Search:
    """The roots of all methods along one path; values are cached."""

    def __init__(self, path: SearchPath, near: float) -> None:
        self.path = path
        self._law = worst_case_law(path.at(near)[0])
        self._excess: dict[Method, Excess] = {}

    def solve_add(self, near: float) -> tuple[float, Method, float]:
        """The smallest x proven in the add direction, the method of the proof, and the largest x refuted."""
        least, by = self._least_root(Direction.ADD, near, self.path.floor)
        refuted = _greatest_refuted(self.path, least)
        return *self._refined(Direction.ADD, refuted, self.path.floor, least, by), refuted

    def solve_remove(self, added: float, refuted: float) -> tuple[float, Method]:
        """The smallest x >= ``added`` proven in the remove direction, and the method of the proof."""
        least, by = self._least_root(Direction.REMOVE, added, added)
        return self._refined(Direction.REMOVE, refuted, added, least, by)

    def _least_root(self, direction: Direction, near: float, floor: float) -> tuple[float, Method]:
        """The smallest root >= ``floor`` of the bounds for every vector, and the method that has it."""
        methods = bounds_for_every_vector(self._law, direction)
        least, by = self.path.ceiling, methods[0]
        for method in methods:
            if least > floor and (least >= self.path.ceiling or self.excess(method)(least) <= 0.0):
                found = self.root(method, min(near, least), floor, least)
                least, by = (found, method) if found < least else (least, by)
        return least, by

    def _refined(
        self, direction: Direction, refuted: float, floor: float, least: float, by: Method
    ) -> tuple[float, Method]:
        """``least`` and its method, or a smaller root of a bound that uses a grid."""
        if not _uses_profile(self.path):
            return least, by
        for method in bounds_by_grid(self._law, direction):
            if least > floor and (found := self.refined_root(method, refuted, floor, least)) < least:
                least, by = found, method
        return least, by

    def refined_root(self, method: Method, refuted: float, floor: float, known: float) -> float:
        """The root of a bound at the worst-case vector, between ``floor`` and the answer ``known`` so far.

        Far above its root such a bound may not be computable, although it holds there because delta
        decreases in x. Then the search for the root goes upwards from the lower bound.
        """
        at_known = self.excess(method)(known)
        if math.isinf(at_known) and isinstance(method, SampledMatched):
            return known
        low = max(floor, refuted)
        if 0.0 < at_known < math.inf and known - low <= _FAR:
            return known
        near = known if -self.path.slope < at_known <= 0.0 else low + 1e-3 * (known - low)
        found = self.excess(method).certificate(known)
        by_grid = found is not None and found.step is not None and self.path.law is None
        width = (_SAMPLED_GRID_WIDTH if self._law.sampled else _GRID_WIDTH) if by_grid else None
        return self.root(method, near if math.isfinite(near) else known, floor, known, width)

    def root(
        self, method: Method, near: float, floor: float, ceiling: float, width: float | None = None
    ) -> float:
        """The smallest x in [floor, ceiling] at which a method proves the target, else ``ceiling``."""
        path, excess = self.path, self.excess(method)
        if path.law is not None and isinstance(method, ByOrder):
            curve = method.curve(path.law)
            epsilon, order = best_epsilon(curve, method.convert, path.log_delta, math.exp(near))
            x = min(max(math.log(epsilon) if epsilon > 0.0 else path.floor, floor), ceiling)
            if math.isfinite(epsilon):
                excess.remember(x, replace(method, order=order)(path.law, math.exp(x)))
            return x
        if floor > path.floor and excess(floor) <= 0.0:
            return floor
        part = replace(path, floor=floor, ceiling=ceiling, width=width or path.width)
        try:
            x, certificate = solve_method(part, method, max(near, floor))
        except NoAnswerError:
            return ceiling
        excess.remember(x, certificate)
        return x

    def excess(self, method: Method) -> Excess:
        """The cached `Excess` of a method."""
        if method not in self._excess:
            self._excess[method] = Excess(self.path, method)
        return self._excess[method]

    def certificate(self, method: Method, x: float) -> Certificate:
        """The certificate of a method at an x at which it proves the target."""
        found = self.excess(method).certificate(x)
        assert found is not None  # it proves the target at a smaller x
        return found


def _uses_profile(path: SearchPath) -> bool:
    """Whether the target delta is large enough for profile methods; below, only closed forms are used."""
    return path.log_delta >= LEAST_LOG_DELTA


def _greatest_refuted(path: SearchPath, near: float) -> float:
    sampled = worst_case_law(path.at(near)[0]).sampled
    width = _SAMPLED_LOWER_WIDTH if sampled else _LOWER_WIDTH

    def excess(minus_x: float) -> float:
        releases, epsilon = path.at(-minus_x)
        return path.log_delta - lower_log_delta(releases, epsilon, by_profile=_uses_profile(path))

    try:
        return -smallest_nonpositive(
            excess, -near, slope=path.slope, width=width, floor=-path.ceiling, ceiling=-path.floor
        )
    except NoAnswerError:
        return -math.inf


def _at_half_of_epsilon(path: SearchPath, near: float) -> float:
    """Guess under replace-one: the x at which the matched bound proves delta at half of epsilon."""

    def halved(x: float) -> tuple[Sequence[Release], float]:
        releases, epsilon = path.at(x)
        return releases, epsilon / 2

    law = worst_case_law(path.at(near)[0])
    matched = bounds_for_every_vector(law, Direction.ADD)[0]
    try:
        return solve_method(replace(path, at=halved, width=_LOOSE), matched, near)[0]
    except NoAnswerError:
        return near
