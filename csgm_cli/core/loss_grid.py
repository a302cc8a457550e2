"""The privacy profile where few mask bits are ever sent, between certified bounds.

There the law of the loss L = sum log Y is nearly an atom with a few rare jumps, and the contour
integrals of ``contour`` converge slowly or, since jumps can be large, not at all. Four exact steps
mend that. With k = e^eps, Y = e^L, and each coordinate's loss either bulk (u <= b), a jump
(b < u <= h) or far (u > h; ``loss_cuts`` chooses b and h):

1. Some coordinate is far: E[(Y - k)_+; far] = P(far) - k Q(far) + E[(k - Y)_+; far], and the last
   term, of strays whose other losses make up for the far one, is between 0 and a Chernoff bound.
2. All are bulk: E[(Y - k)_+; all bulk] is between 0 and a Chernoff bound.
3. D(k) = E[(Y - k)_+; some jump, none far] is a contour integral with E[Y^a; none far] - E[Y^a; all
   bulk] as its transform. That is computed as a small number where the event is rare, so nothing
   cancels. It still decays slowly, which a blur by an independent lognormal R mends, of mean 1 and
   log-variance v: a factor exp(z (z+1) v/2).
4. The blur is undone: with A(v) = E_R[D(k R)],

       A(v) - (A(2v) - A(v)) / (sqrt 2 e^(-v/8) - 1)  <=  D(k)  <=  A(v).

   Proof. D is convex in k, so the right side is Jensen's. D(k) = int (y - k)_+ dmu(y) gives
   A(v) - D(k) = int G_v dmu, where G_v(y) = E_R[(y - k R)_+] - (y - k)_+ >= 0 is the time value of
   an option of total volatility w = sqrt v, so dG/dw = k phi(log(k/y)/w + w/2) (vega). At sqrt 2 w
   that is at least e^(-w^2/8) times what it is at w, so G_2v >= sqrt 2 e^(-v/8) G_v.

The remove direction has no far losses and needs steps 3 and 4 alone, with E[Y^-z], (1 - k Y)_+.

Cuts, shift and transform are chosen for one strike of a lattice and serve all strikes around it, so
that the bounds are smooth in epsilon there, and searches for an epsilon cheap.

Errors. The trapezoid rule adds the same expectations at other strikes: not negative, so upper bounds
stand, and bounded, so lower bounds can do without. Truncation, and the errors of the transform, are
bounded at each node and taken outward.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.contour import Direction, Law
from csgm_cli.core.loss_cuts import (
    LEFT_OUT,
    SMALLEST,
    Chernoff,
    Cuts,
    Far,
    Parts,
    add_cuts,
    far_event,
    remove_cuts,
)
from csgm_cli.core.loss_line import Transform, choose_line, transform
from csgm_cli.core.search import downhill
from csgm_cli.core.sliced_law import HIGHEST, LOWEST, Coordinates, single_round

Array = NDArray[np.float64]

#: The relative width of a bracket that is aimed at, and the blurs (standard deviations of the loss)
#: to begin with: relative to 1/saddle, and at most. Test functions are blurred by the last, relative
#: to 1/sqrt(saddle (saddle + 1)), which makes them larger by half its square.
_GOAL, _FIRST_BLUR, _WIDEST_BLUR, _MIXTURE_BLUR = 1e-5, 0.03, 0.5, 0.007
#: How much a blur of all losses may add to the mean of a test function, relative, at most this often
#: as wide as the one that was used; and how much bounds are raised for that.
_BLUR_COST, _WIDER, _RAISED = 5e-5, 10.0, 6e-5
#: Losses of single coordinates beyond s^2/2 of this are not put on a grid.
_LARGEST_S = 1e3
#: Cells of the lattice of epsilons to an octave, where it begins, and an offset that keeps round
#: numbers inside their cells.
_CELLS, _FIRST_CELL, _OFFSET = 64.0, 1e-7, 0.3
#: What is closer than this, in cells, to the middle of one is well inside.
_INSIDE = 0.499
#: Rounding makes bounds wobble by less than this times the bounds on the errors.
_ROUNDING = 0.01
#: A strike is near another where the integrand differs by less than exp of this.
_NEAR = 1.0
#: Losses below this are not looked at for a first guess.
_LEAST_LOSS = 1e-4


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
class Mixture:
    """An upper bound on a test function's mean, the index of that function, and a blur that keeps to it.

    ``blur`` is the log-variance: the mean of the function, blurred, is also at most ``upper``.
    ``wobble`` is as in a `Certificate`.
    """

    upper: float
    index: int
    blur: float
    wobble: float


def cell(epsilon: float) -> tuple[float, bool]:
    """The middle of the cell of the lattice that ``epsilon`` is in, and whether it is well inside.

    Bounds of the add direction are smooth in epsilon inside of each cell.
    """
    if epsilon < _FIRST_CELL:
        return epsilon, False
    place = _CELLS * math.log2(epsilon) + _OFFSET
    middle = math.floor(place) + 0.5
    return 2 ** ((middle - _OFFSET) / _CELLS), abs(place - middle) < _INSIDE


def grid_hockey_stick(law: Law, direction: Direction, epsilon: float) -> Bracket | None:
    """delta(epsilon) >= 0 of the loss in one direction; None where no useful bracket is known.

    Nothing below `SMALLEST` is told from 0. Smooth in all parameters to 1e-9 or so, relative.
    """
    parts = _parts_of(law)
    if parts[0].s > _LARGEST_S:
        return None
    rounds = sum(part.count for part in parts)
    beyond = epsilon + rounds * parts[0].floor  # the lowest loss of all
    if direction is Direction.REMOVE and beyond >= -1e-15 * epsilon:
        return Bracket(0.0, 0.0) if beyond > 1e-15 * epsilon else None
    if rounds == 1.0:
        return _single_bracket(parts[0], direction, epsilon)
    if direction is Direction.ADD:
        middle, inside = cell(epsilon)
        event = _add_event(parts, middle)
        if event is not None and not event.is_near(epsilon):
            event, inside = _add_event(parts, epsilon), False
        best = event.bracket(epsilon) if event is not None else None
        if best is not None and not inside:
            best = replace(best, wobble=math.inf)
    else:
        best = _remove_bracket(parts, epsilon)
    if best is None or not best.lower <= best.upper or best.upper > max(2 * best.lower, 2 * SMALLEST):
        return None
    return best


def _single_bracket(part: Coordinates, direction: Direction, epsilon: float) -> Bracket:
    """The closed form; near the lowest loss the digits of epsilon decide, so two epsilons are asked."""
    slack = 1e-15 * epsilon if direction is Direction.REMOVE else 0.0
    t = part.s**2
    low, high = (single_round(part.gamma, t, direction, epsilon + d) for d in (slack, -slack))
    return _outward(low * (1 - 1e-11), high * (1 + 1e-11))


def _parts_of(law: Law) -> Parts:
    return tuple(Coordinates(float(n), law.gamma, math.sqrt(t)) for n, t in law.parts if n > 0 and t > 0)


def _size(parts: Parts, epsilon: float) -> float:
    """A first guess at the answer: what the coordinates do one at a time."""
    single = sum(part.count * single_round(part.gamma, part.s**2, Direction.ADD, epsilon) for part in parts)
    return min(max(single, SMALLEST), 1.0)


@dataclass(frozen=True)
class _Event:
    """What is computed once for a law and a strike, and good for strikes around that one.

    ``sums`` with a blur of log-variance ``variance`` is None where Chernoff bounds do.
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

    def bracket(self, strike: float) -> Bracket:
        """Of the add direction's hockey-stick."""
        settled, left_out = self.settled(strike), self.left_out(strike)
        rest = Bracket(0.0, 0.0, 0.0, 0.0)
        if self.sums is not None:
            rest = _unblurred(self.sums, self.variance, strike)
        error = self.far.error(strike)
        return _outward(settled - error + rest.lower, settled + error + left_out + rest.upper, rest)

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

    def mixture(self, strike: float) -> float:
        """An upper bound on the mean of y log(y/v) - y + v for y >= v, log v = ``strike``."""
        bound = self.mixture_settled(strike) + self.mixture_left_out(strike)
        return bound + sum(self._mixture_sums(strike))

    def _mixture_sums(self, strike: float) -> tuple[float, float]:
        if self.sums is None:
            return 0.0, 0.0
        return self.sums.integral(self.variance, strike - self.sums.cuts.strike, mixture=True)

    def mixture_wobble(self, strike: float) -> float:
        """How much ``mixture`` may jump around there, relative."""
        return _ROUNDING * self._mixture_sums(strike)[1] / self.mixture(strike)

    def mixture_settled(self, strike: float) -> float:
        """What far losses add to that.

        Where some coordinate is far, the function is at most y log(y/v) - y + v, which is not negative
        below v either, and to which a blur adds y variance/2. Jensen and Chernoff serve the rest as
        they serve hockey-sticks, of which the function is a mixture.
        """
        far = self.far
        mean = far.mean_loss
        settled = mean - (1 + strike) * far.p + math.exp(strike + far.log_q)
        return settled + far.error(strike) * (2 + abs(strike)) + 1e-12 * mean

    def mixture_left_out(self, strike: float) -> float:
        """Bounds on the parts of it that are not computed."""
        if isinstance(self.cuts, Chernoff):
            return math.exp(self.cuts.log_mixture_bound(strike))
        if self.sums is None:
            return math.inf
        left_out = self.sums.dropped(strike - self.cuts.strike) / self.cuts.shift
        return left_out + (math.exp(self.cuts.bulk.log_mixture_bound(strike)) if self.cuts.bulk else 0.0)

    def mixture_blur(self, strike: float) -> float:
        """Log-variance of a blur that adds about `_BLUR_COST` of it to ``mixture``."""
        allowed, far = _BLUR_COST * self.mixture(strike), self.far.p / 2
        if self.sums is None:
            return allowed / max(far, SMALLEST)
        away = strike - self.sums.cuts.strike
        narrow, wide = (self.sums.integral(c * self.variance, away, mixture=True)[0] for c in (1.0, 2.0))
        slope = far + max(wide - narrow, 0.0) / self.variance
        return min(allowed / max(slope, SMALLEST), _WIDER**2 * self.variance)


@lru_cache(maxsize=8)
def _add_event(parts: Parts, strike: float) -> _Event | None:
    """The best of a few tries: cuts too far out leave too much to cancel, too close in too much out."""
    size = _size(parts, strike)
    best, narrowest = None, math.inf
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
        elif left_out > 1e-6 * bracket.lower:
            guess = bracket.lower if 0.0 < bracket.lower < size else 1e-4 * size
        else:
            break
        guess = max(guess, SMALLEST)
        if 0.5 < guess / size < 2.0:
            break
        size = guess
    return best


def _try_add(parts: Parts, strike: float, size: float) -> _Event | None:
    """Cuts and sums for an answer of about ``size``."""
    far = far_event(parts, strike, size)
    cuts = add_cuts(parts, strike, size, far)
    if cuts is None or isinstance(cuts, Chernoff):
        return None if cuts is None else _Event(far, cuts)
    settled = far.p - math.exp(strike + far.log_q)
    if cuts.kept.log_bound(strike) < math.log(LEFT_OUT * max(settled, SMALLEST)):
        return _Event(far, cuts)
    sums, variance = _narrow(cuts, settled, size)
    return _Event(far, cuts, sums, variance)


def _remove_bracket(parts: Parts, epsilon: float) -> Bracket | None:
    cuts = remove_cuts(parts, epsilon)
    if cuts is None:
        return None
    if isinstance(cuts, Chernoff):
        return _outward(0.0, math.exp(cuts.log_bound(epsilon)))
    sums, variance = _narrow(cuts, 0.0, SMALLEST)
    rest = _unblurred(sums, variance, epsilon)
    dropped = sums.dropped(0.0) if sums is not None else 0.0
    return replace(_outward(rest.lower, rest.upper + dropped, rest), wobble=math.inf)


def _outward(lower: float, upper: float, rest: Bracket = Bracket(0.0, 0.0)) -> Bracket:
    """With the blur and the wobble of ``rest``, a part of it."""
    lower, upper = (lower if lower > SMALLEST else 0.0), min(1.0, max(upper, SMALLEST))
    wobble = rest.wobble * rest.upper / upper if rest.upper > 0.0 else rest.wobble
    return Bracket(lower, upper, rest.blur, wobble)


def grid_convex(
    law: Law, weights: Array, log_strikes: Array, *, away: float = 0.0, enough: float = 0.0
) -> Mixture | None:
    """A certified upper bound on E_Q[phi(e^L)], phi(y) = c (y log(y/v) - y + v) for y >= v, else 0.

    The smallest over the pairs of c in ``weights`` and log v in ``log_strikes`` + ``away`` (one family,
    in order), or the first that is at most ``enough``; None where none is known. Few pairs are looked
    at, downhill from the minimum for ``away`` = 0, near which all work is shared.
    """
    parts = _parts_of(law)
    if parts[0].s > _LARGEST_S:
        return None
    found, shared = _convex_event(parts, tuple(weights.tolist()), tuple(log_strikes.tolist())), True
    if found is not None and not found[0].is_near(float(log_strikes[found[1]]) + away):
        found, shared = (
            _convex_event(parts, tuple(weights.tolist()), tuple((log_strikes + away).tolist())),
            False,
        )
    if found is None:
        return None
    event, at = found
    bounds = _bounds(event, weights, log_strikes + away)
    at = downhill(bounds, at, weights.size - 1, enough)
    if not math.isfinite(bounds(at)):
        return None
    strike = float(log_strikes[at]) + away
    wobble = event.mixture_wobble(strike) if shared else math.inf
    return Mixture(bounds(at), at, event.mixture_blur(strike), wobble)


def _bounds(event: _Event, weights: Array, log_strikes: Array) -> Callable[[int], float]:
    @cache
    def bound(i: int) -> float:
        return float(weights[i]) * event.mixture(float(log_strikes[i])) * (1 + _RAISED)

    return bound


@lru_cache(maxsize=8)
def _convex_event(
    parts: Parts, weights: tuple[float, ...], log_strikes: tuple[float, ...]
) -> tuple[_Event, int] | None:
    """What serves the family around its least mean, and the index of that."""
    c, strikes = np.array(weights), np.array(log_strikes)
    at = int(np.argmin(c * _mixture_sizes(parts, strikes)))
    event = None
    for _ in range(4):
        event = _mixture_event(parts, log_strikes[at])
        if event is None:
            break
        at = downhill(_bounds(event, c, strikes), at, c.size - 1)
        if event.is_near(log_strikes[at]):
            break
    return None if event is None else (event, at)


def _mixture_sizes(parts: Parts, log_strikes: Array) -> Array:
    """About the answers for c = 1: what the coordinates do one at a time.

    Below 0 those that do nothing, with a loss of about 0, come on top.
    """
    v, total = np.maximum(log_strikes, _LEAST_LOSS)[:, None], np.zeros(log_strikes.size)
    for part in parts:
        x = np.linspace(LOWEST, HIGHEST + part.s, 500)
        loss, log_mass = part.loss(x), math.log(x[1] - x[0]) - x * x / 2
        above = np.maximum(loss - v, 0.0)
        total += part.count * (np.exp(log_mass + v) * (above * np.exp(above) - np.expm1(above))).sum(axis=1)
    low = np.minimum(log_strikes, 0.0)
    return np.asarray(total / math.sqrt(2 * math.pi) + SMALLEST + np.expm1(low) - low)


def _mixture_event(parts: Parts, log_strike: float) -> _Event | None:
    """What serves the means with strikes around that one; None where nothing is known."""
    size, best, least = _size(parts, max(log_strike, 0.0)), None, math.inf
    for _ in range(3):
        far = far_event(parts, log_strike, size)
        cuts = add_cuts(parts, log_strike, size, far)
        if cuts is None:
            break
        event = _Event(far, cuts) if isinstance(cuts, Chernoff) else _blurred(far, cuts, size)
        if event.mixture(log_strike) < least:
            best, least = event, event.mixture(log_strike)
        if event.mixture_left_out(log_strike) <= 1e-5 * least or size <= SMALLEST:
            break
        size = max(1e-3 * size, SMALLEST)
    return best


def _blurred(far: Far, cuts: Cuts, size: float) -> _Event:
    """With the sums for test functions; without any where that would take too wide a blur."""
    event = _Event(far, cuts)
    expected = event.mixture_settled(cuts.strike) + 0.1 * size / (1.0 + cuts.saddle) + SMALLEST
    width = min(_MIXTURE_BLUR / math.sqrt(cuts.saddle * (cuts.saddle + 1)), _WIDEST_BLUR)
    line, width = choose_line(cuts, width, expected, mixture=True)
    return event if width > 1.0 else _Event(far, cuts, transform(cuts, line), width**2)


def _narrow(cuts: Cuts, settled: float, size: float) -> tuple[Transform | None, float]:
    """Sums for steps 3 and 4, with an accuracy that suits the sum with ``settled``, and their blur."""
    expected = 0.1 * math.exp(cuts.log_peak) / (cuts.saddle * (cuts.saddle + 1))
    if cuts.bulk is not None:
        expected = min(expected, max(size, 1e-10 * expected))
    expected = max(expected + settled, 1e-5 * SMALLEST)
    sums, width = _blurred_sums(cuts, min(_FIRST_BLUR / cuts.saddle, _WIDEST_BLUR), expected)
    bracket = _unblurred(sums, width**2, cuts.strike)
    goal, gap = _GOAL * (bracket.lower + settled), bracket.upper - bracket.lower
    if gap > 1.01 * goal > 0.0:
        sums, width = _blurred_sums(cuts, width * math.sqrt(goal / gap), expected)
    return sums, width**2


def _blurred_sums(cuts: Cuts, width: float, expected: float) -> tuple[Transform | None, float]:
    """With a blur of ``width``, or of the least that is within reach, and that width."""
    line, width = choose_line(cuts, width, expected)
    return (None if width > 1.0 else transform(cuts, line)), width


def _unblurred(sums: Transform | None, variance: float, strike: float) -> Bracket:
    """Step 4 at one strike."""
    if sums is None:
        return Bracket(0.0, 1.0)
    away = strike - sums.cuts.strike
    upper, error = sums.integral(variance, away)
    wider, wider_error = sums.integral(2 * variance, away)
    weight = 1 / (math.sqrt(2) * math.exp(-variance / 8) - 1)
    lower = upper - error - weight * (wider - upper + error + wider_error)
    aliases = (1 + weight) * sums.aliases(2 * variance, away)
    wobble = _ROUNDING * error / (upper + error) if upper > 0.0 else math.inf
    return Bracket(max(0.0, lower - aliases), upper + error, variance, wobble)
