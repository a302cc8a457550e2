"""The tight bound on delta under add-remove: of each direction the least of its proven bounds.

    delta <= max(add, remove)

The methods of a direction are in the order of their cost. A dear one is tried only where it can lower the
larger of the two, so that the value does not depend on what was tried.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from csgm_cli.bounds.by_order import RENYI_REMOVE, ByOrder, Method
from csgm_cli.bounds.concentrated import concentrated, exact_profile
from csgm_cli.bounds.matched import matched_add, matched_remove
from csgm_cli.model.certificate import Certificate, Direction, Proof

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: Smaller deltas are left to the closed forms.
LEAST_LOG_DELTA = math.log(1e-30)
NO_BOUND = Certificate(Proof.RENYI, None, 0.0, math.inf)


MATCHED_ADD = ByOrder(Proof.GAUSSIAN_MATCHED, Direction.ADD, matched_add)
MATCHED_REMOVE = ByOrder(Proof.GAUSSIAN_MATCHED, Direction.REMOVE, matched_remove)

#: The closed forms of each direction; the matched ones take the Renyi bound in.
CLOSED_FORMS = {
    Direction.ADD: (MATCHED_ADD,),
    Direction.REMOVE: (RENYI_REMOVE, MATCHED_REMOVE),
}


def _at_worst_case(direction: Direction) -> Method:
    def method(law: Law, epsilon: float, _: float | None) -> Certificate | None:
        return (exact_profile if law.is_largest else concentrated)(law, direction, epsilon)

    return method


#: The dear method of each direction.
AT_WORST_CASE = {direction: _at_worst_case(direction) for direction in Direction}


def tight(law: Law, epsilon: float) -> dict[Direction, Certificate]:
    """The best certificate of each direction, epsilon >= 0; the larger one is the bound."""
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
    """The least bound on one direction by all its methods; ``by_profile``: contours and grids among them."""
    found = [method(law, epsilon, near) for method in CLOSED_FORMS[direction]]
    best = min(found, key=lambda certificate: certificate.log_delta)
    if best.log_delta < LEAST_LOG_DELTA or not by_profile:
        return best
    worst = AT_WORST_CASE[direction](law, epsilon, None)
    return min([best, *([worst] if worst else [])], key=lambda certificate: certificate.log_delta)
