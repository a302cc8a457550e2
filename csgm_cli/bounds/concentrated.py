"""Bounds from the worst-case client vector: means of convex functions of the class C_B.

C_B are the convex phi with phi''(u) u^(1+B) nondecreasing. For B up to `largest_exponent` the mean of
phi(u) is largest at kappa*, with as many coordinates at the L-inf clip as fit (docs/theory.md, "The
class C_B"). Where kappa* is the elementwise largest vector that holds for every convex function, and the
hockey-stick itself gives the exact profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from csgm_cli.bounds.exponent import largest_exponent
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.profile.means import contour_of, grid_of, in_reach, upper_mean
from csgm_cli.renyi.law import Law
from csgm_cli.roots import lowest

#: Where log r of the add direction's function is sought, in its logarithm, and how closely.
_LEAST_RATIO, _LARGEST_RATIO, _WIDTH = math.log(1e-3), math.log(30.0), 1e-3


def concentrated(law: Law, direction: Direction, epsilon: float) -> Certificate | None:
    """The least bound over the functions of C_B for the law's exponent; None where no method reaches."""
    if not law.coordinates or not in_reach(law, epsilon):
        return None
    exponent = exponent_of(law)
    if direction is Direction.ADD:
        return _add(law, epsilon, exponent)
    if exponent <= 1.0 or epsilon + law.least_loss >= 0.0:
        return None
    return _certified(law, ConvexFunction(direction, epsilon, exponent), Proof.CONCENTRATED)


def exact_profile(law: Law, direction: Direction, epsilon: float) -> Certificate | None:
    """The profile where kappa* is the elementwise largest vector; None where no method reaches."""
    if not in_reach(law, epsilon):
        return None
    if direction is Direction.REMOVE and epsilon + law.least_loss >= 0.0:  # no loss is that low
        return Certificate(Proof.PROFILE, direction, epsilon, -math.inf, exponent=math.inf)
    return _certified(law, ConvexFunction(direction, epsilon), Proof.PROFILE)


def exponent_of(law: Law) -> float:
    """The exponent B that holds for all coordinates of a law: the least of those of each gamma."""
    largest: dict[float, float] = {}
    for c in law.coordinates:
        largest[c.gamma] = max(largest.get(c.gamma, 0.0), c.t)
    return min(largest_exponent(gamma, t) for gamma, t in largest.items())


def _add(law: Law, epsilon: float, exponent: float) -> Certificate | None:
    """At the best ratio r: any is valid."""
    estimate = _estimator(law, epsilon)
    if estimate is None:
        return None

    def at(log_log_ratio: float) -> float:
        return estimate(ConvexFunction(Direction.ADD, epsilon, exponent, math.exp(log_log_ratio)))

    place, value = lowest(at, _LEAST_RATIO, _LARGEST_RATIO, _WIDTH)
    function = ConvexFunction(Direction.ADD, epsilon, exponent, math.exp(place))
    if exponent > 1.0 and estimate(open_ended := ConvexFunction(Direction.ADD, epsilon, exponent)) < value:
        function = open_ended
    return _certified(law, function, Proof.CONCENTRATED)


def _estimator(law: Law, epsilon: float) -> Callable[[ConvexFunction], float] | None:
    """About the mean of a function of the add direction, cheaply."""
    contour = contour_of(law, Direction.ADD, epsilon, math.inf)
    if contour is None:
        grid = grid_of(law, Direction.ADD, epsilon, math.inf)
        return None if grid is None else grid.estimated_mean

    def by_contour(function: ConvexFunction) -> float:
        found = contour.mean(function)
        return math.inf if found is None else found.upper

    return by_contour


def _certified(law: Law, function: ConvexFunction, proof: Proof) -> Certificate | None:
    found = upper_mean(law, function)
    if found is None or not 0.0 <= found.value < math.inf:
        return None
    log_delta = math.log(found.value) if found.value > 0.0 else -math.inf
    return Certificate(
        proof,
        function.direction,
        function.epsilon,
        min(log_delta, 0.0),
        exponent=function.exponent,
        log_ratio=function.log_ratio,
        step=found.step,
    )
