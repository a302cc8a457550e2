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
from scipy.fft import irfft, next_fast_len, rfft

from csgm_cli.model.certificate import Direction
from csgm_cli.profile.factors import Factor, bottom, lower_factor, reach, upper_factor
from csgm_cli.renyi.law import Coordinates, Law
from csgm_cli.roots import brent_minimum

if TYPE_CHECKING:
    from csgm_cli.profile.convex import ConvexFunction

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Discretising N coordinates changes the variance of log u by N step^2/6, and at a tilt z the mean by
#: N (step z)^2/12 (relative). With step `_SPREAD`/(z sqrt(N)), z at least `_LEAST_TILT`, the error is 2e-4.
_SPREAD, _LEAST_TILT = 0.045, 10.0
#: The tilt and the window are chosen on a grid that is coarser by this factor.
_ROUGH = 16
#: A factor's grid ends at most this far above the threshold; beyond, the function is bounded by its slope.
_ABOVE = 10.0
#: At most e^-`_OUTSIDE` of the tilted law lies outside the window.
_OUTSIDE = 20.0
#: If outcomes with some large factor have less than this tilted mass, the other outcomes are omitted.
_RARE = 0.1
_MOST_POINTS = 1 << 20
#: Bound on |log u| in the window, so that float64 can represent u; weights below e^-100 are lost.
_LARGEST_LOG = 600.0
_NOTHING: ComplexArray = np.zeros(1, dtype=np.complex128)
#: With more coordinates the FFT's rounding errors exceed the answer; contours converge there.
_MOST_COORDINATES = 1e9


@dataclass(frozen=True)
class GridLaw:
    """The law of log u: mass ``tilted`` exp(log_mass - tilt log u) on the points ``log_ratio``.

    ``noise`` bounds the rounding error of each entry of ``tilted``, and ``wrapped`` the tilted mass outside
    the window. Outcomes with every factor at most e^(``left_out``/N) are omitted; they have log u <=
    ``left_out``.
    """

    factors: tuple[Factor, ...]
    tilt: float
    step: float
    log_ratio: Array
    tilted: Array
    noise: float
    wrapped: float
    left_out: float

    @cached_property
    def log_mass(self) -> float:
        """Log E[u^tilt]."""
        return _log_moment(self.factors, self.tilt)

    def _untilted(self, values: Array, log_u: Array) -> Array:
        """``values`` at the points ``log_u`` as weights for the tilted law; infinite on overflow."""
        with np.errstate(over="ignore"):
            undone = np.exp(self.log_mass - self.tilt * log_u)
        return np.where(values > 0.0, np.maximum(values, 1e-300) * undone, 0.0)

    def upper_mean(self, function: ConvexFunction) -> float:
        """An upper bound on E phi(u); requires the law for upper bounds; infinite for B = 0."""
        adding = function.direction is Direction.ADD
        if math.isinf(function.steepest) or (adding and function.log_threshold < self.left_out):
            return math.inf
        inside = self.log_ratio > function.log_threshold if adding else slice(None)
        log_u = self.log_ratio[inside]
        weights = self._untilted(function(log_u), log_u)
        exact = 1.0 + _rounding(self.tilted.size, _count(self.factors))
        value = float(weights @ self.tilted[inside]) * exact + self.noise * float(weights.sum())
        low, high = float(self.log_ratio[0]), float(self.log_ratio[-1])
        if not adding:  # phi <= 1 decreases, so it is negatively correlated with "some Y is beyond its grid"
            at_high = float(function(np.array([high]))[0])
            beyond = math.fsum(f.count * f.beyond for f in self.factors)
            outside = math.exp(self._log_chernoff(0.0, -1.0, low)) + at_high
            return (value + outside) / (1.0 - beyond) if beyond < 1.0 else math.inf
        # E[u; some Y beyond its grid] <= sum of E[Y; Y beyond its grid], since the other factors have mean 1
        outside = math.fsum(f.count * f.above for f in self.factors)
        outside += math.exp(self._log_chernoff(1.0, 1.0, high))
        if function.log_threshold < low:
            outside += math.exp(min(low, self._log_chernoff(1.0, -1.0, low)))
        return value + function.steepest * outside

    @cached_property
    def _blocks(self) -> tuple[Array, Array]:
        """Centres and tilted masses of blocks of the grid, for `estimated_mean`."""
        starts = np.arange(0, self.tilted.size, _ROUGH)
        return self.log_ratio[starts] + self.step * (_ROUGH - 1) / 2, np.add.reduceat(self.tilted, starts)

    def estimated_mean(self, function: ConvexFunction) -> float:
        """Approximate E phi(u), without any guarantee."""
        if function.direction is Direction.ADD and function.log_threshold < self.left_out:
            return math.inf
        log_u, tilted = self._blocks
        return float(self._untilted(function(log_u), log_u) @ tilted)

    def lower_hockey_stick(self, epsilon: float) -> float:
        """A lower bound on E(u - e^epsilon)_+; requires the law for lower bounds."""
        inside = self.log_ratio > epsilon
        log_u = self.log_ratio[inside]
        weights = self._untilted(math.exp(epsilon) * np.expm1(log_u - epsilon), log_u)
        if math.isinf(largest := float(weights.max(initial=0.0))):
            return 0.0
        value = float(weights @ self.tilted[inside]) - self.noise * float(weights.sum())
        wrapped = 2 * self.wrapped * largest
        count = _count(self.factors)
        # E[u - e^epsilon; exactly one Y beyond its grid]
        above = math.fsum(f.count * f.above for f in self.factors)
        beyond = math.fsum(f.count * f.beyond for f in self.factors)
        single = above * (1 - above) - math.exp(epsilon) * beyond
        return max(0.0, (value - wrapped) * (1 - 1e-12 * count * self.tilt)) + max(0.0, single)

    def _log_chernoff(self, base: float, sign: float, end: float) -> float:
        """Log of a Chernoff bound on E[u^base; log u > end], or log u < end if ``sign`` is -1."""
        orders = (self.tilt + sign * eta for eta in (0.0, *_etas(self.factors, self.tilt)))
        bounds = (_log_moment(self.factors, a) - (a - base) * end for a in orders if sign * (a - base) > 0.0)
        return float(min(bounds, default=math.inf))


def grid_step(
    law: Law, epsilon: float, direction: Direction = Direction.ADD, pole: float = math.inf
) -> float:
    """The step for a law near ``epsilon``; it divides epsilon, so that the threshold is a grid point."""
    count = max(1.0, math.fsum(c.count for c in law.coordinates))
    tilt = max(_LEAST_TILT, min(pole, _usual_tilt(law, epsilon, direction)))
    longest = max([epsilon, *(_cut(c, epsilon, 1e4) - bottom(c) for c in law.coordinates)])
    gamma = min((c.gamma for c in law.coordinates), default=1.0)
    rare = min(max(1e-4 / gamma, 1.0), 25.0)  # tiny gamma: an error of 1e-2 in delta is enough
    step = max(_SPREAD * math.sqrt(rare / count) / tilt, 4 * longest / _MOST_POINTS)
    return epsilon / math.ceil(epsilon / step)


def _usual_tilt(law: Law, epsilon: float, direction: Direction) -> float:
    """Approximate -d log delta/d epsilon: for normal log u, or if a single coordinate dominates delta."""
    variance = max(law.variance if direction is Direction.ADD else law.spread_variance, 1e-300)
    slopes = [(epsilon + math.sqrt(epsilon**2 + 4 * variance)) / (2 * variance)]
    for c in law.coordinates if direction is Direction.ADD else ():
        sent = math.expm1(epsilon) + c.gamma  # its posterior times Y = e^epsilon
        slopes.append((math.log(sent / c.gamma) / c.t + 0.5) * math.exp(epsilon) / sent)
    return min(slopes)


def _cut(c: Coordinates, threshold: float, tilt: float, *, opposite: bool = False) -> float:
    """The upper end in log Y of the grid of a factor."""
    return min(_ABOVE + threshold, reach(c, tilt, opposite=opposite))


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
    kinds = list(law.coordinates)
    if law.gaussian > 0.0:
        kinds.append(Coordinates(1.0, 1.0, law.gaussian))
    if math.fsum(c.count for c in kinds) > _MOST_COORDINATES:
        return None
    cuts = [_cut(c, threshold, 1e4, opposite=opposite) for c in kinds]
    if any(
        (x - bottom(c, opposite=opposite)) / step > _MOST_POINTS for c, x in zip(kinds, cuts, strict=True)
    ):
        return None
    rough = [upper_factor(c, x, _ROUGH * step, opposite=opposite) for c, x in zip(kinds, cuts, strict=True)]
    tilt = _best_tilt(rough, sign, epsilon, pole)
    rounded = upper_factor if upper else lower_factor
    factors = tuple(
        rounded(c, _cut(c, threshold, tilt, opposite=opposite), step, opposite=opposite) for c in kinds
    )
    left_out, share = _left_out(factors, tilt, sign * epsilon)
    outside = _OUTSIDE - math.log(share)
    low, high = _window(rough, tilt, sign * epsilon, outside)
    if not (low > -_LARGEST_LOG and high < _LARGEST_LOG) or (high - low) / step > _MOST_POINTS:
        return None
    n = next_fast_len(math.ceil((high - low) / step) + 1, real=True)
    return _convolved(factors, tilt, step, low, n, left_out, math.exp(-outside))


def _left_out(factors: Sequence[Factor], tilt: float, threshold: float) -> tuple[float, float]:
    """The log u up to which outcomes are omitted (-infinity: none), and the tilted mass of the others.

    If the others are rare, rounding errors of the omitted outcomes would exceed them.
    """
    limit = threshold / 2
    log_near = math.fsum(
        f.count * math.log(max(f.near(tilt, limit / _count(factors)), 1e-300)) for f in factors
    )
    share = -math.expm1(log_near)
    return (limit, max(share, 1e-300)) if threshold > 0.0 and share < _RARE else (-math.inf, 1.0)


def _convolved(
    factors: tuple[Factor, ...], tilt: float, step: float, low: float, n: int, left_out: float, wrapped: float
) -> GridLaw:
    """The law of the product on ``n`` points from ``low``; mass outside wraps around."""
    count = _count(factors)
    product = _Split(_NOTHING, 1.0 + _NOTHING)
    size = 0.0
    for f in factors:
        places, weights = (f.first + np.arange(f.mass.size)) % n, f.tilted(tilt)
        far = np.where(f.log_ratio * count > left_out, weights, 0.0)
        near = np.bincount(places, weights - far, minlength=n)
        split = _Split(rfft(np.bincount(places, far, minlength=n)), rfft(near) if near.any() else _NOTHING)
        size += _rms(split.far)
        product = product.times(split.power(int(f.count)))
    # The relative error of a factor's transform enters once per factor. Errors at different frequencies are
    # independent, except for a part proportional to the law itself, which `upper_mean` adds (``exact``).
    size += _rms(product.far) + float(abs(product.far[0]))
    noise = _rounding(n, count) * size * n**-0.5
    offset = math.fsum(f.count * f.offset for f in factors)
    first = math.floor((low - offset) / step)
    tilted = np.maximum(np.roll(irfft(product.far, n), -(first % n)), 0.0)
    log_ratio = offset + step * (first + np.arange(n, dtype=np.float64))
    return GridLaw(factors, tilt, step, log_ratio, tilted, noise, wrapped, left_out)


@dataclass(frozen=True)
class _Split:
    """The transform of a law in two parts: outcomes with at least one ``far`` factor, and all others."""

    far: ComplexArray
    near: ComplexArray

    def times(self, other: _Split) -> _Split:
        """The transform of the product of independent outcomes."""
        return _Split(self.far * (other.far + other.near) + self.near * other.far, self.near * other.near)

    def power(self, exponent: int) -> _Split:
        """The transform of the product of ``exponent`` factors, by squaring (faster than logarithms)."""
        if exponent < 2:
            return self
        half = self.power(exponent // 2)
        square = half.times(half)
        return square.times(self) if exponent % 2 else square


def _rounding(n: int, count: float) -> float:
    """Bound on the relative error of a product of transforms; about 100 times the typical error."""
    return 2.0**-49 * math.log2(n) * (1.0 + count)


def _rms(transform: ComplexArray) -> float:
    return math.sqrt(float((transform.real**2 + transform.imag**2).mean()))


def _count(factors: Sequence[Factor]) -> float:
    return math.fsum(f.count for f in factors)


def _log_moment(factors: Sequence[Factor], order: float) -> float:
    return math.fsum(f.count * f.log_moment(order) for f in factors)


def _best_tilt(factors: Sequence[Factor], sign: float, epsilon: float, pole: float) -> float:
    """The order 1 + z (add) or -z (remove), with z slightly below the saddle point for a shorter window."""

    def exponent(log_z: float) -> float:
        z = math.exp(log_z)
        return _log_moment(factors, 1.0 + z if sign > 0 else -z) - z * epsilon - math.log(z * (z + 1))

    z = 0.85 * math.exp(brent_minimum(exponent, math.log(1e-2), math.log(min(1e4, 0.8 * pole)), 1e-3)[0])
    return 1.0 + z if sign > 0 else -z


def _window(factors: Sequence[Factor], tilt: float, threshold: float, outside: float) -> tuple[float, float]:
    """An interval around the threshold that contains all but e^-``outside`` of the tilted law (Chernoff)."""
    at, etas = _log_moment(factors, tilt), _etas(factors, tilt)
    high = min((_log_moment(factors, tilt + eta) - at + outside) / eta for eta in etas)
    low = max((at - _log_moment(factors, tilt - eta) - outside) / eta for eta in etas)
    around = 1 / max(etas)
    return min(low, threshold - around), max(high, threshold + around)


def _etas(factors: Sequence[Factor], tilt: float) -> Array:
    """Distances from the tilt of the orders for Chernoff bounds, up to about the best for a normal law."""
    variance = math.fsum(f.count * f.tilted_variance(tilt) for f in factors)
    return np.geomspace(0.2, max(20.0, 2 * math.sqrt(2 * _OUTSIDE / (variance + 1e-18))), 14)
