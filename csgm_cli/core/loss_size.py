"""About how large ``loss_grid``'s hockey-sticks are: to begin with, and to steer searches by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_far import SMALLEST, Parts
from csgm_cli.core.sliced_law import HIGHEST, excess
from csgm_cli.profile.contour import Direction
from csgm_cli.profile.single_round import single_round
from csgm_cli.renyi.moment import LogMoment

if TYPE_CHECKING:
    from collections.abc import Callable

    from csgm_cli.core.sliced_law import Coordinates

Array = NDArray[np.float64]

#: So many coordinates are sent together in a first guess, at most.
_TOGETHER = 40
#: Nodes in x for losses below a strike, and where they begin.
_NODES, _LOWEST = 400, -9.0
#: Shifts among which a saddle is looked for, times the strike.
_SHIFTS = np.geomspace(1e-3, 1e5, 50)
#: Moments above exp of this are not computed as 1 and what differs from it.
_LARGE = 10.0


def first_size(parts: Parts, epsilon: float) -> float:
    """A first guess at the answer: what coordinates do one at a time, a few together, or all by a little."""
    single = sum(part.count * single_round(part.gamma, part.s**2, Direction.ADD, epsilon) for part in parts)
    little = float(np.exp(gaussian_size(little_loss(parts), epsilon)))
    return min(max(single + _few_together(parts[0], epsilon) + little, SMALLEST), 1.0)


def little_loss(parts: Parts) -> float:
    """The standard deviation of the sum of the gamma s x, which losses are where they are small."""
    return math.sqrt(sum(part.count * (part.gamma * part.s) ** 2 for part in parts))


def _few_together(part: Coordinates, epsilon: float) -> float:
    """About the hockey-stick of m >= 2 of the largest coordinates together, known to be sent.

    That is C(n, m) gamma^m times a Gaussian's.
    """
    m = np.arange(1.0, 1.0 + min(part.count, _TOGETHER))
    log_ways = np.cumsum(np.log((part.count - m + 1) * (part.gamma / m)))
    log_sticks = gaussian_size(part.s * np.sqrt(m), epsilon - m * math.log(part.gamma))
    return float(np.exp(np.minimum(log_ways + log_sticks, 0.0))[1:].sum())


def gaussian_size(mu: float | Array, epsilon: float | Array) -> Array:
    """About log delta of a Gaussian mechanism, with 2/(u + sqrt(u^2 + 8/pi)) for Mills' ratio."""
    u = epsilon / mu - mu / 2
    ends = np.maximum(np.array([u, u + mu]), 0.0)
    with np.errstate(all="ignore"):
        near, further = 2 / (ends + np.sqrt(ends * ends + 8 / math.pi))
        return np.asarray(np.log(near - further) - ends[0] ** 2 / 2 - 0.5 * math.log(2 * math.pi))


def singles_size(parts: Parts, epsilon: float) -> float:
    """What coordinates do one at a time."""
    return sum(part.count * single_round(part.gamma, part.s**2, Direction.ADD, epsilon) for part in parts)


class Below:
    """Moments of the loss where no coordinate's is above ``strike`` > 0.

    Without that, where rare large losses make moments explode, a saddle point is no measure of anything.
    """

    def __init__(self, parts: Parts, strike: float) -> None:
        self.strike = strike
        self._parts = [_seen(part, strike) for part in parts]

    def log_moment(self, z: float) -> LogMoment:
        """Of E_Q[Y^(1 + z)], and its derivatives."""
        [value], [slope], [curvature] = self._log_moments(np.array([z]))
        return LogMoment(float(value), float(slope), float(curvature), math.nan, math.nan)

    def saddle(self) -> float:
        """About where the integrand of the hockey-stick is least on the real axis."""
        z = _SHIFTS / self.strike
        heights = self._log_moments(z)[0] - z * self.strike - np.log(z * (z + 1))
        return float(z[np.argmin(np.where(np.isfinite(heights), heights, np.inf))])

    def _log_moments(self, z: Array) -> Array:
        return np.asarray(sum(count * moments(1.0 + z) for count, moments in self._parts))


def _seen(part: Coordinates, strike: float) -> tuple[float, Callable[[Array], Array]]:
    """How many coordinates there are, and the log-moments of one, and their derivatives, by the order."""
    end = min(part.place(strike), HIGHEST + part.s)
    x = np.linspace(_LOWEST, end, _NODES)
    weights = np.full(_NODES, (x[1] - x[0]) / math.sqrt(2 * math.pi))
    weights[[0, -1]] /= 2
    loss, log_mass = part.loss(x), np.log(weights) - x * x / 2
    mass = np.exp(log_mass)
    flat = float((mass * excess(loss)).sum()) + part.excess_above(end)
    gone = 0.5 * math.erfc(end / math.sqrt(2))

    def moments(orders: Array) -> Array:
        with np.errstate(all="ignore"):
            scaled = orders[:, None] * loss
            exponents = scaled + log_mass
            peak = np.maximum(exponents.max(axis=1), 0.0)
            tilted = np.exp(exponents - peak[:, None])
            total, slope, square = (tilted @ np.array([loss**power for power in range(3)]).T).T
            less_one = (mass * excess(scaled)).sum(axis=1) - orders * flat - gone
            value = np.where(peak > _LARGE, peak + np.log(total), np.log1p(less_one))
            slope, square = (moment * np.exp(peak - value) for moment in (slope, square))
            return np.array([value, slope, square - slope**2])

    return part.count, moments
