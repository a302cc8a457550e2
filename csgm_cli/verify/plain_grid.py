"""Means of convex functions of the likelihood ratio on a plain loss grid, in floating point.

A second method, for few mask bits, where a contour integral does not converge. Each coordinate's loss is
put on a grid under a tilted law, the grids are composed by FFT, and the step is halved until two means agree.
The result is an estimate with a relative error of about 1e-4, not a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.model.certificate import Direction
from csgm_cli.verify.concentrated import MatchedFunction, TestFunction
from csgm_cli.verify.log_moment import not_converged
from csgm_cli.verify.plain_nodes import TAIL, Array, CoordinatePart, Part, RoundsPart, on_grid
from csgm_cli.verify.plain_rounds import round_masses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from csgm_cli.verify.renyi import Coordinates
    from csgm_cli.verify.sampled import Rounds

_AGREEMENT = 5e-5  # of the means on two grids, relative
_LARGEST_STEP = 0.05  # in units of one over the order of the tilt
_FEWEST_POINTS, _MOST_POINTS = 1 << 13, 1 << 22  # of a loss grid
_ABOVE = 12.0  # how far above the function's knee the loss of one round is followed
_TAIL_TILTS = 2.0 ** np.arange(-6, 4)  # tried in units of one over the tilted deviation
_LARGEST_TILT = 1e6
_BISECTIONS = 20


def plain_mean(
    coordinates: Sequence[Coordinates],
    mu_squared: float,
    function: TestFunction,
    sampled: Sequence[Rounds] = (),
) -> tuple[float, float]:
    """E_Q[phi(u)] for the coordinates of kappa* and a Gaussian release, and the step of the last grid.

    ``sampled``: rounds with client sampling beside them. Raises ``NoAnswerError`` (slug
    ``oracle-not-converged``) where grids of up to 2^22 points do not agree.
    """
    _, log_knee = (float(value) for value in function.shape())
    parts: list[Part] = list(_coordinates(coordinates))
    for number, rate, inner in sampled:
        highest = max(log_knee, 0.0) + _ABOVE - math.log(rate)
        parts.append(RoundsPart(number, rate, *round_masses(_coordinates(inner), highest)))
    law = _Law(parts, float(mu_squared))
    if function.direction is Direction.REMOVE and law.least_loss >= log_knee and function.is_hockey_stick:
        return 0.0, 0.0
    order = law.order(function)
    grid, points, before = law.tilted_grid(order, log_knee), _FEWEST_POINTS, math.nan
    while points <= _MOST_POINTS:
        with np.errstate(all="ignore"):  # an overflow fails the comparison below
            losses, masses, log_scale = grid(points)
            mean = float(_tilted_values(function, losses, log_scale) @ masses)
        step = float(losses[1] - losses[0])
        fine = step * (1 + abs(order)) <= _LARGEST_STEP
        if fine and mean > 0 and abs(mean - before) <= _AGREEMENT * mean:
            return mean, step
        before, points = mean, 2 * points
    raise not_converged("successive loss grids do not agree")


def _coordinates(coordinates: Sequence[Coordinates]) -> list[CoordinatePart]:
    return [CoordinatePart(int(n), float(g), float(t)) for n, g, t in coordinates if t > 0]


def _tilted_values(function: TestFunction, losses: Array, log_scale: Callable[[Array], Array]) -> Array:
    """phi(e^loss) exp(log_scale(loss)), with both kept in the exponent together."""
    if isinstance(function, MatchedFunction):
        return _matched_values(function, losses, log_scale)
    scale, log_knee = (float(value) for value in function.shape())
    epsilon, power, above = float(function.epsilon), float(function.exponent), losses - log_knee
    add, q = function.direction is Direction.ADD, np.abs(losses - log_knee)
    values = np.zeros(len(losses))
    if function.is_hockey_stick:
        inside = above > 0 if add else above < 0
        # u - e^eps = u (1 - e^-q), and 1 - e^eps u = 1 - e^-q
        log_unit = losses if add else np.zeros(len(losses))
        shape = -np.expm1(-q)
    elif add:
        inside = above > 0
        # scale knee (e^q (1 - e^(-Bq))/B - (e^((1-B)q) - 1)/(1-B)), divided by u = knee e^q
        log_unit, shape = losses + math.log(scale), _rate(-power, q) - np.exp(-q) * _rate(1 - power, q)
    else:
        inside = np.ones(len(losses), bool)
        low = -np.expm1(np.minimum(losses + epsilon, 0.0))
        log_unit = np.where(above < 0, 0.0, (1 - power) * np.maximum(above, 0.0))
        shape = np.where(above < 0, low, 1 / power)
    values[inside] = (np.exp(log_unit + log_scale(losses)) * shape)[inside]
    return values


def _matched_values(function: MatchedFunction, losses: Array, log_scale: Callable[[Array], Array]) -> Array:
    """The same for the function of order a.

    With x = u/c it is c x^a/a or c (x - 1 + 1/a), and for remove (a - 1 - a x + x^a)/(a - 1) or 0.
    """
    a, log_c = float(function.order), float(function.shape()[1])
    q, undone = np.minimum(losses - log_c, 0.0), log_scale(losses)
    if function.direction is Direction.ADD:
        above = losses > log_c
        line = np.exp(losses + undone) * (1 - np.exp(log_c - losses) * (1 - 1 / a))
        return np.asarray(np.where(above, line, np.exp(log_c + a * q + undone) / a))
    return np.asarray(np.exp(undone) * (np.expm1(a * q) - a * np.expm1(q)) / (a - 1))


def _rate(power: float, q: Array) -> Array:
    """The integral of e^(power x) over x from 0 to q."""
    return q if power == 0 else np.expm1(power * q) / power


@dataclass(frozen=True)
class _Law:
    """Independent factors and a Gaussian release of squared mu."""

    parts: list[Part]
    mu_squared: float

    @property
    def least_loss(self) -> float:
        """No loss log u is below."""
        if self.mu_squared > 0:
            return -math.inf
        return math.fsum(part.number * part.least for part in self.parts)

    def moments(self, order: float) -> tuple[float, float, float]:
        """Log E_Q[u^order], and the mean and variance of log u under the law tilted by u^order."""
        mu = self.mu_squared
        value, mean, variance = order * (order - 1) * mu / 2, (order - 0.5) * mu, mu
        for part in self.parts:
            each = part.moments(order)
            value, mean = value + part.number * each[0], mean + part.number * each[1]
            variance += part.number * each[2]
        return value, mean, variance

    def tilted_grid(
        self, order: float, log_knee: float
    ) -> Callable[[int], tuple[Array, Array, Callable[[Array], Array]]]:
        """Grids by their number of points: losses, tilted masses, and the log of what undoes the tilt."""
        value, mean, variance = self.moments(order)
        half = 0.0
        for sign in (-1, 1):
            tilts = _TAIL_TILTS / math.sqrt(variance)
            beyond = [self.moments(order + sign * x)[0] - value - sign * x * mean for x in tilts]
            half = max(half, min((excess + TAIL) / x for excess, x in zip(beyond, tilts, strict=True)))
        half += abs(log_knee - mean)

        def undo(losses: Array) -> Array:
            return value - order * losses

        def grid(points: int) -> tuple[Array, Array, Callable[[Array], Array]]:
            step = 2 * half / points
            frequencies = 2 * math.pi * np.arange(points // 2 + 1) / (points * step)
            # Losses are counted from each part's own mean, and their sum from the middle of the grid.
            log_transform = -0.5 * frequencies**2 * self.mu_squared + 0j
            for part in self.parts:
                losses, weights, _ = part.nodes(order, step)
                masses = on_grid((losses - weights @ losses) / step, weights, points)
                log_transform += part.number * np.log(np.fft.rfft(masses))
            law = np.fft.irfft(np.exp(log_transform), points)
            losses = np.asarray(mean + step * (np.arange(points) - points // 2), float)
            return losses, np.roll(law, points // 2), undo

        return grid

    def order(self, function: TestFunction) -> float:
        """The order at which the tilted mean is at the knee: at least 1 for add, at most 0 for remove.

        Nearer to 0 where the function, which falls like u^(1-B), would not decay against the tilt.
        """
        log_knee = float(function.shape()[1])
        sign, start = (1, 1.0) if function.direction is Direction.ADD else (-1, 0.0)
        highest = min(_LARGEST_TILT, 0.75 * float(function.pole))

        def short(tilt: float) -> bool:
            return sign * (self.moments(start + sign * tilt)[1] - log_knee) < 0

        low, high = 0.0, min(1.0, highest)
        while short(high) and high < highest:
            low, high = high, min(2 * high, highest)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if short(middle) else (low, middle)
        return start + sign * low
