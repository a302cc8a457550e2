"""Where ``loss_grid`` cuts the losses of single coordinates, and what lies beyond the cuts.

Add direction: bulk u <= b, jumps b < u <= h, far u > h, with b and h such that what all-bulk
outcomes and strays of far ones can add to the answer is negligible (Chernoff bounds). Remove
direction: only the top, which Y^-shift makes negligible, is cut off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.sliced_law import HIGHEST, LOWEST, Coordinates, Nodes, excess, log_upper_tail, upper_tail

Array = NDArray[np.float64]
Parts = tuple[Coordinates, ...]

#: What may be left to Chernoff bounds, relative to the answer.
LEFT_OUT = 1e-8
#: Nothing below this is told from 0: well below the smallest delta that csgm accepts, so that this one is
#: told from all that are smaller.
SMALLEST = 1e-303
_SHIFTS, _LEVELS = 32, 80
#: Shifts below the saddle that are looked at, relative to it, and how much larger the integrand may be there.
_LOWER, _LARGER = (1.0, 0.85, 0.7), 30.0
#: The largest shift looked at, times the range of the losses.
_FINEST = 4000.0
#: Strikes up to so much higher, relative, share the cuts of one strike.
_ABOVE = 0.015
#: Bulk that weighs this little at the shift is dropped; x above which Y^-shift is damped out.
_DROPPED, _DAMPED_OUT = 1e-12, 12.0


@dataclass(frozen=True)
class Chernoff:
    """The logarithms of E[Y^(1 + shift); event] (add) or E[Y^-shift; event], infinite where unknown.

    (y - k)_+ <= K y^(1+s) k^-s and (k - y)_+ <= K y^-s k^(1+s) with K = s^s / (1+s)^(1+s), s > 0.
    """

    shifts: Array
    log_moments: Array

    def log_bound(self, strike: float) -> float:
        """For E[(Y - k)_+; event] with log k = ``strike``, or E[(1 - Y/k)_+; event] with -``strike``."""
        return self._least(log_kappa(self.shifts) - self.shifts * strike)

    def log_mixture_bound(self, strike: float) -> float:
        """For Y log(Y/v) - Y + v = int_v^inf (Y - k)_+ dk/k on Y > v, log v = ``strike``."""
        return self._least(log_kappa(self.shifts) - self.shifts * strike - np.log(self.shifts))

    def log_far_aliases(self, strike: float, shift: float, period: float, variance: float) -> float:
        """For sum_{m >= 1} exp(shift m period) A(strike + m period), A with a blur of ``variance``."""
        gap = np.maximum((self.shifts - shift) * period, 1e-6)
        terms = log_kappa(self.shifts) - self.shifts * strike - gap - np.log(-np.expm1(-gap))
        blurred = terms + self.shifts * (self.shifts + 1) * (variance / 2)
        return self._least(np.where(self.shifts > shift, blurred, np.inf))

    def _least(self, terms: Array) -> float:
        total = self.log_moments + terms
        return float(np.where(np.isfinite(total), total, np.inf).min())

    def period(self, strike: float, shift: float, mass: float, negligible: float, variance: float) -> float:
        """How far apart aliases have to be in the loss to be at most ``negligible``, or a bit farther.

        Those at lower strikes are at most ``mass``, seen through exp(-shift period).
        """
        log_negligible = math.log(negligible)
        period = (max(0.0, math.log(max(mass, SMALLEST)) - log_negligible) + 2.0) / shift
        while period * shift < 3000.0:
            if self.log_far_aliases(strike, shift, period, variance) <= log_negligible:
                break
            period *= 1.2
        return period


def log_kappa(shift: Array) -> Array:
    """The logarithm of K, see `Chernoff`."""
    return np.asarray(shift * np.log(shift) - (1 + shift) * np.log1p(shift))


@dataclass(frozen=True)
class Far:
    """The event that some coordinate is above its entry of ``tops`` (x); all of these at loss ``top``.

    ``rounding`` bounds the error of p, and of e^top q.
    """

    parts: Parts
    top: float
    tops: tuple[float, ...]
    p: float
    log_q: float
    rounding: float

    def error(self, strike: float) -> float:
        """A bound on the rounding of p, and of e^strike q."""
        return self.rounding * math.exp(max(0.0, strike - self.top))

    def stray(self, strike: float) -> float:
        """A bound on E_Q[(k - Y)_+; far], log k = ``strike``."""
        return math.exp(_log_stray(self.parts, self.top, strike))

    @cached_property
    def mean_loss(self) -> float:
        """E_P[L; far]: the far coordinates' own losses, and those of the others beside them."""
        total = 0.0
        for part, top in zip(self.parts, self.tops, strict=True):
            p = math.exp(part.log_p_above(top))
            beside = 1.0 if p >= 1.0 else (self.p - p) / (1.0 - p)  # P(some other coordinate is far)
            total += part.count * (_mean_above(part, top) + max(beside, 0.0) * _mean_below(part, top))
        return total


def _mean_above(part: Coordinates, x: float) -> float:
    """E_P[log Y; above x]."""
    end = HIGHEST + part.s
    if x >= end:
        return 0.0
    nodes = part.nodes(x, end, 1.0)
    return float((np.exp(nodes.log_mass + nodes.loss) * nodes.loss).sum())


def _mean_below(part: Coordinates, x: float) -> float:
    """E_P[log Y; below x], from Y log Y = (Y log Y - Y + 1) + (Y - 1)."""
    nodes = part.nodes(LOWEST, min(x, HIGHEST + part.s), 1.0)
    return float((np.exp(nodes.log_mass + nodes.loss) * excess(-nodes.loss)).sum()) - part.excess_above(x)


@dataclass(frozen=True)
class Cuts:
    """Where to cut, and where to integrate; places are x, one for each part.

    The event is: some u above its split, none above its top (all of them below it where there is
    no split). The contour runs through ``shift``, not above the ``saddle``. ``log_peak``: log of the
    transform at the shift, times exp(-shift strike); ``mass``: a bound on the event's hockey-stick at
    any strike. ``dropped``: relative to the peak, bulk above the cores. ``kept`` and ``bulk``: the
    moments of the event, and of what is all bulk where there is a split.
    """

    sign: int
    strike: float
    parts: Parts
    lows: tuple[float, ...]
    cores: tuple[float, ...]
    splits: tuple[float, ...] | None
    tops: tuple[float, ...]
    saddle: float
    shift: float
    log_peak: float
    mass: float
    dropped: float
    kept: Chernoff
    bulk: Chernoff | None

    @property
    def range(self) -> float:
        """Of all losses between the cuts together."""
        spans = [(low, core) for low, core in zip(self.lows, self.cores, strict=True)]
        spans += [] if self.splits is None else list(zip(self.splits, self.tops, strict=True))
        parts = self.parts if self.splits is None else self.parts * 2
        ends = [part.loss(np.array(span)) for part, span in zip(parts, spans, strict=True)]
        return sum(float(end[1] - end[0]) for end in ends)


def log_any(parts: Parts, log_masses: Sequence[float]) -> float:
    """The logarithm of P(some coordinate is where the masses say) = 1 - prod (1 - mass)^count."""
    rates = [
        math.log(part.count) + (m if m < -30.0 else math.log(-math.log1p(-math.exp(min(m, -1e-16)))))
        for part, m in zip(parts, log_masses, strict=True)
    ]
    log_rate = float(np.logaddexp.reduce(rates))
    return log_rate if log_rate < -30.0 else math.log(-math.expm1(-math.exp(min(log_rate, 700.0))))


def far_event(parts: Parts, strike: float, size: float) -> Far:
    """Far with the lowest top whose strays are negligible next to ``size``, also for strikes a bit higher."""
    highest = strike + _ABOVE * abs(strike)
    low = max(highest, 0.0)
    high = low + max(float(part.loss(np.array(HIGHEST + part.s))) for part in parts)
    limit = math.log(LEFT_OUT * size)
    for _ in range(55):
        middle = (low + high) / 2
        low, high = (low, middle) if _log_stray(parts, middle, highest) <= limit else (middle, high)
    xs = tuple(part.place(high) for part in parts)
    p = math.exp(log_any(parts, [part.log_p_above(x) for part, x in zip(parts, xs, strict=True)]))
    log_q = log_any(parts, [log_upper_tail(x) for x in xs])
    steepest = max([0.0, *(x * x for part, x in zip(parts, xs, strict=True) if x < HIGHEST + part.s)])
    return Far(parts, high, xs, p, log_q, p * (1e-14 + 1e-15 * steepest))


def _log_stray(parts: Parts, top: float, strike: float) -> float:
    """Log of a bound on E_Q[(k - Y)_+; some u above ``top``], by the Chernoff bounds of the other losses."""
    others = (sum(part.count for part in parts) - 1.0) * parts[0].floor
    if top + others >= strike:
        return -math.inf
    log_qs = [math.log(part.count) + log_upper_tail(part.place(top)) for part in parts]
    negative = min(0.0, _negative_moments(parts).log_bound(top - strike))
    return strike + min(0.0, float(np.logaddexp.reduce(log_qs)) + negative)


@lru_cache(maxsize=8)
def _negative_moments(parts: Parts) -> Chernoff:
    """E_Q[Y^-shift] of the whole loss, which is at least 1."""
    shifts = np.geomspace(1e-3, _FINEST / _depth(parts), _SHIFTS)
    total = np.zeros(_SHIFTS)
    for part in parts:
        nodes = part.nodes(part.lowest(float(shifts[-1])), _DAMPED_OUT, float(shifts[-1]), damped=True)
        log_moments, _ = part.table(nodes, np.array([_DAMPED_OUT]), -shifts)
        log_moments = np.logaddexp(log_moments[:, 0], math.log(upper_tail(_DAMPED_OUT)))
        total += part.count * np.where(_reached(part, shifts), np.maximum(log_moments, 0.0), np.inf)
    return Chernoff(shifts, total)


def _depth(parts: Parts) -> float:
    """How negative the loss of one coordinate gets."""
    return max(-float(part.loss(np.array(part.lowest(math.inf)))) for part in parts)


def _reached(part: Coordinates, shifts: Array) -> NDArray[np.bool_]:
    return np.array([part.reached(shift) for shift in shifts.tolist()])


@dataclass(frozen=True)
class _Slices:
    """Transforms at real shifts (rows) of all losses below a level (columns), or up to the top.

    ``log_below``: log E[Y^a; all u <= level]. ``log_more``: log of the factor of going on to the top.
    ``between``: sum of E[Y^a; level < u <= top] / E[Y^a; u <= level] over all coordinates.
    """

    shifts: Array
    log_below: Array
    log_more: Array
    between: Array

    def with_jumps(self, level: int) -> Array:
        """Log E[Y^a; some u above the level, none above the top]; at level -1 just all up to the top."""
        if level < 0:
            return self.log_below[:, -1]
        more = self.log_more[:, level]
        with np.errstate(all="ignore"):
            few = np.log(np.expm1(np.minimum(more, 30.0)))
            return np.asarray(self.log_below[:, level] + np.where(more > 30.0, more, few))


@dataclass(frozen=True)
class _Scan:
    """Coarse nodes and common levels (in x, one array for each part) to find cuts with."""

    sign: int
    parts: Parts
    nodes: list[Nodes]
    levels: list[Array]

    def slices(self, shifts: Array) -> _Slices:
        shape = (shifts.size, self.levels[0].size)
        below, more, between = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        orders = 1.0 + shifts if self.sign > 0 else -shifts
        for part, nodes, levels in zip(self.parts, self.nodes, self.levels, strict=True):
            log_below, ratio = part.table(nodes, levels, orders)
            if self.sign < 0:
                log_below = np.where(_reached(part, shifts)[:, None], log_below, np.inf)
            with np.errstate(all="ignore"):
                below += part.count * log_below
                more += part.count * np.log1p(ratio)
                between += part.count * ratio
        return _Slices(shifts, below, more, between)

    def places(self, level: int) -> tuple[float, ...]:
        return tuple(float(levels[level]) for levels in self.levels)

    def core(self, shift: float, split: int) -> tuple[int, float] | None:
        """The lowest level above which, up to the split, bulk weighs next to nothing; and how much.

        None where moments overflow.
        """
        ends = self.places(split)
        short = [nodes.up_to(x) for nodes, x in zip(self.nodes, ends, strict=True)]
        cut = [levels[: split + 1] if split >= 0 else levels for levels in self.levels]
        between = _Scan(self.sign, self.parts, short, cut).slices(np.array([shift])).between[0]
        levels = np.flatnonzero(between <= _DROPPED)
        return (int(levels[0]), math.expm1(float(between[levels[0]]))) if levels.size else None


def add_cuts(parts: Parts, strike: float, size: float, far: Far) -> Cuts | Chernoff | None:
    """Cuts for the add direction and an answer of about ``size``; None where no shift was found.

    Or the moments with none far, where their bound makes cuts needless.
    """
    lowest = max(1e-7 * far.top, min(0.1 * parts[0].gamma, far.top / 2))
    losses = np.geomspace(lowest, far.top, _LEVELS).tolist()
    levels = [np.array([min(part.place(u), HIGHEST + part.s) for u in losses]) for part in parts]
    finest = _FINEST / (far.top - min(float(part.loss(np.array(LOWEST))) for part in parts))
    grids = [part.nodes(LOWEST, float(x[-1]), finest, x[:-1]) for part, x in zip(parts, levels, strict=True)]
    scan = _Scan(1, parts, grids, levels)
    divergence = sum(part.count * part.divergence for part in parts)
    span = far.top + abs(strike) + divergence + math.sqrt(divergence)
    slices = scan.slices(np.geomspace(0.05 / span, finest, _SHIFTS))
    bounds = [Chernoff(slices.shifts, column).log_bound(strike) for column in slices.log_below.T]
    fitting = np.flatnonzero(np.array(bounds) <= math.log(LEFT_OUT * size))
    split = int(fitting[-1]) if fitting.size else -1
    if split == _LEVELS - 1:
        return Chernoff(slices.shifts, slices.log_below[:, -1])
    kept = Chernoff(slices.shifts, slices.with_jumps(split))
    saddle = _saddle(kept, strike)
    if saddle is None:
        return None
    lows, tops, splits, mass, bulk = (LOWEST,) * len(parts), scan.places(-1), None, 1.0, None
    if split >= 0:
        splits, bulk = scan.places(split), Chernoff(slices.shifts, slices.log_below[:, split])
        mass = math.exp(log_any(parts, [part.log_p_above(x) for part, x in zip(parts, splits, strict=True)]))
    shift = _shift(kept, strike, saddle, mass, LEFT_OUT * size)
    log_peak = float(scan.slices(np.array([shift])).with_jumps(split)[0]) - shift * strike
    found = (-1, 0.0) if split < 0 else scan.core(shift, split)
    if found is None:
        return None
    cores, dropped = scan.places(found[0]), found[1]
    return Cuts(
        1, strike, parts, lows, cores, splits, tops, saddle, shift, log_peak, mass, dropped, kept, bulk
    )


def remove_cuts(parts: Parts, strike: float) -> Cuts | Chernoff | None:
    """Cuts for the remove direction; None where no shift was found.

    Or the moments of the whole loss, where their bound makes cuts needless.
    """
    whole = _negative_moments(parts)
    if whole.log_bound(strike) < math.log(SMALLEST):
        return whole
    finest = _FINEST / _depth(parts)
    largest = max(parts, key=lambda part: part.s)
    grid = np.linspace(max(part.lowest(finest) for part in parts), _DAMPED_OUT, _LEVELS)
    losses = largest.loss(grid)[:-1].tolist()
    levels = [
        grid
        if part is largest
        else np.array([*(min(part.place(u), _DAMPED_OUT) for u in losses), _DAMPED_OUT])
        for part in parts
    ]
    grids = [
        part.nodes(part.lowest(finest), _DAMPED_OUT, finest, x, damped=True)
        for part, x in zip(parts, levels, strict=True)
    ]
    scan = _Scan(-1, parts, grids, levels)
    divergence = sum(part.count * min(-part.floor, 2 * part.divergence) for part in parts)
    span = strike + divergence + math.sqrt(divergence)
    slices = scan.slices(np.geomspace(0.05 / span, finest, _SHIFTS))
    kept = Chernoff(slices.shifts, slices.log_below[:, -1])
    above = upper_tail(_DAMPED_OUT) * sum(part.count for part in parts)
    shift = _saddle(kept, strike)
    if shift is None or not all(part.reached(shift) for part in parts):
        return None
    log_peak = float(scan.slices(np.array([shift])).log_below[0, -1]) - shift * strike
    found = scan.core(shift, -1)
    if found is None:
        return None
    core, dropped = found
    cores, lows = scan.places(core), tuple(part.lowest(shift) for part in parts)
    return Cuts(
        -1, strike, parts, lows, cores, None, cores, shift, shift, log_peak, 1.0, dropped + above, kept, None
    )


def _heights(kept: Chernoff, strike: float) -> Array:
    """Log of the integrand on the real axis."""
    heights = kept.log_moments - kept.shifts * strike - np.log(kept.shifts * (kept.shifts + 1))
    return np.where(np.isfinite(heights), heights, np.inf)


def _shift(kept: Chernoff, strike: float, saddle: float, mass: float, negligible: float) -> float:
    """Where the contour is shortest: below the saddle, if rare large losses make far aliases slow to vanish."""
    log_shifts, heights = np.log(kept.shifts), _heights(kept, strike)

    def height(shift: float) -> float:
        return float(np.interp(math.log(shift), log_shifts, heights))

    highest = height(saddle) + math.log(_LARGER)
    tried = [share * saddle for share in _LOWER if share == 1.0 or height(share * saddle) <= highest]
    return min(tried, key=lambda shift: kept.period(strike, shift, mass, negligible, 0.0))


def _saddle(kept: Chernoff, strike: float) -> float | None:
    """Where the integrand is smallest on the real axis: the vertex of a parabola in log shift."""
    shifts, heights = kept.shifts, _heights(kept, strike)
    at = int(np.argmin(heights))
    if not heights[at] + math.log(float(shifts[at] * (shifts[at] + 1))) < 600.0:
        return None
    if not 0 < at < shifts.size - 1 or not math.isfinite(heights[at + 1]):
        return float(shifts[at])
    left, right = float(heights[at - 1] - heights[at]), float(heights[at + 1] - heights[at])
    ratio = float(shifts[at + 1] / shifts[at])
    return float(float(shifts[at]) * ratio ** ((left - right) / (2 * (left + right))))
