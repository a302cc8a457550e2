"""The largest local epsilon at which shuffled reports satisfy a central (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable

from csgm_cli.errors import NoAnswerError
from csgm_cli.gaussian import mu_for
from csgm_cli.local.blanket import shuffled_delta
from csgm_cli.local.composition import composed_delta
from csgm_cli.local.randomizer import optimal_randomizer

#: Largest supported epsilon and delta, and largest local epsilon: rounding errors are not tested beyond them.
MOST_EPSILON, MOST_DELTA, MOST_LOCAL_EPSILON = 10.0, 0.1, 25.0
#: Typical probability of the cap at the optimal split: 0.5 to 0.95.
_TYPICAL_P = 0.7
#: Relative precision of the answer, for one message and several.
_PRECISION, _PRECISION_COMPOSED = 1e-9, 1e-6
_GROWTH = 1.2


def privunit_epsilon(n: int, messages: int, epsilon: float, delta: float) -> float:
    """The local epsilon of each of ``messages`` PrivUnitG reports per client of n, by the privacy blanket.

    The result is at most 25; a smaller local epsilon than the largest possible one is also private.
    Several messages, each with its own shuffle, are composed numerically.

    Raises:
        NoAnswerError: epsilon is above 10 or delta above 0.1, or the bound has too many terms.
    """

    def bound(local: float) -> float:
        randomizer = optimal_randomizer(local)
        if messages == 1:
            return shuffled_delta(n, randomizer.cap_mass, randomizer.odds, epsilon, delta)
        return composed_delta(n, randomizer, messages, epsilon, delta)

    precision = _PRECISION if messages == 1 else _PRECISION_COMPOSED
    return _largest_epsilon(bound, n, messages, epsilon, delta, precision)


def clones_epsilon(n: int, epsilon: float, delta: float) -> float:
    """The local epsilon of one report per client by any local randomizer (`privunit_epsilon`)."""

    def bound(local: float) -> float:
        return shuffled_delta(n, 0.5, math.expm1(local), epsilon, delta)

    return _largest_epsilon(bound, n, 1, epsilon, delta, _PRECISION)


def _largest_epsilon(
    bound: Callable[[float], float], n: int, messages: int, epsilon: float, delta: float, precision: float
) -> float:
    """A local epsilon with ``bound(local)`` <= ``delta``; at local (1 + 2 precision) it is above.

    At least epsilon / messages, where local privacy alone suffices.
    """
    if epsilon > MOST_EPSILON or delta > MOST_DELTA:
        message = f"epsilon is {epsilon!r} and delta {delta!r}; shuffled reports are supported up to"
        message += f" {MOST_EPSILON:g} and {MOST_DELTA:g}"
        raise NoAnswerError("shuffle-out-of-range", message)

    def excess(log_local: float) -> float:
        return math.log(bound(math.exp(log_local)) / delta)

    least, most = math.log(epsilon / messages), math.log(MOST_LOCAL_EPSILON)
    start = min(max(math.log(_gaussian_guess(n, messages, epsilon, delta)), least), most)
    low, high = _bracket(excess, start, least, most)
    if high is None:
        return math.exp(low)
    from scipy.optimize import brentq

    found = brentq(excess, low, high, xtol=precision / 2, rtol=1e-14)
    while found > low and excess(found) > 0.0:
        found -= precision
    return math.exp(max(found, low))


def _bracket(
    excess: Callable[[float], float], start: float, least: float, most: float
) -> tuple[float, float | None]:
    """A feasible and an infeasible log local epsilon; the latter is None for ``most`` or ``least``."""
    step = math.log(_GROWTH)
    if excess(start) > 0.0:
        high, low = start, max(start - step, least)
        while low > least and excess(low) > 0.0:
            high, low = low, max(low - step, least)
        # Local privacy alone suffices at ``least``, even if the bound does not show it.
        return (low, None) if low <= least and excess(low) > 0.0 else (low, high)
    low, high = start, min(start + step, most)
    while excess(high) <= 0.0:
        if high >= most:
            return most, None
        low, high = high, min(high + step, most)
    return low, high


def _gaussian_guess(n: int, messages: int, epsilon: float, delta: float) -> float:
    """The local epsilon in the Gaussian limit mu^2 = 2 B p E^2/((E + 1) n): a starting point."""
    s = mu_for(epsilon, delta) ** 2 * n / (2.0 * messages * _TYPICAL_P)
    return math.log1p((s + math.sqrt(s * s + 4.0 * s)) / 2.0)
