"""The epsilon and the noise at which the tight accountant's bounds, and kappa*, meet a delta.

docs/theory.md, "Numerics". A bound in full is dear, so searches are steered by estimates: that the
test function that decided goes on (``retrace``), or else that the bound is off by a factor that changes
slowly from what a saddle point, or single coordinates, make of it (`_Size`). What they end with is a
bound in full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.conversion import Converted, best_log_delta
from csgm_cli.core.curves import renyi_curve
from csgm_cli.core.loss_grid import one_at_a_time
from csgm_cli.core.profile import profile, reach
from csgm_cli.core.retrace import profile_again
from csgm_cli.core.search import Slope, descend, increasing_root
from csgm_cli.core.steered import Function, Search, log_ratio, settled
from csgm_cli.core.tight import (
    LARGEST_DELTA,
    is_exact,
    is_the_truth,
    kappa_direction,
    tight_delta,
    worst_law,
)
from csgm_cli.errors import NoAnswerError
from csgm_cli.model import Bound, Mechanism
from csgm_cli.ranges import RANGES

if TYPE_CHECKING:
    from csgm_cli.core.certificate import Again, Certificate
    from csgm_cli.core.contour import Direction, Law
    from csgm_cli.core.profile import Profile

#: kappa* is not asked for a sigma further below the answer than this, relative.
_DEEPEST = 0.1
#: Relative width to which a sigma is solved, and room left in it for the rounding of numbers derived from
#: it, and for an epsilon solved at it.
_WIDTH = 4e-13
#: (sigma/ceiling)^2 is not looked at below this.
_LEAST_SHARE = 1e-40
#: Where bounds rise with epsilon, steps down that are smaller than this, relative, are the last.
_CREEP = 1e-3
#: Nobody asks for larger epsilons, and profiles wobble there.
_LARGEST_EPSILON = RANGES["epsilon"].high
#: An epsilon is not first guessed below this.
_LEAST_EPSILON = 1e-9
#: So far beside a noise, relative, its slope is looked for.
_BESIDE = 1e-4
#: A slope where none is known.
SLOPE = 20.0
#: Relative width to which lower bounds are solved; they are rounded down by twice that.
_LOOSE = 4e-10
#: How much log delta may wobble at least; answers keep clear of the target by it. No such room is made
#: for a wobble that costs more than the second of sigma.
_WOBBLE, _TOO_MUCH = 1e-12, 1e-9
#: Nothing is told apart that a wobble hides and that costs less than this of sigma, where it is known how
#: much it hides, and where not.
_BLIND, _UNKNOWN = 2.5e-9, 2e-10
#: By about how much, in logarithms, cones exceed the profile at kappa*, and `_Size`.
_CONE = 0.34
#: Above this delta the slope of its logarithm vanishes with 1 - delta.
_LARGE = 0.8
#: Where fewer coordinates than this are sent on average, one at a time they are most of delta.
_FEW_SENT = 1.0
#: So they are where the log-moment at the saddle is less than the first, and less than the second of what is
#: taken off it, or than the third where contours reach. That is a half for a Gaussian; where it is little,
#: the moment is that of a loss of next to nothing.
_LITTLE, _SMALL_SHARE, _TINY_SHARE = 15.0, 1 / 3, 1 / 20


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

    size = _Size(worst_law(mechanism, sigma), renyi, ceiling)
    start = _first(size.at_epsilon, ceiling, _LEAST_EPSILON, math.log(delta) - _above(mechanism), slope)
    return Search(excess, again, lambda _: size.at_epsilon, slope).root(start, ceiling, 0.0, _WIDTH / 2)


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

    size = _Size(law, renyi, ceiling)
    search = Search(excess, again, lambda _: size.at_epsilon, slope)
    found = _as_far_as_known(search, ceiling, ceiling, 0.0, _LOOSE)
    return max(0.0, found * (1 - 2 * _LOOSE))


def tight_sigma(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """A sigma that suffices for every vector, at most ``ceiling``, which another bound has proven.

    Numbers that differ from it by rounding suffice as well.
    """
    delta = min(delta, LARGEST_DELTA)
    renyi = _renyi(mechanism, ceiling, epsilon)
    slope, _ = _slopes(renyi, epsilon, delta)

    def clear(wobble: float) -> float:
        most = _TOO_MUCH * slope
        return max(min(_WOBBLE, most), 2 * wobble if wobble <= most else 0.0) + _WIDTH * slope

    def sigma(share: float) -> float:
        return ceiling * math.sqrt(share)

    def room(wobble: float) -> float:
        return _room(wobble, _WIDTH / 2, slope)

    @cache
    def excess(share: float) -> float:
        found = tight_delta(mechanism, sigma(share), epsilon).decisive
        return settled(log_ratio(found.value, delta) + clear(found.wobble), room(found.wobble))

    def again(share: float) -> Function | None:
        found = tight_delta(mechanism, sigma(share), epsilon).decisive
        on, margin = found.again, clear(found.wobble) + room(found.wobble)
        return None if on is None else lambda there: log_ratio(on(epsilon, there / share), delta) + margin

    size = partial(_Size(worst_law(mechanism, ceiling), renyi, epsilon).at, epsilon)
    start = _first(size, 1.0, _LEAST_SHARE, math.log(delta) - _above(mechanism), slope / 2)

    def nearly(share: float) -> Function:
        on = tight_delta(mechanism, sigma(share), epsilon).decisive.nearly
        return size if on is None else lambda there: math.log(on(epsilon, there / share))

    # log delta is nearly straight in sigma^2
    return sigma(Search(excess, again, nearly, slope / 2).root(start, 1.0, _LEAST_SHARE, 2 * _WIDTH))


def _room(wobble: float, width: float, slope: float) -> float:
    """How far below a target a search may end: by that ``width``, or by what a wobble hides anyway."""
    blind = _BLIND if math.isfinite(wobble) else _UNKNOWN
    return max(width, min(wobble / slope, blind)) * slope


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
    room = _LOOSE / 2 * slope

    def law(share: float) -> Law:
        return worst_law(mechanism, ceiling * math.sqrt(share))

    @cache
    def excess(share: float) -> float:
        shown = _shown(law(share), direction, epsilon)
        return settled(log_ratio(shown.lower, delta), _room(shown.wobble, _LOOSE / 2, slope))

    def again(share: float) -> Function | None:
        on = _again_from_below(law(share), direction, epsilon)
        return None if on is None else lambda there: log_ratio(on(epsilon, there / share), delta) + room

    sizes, start = _Size(law(1.0), renyi, epsilon), 1.0
    size = partial(sizes.at, epsilon)
    if sizes.is_rare or reach(law(1.0)) == 0.0:  # a bracket, which is dear
        more = _more_than_nearly(tight_delta(mechanism, ceiling, epsilon).decisive, epsilon)
        start = _first(size, 1.0, _DEEPEST**2, math.log(delta) - more, slope / 2)
    direction = kappa_direction(law(start), epsilon)
    search = Search(excess, again, lambda _: size, slope / 2)
    return _as_far_as_known(search, start, 1.0, _DEEPEST**2, 2 * _LOOSE)


def _more_than_nearly(cone: Certificate, epsilon: float) -> float:
    """By how much log delta exceeds what single coordinates make of it, where that is known."""
    return 0.0 if cone.nearly is None else math.log(cone.value / cone.nearly(epsilon))


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
    on the unknown is not worth finding.
    """
    seen = 0.0

    def excess(x: float) -> float:
        nonlocal seen
        value = search.excess(x)
        seen = max(seen, x) if value > 0.0 else seen
        return value

    try:
        return replace(search, excess=excess).root(start, highest, lowest, width)
    except _UnknownError:
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
    size = _Size(worst_law(mechanism, sigma), renyi, epsilon)
    if size.is_rare:
        return 2 * (size.at(epsilon, 1.0) - size.at(epsilon, 1.0 + _BESIDE)) / _BESIDE
    return _slopes(renyi, epsilon, delta)[0]


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


class _Size:
    """About log delta at kappa*: the add integrand's peak, and how wide a parabola there is.

    Smooth, which takes the saddle point to many digits; each is sought from the one before. Where few
    mask bits are sent, or few of those sent count: what coordinates do one at a time.
    """

    def __init__(self, law: Law, renyi: Converted | None, epsilon: float) -> None:
        self.law = law
        self.is_rare = _is_rare(law, renyi, epsilon)
        self.log_z = math.nan if renyi is None else math.log(renyi.order - 1)
        self.at = cache(self._at)

    def at_epsilon(self, epsilon: float) -> float:
        """At the noise of the law."""
        return self.at(epsilon, 1.0)

    def _at(self, epsilon: float, noise: float) -> float:
        """With the noise's variance changed by that factor; NaN where that is not known."""
        law = self.law.scaled(noise, 1.0)
        if self.is_rare:
            return math.log(one_at_a_time(law, epsilon))

        def slope(log_z: float) -> Slope:
            z = math.exp(log_z)
            moment = moments(z)
            value = moment.d_order - epsilon - 1 / z - 1 / (z + 1)
            return value, z * (moment.d2_order + 1 / z**2 + 1 / (z + 1) ** 2)

        moments = cache(lambda z: law.real(1.0 + z))
        if math.isnan(self.log_z):
            return math.nan
        try:
            with np.errstate(all="ignore"):
                self.log_z = increasing_root(slope, self.log_z, tolerance=1e-11, stride=0.5)
                z = math.exp(self.log_z)
                moment = moments(z)
        except (NoAnswerError, OverflowError):
            return math.nan
        curvature = moment.d2_order + 1 / z**2 + 1 / (z + 1) ** 2
        if not math.isfinite(curvature):
            return math.nan
        return moment.value - z * epsilon - math.log(z * (z + 1)) - 0.5 * math.log(2 * math.pi * curvature)


def _is_rare(law: Law, renyi: Converted | None, epsilon: float) -> bool:
    """Whether delta is what coordinates do one at a time."""
    outside = reach(law) == 0.0
    if outside and law.gamma * law.total_t < _FEW_SENT * law.largest_t:
        return True
    if renyi is None:
        return False
    share = _SMALL_SHARE if outside else _TINY_SHARE
    return renyi.moment.value < min(_LITTLE, share * (renyi.order - 1) * epsilon)


def _above(mechanism: Mechanism) -> float:
    """By about how much the bound will exceed `_Size`: a cone's, or that of all coordinates at the clip."""
    dim = mechanism.geometry.dim
    return _CONE if dim is None else min(_CONE, math.log(dim / min(mechanism.coordinates, dim)))


def _first(size: Function, highest: float, lowest: float, goal: float, slope: float) -> float:
    """About where ``size``, which falls, is ``goal``, at most ``highest``."""
    if not highest > lowest or math.isnan(size(highest)):
        return highest
    ends = math.log(highest), math.log(lowest)
    return math.exp(descend(lambda log_x: size(math.exp(log_x)) - goal, *ends, width=1e-4, slope=slope))
