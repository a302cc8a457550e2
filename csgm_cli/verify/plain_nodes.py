"""Laws of the privacy loss of one coordinate, or of one round, on nodes, in floating point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

TAIL = math.log(1e13)  # tilted laws have less than exp(-tail) beyond a grid; nodes go to exp(-2 tail)
_MOST_NODES = 1 << 22  # in x
_NODES = 2000  # in x, where only moments are wanted
_LARGEST_SPACING = 0.02  # in x


class Part(Protocol):
    """Independent and identically distributed factors Y of the likelihood ratio."""

    @property
    def number(self) -> int:
        """The number of factors."""

    @property
    def least(self) -> float:
        """A lower bound on log Y."""

    def nodes(self, order: float, step: float) -> tuple[Array, Array, float]:
        """Nodes of the loss, their weights under the law tilted by Y^order, and log E[Y^order]."""

    def moments(self, order: float) -> tuple[float, float, float]:
        """Log E[Y^order], and the mean and variance of log Y under the tilted law."""


def moments_of(losses: Array, weights: Array, log_total: float) -> tuple[float, float, float]:
    """The moments of a `Part` from its nodes."""
    mean = float(weights @ losses)
    return log_total, mean, float(weights @ (losses - mean) ** 2)


@dataclass(frozen=True)
class CoordinatePart:
    """Coordinates that are sent with probability ``gamma`` and move by sqrt(t) noise deviations."""

    number: int
    gamma: float
    t: float

    @property
    def least(self) -> float:
        """A lower bound on the loss."""
        return -math.inf if self.gamma == 1 else math.log1p(-self.gamma)

    def moments(self, order: float) -> tuple[float, float, float]:
        """As `Part.moments`."""
        return moments_of(*self.nodes(order, math.inf))

    def nodes(self, order: float, step: float) -> tuple[Array, Array, float]:
        """As `Part.nodes`, with at least one node for each ``step``, unless that takes too many."""
        root = math.sqrt(self.t)
        wanted = min(_LARGEST_SPACING, step / root)
        ends = min(0.0, order * root) - 12, max(0.0, order * root) + 12
        x = np.linspace(*ends, _NODES)
        logs, _ = self._log_weights(order, x)
        alive = x[logs > logs.max() - 2 * TAIL]
        spacing = x[1] - x[0]
        count = int((alive[-1] - alive[0]) / wanted) + _NODES
        x = np.linspace(alive[0] - spacing, alive[-1] + spacing, min(_MOST_NODES, count))
        logs, losses = self._log_weights(order, x)
        peak = logs.max()
        weights = np.exp(logs - peak)
        total = weights.sum()
        log_total = peak + math.log(total * (x[1] - x[0]) / math.sqrt(2 * math.pi))
        if abs(order) * np.abs(losses).max() < 1:
            # E[Y^a - 1 - a (Y - 1)]: avoids cancellation in sums over many coordinates.
            small = np.expm1(order * losses) - order * np.expm1(losses)
            log_total = math.log1p(np.exp(-x * x / 2) @ small * (x[1] - x[0]) / math.sqrt(2 * math.pi))
        return losses, weights / total, log_total

    def _log_weights(self, order: float, x: Array) -> tuple[Array, Array]:
        """The log of Y^order exp(-x^2/2) and log Y at ``x``."""
        log_ratio = math.sqrt(self.t) * x - self.t / 2
        losses = np.where(
            log_ratio > 1,
            np.logaddexp(
                math.log1p(-self.gamma) if self.gamma < 1 else -math.inf, math.log(self.gamma) + log_ratio
            ),
            np.log1p(self.gamma * np.expm1(np.minimum(log_ratio, 1))),
        )
        return order * losses - x * x / 2, losses


@dataclass(frozen=True, eq=False)
class RoundsPart:
    """Rounds with client sampling, U = 1 - rate + rate y; ``losses`` and ``log_mass``: of log y."""

    number: int
    rate: float
    losses: Array
    log_mass: Array

    @property
    def least(self) -> float:
        """A lower bound on the loss."""
        return math.log1p(-self.rate)

    def moments(self, order: float) -> tuple[float, float, float]:
        """As `Part.moments`."""
        return moments_of(*self.nodes(order, math.inf))

    def nodes(self, order: float, _: float) -> tuple[Array, Array, float]:
        """As `Part.nodes`, on the nodes of y."""
        losses = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + self.losses)
        near = np.abs(self.losses) < 1
        losses[near] = np.log1p(self.rate * np.expm1(self.losses[near]))
        logs = order * losses + self.log_mass
        peak = float(logs.max())
        weights = np.exp(logs - peak)
        total = float(weights.sum())
        log_total = peak + math.log(total)
        if log_total < 1:  # E[U^a - 1 - a (U - 1)]: avoids cancellation in sums over many rounds
            mass = np.exp(self.log_mass)
            small = np.where(
                np.abs(order * losses) < 1,
                mass * (np.expm1(order * losses) - order * np.expm1(losses)),
                np.exp(logs) - mass * (1 + order * np.expm1(losses)),
            )
            log_total = math.log1p(float(small.sum()))
        return losses, weights / total, log_total


def on_grid(places: Array, weights: Array, points: int) -> Array:
    """Weights at real ``places`` put on the four nearest integers modulo ``points`` by cubic interpolation.

    This preserves the first three moments, so errors do not accumulate over many coordinates.
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
