"""Where ``loss_grid`` cuts the losses of single coordinates, and what lies beyond the cuts.

Bulk u <= b, jumps b < u <= h, far u > h, with b and h such that what all-bulk outcomes and strays of
far ones can add to the answer is negligible (Chernoff bounds). This is the add direction's; the other
one needs less, see ``loss_remove``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_far import (
    FINEST,
    LEFT_OUT,
    SHIFTS,
    Chernoff,
    Far,
    Parts,
    log_any,
    log_kappa,
    power_below,
    rounded,
    soft_tops,
)
from csgm_cli.core.loss_ladder import best_ladder, border
from csgm_cli.core.loss_window import Step, Window
from csgm_cli.core.sliced_law import HIGHEST, LOWEST, Coordinates

if TYPE_CHECKING:
    from collections.abc import Callable

    from csgm_cli.core.loss_nodes import Nodes, Outside

Array = NDArray[np.float64]

#: How many losses are looked at as places of cuts.
_LEVELS = 80
#: Shifts are looked at up to so much further than the answer's size lets expect the saddle.
_FURTHER = 10.0
#: Log of by how much the integrand may grow where bulk is not left out.
_NOTHING_MORE = 2.0
#: The integrand's minimum is looked at more closely where it rises by more than exp of the first on a side,
#: at so many shifts and at most so often.
_STEEP, _FINER, _CLOSER = 4.0, 17, 4
#: Nodes that only find where to cut are so much fewer.
_COARSER = 8.0
#: Shifts below the saddle that are looked at, relative to it, and how much larger the integrand may be there.
_LOWER, _LARGER = (1.0, 0.85, 0.7), 30.0
#: Small and large losses have contours each where that makes the integrand smaller by exp of this.
_FAR_LARGER = 5.0


@dataclass(frozen=True)
class Cuts:
    """Where to cut, and where to integrate.

    The event is: some jump, none far (or all that is not far, where there is no split). The contour
    runs through ``shift``, not above the ``saddle``. ``log_peak``: log of the transform at the shift,
    times exp(-shift strike), and ``log_whole`` without the condition of a jump; ``mass``: a bound on the
    event's hockey-stick at any strike. ``dropped``: relative to the peak, bulk that is left out.
    ``kept``: the moments of the event. Where there is a split, ``bulk`` is what is all bulk: its moments,
    or cuts to sum it by where those leave too much.
    """

    sign: int
    strike: float
    windows: tuple[Window, ...]
    saddle: float
    shift: float
    log_peak: float
    log_whole: float
    mass: float
    dropped: float
    kept: Chernoff
    bulk: Chernoff | Cuts | None

    @property
    def pieces(self) -> list[Cuts]:
        """These, and those for what is bulk here."""
        return [self, *(self.bulk.pieces if isinstance(self.bulk, Cuts) else [])]

    @property
    def range(self) -> float:
        """Of all losses between the cuts together."""
        total = 0.0
        for window in self.windows:
            ends = [(window.low, window.end)]
            ends += [] if window.split is None else [(min(window.split.start, window.end), window.end)]
            total += sum(float(np.diff(window.part.loss(np.array(pair)))[0]) for pair in ends)
        return total


@dataclass(frozen=True)
class _Slices:
    """Transforms at real shifts (rows) of all losses below a level (columns), or up to the top.

    ``log_below``: log E[Y^a; all u <= level]. ``between``: sum of E[Y^a; level < u <= top] /
    E[Y^a; u <= level] over all coordinates.
    """

    shifts: Array
    log_below: Array
    between: Array


@dataclass(frozen=True)
class _Scan:
    """Coarse nodes and common levels (in x, one array for each part) to find cuts with."""

    parts: Parts
    nodes: list[Nodes]
    levels: list[Array]

    def slices(self, shifts: Array) -> _Slices:
        """All losses below each level, together, at these shifts."""
        shape = (shifts.size, self.levels[0].size)
        below, between = np.zeros(shape), np.zeros(shape)
        for part, nodes, levels in zip(self.parts, self.nodes, self.levels, strict=True):
            log_below, ratio = part.table(nodes, levels, 1.0 + shifts)
            with np.errstate(all="ignore"):
                below += part.count * log_below
                between += part.count * ratio
        return _Slices(shifts, below, between)


def add_cuts(
    parts: Parts, strike: float, size: float, far: Far, *, apart: bool = True
) -> Cuts | Chernoff | None:
    """Cuts for the add direction and an answer of about ``size``; None where no shift was found.

    Or the moments with none far, where their bound makes cuts needless. Small and large losses have cuts
    each where ``apart`` allows and one shift does not suit all.
    """
    shifts, split, ladder = _split(rounded(parts), strike, power_below(size), far.top)
    tops = soft_tops(parts, far.top, strike, size)
    if apart and ladder:
        found = _cuts_apart(parts, strike, size, tops, shifts, ladder)
        if found is not None:
            return found
    if split == far.top:
        hard = tuple(Window(part, LOWEST, None, top) for part, top in zip(parts, far.tops, strict=True))
        return Chernoff(shifts, _log_whole(hard, shifts))
    windows = tuple(_window(part, split, top) for part, top in zip(parts, tops, strict=True))
    return _cuts(windows, strike, size, shifts)


def _cuts_apart(
    parts: Parts, strike: float, size: float, tops: tuple[Step, ...], shifts: Array, ladder: tuple[float, ...]
) -> Cuts | None:
    """Cuts for jumps above the last of ``ladder``, and for what is bulk there; None where steps overlap."""
    split = ladder[-1] if ladder else None
    windows = tuple(_window(part, split, top) for part, top in zip(parts, tops, strict=True))
    cuts = _cuts(windows, strike, size, shifts)
    if split is None or cuts is None:
        return cuts
    steps = tuple(window.split for window in windows if window.split is not None)
    if any(step.end > top.start for step, top in zip(steps, tops, strict=True)):
        return None
    bulk = _cuts_apart(parts, strike, size, steps, shifts, ladder[:-1])
    return None if bulk is None else replace(cuts, bulk=bulk)


def _cuts(windows: tuple[Window, ...], strike: float, size: float, shifts: Array) -> Cuts | None:
    """Where to integrate with these windows."""
    seen = _Seen.of(windows, shifts)
    moments = Moments.of(seen, shifts)
    kept = _closer(Chernoff(shifts, moments.event), strike, lambda finer: Moments.of(seen, finer).event)
    saddle = saddle_of(kept, strike)
    if saddle is None:
        return None
    bulk = None if windows[0].split is None else Chernoff(shifts, moments.bulk)
    parts = tuple(window.part for window in windows)
    mass = math.exp(log_any(parts, [window.log_p_jumps() for window in windows]))
    shift = _shift(kept, strike, saddle, mass, LEFT_OUT * size)
    there = Moments.of(seen, np.array([shift]))
    log_peak, log_whole = (float(logs[0]) - shift * strike for logs in (there.event, there.whole))
    return Cuts(1, strike, windows, saddle, shift, log_peak, log_whole, mass, 0.0, kept, bulk)


@lru_cache(maxsize=64)
def _split(
    parts: Parts, strike: float, size: float, top: float
) -> tuple[Array, float | None, tuple[float, ...]]:
    """Shifts to look at, and about the highest loss that all can be below without adding to the answer.

    And losses to tell small ones from large by, if a shift for each makes far smaller integrands than one.
    """
    lowest = max(1e-7 * top, min(0.1 * parts[0].gamma, top / 2))
    losses = [*np.geomspace(lowest, top, _LEVELS).tolist()[:-1], top]
    levels = [np.array([min(part.place(u), HIGHEST + part.s) for u in losses]) for part in parts]
    finest = FINEST / (top - min(float(part.loss(np.array(LOWEST))) for part in parts))
    # About where E[Y^a] is e^(shift strike) times the answer, and further:
    finest = min(finest, _FURTHER * (5.0 - math.log(size)) / max(strike, top / _FURTHER))
    grids = [
        part.nodes(LOWEST, float(x[-1]), finest / _COARSER, x[:-1])
        for part, x in zip(parts, levels, strict=True)
    ]
    divergence = sum(part.count * part.divergence for part in parts)
    span = top + abs(strike) + divergence + math.sqrt(divergence)
    shifts = np.geomspace(0.05 / span, finest, SHIFTS)
    scan = _Scan(parts, grids, levels)
    slices = scan.slices(shifts)
    fitting = np.flatnonzero(_log_bounds(slices, strike) <= math.log(LEFT_OUT * size))
    split = losses[int(fitting[-1])] if fitting.size else None
    rest = -shifts * strike - np.log(shifts * (shifts + 1))
    together, apart = _heights_below(slices, rest, -1 if split is None else int(fitting[-1]))
    if split == top or not together - apart > _FAR_LARGER:
        return shifts, split, ()
    ladder, least = best_ladder(
        parts, grids, levels, losses, rest, shifts, soft_tops(parts, top, strike, size)
    )
    return shifts, split, ladder if together - least > _FAR_LARGER else ()


def _log_bounds(slices: _Slices, strike: float) -> Array:
    """Chernoff bounds on the hockey-stick of what is below each level."""
    terms = slices.log_below + (log_kappa(slices.shifts) - slices.shifts * strike)[:, None]
    return np.asarray(np.where(np.isfinite(terms), terms, np.inf).min(axis=0))


def _heights_below(slices: _Slices, rest: Array, split: int) -> tuple[float, float]:
    """Log of the least integrand on the real axis of jumps above a level, or of all where that is the top.

    And about the least of any two, for what is below a level and for what is not. ``rest``: log of what
    is not the transform.
    """
    with np.errstate(all="ignore"):
        few = np.log(np.expm1(np.minimum(slices.between, 30.0)))
        more = np.where(slices.between > 30.0, slices.between, few)
        bulk, jumps = (
            np.where(np.isfinite(table), table + rest[:, None], np.inf).min(axis=0)
            for table in (slices.log_below, slices.log_below + more)
        )
    return float(bulk[-1] if split < 0 else jumps[split]), float(np.logaddexp(bulk, jumps)[:-1].min())


def unsplit(cuts: Cuts, size: float) -> Cuts | None:
    """The same for all that is not far, where that is next to nothing more than the event of ``cuts``.

    Many small losses make a smooth law, of which only a part would fall slowly.
    """
    if cuts.windows[0].split is None or cuts.log_whole - cuts.log_peak > _NOTHING_MORE:
        return None
    windows = tuple(replace(window, split=None) for window in cuts.windows)
    shifts = cuts.kept.shifts
    seen = _Seen.of(windows, shifts)
    kept = Chernoff(shifts, Moments.of(seen, shifts).whole)
    kept = _closer(kept, cuts.strike, lambda finer: Moments.of(seen, finer).whole)
    saddle = saddle_of(kept, cuts.strike)
    if saddle is None:
        return None
    shift = _shift(kept, cuts.strike, saddle, 1.0, LEFT_OUT * size)
    log_peak = float(Moments.of(seen, np.array([shift])).whole[0]) - shift * cuts.strike
    return Cuts(1, cuts.strike, windows, saddle, shift, log_peak, log_peak, 1.0, 0.0, kept, None)


def _window(part: Coordinates, split: float | None, top: Step) -> Window:
    step = None if split is None else border(part, split)
    return Window(part, LOWEST, step, top)


@dataclass(frozen=True)
class _Seen:
    """Nodes of each part's bulk and of its jumps, for real orders; ``is_split`` where there can be jumps."""

    parts: list[tuple[Coordinates, tuple[Nodes, Outside], Nodes | None]]
    is_split: bool

    @staticmethod
    def of(windows: tuple[Window, ...], shifts: Array) -> _Seen:
        """For all of the shifts."""
        finest = 1.0 + float(shifts[-1])
        parts = [(window.part, window.bulk(finest), window.jumps(finest)) for window in windows]
        return _Seen(parts, windows[0].split is not None)


@dataclass(frozen=True)
class Moments:
    """Log E[Y^(1 + shift)] of what is all bulk, of what is none far, and of the event, at each shift."""

    bulk: Array
    whole: Array
    event: Array

    @staticmethod
    def of(seen: _Seen, shifts: Array) -> Moments:
        """All parts together."""
        bulk, more = np.zeros((2, shifts.size))
        orders = 1.0 + shifts
        for part, (nodes, outside), jumps in seen.parts:
            log_bulk = part.real_moments(nodes, outside, orders)
            bulk += part.count * log_bulk
            if jumps is not None:
                exponents = jumps.exponents(orders)
                peak = exponents.max(axis=1)
                with np.errstate(all="ignore"):
                    ratio = np.exp(exponents - peak[:, None]).sum(axis=1) * np.exp(peak - log_bulk)
                    more += part.count * np.log1p(ratio)
        if not seen.is_split:
            return Moments(bulk, bulk, bulk)
        with np.errstate(all="ignore"):
            few = np.log(np.expm1(np.minimum(more, 30.0)))
        return Moments(bulk, bulk + more, bulk + np.where(more > 30.0, more, few))


def _log_whole(windows: tuple[Window, ...], shifts: Array) -> Array:
    """Log E[Y^(1 + shift)] of what is none far."""
    return Moments.of(_Seen.of(windows, shifts), shifts).whole


def _heights(kept: Chernoff, strike: float) -> Array:
    """Log of the integrand on the real axis."""
    heights = kept.log_moments - kept.shifts * strike - np.log(kept.shifts * (kept.shifts + 1))
    return np.where(np.isfinite(heights), heights, np.inf)


def _shift(kept: Chernoff, strike: float, saddle: float, mass: float, negligible: float) -> float:
    """Where the contour is shortest: below the saddle, if rare large losses make aliases slow to vanish."""
    log_shifts, heights = np.log(kept.shifts), _heights(kept, strike)

    def height(shift: float) -> float:
        return float(np.interp(math.log(shift), log_shifts, heights))

    highest = height(saddle) + math.log(_LARGER)
    tried = [share * saddle for share in _LOWER if share == 1.0 or height(share * saddle) <= highest]
    return min(tried, key=lambda shift: kept.period(strike, shift, mass, negligible, 0.0))


def _closer(kept: Chernoff, strike: float, moments: Callable[[Array], Array]) -> Chernoff:
    """With shifts around the least of the integrand that tell where it is."""
    for _ in range(_CLOSER):
        finer = _around_saddle(kept, strike)
        if not finer.size:
            break
        both = np.concatenate([kept.shifts, finer])
        kept = Chernoff(both, np.concatenate([kept.log_moments, moments(finer)])).in_order()
    return kept


def _around_saddle(kept: Chernoff, strike: float) -> Array:
    """Finer shifts around the least of the integrand, where it rises too steeply to tell the vertex."""
    heights = _heights(kept, strike)
    at = int(np.argmin(heights))
    if not 0 < at < heights.size - 1 or not heights[[at - 1, at + 1]].max() - heights[at] > _STEEP:
        return np.empty(0)
    return np.setdiff1d(np.geomspace(kept.shifts[at - 1], kept.shifts[at + 1], _FINER), kept.shifts)


def saddle_of(kept: Chernoff, strike: float) -> float | None:
    """Where the integrand is smallest on the real axis: the vertex of a parabola in log shift."""
    shifts, heights = kept.shifts, _heights(kept, strike)
    at = int(np.argmin(heights))
    if not heights[at] + math.log(float(shifts[at] * (shifts[at] + 1))) < 600.0:
        return None
    if not 0 < at < shifts.size - 1 or not math.isfinite(heights[at + 1]):
        return float(shifts[at])
    left, right = float(heights[at - 1] - heights[at]), float(heights[at + 1] - heights[at])
    if not 0.0 < left + right < math.inf:  # what is next to it is infinite, or it is flat
        return float(shifts[at])
    ratio = float(shifts[at + 1] / shifts[at])
    return float(float(shifts[at]) * ratio ** ((left - right) / (2 * (left + right))))
