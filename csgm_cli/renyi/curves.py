"""The Renyi curve of each mechanism, as a total log-moment K(order, sigma) = (order - 1) eps(order).

docs/theory.md, "From one coordinate to the mechanism" (the paper's Theorem 4.1, corrected).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from csgm_cli.model.mechanism import Adjacency, Bound, Mechanism
from csgm_cli.renyi.moment import LogMoment, gaussian_moment, replace_one, summed


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
        return curve_moments([self], order, sigma)[0]


def curve_moments(curves: Sequence[Curve], order: float, sigma: float) -> list[LogMoment]:
    """`Curve.moment` of each curve, for much less than the price of each by itself."""
    orders = [2 * order if curve.weak_triangle else order for curve in curves]
    found = _add_remove(curves, orders, sigma)
    weak = [i for i, curve in enumerate(curves) if curve.weak_triangle and not math.isinf(found[i].value)]
    at_odd = _add_remove([curves[i] for i in weak], [2 * order - 1] * len(weak), sigma)
    for i, odd in zip(weak, at_odd, strict=True):
        found[i] = replace_one(order, odd, found[i])
    return found


def _add_remove(curves: Sequence[Curve], orders: Sequence[float], sigma: float) -> list[LogMoment]:
    """The add-remove moment of each curve, at an order of its own."""
    found: dict[int, LogMoment] = {}
    for order in dict.fromkeys(orders):
        chosen = [i for i, wanted in enumerate(orders) if wanted == order]
        found |= zip(chosen, _at_one_order([curves[i] for i in chosen], order, sigma), strict=True)
    return [found[i] for i in range(len(curves))]


def _at_one_order(curves: Sequence[Curve], order: float, sigma: float) -> list[LogMoment]:
    coordinates = [(curve.gamma, (delta / sigma) ** 2) for curve in curves for _, delta in curve.parts]
    if all(gamma == 1.0 for gamma, _ in coordinates):
        moments = iter([gaussian_moment(order, t) for _, t in coordinates])
    else:
        from csgm_cli.renyi.log_moment import mixed_log_moments

        moments = iter(mixed_log_moments(order, coordinates))
    return [summed([(count, next(moments)) for count, _ in curve.parts]) for curve in curves]


def renyi_curve(mechanism: Mechanism, bound: Bound) -> Curve:
    """The curve behind ``Bound.RDP`` (real orders) or ``Bound.PAPER`` (integer orders, real k)."""
    replace = mechanism.adjacency is Adjacency.REPLACE_ONE
    integers = bound is Bound.PAPER
    rounds = float(mechanism.releases)
    if mechanism.is_gaussian:
        sensitivity = mechanism.sensitivity * (2.0 if replace else 1.0)
        return Curve(1.0, ((rounds, sensitivity),), weak_triangle=False, integer_orders=integers)
    count, clip = mechanism.coordinates, mechanism.linf_sensitivity
    whole = float(math.floor(count))
    parts: tuple[tuple[float, float], ...] = ((rounds * count, clip),)
    if not integers and whole < count:
        parts = ((rounds * whole, clip), (rounds, clip * math.sqrt(count - whole)))
    return Curve(mechanism.gamma, parts, weak_triangle=replace, integer_orders=integers)
