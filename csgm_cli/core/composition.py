"""Releases of different mechanisms, gathered into what the tight accountant composes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from csgm_cli.core.bounds import unit_mu
from csgm_cli.core.cones import admissible_exponent, posterior
from csgm_cli.core.mixed_law import MixedLaw
from csgm_cli.core.tight import is_exact, worst_law
from csgm_cli.ranges import RANGES

if TYPE_CHECKING:
    from csgm_cli.core.compose import Noisy
    from csgm_cli.model.mechanism import Mechanism
    from csgm_cli.profile.contour import Law

#: Of one mechanism.
_MOST_ROUNDS = int(RANGES["rounds"].high)


@dataclass(frozen=True)
class Kind:
    """All releases of one mechanism at one noise, gamma < 1: ``mechanism`` has the rounds of all."""

    mechanism: Mechanism
    sigma: float

    @cached_property
    def law(self) -> Law:
        """The loss of all its rounds at kappa*."""
        return worst_law(self.mechanism, self.sigma)

    @property
    def is_free(self) -> bool:
        """True where every coordinate can be at the clip: then that is worst for every convex function."""
        return is_exact(self.mechanism)

    @property
    def largest_exponent(self) -> float:
        """What the smallest good sets admit."""
        return (1 - self.law.gamma) / (2 * self.law.gamma)

    def capped(self, reach: float) -> float:
        """The squared mu of the Gaussian with all posteriors at what they are ``reach`` deviations up."""
        return posterior(self.law.gamma, self._half_width(reach)) ** 2 * self.law.total_t

    def exponent_at(self, reach: float) -> float:
        """What the good sets that reach so many deviations admit."""
        return admissible_exponent(self.law.gamma, self._half_width(reach))

    def _half_width(self, reach: float) -> float:
        return math.sqrt(self.law.largest_t) * reach + self.law.largest_t / 2

    @property
    def spread_variance(self) -> float:
        """The log-variance of the loss of infinitely spread vectors."""
        return self.law.gamma**2 * self.law.total_t

    @property
    def growth(self) -> float:
        """As of a `Law`."""
        return self.law.growth


@dataclass(frozen=True)
class Composition:
    """The ``kinds`` of releases that send only at times, all others as a Gaussian of that squared mu."""

    kinds: tuple[Kind, ...]
    gaussian_t: float

    @cached_property
    def law(self) -> MixedLaw:
        """The loss where each release has its kappa*."""
        return MixedLaw(tuple(kind.law for kind in self.kinds), self.gaussian_t)

    @cached_property
    def bound(self) -> tuple[Kind, ...]:
        """Those that kappa* is not the worst vector of, for some convex functions."""
        return tuple(kind for kind in self.kinds if not kind.is_free)

    def with_capped(self, kinds: Sequence[Kind], reach: float) -> Composition:
        """With Gaussian releases in place of some ``kinds``, see `Kind.capped`."""
        rest = tuple(kind for kind in self.kinds if kind not in kinds)
        return Composition(rest, self.gaussian_t + math.fsum([kind.capped(reach) for kind in kinds]))

    @property
    def growth(self) -> float:
        """`Kind.growth` of all together, above the rounding of each mu."""
        return (math.fsum([kind.growth for kind in self.kinds]) + self.gaussian_t) * (1 + 2.0**-48)

    @property
    def alone(self) -> Kind | None:
        """The only kind of release, if there is only one and nothing else."""
        return self.kinds[0] if len(self.kinds) == 1 and self.gaussian_t == 0.0 else None

    @property
    def is_exact(self) -> bool:
        """True where the profile is that of the worst vectors."""
        return not self.bound


#: What equal releases have in common: gamma, one round's coordinates, dim and whether those are all.
_Key: TypeAlias = tuple[float, tuple[tuple[float, float], ...], int, bool]


def composition_of(releases: Sequence[Noisy]) -> Composition:
    """Gather releases under add-remove: equal ones are counted together, in whatever order they come."""
    gathered: dict[_Key, tuple[Noisy, int]] = {}
    squares: dict[float, int] = {}
    for mechanism, sigma in sorted(releases, key=lambda noisy: (noisy[1], noisy[0].geometry.l2_norm)):
        rounds = mechanism.releases
        if mechanism.is_gaussian:
            unit = unit_mu(mechanism, sigma)
            squares[unit] = squares.get(unit, 0) + rounds
            continue
        once = worst_law(mechanism.with_releases(1), sigma)
        key = (once.gamma, once.parts, mechanism.geometry.dim or 0, is_exact(mechanism))
        first, before = gathered.get(key, ((mechanism, sigma), 0))
        gathered[key] = first, before + rounds
    kinds = tuple(kind for key in sorted(gathered) for kind in _kinds_of(*gathered[key]))
    return Composition(kinds, math.fsum(unit * unit * n for unit, n in squares.items()))


def _kinds_of(release: Noisy, rounds: int) -> Iterator[Kind]:
    """As often as that, as one kind if a mechanism may have so many rounds."""
    mechanism, sigma = release
    for done in range(0, rounds, _MOST_ROUNDS):
        yield Kind(mechanism.with_releases(min(rounds - done, _MOST_ROUNDS)), sigma)
