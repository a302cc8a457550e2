"""The add direction's cone where contours are out of reach: means of test functions from the loss grid.

The same bounds as ``cones.add_cone``; docs/theory.md, "Upper bounds over all vectors" and, on the means,
"The privacy profile": mixtures of hockey-sticks.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.certificate import Certificate, Proof, value_of
from csgm_cli.core.cones import (
    ERROR_SHARE,
    admissible_exponent,
    good_set,
    lattice,
    log_outside,
    over_good_sets,
    touching,
)
from csgm_cli.core.loss_grid import cell, grid_convex, grid_powers, singles_mean
from csgm_cli.core.loss_mixture import Powers
from csgm_cli.core.retrace import elsewhere

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from csgm_cli.core.loss_grid import Mixture
    from csgm_cli.profile.contour import Law

#: Between which log r test functions are looked at where there is no contour that says; the first relative to
#: an epsilon between the bounds that follow.
_SPREADS, _EPSILONS = (1e-4, 60.0), (1e-8, 1e-2)
#: By how much bounds from the loss grid may exceed what they bound, relative.
_GRID_SLACK = 1e-4
#: There no exponents are used that are closer to 0 or 1 than this.
_LEAST_EXPONENT, _ROOM_AT_ONE = 0.01, 0.05
#: Single coordinates are all but all of a bound that differs from theirs by less than this, relative.
_ALL_BUT_ALL = 0.1


def grid_add_cone(law: Law, epsilon: float, enough: float) -> Certificate | None:
    """`add_cone` where contours are out of reach; None where the bracket is, too.

    Not the least where one that is at most ``enough`` was found before.
    """
    middle, _ = cell(epsilon)
    spreads = _grid_spreads(middle)
    weights, log_v = touching(middle, 0.0, spreads)
    found = grid_convex(law, weights, log_v, away=epsilon - middle, enough=enough)
    if found is None:
        return None
    plain, known = _of_grid(found, epsilon, 0.0, None), found.known
    if plain.value <= enough or not plain.value > 0.0:
        return _with_nearly(plain, law, epsilon)

    def with_exponent(z: float) -> Certificate | None:
        exponent, log_error = _clear_of_one(admissible_exponent(law.gamma, z)), log_outside(law, z)
        if exponent < _LEAST_EXPONENT or math.log(exponent) + log_error >= math.log(plain.value):
            return None
        weights, log_v = touching(middle, exponent, spreads)
        costs = tuple((math.exp(log_error) * weights).tolist())
        powers = Powers(exponent, tuple((weights / (1 + exponent)).tolist()), tuple(log_v.tolist()), costs)
        found = grid_powers(law, powers, epsilon - middle, known)
        return None if found is None else _of_grid(found, epsilon, exponent, z)

    best = over_good_sets(law, good_set(law, 10.0 / law.gamma, ERROR_SHARE * plain.value), with_exponent)
    return _with_nearly(plain if best is None else min(plain, best, key=value_of), law, epsilon)


def _with_nearly(cone: Certificate, law: Law, epsilon: float) -> Certificate:
    """And about what it is elsewhere, where single coordinates are all but all of it."""
    alone = partial(one_by_one, cone)
    if not abs(alone(law, epsilon) / cone.value - 1.0) < _ALL_BUT_ALL:
        return cone
    return replace(cone, nearly=elsewhere(alone, law))


def one_by_one(cone: Certificate, law: Law, epsilon: float) -> float:
    """About the bound that the test function of ``cone`` gives: what coordinates do one at a time."""
    exponent, spread = cone.exponent, cone.spread
    assert exponent is not None
    assert spread is not None
    middle, _ = cell(epsilon)
    [weight], [log_v] = touching(middle, exponent, np.array([spread]))
    cost = 0.0 if cone.z is None else math.exp(log_outside(law, cone.z))
    mean = singles_mean(law, float(log_v) + epsilon - middle, exponent)
    return float(weight) * (mean / (1 + exponent) + cost)


def _grid_spreads(epsilon: float) -> NDArray[np.float64]:
    return lattice(_SPREADS[0] * min(max(epsilon, _EPSILONS[0]), _EPSILONS[1]), _SPREADS[1])


def _clear_of_one(exponent: float) -> float:
    """That, or a bit less: next to B = 1 digits cancel. Smaller ones are admissible as well."""
    return 1.0 - _ROOM_AT_ONE if abs(exponent - 1.0) < _ROOM_AT_ONE else exponent


def _of_grid(found: Mixture, epsilon: float, exponent: float, z: float | None) -> Certificate:
    middle, inside = cell(epsilon)
    spread = float(_grid_spreads(middle)[found.index])
    wobble = found.wobble if inside else math.inf
    return Certificate(
        Proof.ADD_CONE,
        found.upper,
        exponent,
        spread,
        z,
        slack=_GRID_SLACK,
        blur=found.blur,
        wobble=wobble,
    )
