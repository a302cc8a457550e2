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
    from csgm_cli.renyi.law import Law

    #: The law of releases, at their worst-case vector or in the paper's form.
    LawOf = Callable[[Sequence[Release]], Law]

#: Logarithms of the epsilons between which answers are sought.
_LEAST_EPSILON, _MOST_EPSILON = math.log(1e-12), math.log(1e12)


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


def excess_of(path: Path, method: Method, law_of: LawOf = worst_case_law) -> Callable[[float], float]:
    """Log of the method's delta over the target's, at x; each order is sought from the one before."""
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
    excess = excess_of(path, method, law_of)
    return safe_end(excess, near, slope=path.slope, width=path.width, floor=path.floor, ceiling=path.ceiling)
