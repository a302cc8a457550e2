"""Rounds that still fit, and noise that would, by the tight accountant.

Both ask whether delta at the limit's epsilon is at most the limit's delta: log delta is smooth in the
rounds and the noise of each release, and a few evaluations find where it is (docs/theory.md,
"Mixed releases by the profile").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.composition import composition_of
from csgm_cli.core.mixed_tight import mixed_delta
from csgm_cli.core.steered import log_ratio
from csgm_cli.core.tight import LARGEST_DELTA, LEAST_DELTA, tight_delta
from csgm_cli.core.tight_solve import tight_sigma
from csgm_cli.roots import descend, narrowed, secant

if TYPE_CHECKING:
    from csgm_cli.core.compose import Noisy
    from csgm_cli.model.mechanism import Mechanism, Target

#: How clear of the limit log delta is kept, for the epsilon that is solved from it.
_CLEAR = 2e-11
#: Relative width to which a noise is solved.
_WIDTH = 1e-12
#: About how steep log delta is in the logarithm of the rounds.
_STEEP = 50.0
#: How many factors e, e^4, e^9, ... of the noise are tried where no bound is known.
_MOST_TRIES = 5


def excess(releases: Sequence[Noisy], limit: Target) -> float:
    """Log of what the releases are proven to have at the limit's epsilon over the limit's delta."""
    together, delta = composition_of(releases), min(limit.delta, LARGEST_DELTA)
    if not together.kinds:
        return -math.inf  # the exact Gaussian decides
    if (alone := together.alone) is not None:
        found = tight_delta(alone.mechanism, alone.sigma, limit.epsilon)
    else:
        found = mixed_delta(together, limit.epsilon, delta)
    return log_ratio(max(found.upper, LEAST_DELTA), delta) + _CLEAR


def _with(releases: Sequence[Noisy], index: int, changed: Noisy) -> list[Noisy]:
    """The releases with another one at ``index``."""
    return [*releases[:index], changed, *releases[index + 1 :]]


def more_rounds(releases: Sequence[Noisy], index: int, limit: Target, enough: int, most: int) -> int:
    """The most further rounds of one release that fit, from ``enough``, which do, up to ``most``."""
    mechanism, sigma = releases[index]

    @cache
    def beyond(rounds: int) -> float:
        longer = (mechanism.with_releases(mechanism.releases + rounds), sigma)
        return excess(_with(releases, index, longer), limit)

    def at(rounds: float) -> float:
        return beyond(math.floor(rounds))

    low, before = (float(enough), at(enough)), None
    if low[1] > 0.0:  # only the Renyi bound holds
        return enough
    if len(releases) == 1:
        expected = _expected(mechanism.with_releases(mechanism.releases + enough), sigma, limit)
        last = enough if expected is None else min(enough + expected, most)
        if enough < last and at(last) <= 0.0:
            low = (float(last), at(last))
            if last == most or at(last + 1) > 0.0:
                return last
    step = (mechanism.releases + enough) * max(1e-3, -low[1] / _STEEP)
    while low[0] < most:
        x = float(min(math.ceil(low[0] + max(1.0, step)), most))
        high = (x, at(x))
        if high[1] > 0.0:
            return math.floor(narrowed(at, high, low, 0.99, before))
        gain = (high[1] - low[1]) / (x - low[0])
        ahead = -1.1 * high[1] / gain if gain > 0.0 else math.inf
        step, low, before = min(ahead, 8 * step), high, low
    return most


def _expected(mechanism: Mechanism, sigma: float, limit: Target) -> int | None:
    """About how many more rounds fit, of one release alone: by the test function that decides without."""
    delta = min(limit.delta, LARGEST_DELTA)
    found = tight_delta(mechanism, sigma, limit.epsilon).decisive
    again = found.again
    if again is None or found.value <= 0.0:
        return None

    def missed(rounds: float) -> float:
        return log_ratio(again(limit.epsilon, 1.0, rounds), delta) + _CLEAR

    with np.errstate(all="ignore"):
        times = secant(missed, 1.0, missed(1.0), _STEEP)
    return None if times is None else math.floor(mechanism.releases * (times - 1.0))


def needed_sigma(releases: Sequence[Noisy], index: int, limit: Target, enough: float) -> float:
    """The least noise of one release with which all fit, from ``enough``, which does or is infinite.

    Infinite where no noise would do.
    """
    mechanism, sigma = releases[index]

    def at(log_sigma: float) -> float:
        return excess(_with(releases, index, (mechanism, math.exp(log_sigma))), limit)

    if math.isinf(enough):
        enough = _first_that_fits(at, sigma)
    if math.isinf(enough):
        return math.inf
    if len(releases) == 1:
        return tight_sigma(mechanism, limit.epsilon, limit.delta, enough)
    return math.exp(descend(at, math.log(enough), -math.inf, width=_WIDTH)) * (1 + _WIDTH)


def _first_that_fits(at: Callable[[float], float], sigma: float) -> float:
    """Some noise above ``sigma`` that does, or infinity."""
    for power in range(1, _MOST_TRIES):
        if at(math.log(sigma) + power * power) <= 0.0:
            return sigma * math.exp(power * power)
    return math.inf
