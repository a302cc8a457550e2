"""The distribution of the likelihood ratio u of all releases together, at the worst-case client vector.

u = prod_j Y_j, where the factors are independent under the distribution without the client:

    Y = 1 - gamma + gamma exp(x sqrt(t) - t/2),  x ~ N(0, 1),        one coordinate in one round,
    Y = exp(x mu - mu^2/2),                                          a Gaussian release.

The log-moments of the factors add (docs/theory.md, "Mixed releases").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from csgm_cli.renyi.moment import LARGEST_EXPONENT, LogMoment, gaussian_moment, summed

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
class Law:
    """The law of u: ``coordinates`` with gamma < 1, and Gaussian releases with total mu^2 ``gaussian``."""

    coordinates: tuple[Coordinates, ...]
    gaussian: float = 0.0

    @cached_property
    def largest_t(self) -> float:
        """The largest t of a coordinate; 0 without coordinates."""
        return max((c.t for c in self.coordinates), default=0.0)

    @cached_property
    def is_largest(self) -> bool:
        """Whether no client vector has a larger coordinate in any release."""
        return all(c.is_largest for c in self.coordinates)

    @cached_property
    def spread_variance(self) -> float:
        """The variance of log u in the Gaussian limit: a vector spread over infinitely many coordinates."""
        return math.fsum([self.gaussian, *(c.gamma**2 * c.count * c.t for c in self.coordinates)])

    @cached_property
    def variance(self) -> float:
        """Approximate variance of u, if it is small."""
        return math.fsum(
            [self.gaussian, *(c.gamma**2 * c.count * math.expm1(min(c.t, 50.0)) for c in self.coordinates)]
        )

    @cached_property
    def remove_variance(self) -> float:
        """V with E[u^-l] <= exp(l (l+1) V/2) for all client vectors and l > 0, rounded up.

        V = sum of gamma^2 count (e^t - 1) (docs/theory.md, "The remove direction").
        """
        total = math.fsum(
            [self.gaussian, *(c.gamma**2 * c.count * _expm1_upwards(c.t) for c in self.coordinates)]
        )
        return total * (1 + 2.0**-48)

    @cached_property
    def least_loss(self) -> float:
        """The infimum of log u; -inf with a Gaussian release."""
        if self.gaussian > 0.0:
            return -math.inf
        return math.fsum(c.count * math.log1p(-c.gamma) for c in self.coordinates)

    def log_moment(self, order: float) -> LogMoment:
        """Log E[u^order] at a real order above 1 or below 0; infinite beyond the range of float64."""
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
        self._known[order] = summed(terms)
        return self._known[order]

    @cached_property
    def _known(self) -> dict[float, LogMoment]:
        """Cache of log-moments by order: the searches of several bounds begin at the same orders."""
        return {}

    def complex_log_moment(self, orders: ComplexArray) -> ComplexArray | None:
        """Log E[u^order] at equidistant complex orders with a common real part; None if too expensive."""
        from csgm_cli.renyi.complex_log_moment import complex_log_moment

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


def merged_law(coordinates: Iterable[Coordinates], gaussian: float = 0.0) -> Law:
    """The law of these coordinates, with equal ones merged and sorted so that their order does not matter."""
    counts: dict[tuple[float, float, bool], float] = {}
    for c in coordinates:
        kind = (c.gamma, c.t, c.is_largest)
        counts[kind] = counts.get(kind, 0.0) + c.count
    kinds = [Coordinates(count, *kind) for kind, count in sorted(counts.items())]
    gaussian = math.fsum([gaussian, *(c.count * c.t for c in kinds if c.gamma == 1.0)])
    kinds = [c for c in kinds if c.gamma < 1.0]
    return Law(tuple(kinds), gaussian)


def _expm1_upwards(t: float) -> float:
    """An upper bound on e^t - 1 that includes the rounding of t."""
    return (
        math.expm1(min(t, LARGEST_EXPONENT)) * (1 + 2.0**-52 * (4 * t + 20))
        if t < LARGEST_EXPONENT
        else math.inf
    )
