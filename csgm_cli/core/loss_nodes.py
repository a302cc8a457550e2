"""Quadrature nodes for the loss of one coordinate-round, and sums over them up to many levels at once.

No array for them is larger than memory and time allow: where one would have to be, there is no answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: How many nodes are laid out at most, and how many terms, one for each node and order, are held at once.
MOST_NODES, _MOST_TERMS = 2_000_000, 8_000_000
#: So many terms are worked on at a time: they fit a cache, and what is larger gets new memory each time.
_CACHED = 20_000
#: Exp of less than this is 0, or as good as 0: it would underflow, and take ten times as long.
_LEAST_LOG = -708.0
#: Sums of terms relative to the largest of all are not trusted below this.
_UNDERFLOWN = 1e-250


class TooManyNodesError(ArithmeticError):
    """To resolve the loss would take more nodes, or terms, than are reasonable."""


@dataclass(frozen=True)
class Rule:
    """Gauss-Legendre quadrature, and the longest panel over which it is exact to 1e-16.

    The ``swing`` of an exponent there, the ``width`` in units of what normal densities and steps change
    over, and the number of panels, ``singular``, as long as the distance of the singularity of log Y.
    """

    points: Array
    weights: Array
    swing: float
    width: float
    singular: float


LONG = Rule(*leggauss(32), 40.0, 5.0, 0.5)
#: Where panels end at many levels.
SHORT = Rule(*leggauss(16), 14.0, 3.0, 1.5)


def panel_ends(x: Array, panels: Array, rule: Rule) -> Array:
    """The ends of panels from the first to the last of ascending ``x``, where ``panels`` counts them.

    Raises `TooManyNodesError` where there would be more than `MOST_NODES`.
    """
    total = float(panels[-1] - panels[0])
    if not total * rule.points.size <= MOST_NODES:
        raise TooManyNodesError
    count = max(1, math.ceil(total))
    ends = np.interp(np.arange(count + 1) * (total / count), panels - panels[0], x)
    ends[0], ends[-1] = x[0], x[-1]
    return np.asarray(ends)


@dataclass(frozen=True)
class Nodes:
    """Quadrature nodes in x, their losses, and the logarithms of their Q-masses."""

    x: Array
    loss: Array
    log_mass: Array

    def exponents(self, orders: Array) -> Array:
        """Log of Y^a times the masses: a row for each of the real ``orders`` a.

        Raises `TooManyNodesError` where these are more than fit.
        """
        if orders.size * self.x.size > _MOST_TERMS:
            raise TooManyNodesError
        result = orders[:, None] * self.loss
        result += self.log_mass
        return result

    def blocks(self, orders: Array) -> list[Array]:
        """The ``orders`` in blocks whose exponents fit in a cache: what is done with them is soon done.

        Raises `TooManyNodesError` as `exponents` of all does.
        """
        if orders.size * self.x.size > _MOST_TERMS:
            raise TooManyNodesError
        rows = max(1, _CACHED // self.x.size)
        return [orders[first : first + rows] for first in range(0, orders.size, rows)]

    @cached_property
    def mass(self) -> Array:
        """The masses, 0 where they are as good as 0."""
        return np.exp(np.maximum(self.log_mass, _LEAST_LOG)) * (self.log_mass > _LEAST_LOG)

    def weighted(self, weights: Array) -> Nodes:
        """With masses times ``weights`` >= 0, without those of 0."""
        kept = weights > 0.0
        return Nodes(self.x[kept], self.loss[kept], self.log_mass[kept] + np.log(weights[kept]))

    def some(self, which: NDArray[np.bool_]) -> Nodes:
        """Those of them."""
        return Nodes(self.x[which], self.loss[which], self.log_mass[which])


@dataclass(frozen=True)
class Outside:
    """What nodes leave out: ``mass`` E_Q[1; left out] and ``excess`` E_Q[Y - 1; left out]."""

    mass: float
    excess: float


@dataclass(frozen=True)
class Pieces:
    """Terms in pieces that end at some cuts: where each ``starts``, and how many are ``before`` each cut."""

    starts: NDArray[np.intp]
    before: NDArray[np.intp]

    @property
    def all_before(self) -> bool:
        """True if all terms are before all cuts."""
        return bool((self.before == self.starts.size).all())

    @staticmethod
    def of(at: NDArray[np.intp], count: int) -> Pieces:
        """Of ``count`` terms; of these there are ``at`` before the cuts."""
        starts = np.unique(np.concatenate([[0], at[at < count]]))
        return Pieces(starts, np.searchsorted(starts, at))


def sums_around(terms: Array, pieces: Pieces) -> tuple[Array, Array]:
    """Row by row: for each cut the sum of the terms before it, and the sum of the others."""
    sums = np.add.reduceat(terms, pieces.starts, axis=1)
    return _running(sums)[:, pieces.before], _running(sums[:, ::-1])[:, ::-1][:, pieces.before]


def sums_before(terms: Array, pieces: Pieces) -> Array:
    """The first of these alone."""
    return _running(np.add.reduceat(terms, pieces.starts, axis=1))[:, pieces.before]


def _running(sums: Array) -> Array:
    """0, the first of a row, the first two, ..., all."""
    result = np.zeros((sums.shape[0], sums.shape[1] + 1))
    np.cumsum(sums, axis=1, out=result[:, 1:])
    return result


def log_sums_around(exponents: Array, peaks: Array, pieces: Pieces) -> tuple[Array, Array]:
    """Logs of what `sums_around` gives for exp(``exponents``); ``peaks`` are the largest of each row."""
    terms = exponents - peaks[:, None]
    np.maximum(terms, _LEAST_LOG, out=terms)
    before, others = sums_around(np.exp(terms, out=terms), pieces)
    log_before, log_others = peaks[:, None] + np.log(before), peaks[:, None] + np.log(others)
    lost = (before < _UNDERFLOWN).any(axis=1)
    if lost.any():
        log_before[lost], log_others[lost] = _log_sums_by_piece(exponents[lost], pieces)
    return log_before, log_others


def _log_sums_by_piece(exponents: Array, pieces: Pieces) -> tuple[Array, Array]:
    """The same with each piece relative to its own largest term."""
    logs = log_pieces(exponents, pieces.starts)
    nothing = np.full((exponents.shape[0], 1), -np.inf)
    left = np.concatenate([nothing, np.logaddexp.accumulate(logs, axis=1)], axis=1)
    right = np.concatenate([np.logaddexp.accumulate(logs[:, ::-1], axis=1)[:, ::-1], nothing], axis=1)
    return left[:, pieces.before], right[:, pieces.before]


def log_pieces(exponents: Array, starts: NDArray[np.intp]) -> Array:
    """The logarithms of the sums of exp(``exponents``) from each of ``starts`` to the next, row by row."""
    peaks = np.maximum.reduceat(exponents, starts, axis=1)
    around = np.repeat(peaks, np.diff(starts, append=exponents.shape[1]), axis=1)
    return np.asarray(peaks + np.log(np.add.reduceat(np.exp(exponents - around), starts, axis=1)))
