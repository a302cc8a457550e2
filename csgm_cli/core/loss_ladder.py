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

from csgm_cli.core.loss_window import Step, step_beside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from csgm_cli.core.loss_nodes import Nodes
    from csgm_cli.core.sliced_law import Coordinates

Array = NDArray[np.float64]

#: Borders at most, and by exp of how much another one has to lower the sum.
_MOST, _WORTH = 4, 3.0
#: Every second loss is looked at, and steps have some room (x) between them.
_EVERY, _ROOM = 2, 0.1
#: The step at a border goes down to this share of its loss.
_DEEP = 4.0


def border(part: Coordinates, loss: float) -> Step:
    """The step at a border."""
    return step_beside(part, loss, loss / _DEEP)


def best_ladder(
    parts: Sequence[Coordinates],
    nodes: Sequence[Nodes],
    levels: Sequence[Array],
    losses: Sequence[float],
    rest: Array,
    shifts: Array,
    tops: Sequence[Step],
) -> tuple[tuple[float, ...], float]:
    """The best borders among all but the last of ``losses``, and the log of the sum with them.

    ``nodes`` and ``levels``, the x of the losses, are of each part, ``tops`` its steps on top. ``rest``
    is the log of what is not the transform, at each of ``shifts``.
    """
    rungs = [*range(0, len(losses) - 1, _EVERY), len(losses) - 1]
    between = [
        part.between(grid, x[rungs], 1.0 + shifts) for part, grid, x in zip(parts, nodes, levels, strict=True)
    ]
    costs = _costs([part.count for part in parts], between, rest)
    found, least = _cheapest(costs, _apart(parts, [losses[rung] for rung in rungs], tops))
    return tuple(losses[rungs[i]] for i in found), least


def _apart(parts: Sequence[Coordinates], losses: list[float], tops: Sequence[Step]) -> NDArray[np.bool_]:
    """Whether the step at a loss (rows) ends well below where that at another (columns) begins."""
    result = np.ones((len(losses), len(losses)), dtype=bool)
    for part, top in zip(parts, tops, strict=True):
        steps = [border(part, loss) for loss in losses]
        starts = np.array([*(step.start for step in steps[:-1]), top.start])
        result &= np.array([step.end for step in steps])[:, None] + _ROOM < starts
    result[-1] = False
    return result


def _cheapest(costs: Array, fits: NDArray[np.bool_]) -> tuple[list[int], float]:
    """Indices of the best levels below the last, and the log of the sum of costs with them."""
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
