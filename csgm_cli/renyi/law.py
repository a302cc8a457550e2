"""The distribution of the likelihood ratio u of all releases together, at the worst-case client vector.

u = prod_j Y_j, where the factors are independent under the distribution without the client:

    Y = 1 - gamma + gamma exp(x sqrt(t) - t/2),  x ~ N(0, 1),        one coordinate in one round,
    Y = exp(x mu - mu^2/2),                                          a Gaussian release.

    U = 1 - q + q y,                                                 one round with client sampling,

where y is such a product for that round alone. The log-moments of the factors add; see docs/theory.md,
"Mixed releases" and docs/theory.md, "Client sampling".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from csgm_cli.renyi.moment import (
    INFINITE_MOMENT,
    LARGEST_EXPONENT,
    LogMoment,
    gaussian_moment,
    summed,
)

if TYPE_CHECKING:
    from csgm_cli.renyi.complex_log_moment import ComplexArray


@dataclass(frozen=True, order=True)
class Coordinates:
    """``count`` coordinate-rounds, each sent with probability ``gamma``, with t = (clip/sigma)^2 > 0.

    A coordinate-round is one coordinate in one round. ``count`` is an integer (a float, since it may exceed
    2^63), except in the paper's form of the RDP bound. ``is_largest``: no client vector has larger
    coordinates, so kappa* is the worst case for every convex function.
    """

    count: float
    gamma: float
    t: float
    is_largest: bool = False


@dataclass(frozen=True)
class SampledRounds:
    """``count`` rounds, in each of which a client takes part with probability ``rate`` < 1.

    ``inner``: the law of the likelihood ratio of one round if the client takes part.
    """

    count: float
    rate: float
    inner: Law


@dataclass(frozen=True)
class Law:
    """The law of u: ``coordinates`` with gamma < 1, and Gaussian releases with total mu^2 ``gaussian``.

    ``sampled``: rounds with client sampling. If all coordinates are always sent in them, they are
    `Coordinates` with gamma the sampling rate.
    """

    coordinates: tuple[Coordinates, ...]
    gaussian: float = 0.0
    sampled: tuple[SampledRounds, ...] = ()

    @cached_property
    def all_coordinates(self) -> tuple[Coordinates, ...]:
        """The coordinates, those of rounds with client sampling included."""
        return (*self.coordinates, *(c for rounds in self.sampled for c in rounds.inner.coordinates))

    @cached_property
    def largest_t(self) -> float:
        """The largest t of a coordinate; 0 without coordinates."""
        return max((c.t for c in self.all_coordinates), default=0.0)

    @cached_property
    def is_largest(self) -> bool:
        """Whether no client vector has a larger coordinate in any release."""
        return all(c.is_largest for c in self.all_coordinates)

    @cached_property
    def spread_variance(self) -> float:
        """The variance of log u in the Gaussian limit: a vector spread over infinitely many coordinates."""
        parts = [self.gaussian, *(c.gamma**2 * c.count * c.t for c in self.coordinates)]
        return math.fsum([*parts, *(_variance(r, r.inner.spread_variance) for r in self.sampled)])

    @cached_property
    def variance(self) -> float:
        """Approximate variance of u, if it is small."""
        parts = [c.gamma**2 * c.count * math.expm1(min(c.t, 50.0)) for c in self.coordinates]
        return math.fsum([self.gaussian, *parts, *(_variance(r, r.inner.variance) for r in self.sampled)])

    @cached_property
    def remove_variance(self) -> float:
        """V with E[u^-l] <= exp(l (l+1) V/2) for all client vectors and l > 0, rounded up.

        V = sum of gamma^2 count (e^t - 1) (docs/theory.md, "The remove direction"); with client sampling
        q^2 (E[y^2] - 1) for each round, or the V of a round without it.
        """
        parts = [c.gamma**2 * c.count * _expm1_upwards(c.t) for c in self.coordinates]
        parts += [rounds.count * _remove_variance(rounds) for rounds in self.sampled]
        return math.fsum([self.gaussian, *parts]) * (1 + 2.0**-48)

    @cached_property
    def least_loss(self) -> float:
        """The infimum of log u; -inf with a Gaussian release."""
        if self.gaussian > 0.0:
            return -math.inf
        parts = [c.count * math.log1p(-c.gamma) for c in self.coordinates]
        parts += [r.count * math.log1p(r.rate * math.expm1(r.inner.least_loss)) for r in self.sampled]
        return math.fsum(parts)

    @cached_property
    def participation_floor(self) -> float:
        """A lower bound on log u for every client vector: in a round with client sampling U > 1 - q."""
        if self.gaussian > 0.0 or not all(c.is_largest for c in self.coordinates):
            return -math.inf
        parts = [c.count * math.log1p(-c.gamma) for c in self.coordinates]
        return math.fsum([*parts, *(r.count * math.log1p(-r.rate) for r in self.sampled)])

    @cached_property
    def without_sampling(self) -> Law:
        """The law if every client took part in every round; mixtures are smaller in convex order."""
        laws = [(rounds.count, rounds.inner) for rounds in self.sampled]
        kinds = [replace(c, count=count * c.count) for count, law in laws for c in law.coordinates]
        gaussian = [self.gaussian, *(count * law.gaussian for count, law in laws)]
        return merged_law([*self.coordinates, *kinds], math.fsum(gaussian)) if laws else self

    def log_moment(self, order: float) -> LogMoment:
        """Log E[u^order] at a real order above 1 or below 0; infinite beyond the range of float64.

        With client sampling an upper bound, and infinite at orders below 0.
        """
        if order in self._known:
            return self._known[order]
        if not self.coordinates:
            return self.remember(order, [])
        from csgm_cli.renyi.log_moment import mixed_log_moments

        return self.remember(order, mixed_log_moments(order, [(c.gamma, c.t) for c in self.coordinates]))

    def remember(self, order: float, found: Sequence[LogMoment]) -> LogMoment:
        """Sum and cache the log-moment at ``order``; ``found``: those of one coordinate of each kind."""
        terms = [(1.0, gaussian_moment(order, self.gaussian))] if self.gaussian > 0.0 else []
        terms += [(c.count, moment) for c, moment in zip(self.coordinates, found, strict=True)]
        terms += [(rounds.count, _sampled_moment(order, rounds)) for rounds in self.sampled]
        self._known[order] = summed(terms)
        return self._known[order]

    @cached_property
    def _known(self) -> dict[float, LogMoment]:
        """Cache of log-moments by order: the searches of several bounds begin at the same orders."""
        return {}

    def complex_log_moment(self, orders: ComplexArray) -> ComplexArray | None:
        """Log E[u^order] at equidistant complex orders with a common real part; None if too expensive."""
        from csgm_cli.renyi.complex_log_moment import complex_log_moment

        if self.sampled:
            return None
        total = orders * (orders - 1) * (self.gaussian / 2)
        for c in self.coordinates:
            moment = complex_log_moment(orders, c.gamma, c.t)
            if moment is None:
                return None
            total = total + c.count * moment
        return total


def cache_log_moments(laws: Sequence[Law], orders: Iterable[float]) -> None:
    """Compute and cache the log-moments of many laws at these orders, in one batch per order."""
    from csgm_cli.renyi.log_moment import mixed_log_moments

    kinds = [(c.gamma, c.t) for law in laws for c in law.coordinates]
    for order in orders:
        found = iter(mixed_log_moments(order, kinds))
        for law in laws:
            law.remember(order, [next(found) for _ in law.coordinates])


def _sampled_moment(order: float, rounds: SampledRounds) -> LogMoment:
    if order < 1.0:
        return INFINITE_MOMENT
    from csgm_cli.renyi.sampled import sampled_log_moment

    return sampled_log_moment(order, rounds.rate, rounds.inner)


def _variance(rounds: SampledRounds, inner: float) -> float:
    return rounds.count * rounds.rate**2 * math.expm1(min(inner, 50.0))


def _remove_variance(rounds: SampledRounds) -> float:
    second = rounds.inner.log_moment(2.0)
    sampled = math.inf
    if second.value < LARGEST_EXPONENT / 2:
        sampled = rounds.rate**2 * math.expm1(second.value * (1 + second.error)) * (1 + 2.0**-48)
    return min(sampled, rounds.inner.remove_variance)


def merged_law(
    coordinates: Iterable[Coordinates], gaussian: float = 0.0, sampled: Iterable[SampledRounds] = ()
) -> Law:
    """The law of these coordinates, with equal ones merged and sorted so that their order does not matter."""
    counts: dict[tuple[float, float, bool], float] = {}
    for c in coordinates:
        kind = (c.gamma, c.t, c.is_largest)
        counts[kind] = counts.get(kind, 0.0) + c.count
    kinds = [Coordinates(count, *kind) for kind, count in sorted(counts.items())]
    gaussian = math.fsum([gaussian, *(c.count * c.t for c in kinds if c.gamma == 1.0)])
    kinds = [c for c in kinds if c.gamma < 1.0]
    rounds: dict[tuple[float, Law], float] = {}
    for r in sampled:
        rounds[r.rate, r.inner] = rounds.get((r.rate, r.inner), 0.0) + r.count
    merged = [SampledRounds(count, *kind) for kind, count in rounds.items()]
    return Law(
        tuple(kinds), gaussian, tuple(sorted(merged, key=lambda r: (r.rate, r.count, r.inner.coordinates)))
    )


def _expm1_upwards(t: float) -> float:
    """An upper bound on e^t - 1 that includes the rounding of t."""
    return (
        math.expm1(min(t, LARGEST_EXPONENT)) * (1 + 2.0**-52 * (4 * t + 20))
        if t < LARGEST_EXPONENT
        else math.inf
    )
