"""Maxima over participation patterns: at most k steps out of T, consecutive ones at least b apart.

Weights are nonnegative, so further participations never decrease a sum.
"""

# ruff: noqa: N806 - T is the name in every formula

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from csgm_cli.factorization.participation.gram import Gram

Array = NDArray[np.float64]


def longest(T: int, separation: int) -> int:  # noqa: N803 - as above
    """The largest number of participations, ceil(T / separation)."""
    return -(-T // separation)


def heaviest(weights: Array, k: int, separation: int) -> float:
    """Max over patterns of the sum of ``weights`` (T,), O(T k)."""
    T = len(weights)
    if weights.min() == weights.max():
        return min(k, longest(T, separation)) * float(weights[0])
    limited = k < longest(T, separation)
    # best[c] after step i: max over at most c participations up to i (over any number if k is not a limit).
    recent = deque([np.zeros(k + 1 if limited else 1)] * separation, maxlen=separation)
    for weight in weights:
        best, before = recent[-1].copy(), recent[0]
        taken = before[:-1] if limited else before
        np.maximum(best[1:] if limited else best, taken + weight, out=best[1:] if limited else best)
        recent.append(best)
    return float(recent[-1][-1])


def heaviest_path(gram: Gram, k: int) -> float:
    """Max over patterns of sum |X_ij|, where X_ij = 0 for |i - j| >= 2 b: only neighbours overlap."""
    overlaps, b = np.abs(gram.overlaps), gram.separation
    T = gram.T
    best = gram.diagonal.copy()  # over patterns of c participations that end at step i
    for _ in range(min(k, longest(T, b)) - 1):
        farthest = np.maximum.accumulate(best)
        ahead = np.full(T, -np.inf)
        reach = b + len(overlaps)
        ahead[reach:] = farthest[: max(0, T - reach)]
        for e, overlap in enumerate(overlaps):
            gap = b + e
            np.maximum(ahead[gap:], best[: T - gap] + 2.0 * overlap[: T - gap], out=ahead[gap:])
        best = np.maximum(best, gram.diagonal + ahead)
    return float(best.max())


def row_sums(gram: Gram, k: int) -> Array:
    """For each step i the max over patterns with i of sum_j |X_ij|, O(T^2 k), or O(T^2) for k = ceil(T/b)."""
    overlaps, b = np.abs(gram.overlaps), gram.separation
    earlier = np.zeros_like(overlaps)
    for e, row in enumerate(overlaps):
        earlier[e, b + e :] = row[: gram.T - b - e]
    if k >= longest(gram.T, b):
        return np.asarray(gram.diagonal + _one_side(overlaps, b)[0] + _one_side(earlier, b)[0])
    after, before = (_one_side(side, b, k - 1) for side in (overlaps, earlier))
    return np.asarray(gram.diagonal + (after + before[::-1]).max(axis=0))


def _one_side(overlaps: Array, b: int, most: int | None = None) -> Array:
    """The largest sums over at most 0, 1, ..., ``most`` participations on one side: (most + 1, T).

    Row e of ``overlaps`` is what a participation at distance b + e adds. Without ``most``: over any number of
    participations, (1, T).
    """
    recent = deque([np.zeros(((most or 0) + 1, overlaps.shape[1]))] * b, maxlen=b)
    for row in overlaps[::-1]:
        best, beyond = recent[-1].copy(), recent[0]
        if most is None:
            np.maximum(best, beyond + row, out=best)
        else:
            np.maximum(best[1:], beyond[:-1] + row, out=best[1:])
        recent.append(best)
    return recent[-1]
