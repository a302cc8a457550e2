"""The tight bound on delta under add-remove: of each direction the least of its proven bounds.

    delta <= max(add, remove)

The methods of a direction are in the order of their cost. A dear one is tried only where it can lower the
larger of the two, so that the value does not depend on what was tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from csgm_cli.bounds.concentrated import concentrated, exact_profile
from csgm_cli.bounds.matched import matched
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.renyi.conversion import RenyiCurve, best_log_delta
from csgm_cli.renyi.law import Law

#: A bound at (law, epsilon), and an order to begin at; None where the method does not reach.
Method: TypeAlias = Callable[[Law, float, float | None], Certificate | None]

NO_BOUND = Certificate(Proof.RENYI, None, 0.0, math.inf)


def add_methods(*, exact: bool) -> tuple[Method, ...]:
    """The proven bounds on the add direction; ``exact``: kappa* is the elementwise largest vector."""
    return (_matched(Direction.ADD), _at_worst_case(Direction.ADD, exact=exact))


def remove_methods(*, exact: bool) -> tuple[Method, ...]:
    """The same of the remove direction."""
    by_renyi = (renyi_remove, _matched(Direction.REMOVE), renyi)
    return (*by_renyi, _at_worst_case(Direction.REMOVE, exact=exact))


def methods_of(*, exact: bool) -> dict[Direction, tuple[Method, ...]]:
    """The methods of both directions."""
    return {Direction.ADD: add_methods(exact=exact), Direction.REMOVE: remove_methods(exact=exact)}


def tight(law: Law, epsilon: float, *, exact: bool) -> dict[Direction, Certificate]:
    """The best certificate of each direction, epsilon >= 0; the larger one is the bound."""
    left = {direction: list(methods) for direction, methods in methods_of(exact=exact).items()}
    best = dict.fromkeys(Direction, NO_BOUND)
    while True:
        larger = max(Direction, key=lambda direction: best[direction].log_delta)
        if not left[larger]:
            return best
        found = left[larger].pop(0)(law, epsilon, None)
        if found is not None and found.log_delta < best[larger].log_delta:
            best[larger] = found


def larger_of(best: dict[Direction, Certificate]) -> Certificate:
    """The certificate that decides."""
    return max(best.values(), key=lambda certificate: certificate.log_delta)


def direction_bound(
    law: Law, direction: Direction, epsilon: float, start: float | None, *, exact: bool
) -> Certificate:
    """The least bound on one direction by the matched bound, the remove direction's and the worst case."""
    methods = [method for method in methods_of(exact=exact)[direction] if method is not renyi]
    found = [method(law, epsilon, start) for method in methods]
    return min((f for f in found if f is not None), key=lambda certificate: certificate.log_delta)


def renyi(law: Law, epsilon: float, start: float | None) -> Certificate:
    """The Renyi bound, which holds in both directions."""
    found = best_log_delta(RenyiCurve(law), epsilon, start)
    return Certificate(Proof.RENYI, None, epsilon, found.log_delta, order=found.order)


def renyi_remove(law: Law, epsilon: float, _: float | None) -> Certificate:
    """The remove direction's Renyi bound, of a Gaussian with the law's ``remove_variance``."""
    found = best_log_delta(RenyiCurve(Law((), law.remove_variance)), epsilon)
    return Certificate(Proof.RENYI_REMOVE, Direction.REMOVE, epsilon, found.log_delta, order=found.order)


def _matched(direction: Direction) -> Method:
    return lambda law, epsilon, start: matched(law, direction, epsilon, start)


def _at_worst_case(direction: Direction, *, exact: bool) -> Method:
    method = exact_profile if exact else concentrated
    return lambda law, epsilon, _: method(law, direction, epsilon)
