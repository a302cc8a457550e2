"""The law of the likelihood ratio of one round, if the client takes part, on a plain grid of its logarithm.

Tilted laws of the coordinates are composed by FFT, each for the masses around its own mean, on one grid.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.verify.log_moment import not_converged
from csgm_cli.verify.plain_nodes import Array, Part, on_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

_FINENESS = 0.02  # the step, relative to the deviation of one coordinate's loss
_MOST_POINTS = 1 << 22
_SPACING = 6.0  # of the tilted means, in tilted deviations
_DEPTH = 60.0  # outcomes rarer than exp(-depth) are left out
_HALF_WINDOW = 14.0  # of one tilted law, in deviations
_MOST_TILTS = 60


def round_masses(parts: Sequence[Part], highest: float) -> tuple[Array, Array]:
    """Losses log y, up to about ``highest``, and the logs of their masses without the client."""
    tilts = _tilts(parts, highest)
    step = _FINENESS * min(math.sqrt(part.moments(0.5)[2]) for part in parts)
    means = [mean for _, _, mean, _ in tilts]
    borders = [-math.inf, *((a + b) / 2 for a, b in itertools.pairwise(means)), math.inf]
    losses, logs = [], []
    for (order, value, mean, deviation), low, high in zip(tilts, borders[:-1], borders[1:], strict=True):
        points = 1 << math.ceil(math.log2(2 * _HALF_WINDOW * deviation / step))
        if points > _MOST_POINTS:
            raise not_converged("a loss grid of one round is too long")
        places, law = _tilted_law(parts, order, mean, step, points)
        kept = (places > low) & (places <= high) & (law > 0)
        losses.append(places[kept])
        logs.append(np.log(law[kept]) + value - order * places[kept])
    found, log_mass = np.concatenate(losses), np.concatenate(logs)
    return found, log_mass - math.log(float(np.exp(log_mass).sum()))


def _tilts(parts: Sequence[Part], highest: float) -> list[tuple[float, float, float, float]]:
    """(order, log-moment, mean and deviation of the tilted law) from rare losses up to ``highest``."""
    found = {}
    for sign in (-1, 1):
        order = 0.5
        for _ in range(_MOST_TILTS):
            value, mean, variance = (
                math.fsum(part.number * each for part, each in zip(parts, column, strict=True))
                for column in zip(*(part.moments(order) for part in parts), strict=True)
            )
            deviation = math.sqrt(variance)
            found[order] = (order, value, mean, deviation)
            end = mean + sign * _SPACING / 2 * deviation
            rate = (order if sign < 0 else order - 1) * end - value
            if (sign > 0 and end > highest) or (rate > _DEPTH and sign * (order - 0.5) > 0.5):
                break
            order += sign * _SPACING / deviation
    return [found[order] for order in sorted(found)]


def _tilted_law(
    parts: Sequence[Part], order: float, mean: float, step: float, points: int
) -> tuple[Array, Array]:
    """Multiples of ``step`` around the mean, and the masses of the tilted law there."""
    log_transform = np.zeros(points // 2 + 1, complex)
    for part in parts:
        losses, weights, _ = part.nodes(order, step)
        log_transform += part.number * np.log(np.fft.rfft(on_grid(losses / step, weights, points)))
    law = np.fft.irfft(np.exp(log_transform), points)
    first = math.floor(mean / step) - points // 2
    return step * (first + np.arange(points, dtype=float)), np.roll(law, -(first % points))
