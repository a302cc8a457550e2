"""Means of convex functions of the likelihood ratio on a plain loss grid, in floating point.

A second method, for few mask bits, where a contour integral does not converge. Each coordinate's loss is
put on a grid under a tilted law, the grids are composed by FFT, and the step is halved until two means agree.
The result is an estimate with a relative error of about 1e-4, not a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from csgm_cli.model.certificate import Direction
from csgm_cli.verify.log_moment import not_converged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from csgm_cli.verify.concentrated import ConvexFunction
    from csgm_cli.verify.renyi import Coordinates

Array: TypeAlias = NDArray[np.float64]

_AGREEMENT = 5e-5  # of the means on two grids, relative
_LARGEST_STEP = 0.05  # in units of one over the order of the tilt
_FEWEST_POINTS, _MOST_POINTS = 1 << 13, 1 << 22  # of a loss grid, and at most of nodes in x
_NODES = 2000  # in x, where only moments are wanted
_LARGEST_SPACING = 0.02  # in x
_TAIL = math.log(1e13)  # the tilted law has less than exp(-tail) beyond the grid; nodes go to exp(-2 tail)
_TAIL_TILTS = 2.0 ** np.arange(-6, 4)  # tried in units of one over the tilted deviation
_LARGEST_TILT = 1e6
_BISECTIONS = 20


def plain_mean(
    coordinates: Sequence[Coordinates], mu_squared: float, function: ConvexFunction
) -> tuple[float, float]:
    """E_Q[phi(u)] for the coordinates of kappa* and a Gaussian release, and the step of the last grid.

    Raises ``NoAnswerError`` (slug ``oracle-not-converged``) where grids of up to 2^22 points do not agree.
    """
    parts = [(int(n), float(g), float(t)) for n, g, t in coordinates if t > 0]
    law = _Law(parts, float(mu_squared))
    _, log_knee = (float(value) for value in function.shape())
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


def _tilted_values(function: ConvexFunction, losses: Array, log_scale: Callable[[Array], Array]) -> Array:
    """phi(e^loss) exp(log_scale(loss)), with both kept in the exponent together."""
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


def _rate(power: float, q: Array) -> Array:
    """The integral of e^(power x) over x from 0 to q."""
    return q if power == 0 else np.expm1(power * q) / power


@dataclass(frozen=True)
class _Law:
    """Independent coordinates (number, gamma, t) and a Gaussian release of squared mu."""

    coordinates: list[tuple[int, float, float]]
    mu_squared: float

    @property
    def least_loss(self) -> float:
        """No loss log u is below."""
        if self.mu_squared > 0 or any(gamma == 1 for _, gamma, _ in self.coordinates):
            return -math.inf
        return math.fsum(n * math.log1p(-gamma) for n, gamma, _ in self.coordinates)

    def moments(self, order: float) -> tuple[float, float, float]:
        """Log E_Q[u^order], and the mean and variance of log u under the law tilted by u^order."""
        mu = self.mu_squared
        value, mean, variance = order * (order - 1) * mu / 2, (order - 0.5) * mu, mu
        for number, gamma, t in self.coordinates:
            losses, weights, log_total = _tilted_nodes(order, gamma, t, math.inf)
            first = float(weights @ losses)
            value, mean = value + number * log_total, mean + number * first
            variance += number * float(weights @ (losses - first) ** 2)
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
            half = max(half, min((excess + _TAIL) / x for excess, x in zip(beyond, tilts, strict=True)))
        half += abs(log_knee - mean)

        def undo(losses: Array) -> Array:
            return value - order * losses

        def grid(points: int) -> tuple[Array, Array, Callable[[Array], Array]]:
            step = 2 * half / points
            frequencies = 2 * math.pi * np.arange(points // 2 + 1) / (points * step)
            # Losses are counted from each part's own mean, and their sum from the middle of the grid.
            log_transform = -0.5 * frequencies**2 * self.mu_squared + 0j
            for number, gamma, t in self.coordinates:
                losses, weights, _ = _tilted_nodes(order, gamma, t, step)
                masses = _on_grid((losses - weights @ losses) / step, weights, points)
                log_transform += number * np.log(np.fft.rfft(masses))
            law = np.fft.irfft(np.exp(log_transform), points)
            losses = np.asarray(mean + step * (np.arange(points) - points // 2), float)
            return losses, np.roll(law, points // 2), undo

        return grid

    def order(self, function: ConvexFunction) -> float:
        """The order at which the tilted mean is at the knee: at least 1 for add, at most 0 for remove.

        Nearer to 0 where the function, which falls like u^(1-B), would not decay against the tilt.
        """
        log_knee = float(function.shape()[1])
        sign, start = (1, 1.0) if function.direction is Direction.ADD else (-1, 0.0)
        highest = _LARGEST_TILT if sign > 0 else min(_LARGEST_TILT, 0.75 * (float(function.exponent) - 1))

        def short(tilt: float) -> bool:
            return sign * (self.moments(start + sign * tilt)[1] - log_knee) < 0

        low, high = 0.0, min(1.0, highest)
        while short(high) and high < highest:
            low, high = high, min(2 * high, highest)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if short(middle) else (low, middle)
        return start + sign * low


def _tilted_nodes(order: float, gamma: float, t: float, step: float) -> tuple[Array, Array, float]:
    """Nodes of log Y, their weights under the law tilted by Y^order, and log E[Y^order].

    At least one node for each ``step`` of the loss, unless that takes too many.
    """
    root = math.sqrt(t)
    wanted = min(_LARGEST_SPACING, step / root)
    ends = min(0.0, order * root) - 12, max(0.0, order * root) + 12
    x = np.linspace(*ends, _NODES)
    logs, _ = _log_weights(order, gamma, t, x)
    alive = x[logs > logs.max() - 2 * _TAIL]
    spacing = x[1] - x[0]
    count = int((alive[-1] - alive[0]) / wanted) + _NODES
    x = np.linspace(alive[0] - spacing, alive[-1] + spacing, min(_MOST_POINTS, count))
    logs, losses = _log_weights(order, gamma, t, x)
    peak = logs.max()
    weights = np.exp(logs - peak)
    total = weights.sum()
    log_total = peak + math.log(total * (x[1] - x[0]) / math.sqrt(2 * math.pi))
    if abs(order) * np.abs(losses).max() < 1:
        # E[Y^a - 1 - a (Y - 1)]: what many coordinates add up to keeps its digits.
        small = np.expm1(order * losses) - order * np.expm1(losses)
        log_total = math.log1p(np.exp(-x * x / 2) @ small * (x[1] - x[0]) / math.sqrt(2 * math.pi))
    return losses, weights / total, log_total


def _log_weights(order: float, gamma: float, t: float, x: Array) -> tuple[Array, Array]:
    """The log of Y^order exp(-x^2/2) and log Y at ``x``."""
    log_ratio = math.sqrt(t) * x - t / 2
    losses = np.where(
        log_ratio > 1,
        np.logaddexp(math.log1p(-gamma) if gamma < 1 else -math.inf, math.log(gamma) + log_ratio),
        np.log1p(gamma * np.expm1(np.minimum(log_ratio, 1))),
    )
    return order * losses - x * x / 2, losses


def _on_grid(places: Array, weights: Array, points: int) -> Array:
    """Weights at real ``places`` put on the four nearest integers modulo ``points`` by cubic interpolation.

    This keeps the first three moments, so that errors of many coordinates do not add up.
    """
    below = np.floor(places)
    f = places - below
    shares = (
        -f * (f - 1) * (f - 2) / 6,
        (f + 1) * (f - 1) * (f - 2) / 2,
        -(f + 1) * f * (f - 2) / 2,
        (f + 1) * f * (f - 1) / 6,
    )
    masses = np.zeros(points)
    for offset, share in enumerate(shares, -1):
        cells = (below.astype(np.int64) + offset) % points
        masses += np.bincount(cells, weights * share, points)
    return masses
