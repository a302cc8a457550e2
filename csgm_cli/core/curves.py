"""The Renyi curve of each mechanism, as a total log-moment K(order, sigma) = (order - 1) eps(order).

docs/theory.md, "From one coordinate to the mechanism" (the paper's Theorem 4.1, corrected).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from csgm_cli.core.moment import OUT_OF_REACH, LogMoment, combine, gaussian_moment, replace_one
from csgm_cli.model import Adjacency, Bound, Mechanism


@dataclass(frozen=True)
class Curve:
    """A sum of independent coordinates, all sent with probability ``gamma``.

    ``parts``: (how many, Delta) pairs; a real count is the paper's form. ``weak_triangle``: apply
    the replace-one bound. ``integer_orders``: only 2, 3, 4, ... are admitted.
    """

    gamma: float
    parts: tuple[tuple[float, float], ...]
    weak_triangle: bool
    integer_orders: bool

    def moment(self, order: float, sigma: float) -> LogMoment:
        """(order - 1) times the Renyi divergence bound at this order, for order > 1."""
        if not self.weak_triangle:
            return self._add_remove(order, sigma)
        at_even = self._add_remove(2 * order, sigma)
        if math.isinf(at_even.value):
            return OUT_OF_REACH
        return replace_one(order, self._add_remove(2 * order - 1, sigma), at_even)

    def _add_remove(self, order: float, sigma: float) -> LogMoment:
        ts = [(delta / sigma) ** 2 for _, delta in self.parts]
        if self.gamma == 1.0:
            moments = [gaussian_moment(order, t) for t in ts]
        else:
            from csgm_cli.core.log_moment import log_moments

            moments = log_moments(order, self.gamma, ts)
        if any(math.isinf(moment.value) for moment in moments):
            return OUT_OF_REACH
        return combine(zip((count for count, _ in self.parts), moments, strict=True))


def renyi_curve(mechanism: Mechanism, bound: Bound) -> Curve:
    """The curve behind ``Bound.RDP`` (real orders) or ``Bound.PAPER`` (integer orders, real k)."""
    replace = mechanism.adjacency is Adjacency.REPLACE_ONE
    integers = bound is Bound.PAPER
    rounds = float(mechanism.rounds)
    if mechanism.is_gaussian:
        sensitivity = mechanism.sensitivity * (2.0 if replace else 1.0)
        return Curve(1.0, ((rounds, sensitivity),), weak_triangle=False, integer_orders=integers)
    count, clip = mechanism.coordinates, mechanism.geometry.linf_norm
    whole = float(math.floor(count))
    parts: tuple[tuple[float, float], ...] = ((rounds * count, clip),)
    if not integers and whole < count:
        parts = ((rounds * whole, clip), (rounds, clip * math.sqrt(count - whole)))
    return Curve(mechanism.gamma, parts, weak_triangle=replace, integer_orders=integers)
