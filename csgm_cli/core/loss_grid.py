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

Errors. The trapezoid rule adds the same expectations at other strikes: not negative, so upper bounds
stand, and bounded, so lower bounds can do without. Truncation, and the errors of the transform, are
bounded at each node and taken outward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

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
    log_kappa,
    remove_cuts,
)
from csgm_cli.core.search import downhill
from csgm_cli.core.sliced_law import Coordinates, Line, single_round

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: The relative width of a bracket that is aimed at, and the blurs (standard deviations of the loss)
#: to begin with: relative to 1/shift, and at most. Test functions are blurred by the last.
_GOAL, _FIRST_BLUR, _WIDEST_BLUR, _MIXTURE_BLUR = 1e-5, 0.03, 0.5, 0.005
#: How much a blur of all losses may add to the mean of a test function, relative, at most this often
#: as wide as the one that was used; and how much bounds are raised for that.
_BLUR_COST, _WIDER, _RAISED = 5e-5, 10.0, 6e-5
#: The blur has ended the integrand (exp(-24) of it is left) at this many times 1/blur.
_END = 7.0
#: Losses of single coordinates beyond s^2/2 of this are not put on a grid.
_LARGEST_S = 1e3
_MOST_ORDERS, _MOST_NODES = 1 << 17, 2_000_000


@dataclass(frozen=True)
class Bracket:
    """``lower`` <= the true value <= ``upper``; ``blur`` is the log-variance of the blur in ``upper``."""

    lower: float
    upper: float
    blur: float = 0.0


@dataclass(frozen=True)
class Mixture:
    """An upper bound on a test function's mean, the index of that function, and a blur that keeps to it.

    ``blur`` is the log-variance: the mean of the function, blurred, is also at most ``upper``.
    """

    upper: float
    index: int
    blur: float


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
    best = _add_bracket(parts, epsilon) if direction is Direction.ADD else _remove_bracket(parts, epsilon)
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


def _add_bracket(parts: Parts, epsilon: float) -> Bracket | None:
    """The best of a few tries: cuts too far out leave too much to cancel, too close in too much out."""
    size = _size(parts, epsilon)
    best: Bracket | None = None
    for _ in range(6):
        bracket, left_out = _try_add(parts, epsilon, size)
        if bracket is None:
            break
        width = bracket.upper - bracket.lower
        if best is None or width < best.upper - best.lower:
            best = bracket
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


def _try_add(parts: Parts, epsilon: float, size: float) -> tuple[Bracket | None, float]:
    """A bracket for an answer of about ``size``, and how much of it is Chernoff bounds."""
    far = far_event(parts, epsilon, size)
    settled = far.p - math.exp(epsilon + far.log_q)
    cuts, left_out = add_cuts(parts, epsilon, size, far), far.stray
    rest = Bracket(0.0, 0.0)
    if cuts is None:
        return None, 0.0
    if isinstance(cuts, Chernoff):
        left_out += math.exp(cuts.log_bound(epsilon))
    elif (log_rest := cuts.kept.log_bound(epsilon)) < math.log(LEFT_OUT * max(settled, SMALLEST)):
        left_out += math.exp(log_rest) + _bulk_bound(cuts)
    else:
        left_out += _bulk_bound(cuts) + _dropped_bound(cuts)
        rest = _jumps_bracket(cuts, settled, size)
    lower, upper = rest.lower + settled - far.error, rest.upper + settled + far.error + left_out
    return _outward(lower, upper, rest.blur), left_out


def _remove_bracket(parts: Parts, epsilon: float) -> Bracket | None:
    cuts = remove_cuts(parts, epsilon)
    if cuts is None:
        return None
    if isinstance(cuts, Chernoff):
        return _outward(0.0, math.exp(cuts.log_bound(epsilon)))
    rest = _jumps_bracket(cuts, 0.0, SMALLEST)
    return _outward(rest.lower, rest.upper + _dropped_bound(cuts), rest.blur)


def _outward(lower: float, upper: float, blur: float = 0.0) -> Bracket:
    return Bracket(lower if lower > SMALLEST else 0.0, min(1.0, max(upper, SMALLEST)), blur)


def _bulk_bound(cuts: Cuts) -> float:
    """Step 2."""
    return math.exp(cuts.bulk.log_bound(cuts.strike)) if cuts.bulk else 0.0


def _dropped_bound(cuts: Cuts) -> float:
    return math.exp(min(cuts.log_peak + float(log_kappa(np.array(cuts.shift))), 700.0)) * cuts.dropped


def grid_convex(law: Law, weights: Array, log_strikes: Array, enough: float = 0.0) -> Mixture | None:
    """A certified upper bound on E_Q[phi(e^L)], phi(y) = c (y log(y/v) - y + v) for y >= v, else 0.

    The smallest over the pairs of c in ``weights`` and log v in ``log_strikes`` (one family, in
    order), or the first that is at most ``enough``; None where none is known. Few pairs are looked
    at, downhill from where single coordinates have their minimum.
    """
    parts = _parts_of(law)
    if parts[0].s > _LARGEST_S:
        return None

    @cache
    def mixture(i: int) -> tuple[float, float]:
        return _mixture_bound(parts, float(log_strikes[i]))

    def bound(i: int) -> float:
        return float(weights[i]) * mixture(i)[0] * (1 + _RAISED)

    at = downhill(
        bound, int(np.argmin(weights * _mixture_sizes(parts, log_strikes))), weights.size - 1, enough
    )
    return Mixture(bound(at), at, mixture(at)[1]) if math.isfinite(bound(at)) else None


def _mixture_sizes(parts: Parts, log_strikes: Array) -> Array:
    """About the answers for c = 1: int_log v^inf of what the coordinates do one at a time.

    Below 0 those that do nothing, with a loss of about 0, come on top.
    """
    x = np.geomspace(1e-4, 200.0, 70)
    sizes = np.array([_size(parts, epsilon) for epsilon in x.tolist()])
    steps = np.append((sizes[1:] + sizes[:-1]) / 2 * np.diff(x), 0.0)
    beyond = np.cumsum(steps[::-1])[::-1] + SMALLEST
    low = np.minimum(log_strikes, 0.0)
    above = np.exp(np.interp(np.log(np.maximum(log_strikes, x[0])), np.log(x), np.log(beyond)))
    return np.asarray(above + np.expm1(low) - low)


def _mixture_bound(parts: Parts, log_strike: float) -> tuple[float, float]:
    """The bound for c = 1 and the blur that adds little to it; infinite where none is known."""
    size, best = _size(parts, max(log_strike, 0.0)), (math.inf, 0.0)
    for _ in range(3):
        far = far_event(parts, log_strike, size)
        cuts = add_cuts(parts, log_strike, size, far)
        if cuts is None:
            break
        bound, left_out, blur = _try_mixture(parts, cuts, far, log_strike, size)
        best = min(best, (bound, blur))
        if left_out <= 1e-5 * bound or size <= SMALLEST:
            break
        size = max(1e-3 * size, SMALLEST)
    return best


def _try_mixture(
    parts: Parts, cuts: Cuts | Chernoff, far: Far, log_strike: float, size: float
) -> tuple[float, float, float]:
    """A bound for c = 1, how much of it is Chernoff bounds, and a blur that adds `_BLUR_COST` of it.

    Where some coordinate is far, phi is at most y log(y/v) - y + v, which is not negative below v
    either, and to which a blur adds y variance/2. Jensen and Chernoff serve the rest as they serve
    hockey-sticks, of which phi is a mixture.
    """
    mean = far.mean_loss(parts)
    settled = mean - (1 + log_strike) * far.p + math.exp(log_strike + far.log_q)
    settled += far.error * (2 + abs(log_strike)) + 1e-12 * mean
    if isinstance(cuts, Chernoff):
        left_out = math.exp(cuts.log_mixture_bound(log_strike))
        return settled + left_out, left_out, _BLUR_COST * settled / max(far.p / 2, SMALLEST)
    left_out = _dropped_bound(cuts) / cuts.shift
    if cuts.bulk is not None:
        left_out += math.exp(cuts.bulk.log_mixture_bound(log_strike))
    expected = settled + 1e-3 * size + SMALLEST  # aliases only add
    line, width = _line(cuts, min(_MIXTURE_BLUR / cuts.shift, _WIDEST_BLUR), expected)
    if width > 1.0:
        return math.inf, 0.0, 0.0
    transform, variance, peak = _transform(cuts, line), width**2, math.exp(cuts.log_peak)
    value, error = transform.integral(variance, 1.0 / line.z)
    wider, _ = transform.integral(2 * variance, 1.0 / line.z)
    bound = settled + peak * (value + error) + left_out
    slope = far.p / 2 + peak * max(wider - value, 0.0) / variance
    return bound, left_out, min(_BLUR_COST * bound / max(slope, SMALLEST), _WIDER**2 * variance)


@dataclass(frozen=True)
class _Transform:
    """The transform at the orders of ``line`` times exp(-z strike - log_peak), and its errors."""

    line: Line
    values: ComplexArray
    errors: Array

    def integral(self, variance: float, factor: ComplexArray | float = 1.0) -> tuple[float, float]:
        """exp(-log_peak) A(variance), and a bound on its error besides the aliases."""
        z, step = self.line.z, self.line.step
        kernel = factor * np.exp(z * (z + 1) * (variance / 2)) / (z * (z + 1))
        terms, moduli = (self.values * kernel).real, np.abs(kernel)
        # Beyond the end the blur falls like exp(-variance y^2/2), and all else does not grow.
        unseen = float(moduli[-1]) / (variance * step * (self.line.count - 1))
        value = step * (float(terms.sum()) - float(terms[0]) / 2)
        return value / math.pi, (step * float((self.errors * moduli).sum()) + unseen) / math.pi


def _transform(cuts: Cuts, line: Line) -> _Transform:
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
        return _Transform(line, front, _grown(np.abs(front), bulk_error))
    few, whole = np.abs(more) < 1.0, np.exp(bulk + more)
    half = np.where(few, more / 2, 0.0)
    values = np.where(few, front * 2 * np.exp(half) * np.sinh(half), whole - front)
    errors = _grown(np.abs(values), bulk_error) + _grown(np.abs(whole), more_error)
    errors += np.where(few, 0.0, 1e-15 * (np.abs(front) + np.abs(whole)))
    return _Transform(line, values, errors)


def _grown(sizes: Array, log_factors: Array) -> Array:
    """How much products of ``sizes`` can be off; where all digits are lost they are below 1e-18."""
    return np.asarray(1e-18 + sizes * np.expm1(np.minimum(log_factors, 40.0)))


def _jumps_bracket(cuts: Cuts, settled: float, size: float) -> Bracket:
    """Steps 3 and 4, with an accuracy that suits the sum with ``settled``."""
    expected = 0.1 * math.exp(cuts.log_peak) / (cuts.shift * (cuts.shift + 1))
    if cuts.bulk is not None:
        expected = min(expected, max(size, 1e-10 * expected))
    expected = max(expected + settled, 1e-5 * SMALLEST)
    width = min(_FIRST_BLUR / cuts.shift, _WIDEST_BLUR)
    bracket, width = _bracket(cuts, width, expected)
    goal, gap = _GOAL * (bracket.lower + settled), bracket.upper - bracket.lower
    if gap > 1.01 * goal > 0.0:
        bracket, _ = _bracket(cuts, width * math.sqrt(goal / gap), expected)
    return bracket


def _bracket(cuts: Cuts, width: float, expected: float) -> tuple[Bracket, float]:
    """Bounds from a blur of ``width``, or of the least that is within reach, and that width."""
    line, width = _line(cuts, width, expected)
    if width > 1.0:
        return Bracket(0.0, 1.0), width
    transform, variance, peak = _transform(cuts, line), width**2, math.exp(cuts.log_peak)
    upper, error = transform.integral(variance)
    wider, wider_error = transform.integral(2 * variance)
    turns = cuts.shift * line.period
    aliases = cuts.mass * math.exp(-turns) / -math.expm1(-turns)
    aliases += math.exp(
        min(0.0, cuts.kept.log_far_aliases(cuts.strike, cuts.shift, line.period, 2 * variance))
    )
    weight = 1 / (math.sqrt(2) * math.exp(-variance / 8) - 1)
    lower = upper - error - weight * (wider - upper + error + wider_error)
    bracket = Bracket(max(0.0, peak * lower - (1 + weight) * aliases), peak * (upper + error), variance)
    return bracket, width


def _line(cuts: Cuts, width: float, expected: float) -> tuple[Line, float]:
    """Orders up to the end of the blur, so dense that aliases are negligible; one of few counts.

    And the width of the blur, wider than asked for where that would take too many.
    """
    shift, negligible = cuts.shift, 1e-9 * expected
    period = (max(0.0, math.log(max(cuts.mass, SMALLEST)) - math.log(negligible)) + 2.0) / shift
    while period * shift < 3000.0:
        if cuts.kept.log_far_aliases(cuts.strike, shift, period, 2 * width**2) <= math.log(negligible):
            break
        period *= 1.4
    dense = _END * period / (2 * math.pi)
    width = max(width, dense / _MOST_ORDERS, 18.0 * _END * cuts.range / _MOST_NODES)
    power = 2 ** max(6, math.floor(math.log2(dense / width)))
    count = next(n for n in (power, power * 3 // 2, power * 2) if n >= 0.999999 * dense / width)
    return Line(cuts.sign, shift, _END / (width * count), count), width
