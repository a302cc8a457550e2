"""The law of log y, y the likelihood ratio of one round if the client takes part, on a uniform grid.

Tilted laws of the coordinates are convolved by FFT on one grid, each for the masses around its own mean.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from csgm_cli.verify.log_moment import not_converged
from csgm_cli.verify.plain_nodes import Array, Part, on_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

_FINENESS = 0.02  # the step, relative to the standard deviation of a coordinate's loss
_MANY = 1000  # with at most so many coordinates the step is finer, since their losses are less normal
_MOST_POINTS = 1 << 22
_SPACING = 6.0  # of the tilted means, in tilted deviations
_DEPTH = 60.0  # outcomes rarer than exp(-depth) are left out
_HALF_WINDOW = 14.0  # of one tilted law, in deviations
_MOST_TILTS = 60
_LONGEST = 3.0  # the end of a window, relative to the highest loss
_LEAST_STRIDE = 0.2  # in units of 1/deviation


def round_masses(parts: Sequence[Part], highest: float) -> tuple[Array, Array]:
    """Losses log y, up to about ``highest``, and the logs of their masses without the client."""
    laws = _tilts(parts, highest)
    fineness = _FINENESS if max(part.number for part in parts) > _MANY else _FINENESS / 4
    step = fineness * min(math.sqrt(part.moments(0.5)[2]) for part in parts)
    found = [_tilted_law(parts, law, step) for law in laws]
    first = min(start for start, _ in found)
    size = max(start + masses.size for start, masses in found) - first
    losses = step * (first + np.arange(size, dtype=float))
    # a tilted law has the same absolute error everywhere: take each mass where its tilted mass is largest
    largest, log_mass = np.full(size, 1e-14), np.full(size, -math.inf)
    for law, (start, masses) in zip(laws, found, strict=True):
        places = slice(start - first, start - first + masses.size)
        better = masses > largest[places]
        untilted = np.log(np.maximum(masses, 1e-300)) + law.log_moment - law.order * losses[places]
        largest[places] = np.where(better, masses, largest[places])
        log_mass[places] = np.where(better, untilted, log_mass[places])
    kept = np.isfinite(log_mass)
    return losses[kept], log_mass[kept] - math.log(float(np.exp(log_mass[kept]).sum()))


class _TiltedLaw(NamedTuple):
    """The law of log y tilted by y^order: log E[y^order], mean and deviation."""

    order: float
    log_moment: float
    mean: float
    deviation: float


def _tilts(parts: Sequence[Part], highest: float) -> list[_TiltedLaw]:
    """Tilted laws that overlap, from rare losses up to ``highest``."""
    least = math.fsum(part.number * part.least for part in parts)
    found = [_tilted(parts, 0.5)]
    for sign in (-1, 1):
        last = found[0]
        while len(found) < _MOST_TILTS:
            end = last.mean + sign * _SPACING / 2 * last.deviation
            rate = (last.order if sign < 0 else last.order - 1) * end - last.log_moment
            rare = rate > _DEPTH and sign * (last.order - 0.5) > 0.5
            if rare or end < least or (sign > 0 and end > highest):
                break
            following = _next_tilt(parts, last, sign, _LONGEST * highest)
            if following is None:
                break
            found.append(last := following)
    return found


def _next_tilt(parts: Sequence[Part], last: _TiltedLaw, sign: int, end: float) -> _TiltedLaw | None:
    """The next tilted law; None if its window would extend beyond ``end``."""
    stride = sign * _SPACING / last.deviation
    while abs(stride) * last.deviation > _LEAST_STRIDE:
        found = _tilted(parts, last.order + stride)
        near = abs(found.mean - last.mean) <= _SPACING * (found.deviation + last.deviation) / 2
        if near and found.mean + _HALF_WINDOW * found.deviation <= end:
            return found
        stride /= 2
    return None


def _tilted(parts: Sequence[Part], order: float) -> _TiltedLaw:
    value = mean = variance = 0.0
    for part in parts:
        each = part.moments(order)
        value, mean = value + part.number * each[0], mean + part.number * each[1]
        variance += part.number * each[2]
    return _TiltedLaw(order, value, mean, math.sqrt(variance))


def _tilted_law(parts: Sequence[Part], law: _TiltedLaw, step: float) -> tuple[int, Array]:
    """The masses of a tilted law at multiples of ``step``, and the first multiple."""
    points = 1 << math.ceil(math.log2(2 * _HALF_WINDOW * law.deviation / step + 64))
    if points > _MOST_POINTS:
        raise not_converged("a loss grid of one round is too long")
    log_transform = np.zeros(points // 2 + 1, complex)
    for part in parts:
        losses, weights, _ = part.nodes(law.order, step)
        log_transform += part.number * np.log(np.fft.rfft(on_grid(losses / step, weights, points)))
    masses = np.fft.irfft(np.exp(log_transform), points)
    first = math.floor(law.mean / step) - points // 2
    return first, np.roll(masses, -(first % points))
