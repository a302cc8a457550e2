"""Replace-one from add and remove bounds: the hockey-stick triangle.

    delta(epsilon) <= delta_add(e1) + e^e1 delta_remove(epsilon - e1),   0 <= e1 <= epsilon

(docs/theory.md, Theorem 13). Any e1 is valid, and the best one is close to half of epsilon.
"""

from __future__ import annotations

import math

from csgm_cli.bounds.tight import direction_bound
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.renyi.law import Law
from csgm_cli.roots import lowest

#: Shares e1/epsilon in which the best is sought, how far from a known one, and how closely. What the width
#: leaves in log delta is of second order, below 1e-8.
_LEAST, _MOST, _NEAR, _WIDTH = 0.02, 0.98, 0.02, 3e-6


def triangle(law: Law, epsilon: float, near: float | None = None, *, exact: bool) -> Certificate:
    """The least bound under replace-one; ``near``: a share e1/epsilon close to the best, where one is known."""
    orders: dict[Direction, float | None] = dict.fromkeys(Direction)

    def part(direction: Direction, at: float) -> Certificate:
        found = direction_bound(law, direction, at, orders[direction], exact=exact)
        orders[direction] = found.order or orders[direction]
        return found

    def at(share: float) -> tuple[float, tuple[Certificate, Certificate]]:
        e1 = share * epsilon
        add, remove = part(Direction.ADD, e1), part(Direction.REMOVE, epsilon - e1)
        return _log_sum(add.log_delta, e1 + remove.log_delta), (add, remove)

    low, high = (_LEAST, _MOST) if near is None else (max(near - _NEAR, _LEAST), min(near + _NEAR, _MOST))
    share, _ = lowest(lambda share: at(share)[0], low, high, _WIDTH)
    log_delta, parts = at(share)
    return Certificate(Proof.TRIANGLE, None, epsilon, log_delta, parts=parts)


def _log_sum(a: float, b: float) -> float:
    top = max(a, b)
    return top if math.isinf(top) else top + math.log1p(math.exp(min(a, b) - top)) + 2.0**-51
