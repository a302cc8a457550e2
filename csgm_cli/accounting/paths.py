"""Root finding along one parameter, noise or epsilon, with which every bound on delta falls."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.bounds.worst_case import Release, worst_case_law
from csgm_cli.roots import safe_end

if TYPE_CHECKING:
    from csgm_cli.bounds.by_order import Method
    from csgm_cli.model.certificate import Certificate
    from csgm_cli.renyi.law import Law

    #: The law of releases, at their worst-case vector or in the paper's form.
    LawOf = Callable[[Sequence[Release]], Law]

#: Logarithms of the epsilons between which answers are sought.
_LEAST_EPSILON, _MOST_EPSILON = math.log(1e-12), math.log(1e60)


@dataclass(frozen=True)
class Path:
    """Releases and epsilon as functions of one parameter x with which every bound on delta falls.

    ``width``: of the bracket around the answer, in x. ``slope``: about -d log delta/dx.
    ``law``: where that does not change along the path, and x is log epsilon.
    """

    at: Callable[[float], tuple[Sequence[Release], float]]
    log_delta: float
    slope: float
    width: float
    floor: float
    ceiling: float
    law: Law | None = None


def sigma_path(release: Release, others: Sequence[Release], epsilon: float, log_delta: float) -> Path:
    """X = log sigma of one release beside others."""
    mechanism, _ = release

    def at(x: float) -> tuple[Sequence[Release], float]:
        return [(mechanism, math.exp(x)), *others], epsilon

    scale = math.log(mechanism.geometry.l2_norm)
    return Path(at, log_delta, 2.0 * abs(log_delta) + 1.0, 3e-13, scale - 36.0, scale + 42.0)


def epsilon_path(releases: Sequence[Release], log_delta: float) -> Path:
    """X = log epsilon at given noise."""
    slope = 2.0 * abs(log_delta) + 1.0
    law = worst_case_law(releases)
    return Path(
        lambda x: (releases, math.exp(x)), log_delta, slope, 1e-13, _LEAST_EPSILON, _MOST_EPSILON, law
    )


class Excess:
    """log of a method's delta over the target's along a path; what was computed is remembered."""

    def __init__(self, path: Path, method: Method, law_of: LawOf = worst_case_law) -> None:
        self.path, self.method, self.law_of = path, method, law_of
        self._seen: dict[float, Certificate | None] = {}
        self._hint: float | None = None

    def __call__(self, x: float) -> float:
        """The excess at x; infinite where the method does not reach."""
        found = self.certificate(x)
        return math.inf if found is None else found.log_delta - self.path.log_delta

    def certificate(self, x: float) -> Certificate | None:
        """What the method proves at x; each search begins where the one before ended."""
        if x not in self._seen:
            releases, epsilon = self.path.at(x)
            found = self.method(self.law_of(releases), epsilon, self._hint)
            if found is not None and found.log_delta < 0.0:
                self._hint = found.hint or self._hint
            self._seen[x] = found
        return self._seen[x]


def least_by(
    path: Path, method: Method, near: float, law_of: LawOf = worst_case_law
) -> tuple[float, Certificate]:
    """The least x at which one method proves the target, from a guess, and the proof there.

    Raises:
        NoAnswerError: it proves it at no x in range.
    """
    excess = Excess(path, method, law_of)
    x = safe_end(excess, near, slope=path.slope, width=path.width, floor=path.floor, ceiling=path.ceiling)
    found = excess.certificate(x)
    assert found is not None  # its excess is at most 0
    return x, found
