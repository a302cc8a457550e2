"""The privacy profile at one vector: a contour integral, or a certified bracket where that is slow.

docs/theory.md, "The privacy profile". A bracket's upper end is 1e-5 above the profile. So that no
bound steps down where contours take over, theirs are as much too high there, and less further in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.loss_grid import grid_hockey_stick
from csgm_cli.core.loss_line import RAISED, ROUNDING
from csgm_cli.profile.contour import Contour, Direction, Law, build_contour

if TYPE_CHECKING:
    from csgm_cli.core.loss_line import Bracket

#: From this t on a single coordinate shows whether it was sent, and contours are too long.
_VISIBLE = 16.0
#: So they are where fewer coordinates than the first are sent on average, or fewer than the second
#: and the loss has less variance than the third;
_FEW_SENT, _MANY_SENT, _LEAST_VARIANCE = 0.22, 20.0, 0.01
#: but for a smooth loss, with a smaller t than this and gamma times what is sent above that.
_SMOOTH, _LEAST_SHARE = 0.5, 0.1
#: The border itself is outside: this is more than the rounding of what is compared.
_BORDER = 1e-9
#: How much brackets, and contours at the border of their reach, are above the profile.
_GAP = RAISED
#: Brackets of at most this relative width are as good as exact.
_NARROW = 1e-7
#: Where a profile is not known, it is looked at at these shares of epsilon.
_SMALLER = (1 - 1e-12, 1 - 1e-6, 0.999, 0.98, 0.9, 0.7, 0.5)
#: Relative error up to which a contour integral is used.
USEFUL = 1e-6


@dataclass(frozen=True)
class Profile:
    """``lower`` <= delta of one direction at one vector <= ``upper``; [0, 1] where it is not known.

    ``upper`` may exceed the profile by ``slack``, relative; ``contour`` is None where none was needed.
    ``blur``, ``wobble`` and ``raised`` are as in a `Certificate`.
    """

    lower: float
    upper: float
    slack: float = 0.0
    contour: Contour | None = None
    blur: float = 0.0
    wobble: float = 0.0
    raised: float = 0.0

    @property
    def is_known(self) -> bool:
        """False where no method reaches this profile."""
        return self.upper < 1.0 or self.lower > 0.0


def reach(law: Law) -> float:
    """How far inside the reach of contours a law is: 0 outside and at the border, 1 well inside.

    It does not depend on epsilon. The characteristic function of the loss decays over 1/std of its
    bulk, and a mask bit that is all but visible gives it an atom.
    """
    t = law.largest_t
    if t > _VISIBLE:
        return 0.0
    variance = law.gamma**2 * law.total_t * math.expm1(t) / t
    sent = law.gamma * law.total_t / t
    bulk = min(sent / _FEW_SENT, variance / _LEAST_VARIANCE) - 1.0
    smooth = min(2.0 - 2.0 * t / _SMOOTH, law.gamma * sent / _LEAST_SHARE - 1.0)
    many = sent / _MANY_SENT - 1.0
    inside = min(2.0 - 2.0 * t / _VISIBLE, max(many, bulk, smooth))
    return min(1.0, inside) if inside > _BORDER else 0.0


def over(law: Law) -> float:
    """By how much bounds from contours are raised, relative."""
    return _GAP * (1.0 - reach(law))


@lru_cache(maxsize=64)
def profile(law: Law, direction: Direction, epsilon: float) -> Profile:
    """Delta at ``epsilon`` >= 0 in one direction."""
    if direction is Direction.REMOVE and epsilon + law.floor >= 1e-15 * epsilon:
        return Profile(0.0, 0.0)
    with np.errstate(all="ignore"):  # what overflows is infinite, and then the profile is not known
        return _known(law, direction, epsilon) or Profile(0.0, 1.0)


def _known(law: Law, direction: Direction, epsilon: float) -> Profile | None:
    """By a contour, or else by a bracket; None where neither is in reach."""
    if reach(law) > 0.0:
        found = _by_contour(law, direction, epsilon)
        if found is not None:
            return found
    bracket = grid_hockey_stick(law, direction, epsilon)
    return None if bracket is None else _of_bracket(bracket)


def _by_contour(law: Law, direction: Direction, epsilon: float) -> Profile | None:
    contour = build_contour(law, direction, epsilon)
    if contour is None:
        return None
    value, error = contour.integral(-epsilon, np.ones_like(contour.z))
    if not error + contour.aliases < USEFUL * value:
        return None
    lower = min(1.0, max(0.0, value - error - contour.aliases))
    upper = min(1.0, (value + error) * (1 + over(law)))
    return Profile(lower, upper, over(law), contour, wobble=ROUNDING * error / value, raised=over(law))


def _of_bracket(bracket: Bracket) -> Profile:
    """With the upper end at 1 + _GAP of the estimate, if that is higher, for smoothness.

    A wide bracket is A - 2.41 (A' - A) <= D <= A, with A and A' too high by about v and 2 v times
    something: 2 A - A' is off by about v^2. A narrow one is exact, and ``bracket.blur`` keeps to its
    upper end raised by `RAISED`.
    """
    width = bracket.upper - bracket.lower
    if width <= 1e-9 * bracket.upper and bracket.blur == 0.0:
        return Profile(bracket.lower, bracket.upper, 1e-9, wobble=math.inf)
    raised = 0.0
    if width <= _NARROW * bracket.upper:
        upper, blur, raised = min(1.0, bracket.upper * (1 + _GAP)), bracket.blur, _GAP
    else:
        excess = width * (math.sqrt(2.0) - 1.0)  # A - D
        smooth = (bracket.upper - excess) * (1 + _GAP)
        upper = min(1.0, max(bracket.upper, smooth))
        blur = bracket.blur * (2.0 if upper >= bracket.upper + 1.2 * excess else 0.9)
    slack = upper / bracket.lower - 1.0 if bracket.lower > 0.0 else math.inf
    return Profile(bracket.lower, upper, slack, blur=blur, wobble=bracket.wobble, raised=raised)


def profile_from_above(law: Law, direction: Direction, epsilon: float) -> Profile:
    """`profile`, or where it is not known an upper bound from a smaller epsilon, for delta falls with it.

    Close to the lowest loss of all the remove direction is next to nothing, but hard to compute, and so
    is any delta that is far below all that count.
    """
    found = profile(law, direction, epsilon)
    if found.is_known:
        return found
    for share in _SMALLER:
        there = profile(law, direction, share * epsilon)
        if there.is_known:
            return Profile(0.0, there.upper, math.inf, wobble=math.inf)
    return found
