"""Bounds from the worst-case client vector: means of convex functions of the class C_B.

C_B are the convex phi with phi''(u) u^(1+B) nondecreasing. For B up to `largest_exponent` the mean of
phi(u) is largest at kappa*, with as many coordinates at the L-inf clip as fit (docs/theory.md,
"Concentrated vectors"). Where kappa* is the elementwise largest vector that holds for every convex
function, and the hockey-stick itself gives the exact profile.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from csgm_cli.bounds.exponent import largest_exponent
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.profile.means import LARGEST_EPSILON, contour_of, grid_of, in_reach, upper_mean
from csgm_cli.roots import lowest

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: The ratios log r, times the saddle point, between which the best is sought, the largest, and how closely in
#: log log r.
_RATIOS, _LARGEST, _WIDTH = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 40.0), 30.0, 1e-3


def concentrated(law: Law, direction: Direction, epsilon: float) -> Certificate | None:
    """The least bound over the functions of C_B for the law's exponent; None where no method reaches.

    Above the largest epsilon of the profile methods, the bound there, for delta falls with epsilon.
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    if not law.coordinates or not in_reach(law, epsilon):
        return None
    exponent = exponent_of(law)
    if direction is Direction.ADD:
        return _add(law, epsilon, exponent)
    if exponent <= 1.0:
        return None
    return _certified(law, ConvexFunction(direction, epsilon, exponent), Proof.CONCENTRATED)


def exact_profile(law: Law, direction: Direction, epsilon: float) -> Certificate | None:
    """The profile where kappa* is the elementwise largest vector; None where no method reaches.

    Above the largest epsilon of the profile methods, that there.
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    if not in_reach(law, epsilon):
        return None
    if direction is Direction.REMOVE and epsilon + law.least_loss >= 0.0:  # no loss is that low
        return Certificate(Proof.PROFILE, direction, epsilon, -math.inf, exponent=math.inf)
    return _certified(law, ConvexFunction(direction, epsilon), Proof.PROFILE)


def exponent_of(law: Law) -> float:
    """The exponent B for all coordinates of a law that need one: the least of those of each gamma."""
    most: dict[float, float] = {}
    for c in law.coordinates:
        if not c.is_largest:
            most[c.gamma] = max(most.get(c.gamma, 0.0), c.t)
    return min(largest_exponent(gamma, t) for gamma, t in most.items())


def _add(law: Law, epsilon: float, exponent: float) -> Certificate | None:
    """At the best ratio r, for any is valid: log r is of the size of 1/z at the saddle point z."""
    contour = contour_of(law, Direction.ADD, epsilon, math.inf)
    if contour is not None and contour.mean(ConvexFunction(Direction.ADD, epsilon)) is None:
        contour = None  # not converged
    grid = None if contour is not None else grid_of(law, Direction.ADD, epsilon, math.inf)
    if contour is None and grid is None:
        return None

    def estimate(function: ConvexFunction) -> float:
        if grid is not None:
            return grid.estimated_mean(function)
        found = contour.mean(function) if contour is not None else None
        return math.inf if found is None else found.log_upper

    def at(place: float) -> float:
        return estimate(ConvexFunction(Direction.ADD, epsilon, exponent, math.exp(place)))

    saddle = grid.tilt - 1.0 if grid is not None else contour.shift if contour is not None else 1.0
    known = [(place, at(place)) for place in (math.log(min(x / saddle, _LARGEST)) for x in _RATIOS)]
    best = min(range(len(known)), key=lambda i: known[i][1])
    around = [known[i] for i in (best, max(best - 1, 0), min(best + 1, len(known) - 1))]
    inside = around if around[1][0] < around[0][0] < around[2][0] else None
    place, value = lowest(at, around[1][0], around[2][0], _WIDTH, inside)
    function = ConvexFunction(Direction.ADD, epsilon, exponent, math.exp(place))
    if exponent > 1.0 and estimate(open_ended := ConvexFunction(Direction.ADD, epsilon, exponent)) < value:
        function = open_ended
    return _certified(law, function, Proof.CONCENTRATED)


def _certified(law: Law, function: ConvexFunction, proof: Proof) -> Certificate | None:
    found = upper_mean(law, function)
    if found is None or not found.log_value < math.inf:
        return None
    return Certificate(
        proof,
        function.direction,
        function.epsilon,
        min(found.log_value, 0.0),
        exponent=function.exponent,
        log_ratio=function.log_ratio,
        step=found.step,
    )
