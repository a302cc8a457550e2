"""What ``loss_grid`` computes once for a law and a strike, and uses for all strikes around it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_beyond import convex, linear
from csgm_cli.core.loss_cuts import Cuts, add_cuts, unsplit
from csgm_cli.core.loss_far import LEAST_MEAN, LEFT_OUT, SMALLEST, Chernoff, Far, Parts, far_event, softened
from csgm_cli.core.loss_line import (
    MOVED,
    RAISED,
    ROUNDING,
    Bracket,
    Transform,
    choose_line,
    falling_line,
    outward,
    transform,
    unblurred,
)
from csgm_cli.core.loss_power import far_power
from csgm_cli.core.loss_remove import remove_cuts
from csgm_cli.core.loss_size import first_size

Array = NDArray[np.float64]

if TYPE_CHECKING:
    from collections.abc import Callable

    from csgm_cli.core.sliced_law import Line

#: The relative width of a blurred bracket that is aimed at, and the blurs (standard deviations of the
#: loss) to begin with: relative to 1/saddle, and at most.
_GOAL, _FIRST_BLUR, WIDEST_BLUR = 1e-5, 0.03, 0.5
#: Bounds are raised by more than a blur may add, which is tried with this one (relative to 1/saddle).
_TRIED, BLUR_COST = 0.003, 0.5
#: Where far losses are all of an answer, a blur to begin with is so much narrower than what is between the
#: strike and them, and is made narrower so often.
_CLEAR, _NARROWINGS = 10.0, 60
#: A strike is near another where the integrand differs by less than exp of this.
_NEAR = 2.0
#: Rounding makes what far losses add wobble by less than this times the bound on its error.
_FAR_ROUNDING = 0.05
#: How much of a bound may be what is left out.
LEFT = 1e-7
#: And so many times that where it serves a strike that it was not made for.
_SERVING = 10.0
#: Bounds that exceed what they bound by no more than the first, relative, can't be had any closer; and by no
#: more than the second they serve wherever they were made for, far below what they are raised by.
EXACT, _AS_GOOD = 3e-11, 1e-7
#: So many orders are too many where fewer might do.
_MANY_ORDERS = 4096
#: The means at so many strikes are kept: searches ask for the same ones again.
_STRIKES = 512
#: Sizes that cuts are made for, at most; and sizes within this factor of another make the same cuts.
_SIZES, _SAME = 6, 2.0
#: A bracket is too wide from this relative width on, where that is not from what is left out; and too much is
#: left out from the second on, relative, unless the last size changed that by less than the third.
_WIDE, _NOT_LEFT_OUT, _MUCH, _LESS = 1e-3, 10.0, 1e-6, 0.5
#: How much smaller a size is tried where too much is left out.
_SMALLER = 1e-4


@dataclass(frozen=True)
class Mean:
    """``upper`` is above the mean of a test function, by ``slack``, relative, at most, and by aliases.

    ``wobble`` is as in a `Certificate`.
    """

    upper: float
    wobble: float
    slack: float


@dataclass(frozen=True)
class Event:
    """What is computed once for a law and a strike, and good for strikes around that one.

    ``sums`` is None where Chernoff bounds do. They are blurred, with a log-variance ``variance``, where
    the transform falls too slowly by itself. ``more``: those for small losses, where they have their own.
    """

    far: Far
    cuts: Cuts | Chernoff
    sums: Transform | None = None
    variance: float = 0.0
    more: tuple[Transform, ...] = ()

    def is_near(self, strike: float) -> bool:
        """True where the bounds are about as good as if all had been made for that strike."""
        if isinstance(self.cuts, Chernoff):
            return strike <= self.far.top
        steepest = max(sums.cuts.saddle for sums in self._all) if self._all else self.cuts.saddle
        return abs(strike - self.cuts.strike) * steepest <= _NEAR

    @property
    def _all(self) -> list[Transform]:
        return [] if self.sums is None else [self.sums, *self.more]

    def serves(self, strike: float, exponent: float = 0.0) -> bool:
        """The same for test functions, of which far lower strikes may be asked."""
        mean = self.mixture(strike, exponent)
        left_out = self.mixture_left_out(strike, exponent)
        near = self.is_near(strike) and left_out <= _SERVING * LEFT * mean.upper
        return near or mean.slack + 2 * self._mixture_aliases(strike, exponent) / mean.upper <= _AS_GOOD

    def _mixture_aliases(self, strike: float, exponent: float) -> float:
        """About what aliases add to the mean of a test function."""
        return sum(
            sums.aliases(0.0, strike - sums.cuts.strike) * (1 + exponent) / (exponent + sums.cuts.shift)
            for sums in self._all
        )

    def bracket(self, strike: float) -> Bracket:
        """Of the add direction's hockey-stick."""
        (settled, error), left_out = linear(self.far, strike), self.left_out(strike)
        value, off = self._sum(strike)
        lower = settled - error + self._least(strike)
        upper = settled + error + left_out + value + off
        wobble = (_FAR_ROUNDING * error + ROUNDING * off) / upper + MOVED if upper > 0.0 else math.inf
        return outward(lower, upper, self._blur(strike, upper), wobble)

    def _least(self, strike: float) -> float:
        """A lower bound on what the sums are for."""
        if self.sums is None:
            return 0.0
        if self.variance > 0.0:
            return unblurred(self.sums, self.variance, strike).lower
        value, off = self._sum(strike)
        aliases = sum(sums.aliases(0.0, strike - sums.cuts.strike) for sums in self._all)
        return value - off - aliases

    def _sum(
        self, strike: float, variance: float = 0.0, exponent: float | None = None
    ) -> tuple[float, float]:
        return self._sums(strike, variance, exponent)

    @cached_property
    def _sums(self) -> Callable[[float, float, float | None], tuple[float, float]]:
        return lru_cache(maxsize=_STRIKES)(self._integrals)

    def _integrals(self, strike: float, variance: float, exponent: float | None) -> tuple[float, float]:
        value, off = 0.0, 0.0
        for sums in self._all:
            more, error = sums.integral(self.variance + variance, strike - sums.cuts.strike, exponent)
            value, off = value + more, off + error
        return value, off

    def _blur(self, strike: float, value: float, exponent: float | None = None) -> float:
        """Log-variance of a blur that adds about `BLUR_COST` of `RAISED` to ``value``."""
        if self.variance > 0.0:
            return self.variance
        allowed = BLUR_COST * RAISED * value
        if self.sums is None:
            return self._proven_blur(strike, allowed, exponent)
        slope = self._far_slope(strike, exponent)
        tried = (_TRIED / max(sums.cuts.saddle for sums in self._all)) ** 2
        added = self._sum(strike, tried, exponent)[0] - self._sum(strike, 0.0, exponent)[0]
        return min(allowed / max(slope + added / tried, SMALLEST), tried)

    def _far_slope(self, strike: float, exponent: float | None) -> float:
        """How fast the mean grows with a blur where some coordinate is far: half of phi''(y) y^2 there."""
        if exponent is None:
            return 0.0
        return (1 + exponent) * math.exp(-exponent * max(self.far.top - strike, 0.0)) * self.far.p / 2

    def _proven_blur(self, strike: float, allowed: float, exponent: float | None) -> float:
        """The same without sums: what far losses add to a hockey-stick is linear, and no blur changes it.

        What is left out is bounded with the blur as without; 0 where no blur is known to fit.
        """
        slope = self._far_slope(strike, exponent)

        def bound(variance: float) -> float:
            if exponent is None:
                return self.left_out(strike, variance)
            return self.mixture_left_out(strike, exponent, variance)

        known, variance = bound(0.0), min(((self.far.top - strike) / _CLEAR) ** 2, WIDEST_BLUR**2)
        for _ in range(_NARROWINGS):
            if slope * variance + bound(variance) - known <= allowed:
                return variance
            variance /= 4
        return 0.0

    def left_out(self, strike: float, variance: float = 0.0) -> float:
        """Bounds on the parts of the answer that are not computed; ``variance`` is of a blur, if no sums."""
        total = self.far.stray(strike, variance)
        if isinstance(self.cuts, Chernoff):
            return total + math.exp(self.cuts.log_bound(strike, variance))
        if isinstance(self.cuts.bulk, Chernoff):
            total += math.exp(self.cuts.bulk.log_bound(strike, variance))
        if self.sums is None:
            return total + math.exp(self.cuts.kept.log_bound(strike, variance))
        return total + self.sums.dropped(strike - self.cuts.strike)

    def mixture(self, strike: float, exponent: float = 0.0) -> Mean:
        """An upper bound on the mean of a test function of ``loss_power``, by log v and the exponent B.

        Where some coordinate is far, the function is at most itself continued below v (`convex`,
        `far_power`). Jensen and Chernoff serve the rest as they serve hockey-sticks, of which the function
        is a mixture. Raised by `RAISED` it is a bound; what a blur adds is left out but for its square, if it
        is less.
        """
        return self._means(strike, exponent)

    @cached_property
    def _means(self) -> Callable[[float, float], Mean]:
        return lru_cache(maxsize=_STRIKES)(self._mean)

    def _mean(self, strike: float, exponent: float) -> Mean:
        value, off = self._sum(strike, 0.0, exponent)
        left_out, (settled, error) = self.mixture_left_out(strike, exponent), self._mixed(strike, exponent)
        rest = settled + error + left_out + off
        if self.variance > 0.0:
            added = self._sum(strike, self.variance, exponent)[0] - value
            value = max(value - added, (value + rest) / (1 + RAISED) - rest)
        upper = max(value + rest, LEAST_MEAN)
        wobble = _FAR_ROUNDING * error + ROUNDING * off
        slack = math.inf if self.variance > 0.0 else 2 * (left_out + off + error) / upper
        return Mean(upper, wobble / upper + MOVED, slack)

    def mixture_blur(self, strike: float, exponent: float = 0.0) -> float:
        """Log-variance of a blur that adds less than `RAISED` of it to ``mixture``."""
        return self._blur(strike, self.mixture(strike, exponent).upper, exponent)

    def _mixed(self, strike: float, exponent: float) -> tuple[float, float]:
        """What far losses add to that, and a bound on its rounding."""
        return far_power(self.far, strike, exponent) if exponent > 0.0 else convex(self.far, strike)

    def mixture_left_out(self, strike: float, exponent: float = 0.0, variance: float = 0.0) -> float:
        """Bounds on the parts of it that are not computed; ``variance`` is as in `left_out`."""
        if isinstance(self.cuts, Chernoff):
            return math.exp(min(self.cuts.log_mixture_bound(strike, exponent, variance), 700.0))
        if self.sums is None:
            return math.inf
        left_out = self.sums.dropped(strike - self.cuts.strike)
        left_out *= (1 + exponent) / (exponent + self.cuts.shift)
        if isinstance(self.cuts.bulk, Chernoff):
            left_out += math.exp(min(self.cuts.bulk.log_mixture_bound(strike, exponent), 700.0))
        return left_out


@lru_cache(maxsize=8)
def add_event(parts: Parts, strike: float) -> Event | None:
    """The best of a few tries: cuts too far out leave too much to cancel, too close in too much out."""
    size = first_size(parts, strike)
    best, narrowest, before = None, math.inf, math.inf
    for _ in range(_SIZES):
        event = _try_add(parts, strike, size)
        if event is None:
            if best is not None or size > _SMALLER:
                break
            size = math.sqrt(size)
            continue
        bracket, left_out = event.bracket(strike), event.left_out(strike)
        width = bracket.upper - bracket.lower
        if width < narrowest:
            best, narrowest = event, width
        if width > max(_WIDE * bracket.upper, _NOT_LEFT_OUT * left_out):
            guess = math.sqrt((bracket.lower or size) * bracket.upper)
        elif _MUCH * bracket.lower < left_out < _LESS * before:
            guess = bracket.lower if 0.0 < bracket.lower < size else _SMALLER * size
        else:
            break
        guess = max(guess, SMALLEST)
        if 1 / _SAME < guess / size < _SAME:
            break
        size, before = guess, left_out
    return best


def _try_add(parts: Parts, strike: float, size: float) -> Event | None:
    """Cuts and sums for an answer of about ``size``."""
    far = far_event(parts, strike, size)
    cuts = add_cuts(parts, strike, size, far)
    if cuts is None or isinstance(cuts, Chernoff):
        return None if cuts is None else Event(far, cuts)
    if isinstance(cuts.bulk, Cuts):
        found = summed_apart(far, cuts, size, mixture=False)
        if found is not None:
            return found
        cuts = add_cuts(parts, strike, size, far, apart=False)
        if cuts is None or isinstance(cuts, Chernoff):
            return None if cuts is None else Event(far, cuts)
    far = softened(far, strike, size)
    settled, _ = linear(far, strike)
    if cuts.kept.log_bound(strike) < math.log(LEFT_OUT * max(settled, SMALLEST)):
        return Event(far, cuts)
    cuts, falling = shorter(cuts, max(expected_size(cuts, size) + settled, 1e-5 * SMALLEST), size)
    if falling is None:
        return Event(far, cuts, *_narrow(cuts, settled, size))
    return Event(far, cuts, transform(cuts, *falling))


def summed_apart(far: Far, cuts: Cuts, size: float, *, mixture: bool) -> Event | None:
    """With sums for small and large losses, whose cuts are apart; None where a transform falls too slowly."""
    event = Event(softened(far, cuts.strike, size), cuts)
    settled, _ = (convex if mixture else linear)(event.far, cuts.strike)
    expected = max(settled, 0.0) + SMALLEST
    for piece in cuts.pieces:
        share = 0.1 / (1.0 + piece.saddle) if mixture else 1.0
        expected += share * _cancelled(_peak(piece), size)
    sums: list[Transform] = []
    for piece in cuts.pieces:
        falling = falling_line(piece, expected)
        if falling is None:
            return None
        sums.append(transform(piece, *falling))
    return replace(event, sums=sums[0], more=tuple(sums[1:]))


def remove_bracket(parts: Parts, epsilon: float) -> Bracket | None:
    """Of the remove direction's hockey-stick, whose cuts serve one epsilon only."""
    cuts = remove_cuts(parts, epsilon)
    if cuts is None:
        return None
    if isinstance(cuts, Chernoff):
        return outward(0.0, math.exp(cuts.log_bound(epsilon)))
    sums, variance = _narrow(cuts, 0.0, SMALLEST)
    rest = unblurred(sums, variance, epsilon)
    dropped = sums.dropped(0.0) if sums is not None else 0.0
    return outward(rest.lower, rest.upper + dropped, variance, math.inf)


def shorter(cuts: Cuts, expected: float, size: float) -> tuple[Cuts, tuple[Line, float] | None]:
    """Cuts and orders where the transform falls, with or without a split; ``cuts`` where neither does."""
    whole = unsplit(cuts, size)
    other = None if whole is None else falling_line(whole, expected)
    if whole is not None and other is not None and other[0].count <= _MANY_ORDERS:
        return whole, other
    found = falling_line(cuts, expected)
    if whole is None or other is None or (found is not None and found[0].count <= other[0].count):
        return cuts, found
    return whole, other


def expected_size(cuts: Cuts, size: float) -> float:
    """About the hockey-stick of the event of ``cuts``; where there is a split, its integral cancels."""
    return _peak(cuts) if cuts.bulk is None else _cancelled(_peak(cuts), size)


def _peak(cuts: Cuts) -> float:
    return 0.1 * math.exp(cuts.log_peak) / (cuts.saddle * (cuts.saddle + 1))


def _cancelled(peak: float, size: float) -> float:
    return min(peak, max(size, 1e-10 * peak))


def _narrow(cuts: Cuts, settled: float, size: float) -> tuple[Transform | None, float]:
    """Sums for a blurred bracket, accurate enough beside ``settled``, and the log-variance of their blur."""
    expected = max(expected_size(cuts, size) + settled, 1e-5 * SMALLEST)
    sums, width = _blurred_sums(cuts, min(_FIRST_BLUR / cuts.saddle, WIDEST_BLUR), expected)
    bracket = unblurred(sums, width**2, cuts.strike)
    goal, gap = _GOAL * (bracket.lower + settled), bracket.upper - bracket.lower
    if gap > 1.01 * goal > 0.0:
        sums, width = _blurred_sums(cuts, width * math.sqrt(goal / gap), expected)
    return sums, width**2


def _blurred_sums(cuts: Cuts, width: float, expected: float) -> tuple[Transform | None, float]:
    """With a blur of ``width``, or of the least that is within reach, and that width."""
    line, width = choose_line(cuts, width, expected)
    return (None if width > 1.0 else transform(cuts, line)), width
