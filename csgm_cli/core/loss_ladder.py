"""Where small and large losses are told apart, so that each have a contour of their own.

Losses of single coordinates have a lognormal tail: tilted by Y^a, at an order a that many small ones
together call for, what is just below the top outweighs everything, although it hardly adds to the
answer. With borders b_1 < b_2 < ... up to the top, each outcome belongs to the interval that its
largest loss is in. What is in (b, c] has E[Y^a; all <= c] - E[Y^a; all <= b] for its transform, and
its own least integrand on the real axis. The borders chosen make the sum of these about the least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = NDArray[np.float64]

#: Borders at most, and by exp of how much another one has to lower the sum.
_MOST, _WORTH = 4, 3.0


def best_ladder(
    counts: Sequence[float], between: Sequence[Array], heights: Array, fits: NDArray[np.bool_]
) -> tuple[list[int], float]:
    """Indices of levels below the last that are the best borders, and the log of the sum with them.

    ``between``: for each part log E[Y^a; between one level and the next], shifts in rows.
    ``heights``: log of the rest of the integrand. ``fits``: whether two levels are far enough apart.
    """
    costs = _costs(counts, between, heights)
    size = costs.shape[1]
    sums, before = [costs[0]], []
    for _ in range(_MOST):
        added = np.logaddexp(sums[-1][:, None], np.where(fits, costs[1:], np.inf))
        before.append(np.argmin(added, axis=0))
        sums.append(added.min(axis=0))
    totals = np.array([column[-1] for column in sums])
    number, at, found = int(np.argmin(totals + _WORTH * np.arange(totals.size))), size - 1, []
    for previous in reversed(before[:number]):
        at = int(previous[at])
        found.append(at)
    return found[::-1], float(totals[number])


def _costs(counts: Sequence[float], between: Sequence[Array], heights: Array) -> Array:
    """Log of the least integrand of (first row) all up to a level, or what is also above another (rows)."""
    size = between[0].shape[1]
    costs = np.full((size + 1, size), np.inf)
    with np.errstate(all="ignore"):
        below = [np.logaddexp.accumulate(logs, axis=1) for logs in between]
        whole = sum(count * logs for count, logs in zip(counts, below, strict=True))
        costs[0] = _least(np.asarray(whole) + heights[:, None])
        for i in range(size - 1):
            more = np.zeros((heights.size, size - 1 - i))
            for count, logs, under in zip(counts, between, below, strict=True):
                ratio = np.logaddexp.accumulate(logs[:, i + 1 :], axis=1) - under[:, i, None]
                more += count * np.logaddexp(0.0, ratio)
            few = np.log(np.expm1(np.minimum(more, 30.0)))
            total = np.asarray(whole)[:, i, None] + np.where(more > 30.0, more, few)
            costs[i + 1, i + 1 :] = _least(total + heights[:, None])
    return costs


def _least(logs: Array) -> Array:
    return np.asarray(np.where(np.isfinite(logs), logs, np.inf).min(axis=0))
