"""What a tight bound is at another noise or epsilon: by the same test function, on the same contour.

Bounds are the least over lattices of test functions. Around an answer that is mostly the same one, so
this is the bound itself, at a tenth of the price. Searches go where it meets their target; what they
end with is a bound in full, for nothing here is proven.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.cones import add_bounds, concave_bounds, concave_log_error, log_outside, remove_bound
from csgm_cli.core.profile import over

if TYPE_CHECKING:
    from collections.abc import Callable

    from csgm_cli.core.certificate import Again, Certificate
    from csgm_cli.profile.contour import Contour, Law


def _at(contour: Contour, law: Law, noise: float, rounds: float) -> tuple[Contour, Law]:
    """The law with other noise, as a factor of its variance, and rounds, on the same contour."""
    there = law.scaled(noise, rounds)
    return (contour if there == law else contour.of(there)), there


def add_cone_again(cone: Certificate, contour: Contour, law: Law) -> Again:
    """Of the add direction's cone, whose best parameters are those of ``cone``."""
    exponent, spread, z = cone.exponent, cone.spread, cone.z
    assert exponent is not None
    assert spread is not None

    def again(epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        line, there = _at(contour, law, noise, rounds)
        outside = 0.0 if z is None else math.exp(log_outside(there, z))
        [bound] = add_bounds(line, epsilon, exponent, outside, np.array([spread]))
        return float(bound) * (1 + over(there))

    return again


def remove_cone_again(cone: Certificate, contour: Contour, law: Law) -> Again:
    """Of the remove direction's."""
    exponent, z = cone.exponent, cone.z
    assert exponent is not None
    assert z is not None

    def again(epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        line, there = _at(contour, law, noise, rounds)
        found = remove_bound(line, epsilon, exponent, log_outside(there, z), z)
        return math.inf if found is None else found.value

    return again


def concave_again(twin: Certificate, law: Law) -> Again:
    """Of the concave twin."""
    exponent, spread, z = twin.exponent, twin.spread, twin.z
    assert exponent is not None
    assert spread is not None
    assert z is not None

    def again(epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        there = law.scaled(noise, rounds)
        variance, log_error = there.gamma**2 * there.total_t, concave_log_error(there, exponent, z)
        [bound] = concave_bounds(variance, epsilon, exponent, log_error, np.array([spread]))
        return float(bound)

    return again


def profile_again(contour: Contour, law: Law, *, lower: bool = False) -> Again:
    """Of the profile at one vector, from above, or from below."""

    def again(epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        line, there = _at(contour, law, noise, rounds)
        value, error = line.integral(-epsilon, np.ones_like(line.z))
        return value - error - contour.aliases if lower else (value + error) * (1 + over(there))

    return again


def elsewhere(bound: Callable[[Law, float], float], law: Law) -> Again:
    """Of a bound that is known for all laws and epsilons."""

    def again(epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        return bound(law.scaled(noise, rounds), epsilon)

    return again


def held_at(bound: Again, held: float) -> Again:
    """Of a bound that serves larger epsilons as it is at this one."""

    def again(epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        return bound(min(epsilon, held), noise, rounds)

    return again


def of_epsilon(bound: Callable[[float], float]) -> Again:
    """Of a bound that is known at other epsilons only."""

    def again(epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        assert noise == rounds == 1.0
        return bound(epsilon)

    return again
