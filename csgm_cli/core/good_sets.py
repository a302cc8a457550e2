"""Good sets and exponents of test functions that releases of different gamma share.

Each release has its own good set for one exponent (docs/theory.md, "Mixed releases by the profile").
Exponents are from one lattice.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from csgm_cli.core.cones import ERROR_SHARE, admissible_exponent, least_downhill, log_outside

if TYPE_CHECKING:
    from csgm_cli.core.certificate import Certificate
    from csgm_cli.profile.contour import Law

#: Good sets reach at least so many standard deviations, see "Monotone" in docs/theory.md.
_LEAST_REACH = math.sqrt(2.0)
#: Exponents are powers of 2 by 1/FINE, so many of them.
FINE, EXPONENTS = 32, 320


@lru_cache(maxsize=1 << 14)
def widest(gamma: float, exponent: float) -> float:
    """The half width of the largest good set that admits the ``exponent`` B > 0, or -inf if none does."""
    if admissible_exponent(gamma, 0.0) < exponent:
        return -math.inf
    low, high = 0.0, 1.0
    while admissible_exponent(gamma, high) >= exponent:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if admissible_exponent(gamma, middle) >= exponent else (low, middle)
    return low


def narrowest(gamma: float, exponent: float) -> float:
    """The half width of the good set with 1/(2 r_min) - 1/2 = ``exponent``, r_min the posterior at -z."""
    return math.log(2 * exponent) + math.log(gamma) - math.log1p(-gamma)


def reach_of(law: Law, z: float) -> float:
    """How many standard deviations of the largest coordinate the good set reaches."""
    s = math.sqrt(law.largest_t)
    return (z - law.largest_t / 2) / s


def log_outside_all(laws: Sequence[Law], exponent: float) -> float:
    """Log of what pairs outside the widest good sets contribute per weight; infinite where one is narrow."""
    return _log_sum([_log_outside(law, widest(law.gamma, exponent)) for law in laws])


def log_outside_all_below(laws: Sequence[Law], exponent: float) -> float:
    """The same for the concave twin, where the weight of a pair is at most (1 - gamma)^(-2 exponent)."""
    return _log_sum(
        [
            _log_outside(law, narrowest(law.gamma, exponent)) - 2 * exponent * math.log1p(-law.gamma)
            for law in laws
        ]
    )


def _log_outside(law: Law, z: float) -> float:
    return log_outside(law, z) if reach_of(law, z) >= _LEAST_REACH else math.inf


def _log_sum(logs: Sequence[float]) -> float:
    top = max(logs, default=-math.inf)
    return top if math.isinf(top) else top + math.log(math.fsum(math.exp(log - top) for log in logs))


def exponents_below(largest: float) -> list[float]:
    """The lattice of exponents, from ``largest`` downwards."""
    top = math.floor(FINE * math.log2(largest))
    return [2.0 ** (j / FINE) for j in range(top, top - EXPONENTS, -1)]


def first_small(exponents: Sequence[float], log_error: Callable[[float], float], delta: float) -> int:
    """Where errors become small, or the last of them."""
    goal = math.log(ERROR_SHARE * delta)
    first = bisect.bisect_left(exponents, True, key=lambda b: log_error(b) <= goal)  # noqa: FBT003 - sought
    return min(first, len(exponents) - 1)


def least_over(
    exponents: Sequence[float], first: int, bound: Callable[[float], Certificate | None]
) -> Certificate | None:
    """The least bound over the exponents, downhill from one of them."""

    @cache
    def found(j: int) -> Certificate | None:
        return bound(exponents[j])

    return least_downhill(found, first, len(exponents) - 1)
