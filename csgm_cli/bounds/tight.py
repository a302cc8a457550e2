"""The tight bound on delta under add-remove: delta <= max(add, remove).

Each direction uses the smallest of its proven bounds. The methods of a direction are ordered by cost, and an
expensive one is evaluated only if it can lower the maximum, so skipping it does not change the result.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.bounds.by_order import RENYI, RENYI_REMOVE, ByOrder, Method
from csgm_cli.bounds.concentrated import concentrated, exact_profile
from csgm_cli.bounds.matched import matched_add, matched_remove
from csgm_cli.bounds.sampled import SampledMatched, mask_revealed, participation_floor
from csgm_cli.model.certificate import Certificate, Direction, Proof

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: Smaller deltas use closed forms only.
LEAST_LOG_DELTA = math.log(1e-30)
NO_BOUND = Certificate(Proof.RENYI, None, 0.0, math.inf)


MATCHED_ADD = ByOrder(Proof.GAUSSIAN_MATCHED, Direction.ADD, matched_add)
MATCHED_REMOVE = ByOrder(Proof.GAUSSIAN_MATCHED, Direction.REMOVE, matched_remove)

_CLOSED_FORMS: dict[Direction, tuple[Method, ...]] = {
    Direction.ADD: (MATCHED_ADD,),
    Direction.REMOVE: (RENYI_REMOVE, MATCHED_REMOVE),
}
_WITH_SAMPLING: dict[Direction, tuple[Method, ...]] = {
    Direction.ADD: (SampledMatched(Direction.ADD),),
    Direction.REMOVE: (participation_floor, RENYI_REMOVE, SampledMatched(Direction.REMOVE)),
}
_QUICK_RENYI = replace(RENYI, few_orders=True)
#: These are seldom better: for sampling rates or gammas close to 1, or few coordinates that are sent.
_SELDOM_WITH_SAMPLING: dict[Direction, tuple[Method, ...]] = {
    Direction.ADD: (_QUICK_RENYI, replace(MATCHED_ADD, unsampled=True), mask_revealed(Direction.ADD)),
    Direction.REMOVE: (
        _QUICK_RENYI,
        replace(MATCHED_REMOVE, unsampled=True),
        mask_revealed(Direction.REMOVE),
    ),
}


def bounds_for_every_vector(law: Law, direction: Direction) -> tuple[Method, ...]:
    """The methods that need no worst-case vector; without client sampling closed forms.

    The matched forms include the Renyi bound, except with client sampling.
    """
    if law.sampled:
        return _WITH_SAMPLING[direction] + _SELDOM_WITH_SAMPLING[direction]
    return _CLOSED_FORMS[direction]


def _at_worst_case(direction: Direction) -> Method:
    def method(law: Law, epsilon: float, _: float | None) -> Certificate | None:
        found = (exact_profile if law.is_largest else concentrated)(law, direction, epsilon)
        if found is None or math.isinf(found.log_delta):
            return found
        # Not below the delta from which only closed forms are used, so that delta decreases in epsilon.
        return replace(found, log_delta=max(found.log_delta, LEAST_LOG_DELTA))

    return method


#: The expensive method of each direction: means of convex functions at the worst-case vector.
AT_WORST_CASE = {direction: _at_worst_case(direction) for direction in Direction}


def bounds_by_grid(law: Law, direction: Direction) -> tuple[Method, ...]:
    """The expensive methods: means at the worst-case vector, and of subsampled Gaussians, on a grid."""
    on_grid = [SampledMatched(direction, on_grid=True)] if law.sampled else []
    return (AT_WORST_CASE[direction], *on_grid)


def tight(law: Law, epsilon: float) -> dict[Direction, Certificate]:
    """The best certificate of each direction at epsilon >= 0; the larger delta is the bound."""
    left = {direction: list(bounds_for_every_vector(law, direction)) for direction in Direction}
    expensive = {direction: list(bounds_by_grid(law, direction)) for direction in Direction}
    best = dict.fromkeys(Direction, NO_BOUND)
    while True:
        larger = max(Direction, key=lambda direction: best[direction].log_delta)
        if not left[larger]:
            if not expensive[larger] or best[larger].log_delta < LEAST_LOG_DELTA:
                return best
            left[larger].append(expensive[larger].pop(0))
        found = left[larger].pop(0)(law, epsilon, None)
        if found is not None and found.log_delta < best[larger].log_delta:
            best[larger] = found


def direction_bound(
    law: Law, direction: Direction, epsilon: float, near: float | None, *, by_profile: bool = True
) -> Certificate:
    """The smallest bound in one direction; ``by_profile``: whether to use contours and grids.

    With client sampling, the slow methods and those that are seldom better are used only if the others fail.
    """
    best = _smallest(law, epsilon, near, _WITH_SAMPLING[direction] if law.sampled else ())
    if best is None:
        best = _smallest(law, epsilon, near, bounds_for_every_vector(law, direction)) or NO_BOUND
    elif law.sampled:
        return best
    if best.log_delta < LEAST_LOG_DELTA or not by_profile:
        return best
    return min(best, _smallest(law, epsilon, None, bounds_by_grid(law, direction)) or best, key=_log_delta)


def _smallest(
    law: Law, epsilon: float, near: float | None, methods: tuple[Method, ...]
) -> Certificate | None:
    found = [method(law, epsilon, near) for method in methods]
    return min(filter(None, found), key=_log_delta, default=None)


def _log_delta(certificate: Certificate) -> float:
    return certificate.log_delta
