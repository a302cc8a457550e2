"""The frozen values of a privacy budget and of its check (standard library only).

A *population* is the people whose data is protected. It has a *limit*, an (epsilon, delta) guarantee
under one adjacency, and the *releases* that compose against it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from csgm_cli.errors import NOWHERE, Place, UsageError
from csgm_cli.model.display import Displayed, at_least, at_most
from csgm_cli.model.mechanism import Adjacency, AdjacencyLike, Mechanism, Target
from csgm_cli.model.participation import REPEATED_KEYS
from csgm_cli.model.result import Guarantee  # noqa: TC001 - type hints can be read
from csgm_cli.ranges import check_range, member_named


@dataclass(frozen=True)
class Release:
    """What is published: ``mechanism`` with ``sigma`` (units of ``l2_norm``), if ``enabled``.

    ``owner`` answers for it, ``reason`` is why; both are words for people.
    """

    name: str
    mechanism: Mechanism
    sigma: float
    enabled: bool = True
    owner: str | None = None
    reason: str | None = None
    place: Place = NOWHERE

    def __post_init__(self) -> None:
        check_range("sigma", self.sigma)
        check_range("noise_multiplier", self.noise_multiplier)

    @property
    def noise_multiplier(self) -> float:
        """Sigma / l2_norm."""
        return self.sigma / self.mechanism.geometry.l2_norm

    @property
    def settings(self) -> Mapping[str, object]:
        """What its privacy depends on, by the names that these things have everywhere."""
        mechanism, geometry = self.mechanism, self.mechanism.geometry
        return {
            "mechanism": str(mechanism.name),
            "noise_multiplier": self.noise_multiplier,
            "sigma": self.sigma,
            "gamma": mechanism.gamma,
            "norm_ratio": None if mechanism.sends_all else geometry.norm_ratio,
            "l2_norm": geometry.l2_norm,
            "dim": geometry.dim,
            "rounds": mechanism.releases if mechanism.factorization is None or mechanism.repeated else None,
            "sampling_rate": mechanism.sampling_rate,
            **_stream(mechanism),
            "enabled": self.enabled,
        }


#: What a factorization adds to the settings of a release; None without one.
STREAM_KEYS = ("epochs", "T", "workload", "strategy", "sensitivity")


def _stream(mechanism: Mechanism) -> dict[str, object]:
    factors = mechanism.factorization
    if factors is None:
        return dict.fromkeys((*STREAM_KEYS, *REPEATED_KEYS))
    epochs = mechanism.epochs or 1
    found = (epochs, factors.T, factors.workload, factors.strategy, factors.sensitivity)
    repeated = {} if factors.repeated is None else factors.repeated.named
    return dict(zip(STREAM_KEYS, found, strict=True)) | dict.fromkeys(REPEATED_KEYS) | repeated


@dataclass(frozen=True)
class Population:
    """People, the ``limit`` promised to them and the releases, each of the population's adjacency.

    ``UsageError`` (slug ``mixed-adjacency`` or ``duplicate-release``) for releases that do not go together.
    """

    name: str
    limit: Target
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    releases: tuple[Release, ...] = ()
    place: Place = NOWHERE

    if TYPE_CHECKING:  # the adjacency may be given as text; the field is a member

        def __init__(
            self,
            name: str,
            limit: Target,
            adjacency: AdjacencyLike = Adjacency.ADD_REMOVE,
            releases: tuple[Release, ...] = (),
            place: Place = NOWHERE,
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", member_named(Adjacency, "adjacency", self.adjacency))
        seen: dict[str, Release] = {}
        for release in self.releases:
            if release.mechanism.adjacency is not self.adjacency:
                raise UsageError(
                    "mixed-adjacency",
                    f"{release.place}: release {release.name} has adjacency"
                    f" {release.mechanism.adjacency}, its population {self.name} has {self.adjacency}",
                    "guarantees under different adjacencies do not add up: use one",
                    release.place,
                )
            if release.name in seen:
                raise UsageError(
                    "duplicate-release",
                    f"{release.place}: release {release.name} of population {self.name} is already"
                    f" declared at {seen[release.name].place}",
                    place=release.place,
                )
            seen[release.name] = release

    @property
    def counted(self) -> tuple[Release, ...]:
        """The releases that are enabled."""
        return tuple(release for release in self.releases if release.enabled)


@dataclass(frozen=True)
class ReleaseStanding:
    """One release within its population; None where a question does not arise.

    ``share``: of what is spent, in [0, 1]. ``more_rounds``: how many further rounds fit (with a
    factorization, epochs).
    ``needed_noise_multiplier``: from which the population fits, all else unchanged; None where no noise
    would do, and within the limit.
    """

    release: Release
    share: float | None
    more_rounds: int | None
    needed_noise_multiplier: float | None


@dataclass(frozen=True, repr=False)
class Standing(Displayed):
    """A population against its limit; ``guarantee`` is None where nothing is released."""

    population: Population
    guarantee: Guarantee | None
    releases: tuple[ReleaseStanding, ...]

    @property
    def spent(self) -> float:
        """The epsilon of all releases together, at the limit's delta."""
        return 0.0 if self.guarantee is None else self.guarantee.epsilon

    @property
    def holds(self) -> bool:
        """True where no more is spent than allowed."""
        return self.spent <= self.population.limit.epsilon

    @property
    def remaining(self) -> float:
        """Limit less spent, rounded down; negative where the limit is exceeded."""
        exact = Fraction(self.population.limit.epsilon) - Fraction(self.spent)
        nearest = float(exact)
        return nearest if nearest <= exact else math.nextafter(nearest, -math.inf)

    def _shown(self) -> Mapping[str, object]:
        limit = self.population.limit
        return {
            "population": self.population.name,
            "holds": self.holds,
            "spent": at_least(self.spent),
            "limit": at_most(limit.epsilon),
            "remaining": at_most(self.remaining),
            "delta": at_least(limit.delta),
            "releases": len(self.releases),
        }


@dataclass(frozen=True)
class ReleaseChange:
    """A release that is not what it was; ``before`` or ``after`` is None where it was added or removed.

    ``spends``: by how much the earlier population's epsilon moves with this change alone; None where many
    changes to many releases left it uncomputed.
    """

    before: Release | None
    after: Release | None
    spends: float | None

    @property
    def status(self) -> str:
        """One of added, removed, renamed, changed."""
        if self.before is None or self.after is None:
            return "added" if self.before is None else "removed"
        return "renamed" if self.before.name != self.after.name else "changed"

    @property
    def settings(self) -> dict[str, tuple[object, object]]:
        """What differs: name of the setting to its value before and after."""
        if self.before is None or self.after is None:
            return {}
        old, new = self.before.settings, self.after.settings
        return {key: (old[key], new[key]) for key in new if old[key] != new[key]}


@dataclass(frozen=True)
class PopulationChange:
    """A population then and now, None where it was not there.

    ``recorded`` is what was said to be spent then, ``recomputed`` what this program finds for the same
    releases: they differ only where the program does.
    """

    before: Population | None
    after: Standing | None
    recorded: float | None
    recomputed: float | None
    releases: tuple[ReleaseChange, ...]

    @property
    def by_tool(self) -> float | None:
        """How much the number moved because the program changed; 0 within 1e-9 relative."""
        if self.recorded is None or self.recomputed is None:
            return None
        moved = self.recomputed - self.recorded
        return moved if abs(moved) > 1e-9 * max(self.recorded, self.recomputed) else 0.0

    @property
    def by_budget(self) -> float:
        """How much is spent because the budget changed."""
        return (self.after.spent if self.after else 0.0) - (self.recomputed or 0.0)


@dataclass(frozen=True)
class Changes:
    """The difference in spending between two budgets.

    ``since``: the file that tells of the earlier one; ``csgm_version`` and ``numbers_version``: of the
    program that made the numbers in it, None where it holds none or does not record that.
    """

    since: str
    csgm_version: str | None
    numbers_version: int | None
    populations: tuple[PopulationChange, ...]
