"""The least noise at which a Renyi bound proves a target: by Newton's method, on the safe side."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.core.bounds import TRUST, oracle_epsilon
from csgm_cli.errors import NoAnswerError
from csgm_cli.renyi.conversion import (
    Converted,
    allowed_moment,
    best_epsilon,
    epsilon_at,
    epsilon_slope,
    integers_next_to,
    log_shrink,
)
from csgm_cli.renyi.curves import Curve, renyi_curve
from csgm_cli.renyi.first_guess import first_guess
from csgm_cli.roots import Slope, increasing_root, least_safe

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Bound, Mechanism, Target

#: Joint Newton steps that settle nine problems in ten and more; four to six are the rule. Two of them have to
#: be smaller than the two before by this factor.
_JOINT_STEPS, _SMALLER = 16, 0.87
#: Orders closer to 1 have too few digits.
_LEAST_GAP = 1e-9
#: Steps along the boundary, and how much of log sigma the next one may be worth after the last.
_BOUNDARY_STEPS, _SETTLED = 12, 1e-13
#: Of these, no room is further from the one before than this factor.
_FARTHEST = 8.0


def least_renyi_sigma(mechanism: Mechanism, bound: Bound, target: Target) -> float:
    """The least sigma at which ``bound``, rdp or paper, proves ``target``; it proves it there."""
    curve = renyi_curve(mechanism, bound)
    near, order = _near_sigma(curve, target)

    def is_safe(sigma: float) -> bool:
        point = best_epsilon(curve, sigma, math.log(target.delta), order)
        if point.error > TRUST * _renyi(point):  # never seen, but not to be trusted
            return oracle_epsilon(mechanism, bound, sigma, target.delta, point.order) <= target.epsilon
        return point.value + point.error <= target.epsilon

    return least_safe(is_safe, near)


def near_renyi_sigma(mechanism: Mechanism, bound: Bound, target: Target) -> float:
    """That to 1e-12 or so, for a fraction of the price: nothing is proven."""
    return _near_sigma(renyi_curve(mechanism, bound), target)[0]


def _renyi(point: Converted) -> float:
    return point.moment.value / (point.order - 1)


def _near_sigma(curve: Curve, target: Target) -> tuple[float, float]:
    """Where epsilon(sigma) meets the target to 1e-12 or so, and the order there."""
    if curve.integer_orders:
        return _near_sigma_of_integers(curve, target)
    guess = first_guess(curve, target)
    return (
        _joint_newton(curve, target, guess)
        or _along_boundary(curve, target, guess)
        or _nested_newton(curve, target, guess)
    )


def _near_sigma_of_integers(curve: Curve, target: Target) -> tuple[float, float]:
    """The same where only integer orders count: at one of the two next to the best real order.

    The orders that meet the target at a noise are an interval, which grows with the noise: out of the
    best real order, at the least noise of all, until it holds an integer.
    """
    sigma, best = _near_sigma(replace(curve, integer_orders=False), target)
    log_delta = math.log(target.delta)
    rooms = {a: allowed_moment(a, target.epsilon, log_delta) for a in integers_next_to(best)}
    return min((noise_at(curve, a, room, sigma), a) for a, room in rooms.items() if room > 0.0)


def noise_at(curve: Curve, order: float, room: float, start: float) -> float:
    """The sigma at which the log-moment of ``curve`` at this order is ``room``, by Newton's method."""

    def miss(log_sigma: float) -> Slope:
        moment = curve.moment(order, math.exp(log_sigma))
        if math.isinf(moment.value):
            return -math.inf, 0.0
        if moment.value == 0.0:
            return math.inf, 0.0
        return math.log(room / moment.value), 2 * moment.d_log_t / moment.value

    return math.exp(increasing_root(miss, math.log(start), tolerance=1e-13))


def _joint_newton(curve: Curve, target: Target, guess: tuple[float, float]) -> tuple[float, float] | None:
    """Sigma and its best order by Newton steps on both at once; None where they do not converge soon.

    In x = log sigma and y = log(order - 1), from a ``guess`` of sigma and the order. At the best order
    epsilon does not depend on y to first order, so x is solved for alone; y follows x by taking K's
    shape in the order not to change.
    """
    log_delta, most = math.log(target.delta), 2.0
    sigma, order = guess
    steps: list[float] = []
    for _ in range(_JOINT_STEPS):
        moment = curve.moment(order, sigma)
        if not 0.0 < moment.value < math.inf or order - 1 < _LEAST_GAP:
            return None
        point = epsilon_at(order, moment, log_delta)
        step = _sigma_step(point, target.epsilon)
        slope, curvature = epsilon_slope(order, moment, log_delta)
        order_step = _order_step(point, slope, log_delta, step)
        gain = abs(slope * slope / curvature) / (order - 1) ** 2
        if abs(step) <= 1e-11 and gain <= 1e-13 * point.value:
            return sigma * math.exp(step), order
        steps.append(abs(step))
        if len(steps) >= 4 and max(steps[-2:]) > _SMALLER * max(steps[-4:-2]):
            return None
        sigma *= math.exp(min(max(step, -most), most))
        order = 1 + (order - 1) * math.exp(min(max(order_step, -most), most))
    return None


def _sigma_step(point: Converted, epsilon: float) -> float:
    """A Newton step in log sigma, on the logarithm of the Renyi divergence, which is nearly a power law."""
    renyi = _renyi(point)
    slope = 2 * point.moment.d_log_t / point.moment.value
    wanted = renyi + epsilon - point.value
    if wanted <= 0.0:  # even no divergence would not do at this order: a step on log epsilon
        return math.log(point.value / epsilon) * point.value / (slope * renyi)
    return math.log(renyi / wanted) / slope


def _order_step(point: Converted, slope: float, log_delta: float, sigma_step: float) -> float:
    """A Newton step in log(order - 1) to where (a-1) K' - K meets -log(delta a), on their logarithms.

    The first grows like a power of the order, or like an exponential where K has a cliff; with sigma
    it moves as K does. ``slope`` is their difference.
    """
    order, moment = point.order, point.moment
    wanted = -log_delta - math.log(order)
    found = slope + wanted
    if wanted <= 0.0 or found <= 0.0:  # beyond every best order, or lost to rounding far below it
        return -math.inf if wanted <= 0.0 else math.inf
    drift = -2 * moment.d_log_t / moment.value * sigma_step
    steepness = (order - 1) * ((order - 1) * moment.d2_order / found + 1 / (order * wanted))
    return -(math.log(found / wanted) + drift) / steepness


def _along_boundary(curve: Curve, target: Target, guess: tuple[float, float]) -> tuple[float, float] | None:
    """The same where K is a cliff, along which sigma moves with the order; None where that does not do.

    Each order has its room, and a sigma at which K fills it. On that boundary (a-1) K' - K is about
    proportional to the room, less what there is before the cliff; it has to be -log(delta a).
    """
    log_delta = math.log(target.delta)
    sigma, order = guess
    room, before = allowed_moment(order, target.epsilon, log_delta), (math.nan, math.nan)
    for _ in range(_BOUNDARY_STEPS):
        if not room > 0.0 or order - 1 < _LEAST_GAP:
            return None
        try:
            sigma = noise_at(curve, order, room, sigma)
        except NoAnswerError:
            return None
        moment = curve.moment(order, sigma)
        found, wanted = (order - 1) * moment.d_order - moment.value, -log_delta - math.log(order)
        if not (wanted > 0.0 and moment.d_log_t > 0.0):
            return None
        here, flat = room, min(_before_cliff(curve, order, sigma), room * (1 - 1e-9))
        slope = (found - before[1]) / (here - before[0]) if here != before[0] else math.nan
        room = here + (wanted - found) / (slope if slope > 0.0 else found / (here - flat))
        room = min(max(room, flat + (here - flat) / _FARTHEST), here * _FARTHEST)
        gap = _gap_with(room, target.epsilon, log_delta, order - 1)
        ahead = (found - wanted) / (2 * moment.d_log_t) * math.log(gap / (order - 1))
        if abs(ahead) <= _SETTLED:
            return sigma, order
        sigma, order, before = sigma * math.exp(min(max(ahead, -2.0), 2.0)), 1 + gap, (here, found)
        room = allowed_moment(order, target.epsilon, log_delta)
    return None


def _before_cliff(curve: Curve, order: float, sigma: float) -> float:
    """About what K would be without one: that of a Gaussian."""
    if curve.weak_triangle:  # the mean of K at twice the order and at 1 less
        order = 2 * order - 0.5
    squares = math.fsum(n * math.expm1(min((delta / sigma) ** 2, 700.0)) for n, delta in curve.parts)
    return order * (order - 1) / 2 * curve.gamma**2 * squares


def _gap_with(room: float, epsilon: float, log_delta: float, gap: float) -> float:
    """About the order - 1 at which `allowed_moment` is ``room``, by Newton's method from ``gap``."""
    for _ in range(3):
        slope = epsilon - log_shrink(1 + gap)
        gap = max(gap + (room - allowed_moment(1 + gap, epsilon, log_delta)) / slope, gap / 16)
    return gap


def _nested_newton(curve: Curve, target: Target, guess: tuple[float, float]) -> tuple[float, float]:
    """The same by Newton on log sigma at the best order of each, safe in a bracket around the ``guess``.

    By the envelope theorem the slope is that at a fixed order.
    """
    log_delta = math.log(target.delta)
    sigma, order = guess

    def miss(log_sigma: float) -> Slope:
        nonlocal order
        point = best_epsilon(curve, math.exp(log_sigma), log_delta, order)
        order = point.order
        return -_sigma_step(point, target.epsilon), 1.0

    root = increasing_root(miss, math.log(sigma), tolerance=1e-11)
    return math.exp(root), order
