"""One round with client sampling, U = 1 - q + q y, in cells.

The law of y, the likelihood ratio of the round if the client takes part, is computed on a grid like that of u
without client sampling, at several tilts: each gives the masses around its own mean. Means of convex
functions of U are then upper or lower bounds as those of y are, since U increases linearly in y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csgm_cli.profile.convolution import log_moment, product, rounding, total_count, window_around
from csgm_cli.profile.factors import Cells, Factor, lower_factor, upper_factor
from csgm_cli.profile.ratios import ABOVE, coordinate_ratios

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law, SampledRounds

Array = NDArray[np.float64]

#: Relative increase of the variance of log y due to discretisation, if the grid is not too long; the coarsest
#: step, relative to gamma.
_ACCURACY, _COARSEST = 1e-4, 0.5
_MOST_POINTS = 1 << 19
#: With more coordinates in a round the FFT's rounding errors are above 1e-2; y is nearly lognormal then.
_MOST_COORDINATES = 3e8
#: Tilted laws are this many standard deviations of log y apart, and their windows leave out e^-`_OUTSIDE` of
#: each. Of the law of y, e^-`_RARE` is left out.
_APART, _OUTSIDE, _RARE, _MOST_TILTS = 8.0, 45.0, 60.0, 40
#: The longest window above 0, relative to the largest log y that counts, and the least distance of two tilts
#: in units of 1/deviation.
_LONGEST, _LEAST_STRIDE = 2.5, 0.2
#: Orders above 1 of Chernoff bounds.
_CHERNOFF = tuple(2.0 ** (j / 2) for j in range(-8, 16))
#: The tilts are chosen on a grid that is coarser by at least this factor, with at most so many points.
_ROUGH, _ROUGH_POINTS = 16, 4096


class _RoundLaw(NamedTuple):
    """The law of y: ``mass`` at ``log_y``; P(y above the grid) and E[y; y above the grid] (``tail_*``)."""

    log_y: Array
    mass: Array
    tail_mass: float
    tail_mean: float


@dataclass(frozen=True)
class SampledRatio:
    """U of the ``rounds``, up to log U = ``end``, from the law of y for upper bounds or for lower bounds."""

    rounds: SampledRounds
    end: float
    law: _RoundLaw

    @property
    def count(self) -> float:
        """The number of rounds."""
        return self.rounds.count

    @property
    def bottom(self) -> float:
        """The lower end of the grid: U > 1 - q."""
        return math.log1p(-self.rounds.rate)

    def cut(self, threshold: float, _: float) -> float:
        """The upper end of the grid."""
        return min(ABOVE + threshold, self.end, float(self._log_u[-1]))

    @cached_property
    def _log_u(self) -> Array:
        return np.asarray(np.log1p(self.rounds.rate * np.expm1(self.law.log_y)))

    @cached_property
    def _means(self) -> Array:
        return np.asarray(self.law.mass * np.exp(self._log_u))

    def cells(self, edges: Array) -> Cells:
        """The masses of the cells between ``edges`` of log U."""
        q, (_, mass, tail_mass, tail_mean) = self.rounds.rate, self.law
        places = np.searchsorted(self._log_u, edges)
        last = int(places[-1])
        return Cells(
            _sums(mass, places),
            _sums(self._means, places),
            float(mass[last:].sum()) + tail_mass,
            min(float(self._means[last:].sum()) + (1 - q) * tail_mass + q * tail_mean, 1.0),  # as E[U] = 1
        )


def _sums(values: Array, places: NDArray[np.intp]) -> Array:
    """The sums of ``values`` between neighbouring ``places``."""
    part = np.append(values[places[0] : places[-1]], 0.0)
    sums = np.add.reduceat(part, places[:-1] - places[0])
    return np.asarray(np.where(places[1:] > places[:-1], sums, 0.0))


def sampled_ratio(rounds: SampledRounds, threshold: float, *, upper: bool) -> SampledRatio | None:
    """The ratio U for functions with this threshold; None if the grid would be too long."""
    return _sampled_ratio(rounds, ABOVE + _APART * math.ceil(threshold / _APART), upper=upper)


@lru_cache(maxsize=8)
def _sampled_ratio(rounds: SampledRounds, end: float, *, upper: bool) -> SampledRatio | None:
    high = math.log(math.expm1(end) / rounds.rate + 1.0)
    law = _law_of_round(rounds.inner, high, upper=upper)
    return None if law is None else SampledRatio(rounds, end, law)


def _law_of_round(inner: Law, high: float, *, upper: bool) -> _RoundLaw | None:
    ratios = coordinate_ratios(inner)
    if math.fsum(ratio.count for ratio in ratios) > _MOST_COORDINATES:
        return None
    cuts = [ratio.cut(high, 1e4) for ratio in ratios]
    lengths = [cut - ratio.bottom for ratio, cut in zip(ratios, cuts, strict=True)]
    step = max(_step(inner) * (1.0 if upper else 0.5), max(lengths) / _MOST_POINTS)
    rough_step = max(_ROUGH * step, max(lengths) / _ROUGH_POINTS)
    rough = [upper_factor(ratio, cut, rough_step) for ratio, cut in zip(ratios, cuts, strict=True)]
    laws = _tilted_laws(rough, high)
    step = max(step, max(tilted_law.window[1] - tilted_law.window[0] for tilted_law in laws) / _MOST_POINTS)
    if step > _COARSEST * min((c.gamma for c in inner.coordinates), default=1.0):
        return None
    rounded = upper_factor if upper else lower_factor
    factors = [rounded(ratio, cut, step) for ratio, cut in zip(ratios, cuts, strict=True)]
    return _combined(factors, laws, step, upper=upper)


def _step(inner: Law) -> float:
    """The step at which the variance of log y increases by `_ACCURACY`: by step^2/6 per factor."""
    variances = [c.count * c.gamma**2 * math.expm1(min(c.t, 1.0)) for c in inner.coordinates]
    factors = math.fsum(c.count for c in inner.coordinates) + (inner.gaussian > 0.0)
    return math.sqrt(6 * _ACCURACY * math.fsum([*variances, inner.gaussian]) / factors)


class _TiltedLaw(NamedTuple):
    """A tilted law of log y: its tilt, mean and standard deviation, and a window that contains it."""

    tilt: float
    mean: float
    deviation: float
    window: tuple[float, float]


def _tilted_laws(factors: Sequence[Factor], high: float) -> list[_TiltedLaw]:
    """Tilted laws that together cover log y from rare outcomes to ``high``, sorted by mean."""
    found, least = (
        {0.5: _tilted_law(factors, 0.5)},
        math.fsum(f.count * float(f.log_ratio[0]) for f in factors),
    )
    for sign in (-1.0, 1.0):
        last = found[0.5]
        while len(found) < _MOST_TILTS:
            end = last.mean + sign * _APART / 2 * last.deviation
            # e^-rate bounds the probability below the end, or that above it weighted by y
            rate = (last.tilt if sign < 0.0 else last.tilt - 1.0) * end - log_moment(factors, last.tilt)
            if (
                end < least
                or (sign > 0.0 and end > high)
                or (rate > _RARE and sign * (last.tilt - 0.5) > 0.5)
            ):
                break
            ahead = _next_tilted_law(factors, last, sign, _LONGEST * high)
            if ahead is None:
                break
            last = found[ahead.tilt] = ahead
    return [found[tilt] for tilt in sorted(found)]


def _next_tilted_law(
    factors: Sequence[Factor], last: _TiltedLaw, sign: float, end: float
) -> _TiltedLaw | None:
    """The next tilted law, whose mean is at most `_APART` standard deviations away.

    None if its window would extend beyond ``end``: sums of several large coordinates need none.
    """
    stride = sign * _APART / last.deviation
    while abs(stride) * last.deviation > _LEAST_STRIDE:
        found = _tilted_law(factors, last.tilt + stride)
        apart = abs(found.mean - last.mean)
        if found.window[1] <= end and apart <= _APART * (found.deviation + last.deviation) / 2:
            return found
        stride /= 2
    return None


def _tilted_law(factors: Sequence[Factor], tilt: float) -> _TiltedLaw:
    mean = math.fsum(f.count * f.tilted_mean(tilt) for f in factors)
    variance = math.fsum(f.count * f.tilted_variance(tilt) for f in factors)
    window = window_around(factors, tilt, mean, _OUTSIDE)
    return _TiltedLaw(tilt, mean, math.sqrt(max(variance, 1e-12)), window)


def _combined(
    factors: Sequence[Factor], laws: Sequence[_TiltedLaw], step: float, *, upper: bool
) -> _RoundLaw:
    """The law of y: each tilted law bounds every mass, and the tightest bound on each is taken.

    The grid starts with the window of the smallest tilt: below it, larger tilts magnify rounding errors.
    """
    found = [product(factors, tilted_law.tilt, step, tilted_law.window) for tilted_law in laws]
    start = float(found[0].log_ratio[0])
    firsts = [round((float(each.log_ratio[0]) - start) / step) for each in found]
    size = max(first + each.log_ratio.size for first, each in zip(firsts, found, strict=True))
    log_y = start + step * np.arange(size, dtype=np.float64)
    mass = np.full(size, math.inf if upper else 0.0)
    best = np.minimum if upper else np.maximum
    for tilted_law, first, each in zip(laws, firsts, found, strict=True):
        error = each.noise + math.exp(-_OUTSIDE)
        relative = rounding(each.log_ratio.size, total_count(factors))
        tilted = each.tilted * (1 + relative) + error if upper else each.tilted * (1 - relative) - error
        with np.errstate(over="ignore", under="ignore"):
            untilted = tilted * np.exp(
                log_moment(factors, tilted_law.tilt) - tilted_law.tilt * each.log_ratio
            )
        part = slice(max(first, 0), first + each.log_ratio.size)
        mass[part] = best(mass[part], untilted[max(-first, 0) :])
    if not upper:
        return _RoundLaw(log_y, mass, 0.0, 0.0)
    mass[0] += math.exp(-_RARE)
    end = float(log_y[-1])
    above_end = _upper_tail(factors, end)
    mass_above = min(above_end * math.exp(min(-end, 700.0)), 1.0)
    tail_mass = math.fsum(f.count * f.tail_mass for f in factors) + mass_above
    tail_mean = math.fsum(f.count * f.tail_mean for f in factors) + above_end
    return _RoundLaw(log_y, mass, tail_mass, tail_mean)


def _upper_tail(factors: Sequence[Factor], end: float) -> float:
    """Chernoff bound on E[y; log y > ``end``]."""
    bounds = [log_moment(factors, 1.0 + excess) - excess * end for excess in _CHERNOFF]
    return math.exp(min(0.0, *bounds))
