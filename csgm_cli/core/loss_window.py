"""Smooth windows on the loss of one coordinate-round: bulk, jumps, and what is far out.

A step at x0 of width w is Phi((x - x0)/w). With one step F at the top and, where there is a split, one
step S below it, 1 = F + (1 - F)(1 - S) + (1 - F) S: far, bulk and jumps. Sharp cuts would do as well,
but the transforms of their sides fall slowly; with steps they fall like exp(-(y s R w)^2/2)
(``loss_fall``). Masses beyond a step are closed forms, since x plus an independent normal of
deviation w is normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_nodes import Nodes, Outside
from csgm_cli.core.sliced_law import HIGHEST, Coordinates, log_upper_tail, upper_tail

Array = NDArray[np.float64]

#: What is so many widths on the wrong side of a step is left out: a share of 2e-33.
_REACH = 12.0
#: Entries of a table of the normal law for one deviation.
_PER_UNIT = 256
#: No step is narrower.
_LEAST = 1e-3
#: How many widths a step is away from the place of a cut: it leaves a share of 1e-9.
_ASIDE = 6.0
#: The normal density changes by no more than exp of this over the width of a step.
_STEEPEST = 1.5


@dataclass(frozen=True)
class Step:
    """Phi((x - ``place``)/``width``), or a cut where the width is 0."""

    place: float
    width: float = 0.0

    @property
    def spread(self) -> float:
        """The deviation of x with that of the step on top."""
        return math.hypot(1.0, self.width)

    @property
    def start(self) -> float:
        """Below this it is next to 0."""
        return self.place - _REACH * self.width if self.width else self.place

    @property
    def end(self) -> float:
        """Above this it is next to 1."""
        return self.place + _REACH * self.width if self.width else self.place

    @property
    def bends(self) -> list[tuple[float, float]]:
        """Its place and width, for quadrature; none of a cut."""
        return [(self.place, self.width)] if self.width > 0.0 else []

    def above(self, x: Array) -> Array:
        """The step."""
        return _normal_cdf((x - self.place) / self.width) if self.width else (x > self.place).astype(float)

    def below(self, x: Array) -> Array:
        """1 less the step."""
        return _normal_cdf((self.place - x) / self.width) if self.width else (x <= self.place).astype(float)


def _normal_cdf(z: Array) -> Array:
    """Phi(z) to 1e-14 relative, and 0 or 1 beyond `_REACH`, from a table of it at z0 and around z.

    Phi(z) - Phi(z0) = h phi(m) (1 + h^2 (m^2 - 1)/24 + h^4 (m^4 - 6 m^2 + 3)/1920 + ...), h = z - z0, m in
    the middle. With |h| <= 1/512 the next term is below (z h)^7/322560 < 2e-17 of Phi(z).
    """
    result = (z > 0.0).astype(float)
    near = np.abs(z) < _REACH
    close = z[near]
    at = np.rint(close * _PER_UNIT)
    h = close - at / _PER_UNIT
    square = np.square(close - h / 2)
    change = (square - 6.0) * square + 3.0
    square_of_h = h * h
    for factor, term in ((square_of_h / 80, square - 1.0), (square_of_h / 24, 1.0)):
        change *= factor
        change += term
    change *= h * np.exp(square * -0.5) / math.sqrt(2 * math.pi)
    result[near] = _cdf_table()[at.astype(np.intp) + round(_PER_UNIT * _REACH)] + change
    return result


@cache
def _cdf_table() -> Array:
    """Phi at the multiples of 1/`_PER_UNIT` up to `_REACH`: erfc of sqrt(z^2/2), not of that rounded."""
    z = np.arange(round(_PER_UNIT * _REACH) + 1) / _PER_UNIT
    y = z / math.sqrt(2)
    short = y.astype(np.float32).astype(np.float64)  # its square and that of z have all their digits
    rounding = (short * short - z * z / 2) + (y - short) * (y + short)
    below = 0.5 * np.array([math.erfc(y_j) for y_j in y.tolist()]) * np.exp(rounding)
    return np.concatenate([below[::-1], 1.0 - below[1:]])


def step_beside(part: Coordinates, cut: float, other: float) -> Step:
    """A step next to 0 or 1 at a loss ``cut``, on the way to the ``other`` one.

    It is narrow far out, where the normal density, or what outweighs it, changes fast.
    """
    end = HIGHEST + part.s
    x, beside = part.place(cut), min(part.place(other), end)
    if x >= end:  # nobody gets there
        return Step(x)
    width = min(max(abs(beside - x) / (_ASIDE + 1.0), _LEAST), _STEEPEST / max(1.0, abs(x)))
    return Step(x + math.copysign(_ASIDE * width, other - cut), width)


@dataclass(frozen=True)
class Window:
    """One part's bulk and jumps, from ``low`` (x) up to the ``top``; all is bulk without a ``split``."""

    part: Coordinates
    low: float
    split: Step | None
    top: Step

    @property
    def end(self) -> float:
        """Above this (x) there is next to nothing, or nobody."""
        return min(self.top.end, HIGHEST + self.part.s)

    def log_p_jumps(self) -> float:
        """Log of a bound on the P-mass of what is a jump, or far."""
        return 0.0 if self.split is None else log_p_above(self.part, self.split)

    def whole(self, rate: float) -> tuple[Nodes, Outside]:
        """Nodes for all that is not far, for orders up to ``rate``, and what they leave out."""
        return self._nodes(self.low, self.end, rate), beyond(self.part, self.top)

    def bulk(self, rate: float) -> tuple[Nodes, Outside]:
        """The same for the bulk."""
        if self.split is None:
            return self.whole(rate)
        nodes = self._nodes(self.low, min(self.split.end, self.end), rate)
        return nodes.weighted(self.split.below(nodes.x)), self._outside

    def jumps(self, rate: float) -> Nodes | None:
        """Nodes for the jumps, if there can be any."""
        if self.split is None or self.split.start >= self.end:
            return None
        nodes = self._nodes(max(self.low, self.split.start), self.end, rate)
        return nodes.weighted(self.split.above(nodes.x))

    @cached_property
    def _outside(self) -> Outside:
        far, jumps = beyond(self.part, self.top), self.jumps(1.0)
        if jumps is None:
            return far
        mass = jumps.mass
        more = np.where(jumps.loss < 1.0, mass * np.expm1(np.minimum(jumps.loss, 1.0)), 0.0)
        more += np.where(jumps.loss < 1.0, 0.0, np.exp(jumps.log_mass + jumps.loss) - mass)
        return Outside(far.mass + float(mass.sum()), far.excess + float(more.sum()))

    def _nodes(self, low: float, high: float, rate: float) -> Nodes:
        bends = self.top.bends + ([] if self.split is None else self.split.bends)
        nodes = self.part.nodes(low, max(high, low + 1e-9), rate, bends=bends)
        return nodes.weighted(self.top.below(nodes.x))


def log_p_above(part: Coordinates, step: Step) -> float:
    """The logarithm of the P-mass above a step."""
    known = math.log(part.gamma) + log_upper_tail((step.place - part.s) / step.spread)
    return float(np.logaddexp(part.floor + log_upper_tail(step.place / step.spread), known))


def log_q_above(step: Step) -> float:
    """The logarithm of the Q-mass above a step."""
    return log_upper_tail(step.place / step.spread)


def beyond(part: Coordinates, step: Step) -> Outside:
    """What is above a step."""
    return Outside(
        upper_tail(step.place / step.spread), part.excess_above(step.place / step.spread, step.spread)
    )
