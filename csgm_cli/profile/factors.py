"""The law of one factor Y of the likelihood ratio, discretised on points exp(offset + step i).

`upper_factor`, for upper bounds: the mass between two neighbouring points is divided between them so that
E[Y] is preserved; the result is larger in convex order. `lower_factor`, for lower bounds: the mass of each
cell moves to a point close to its mean; means of increasing convex functions decrease (docs/theory.md,
Theorems 16 and 17).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Factor:
    """``count`` factors with ``mass`` on exp(offset + step (first + i)).

    ``tail_mass``: P(Y above the last point); ``tail_mean``: E[Y; Y above it]. ``mass`` excludes both.
    """

    count: float
    log_ratio: Array
    first: int
    offset: float
    mass: Array
    tail_mass: float
    tail_mean: float

    @cached_property
    def log_mass(self) -> Array:
        """Log of the mass."""
        with np.errstate(divide="ignore"):
            return np.log(self.mass)

    def log_moment(self, order: float) -> float:
        """Log E[Y^order] of the discretised law."""
        exponents = order * self.log_ratio + self.log_mass
        top = float(exponents.max())
        return top + math.log(float(_exp(exponents - top).sum()))

    def tilted(self, tilt: float) -> Array:
        """The mass times Y^tilt/E[Y^tilt]."""
        exponents = tilt * self.log_ratio + self.log_mass
        weights = _exp(exponents - exponents.max())
        return np.asarray(weights / weights.sum())

    def tilted_mean(self, tilt: float) -> float:
        """The mean of log Y under the tilted law."""
        return float(self.tilted(tilt) @ self.log_ratio)

    def near(self, tilt: float, limit: float) -> float:
        """The probability of log Y <= ``limit`` under the tilted law."""
        return float(self.tilted(tilt)[self.log_ratio <= limit].sum())

    def tilted_variance(self, tilt: float) -> float:
        """The variance of log Y under the tilted law."""
        weights = self.tilted(tilt)
        return float(weights @ (self.log_ratio - weights @ self.log_ratio) ** 2)


def _exp(exponents: Array) -> Array:
    """The exponential of numbers up to 0; at least 1e-260, since subnormal products are slow."""
    return np.exp(np.maximum(exponents, -600.0))


class Ratio(Protocol):
    """One kind of factor Y of the likelihood ratio: ``count`` independent ones with the same law."""

    @property
    def count(self) -> float:
        """The number of factors."""

    @property
    def bottom(self) -> float:
        """The lower end in log Y of the grid; the probability below is 0 or less than e^-90."""

    def cut(self, threshold: float, tilt: float) -> float:
        """The upper end in log Y of the grid, for a function with this threshold."""

    def cells(self, edges: Array) -> Cells:
        """The masses of the cells between ``edges``, increasing in log Y."""


class Cells(NamedTuple):
    """P(Y in cell) and E[Y; Y in cell] of each cell, and the same above the last edge (``tail_*``)."""

    mass: Array
    mean: Array
    tail_mass: float
    tail_mean: float


def upper_factor(ratio: Ratio, cut: float, step: float) -> Factor:
    """Discretise for upper bounds: divide the mass of each cell between its two ends, preserving its mean."""
    first = math.floor(ratio.bottom / step)
    log_ratio = step * (first + np.arange(math.ceil(cut / step) - first + 1, dtype=np.float64))
    mass, mean, tail_mass, tail_mean = ratio.cells(log_ratio)
    low = np.exp(log_ratio[:-1])
    width = np.maximum(low * math.expm1(step), 1e-300)  # edges below e^-745 underflow to 0
    upwards = np.clip((mean - mass * low) / width, 0.0, mass)
    points = np.append(mass - upwards, 0.0)
    points[1:] += upwards
    return Factor(ratio.count, log_ratio, first, 0.0, points, tail_mass, tail_mean)


def lower_factor(ratio: Ratio, cut: float, step: float) -> Factor:
    """Discretise for lower bounds: the mass of each cell moves to a point close to its mean.

    The grid is aligned with the mean of the heaviest cell. A cell whose mean is above its point borrows mass
    from the cell below, and one whose mean is below its point from the cell above, so that the common mean is
    the point; this can only lower means of convex functions. If the neighbour has too little mass, the cell
    moves to the next point below its mean, which can only lower means of increasing functions.
    """
    offset = _heaviest_mean(ratio, step)
    first = math.floor((ratio.bottom - offset) / step) - 1
    log_ratio = offset + step * (
        first + np.arange(math.ceil((cut - offset) / step) - first + 1, dtype=np.float64)
    )
    mass, mean, tail_mass, tail_mean = ratio.cells(np.append(log_ratio - step / 2, log_ratio[-1] + step / 2))
    # (mean of the cell)/(its point) - 1; a cell without mass has no mean
    with np.errstate(all="ignore"):
        excess = np.where(mass > 1e-290, np.expm1(np.log(mean / mass) - log_ratio), 0.0)
    up = excess > 0.0
    partner = np.where(up, np.roll(mass, 1), np.roll(mass, -1))
    below, beside = np.roll(excess, 1), np.roll(excess, -1)
    with np.errstate(all="ignore"):
        distance = np.where(up, -np.expm1(-step + np.log1p(below)), np.expm1(step + np.log1p(beside)))
        share = np.where(excess != 0.0, np.abs(excess) / distance, 0.0)
    possible = (share * mass <= 0.25 * partner) & (distance > 0.0)
    possible[[0, -1]] = False
    points, down = mass.copy(), ~possible & (excess < 0.0)
    share = np.where(possible, share, 0.0)
    borrowed = _borrowed(share, mass, up)
    points += borrowed
    points[:-1] -= np.where(up, borrowed, 0.0)[1:]
    points[1:] -= np.where(up, 0.0, borrowed)[:-1]
    moved = np.where(down, points, 0.0)
    points -= moved
    points[:-1] += moved[1:]
    return Factor(ratio.count, log_ratio, first, offset, np.maximum(points, 0.0), tail_mass, tail_mean)


def _heaviest_mean(ratio: Ratio, step: float) -> float:
    """The log of a grid point that is the mean of the cell around it, for the cell with the most mass."""
    coarse = step * np.arange(
        math.floor(ratio.bottom / step) - 1, 2, dtype=np.float64
    )  # P(Y <= 1) is above 1/2
    point = float(coarse[ratio.cells(coarse).mass.argmax()]) + step / 2
    for _ in range(20):
        mass, mean, _, _ = ratio.cells(np.array([point - step / 2, point + step / 2]))
        before = point
        point = math.log(mean[0] / mass[0]) if min(mean[0], mass[0]) > 0.0 else point
        if abs(point - before) < 1e-6 * step:
            break
    return point


def _borrowed(share: Array, mass: Array, up: NDArray[np.bool_]) -> Array:
    """Solve b_i = share_i (mass_i - mass that the neighbours borrow from cell i)."""
    bands = np.zeros((3, mass.size))
    bands[0, 1:] = share[:-1] * up[1:]  # the cell above borrows from this one
    bands[1] = 1.0
    bands[2, :-1] = share[1:] * ~up[:-1]
    return np.asarray(solve_banded((1, 1), bands, share * mass))
