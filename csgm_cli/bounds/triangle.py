"""Replace-one from add and remove bounds: the hockey-stick triangle.

    delta(epsilon) <= delta_add(e1) + e^e1 delta_remove(epsilon - e1),   0 <= e1 <= epsilon

(docs/theory.md, Theorem 13). Any e1 is valid, and the best one is close to half of epsilon.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from csgm_cli.bounds.tight import direction_bound
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.roots import valley

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: log(e1/e2) is sought up to this, by such steps from 0 or from a known one on, and how closely. What the
#: width leaves in log delta is of second order, below 1e-9.
_FURTHEST, _STRIDE, _WARM_STRIDE, _WIDTH = 8.0, 1.0, 0.1, 3e-6


def triangle(law: Law, epsilon: float, near: float | None = None, *, exact: bool) -> Certificate:
    """The least bound under replace-one; ``near``: a share e1/epsilon close to the best."""
    orders: dict[Direction, float | None] = dict.fromkeys(Direction)

    def part(direction: Direction, at: float) -> Certificate:
        found = direction_bound(law, direction, at, orders[direction], exact=exact)
        orders[direction] = found.order or orders[direction]
        return found

    def at(log_odds: float) -> tuple[float, tuple[Certificate, Certificate]]:
        e1, e2 = epsilon / (1 + math.exp(-log_odds)), epsilon / (1 + math.exp(log_odds))
        add, remove = part(Direction.ADD, e1), part(Direction.REMOVE, e2)
        return _log_sum(add.log_delta, e1 + remove.log_delta), (add, remove)

    start, stride = 0.0, _STRIDE
    if near is not None and 0.0 < near < 1.0:
        start, stride = math.log(near / (1 - near)), _WARM_STRIDE
    log_odds, _ = valley(
        lambda x: at(x)[0], start, stride=stride, low=-_FURTHEST, high=_FURTHEST, width=_WIDTH
    )
    log_delta, parts = at(log_odds)
    return Certificate(Proof.TRIANGLE, None, epsilon, log_delta, parts=parts)


def _log_sum(a: float, b: float) -> float:
    top = max(a, b)
    return top if math.isinf(top) else top + math.log1p(math.exp(min(a, b) - top)) + 2.0**-51
