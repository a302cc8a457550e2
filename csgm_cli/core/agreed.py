"""Noise that a search for its epsilon agrees with, where bounds wobble.

docs/theory.md, "Numerics". Some brackets of the privacy profile go up and down by what is not computed.
A search along epsilon at one noise, and one along noise at one epsilon, then end at different places,
both proven. Here they end at the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from csgm_cli.errors import NoAnswerError
from csgm_cli.roots import descend

#: Noise smaller by this, relative, has to miss; brackets are narrowed to half of it.
_HARDLY, _WIDTH = 1e-8, 5e-9
#: By how much steps up grow, from the first.
_GROWTH = 8.0
#: About how steeply log epsilon falls in log noise, at least.
_SLOPE = 1.0
#: Nothing is looked at this many times below where it starts.
_DEEPEST = 1e6
#: How far, relative, noise that is met at hardly less of it is followed down, one after the other.
_STEPS = tuple(_HARDLY * 2.0**power for power in range(24))


def agreed(says: Callable[[float], float], target: float, start: float, highest: float) -> float:
    """Noise, from ``start`` on, at which it ``says`` an epsilon within ``target``, but not at hardly less.

    ``says`` falls with noise, but for its wobble; ``highest``, which is returned where nothing below is
    found to do, need not be looked at.
    """

    @cache
    def excess(noise: float) -> float:
        try:
            epsilon = says(noise)
        except NoAnswerError:
            return math.inf
        return math.log(epsilon / target) if epsilon > 0.0 else -math.inf

    noise, step = start, _HARDLY
    while excess(noise) > 0.0:
        noise, step = noise * (1 + step), step * _GROWTH
        if noise >= highest:
            return highest
    for step in _STEPS:
        less = noise * (1 - _HARDLY)
        if excess(less) > 0.0:
            break
        further = noise * (1 - step)
        noise = descend(
            excess, less if excess(further) > 0.0 else further, start / _DEEPEST, width=_WIDTH, slope=_SLOPE
        )
    return noise
