"""Test functions where few mask bits are sent: what serves a whole family of them, and the best one.

The mean of y log(y/v) - y + v for y >= v is a mixture of hockey-sticks, which ``loss_event`` bounds, and
so are those of the other functions of ``loss_power``. Bounds are for c = 1 + B there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_beyond import convex
from csgm_cli.core.loss_cuts import Cuts, add_cuts
from csgm_cli.core.loss_event import (
    BLUR_COST,
    EXACT,
    LEFT,
    WIDEST_BLUR,
    Event,
    Mean,
    expected_size,
    shorter,
    summed_apart,
)
from csgm_cli.core.loss_far import (
    LEAST_MEAN,
    SMALLEST,
    Chernoff,
    Far,
    Parts,
    far_event,
    mean_below,
    softened,
)
from csgm_cli.core.loss_line import RAISED, choose_line, transform
from csgm_cli.core.loss_power import power_function
from csgm_cli.core.loss_size import first_size, gaussian_size, little_loss
from csgm_cli.core.loss_window import Step
from csgm_cli.core.sliced_law import HIGHEST, LOWEST, excess
from csgm_cli.roots import downhill

Array = NDArray[np.float64]

#: The blur of test functions that need one, relative to 1/sqrt(saddle (saddle + 1)): it makes them larger by
#: half its square.
_MIXTURE_BLUR = 0.003
#: Sizes that are tried, and from which share of an answer on they are not too small: cuts that are too
#: far out leave too much to cancel.
_SIZES, _ENOUGH = 7, 1e-3
#: A first guess looks at one test function in so many, and not at losses below this.
_COARSE = 4
#: So often what serves the least is made anew at most.
_STEPS = 8
_LEAST_LOSS = 1e-12


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
        return Mean(self.mean + float(excess(np.array([strike]))[0]), 1e-12, 0.0)

    def mixture_blur(self, strike: float) -> float:
        """As of an `Event`; a blur of v adds E[Y] v/2."""
        return BLUR_COST * 2 * RAISED * self.mixture(strike).upper


def bounds_of_family(event: Event | Settled, weights: Array, log_strikes: Array) -> Callable[[int], float]:
    """The bound on the mean of each test function of a family, by index."""

    @cache
    def bound(i: int) -> float:
        return max(float(weights[i]) * event.mixture(float(log_strikes[i])).upper * (1 + RAISED), SMALLEST)

    return bound


@dataclass(frozen=True)
class Powers:
    """Test functions of one ``exponent``, at least 0, and what each costs besides its mean."""

    exponent: float
    weights: tuple[float, ...]
    log_strikes: tuple[float, ...]
    costs: tuple[float, ...]

    def moved(self, away: float) -> Powers:
        """With strikes further up."""
        return replace(self, log_strikes=tuple(strike + away for strike in self.log_strikes))

    def bounds(self, event: Event) -> Callable[[int], float]:
        """The bound on the mean of each, with its cost, by index."""

        @cache
        def bound(i: int) -> float:
            mean = event.mixture(self.log_strikes[i], self.exponent).upper
            return max(self.weights[i] * mean * (1 + RAISED), SMALLEST) + self.costs[i]

        return bound


@lru_cache(maxsize=64)
def power_event(parts: Parts, powers: Powers, known: tuple[float, ...]) -> tuple[Event, int] | None:
    """What serves these around the least of their bounds, and the index of that.

    What was made for one of the ``known`` strikes is taken where it serves.
    """
    weights, strikes = np.array(powers.weights), np.array(powers.log_strikes)
    at = _first_guess(parts, weights, strikes, np.array(powers.costs), powers.exponent)
    event = None
    for _ in range(3):
        further = _serving(parts, powers.log_strikes[at], powers.exponent, known)
        if further is None:
            break
        event, tried = further, at
        at = downhill(powers.bounds(event), at, strikes.size - 1)
        if at == tried or event.serves(powers.log_strikes[at], powers.exponent):
            break
    return None if event is None else (event, at)


def _serving(parts: Parts, strike: float, exponent: float, known: tuple[float, ...]) -> Event | None:
    """What was made for one of the ``known`` strikes and serves this one, or else what is made for it."""
    for there in (*known, strike):
        event = _mixture_event(parts, there)
        if isinstance(event, Event) and (there == strike or event.serves(strike, exponent)):
            return event
    return None


@dataclass(frozen=True)
class Serving:
    """What serves a family around the one at index ``at``, the least.

    It was made for the last of ``tried``, and what was made for the others may serve as well.
    """

    event: Event | Settled
    tried: tuple[int, ...]
    at: int


@lru_cache(maxsize=8)
def convex_event(parts: Parts, weights: tuple[float, ...], log_strikes: tuple[float, ...]) -> Serving | None:
    """What serves the family around its least mean."""
    c, strikes = np.array(weights), np.array(log_strikes)
    at = _first_guess(parts, c, strikes, np.zeros(c.size))
    event = _mixture_event(parts, log_strikes[at])
    while event is None and at >= _COARSE:  # next to the lowest loss nothing may be known: narrower ones
        at -= _COARSE
        event = _mixture_event(parts, log_strikes[at])
    tried: tuple[int, ...] = (at,)
    for _ in range(_STEPS):
        if event is None:
            return None
        at = downhill(bounds_of_family(event, c, strikes), at, c.size - 1)
        if at == tried[-1] or event.serves(log_strikes[at]):
            break
        further = _mixture_event(parts, log_strikes[at])
        if further is None:
            at = tried[-1]
            break
        event, tried = further, (*tried, at)
    return None if event is None else _least_around(parts, c, strikes, Serving(event, tried, at))


def _least_around(parts: Parts, weights: Array, strikes: Array, found: Serving) -> Serving:
    """The same, or a way further down, seen by what serves the next strikes where that does not."""
    event, at = found.event, found.at
    least = bounds_of_family(event, weights, strikes)(at)
    for other in (at - 1, at + 1):
        if not 0 <= other < strikes.size or event.serves(float(strikes[other])):
            continue
        beside = _mixture_event(parts, float(strikes[other]))
        if beside is not None and bounds_of_family(beside, weights, strikes)(other) < least:
            return _least_around(parts, weights, strikes, Serving(beside, (*found.tried, other), other))
    return found


def _first_guess(parts: Parts, weights: Array, strikes: Array, costs: Array, exponent: float = 0.0) -> int:
    """The index of about the least: the least of one in so many, and then of all around that."""

    def least(some: slice) -> int:
        return int(np.argmin(weights[some] * _mixture_sizes(parts, strikes[some], exponent) + costs[some]))

    at = _COARSE * least(slice(None, None, _COARSE))
    around = slice(max(at - _COARSE + 1, 0), at + _COARSE)
    return around.start + least(around)


def _mixture_sizes(parts: Parts, log_strikes: Array, exponent: float = 0.0) -> Array:
    """About the answers for c = 1 + B: what the coordinates do one at a time, or all by a little.

    Below 0 those that do nothing, with a loss of about 0, come on top.
    """
    mu = little_loss(parts)
    far_out = np.maximum(log_strikes / mu, 1.0)
    little = np.exp(gaussian_size(mu, np.maximum(log_strikes, 0.0)))
    little = little * (1 + exponent) / (exponent + far_out / mu)
    v, total = np.maximum(log_strikes, _LEAST_LOSS)[:, None], np.zeros(log_strikes.size)
    for part in parts:
        x = np.linspace(LOWEST, HIGHEST + part.s, 300)
        loss, log_mass = part.loss(x), math.log(x[1] - x[0]) - x * x / 2
        above = np.maximum(loss - v, 0.0)
        total += part.count * (np.exp(log_mass + v) * power_function(above, exponent)).sum(axis=1)
    low = np.minimum(log_strikes, 0.0)
    nothing = np.exp(low) * power_function(-low, exponent)
    return np.asarray(total / math.sqrt(2 * math.pi) + little + LEAST_MEAN + nothing)


@lru_cache(maxsize=16)
def _mixture_event(parts: Parts, log_strike: float) -> Event | Settled | None:
    """What serves the means with strikes around that one; None where nothing is known."""
    if log_strike <= sum(part.count * part.floor for part in parts):
        return Settled.of(parts)
    size, best, least = first_size(parts, max(log_strike, 0.0)), None, math.inf
    too_little = 0.0  # what makes cuts that leave out little, but perhaps lie too far out
    for _ in range(_SIZES):
        far = far_event(parts, log_strike, size)
        cuts = add_cuts(parts, log_strike, size, far)
        if cuts is None:
            break
        event = Event(far, cuts) if isinstance(cuts, Chernoff) else _summed(far, cuts, size)
        if event is None:
            break
        mean = event.mixture(log_strike)
        if mean.upper < least:
            best, least = event, mean.upper
        if mean.slack <= EXACT or best is None:  # or so far out that it overflows
            break
        if event.mixture_left_out(log_strike) <= LEFT * least:
            if size >= _ENOUGH * least:
                break
            too_little, size = size, size**0.25 * (_ENOUGH * least) ** 0.75 * 10.0
        elif size > max(SMALLEST, 1e3 * too_little):
            size = max(1e-3 * size, SMALLEST)
        else:
            break
    return best


def _summed(far: Far, cuts: Cuts, size: float) -> Event | None:
    """With the sums for test functions; without any where that would take too wide a blur."""
    if isinstance(cuts.bulk, Cuts):
        found = summed_apart(far, cuts, size, mixture=True)
        if found is not None:
            return found
        together = add_cuts(far.parts, cuts.strike, size, far, apart=False)
        if together is None or isinstance(together, Chernoff):
            return None if together is None else Event(far, together)
        cuts = together
    event = Event(softened(far, cuts.strike, size), cuts)
    rest = 0.1 * expected_size(cuts, size) / (1.0 + cuts.saddle)
    expected = convex(event.far, cuts.strike)[0] + rest + LEAST_MEAN
    cuts, falling = shorter(cuts, expected, size)
    if falling is not None:
        return replace(event, cuts=cuts, sums=transform(cuts, *falling))
    width = min(_MIXTURE_BLUR / math.sqrt(cuts.saddle * (cuts.saddle + 1)), WIDEST_BLUR)
    line, width = choose_line(cuts, width, expected)
    return event if width > 1.0 else replace(event, sums=transform(cuts, line), variance=width**2)
