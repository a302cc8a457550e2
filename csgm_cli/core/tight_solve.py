"""The epsilon and the noise at which the tight accountant's bounds, and kappa*, meet a delta.

docs/theory.md, "Numerics". A bound in full is dear, so searches are steered by estimates: that the
test function that decided goes on (``retrace``), or else that the bound is off by a factor that changes
slowly from what a saddle point, or single coordinates, make of it (`Size`). What they end with is a
bound in full.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from csgm_cli.core.certificate import Proof
from csgm_cli.core.profile import profile
from csgm_cli.core.retrace import profile_again
from csgm_cli.core.size import Size
from csgm_cli.core.steered import Function, Search, log_ratio, settled
from csgm_cli.core.tight import (
    LARGEST_DELTA,
    is_exact,
    is_the_truth,
    kappa_direction,
    remove_renyi,
    tight_delta,
    worst_law,
)
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.mechanism import Bound, Mechanism
from csgm_cli.ranges import RANGES
from csgm_cli.renyi.conversion import Converted, best_log_delta
from csgm_cli.renyi.curves import renyi_curve
from csgm_cli.roots import descend

if TYPE_CHECKING:
    from csgm_cli.core.certificate import Again, Certificate
    from csgm_cli.core.profile import Profile
    from csgm_cli.profile.contour import Direction, Law

#: kappa* is not asked for a sigma further below the answer than this, relative.
_DEEPEST = 0.1
#: Relative width to which a sigma is solved, and room left in it for the rounding of numbers derived from
#: it, and for an epsilon solved at it.
_WIDTH = 4e-13
#: So much less, relative, is begun with where a start is unknown.
_LESS = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 0.4)
#: And so many times what is between the known and the unknown is halved.
_HALVINGS = 8
#: Relative width of a first guess.
_CLOSE = 1e-4
#: (sigma/ceiling)^2 is not looked at below this.
_LEAST_SHARE = 1e-40
#: Where bounds rise with epsilon, steps down that are smaller than this, relative, are the last.
_CREEP = 1e-3
#: Nobody asks for larger epsilons, and profiles wobble there.
_LARGEST_EPSILON = RANGES["epsilon"].high
#: An epsilon is not first guessed below this.
_LEAST_EPSILON = 1e-9
#: A slope where none is known.
SLOPE = 20.0
#: Relative width to which lower bounds are solved; they are rounded down by twice that.
_LOOSE = 4e-10
#: How much log delta may wobble at least; answers keep clear of the target by it. No such room is made
#: for a wobble that costs more than the second of sigma.
_WOBBLE, _TOO_MUCH = 1e-12, 1e-9
#: From here on, relative, what is found by a search along sigma and by one along epsilon may differ.
WOBBLES = 1e-8
#: Nothing is told apart that a wobble hides and that costs less than the first of sigma or epsilon; or, where
#: it wobbles less, or nobody knows, than the second of sigma.
_BLIND, _LESS_BLIND = 2.5e-9, 2e-10
#: By about how much, in logarithms, cones exceed the profile at kappa*, and `Size`.
_CONE = 0.34
#: Above this delta the slope of its logarithm vanishes with 1 - delta.
_LARGE = 0.8


@dataclass(frozen=True)
class TightEpsilon:
    """``lower`` <= the true epsilon <= ``upper``; ``bound`` (and ``order``) decided the upper one.

    ``lower`` is None unless asked for; ``is_known`` and ``bracketed`` are as in `TightDelta` there.
    """

    lower: float | None
    upper: float
    bound: Bound
    order: float | None
    is_known: bool
    bracketed: float


def tight_epsilon(
    mechanism: Mechanism, sigma: float, delta: float, ceiling: float, *, near: float, with_lower: bool
) -> TightEpsilon:
    """Epsilon at ``delta``, at most ``ceiling``, which is proven; or just ``near`` where that will do.

    It will where the bound there is smooth, so that a search from the ceiling would end no higher.
    """
    delta = min(delta, LARGEST_DELTA)

    there = tight_delta(mechanism, sigma, near) if near < ceiling else None
    if there is not None and log_ratio(there.upper, delta) + there.decisive.wobble <= 0.0:
        upper = near
    else:
        upper = _least_epsilon(mechanism, sigma, delta, ceiling)
        there = tight_delta(mechanism, sigma, upper)
    lower = 0.0 if with_lower else None
    if upper < ceiling and is_the_truth(mechanism, there):
        lower = upper
    elif with_lower and upper > 0.0:
        lower = kappa_epsilon(mechanism, sigma, delta, upper)
    return TightEpsilon(lower, upper, there.bound, there.order, there.is_known, there.bracketed)


def _least_epsilon(mechanism: Mechanism, sigma: float, delta: float, ceiling: float) -> float:
    """The least epsilon found; where the proof is for a smaller one, that is looked at in its turn.

    ``ceiling`` where that is beyond all epsilons that are asked for.
    """
    if ceiling > _LARGEST_EPSILON and tight_delta(mechanism, sigma, _LARGEST_EPSILON).upper > delta:
        return ceiling
    found = _root_epsilon(mechanism, sigma, delta, ceiling)
    below = tight_delta(mechanism, sigma, found).decisive.epsilon
    if below is None or tight_delta(mechanism, sigma, below).upper > delta:
        return found
    if below == 0.0 or below > found * (1 - _CREEP):
        return below
    return _least_epsilon(mechanism, sigma, delta, below)


def _root_epsilon(mechanism: Mechanism, sigma: float, delta: float, ceiling: float) -> float:
    renyi = _renyi(mechanism, sigma, ceiling)
    _, slope = _slopes(renyi, ceiling, delta)
    law = worst_law(mechanism, sigma)
    size = Size(lambda epsilon: (law, epsilon), ceiling, renyi)
    start = size.first(ceiling, _LEAST_EPSILON, math.log(delta) - _above(mechanism), slope)
    slope = size.slope(start, slope)

    def room(wobble: float) -> float:
        return _room(wobble, _WIDTH / 4, slope)

    @cache
    def excess(epsilon: float) -> float:
        found = tight_delta(mechanism, sigma, epsilon).decisive
        return settled(log_ratio(found.value, delta), room(found.wobble))

    def again(epsilon: float) -> Function | None:
        found = tight_delta(mechanism, sigma, epsilon).decisive
        on, margin = found.again, room(found.wobble)
        return None if on is None else lambda there: log_ratio(on(there), delta) + margin

    def blind(epsilon: float) -> float:
        return _hidden(tight_delta(mechanism, sigma, epsilon).decisive.wobble, slope)

    return Search(excess, again, lambda _: size.at, slope, blind).root(start, ceiling, 0.0, _WIDTH / 2)


def kappa_epsilon(mechanism: Mechanism, sigma: float, delta: float, ceiling: float) -> float:
    """The epsilon that kappa* shows at ``delta``, a lower bound on the true one; 0 where it is not known."""
    law = worst_law(mechanism, sigma)
    direction = kappa_direction(law, ceiling)
    renyi = _renyi(mechanism, sigma, ceiling)
    _, slope = _slopes(renyi, ceiling, delta)
    room = _LOOSE / 2 * slope

    @cache
    def excess(epsilon: float) -> float:
        shown = _shown(law, direction, epsilon)
        return settled(log_ratio(shown.lower, delta), _room(shown.wobble, _LOOSE / 2, slope))

    def again(epsilon: float) -> Function | None:
        on = _again_from_below(law, direction, epsilon)
        return None if on is None else lambda there: log_ratio(on(there), delta) + room

    size = Size(lambda epsilon: (law, epsilon), ceiling, renyi)
    size.settle(ceiling)
    search = Search(excess, again, lambda _: size.at, slope)
    found = _as_far_as_known(search, ceiling, ceiling, 0.0, _LOOSE)
    return max(0.0, found * (1 - 2 * _LOOSE))


def tight_sigma(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """A sigma that suffices for every vector, at most ``ceiling``, which another bound has proven.

    Numbers that differ from it by rounding suffice as well.
    """
    delta = min(delta, LARGEST_DELTA)
    renyi, law = _renyi(mechanism, ceiling, epsilon), worst_law(mechanism, ceiling)
    slope, _ = _slopes(renyi, epsilon, delta)
    size = Size(lambda share: (law.scaled(share, 1.0), epsilon), 1.0, renyi)
    if delta > law.sent:  # which is more than what is seen of those that are sent
        start = _least_remove_share(law, epsilon, delta, slope / 2)
    else:
        start = size.first(1.0, _LEAST_SHARE, math.log(delta) - _above(mechanism), slope / 2)
        slope = 2 * size.slope(start, slope / 2)

    def clear(wobble: float) -> float:
        most = _TOO_MUCH * slope
        return max(min(_WOBBLE, most), 2 * wobble if wobble <= most else 0.0) + _WIDTH * slope

    def sigma(share: float) -> float:
        return ceiling * math.sqrt(share)

    def room(wobble: float) -> float:
        return max(_room(wobble, _WIDTH / 2, slope), min(wobble, _LESS_BLIND * slope))

    @cache
    def excess(share: float) -> float:
        found = tight_delta(mechanism, sigma(share), epsilon).decisive
        return settled(log_ratio(found.value, delta) + clear(found.wobble), room(found.wobble))

    def again(share: float) -> Function | None:
        found = tight_delta(mechanism, sigma(share), epsilon).decisive
        on, margin = found.again, clear(found.wobble) + room(found.wobble)
        return None if on is None else lambda there: log_ratio(on(epsilon, there / share), delta) + margin

    def nearly(share: float) -> Function:
        on = tight_delta(mechanism, sigma(share), epsilon).decisive.nearly
        return size.at if on is None else lambda there: math.log(on(epsilon, there / share))

    def blind(share: float) -> float:
        return 2 * _hidden(tight_delta(mechanism, sigma(share), epsilon).decisive.wobble, slope)

    # log delta is nearly straight in sigma^2
    return sigma(Search(excess, again, nearly, slope / 2, blind).root(start, 1.0, _LEAST_SHARE, 2 * _WIDTH))


def _least_remove_share(law: Law, epsilon: float, delta: float, slope: float) -> float:
    """About the factor of the noise's variance, up to 1, at which remove's Renyi bound is delta."""

    def excess(log_share: float) -> float:
        return log_ratio(remove_renyi(law.scaled(math.exp(log_share), 1.0), epsilon).value, delta)

    return math.exp(descend(excess, 0.0, math.log(_LEAST_SHARE), width=_CLOSE, slope=slope))


def _room(wobble: float, width: float, slope: float) -> float:
    """How far below a target a search may end: by that ``width``, or by what a wobble hides anyway."""
    return max(width, _hidden(wobble, slope)) * slope


def _hidden(wobble: float, slope: float) -> float:
    """What a large wobble hides of what is searched for, relative, as far as that may be lost."""
    return min(wobble / slope, _BLIND) if WOBBLES < wobble < math.inf else 0.0


def kappa_sigma(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """The sigma that kappa* needs, at most ``ceiling``, which suffices; 0 where that is not known."""
    if delta > LARGEST_DELTA:
        return 0.0
    if is_exact(mechanism) and is_the_truth(mechanism, tight_delta(mechanism, ceiling, epsilon)):
        return ceiling
    share = _kappa_share(mechanism, epsilon, delta, ceiling)
    return ceiling * math.sqrt(share) * (1 - 2 * _LOOSE) if share > _DEEPEST**2 else 0.0


def _kappa_share(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """What the noise's variance at which kappa* has that delta is of the ceiling's; 0 where not known."""
    renyi = _renyi(mechanism, ceiling, epsilon)
    slope, _ = _slopes(renyi, epsilon, delta)

    def law(share: float) -> Law:
        return worst_law(mechanism, ceiling * math.sqrt(share))

    @cache
    def excess(share: float) -> float:
        shown = _shown(law(share), direction, epsilon)
        return settled(log_ratio(shown.lower, delta), _room(shown.wobble, _LOOSE / 2, slope))

    def again(share: float) -> Function | None:
        on = _again_from_below(law(share), direction, epsilon)
        return None if on is None else lambda there: log_ratio(on(epsilon, there / share), delta) + room

    size, start = Size(lambda share: (law(share), epsilon), 1.0, renyi), 1.0
    if size.is_rare:  # or a bracket, which is dear
        more = _more(size, tight_delta(mechanism, ceiling, epsilon).decisive, epsilon, _above(mechanism))
        start = size.first(1.0, _DEEPEST**2, math.log(delta) - more, slope / 2)
        slope = 2 * size.slope(start, slope / 2)
    room = _LOOSE / 2 * slope
    direction = kappa_direction(law(start), epsilon)
    search = Search(excess, again, lambda _: size.at, slope / 2)
    return _as_far_as_known(search, start, 1.0, _DEEPEST**2, 2 * _LOOSE)


def _more(size: Size, cone: Certificate, epsilon: float, above: float) -> float:
    """By about how much log delta exceeds its ``size``, from a ``cone`` at 1, which is so much ``above``."""
    if cone.proof is not Proof.ADD_CONE or not size.is_cut:
        return 0.0
    if cone.nearly is not None:  # of the same test function
        return math.log(cone.value / cone.nearly(epsilon))
    size.settle(1.0)
    return math.log(cone.value) - above - size.at(1.0)


class _UnknownError(Exception):
    """Ends a search where no method reaches the profile."""


def _shown(law: Law, direction: Direction, epsilon: float) -> Profile:
    """What is known of the profile.

    Raises:
        _UnknownError: no method reaches the profile.
    """
    found = profile(law, direction, epsilon)
    if not found.is_known:
        raise _UnknownError
    return found


def _as_far_as_known(search: Search, start: float, highest: float, lowest: float, width: float) -> float:
    """The root of a lower bound's ``search``, or a number below it if that comes to where nothing is known.

    Then it is the largest at which the excess was seen to be positive, 0 where there is none: what borders
    on the unknown is found by a few halvings.
    """
    seen, unknown = 0.0, math.inf

    def excess(x: float) -> float:
        nonlocal seen, unknown
        try:
            value = search.excess(x)
        except _UnknownError:
            unknown = min(unknown, x)
            raise
        seen = max(seen, x) if value > 0.0 else seen
        return value

    for less in _LESS:
        try:
            return replace(search, excess=excess).root(start * (1 - less), highest, lowest, width)
        except _UnknownError:
            if seen > 0.0:
                break
    for _ in range(_HALVINGS if seen > 0.0 else 0):
        with suppress(_UnknownError):
            excess((seen + unknown) / 2)
    return seen


def _again_from_below(law: Law, direction: Direction, epsilon: float) -> Again | None:
    """The profile's lower bound elsewhere; None where there is no contour to follow."""
    contour = profile(law, direction, epsilon).contour
    return None if contour is None else profile_again(contour, law, lower=True)


def _renyi(mechanism: Mechanism, sigma: float, epsilon: float) -> Converted | None:
    """The Renyi bound, which knows about where saddles are and how steep log delta is."""
    try:
        return best_log_delta(renyi_curve(mechanism, Bound.RDP), sigma, epsilon)
    except NoAnswerError:  # out of reach
        return None


def slope_in_sigma(mechanism: Mechanism, sigma: float, epsilon: float, delta: float) -> float:
    """About how steeply log delta falls in log sigma: as what is about as large, or as its Renyi bound."""
    renyi = _renyi(mechanism, sigma, epsilon)
    law = worst_law(mechanism, sigma)
    size = Size(lambda noise: (law.scaled(noise, 1.0), epsilon), 1.0, renyi)
    size.settle(1.0)
    return 2 * size.slope(1.0, _slopes(renyi, epsilon, delta)[0] / 2)


def _slopes(point: Converted | None, epsilon: float, delta: float) -> tuple[float, float]:
    """About how steeply log delta falls in log sigma and in log epsilon: as steeply as its Renyi bound."""
    least = _least_slope(delta)
    if point is not None:
        slopes = 2 * point.moment.d_log_t, (point.order - 1) * epsilon
        if math.isfinite(sum(slopes)):
            in_sigma = max(slopes[0], least) if least == 1.0 else least  # the Renyi bound's does not vanish
            return in_sigma, max(slopes[1], least if least == 1.0 else least * min(1.0, epsilon))
    return SLOPE * least, SLOPE * least


def _least_slope(delta: float) -> float:
    """In log sigma; 1, or less where delta is near 1.

    There 1 - delta is what moves: of a Gaussian, as exp(-mu^2/8).
    """
    return 1.0 if delta <= _LARGE else -2 * (1 - delta) * math.log1p(-delta) / delta


def _above(mechanism: Mechanism) -> float:
    """By about how much the bound will exceed `Size`: a cone's, or that of all coordinates at the clip."""
    dim = mechanism.geometry.dim
    return _CONE if dim is None else min(_CONE, math.log(dim / min(mechanism.coordinates, dim)))
