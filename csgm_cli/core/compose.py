"""Releases of different mechanisms against the same people: what they spend together.

docs/theory.md, "Composition" and "Mixed releases". Log-moments of independent noise add at every
order, and one order is chosen for the sum; the squares of Gaussian mus add; and under add-remove the
tight accountant bounds the profile of the whole. Each is proven, and the smallest counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from csgm_cli.core.bounds import (
    OF_THE_PROFILE,
    ORACLE_DIGITS,
    OUT_OF_REACH,
    Spent,
    above,
    bounds_by,
    gaussian_epsilon,
    least_epsilon,
    looks_at_profile,
    missed,
    renyi_epsilon,
    unit_mu,
)
from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism import Accountant, Bound, Mechanism
from csgm_cli.renyi.conversion import Converted, best_epsilon, best_epsilon_from, first_order
from csgm_cli.renyi.curves import Curve, curve_moments, renyi_curve
from csgm_cli.renyi.moment import LogMoment, summed

#: A mechanism and the standard deviation of its noise.
Noisy: TypeAlias = tuple[Mechanism, float]


@dataclass(frozen=True)
class MixedCurve:
    """The Renyi curve of ``rounds[i]`` releases of each ``curves[i]``, which are for noise 1.

    Whoever composes the same releases in another order, or one in two parts, gets the same curve.
    """

    curves: tuple[Curve, ...]
    rounds: tuple[int, ...]
    _seen: dict[float, list[LogMoment]] = field(default_factory=dict, compare=False, repr=False)
    _sums: dict[float, LogMoment] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def integer_orders(self) -> bool:
        """True where only the orders 2, 3, 4, ... are admitted."""
        return self.curves[0].integer_orders

    def moments(self, order: float) -> list[LogMoment]:
        """The moment of one round of each curve."""
        if order not in self._seen:
            self._seen[order] = curve_moments(self.curves, order, 1.0)
        return self._seen[order]

    def known_orders(self) -> list[float]:
        """The orders whose moments were looked up and are finite."""
        return [order for order in self._seen if math.isfinite(self.moment(order).value)]

    def moment(self, order: float, sigma: float = 1.0) -> LogMoment:
        """The moment of all rounds; ``sigma`` is 1."""
        assert sigma == 1.0  # the curves carry their own noise
        if order not in self._sums:
            terms = [(n, one) for n, one in zip(self.rounds, self.moments(order), strict=True) if n]
            self._sums[order] = summed(terms)
        return self._sums[order]

    def without(self, unit: Curve, rounds: int) -> MixedCurve:
        """The same less that many rounds of one of its curves; both look moments up in one place."""
        left = [n - rounds if curve == unit else n for curve, n in zip(self.curves, self.rounds, strict=True)]
        return replace(self, rounds=tuple(left))

    def best_order(self, log_delta: float) -> float:
        """A first guess at the order that converts best: the variances of the Gaussian limits add."""
        starts = [
            first_order(_scaled(curve, n), 1.0, -log_delta) - 1
            for curve, n in zip(self.curves, self.rounds, strict=True)
            if n
        ]
        return 1 + 1 / math.sqrt(math.fsum(gap**-2 for gap in starts))


def unit_curve(mechanism: Mechanism, sigma: float, bound: Bound) -> Curve:
    """The Renyi curve of one round, with the clips in units of the noise."""
    curve = renyi_curve(mechanism.with_releases(1), bound)
    return replace(curve, parts=tuple((count, clip / sigma) for count, clip in curve.parts))


def mixed_curve(releases: Sequence[Noisy], bound: Bound) -> MixedCurve:
    """The curve of all releases; equal ones are counted together."""
    rounds: dict[Curve, int] = {}
    for mechanism, sigma in releases:
        unit = unit_curve(mechanism, sigma, bound)
        rounds[unit] = rounds.get(unit, 0) + mechanism.releases
    curves = tuple(sorted(rounds, key=lambda curve: (curve.gamma, curve.parts)))
    return MixedCurve(curves, tuple(rounds[curve] for curve in curves))


def _mixed_mu(releases: Iterable[Noisy]) -> float:
    """The mu of all releases with every coordinate sent: squares add, equal ones counted together."""
    rounds: dict[float, int] = {}
    for mechanism, sigma in releases:
        unit = unit_mu(mechanism, sigma)
        rounds[unit] = rounds.get(unit, 0) + mechanism.releases
    if len(rounds) == 1:
        ((unit, n),) = rounds.items()
        return unit * math.sqrt(n)
    return math.sqrt(math.fsum(unit * unit * n for unit, n in rounds.items()))


def bounds_of_all(releases: Sequence[Noisy], accountant: Accountant) -> tuple[Bound, ...]:
    """The bounds on the composition of which ``accountant`` takes the smallest.

    Raises:
        UsageError: the accountant has no bound for one of the mechanisms, or none on a composition.
    """
    all_gaussian = all(mechanism.is_gaussian for mechanism, _ in releases)
    if accountant is Accountant.EXACT and not all_gaussian:
        raise UsageError(
            "no-exact-accountant",
            "accountant exact needs gaussian releases alone",
            "use auto, tight or rdp",
        )
    return bounds_by(accountant, all_gaussian=all_gaussian)


def looks_at_profile_of(releases: Sequence[Noisy], accountant: Accountant) -> bool:
    """True where the accountant also takes the tight bounds on the whole."""
    return any(looks_at_profile(mechanism, accountant) for mechanism, _ in releases)


def composed_epsilon(
    releases: Sequence[Noisy], accountant: Accountant, delta: float, *, with_lower: bool = True
) -> Spent:
    """The smallest epsilon that the accountant's bounds prove for all releases together, at least one.

    One mechanism alone spends exactly what `csgm_cli.core.bounds.least_epsilon` says. ``with_lower``:
    whether to solve for what kappa* shows as well.
    """
    bounds = bounds_of_all(releases, accountant)
    best = min((spent_by(releases, bound, delta) for bound in bounds), key=lambda spent: spent.value)
    if not looks_at_profile_of(releases, accountant):
        return replace(best, fell_back=max(missed(mechanism, accountant) for mechanism, _ in releases))
    from csgm_cli.core.composition import composition_of
    from csgm_cli.core.mixed_solve import mixed_epsilon

    together = composition_of(releases)
    if (alone := together.alone) is not None:
        return least_epsilon(alone.mechanism, accountant, alone.sigma, delta, with_lower=with_lower)
    found = mixed_epsilon(together, delta, best.value, with_lower=with_lower)
    if found.upper < best.value:
        return Spent(found.upper, None, found.bound, lower=found.lower, bracketed=found.bracketed)
    return replace(best, lower=found.lower, fell_back="" if found.is_known else OUT_OF_REACH)


def spent_by(releases: Sequence[Noisy], bound: Bound, delta: float) -> Spent:
    """Epsilon >= 0 that ``bound`` proves for all releases together."""

    def precisely(order: float | None) -> float:
        from csgm_cli.core import compose_oracle

        return above(compose_oracle.epsilon(releases, delta, order, bound, ORACLE_DIGITS))

    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        return gaussian_epsilon(_mixed_mu(releases), delta, bound, precisely)
    return renyi_epsilon(best_of(mixed_curve(releases, bound), math.log(delta)), bound, precisely)


def best_of(curve: MixedCurve, log_delta: float) -> Converted:
    """The smallest epsilon over the orders of a composition."""
    if len(curve.curves) == 1:  # as that mechanism alone, to the last digit
        return best_epsilon(_scaled(curve.curves[0], curve.rounds[0]), 1.0, log_delta)
    return best_epsilon_from(curve, 1.0, log_delta, curve.best_order(log_delta))


def _scaled(unit: Curve, rounds: int) -> Curve:
    return replace(unit, parts=tuple((float(rounds) * count, clip) for count, clip in unit.parts))


def shares(releases: Sequence[Noisy], spent: Spent, delta: float) -> list[float]:
    """Each release's part of what is spent; they add up to 1.

    Of the Renyi divergence at the order that decided, or that is best where a tight bound did; of the
    squared mu where none does (which for Gaussian mechanisms is the same at any order).
    """
    order, bound = spent.order, spent.bound
    if bound in OF_THE_PROFILE:
        bound = Bound.RDP
        order = best_of(mixed_curve(releases, bound), math.log(delta)).order
    if order is None:
        parts = [m.releases * unit_mu(m, sigma) ** 2 for m, sigma in releases]
    else:
        curves = [unit_curve(m, sigma, bound) for m, sigma in releases]
        moments = curve_moments(curves, order, 1.0)
        parts = [m.releases * moment.value for (m, _), moment in zip(releases, moments, strict=True)]
    total = math.fsum(parts)
    return [part / total for part in parts]
