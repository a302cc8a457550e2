"""Bounds from the worst-case client vector kappa*: means of convex test functions of the class C_B.

C_B is the set of convex phi with phi''(u) u^(1+B) nondecreasing. For B up to `largest_exponent` the mean of
phi(u) is largest at kappa*, which has as many coordinates as possible at the L-inf clip (docs/theory.md,
"Concentrated vectors"). If kappa* is the elementwise largest vector, this holds for every convex function,
and the hockey-stick function itself gives the exact profile.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from csgm_cli.bounds.exponent import largest_exponent
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.profile.means import LARGEST_EPSILON, contour_of, grid_of, profile_supported, upper_mean
from csgm_cli.roots import brent_minimum

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: Initial values of log r times the saddle point, the largest log r, and the tolerance in log log r.
_RATIOS, _LARGEST, _WIDTH = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 40.0), 30.0, 1e-3
_SMALL_RATIOS = (0.003, 0.01, 0.03, 0.1)


def concentrated(law: Law, direction: Direction, epsilon: float) -> Certificate | None:
    """The smallest bound over test functions in C_B, B the law's exponent; None if not computable.

    Above the largest epsilon for which profiles are computed, the bound at that epsilon: delta decreases.
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    if not law.all_coordinates or not profile_supported(law, epsilon):
        return None
    exponent = exponent_of(law)
    if direction is Direction.ADD:
        return _add(law, epsilon, exponent)
    if exponent <= 1.0:
        return None
    return _certified(law, ConvexFunction(direction, epsilon, exponent), Proof.CONCENTRATED)


def exact_profile(law: Law, direction: Direction, epsilon: float) -> Certificate | None:
    """The exact profile if kappa* is the elementwise largest vector; None if not computable.

    Above the largest epsilon for which profiles are computed, an upper bound: the profile at that epsilon.
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    if not profile_supported(law, epsilon):
        return None
    if direction is Direction.REMOVE and epsilon + law.least_loss >= 0.0:  # the loss is at most epsilon
        return Certificate(Proof.PROFILE, direction, epsilon, -math.inf, exponent=math.inf)
    return _certified(law, ConvexFunction(direction, epsilon), Proof.PROFILE)


def exponent_of(law: Law) -> float:
    """A proven exponent B for a law: the smallest over its coordinates, except those with ``is_largest``.

    Client sampling keeps it (docs/theory.md, "Client sampling").
    """
    most: dict[float, float] = {}
    for c in law.all_coordinates:
        if not c.is_largest:
            most[c.gamma] = max(most.get(c.gamma, 0.0), c.t)
    return min(largest_exponent(gamma, t) for gamma, t in most.items())


def _add(law: Law, epsilon: float, exponent: float) -> Certificate | None:
    """The bound at the best ratio r (any r is valid); log r is of order 1/z at the saddle point z."""
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
    if min(value for _, value in known) == math.inf:  # their thresholds are among the outcomes left out
        known = [(place, at(place)) for place in (math.log(x / saddle) for x in _SMALL_RATIOS)]
    best = min(range(len(known)), key=lambda i: known[i][1])
    around = [known[i] for i in (best, max(best - 1, 0), min(best + 1, len(known) - 1))]
    inside = around if around[1][0] < around[0][0] < around[2][0] else None
    found = brent_minimum(at, around[1][0], around[2][0], _WIDTH, inside)
    place, value = min(found, known[best], key=lambda pair: pair[1])
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
