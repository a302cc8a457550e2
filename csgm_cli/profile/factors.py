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
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded
from scipy.special import ndtr

from csgm_cli.renyi.moment import LARGEST_EXPONENT

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Coordinates

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Factor:
    """``count`` factors with ``mass`` on exp(offset + step (first + i)).

    ``beyond``: P(Y beyond the last point); ``above``: E[Y; Y beyond the last point]. ``mass`` excludes both.
    """

    count: float
    log_ratio: Array
    first: int
    offset: float
    mass: Array
    beyond: float
    above: float

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

    def near(self, tilt: float, limit: float) -> float:
        """The probability of log Y <= ``limit`` under the tilted law."""
        return float(self.tilted(tilt)[self.log_ratio <= limit].sum())

    def tilted_variance(self, tilt: float) -> float:
        """The variance of log Y under the tilted law."""
        weights = self.tilted(tilt)
        return float(weights @ (self.log_ratio - weights @ self.log_ratio) ** 2)


def _exp(exponents: Array) -> Array:
    """The exponential of numbers up to 0; at least 1e-300, since subnormal numbers are slow."""
    return np.exp(np.maximum(exponents, -690.0))


def _cells(c: Coordinates, edges: Array, *, opposite: bool) -> tuple[Array, Array, float, float]:
    """P(Y in cell) and E[Y; Y in cell] of the cells between edges of log Y, and the same above the last edge.

    Y is the likelihood ratio of a client's coordinate x to its absence; if ``opposite``, to -x.
    """
    s, g = math.sqrt(c.t), c.gamma
    z = _crossing(c, edges, opposite=opposite)
    # under the law with the client a coordinate that is sent has mean s, under the base law -s or 0
    rest, sent, base = _between(z), _between(z - s), _between(z + s) if opposite else _between(z)
    last = float(z[-1])
    beyond, beyond_sent, beyond_base = ndtr(-last), ndtr(s - last), ndtr(-last - s if opposite else -last)
    mass = (1 - g) * rest + g * base if opposite else rest
    above = float((1 - g) * beyond + g * beyond_sent)
    return mass, (1 - g) * rest + g * sent, float((1 - g) * beyond + g * beyond_base), above


def _between(z: Array) -> Array:
    """The standard normal probabilities between neighbouring ``z``, from the tail that is more accurate."""
    return np.asarray(np.where(z[1:] < 0.0, np.diff(ndtr(z)), -np.diff(ndtr(-z))))


def _crossing(c: Coordinates, edges: Array, *, opposite: bool) -> Array:
    """The standardised noise at which log Y crosses each edge; -infinity if it is always above the edge."""
    s, g = math.sqrt(c.t), c.gamma
    with np.errstate(all="ignore"):
        if not opposite:
            return np.asarray((_log_sent(edges, g) + c.t / 2) / s)
        # With X = e^(s z): (1-g + h X)/(1-g + h/X) = e^edge, h = g e^(-t/2), a quadratic equation for X
        log_h, size = math.log(g) - c.t / 2, np.abs(edges)
        log_half, log_product = np.log((1 - g) * np.expm1(size) / 2), log_h + size / 2
        top = np.maximum(log_half, log_product)
        half = np.exp(log_half - top)
        root = top - log_h + np.log(half + np.hypot(half, np.exp(log_product - top)))
        return np.asarray(np.where(edges >= 0.0, root, -root) / s)  # Y at -z is 1/Y at z


def _log_sent(edges: Array, g: float) -> Array:
    """Log of the M at which Y = 1 - g + g M is e^edge; -infinity if there is none.

    Each form avoids cancellation for its range of g.
    """
    if g == 1.0:
        return edges
    sent = np.expm1(edges) + g if g < 0.5 else np.exp(edges) - (1.0 - g)
    return np.asarray(np.log(np.maximum(sent / g, 0.0)))


def upper_factor(c: Coordinates, cut: float, step: float, *, opposite: bool = False) -> Factor:
    """Discretise for upper bounds: divide the mass of each cell between its two ends, preserving its mean."""
    first = math.floor(bottom(c, opposite=opposite) / step)
    log_ratio = step * (first + np.arange(math.ceil(cut / step) - first + 1, dtype=np.float64))
    mass, mean, beyond, above = _cells(c, log_ratio, opposite=opposite)
    low = np.exp(log_ratio[:-1])
    width = np.maximum(low * math.expm1(step), 1e-300)  # edges below e^-745 underflow to 0
    upwards = np.clip((mean - mass * low) / width, 0.0, mass)
    points = np.append(mass - upwards, 0.0)
    points[1:] += upwards
    return Factor(c.count, log_ratio, first, 0.0, points, beyond, above)


def lower_factor(c: Coordinates, cut: float, step: float, *, opposite: bool = False) -> Factor:
    """Discretise for lower bounds: the mass of each cell moves to a point close to its mean.

    The grid is aligned with the mean of the heaviest cell. A cell whose mean is above its point borrows mass
    from the cell below, and one whose mean is below its point from the cell above, so that the common mean is
    the point; this can only lower means of convex functions. If the neighbour has too little mass, the cell
    moves to the next point below its mean, which can only lower means of increasing functions.
    """
    offset = _heaviest_mean(c, step, opposite=opposite)
    first = math.floor((bottom(c, opposite=opposite) - offset) / step) - 1
    log_ratio = offset + step * (
        first + np.arange(math.ceil((cut - offset) / step) - first + 1, dtype=np.float64)
    )
    mass, mean, beyond, above = _cells(
        c, np.append(log_ratio - step / 2, log_ratio[-1] + step / 2), opposite=opposite
    )
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
    return Factor(c.count, log_ratio, first, offset, np.maximum(points, 0.0), beyond, above)


def _heaviest_mean(c: Coordinates, step: float, *, opposite: bool) -> float:
    """The log of a grid point that is the mean of the cell around it, for the cell with the most mass."""
    coarse = step * np.arange(
        math.floor(bottom(c, opposite=opposite) / step) - 1, 2, dtype=np.float64
    )  # P(Y <= 1) is above 1/2
    point = float(coarse[_cells(c, coarse, opposite=opposite)[0].argmax()]) + step / 2
    for _ in range(20):
        mass, mean, _, _ = _cells(c, np.array([point - step / 2, point + step / 2]), opposite=opposite)
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


def bottom(c: Coordinates, *, opposite: bool = False) -> float:
    """The lower end in log Y of the grid of one factor; the probability below is 0 or less than e^-90.

    With ``opposite``, which is used only for lower bounds, the probability below is omitted.
    """
    s = math.sqrt(c.t)
    if opposite:
        return -_log_ratio_at(c, 8.0 + s, opposite=True)
    return math.log1p(-c.gamma) if c.gamma < 1.0 else -c.t / 2 - 13.5 * s


def reach(c: Coordinates, tilt: float, *, opposite: bool = False) -> float:
    """The upper end in log Y of a factor's grid: above are e^-30 of the tilted law, or e^-98 of the law."""
    shift = min(max(tilt, 1.0) * math.sqrt(c.t), 6.0 + math.sqrt(c.t))
    return _log_ratio_at(c, 8.0 + shift * (1.0 + c.gamma if opposite else 1.0), opposite=opposite)


def _log_ratio_at(c: Coordinates, z: float, *, opposite: bool) -> float:
    """Log Y at the standardised noise z; at most `LARGEST_EXPONENT`."""
    log_rest = math.log1p(-c.gamma) if c.gamma < 1.0 else -math.inf
    log_sent, s = math.log(c.gamma) - c.t / 2, math.sqrt(c.t)
    above = float(np.logaddexp(log_rest, log_sent + s * z))
    return min(
        above - float(np.logaddexp(log_rest, log_sent - s * z)) if opposite else above, LARGEST_EXPONENT
    )
