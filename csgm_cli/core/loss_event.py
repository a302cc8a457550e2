"""What ``loss_grid`` computes once for a law and a strike, and uses for all strikes around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.contour import Direction
from csgm_cli.core.loss_cuts import Cuts, add_cuts, remove_cuts, unsplit
from csgm_cli.core.loss_far import LEFT_OUT, SMALLEST, Chernoff, Far, Parts, far_event, mean_below, softened
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
from csgm_cli.core.loss_window import Step
from csgm_cli.core.search import downhill
from csgm_cli.core.sliced_law import HIGHEST, LOWEST, Line, excess, single_round

Array = NDArray[np.float64]

#: The relative width of a blurred bracket that is aimed at, and the blurs (standard deviations of the
#: loss) to begin with: relative to 1/saddle, and at most; and that of test functions, relative to
#: 1/sqrt(saddle (saddle + 1)), which makes them larger by half its square.
_GOAL, _FIRST_BLUR, _WIDEST_BLUR, _MIXTURE_BLUR = 1e-5, 0.03, 0.5, 0.003
#: Bounds are raised by more than a blur may add, which is tried with this one (relative to 1/saddle).
_TRIED, _BLUR_COST = 0.003, 0.5
#: A strike is near another where the integrand differs by less than exp of this.
_NEAR = 1.0
#: Rounding makes what far losses add wobble by less than this times the bound on its error.
_FAR_ROUNDING = 0.05
#: How much of a bound may be what is left out.
_LEFT = 1e-7
#: And so many times that where it serves a strike that it was not made for.
_SERVING = 10.0
#: So many orders are too many where fewer might do.
_MANY_ORDERS = 4096
#: Sizes that are tried, and from which share of an answer on they are not too small: cuts that are too
#: far out leave too much to cancel.
_SIZES, _ENOUGH = 7, 1e-3
#: A first guess looks at one test function in so many, and not at losses below this.
_COARSE = 4
_LEAST_LOSS = 1e-4


def _size(parts: Parts, epsilon: float) -> float:
    """A first guess at the answer: what the coordinates do one at a time."""
    single = sum(part.count * single_round(part.gamma, part.s**2, Direction.ADD, epsilon) for part in parts)
    return min(max(single, SMALLEST), 1.0)


@dataclass(frozen=True)
class Mean:
    """``upper`` is above the mean of a test function; ``wobble`` is as in a `Certificate`."""

    upper: float
    wobble: float


@dataclass(frozen=True)
class Event:
    """What is computed once for a law and a strike, and good for strikes around that one.

    ``sums`` is None where Chernoff bounds do. They are blurred, with a log-variance ``variance``, where
    the transform falls too slowly by itself.
    """

    far: Far
    cuts: Cuts | Chernoff
    sums: Transform | None = None
    variance: float = 0.0

    def is_near(self, strike: float) -> bool:
        """True where the bounds are about as good as if all had been made for that strike."""
        if isinstance(self.cuts, Chernoff):
            return strike <= self.far.top
        return abs(strike - self.cuts.strike) * self.cuts.saddle <= _NEAR

    def serves(self, strike: float) -> bool:
        """The same for test functions, of which far lower strikes may be asked."""
        left_out = self.mixture_left_out(strike)
        return self.is_near(strike) and left_out <= _SERVING * _LEFT * self.mixture(strike).upper

    def bracket(self, strike: float) -> Bracket:
        """Of the add direction's hockey-stick."""
        settled, left_out = self.settled(strike), self.left_out(strike)
        error = self.far.error(strike)
        value, off = self._sum(strike, mixture=False)
        lower = settled - error + self._least(strike)
        upper = settled + error + left_out + value + off
        wobble = (_FAR_ROUNDING * error + ROUNDING * off) / upper + MOVED if upper > 0.0 else math.inf
        return outward(lower, upper, self._blur(strike, upper, mixture=False), wobble)

    def _least(self, strike: float) -> float:
        """A lower bound on what the sums are for."""
        if self.sums is None:
            return 0.0
        if self.variance > 0.0:
            return unblurred(self.sums, self.variance, strike).lower
        value, off = self._sum(strike, mixture=False)
        return value - off - self.sums.aliases(0.0, strike - self.sums.cuts.strike)

    def _sum(self, strike: float, variance: float = 0.0, *, mixture: bool) -> tuple[float, float]:
        if self.sums is None:
            return 0.0, 0.0
        return self.sums.integral(self.variance + variance, strike - self.sums.cuts.strike, mixture=mixture)

    def _blur(self, strike: float, value: float, *, mixture: bool) -> float:
        """Log-variance of a blur that adds about `_BLUR_COST` of `RAISED` to ``value``."""
        if self.variance > 0.0:
            return self.variance
        allowed = _BLUR_COST * RAISED * value
        slope = self.far.p / 2 if mixture else 0.0
        if self.sums is None:
            return allowed / max(slope, SMALLEST)
        tried = (_TRIED / self.sums.cuts.saddle) ** 2
        added = self._sum(strike, tried, mixture=mixture)[0] - self._sum(strike, mixture=mixture)[0]
        return min(allowed / max(slope + added / tried, SMALLEST), tried)

    def settled(self, strike: float) -> float:
        """What far losses add, but for the strays among them."""
        return self.far.p - math.exp(strike + self.far.log_q)

    def left_out(self, strike: float) -> float:
        """Bounds on the parts of the answer that are not computed."""
        total = self.far.stray(strike)
        if isinstance(self.cuts, Chernoff):
            return total + math.exp(self.cuts.log_bound(strike))
        total += math.exp(self.cuts.bulk.log_bound(strike)) if self.cuts.bulk else 0.0
        if self.sums is None:
            return total + math.exp(self.cuts.kept.log_bound(strike))
        return total + self.sums.dropped(strike - self.cuts.strike)

    def mixture(self, strike: float) -> Mean:
        """An upper bound on the mean of y log(y/v) - y + v for y >= v, log v = ``strike``.

        Raised by `RAISED` it is one; what a blur adds is left out but for its square, if it is less.
        """
        value, off = self._sum(strike, mixture=True)
        rest = self.mixture_settled(strike) + self.mixture_left_out(strike) + off
        if self.variance > 0.0:
            added = self._sum(strike, self.variance, mixture=True)[0] - value
            value = max(value - added, (value + rest) / (1 + RAISED) - rest)
        upper = max(value + rest, SMALLEST)
        wobble = _FAR_ROUNDING * self._settled_error(strike) + ROUNDING * off
        return Mean(upper, wobble / upper + MOVED)

    def mixture_blur(self, strike: float) -> float:
        """Log-variance of a blur that adds less than `RAISED` of it to ``mixture``."""
        return self._blur(strike, self.mixture(strike).upper, mixture=True)

    def mixture_settled(self, strike: float) -> float:
        """What far losses add to that.

        Where some coordinate is far, the function is at most y log(y/v) - y + v, which is not negative
        below v either, and to which a blur adds y variance/2. Jensen and Chernoff serve the rest as
        they serve hockey-sticks, of which the function is a mixture.
        """
        far = self.far
        mean = far.mean_loss
        settled = mean - (1 + strike) * far.p + math.exp(strike + far.log_q)
        return settled + self._settled_error(strike) + 1e-12 * mean

    def _settled_error(self, strike: float) -> float:
        return self.far.error(strike) * (2 + abs(strike))

    def mixture_left_out(self, strike: float) -> float:
        """Bounds on the parts of it that are not computed."""
        if isinstance(self.cuts, Chernoff):
            return math.exp(self.cuts.log_mixture_bound(strike))
        if self.sums is None:
            return math.inf
        left_out = self.sums.dropped(strike - self.cuts.strike) / self.cuts.shift
        return left_out + (math.exp(self.cuts.bulk.log_mixture_bound(strike)) if self.cuts.bulk else 0.0)


@dataclass(frozen=True)
class Settled:
    """For strikes at or below ``lowest``, the lowest loss: no test function y log(y/v) - y + v is cut off.

    ``mean`` is E_P[L] = E_Q[Y log Y - Y + 1]. Above ``lowest`` it serves as a bound.
    """

    lowest: float
    mean: float

    @staticmethod
    def of(parts: Parts) -> Settled:
        """What it takes, for a law."""
        everything = Step(math.inf)
        return Settled(
            sum(part.count * part.floor for part in parts),
            sum(part.count * mean_below(part, everything) for part in parts),
        )

    def serves(self, strike: float) -> bool:
        """As of an `Event`."""
        return strike <= self.lowest

    def mixture(self, strike: float) -> Mean:
        """As of an `Event`, but exact."""
        return Mean(self.mean + float(excess(np.array([strike]))[0]), 1e-12)

    def mixture_blur(self, strike: float) -> float:
        """As of an `Event`; a blur of v adds E[Y] v/2."""
        return _BLUR_COST * 2 * RAISED * self.mixture(strike).upper


@lru_cache(maxsize=8)
def add_event(parts: Parts, strike: float) -> Event | None:
    """The best of a few tries: cuts too far out leave too much to cancel, too close in too much out."""
    size = _size(parts, strike)
    best, narrowest, before = None, math.inf, math.inf
    for _ in range(6):
        event = _try_add(parts, strike, size)
        if event is None:
            break
        bracket, left_out = event.bracket(strike), event.left_out(strike)
        width = bracket.upper - bracket.lower
        if width < narrowest:
            best, narrowest = event, width
        if width > max(1e-3 * bracket.upper, 10.0 * left_out):
            guess = math.sqrt(size * bracket.upper)
        elif 1e-6 * bracket.lower < left_out < 0.5 * before:
            guess = bracket.lower if 0.0 < bracket.lower < size else 1e-4 * size
        else:
            break
        guess = max(guess, SMALLEST)
        if 0.5 < guess / size < 2.0:
            break
        size, before = guess, left_out
    return best


def _try_add(parts: Parts, strike: float, size: float) -> Event | None:
    """Cuts and sums for an answer of about ``size``."""
    far = far_event(parts, strike, size)
    cuts = add_cuts(parts, strike, size, far)
    if cuts is None or isinstance(cuts, Chernoff):
        return None if cuts is None else Event(far, cuts)
    far = softened(far, strike, size)
    settled = far.p - math.exp(strike + far.log_q)
    if cuts.kept.log_bound(strike) < math.log(LEFT_OUT * max(settled, SMALLEST)):
        return Event(far, cuts)
    cuts, falling = _shorter(cuts, max(_expected(cuts, size) + settled, 1e-5 * SMALLEST), size)
    if falling is None:
        return Event(far, cuts, *_narrow(cuts, settled, size))
    return Event(far, cuts, transform(cuts, *falling))


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


def bounds_of_family(event: Event | Settled, weights: Array, log_strikes: Array) -> Callable[[int], float]:
    """The bound on the mean of each test function of a family, by index."""

    @cache
    def bound(i: int) -> float:
        return float(weights[i]) * event.mixture(float(log_strikes[i])).upper * (1 + RAISED)

    return bound


@lru_cache(maxsize=8)
def convex_event(
    parts: Parts, weights: tuple[float, ...], log_strikes: tuple[float, ...]
) -> tuple[Event | Settled, int] | None:
    """What serves the family around its least mean, and the index of that."""
    c, strikes = np.array(weights), np.array(log_strikes)
    at = _COARSE * int(np.argmin(c[::_COARSE] * _mixture_sizes(parts, strikes[::_COARSE])))
    event = _mixture_event(parts, log_strikes[at])
    while event is None and at >= _COARSE:  # next to the lowest loss nothing may be known: narrower ones
        at -= _COARSE
        event = _mixture_event(parts, log_strikes[at])
    for _ in range(3):
        if event is None:
            return None
        tried, at = at, downhill(bounds_of_family(event, c, strikes), at, c.size - 1)
        if at == tried or event.serves(log_strikes[at]):
            break
        further = _mixture_event(parts, log_strikes[at])
        if further is None:
            at = tried
            break
        event = further
    return None if event is None else _least_around(parts, c, strikes, event, at)


def _least_around(
    parts: Parts, weights: Array, strikes: Array, event: Event | Settled, at: int
) -> tuple[Event | Settled, int]:
    """The same, or a way further down, seen by what serves the next strikes where ``event`` does not."""
    least = bounds_of_family(event, weights, strikes)(at)
    for other in (at - 1, at + 1):
        if not 0 <= other < strikes.size or event.serves(float(strikes[other])):
            continue
        beside = _mixture_event(parts, float(strikes[other]))
        if beside is not None and bounds_of_family(beside, weights, strikes)(other) < least:
            return _least_around(parts, weights, strikes, beside, other)
    return event, at


def _mixture_sizes(parts: Parts, log_strikes: Array) -> Array:
    """About the answers for c = 1: what the coordinates do one at a time.

    Below 0 those that do nothing, with a loss of about 0, come on top.
    """
    v, total = np.maximum(log_strikes, _LEAST_LOSS)[:, None], np.zeros(log_strikes.size)
    for part in parts:
        x = np.linspace(LOWEST, HIGHEST + part.s, 300)
        loss, log_mass = part.loss(x), math.log(x[1] - x[0]) - x * x / 2
        above = np.maximum(loss - v, 0.0)
        total += part.count * (np.exp(log_mass + v) * (above * np.exp(above) - np.expm1(above))).sum(axis=1)
    low = np.minimum(log_strikes, 0.0)
    return np.asarray(total / math.sqrt(2 * math.pi) + SMALLEST + np.expm1(low) - low)


def _mixture_event(parts: Parts, log_strike: float) -> Event | Settled | None:
    """What serves the means with strikes around that one; None where nothing is known."""
    if log_strike <= sum(part.count * part.floor for part in parts):
        return Settled.of(parts)
    size, best, least = _size(parts, max(log_strike, 0.0)), None, math.inf
    too_little = 0.0  # what makes cuts that leave out little, but perhaps lie too far out
    for _ in range(_SIZES):
        far = far_event(parts, log_strike, size)
        cuts = add_cuts(parts, log_strike, size, far)
        if cuts is None:
            break
        event = Event(far, cuts) if isinstance(cuts, Chernoff) else _summed(far, cuts, size)
        bound = event.mixture(log_strike).upper
        if bound < least:
            best, least = event, bound
        if event.mixture_left_out(log_strike) <= _LEFT * least:
            if size >= _ENOUGH * least:
                break
            too_little, size = size, size**0.25 * (_ENOUGH * least) ** 0.75 * 10.0
        elif size > max(SMALLEST, 1e3 * too_little):
            size = max(1e-3 * size, SMALLEST)
        else:
            break
    return best


def _summed(far: Far, cuts: Cuts, size: float) -> Event:
    """With the sums for test functions; without any where that would take too wide a blur."""
    event = Event(softened(far, cuts.strike, size), cuts)
    rest = 0.1 * _expected(cuts, size) / (1.0 + cuts.saddle)
    expected = event.mixture_settled(cuts.strike) + rest + SMALLEST
    cuts, falling = _shorter(cuts, expected, size)
    if falling is not None:
        return replace(event, cuts=cuts, sums=transform(cuts, *falling))
    width = min(_MIXTURE_BLUR / math.sqrt(cuts.saddle * (cuts.saddle + 1)), _WIDEST_BLUR)
    line, width = choose_line(cuts, width, expected)
    return event if width > 1.0 else replace(event, sums=transform(cuts, line), variance=width**2)


def _shorter(cuts: Cuts, expected: float, size: float) -> tuple[Cuts, tuple[Line, float] | None]:
    """Cuts and orders where the transform falls, with or without a split; ``cuts`` where neither does."""
    found = falling_line(cuts, expected)
    if found is not None and found[0].count <= _MANY_ORDERS:
        return cuts, found
    whole = unsplit(cuts, size)
    other = None if whole is None else falling_line(whole, expected)
    if whole is None or other is None or (found is not None and found[0].count <= other[0].count):
        return cuts, found
    return whole, other


def _expected(cuts: Cuts, size: float) -> float:
    """About the hockey-stick of the event of ``cuts``; where there is a split, its integral cancels."""
    peak = 0.1 * math.exp(cuts.log_peak) / (cuts.saddle * (cuts.saddle + 1))
    return peak if cuts.bulk is None else min(peak, max(size, 1e-10 * peak))


def _narrow(cuts: Cuts, settled: float, size: float) -> tuple[Transform | None, float]:
    """Sums for a blurred bracket, accurate enough beside ``settled``, and the log-variance of their blur."""
    expected = max(_expected(cuts, size) + settled, 1e-5 * SMALLEST)
    sums, width = _blurred_sums(cuts, min(_FIRST_BLUR / cuts.saddle, _WIDEST_BLUR), expected)
    bracket = unblurred(sums, width**2, cuts.strike)
    goal, gap = _GOAL * (bracket.lower + settled), bracket.upper - bracket.lower
    if gap > 1.01 * goal > 0.0:
        sums, width = _blurred_sums(cuts, width * math.sqrt(goal / gap), expected)
    return sums, width**2


def _blurred_sums(cuts: Cuts, width: float, expected: float) -> tuple[Transform | None, float]:
    """With a blur of ``width``, or of the least that is within reach, and that width."""
    line, width = choose_line(cuts, width, expected)
    return (None if width > 1.0 else transform(cuts, line)), width
