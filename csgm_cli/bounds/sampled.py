"""Bounds for rounds with client sampling, by the subsampled Gaussian mechanisms that dominate them.

For every convex function of the class F_a, a round with sampling rate q is dominated by 1 - q + q G_v, the
Poisson-subsampled Gaussian, with v the matched variance of the round without sampling at order max(a, 2);
other releases are dominated by G_v with v matched at order a (docs/theory.md, "Client sampling"). So for
every order a, the mean of the matched test function under that law is an upper bound on delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from csgm_cli.bounds.concentrated import exact_profile
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.profile.convex import MatchedFunction
from csgm_cli.profile.means import (
    LARGEST_EPSILON,
    UpperMean,
    profile_supported,
    upper_mean_by_contour,
    upper_mean_on_grid,
)
from csgm_cli.renyi.law import Coordinates, Law, merged_law
from csgm_cli.renyi.sampled import dominating_variance
from csgm_cli.roots import lattice_minimum

if TYPE_CHECKING:
    from collections.abc import Callable

#: Orders 1 + exp(_LEAST + i _SPACING), i = 0 ... _LAST, of the matched bound, and the first i to try.
#: Delta is flat near the best order: the spacing increases it by less than 0.1 %.
_LEAST, _SPACING, _LAST, _START = -1.0, 0.1, 70, 30
#: The values of i to try on grids.
_ON_GRID = (20, 25, 30, 35, 40, 50)


@lru_cache(maxsize=64)
def dominating_law(law: Law, order: float) -> Law | None:
    """The law of subsampled Gaussians that dominates ``law`` for the class F_a; None if none does."""
    kept = [c for c in law.coordinates if c.is_largest]
    unsampled = Law(tuple(c for c in law.coordinates if not c.is_largest))
    spread = dominating_variance_at(unsampled, order) if unsampled.coordinates else 0.0
    rounds = [(r, dominating_variance(order, r.inner)) for r in law.sampled]
    if not all(math.isfinite(v) for v in (spread, *(v for _, v in rounds))):
        return None
    sampled = [Coordinates(r.count, r.rate, v, is_largest=True) for r, v in rounds]
    return merged_law([*kept, *sampled], law.gaussian + spread)


def dominating_variance_at(law: Law, order: float) -> float:
    """Log-variance of the Gaussian with the same log-moment at ``order``, rounded up."""
    moment = law.log_moment(order)
    return 2 * moment.value / (order * (order - 1)) * (1 + moment.error + 2.0**-50)


@dataclass(frozen=True)
class SampledMatched:
    """The matched bound in one direction; ``order``: a fixed order, by default the best one.

    ``on_grid``: compute means on a certified grid, at a few orders, for use if contour integrals fail; by
    default they are computed by contour integrals.
    """

    direction: Direction
    order: float | None = None
    on_grid: bool = False

    def __call__(self, law: Law, epsilon: float, near: float | None = None) -> Certificate | None:
        """The certificate at (law, epsilon); None if the mean cannot be computed."""
        if not profile_supported(law, min(epsilon, LARGEST_EPSILON)):
            return None
        if self.order is None:
            if self.on_grid and replace(self, on_grid=False)(law, epsilon) is not None:
                return None
            return replace(self, order=self.best_order(law, epsilon, near))(law, epsilon)
        found = self._mean(law, epsilon, self.order)
        if found is None or not found.log_value < math.inf:
            return None
        log_delta, proof = min(found.log_value, 0.0), Proof.GAUSSIAN_MATCHED
        return Certificate(proof, self.direction, epsilon, log_delta, order=self.order, step=found.step)

    def best_order(self, law: Law, epsilon: float, near: float | None = None) -> float:
        """The order with the smallest bound; ``near``: an initial guess."""

        def value(i: int) -> float:
            found = self._mean(law, epsilon, _order(i))
            return math.inf if found is None else found.log_value

        if self.on_grid:
            return _order(min(_ON_GRID, key=value))
        start = _START if near is None else round((math.log(near - 1.0) - _LEAST) / _SPACING)
        return _order(lattice_minimum(value, start, _LAST))

    def _mean(self, law: Law, epsilon: float, order: float) -> UpperMean | None:
        dominating = dominating_law(law, order)
        if dominating is None:
            return None
        mean = upper_mean_on_grid if self.on_grid else upper_mean_by_contour
        return mean(dominating, MatchedFunction(self.direction, min(epsilon, LARGEST_EPSILON), order))


def _order(i: int) -> float:
    return 1.0 + math.exp(_LEAST + i * _SPACING)


def mask_revealed(direction: Direction) -> Callable[[Law, float, float | None], Certificate | None]:
    """The bound with all masks revealed: subsampled Gaussians, with every coordinate sent."""

    def method(law: Law, epsilon: float, _: float | None) -> Certificate | None:
        found = exact_profile(revealed_law(law), direction, epsilon)
        return found and replace(found, proof=Proof.MASK_REVEALED)

    return method


def revealed_law(law: Law) -> Law:
    """The law if clients that take part send every coordinate."""
    kept = [c for c in law.coordinates if c.is_largest]
    sent = math.fsum(c.count * c.t for c in law.coordinates if not c.is_largest)
    sampled = [
        Coordinates(r.count, r.rate, math.fsum(c.count * c.t for c in r.inner.coordinates), is_largest=True)
        for r in law.sampled
    ]
    return merged_law([*kept, *sampled], law.gaussian + sent)


def participation_floor(law: Law, epsilon: float, _: float | None) -> Certificate | None:
    """Delta = 0 in the remove direction if no privacy loss can exceed epsilon, as U > 1 - q in each round."""
    if epsilon + law.participation_floor < 0.0:
        return None
    return Certificate(Proof.PROFILE, Direction.REMOVE, epsilon, -math.inf, exponent=math.inf)
