"""The epsilon at which the tight accountant's bounds on mixed releases, and their kappa*, meet a delta."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.mixed_tight import kappa_again, kappa_delta, mixed_delta, steepness
from csgm_cli.core.steered import Function, Search, log_ratio, settled
from csgm_cli.core.tight import LARGEST_DELTA, TightDelta
from csgm_cli.core.tight_solve import SLOPE, TightEpsilon
from csgm_cli.profile.contour import Direction

if TYPE_CHECKING:
    from csgm_cli.core.composition import Composition

#: Relative widths to which epsilons are solved, and lower bounds on them.
_WIDTH, _LOOSE = 2e-13, 1e-8


def mixed_epsilon(
    releases: Composition, delta: float, ceiling: float, *, with_lower: bool = True
) -> TightEpsilon:
    """Epsilon at ``delta``, at most ``ceiling``, which is proven."""
    delta = min(delta, LARGEST_DELTA)
    slope = _slope(releases, ceiling, delta)
    room = _WIDTH / 2 * slope

    @cache
    def proven(epsilon: float) -> TightDelta:
        return mixed_delta(releases, epsilon, delta)

    def excess(epsilon: float) -> float:
        return settled(log_ratio(proven(epsilon).upper, delta), room)

    def again(epsilon: float) -> Function | None:
        on = proven(epsilon).decisive.again
        return None if on is None else lambda there: log_ratio(on(there), delta) + room

    upper = Search(excess, again, lambda _: _unknown, slope).root(ceiling, ceiling, 0.0, _WIDTH)
    there = proven(upper)
    lower = kappa_epsilon(releases, delta, upper) if with_lower else None
    return TightEpsilon(lower, upper, there.bound, there.order, there.is_known, there.bracketed)


def kappa_epsilon(releases: Composition, delta: float, ceiling: float) -> float:
    """The epsilon that the worst vectors kappa* show at ``delta``; 0 where it is not known.

    In the direction that shows more at the ``ceiling``.
    """
    slope = _slope(releases, ceiling, delta)
    room = _LOOSE / 2 * slope
    with np.errstate(all="ignore"):
        direction = max(Direction, key=lambda side: kappa_delta(releases, side, ceiling, delta))
        if kappa_delta(releases, direction, ceiling, delta) == 0.0:  # out of reach
            return 0.0

        @cache
        def excess(epsilon: float) -> float:
            return settled(log_ratio(kappa_delta(releases, direction, epsilon, delta), delta), room)

        def again(epsilon: float) -> Function | None:
            shown = kappa_again(releases, direction, epsilon, delta)
            return None if shown is None else lambda there: log_ratio(shown(there), delta) + room

        found = Search(excess, again, lambda _: _unknown, slope).root(ceiling, ceiling, 0.0, _LOOSE)
    return max(0.0, found - 2 * _LOOSE * ceiling)


def _slope(releases: Composition, epsilon: float, delta: float) -> float:
    """About how steeply log delta falls in log epsilon."""
    with np.errstate(all="ignore"):
        found = steepness(releases, epsilon, delta)
    return SLOPE if found is None else max(1.0, found * epsilon)


def _unknown(_: float) -> float:
    """No estimate where there is no test function to follow."""
    return math.nan
