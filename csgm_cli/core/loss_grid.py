"""The privacy profile where few mask bits are ever sent, between certified bounds.

There the law of the loss L = sum log Y is nearly an atom with a few rare jumps, and the contour
integrals of ``contour`` converge slowly or, since jumps can be large, not at all. Three exact steps
mend that (docs/theory.md, "The privacy profile": rare mask bits). With k = e^eps, Y = e^L, and each
coordinate's loss either bulk, a jump or far (``loss_cuts`` chooses where, and ``loss_window`` makes the
borders smooth):

1. Some coordinate is far: E[(Y - k)_+; far] = P(far) - k Q(far) + E[(k - Y)_+; far], and the last
   term, of strays whose other losses make up for the far one, is between 0 and a Chernoff bound.
2. All are bulk: E[(Y - k)_+; all bulk] is between 0 and a Chernoff bound.
3. D(k) = E[(Y - k)_+; some jump, none far] is a contour integral with E[Y^a; none far] - E[Y^a; all
   bulk] as its transform. That is computed as a small number where the event is rare, so nothing
   cancels, and it falls fast (``loss_fall`` proves how fast).

The remove direction has no far losses and needs step 3 alone, with E[Y^-z], (1 - k Y)_+. There, and
where the transform would take too many nodes, D is blurred by an independent lognormal R of mean 1 and
log-variance v, A(v) = E_R[D(k R)], a factor exp(z (z+1) v/2), and

       A(v) - (A(2v) - A(v)) / (sqrt 2 e^(-v/8) - 1)  <=  D(k)  <=  A(v).

Windows, shift and transform are chosen for one strike of a lattice and serve all strikes around it, so
that the bounds are smooth in epsilon there, and searches for an epsilon cheap.

Errors. The trapezoid rule adds the same expectations at other strikes: not negative, so upper bounds
stand, and bounded, so lower bounds can do without. Truncation, and the errors of the transform, are
bounded at each node and taken outward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_event import add_event, remove_bracket
from csgm_cli.core.loss_far import SMALLEST, Parts
from csgm_cli.core.loss_line import RAISED, Bracket, outward
from csgm_cli.core.loss_mixture import Powers, bounds_of_family, convex_event, power_event
from csgm_cli.core.loss_nodes import TooManyNodesError
from csgm_cli.core.loss_size import Below, first_size, singles_size
from csgm_cli.core.sliced_law import Coordinates
from csgm_cli.profile.contour import Direction, Law
from csgm_cli.profile.single_round import single_mixture, single_round
from csgm_cli.roots import downhill

Array = NDArray[np.float64]

#: Losses of single coordinates beyond s^2/2 of this are not put on a grid.
_LARGEST_S = 1e3
#: Cells of the lattice of epsilons to an octave, where it begins, and an offset that keeps round
#: numbers inside their cells.
_CELLS, _FIRST_CELL, _OFFSET = 64.0, 1e-7, 0.3
#: What is closer than this, in cells, to the middle of one is well inside.
_INSIDE = 0.499


@dataclass(frozen=True)
class Mixture:
    """An upper bound on a test function's mean, the index of that function, and a blur that keeps to it.

    ``blur`` is the log-variance: the mean of the function, blurred, is also at most ``upper``.
    ``wobble`` is as in a `Certificate`. ``known``: each log v that work was done for, if `grid_powers` can
    make use of it.
    """

    upper: float
    index: int
    blur: float
    wobble: float
    known: tuple[float, ...] = ()


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
    try:
        return _hockey_stick(law, direction, epsilon)
    except TooManyNodesError:
        return None


def _hockey_stick(law: Law, direction: Direction, epsilon: float) -> Bracket | None:
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
        event = add_event(parts, middle)
        if event is not None and not event.is_near(epsilon):
            event, inside = add_event(parts, epsilon), False
        best = event.bracket(epsilon) if event is not None else None
        if best is not None and not inside:
            best = replace(best, wobble=math.inf)
    else:
        best = remove_bracket(parts, epsilon)
    if best is None or not best.lower <= best.upper or best.upper > max(2 * best.lower, 2 * SMALLEST):
        return None
    return best


def _single_bracket(part: Coordinates, direction: Direction, epsilon: float) -> Bracket:
    """The closed form; near the lowest loss the digits of epsilon decide, so two epsilons are asked."""
    slack = 1e-15 * epsilon if direction is Direction.REMOVE else 0.0
    t = part.s**2
    low, high = (single_round(part.gamma, t, direction, epsilon + d) for d in (slack, -slack))
    return outward(low * (1 - 1e-11), high * (1 + 1e-11))


def grid_powers(law: Law, powers: Powers, away: float, known: tuple[float, ...]) -> Mixture | None:
    """As `grid_convex` for test functions with an exponent > 0 and what each costs besides: the least sum.

    Strikes are those of ``powers``, moved ``away``. At those ``known``, some work may have been done.
    """
    try:
        return _powers(law, powers, away, known)
    except TooManyNodesError:
        return None


def _powers(law: Law, powers: Powers, away: float, known: tuple[float, ...]) -> Mixture | None:
    parts, moved = _parts_of(law), powers.moved(away)
    if parts[0].s > _LARGEST_S:
        return None
    if sum(part.count for part in parts) == 1.0:
        return _single(parts[0], moved)
    found, shared = power_event(parts, powers, known), True
    if found is not None and not found[0].serves(moved.log_strikes[found[1]], powers.exponent):
        found, shared = power_event(parts, moved, ()), False
    if found is None:
        return None
    event, at = found
    bounds = moved.bounds(event)
    at = downhill(bounds, at, len(moved.weights) - 1)
    if not math.isfinite(bounds(at)):
        return None
    strike = moved.log_strikes[at]
    wobble = event.mixture(strike, powers.exponent).wobble if shared else math.inf
    return Mixture(bounds(at), at, event.mixture_blur(strike, powers.exponent), wobble)


def _single(part: Coordinates, powers: Powers) -> Mixture:
    """By quadrature, for the Q-density beyond the strike is smooth.

    The blur adds about half of `RAISED`: that of v adds at most (1 + B) E[Y] v/2.
    """

    @cache
    def bound(i: int) -> float:
        mean = single_mixture(part, powers.log_strikes[i], powers.exponent)
        return max(powers.weights[i] * mean * (1 + RAISED), SMALLEST) + powers.costs[i]

    count = len(powers.weights)
    at = downhill(bound, count // 2, count - 1)
    mean = single_mixture(part, powers.log_strikes[at], powers.exponent)
    return Mixture(bound(at), at, RAISED * mean / (1 + powers.exponent), 1e-12)


def one_at_a_time(law: Law, epsilon: float) -> float:
    """About the add direction's hockey-stick where few coordinates are sent."""
    return first_size(_parts_of(law), epsilon)


def one_by_one(law: Law, epsilon: float) -> float:
    """About the same, without what few of them do together."""
    return singles_size(_parts_of(law), epsilon)


def none_above(law: Law, epsilon: float) -> Below:
    """The loss where no coordinate's is above ``epsilon``."""
    return Below(_parts_of(law), epsilon)


def singles_mean(law: Law, log_strike: float, exponent: float) -> float:
    """About E_Q[phi(e^L)] there, for phi of ``loss_power``."""
    return sum(part.count * single_mixture(part, log_strike, exponent) for part in _parts_of(law))


def _parts_of(law: Law) -> Parts:
    return tuple(Coordinates(float(n), law.gamma, math.sqrt(t)) for n, t in law.parts if n > 0 and t > 0)


def grid_convex(
    law: Law, weights: Array, log_strikes: Array, *, away: float = 0.0, enough: float = 0.0
) -> Mixture | None:
    """A certified upper bound on E_Q[phi(e^L)], phi(y) = c (y log(y/v) - y + v) for y >= v, else 0.

    The smallest over the pairs of c in ``weights`` and log v in ``log_strikes`` + ``away`` (one family,
    in order), or the first that is at most ``enough``; None where none is known. Few pairs are looked
    at, downhill from the minimum for ``away`` = 0, near which all work is shared.
    """
    try:
        return _convex(law, weights, log_strikes, away, enough)
    except TooManyNodesError:
        return None


def _convex(law: Law, weights: Array, log_strikes: Array, away: float, enough: float) -> Mixture | None:
    parts = _parts_of(law)
    if parts[0].s > _LARGEST_S:
        return None
    c, moved = tuple(weights.tolist()), tuple((log_strikes + away).tolist())
    if sum(part.count for part in parts) == 1.0:
        return _single(parts[0], Powers(0.0, c, moved, (0.0,) * len(c)))
    found, shared = convex_event(parts, c, tuple(log_strikes.tolist())), True
    if found is not None and not found.event.serves(float(log_strikes[found.at]) + away):
        found, shared = convex_event(parts, c, moved), False
    if found is None:
        return None
    event, bounds = found.event, bounds_of_family(found.event, weights, log_strikes + away)
    at = downhill(bounds, found.at, weights.size - 1, enough)
    if not math.isfinite(bounds(at)):
        return None
    strike = float(log_strikes[at]) + away
    wobble = event.mixture(strike).wobble if shared else math.inf
    known = tuple(log_strikes[list(found.tried[::-1])].tolist()) if shared else ()
    return Mixture(bounds(at), at, event.mixture_blur(strike), wobble, known)
