"""Chernoff bounds on the losses of ``loss_grid``, and the event that some coordinate's loss is far out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_nodes import Nodes
from csgm_cli.core.loss_window import Step, beyond, log_p_above, log_q_above, step_beside
from csgm_cli.core.sliced_law import HIGHEST, LOWEST, Coordinates, excess, log_upper_tail, upper_tail

Array = NDArray[np.float64]
Parts = tuple[Coordinates, ...]

#: What may be left to Chernoff bounds, relative to the answer.
LEFT_OUT = 1e-8
#: Nothing below this is told from 0: well below the smallest delta that csgm accepts, so that this one is
#: told from all that are smaller.
SMALLEST = 1e-303
#: Nor below this the means of test functions, of which costs of up to 1e8 make bounds.
LEAST_MEAN = 1e-312
#: How many shifts are looked at, and the largest, times the range of the losses.
SHIFTS, FINEST = 32, 4000.0
#: x above which Y^-shift is damped out.
DAMPED_OUT = 12.0
#: The shifts of negative moments, which come in as many blocks with nodes of their own.
_NEGATIVE, _BLOCKS = 20, 5
#: Steps to an octave of the lattice of s on which choices are made.
_CELLS = 32.0
#: Smaller coordinates are few up to this share of the largest.
_FEW_MORE = 0.05
#: The integrand at the saddle grows by no more than about exp of this over a step.
_GROWTH = 7.0
#: Stairs above a step, in widths below it.
STAIRS = (*map(float, range(13)), 15.0, 19.0, 24.0, 30.0, 38.0, 50.0)
LOG_HEIGHTS = np.log(-np.diff([1.0, *(upper_tail(away) for away in STAIRS)]))
#: Masses of single coordinates are lifted by the exponential of this before they are summed and counted: of
#: what is below 1e-308 floats have few digits, and there may be 1e12 coordinates.
LIFT = 230.0
#: The top is searched among so many, so often.
_TRIES, _ROUNDS = 9, 6
#: Strikes up to so much higher, relative, share the cuts of one strike.
_ABOVE = 0.015


@dataclass(frozen=True)
class Chernoff:
    """The logarithms of E[Y^(1 + shift); event] (add) or E[Y^-shift; event], infinite where unknown.

    (y - k)_+ <= K y^(1+s) k^-s and (k - y)_+ <= K y^-s k^(1+s) with K = s^s / (1+s)^(1+s), s > 0.
    """

    shifts: Array
    log_moments: Array

    def log_bound(self, strike: float, variance: float = 0.0) -> float:
        """For E[(Y - k)_+; event] with log k = ``strike``, or E[(1 - Y/k)_+; event] with -``strike``.

        With k R for k, R an independent lognormal of mean 1 and log-variance ``variance``: R^-shift and
        R^(1 + shift) have the mean exp(shift (shift + 1) variance/2).
        """
        return self._least(self._log_factors(variance) - self.shifts * strike)

    def log_bounds(self, strikes: Array, variance: float = 0.0) -> Array:
        """The same for many strikes."""
        terms = self.log_moments + self._log_factors(variance) - strikes[:, None] * self.shifts
        return np.asarray(np.where(np.isfinite(terms), terms, np.inf).min(axis=1))

    def log_mixture_bound(self, strike: float, exponent: float = 0.0, variance: float = 0.0) -> float:
        """For int_v^inf (Y - k)_+ (1 + B) (k/v)^-B dk/k on Y > v, log v = ``strike`` and ``exponent`` B.

        It is Y log(Y/v) - Y + v for B = 0. With v R for v.
        """
        weights = np.log((1 + exponent) / (exponent + self.shifts))
        return self._least(self._log_factors(variance) - self.shifts * strike + weights)

    def log_far_aliases(self, strike: float, shift: float, period: float, variance: float) -> float:
        """For sum_{m >= 1} exp(shift m period) A(strike + m period), A with a blur of ``variance``."""
        gap = np.maximum((self.shifts - shift) * period, 1e-6)
        terms = self._log_factors(variance) - self.shifts * strike - gap - np.log(-np.expm1(-gap))
        return self._least(np.where(self.shifts > shift, terms, np.inf))

    def in_order(self) -> Chernoff:
        """The same with ascending shifts."""
        order = np.argsort(self.shifts)
        return Chernoff(self.shifts[order], self.log_moments[order])

    def _log_factors(self, variance: float) -> Array:
        return log_kappa(self.shifts) + self.shifts * (self.shifts + 1) * (variance / 2)

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
    """The event that some coordinate is above its step of ``tops``; all but next to all of these at ``top``.

    ``digits`` bounds the relative error of p, and of e^top q.
    """

    parts: Parts
    top: float
    tops: tuple[Step, ...]
    p: float
    log_q: float
    digits: float

    def error(self, strike: float) -> float:
        """A bound on the rounding of p, and of e^strike q."""
        return self.p * self.digits * math.exp(max(0.0, strike - self.top))

    def stray(self, strike: float, variance: float = 0.0) -> float:
        """A bound on E_Q[(k - Y)_+; far], log k = ``strike``: steps are at most stairs.

        Above a stair the Chernoff bounds of the other coordinates' losses serve. ``variance`` > 0: with
        k R for k, as in `Chernoff`.
        """
        lowest = (sum(part.count for part in self.parts) - 1.0) * self.parts[0].floor
        total, negative = 0.0, negative_moments(rounded(self.parts))
        for part, (losses, log_masses) in zip(self.parts, self.stairs, strict=True):
            moments = np.minimum(0.0, negative.log_bounds(losses - strike, variance))
            bounds = np.minimum(0.0, log_masses + moments)
            if variance == 0.0:
                bounds[losses + lowest >= strike] = -np.inf
            total += float(np.exp(strike + math.log(part.count) + LOG_HEIGHTS + bounds).sum())
        if total == 0.0:
            return 0.0
        count = sum(part.count for part in self.parts)
        return total + math.exp(min(strike + math.log(count) + log_upper_tail(STAIRS[-1]), 700.0))

    @cached_property
    def stairs(self) -> list[tuple[Array, Array]]:
        """For each part: the losses where its stairs begin, and the logs of the Q-masses above."""
        places = [step.place - np.array(STAIRS) * step.width for step in self.tops]
        return [
            (part.loss(x), np.array([log_upper_tail(x_i) for x_i in x.tolist()]))
            for part, x in zip(self.parts, places, strict=True)
        ]

    @cached_property
    def counts(self) -> Array:
        """Of the parts."""
        return np.array([part.count for part in self.parts])

    @cached_property
    def qs(self) -> Array:
        """The Q-masses of one coordinate's far losses, for each part."""
        return np.array([math.exp(log_q_above(top)) for top in self.tops])

    @cached_property
    def above(self) -> list[Nodes]:
        """Nodes for one coordinate's far losses, for each part."""
        return [nodes_above(part, top, 1.0) for part, top in zip(self.parts, self.tops, strict=True)]

    @cached_property
    def lifted(self) -> list[Array]:
        """Their P-masses, times the exponential of `LIFT`."""
        return [np.exp(nodes.log_mass + nodes.loss + LIFT) for nodes in self.above]

    @cached_property
    def out_of_sight(self) -> float:
        """A bound on the P-mass, of all coordinates, of losses beyond these nodes."""
        total = 0.0
        for part, top in zip(self.parts, self.tops, strict=True):
            total += part.count * math.exp(log_p_above(part, Step(max(top.start, HIGHEST + part.s))))
        return total

    @cached_property
    def mean_beside(self) -> float:
        """E_P of the loss of coordinates that are not far, beside others that are."""
        total = 0.0
        for part, top in zip(self.parts, self.tops, strict=True):
            p = math.exp(log_p_above(part, top))
            beside = 1.0 if p >= 1.0 else (self.p - p) / (1.0 - p)  # P(some other coordinate is far)
            total += part.count * max(beside, 0.0) * mean_below(part, top)
        return total

    @cached_property
    def mean_loss(self) -> float:
        """E_P[L; far]: the far coordinates' own losses, and those of the others beside them."""
        means = [float((np.exp(nodes.log_mass + nodes.loss) * nodes.loss).sum()) for nodes in self.above]
        return float((self.counts * np.array(means)).sum()) + self.mean_beside


def nodes_above(part: Coordinates, top: Step, order: float) -> Nodes:
    """Nodes for the losses of one coordinate above its step, for means of Y^order, order >= 1 or so."""
    start, end = max(top.start, LOWEST), HIGHEST + part.s
    if start >= end:
        return Nodes(*np.empty((3, 0)))
    nodes = part.nodes(start, end, order, bends=top.bends)
    return nodes.weighted(top.above(nodes.x))


def mean_below(part: Coordinates, top: Step) -> float:
    """E_P[log Y; below the step], from Y log Y = (Y log Y - Y + 1) + (Y - 1)."""
    nodes = part.nodes(LOWEST, min(top.end, HIGHEST + part.s), 1.0, bends=top.bends)
    nodes = nodes.weighted(top.below(nodes.x))
    return float((np.exp(nodes.log_mass + nodes.loss) * excess(-nodes.loss)).sum()) - beyond(part, top).excess


def log_any(parts: Parts, log_masses: Sequence[float]) -> float:
    """The logarithm of P(some coordinate is where the masses say) = 1 - prod (1 - mass)^count."""
    rates = [
        math.log(part.count) + (m if m < -30.0 else math.log(-math.log1p(-math.exp(min(m, -1e-16)))))
        for part, m in zip(parts, log_masses, strict=True)
    ]
    log_rate = float(np.logaddexp.reduce(rates))
    return log_rate if log_rate < -30.0 else math.log(-math.expm1(-math.exp(min(log_rate, 700.0))))


def far_event(parts: Parts, strike: float, size: float) -> Far:
    """Far with about the lowest top whose strays are negligible next to ``size``, and strikes a bit higher.

    With cuts for steps. The top is the same for all parts and sizes nearby, so that bounds are smooth.
    """
    top = _top(rounded(parts), strike, power_below(size))
    return _far(parts, top, tuple(Step(part.place(top)) for part in parts))


@lru_cache(maxsize=64)
def _top(parts: Parts, strike: float, size: float) -> float:
    highest = strike + _ABOVE * abs(strike)
    low = max(highest, 1e-14)
    high = low + max(float(part.loss(np.array(HIGHEST + part.s))) for part in parts)
    limit = math.log(LEFT_OUT * size)
    for _ in range(_ROUNDS):
        tops = np.geomspace(low, high, _TRIES)
        fitting = np.flatnonzero(_log_strays(parts, tops, highest) <= limit)
        enough = int(fitting[0]) if fitting.size else _TRIES - 1
        low, high = float(tops[max(enough - 1, 0)]), float(tops[enough])
    return high


def rounded(parts: Parts) -> Parts:
    """With each s rounded up to a lattice, and few smaller coordinates counted with the many largest.

    Negative moments rise with s, since Y is a martingale in s^2.
    """
    first, *rest = (
        replace(part, s=2.0 ** (math.ceil(_CELLS * math.log2(part.s)) / _CELLS)) for part in parts
    )
    few = sum(part.count for part in rest) <= _FEW_MORE * first.count
    if not few or any(part.s > first.s for part in rest):
        return first, *rest
    return (replace(first, count=sum(part.count for part in parts)),)


def softened(far: Far, strike: float, size: float) -> Far:
    """With smooth steps a bit further out, but less than makes what is not far grow much at the saddle."""
    return _far(far.parts, far.top, soft_tops(far.parts, far.top, strike, size))


def soft_tops(parts: Parts, top: float, strike: float, size: float) -> tuple[Step, ...]:
    """The steps of `softened`."""
    further = math.expm1(min(1.0, 1 / top)) * top
    further = min(further, _GROWTH * max(strike, top / 10) / (5.0 - math.log(power_below(size))))
    return tuple(step_beside(part, top, top + further) for part in parts)


def power_below(size: float) -> float:
    """The power of 2 at or below it: what is chosen by that is the same for all sizes nearby."""
    return 2.0 ** math.floor(math.log2(size))


def _far(parts: Parts, top: float, tops: tuple[Step, ...]) -> Far:
    p = math.exp(log_any(parts, [log_p_above(part, step) for part, step in zip(parts, tops, strict=True)]))
    log_q = log_any(parts, [log_q_above(step) for step in tops])
    places = [(step.place / step.spread, HIGHEST + part.s) for part, step in zip(parts, tops, strict=True)]
    steepest = max([0.0, *(x * x for x, end in places if x < end)])
    return Far(parts, top, tops, p, log_q, 1e-14 + 1e-15 * steepest)


def _log_strays(parts: Parts, tops: Array, strike: float) -> Array:
    """Logs of bounds on E_Q[(k - Y)_+; some u above a top], by the Chernoff bounds of the other losses."""
    others = (sum(part.count for part in parts) - 1.0) * parts[0].floor
    log_qs = [
        np.array([math.log(part.count) + log_upper_tail(part.place(top)) for top in tops.tolist()])
        for part in parts
    ]
    negative = np.minimum(0.0, negative_moments(parts).log_bounds(tops - strike))
    bounds = strike + np.minimum(0.0, np.logaddexp.reduce(log_qs) + negative)
    return np.where(tops + others >= strike, -np.inf, bounds)


@lru_cache(maxsize=16)
def negative_moments(parts: Parts) -> Chernoff:
    """E_Q[Y^-shift] of the whole loss, which is at least 1."""
    shifts = np.geomspace(1e-3, FINEST / depth(parts), _NEGATIVE)
    blocks = [_negative_block(parts, block) for block in np.split(shifts, _BLOCKS)]
    return Chernoff(shifts, np.concatenate(blocks))


def _negative_block(parts: Parts, shifts: Array) -> Array:
    """For some of the shifts, which share their nodes."""
    return np.asarray(sum(part.count * negative_moment(part, shifts) for part in parts))


def negative_moment(part: Coordinates, shifts: Array) -> Array:
    """Log E_Q[Y^-shift] of one coordinate at ascending shifts; infinite where its peak is out of reach."""
    least, most = float(shifts[0]), float(shifts[-1])
    nodes = part.nodes(part.lowest(most), DAMPED_OUT, most, damped=least)
    log_moments, _ = part.table(nodes, np.array([DAMPED_OUT]), -shifts)
    log_moments = np.logaddexp(log_moments[:, 0], math.log(upper_tail(DAMPED_OUT)))
    reached = np.array([part.reached(shift) for shift in shifts.tolist()])
    return np.where(reached, np.maximum(log_moments, 0.0), np.inf)


def depth(parts: Parts) -> float:
    """How negative the loss of one coordinate gets."""
    return max(-float(part.loss(np.array(part.lowest(math.inf)))) for part in parts)
