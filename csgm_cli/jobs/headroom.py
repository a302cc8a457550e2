"""How far one release can still go: rounds that fit beside the others, and noise that makes it fit.

Both ask for the extreme x at which min over orders a of epsilon(a; x) is within the limit, that is for
the extreme over a of the x(a) at which epsilon(a; x) meets it. At that order epsilon is stationary in
a, so a search follows the sign of its derivative along x(a). docs/theory.md, "Mixed releases".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from csgm_cli import gaussian
from csgm_cli.core.bounds import unit_mu
from csgm_cli.core.compose import (
    MixedCurve,
    Noisy,
    best_of,
    bounds_of_all,
    looks_at_profile_of,
    mixed_curve,
    unit_curve,
)
from csgm_cli.model.mechanism import Accountant, Bound, Target
from csgm_cli.ranges import RANGES
from csgm_cli.renyi.conversion import (
    allowed_moment,
    best_epsilon_from,
    epsilon_at,
    epsilon_slope,
    integers_next_to,
    stationary_order,
)
from csgm_cli.renyi.moment import summed
from csgm_cli.renyi.renyi_noise import noise_at

if TYPE_CHECKING:
    from csgm_cli.renyi.moment import LogMoment
    from csgm_cli.roots import Slope

#: Room for the rounding of numbers derived from sigma.
_MARGIN = 4e-13
#: Up to so many releases what is said is what the tight accountant proves; of more, what simpler bounds do.
FEW_RELEASES = 8
#: Orders at which epsilon is bounded from below, relative to the best of all releases, in order - 1; and
#: by how much more than rounding a limit must be exceeded.
_AROUND, _CLEAR = (0.8, 1.0, 1.25), 1e-9
_MOST_ROUNDS = int(RANGES["rounds"].high)


class Headroom:
    """What the releases of one population leave to each of them; moments are looked up once for all."""

    def __init__(self, releases: Sequence[Noisy], accountant: Accountant, limit: Target) -> None:
        self.releases = releases
        self.limit = limit
        self.log_delta = math.log(limit.delta)
        self.curves: dict[Bound, MixedCurve] = {
            bound: mixed_curve(releases, bound)
            for bound in bounds_of_all(releases, accountant)
            if bound in (Bound.RDP, Bound.PAPER)
        }
        self.best: dict[Bound, float] = {
            bound: best_of(curve, self.log_delta).order for bound, curve in self.curves.items()
        }
        for bound, order in self.best.items():
            self.curves[bound].moment(order)  # to be known
        self.looks_at_profile = looks_at_profile_of(releases, accountant) and len(releases) <= FEW_RELEASES
        self.mu = None
        if len(self.curves) < len(bounds_of_all(releases, accountant)):
            self.mu = gaussian.mu_for(limit.epsilon, limit.delta)

    def more_rounds(self, index: int) -> int:
        """The most further rounds of one release that stay within the limit, up to 1e9 in all."""
        found = max([self._rounds_by_curve(index, bound) for bound in self.curves], default=0)
        found = found if self.mu is None else max(found, self._rounds_by_mu(index, self.mu, found))
        if not self.looks_at_profile:
            return found
        from csgm_cli.core import tight_room

        most = _MOST_ROUNDS - self.releases[index][0].releases
        return tight_room.more_rounds(self.releases, index, self.limit, found, most)

    def needed_noise_multiplier(self, index: int) -> float | None:
        """The least noise multiplier of one release with which all fit; None where no noise would do."""
        mechanism, _ = self.releases[index]
        sigmas = [self._sigma_by_curve(index, bound) for bound in self.curves]
        if self.mu is not None:
            sigmas.append(self._sigma_by_mu(index, self.mu))
        sigma = min(sigmas)
        if self.looks_at_profile:
            from csgm_cli.core import tight_room

            sigma = tight_room.needed_sigma(self.releases, index, self.limit, sigma)
        noise = sigma / mechanism.geometry.l2_norm * (1 + _MARGIN)
        return noise if noise in RANGES["noise_multiplier"] else None

    # ------------------------------------------------------------ Gaussian profile

    def _rounds_by_mu(self, index: int, most: float, enough: int) -> int:
        """The rounds that a total mu of ``most`` allows; to the last one where that is above ``enough``."""
        mechanism, sigma = self.releases[index]
        unit, spent = unit_mu(mechanism, sigma), _squared_mu(self.releases)
        limit = _MOST_ROUNDS - mechanism.releases

        def total(rounds: int) -> float:
            return math.sqrt(spent + unit * unit * rounds)

        def holds(rounds: int) -> bool:
            return gaussian.epsilon_for(total(rounds), self.limit.delta) <= self.limit.epsilon

        found = _most(lambda rounds: total(rounds) <= most, limit)
        if found <= enough:
            return found
        near = range(max(0, found - 2), min(limit, found + 2) + 1)  # ``most`` is rounded down
        return max(filter(holds, near), default=0)

    def _sigma_by_mu(self, index: int, most: float) -> float:
        mechanism, _ = self.releases[index]
        left = most * most - _squared_mu(self._others(index))
        return unit_mu(mechanism, 1.0) * math.sqrt(mechanism.releases / left) if left > 0.0 else math.inf

    def _others(self, index: int) -> list[Noisy]:
        return [noisy for i, noisy in enumerate(self.releases) if i != index]

    # ------------------------------------------------------------ Renyi curves

    def _rounds_by_curve(self, index: int, bound: Bound) -> int:
        mechanism, sigma = self.releases[index]
        curve = self.curves[bound]
        place = curve.curves.index(unit_curve(mechanism, sigma, bound))

        def boundary(order: float) -> LogMoment:
            spent, one = curve.moment(order), curve.moments(order)[place]
            rounds = max(0.0, (self._allowed(order) - spent.value) / one.value)
            return summed([(1.0, spent), (rounds, one)])

        def most_at(order: float) -> int:
            spent, one = curve.moment(order), curve.moments(order)[place]
            return _most(
                lambda rounds: self._holds(order, summed([(1.0, spent), (rounds, one)])),
                _MOST_ROUNDS - mechanism.releases,
            )

        start = max(curve.known_orders(), key=lambda a: self._room(curve, a) / curve.moments(a)[place].value)
        if (found := most_at(start)) == _MOST_ROUNDS - mechanism.releases:
            return found
        return max(map(most_at, self._orders(boundary, start, integers=curve.integer_orders)))

    def _sigma_by_curve(self, index: int, bound: Bound) -> float:
        mechanism, sigma = self.releases[index]
        own = unit_curve(mechanism, sigma, bound)
        rest = self.curves[bound].without(own, mechanism.releases)
        if any(rest.rounds) and not self._fits(rest, bound):
            return math.inf
        factor = 1.0  # by which sigma grows, from one order to the next

        def quieter(order: float) -> LogMoment | None:
            nonlocal factor
            room = self._room(rest, order) / mechanism.releases
            if room <= 0.0:
                return None
            factor = noise_at(own, order, room, factor)
            return own.moment(order, factor)

        def boundary(order: float) -> LogMoment:
            one = quieter(order)
            terms = [(1.0, rest.moment(order))] + ([(float(mechanism.releases), one)] if one else [])
            return summed(terms)

        def least_at(order: float) -> float:
            if quieter(order) is None:
                return math.inf
            least = factor
            for margin in (0.0, 1e-13, 1e-12, 1e-11, 1e-10):  # past rounding errors
                least = factor * (1 + margin)
                terms = [(1.0, rest.moment(order)), (mechanism.releases, own.moment(order, least))]
                if self._holds(order, summed(terms)):
                    return least * sigma
            return math.inf

        orders = self._orders(boundary, self.best[bound], integers=rest.integer_orders)
        return min(map(least_at, orders))

    def _fits(self, curve: MixedCurve, bound: Bound) -> bool:
        if self._at_least(curve, bound) > self.limit.epsilon * (1 + _CLEAR):
            return False
        best = best_epsilon_from(curve, 1.0, self.log_delta, self.best[bound])
        return best.value + best.error < self.limit.epsilon

    def _at_least(self, curve: MixedCurve, bound: Bound) -> float:
        """A lower bound on epsilon over all orders, from three at which all moments are looked up once.

        In 1/(order - 1) epsilon is convex, for the derivative is minus `epsilon_slope`: it is above tangents.
        """
        tangents = []
        for factor in _AROUND:
            order = 1.0 + (self.best[bound] - 1.0) * factor
            moment = curve.moment(order)
            if math.isinf(moment.value):
                return -math.inf
            slope = -epsilon_slope(order, moment, self.log_delta)[0]
            value = epsilon_at(order, moment, self.log_delta).value
            tangents.append((slope, value - slope / (order - 1.0)))
        return _least_of_highest(tangents)

    def _allowed(self, order: float) -> float:
        return allowed_moment(order, self.limit.epsilon, self.log_delta)

    def _room(self, curve: MixedCurve, order: float) -> float:
        return self._allowed(order) - curve.moment(order).value

    def _holds(self, order: float, moment: LogMoment) -> bool:
        point = epsilon_at(order, moment, self.log_delta)
        return point.value + point.error <= self.limit.epsilon

    def _orders(self, boundary: Callable[[float], LogMoment], start: float, *, integers: bool) -> list[float]:
        """The order at which the boundary is furthest out, or the integers next to it."""

        def slope(order: float, moment: LogMoment) -> Slope:
            return epsilon_slope(order, moment, self.log_delta)

        def settled(order: float, value: float, step: float) -> bool:
            return abs(value * step) <= 1e-14 * (order - 1.0) * self.limit.epsilon

        order = stationary_order(boundary, slope, start, settled)
        return integers_next_to(order) if integers else [order]


def _least_of_highest(lines: Sequence[tuple[float, float]]) -> float:
    """The least that the highest of the lines (slope, value at 0) is to the right of 0."""
    if all(slope <= 0.0 for slope, _ in lines):
        return -math.inf
    corners = [
        (other_value - value) / (slope - other)
        for slope, value in lines
        for other, other_value in lines
        if slope > other
    ]
    places = [0.0, *(x for x in corners if x > 0.0)]
    return min(max(slope * x + value for slope, value in lines) for x in places)


def _squared_mu(releases: Iterable[Noisy]) -> float:
    return math.fsum(unit_mu(mechanism, sigma) ** 2 * mechanism.releases for mechanism, sigma in releases)


def _most(fits: Callable[[int], bool], limit: int) -> int:
    """The largest integer in [0, limit] that fits, 0 where none does; whatever is below fits too."""
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
