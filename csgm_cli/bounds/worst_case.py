"""The law of the likelihood ratio at the worst-case client vector kappa* of one or several releases.

kappa* has as many coordinates as possible at the L-inf clip, and the rest of the L2 norm in one more
(docs/theory.md, "Setting").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from csgm_cli.model.mechanism import Adjacency
from csgm_cli.renyi.law import Coordinates, Law, SampledRounds, merged_law

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Mechanism

#: A mechanism and the standard deviation of its noise.
Release: TypeAlias = tuple["Mechanism", float]


def worst_case_law(releases: Sequence[Release]) -> Law:
    """The law at kappa* of every release."""
    coordinates: list[Coordinates] = []
    sampled: list[SampledRounds] = []
    gaussian: dict[float, int] = {}
    for mechanism, sigma in releases:
        rounds, q = float(mechanism.releases), mechanism.sampling_rate
        if mechanism.is_gaussian:
            unit = mechanism.sensitivity / sigma
            gaussian[unit] = gaussian.get(unit, 0) + mechanism.releases
        elif mechanism.sends_all:  # one "coordinate", the whole vector, is sent with probability q
            coordinates.append(Coordinates(rounds, q, (mechanism.sensitivity / sigma) ** 2, is_largest=True))
        elif q < 1.0:
            sampled.append(SampledRounds(rounds, q, merged_law(_at_clip(mechanism, sigma, 1.0))))
        else:
            coordinates += _at_clip(mechanism, sigma, rounds)
    mu_squared = math.fsum(unit * unit * rounds for unit, rounds in gaussian.items())
    return merged_law(coordinates, mu_squared, sampled)


def _at_clip(mechanism: Mechanism, sigma: float, rounds: float) -> list[Coordinates]:
    """The coordinates of kappa* in so many rounds of one mechanism."""
    count, t = mechanism.coordinates, (mechanism.linf_sensitivity / sigma) ** 2
    whole, largest = float(math.floor(count)), is_elementwise_largest([(mechanism, sigma)])
    found = [Coordinates(rounds * whole, mechanism.gamma, t, largest)]
    if whole < count and (rest := t * (count - whole)) > 0.0:
        found.append(Coordinates(rounds, mechanism.gamma, rest, largest))
    return found


def paper_law(releases: Sequence[Release]) -> Law:
    """`worst_case_law` with k = norm_ratio^2 coordinates at the clip, k real (the paper's Theorem 4.1)."""
    gaussian = [release for release in releases if release[0].is_gaussian]
    rounds: dict[tuple[float, float, float], int] = {}
    for m, sigma in releases:
        if not m.is_gaussian:
            kind = (m.coordinates, m.gamma, (m.linf_sensitivity / sigma) ** 2)
            rounds[kind] = rounds.get(kind, 0) + m.releases
    coordinates = [Coordinates(count * k, gamma, t) for (k, gamma, t), count in rounds.items()]
    return merged_law(coordinates, worst_case_law(gaussian).gaussian)


def is_replace_one(releases: Sequence[Release]) -> bool:
    """Whether neighbouring inputs replace one client's vector; all releases share one adjacency."""
    return releases[0][0].adjacency is Adjacency.REPLACE_ONE


def is_elementwise_largest(releases: Sequence[Release]) -> bool:
    """Whether no client vector exceeds kappa* in any coordinate; then its profile is the exact one."""
    return all(
        m.sends_all or (m.geometry.dim is not None and m.coordinates >= m.geometry.dim) for m, _ in releases
    )


def total_mu(releases: Sequence[Release]) -> float:
    """Total mu of all releases with every coordinate sent (doubled under replace-one)."""
    units: dict[float, int] = {}
    for mechanism, sigma in releases:
        unit = unit_mu(mechanism, sigma)
        units[unit] = units.get(unit, 0) + mechanism.releases
    if len(units) == 1:
        [(unit, rounds)] = units.items()
        return unit * math.sqrt(rounds)
    return math.sqrt(math.fsum(unit * unit * rounds for unit, rounds in units.items()))


def unit_mu(mechanism: Mechanism, sigma: float) -> float:
    """Sensitivity over sigma of one round with every coordinate sent (doubled under replace-one)."""
    doubled = 2.0 if mechanism.adjacency is Adjacency.REPLACE_ONE else 1.0
    return doubled * mechanism.sensitivity / sigma
