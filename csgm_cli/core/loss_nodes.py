"""Quadrature nodes for the loss of one coordinate-round, and sums over them up to many levels at once.

No array for them is larger than memory and time allow: where one would have to be, there is no answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: How many nodes are laid out at most, and how many terms, one for each node and order, are held at once.
MOST_NODES, _MOST_TERMS = 2_000_000, 8_000_000


class TooManyNodesError(ArithmeticError):
    """To resolve the loss would take more nodes, or terms, than are reasonable."""


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
        return orders[:, None] * self.loss + self.log_mass

    def weighted(self, weights: Array) -> Nodes:
        """With masses times ``weights`` >= 0, without those of 0."""
        kept = weights > 0.0
        return Nodes(self.x[kept], self.loss[kept], self.log_mass[kept] + np.log(weights[kept]))


@dataclass(frozen=True)
class Outside:
    """What nodes leave out: ``mass`` E_Q[1; left out] and ``excess`` E_Q[Y - 1; left out]."""

    mass: float
    excess: float


def sums_around(terms: Array, at: NDArray[np.intp]) -> tuple[Array, Array]:
    """Row by row: for each entry of ``at`` the sum of that many terms, and the sum of the others."""
    starts = np.unique(np.concatenate([[0], at[at < terms.shape[1]]]))
    pieces, nothing = np.add.reduceat(terms, starts, axis=1), np.zeros((terms.shape[0], 1))
    left = np.concatenate([nothing, np.cumsum(pieces, axis=1)], axis=1)
    right = np.concatenate([np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1], nothing], axis=1)
    places = np.searchsorted(starts, at)
    return left[:, places], right[:, places]


def log_sums_around(exponents: Array, at: NDArray[np.intp]) -> tuple[Array, Array]:
    """Logs of what `sums_around` gives for exp(``exponents``), each piece relative to its largest term."""
    starts = np.unique(np.concatenate([[0], at[at < exponents.shape[1]]]))
    pieces = log_pieces(exponents, starts)
    nothing = np.full((exponents.shape[0], 1), -np.inf)
    left = np.concatenate([nothing, np.logaddexp.accumulate(pieces, axis=1)], axis=1)
    right = np.logaddexp.accumulate(pieces[:, ::-1], axis=1)[:, ::-1]
    places = np.searchsorted(starts, at)
    return left[:, places], np.concatenate([right, nothing], axis=1)[:, places]


def log_pieces(exponents: Array, starts: NDArray[np.intp]) -> Array:
    """The logarithms of the sums of exp(``exponents``) from each of ``starts`` to the next, row by row."""
    peaks = np.maximum.reduceat(exponents, starts, axis=1)
    around = np.repeat(peaks, np.diff(starts, append=exponents.shape[1]), axis=1)
    return np.asarray(peaks + np.log(np.add.reduceat(np.exp(exponents - around), starts, axis=1)))
