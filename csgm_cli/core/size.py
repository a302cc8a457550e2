"""About how large delta is at kappa*, for searches: smooth, and off by a factor that changes slowly."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.loss_grid import none_above, one_at_a_time, one_by_one
from csgm_cli.core.profile import reach
from csgm_cli.errors import NoAnswerError
from csgm_cli.roots import Slope, descend, increasing_root, narrowed

if TYPE_CHECKING:
    from csgm_cli.profile.contour import Law
    from csgm_cli.renyi.conversion import Converted
    from csgm_cli.renyi.moment import LogMoment

#: Where several coordinates do less than this of what single ones do, these are looked at alone.
_NEGLIGIBLE = 0.1
#: So they are where contours reach and the log-moment at the saddle is less than the first, and less than the
#: second of what is taken off it. That is a half for a Gaussian; where it is little, the moment is that of a
#: loss of next to nothing.
_LITTLE, _TINY_SHARE = 15.0, 1 / 20
#: Log of the delta from which on an estimate says nothing of the slope, which vanishes with 1 - delta.
_SMALL = math.log(0.1)
#: A first step, how closely a first guess is found, and how far aside a slope is looked for, all relative.
_STEP, _CLOSE, _BESIDE = 0.02, 1e-4, 1e-4


class Size:
    """About log delta at kappa*: the add integrand's peak, and how wide a parabola there is.

    Smooth, which takes the saddle point to many digits; each is sought from the one before. Where contours
    do not reach, and rare large losses make moments explode: the same for losses that are all below epsilon,
    and what single coordinates do; or these alone, where that is next to all. ``where`` takes what is
    searched for to a law and an epsilon. ``renyi`` is the Renyi bound at ``start``.
    """

    def __init__(
        self, where: Callable[[float], tuple[Law, float]], start: float, renyi: Converted | None
    ) -> None:
        self.where, self.at = where, cache(self._at)
        law, epsilon = where(start)
        self.log_z = math.nan if renyi is None else math.log(renyi.order - 1)
        self.is_cut = epsilon > 0.0 and reach(law) == 0.0
        self.is_rare = self.is_cut or (
            renyi is not None and renyi.moment.value < min(_LITTLE, _TINY_SHARE * (renyi.order - 1) * epsilon)
        )

    def settle(self, x: float) -> None:
        """Look, where contours do not reach, whether what several coordinates do together counts there."""
        if not self.is_cut:
            return
        law, epsilon = self.where(x)
        with np.errstate(all="ignore"):
            below = none_above(law, epsilon)
            self.log_z, self.at = math.log(below.saddle()), cache(self._at)
            together = _integral(self, below.log_moment, epsilon)
        self.is_rare = not together > math.log(_NEGLIGIBLE) + _log_singles(law, epsilon)

    def first(self, highest: float, lowest: float, goal: float, slope: float) -> float:
        """About where it is ``goal``, or else ``highest``; what it is there is settled.

        Single coordinates lead there, for next to a Gaussian without them the rest is no estimate.
        """
        if self.is_cut:
            self.is_rare, self.at = True, cache(self._at)
        if not highest > lowest or math.isnan(self.at(highest)):
            return highest
        ends = math.log(highest), math.log(lowest)

        def excess(log_x: float) -> float:
            return self.at(math.exp(log_x)) - goal

        log_x = descend(excess, *ends, width=_CLOSE, slope=slope)
        if log_x <= ends[1]:  # it is nowhere so large: something else decides
            return highest
        if not self.is_cut and reach(self.where(math.exp(log_x))[0]) == 0.0:
            self.is_cut = True
            return self.first(highest, lowest, goal, slope)
        self.settle(math.exp(log_x))
        return math.exp(log_x if self.is_rare or not self.is_cut else _root_near(excess, log_x, *ends))

    def slope(self, x: float, otherwise: float) -> float:
        """How steeply it falls in log x where contours do not reach; else, or if unknown, ``otherwise``."""
        if not self.is_cut or not self.at(x) < _SMALL:
            return otherwise
        slope = (self.at(x) - self.at(x * (1 + _BESIDE))) / _BESIDE
        return slope if 0.0 < slope < math.inf else otherwise

    def _at(self, x: float) -> float:
        """There; NaN where that is not known."""
        law, epsilon = self.where(x)
        if self.is_rare:
            return math.log(one_at_a_time(law, epsilon))
        with np.errstate(all="ignore"):
            if not self.is_cut:
                return _integral(self, lambda z: law.real(1.0 + z), epsilon)
            together = _integral(self, none_above(law, epsilon).log_moment, epsilon)
            return float(np.logaddexp(together, _log_singles(law, epsilon)))


def _integral(size: Size, log_moment: Callable[[float], LogMoment], epsilon: float) -> float:
    """From the saddle, for log E[Y^(1 + z)]; NaN where there is none."""
    moments = cache(log_moment)

    def slope(log_z: float) -> Slope:
        z = math.exp(log_z)
        moment = moments(z)
        value = moment.d_order - epsilon - 1 / z - 1 / (z + 1)
        return value, z * (moment.d2_order + 1 / z**2 + 1 / (z + 1) ** 2)

    if math.isnan(size.log_z):
        return math.nan
    try:
        size.log_z = increasing_root(slope, size.log_z, tolerance=1e-11, stride=0.5)
        z = math.exp(size.log_z)
        moment = moments(z)
    except (NoAnswerError, OverflowError):
        return math.nan
    curvature = moment.d2_order + 1 / z**2 + 1 / (z + 1) ** 2
    if not 0.0 < curvature < math.inf:
        return math.nan
    return moment.value - z * epsilon - math.log(z * (z + 1)) - 0.5 * math.log(2 * math.pi * curvature)


def _log_singles(law: Law, epsilon: float) -> float:
    value = one_by_one(law, epsilon)
    return math.log(value) if value > 0.0 else -math.inf


def _root_near(function: Callable[[float], float], x: float, highest: float, lowest: float) -> float:
    """About where a falling function is 0, by steps from ``x`` that grow; an end where it is nowhere."""
    value = function(x)
    sign, step = math.copysign(1.0, value), _STEP
    while True:
        there = min(max(x + sign * step, lowest), highest)
        ahead = function(there)
        if math.isnan(ahead) or there == x:
            return x
        if sign * ahead <= 0.0:
            return narrowed(function, (there, ahead), (x, value), _CLOSE)
        x, value, step = there, ahead, 2 * step
