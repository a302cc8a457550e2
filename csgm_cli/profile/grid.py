"""Means of convex test functions on a certified grid of likelihood ratios, for few sent coordinates.

The laws of the factors Y, discretised by `csgm_cli.profile.factors`, are convolved by an FFT of their masses
tilted by exp(tilt log u). Products preserve the convex order, so means of convex functions of u = prod Y are
upper or lower bounds as those of the factors are (docs/theory.md, "Numerics").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.model.certificate import Direction
from csgm_cli.profile.convolution import (
    OUTSIDE,
    etas_around,
    log_moment,
    product,
    rounding,
    total_count,
    window_around,
)
from csgm_cli.profile.factors import Factor, lower_factor, upper_factor
from csgm_cli.profile.ratios import CoordinateRatio, coordinate_ratios
from csgm_cli.profile.rounds import sampled_ratio
from csgm_cli.renyi.law import Coordinates
from csgm_cli.renyi.moment import LARGEST_EXPONENT
from csgm_cli.roots import brent_minimum

if TYPE_CHECKING:
    from csgm_cli.profile.convex import TestFunction
    from csgm_cli.profile.factors import Ratio
    from csgm_cli.renyi.law import Law

Array = NDArray[np.float64]

#: Discretising N coordinates changes the variance of log u by N step^2/6, and at a tilt z the mean by
#: N (step z)^2/12 (relative). With step `_SPREAD`/(z sqrt(N)), z at least `_LEAST_TILT`, the error is 2e-4.
_SPREAD, _LEAST_TILT, _LEAST_SAMPLED_TILT = 0.045, 10.0, 3.0
#: The tilt and the window are chosen on a grid that is coarser by this factor.
_ROUGH = 16
#: If outcomes with some large factor have less than this tilted mass, the other outcomes are omitted.
_RARE = 0.1
_MOST_POINTS = 1 << 20
#: Bound on |log u| in the window, so that float64 can represent u; weights below e^-100 are lost.
_LARGEST_LOG = 600.0
#: Smaller values of a function are rounded up to this: sums with subnormal numbers are slow.
_LEAST_VALUE = 1e-200
#: With more coordinates the FFT's rounding errors exceed the answer; contours converge there.
_MOST_COORDINATES = 1e9


@dataclass(frozen=True)
class GridLaw:
    """The law of log u: mass ``tilted`` exp(log_mass - tilt log u) on the points ``log_ratio``.

    ``noise`` bounds the rounding error of each entry of ``tilted``, and ``wrapped`` the tilted mass outside
    the window. Outcomes with every factor at most e^(``left_out``/N) are omitted; they have log u <=
    ``left_out``. ``rough``: the factors on a coarser grid, for Chernoff bounds, which are upper bounds.
    """

    factors: tuple[Factor, ...]
    tilt: float
    step: float
    log_ratio: Array
    tilted: Array
    noise: float
    wrapped: float
    left_out: float
    rough: tuple[Factor, ...]

    @cached_property
    def log_mass(self) -> float:
        """Log E[u^tilt]."""
        return log_moment(self.factors, self.tilt)

    def _untilted(self, values: Array, log_u: Array) -> Array:
        """``values`` at the points ``log_u`` as weights for the tilted law; infinite on overflow."""
        with np.errstate(over="ignore"):
            undone = np.exp(self.log_mass - self.tilt * log_u)
        return np.where(values > 0.0, np.maximum(values, _LEAST_VALUE) * undone, 0.0)

    def upper_mean(self, function: TestFunction) -> float:
        """An upper bound on E phi(u); requires the law for upper bounds; infinite for B = 0."""
        adding = function.direction is Direction.ADD
        if math.isinf(function.steepest) or (adding and function.log_support < self.left_out):
            return math.inf
        inside = self.log_ratio > function.log_support if adding else slice(None)
        log_u = self.log_ratio[inside]
        weights = self._untilted(function(log_u), log_u)
        exact = 1.0 + rounding(self.tilted.size, total_count(self.factors))
        with np.errstate(invalid="ignore"):  # after an overflow the bound is infinite
            value = float(weights @ self.tilted[inside]) * exact + self.noise * float(weights.sum())
        low, high = float(self.log_ratio[0]), float(self.log_ratio[-1])
        if not adding:  # phi <= 1 decreases, so it is negatively correlated with "some Y is beyond its grid"
            at_high = float(function(np.array([high]))[0])
            beyond = math.fsum(f.count * f.tail_mass for f in self.factors)
            outside = _exp(self._log_chernoff(0.0, -1.0, low)) + at_high
            return (value + outside) / (1.0 - beyond) if beyond < 1.0 else math.inf
        # E[u; some Y beyond its grid] <= sum of E[Y; Y beyond its grid], since the other factors have mean 1
        outside = math.fsum(f.count * f.tail_mean for f in self.factors)
        outside += _exp(self._log_chernoff(1.0, 1.0, high))
        below = 0.0
        if function.log_support < low:  # phi increases
            below = function.steepest * math.exp(min(low, self._log_chernoff(1.0, -1.0, low)))
            below = min(below, float(function(np.array([low]))[0]))
        return value + function.steepest * outside + below

    @cached_property
    def _blocks(self) -> tuple[Array, Array]:
        """Centres and tilted masses of blocks of the grid, for `estimated_mean`."""
        starts = np.arange(0, self.tilted.size, _ROUGH)
        return self.log_ratio[starts] + self.step * (_ROUGH - 1) / 2, np.add.reduceat(self.tilted, starts)

    def estimated_mean(self, function: TestFunction) -> float:
        """Approximate E phi(u), without any guarantee."""
        if function.direction is Direction.ADD and function.log_support < self.left_out:
            return math.inf
        log_u, tilted = self._blocks
        with np.errstate(invalid="ignore"):
            found = float(self._untilted(function(log_u), log_u) @ tilted)
        return math.inf if math.isnan(found) else found

    def lower_hockey_stick(self, epsilon: float) -> float:
        """A lower bound on E(u - e^epsilon)_+; requires the law for lower bounds."""
        inside = self.log_ratio > epsilon
        log_u = self.log_ratio[inside]
        weights = self._untilted(math.exp(epsilon) * np.expm1(log_u - epsilon), log_u)
        if math.isinf(largest := float(weights.max(initial=0.0))):
            return 0.0
        value = float(weights @ self.tilted[inside]) - self.noise * float(weights.sum())
        wrapped = 2 * self.wrapped * largest
        count = total_count(self.factors)
        # E[u - e^epsilon; exactly one Y beyond its grid]
        above = math.fsum(f.count * f.tail_mean for f in self.factors)
        beyond = math.fsum(f.count * f.tail_mass for f in self.factors)
        single = above * (1 - above) - math.exp(epsilon) * beyond
        return max(0.0, (value - wrapped) * (1 - 1e-12 * count * self.tilt)) + max(0.0, single)

    def _log_chernoff(self, base: float, sign: float, end: float) -> float:
        """Log of a Chernoff bound on E[u^base; log u > end], or log u < end if ``sign`` is -1."""
        orders = (self.tilt + sign * eta for eta in (0.0, *etas_around(self.rough, self.tilt)))
        bounds = (log_moment(self.rough, a) - (a - base) * end for a in orders if sign * (a - base) > 0.0)
        return float(min(bounds, default=math.inf))


def _exp(x: float) -> float:
    """The exponential, infinite on overflow."""
    return math.exp(x) if x < LARGEST_EXPONENT else math.inf


def grid_step(
    law: Law, epsilon: float, direction: Direction = Direction.ADD, pole: float = math.inf
) -> float:
    """The step for a law near ``epsilon``; it divides epsilon, so that the threshold is a grid point."""
    rounds = [Coordinates(r.count, r.rate, r.inner.log_moment(2.0).value) for r in law.sampled]
    kinds = [*law.coordinates, *rounds]
    count = max(1.0, math.fsum(c.count for c in kinds))
    # outcomes with one large coordinate in one round
    single = [Coordinates(r.count, r.rate * c.gamma, c.t) for r in law.sampled for c in r.inner.coordinates]
    least = _LEAST_SAMPLED_TILT if law.sampled else _LEAST_TILT
    tilt = max(least, min(pole, _usual_tilt(law, [*kinds, *single], epsilon, direction)))
    ratios = [CoordinateRatio(c) for c in kinds]
    longest = max([epsilon, *(ratio.cut(epsilon, 1e4) - ratio.bottom for ratio in ratios)])
    gamma = min((c.gamma for c in kinds), default=1.0)
    rare = min(max(1e-4 / gamma, 1.0), 25.0)  # tiny gamma: an error of 1e-2 in delta is enough
    step = max(_SPREAD * math.sqrt(rare / count) / tilt, 4 * longest / _MOST_POINTS)
    return epsilon / math.ceil(epsilon / step)


def _usual_tilt(law: Law, kinds: Sequence[Coordinates], epsilon: float, direction: Direction) -> float:
    """Approximate -d log delta/d epsilon: for normal log u, or if a single coordinate dominates delta."""
    variance = max(law.variance if direction is Direction.ADD else law.spread_variance, 1e-300)
    slopes = [(epsilon + math.sqrt(epsilon**2 + 4 * variance)) / (2 * variance)]
    for c in kinds if direction is Direction.ADD else ():
        sent = math.expm1(epsilon) + c.gamma  # its posterior times Y = e^epsilon
        slopes.append((math.log(sent / c.gamma) / c.t + 0.5) * math.exp(epsilon) / sent)
    return min(slopes)


@lru_cache(maxsize=8)
def grid_law(
    law: Law,
    direction: Direction,
    epsilon: float,
    step: float,
    pole: float = math.inf,
    *,
    upper: bool = True,
    opposite: bool = False,
) -> GridLaw | None:
    """The discretised law of log u for test functions of one direction near ``epsilon``.

    ``upper``: for upper bounds, else for lower bounds. ``pole``: the smallest pole of the test functions; the
    tilt stays well left of it. ``opposite``: u is the likelihood ratio of kappa* to -kappa*. None if the grid
    would be too large.
    """
    sign = 1.0 if direction is Direction.ADD else -1.0
    threshold = max(sign * epsilon, 0.0)
    ratios = _ratios(law, threshold, upper=upper, opposite=opposite)
    if ratios is None or math.fsum(ratio.count for ratio in ratios) > _MOST_COORDINATES:
        return None
    cuts = [ratio.cut(threshold, 1e4) for ratio in ratios]
    if any((cut - ratio.bottom) / step > _MOST_POINTS for ratio, cut in zip(ratios, cuts, strict=True)):
        return None
    rough = [upper_factor(ratio, cut, _ROUGH * step) for ratio, cut in zip(ratios, cuts, strict=True)]
    tilt = _best_tilt(rough, sign, epsilon, pole)
    rounded = upper_factor if upper else lower_factor
    factors = tuple(rounded(ratio, ratio.cut(threshold, tilt), step) for ratio in ratios)
    left_out, share = _left_out(factors, tilt, sign * epsilon)
    outside = OUTSIDE - math.log(share)
    low, high = window_around(rough, tilt, sign * epsilon, outside)
    if not (low > -_LARGEST_LOG and high < _LARGEST_LOG) or (high - low) / step > _MOST_POINTS:
        return None
    found = product(factors, tilt, step, (low, high), left_out)
    return GridLaw(factors, tilt, step, *found, math.exp(-outside), left_out, tuple(rough))


def _ratios(law: Law, threshold: float, *, upper: bool, opposite: bool) -> list[Ratio] | None:
    """The kinds of factors of u; None if one cannot be computed."""
    sampled = [sampled_ratio(rounds, threshold, upper=upper) for rounds in law.sampled]
    known = [ratio for ratio in sampled if ratio is not None]
    if len(known) < len(sampled) or (sampled and opposite):
        return None
    return [*coordinate_ratios(law, opposite=opposite), *known]


def _left_out(factors: Sequence[Factor], tilt: float, threshold: float) -> tuple[float, float]:
    """The log u up to which outcomes are omitted (-infinity: none), and the tilted mass of the others.

    If the others are rare, rounding errors of the omitted outcomes would exceed them.
    """
    limit = threshold / 2
    log_near = math.fsum(
        f.count * math.log(max(f.near(tilt, limit / total_count(factors)), 1e-300)) for f in factors
    )
    share = -math.expm1(log_near)
    return (limit, max(share, 1e-300)) if threshold > 0.0 and share < _RARE else (-math.inf, 1.0)


def _best_tilt(factors: Sequence[Factor], sign: float, epsilon: float, pole: float) -> float:
    """The order 1 + z (add) or -z (remove), with z slightly below the saddle point for a shorter window."""

    def exponent(log_z: float) -> float:
        z = math.exp(log_z)
        return log_moment(factors, 1.0 + z if sign > 0 else -z) - z * epsilon - math.log(z * (z + 1))

    z = 0.85 * math.exp(brent_minimum(exponent, math.log(1e-2), math.log(min(1e4, 0.8 * pole)), 1e-3)[0])
    return 1.0 + z if sign > 0 else -z
