"""The tight bound on delta under add-remove: delta <= max(add, remove).

Each direction uses the smallest of its proven bounds. The methods of a direction are ordered by cost, and an
expensive one is evaluated only if it can lower the maximum, so skipping it does not change the result.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.bounds.by_order import RENYI_REMOVE, ByOrder, Method
from csgm_cli.bounds.concentrated import concentrated, exact_profile
from csgm_cli.bounds.matched import matched_add, matched_remove
from csgm_cli.model.certificate import Certificate, Direction, Proof

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: Smaller deltas use closed forms only.
LEAST_LOG_DELTA = math.log(1e-30)
NO_BOUND = Certificate(Proof.RENYI, None, 0.0, math.inf)


MATCHED_ADD = ByOrder(Proof.GAUSSIAN_MATCHED, Direction.ADD, matched_add)
MATCHED_REMOVE = ByOrder(Proof.GAUSSIAN_MATCHED, Direction.REMOVE, matched_remove)

#: The closed forms of each direction; the matched ones include the Renyi bound.
CLOSED_FORMS = {
    Direction.ADD: (MATCHED_ADD,),
    Direction.REMOVE: (RENYI_REMOVE, MATCHED_REMOVE),
}


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


def tight(law: Law, epsilon: float) -> dict[Direction, Certificate]:
    """The best certificate of each direction at epsilon >= 0; the larger delta is the bound."""
    left: dict[Direction, list[Method]] = {
        direction: [*CLOSED_FORMS[direction], AT_WORST_CASE[direction]] for direction in Direction
    }
    best = dict.fromkeys(Direction, NO_BOUND)
    while True:
        larger = max(Direction, key=lambda direction: best[direction].log_delta)
        if not left[larger] or (len(left[larger]) == 1 and best[larger].log_delta < LEAST_LOG_DELTA):
            return best
        found = left[larger].pop(0)(law, epsilon, None)
        if found is not None and found.log_delta < best[larger].log_delta:
            best[larger] = found


def direction_bound(
    law: Law, direction: Direction, epsilon: float, near: float | None, *, by_profile: bool = True
) -> Certificate:
    """The smallest bound in one direction; ``by_profile``: whether to use contours and grids."""
    found = [method(law, epsilon, near) for method in CLOSED_FORMS[direction]]
    best = min(found, key=lambda certificate: certificate.log_delta)
    if best.log_delta < LEAST_LOG_DELTA or not by_profile:
        return best
    worst = AT_WORST_CASE[direction](law, epsilon, None)
    return min([best, *([worst] if worst else [])], key=lambda certificate: certificate.log_delta)
