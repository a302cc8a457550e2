"""The contour integrals of ``loss_grid``: the transform of an event along a line, and sums over it.

The transform is computed once for the strike of the cuts. At another strike it has another factor
exp(-z strike), so one transform serves all strikes near that one; the bounds on its errors go along.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_far import SMALLEST, log_kappa
from csgm_cli.core.sliced_law import Line

if TYPE_CHECKING:
    from csgm_cli.core.loss_cuts import Cuts

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Rounding makes bounds wobble by less than this times the bounds on the errors.
ROUNDING = 0.003
_MOST_ORDERS, _MOST_NODES = 1 << 17, 2_000_000
#: Integrals end at one of these times 1/width.
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

    def integral(self, variance: float, away: float, *, mixture: bool = False) -> tuple[float, float]:
        """A(variance) at the strike of the cuts + ``away``, and a bound on its error besides the aliases.

        ``mixture``: the mean of y log(y/v) - y + v for y >= v, log v that strike, instead of the
        hockey-stick's.
        """
        z, step = self.line.z, self.line.step
        kernel = np.exp(z * ((z + 1) * (variance / 2) - away)) / (z * (z + 1))
        if mixture:
            kernel /= z
        terms, moduli = (self.values * kernel).real, np.abs(kernel)
        # Beyond the end the blur falls like exp(-variance y^2/2), and all else does not grow.
        unseen = float(moduli[-1]) / (variance * step * (self.line.count - 1))
        value = step * (float(terms.sum()) - float(terms[0]) / 2)
        rounding = self.errors + 4e-16 * abs(away) * np.abs(z)
        error = step * float((rounding * moduli).sum()) + unseen
        scale = math.exp(self.cuts.log_peak) / math.pi
        return scale * value, scale * error

    def aliases(self, variance: float, away: float) -> float:
        """A bound on what the aliases of a hockey-stick add."""
        cuts, turns = self.cuts, self.cuts.shift * self.line.period
        lower = cuts.mass * math.exp(-turns) / -math.expm1(-turns)
        return lower + math.exp(
            min(0.0, cuts.kept.log_far_aliases(cuts.strike + away, cuts.shift, self.line.period, variance))
        )

    def dropped(self, away: float) -> float:
        """A bound on the hockey-stick of what the cuts dropped."""
        log_size = self.cuts.log_peak + float(log_kappa(np.array(self.cuts.shift))) - self.cuts.shift * away
        return math.exp(min(log_size, 700.0)) * self.cuts.dropped


def choose_line(cuts: Cuts, width: float, expected: float, *, mixture: bool = False) -> tuple[Line, float]:
    """Orders so far and so dense that what is left out is negligible next to ``expected``; one of few counts.

    And the ``width`` of the blur (standard deviation of the loss), wider than asked for where that
    would take too many.
    """
    period = cuts.kept.period(cuts.strike, cuts.shift, cuts.mass, 1e-9 * expected, 2 * width**2)
    end = _end(cuts.log_peak - math.log(1e-8 * expected), width, 3 if mixture else 2)
    dense = end * period / (2 * math.pi)
    width = max(width, dense / _MOST_ORDERS, 18.0 * end * cuts.range / _MOST_NODES)
    power = 2 ** max(6, math.floor(math.log2(dense / width)))
    count = next(n for n in (power, power * 3 // 2, power * 2) if n >= 0.999999 * dense / width)
    return Line(cuts.sign, cuts.shift, end / (width * count), count), width


def _end(log_ratio: float, width: float, power: int) -> float:
    """How often 1/width to go for exp(``log_ratio``) of y^-power exp(-width^2 y^2/2) to be left out."""

    def left(end: float) -> float:
        return log_ratio + (power - 1) * math.log(width / end) - 2 * math.log(end) - end * end / 2

    return next((end for end in _ENDS if left(end) <= 0.0), _ENDS[-1])


def transform(cuts: Cuts, line: Line) -> Transform:
    """The transform of the event of ``cuts``."""
    bulk, more = np.zeros((2, line.count), dtype=np.complex128)
    bulk_error = 1e-14 + 4e-16 * np.abs(line.z) * (abs(cuts.strike) + cuts.range)
    more_error = np.zeros(line.count)
    splits = cuts.splits or cuts.tops
    for part, low, core, split, top in zip(cuts.parts, cuts.lows, cuts.cores, splits, cuts.tops, strict=True):
        log_below, off = part.log_moment(line, low, core)
        bulk += part.count * log_below
        bulk_error += part.count * (np.log1p(off) + 4e-16 * np.abs(log_below))
        if cuts.splits and top > split:
            jumps, off = part.log_more(line, split, top, log_below, off)
            more += part.count * jumps
            more_error += part.count * np.log1p(off)
    bulk += -line.z * cuts.strike - cuts.log_peak
    front = np.exp(bulk)
    if not cuts.splits:
        return Transform(cuts, line, front, _grown(np.abs(front), bulk_error))
    few, whole = np.abs(more) < 1.0, np.exp(bulk + more)
    half = np.where(few, more / 2, 0.0)
    values = np.where(few, front * 2 * np.exp(half) * np.sinh(half), whole - front)
    errors = _grown(np.abs(values), bulk_error) + _grown(np.abs(whole), more_error)
    errors += np.where(few, 0.0, 1e-15 * (np.abs(front) + np.abs(whole)))
    return Transform(cuts, line, values, errors)


def _grown(sizes: Array, log_factors: Array) -> Array:
    """How much products of ``sizes`` can be off; where all digits are lost they are below 1e-18."""
    return np.asarray(1e-18 + sizes * np.expm1(np.minimum(log_factors, 40.0)))


def unblurred(sums: Transform | None, variance: float, strike: float) -> Bracket:
    """Step 4 at one strike."""
    if sums is None:
        return Bracket(0.0, 1.0)
    away = strike - sums.cuts.strike
    upper, error = sums.integral(variance, away)
    wider, wider_error = sums.integral(2 * variance, away)
    weight = 1 / (math.sqrt(2) * math.exp(-variance / 8) - 1)
    lower = upper - error - weight * (wider - upper + error + wider_error)
    aliases = (1 + weight) * sums.aliases(2 * variance, away)
    wobble = ROUNDING * error / (upper + error) if upper > 0.0 else math.inf
    return Bracket(max(0.0, lower - aliases), upper + error, variance, wobble)


def outward(lower: float, upper: float, rest: Bracket = Bracket(0.0, 0.0)) -> Bracket:
    """With the blur and the wobble of ``rest``, a part of it."""
    lower, upper = (lower if lower > SMALLEST else 0.0), min(1.0, max(upper, SMALLEST))
    wobble = rest.wobble * rest.upper / upper if rest.upper > 0.0 else rest.wobble
    return Bracket(lower, upper, rest.blur, wobble)
