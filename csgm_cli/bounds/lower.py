"""Lower bounds on delta, from explicit pairs of neighbouring inputs; no analysis can prove a smaller delta.

See docs/theory.md, "Lower bounds".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from csgm_cli import gaussian
from csgm_cli.bounds.worst_case import Release, is_elementwise_largest, is_replace_one, worst_case_law
from csgm_cli.profile.means import log_lower_hockey_stick, log_lower_opposite, profile_supported
from csgm_cli.renyi.law import Coordinates, Law, SampledRounds, merged_law

#: Upper bound on the relative amount by which `csgm_cli.gaussian` rounds delta up.
_ROUNDED_UP = 1e-9


def lower_log_delta(releases: Sequence[Release], epsilon: float, *, by_profile: bool = True) -> float:
    """Log of a lower bound on delta, from kappa* and from the vector with all coordinates equal.

    ``by_profile``: whether to use contours and grids; without them only the Gaussian limit is used.

    Under replace-one the pairs are (x, 0) and (x, -x); for spread vectors (x, -x) tends to a Gaussian with
    twice the mu.
    """
    law, replaced = worst_case_law(releases), is_replace_one(releases)
    found = [-math.inf]
    if by_profile and replaced and law.all_coordinates and profile_supported(law, epsilon):
        found.append(log_lower_opposite(law, epsilon))
    # If (kappa*, -kappa*) gave a bound, it is the better pair.
    if math.isinf(found[-1]) and (by_profile or not law.all_coordinates):
        found.append(_at(law, epsilon))
    if not is_elementwise_largest(releases):
        spread = spread_law(releases)
        if replaced and not spread.all_coordinates:
            spread = Law((), 4 * spread.gaussian)
        if by_profile or not spread.all_coordinates:
            by_grid = not law.sampled or math.isinf(max(found))  # kappa* is nearly always the larger one
            found.append(_at(spread, epsilon, by_grid=by_grid))
    return max(found)


def spread_law(releases: Sequence[Release]) -> Law:
    """The law at the vector with all coordinates equal; without ``dim`` its Gaussian limit."""
    coordinates: list[Coordinates] = []
    sampled: list[SampledRounds] = []
    for mechanism, sigma in releases:
        unit, dim = (mechanism.sensitivity / sigma) ** 2, mechanism.geometry.dim
        rounds, q = float(mechanism.releases), mechanism.sampling_rate
        if mechanism.sends_all or dim is None:
            coordinates.append(Coordinates(rounds, q, mechanism.gamma**2 * unit))
        elif q < 1.0:
            inner = Law((Coordinates(float(dim), mechanism.gamma, unit / dim),))
            sampled.append(SampledRounds(rounds, q, inner))
        else:
            coordinates.append(Coordinates(float(dim) * rounds, mechanism.gamma, unit / dim))
    return merged_law(coordinates, sampled=sampled)


def _at(law: Law, epsilon: float, *, by_grid: bool = True) -> float:
    if not law.all_coordinates:
        return gaussian.log_delta(math.sqrt(law.gaussian), epsilon) - _ROUNDED_UP
    if not profile_supported(law, epsilon):
        return -math.inf
    return log_lower_hockey_stick(law, epsilon, by_grid=by_grid)
