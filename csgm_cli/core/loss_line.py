"""The contour integrals of ``loss_grid``: the transform of an event along a line, and sums over it.

The transform is computed once for the strike of the cuts. At another strike it has another factor
exp(-z strike), so one transform serves all strikes near that one; the bounds on its errors go along.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_fall import fall_of, log_fall
from csgm_cli.core.loss_far import SMALLEST, log_kappa
from csgm_cli.core.sliced_law import Line, log_more

if TYPE_CHECKING:
    from csgm_cli.core.loss_cuts import Cuts

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: How much bounds are raised above what they bound, relative, and what their blur may add to them.
RAISED = 1e-5
#: Rounding makes bounds wobble by less than this times the bounds on the errors.
ROUNDING = 0.003
_MOST_ORDERS, _MOST_NODES = 1 << 17, 2_000_000
#: What the orders leave out is at most the first, relative to a guess, and moves sums by less than the
#: second, relative.
_NEGLIGIBLE, MOVED = 1e-11, 5e-11
#: Blurred integrals end at one of these times 1/width.
_ENDS = (3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0)


@dataclass(frozen=True)
class Bracket:
    """``lower`` <= the true value <= ``upper``; ``blur`` is the log-variance of the blur in ``upper``.

    ``wobble`` is as in a `Certificate`.
    """

    lower: float
    upper: float
    blur: float = 0.0
    wobble: float = math.inf


@dataclass(frozen=True)
class Transform:
    """The transform at the orders of ``line`` times exp(-z strike - log_peak) of ``cuts``, and its errors."""

    cuts: Cuts
    line: Line
    values: ComplexArray
    errors: Array
    log_beyond: float

    @cached_property
    def _orders(self) -> tuple[ComplexArray, ComplexArray, Array]:
        """z, z (z + 1) and |z|."""
        z = self.line.z
        return z, z * (z + 1), np.abs(z)

    def integral(self, variance: float, away: float, exponent: float | None = None) -> tuple[float, float]:
        """A(variance) at the strike of the cuts + ``away``, and a bound on its error besides the aliases.

        With an ``exponent``: the mean of that test function (``loss_power``), log v that strike, instead of
        the hockey-stick's.
        """
        (z, twice, size), step = self._orders, self.line.step
        kernel = self._turned(away) / twice
        if variance > 0.0:
            kernel *= np.exp(twice * (variance / 2))
        if exponent is not None:
            kernel *= (1 + exponent) / (exponent + z)
        terms, moduli = (self.values * kernel).real, np.abs(kernel)
        unseen = self._unseen(variance, away, float(moduli[-1]), exponent)
        value = step * (float(terms.sum()) - float(terms[0]) / 2)
        rounding = self.errors + 4e-16 * abs(away) * size
        error = step * float(rounding @ moduli) + unseen
        scale = math.exp(self.cuts.log_peak) / math.pi
        return scale * value, scale * error

    def _turned(self, away: float) -> ComplexArray:
        """exp(-z ``away``), of which all but a few are products: exponentials are what takes the time."""
        line, block = self.line, math.isqrt(self.line.count) + 1
        turn, j = -1j * line.step * away, np.arange(block, dtype=np.float64)
        every, few = np.exp(turn * block * j)[:, None], np.exp(turn * j)
        return np.asarray(np.exp(-line.shift * away) * (every * few).ravel()[: line.count])

    def _unseen(self, variance: float, away: float, last: float, exponent: float | None) -> float:
        """A bound on the integral beyond the end, where the transform is at most exp(``log_beyond``).

        The kernel is at most exp(-shift away) y^-2, times (1 + exponent)/max(y, exponent + shift); with a
        blur it falls like exp(-variance y^2/2).
        """
        end = self.line.step * (self.line.count - 1)
        shift = self.cuts.shift
        bound = math.exp(min(shift * ((shift + 1) * (variance / 2) - away), 700.0)) / end
        if exponent is not None:
            bound *= (1 + exponent) * min(0.5 / end, 1 / (exponent + shift))
        bound = min(bound, last / (variance * end)) if variance > 0.0 else bound
        return math.exp(min(self.log_beyond, 700.0)) * bound

    def aliases(self, variance: float, away: float) -> float:
        """A bound on what the aliases of a hockey-stick add."""
        cuts, turns = self.cuts, self.cuts.shift * self.line.period
        lower = cuts.mass * math.exp(-turns) / -math.expm1(-turns)
        higher = cuts.kept.log_far_aliases(cuts.strike + away, cuts.shift, self.line.period, variance)
        return lower + math.exp(min(higher, 700.0))

    def dropped(self, away: float) -> float:
        """A bound on the hockey-stick of what the cuts dropped."""
        log_size = self.cuts.log_peak + float(log_kappa(np.array(self.cuts.shift))) - self.cuts.shift * away
        return math.exp(min(log_size, 700.0)) * self.cuts.dropped


def choose_line(cuts: Cuts, width: float, expected: float) -> tuple[Line, float]:
    """Orders so far and so dense that what is left out is negligible next to ``expected``; one of few counts.

    And the ``width`` of the blur (standard deviation of the loss), wider than asked for where that
    would take too many.
    """
    period = cuts.kept.period(cuts.strike, cuts.shift, cuts.mass, 1e-9 * expected, 2 * width**2)
    end = _end(cuts.log_peak - math.log(1e-8 * expected), width)
    dense = end * period / (2 * math.pi)
    width = max(width, dense / _MOST_ORDERS, 18.0 * end * cuts.range / _MOST_NODES)
    return _line(cuts, end / width, dense / width), width


def _line(cuts: Cuts, end: float, dense: float) -> Line:
    """At least about ``dense`` orders up to a height of ``end``."""
    power = 2 ** max(6, math.floor(math.log2(dense)))
    count = next(n for n in (power, power * 3 // 2, power * 2) if n >= 0.999999 * dense)
    return Line(cuts.sign, cuts.shift, end / count, count)


def _end(log_ratio: float, width: float) -> float:
    """How often 1/width to go for exp(``log_ratio``) y^-2 exp(-width^2 y^2/2) to be left out."""

    def left(end: float) -> float:
        return log_ratio + math.log(width / end) - 2 * math.log(end) - end * end / 2

    return next((end for end in _ENDS if left(end) <= 0.0), _ENDS[-1])


def falling_line(cuts: Cuts, expected: float) -> tuple[Line, float] | None:
    """Orders up to where the transform of ``cuts`` has fallen, and the log of what it is at most beyond.

    Relative to the peak. None where that would take too many.
    """
    order = 1.0 + cuts.shift
    falls = []
    for window in cuts.windows:
        whole, outside = window.whole(order)
        log_moment = float(window.part.real_moments(whole, outside, np.array([order]))[0])
        falls.append(fall_of(window, order, log_moment, whole))
    period = cuts.kept.period(cuts.strike, cuts.shift, cuts.mass, _NEGLIGIBLE * expected, 0.0)
    goal = math.log(_NEGLIGIBLE * expected) - cuts.log_whole

    def left(log_height: float) -> float:
        return log_fall(cuts.windows, falls, math.exp(log_height)) - log_height - goal

    high = math.log(2 * math.pi * _MOST_ORDERS / period)
    if left(high) > 0.0:
        return None
    low = high - math.log(_MOST_ORDERS / 64)
    while high - low > 0.02:
        middle = (low + high) / 2
        low, high = (low, middle) if left(middle) <= 0.0 else (middle, high)
    line = _line(cuts, math.exp(high), math.exp(high) * period / (2 * math.pi))
    end = line.step * (line.count - 1)
    return line, log_fall(cuts.windows, falls, end) + cuts.log_whole - cuts.log_peak


def transform(cuts: Cuts, line: Line, log_beyond: float = 0.0) -> Transform:
    """The transform of the event of ``cuts``; ``log_beyond`` is as in `falling_line`."""
    bulk, more = np.zeros((2, line.count), dtype=np.complex128)
    bulk_error = 1e-14 + 4e-16 * np.abs(line.z) * (abs(cuts.strike) + cuts.range)
    more_error, whole_error = np.zeros(line.count), bulk_error.copy()
    for window in cuts.windows:
        part = window.part
        log_below, off = part.log_moment(line, *window.bulk(line.size))
        bulk += part.count * log_below
        rounding = 4e-16 * np.abs(log_below)
        bulk_error += part.count * (np.log1p(off) + rounding)
        nodes = window.jumps(line.size)
        if nodes is not None and nodes.x.size:
            jumps, jumps_off, off = log_more(line, nodes, log_below, off)
            more += part.count * jumps
            more_error += part.count * np.log1p(jumps_off)
        whole_error += part.count * (np.log1p(off) + rounding)
    bulk += -line.z * cuts.strike - cuts.log_peak
    front = np.exp(bulk)
    front_error = _grown(np.abs(front), bulk_error)
    if cuts.windows[0].split is None:
        return Transform(cuts, line, front, front_error, log_beyond)
    few, whole = np.abs(more) < 1.0, np.exp(bulk + more)
    half = np.where(few, more / 2, 0.0)
    values = np.where(few, front * 2 * np.exp(half) * np.sinh(half), whole - front)
    apart = _grown(np.abs(whole), whole_error) + front_error + 1e-15 * (np.abs(front) + np.abs(whole))
    together = _grown(np.abs(values), bulk_error) + _grown(np.abs(whole), more_error)
    return Transform(cuts, line, values, np.where(few, together, apart), log_beyond)


def _grown(sizes: Array, log_factors: Array) -> Array:
    """How much products of ``sizes`` can be off; where all digits are lost they are below 1e-18."""
    return np.asarray(1e-18 + sizes * np.expm1(np.minimum(log_factors, 40.0)))


def unblurred(sums: Transform | None, variance: float, strike: float) -> Bracket:
    """The bracket of a blurred hockey-stick at one strike (see ``loss_grid``)."""
    if sums is None:
        return Bracket(0.0, 1.0)
    away = strike - sums.cuts.strike
    upper, error = sums.integral(variance, away)
    wider, wider_error = sums.integral(2 * variance, away)
    weight = 1 / (math.sqrt(2) * math.exp(-variance / 8) - 1)
    lower = upper - error - weight * (wider - upper + error + wider_error)
    aliases = (1 + weight) * sums.aliases(2 * variance, away)
    return Bracket(max(0.0, lower - aliases), upper + error, variance)


def outward(lower: float, upper: float, blur: float = 0.0, wobble: float = 0.0) -> Bracket:
    """A bracket in which nothing below `SMALLEST` is told from 0."""
    lower, upper = (lower if lower > SMALLEST else 0.0), min(1.0, max(upper, SMALLEST))
    return Bracket(lower, upper, blur, wobble)
