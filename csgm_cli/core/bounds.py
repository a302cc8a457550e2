"""Which proven bounds an accountant rests on, and what each says at a given noise.

Every number returned is an upper bound: float64 errors are added, and where they would exceed
1e-9 of the answer the mpmath oracle replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, SupportsFloat

from csgm_cli import gaussian
from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Mechanism

if TYPE_CHECKING:
    from csgm_cli.renyi.conversion import Converted

#: Relative float64 error above which the oracle takes over: value + error is then within 1e-9 of
#: the truth, whichever way the error went.
TRUST = 4e-10
#: Digits of the oracle when it takes over.
ORACLE_DIGITS = 30
#: Deltas below this are reported as this (it is the smallest that csgm accepts).
DELTA_FLOOR = 1e-300
#: The bounds of the tight module.
OF_THE_PROFILE = (Bound.TIGHT_ADD, Bound.TIGHT_REMOVE, Bound.PROFILE)
#: Why an accountant that was to take those bounds took wider ones.
OUT_OF_REACH = "the privacy profile is out of reach of the tight accountant here; the bound is a wider one"
REPLACED = "the tight accountant is proven for add-remove only; under replace-one the bound is a wider one"


@dataclass(frozen=True)
class Spent:
    """What a bound charges: an epsilon or a delta, whichever was asked for.

    ``high_precision``: float64 could not be trusted and mpmath gave the value. ``lower``: what
    kappa* shows, below which no analysis can go, 0 where it shows nothing or is out of reach; None where
    the bound does not look at kappa*, or nobody asked. ``bracketed``: how wide a bracket of delta is
    known of the profile, relative, where ``bound`` is that.
    ``fell_back``: why the profile, which was asked for, was not looked at; empty where nothing was missed.
    """

    value: float
    order: float | None
    bound: Bound
    high_precision: bool = False
    lower: float | None = None
    fell_back: str = ""
    bracketed: float = 0.0


def bounds_of(mechanism: Mechanism, accountant: Accountant) -> tuple[Bound, ...]:
    """The bounds of which ``accountant`` takes the smallest.

    Raises:
        UsageError: the accountant has no bound for this mechanism.
    """
    if accountant is Accountant.EXACT and not mechanism.is_gaussian:
        raise UsageError(
            "no-exact-accountant",
            f"accountant exact needs the gaussian mechanism or gamma 1, got {mechanism.name} with gamma"
            f" {mechanism.gamma!r}",
            "use auto, tight or rdp",
        )
    return bounds_by(accountant, all_gaussian=mechanism.is_gaussian)


def bounds_by(accountant: Accountant, *, all_gaussian: bool) -> tuple[Bound, ...]:
    """The bounds of an accountant that has some; those of the profile come on top, see `looks_at_profile`."""
    if accountant in (Accountant.AUTO, Accountant.TIGHT):
        return (Bound.EXACT,) if all_gaussian else (Bound.RDP, Bound.MASK_REVEALED)
    return (Bound(accountant.value),)


def resolved(mechanism: Mechanism, accountant: Accountant, bound: Bound) -> Accountant:
    """The accountant that alone gives the answer which ``auto`` found by ``bound``."""
    if accountant is not Accountant.AUTO or bound is Bound.MASK_REVEALED:
        return accountant
    if bound in OF_THE_PROFILE:
        return Accountant.TIGHT
    return Accountant.EXACT if mechanism.is_gaussian else Accountant(bound.value)


def looks_at_profile(mechanism: Mechanism, accountant: Accountant) -> bool:
    """True where the accountant also takes the bounds of the tight module (add-remove only)."""
    tight = accountant in (Accountant.AUTO, Accountant.TIGHT)
    return tight and not mechanism.is_gaussian and mechanism.adjacency is Adjacency.ADD_REMOVE


def missed(mechanism: Mechanism, accountant: Accountant) -> str:
    """Why ``tight``, asked for by name, cannot look at the profile; auto promises no bound in particular."""
    by_name = accountant is Accountant.TIGHT and not mechanism.is_gaussian
    return REPLACED if by_name and mechanism.adjacency is Adjacency.REPLACE_ONE else ""


def total_mu(mechanism: Mechanism, sigma: float) -> float:
    """Sensitivity / sigma of all rounds together, with every coordinate sent."""
    return unit_mu(mechanism, sigma) * math.sqrt(mechanism.releases)


def unit_mu(mechanism: Mechanism, sigma: float) -> float:
    """`total_mu` of one round."""
    doubled = 2.0 if mechanism.adjacency is Adjacency.REPLACE_ONE else 1.0
    return doubled * mechanism.sensitivity / sigma


def least_epsilon(
    mechanism: Mechanism,
    accountant: Accountant,
    sigma: float,
    delta: float,
    *,
    near: float = math.inf,
    with_lower: bool = True,
) -> Spent:
    """The smallest epsilon that the accountant's bounds prove.

    ``near``: one that is small enough, where the profile proves it. ``with_lower``: whether to solve
    for what kappa* shows as well.
    """
    bounds = bounds_of(mechanism, accountant)
    best = min((spent_epsilon(mechanism, b, sigma, delta) for b in bounds), key=lambda spent: spent.value)
    if not looks_at_profile(mechanism, accountant):
        return replace(best, fell_back=missed(mechanism, accountant))
    from csgm_cli.core.tight_solve import tight_epsilon

    found = tight_epsilon(mechanism, sigma, delta, best.value, near=near, with_lower=with_lower)
    if found.upper < best.value:
        return Spent(found.upper, found.order, found.bound, lower=found.lower, bracketed=found.bracketed)
    return replace(best, lower=found.lower, fell_back="" if found.is_known else OUT_OF_REACH)


def least_delta(mechanism: Mechanism, accountant: Accountant, sigma: float, epsilon: float) -> Spent:
    """The smallest delta that the accountant's bounds prove."""
    bounds = bounds_of(mechanism, accountant)
    best = min((spent_delta(mechanism, b, sigma, epsilon) for b in bounds), key=lambda spent: spent.value)
    if not looks_at_profile(mechanism, accountant):
        return replace(best, fell_back=missed(mechanism, accountant))
    from csgm_cli.core.tight import is_the_truth, kappa_delta, tight_delta

    found = tight_delta(mechanism, sigma, epsilon)
    value = min(max(found.upper, DELTA_FLOOR), best.value)
    lower = value if is_the_truth(mechanism, found) else min(kappa_delta(mechanism, sigma, epsilon), value)
    if value < best.value:
        return Spent(value, found.order, found.bound, lower=lower, bracketed=found.bracketed)
    return replace(best, lower=lower, fell_back="" if found.is_known else OUT_OF_REACH)


def spent_epsilon(mechanism: Mechanism, bound: Bound, sigma: float, delta: float) -> Spent:
    """Epsilon >= 0 that ``bound`` proves at this noise and delta."""

    def precisely(order: float | None) -> float:
        return oracle_epsilon(mechanism, bound, sigma, delta, order)

    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        return gaussian_epsilon(total_mu(mechanism, sigma), delta, bound, precisely)
    from csgm_cli.renyi.conversion import best_epsilon
    from csgm_cli.renyi.curves import renyi_curve

    point = best_epsilon(renyi_curve(mechanism, bound), sigma, math.log(delta))
    return renyi_epsilon(point, bound, precisely)


def gaussian_epsilon(
    mu: float, delta: float, bound: Bound, precisely: Callable[[float | None], float]
) -> Spent:
    """Epsilon of the Gaussian profile at ``mu``; ``precisely`` is the oracle's."""
    epsilon = gaussian.epsilon_for(mu, delta)
    if epsilon == 0.0 or 2 * gaussian.SAFETY * gaussian.elasticity(mu, epsilon) <= TRUST:
        return Spent(epsilon, None, bound)
    # A tiny epsilon at a large delta hangs on the last digits of mu.
    return Spent(precisely(None), None, bound, high_precision=True)


def renyi_epsilon(point: Converted, bound: Bound, precisely: Callable[[float | None], float]) -> Spent:
    """Epsilon of a converted Renyi curve; ``precisely`` is the oracle's at an order."""
    if point.value + point.error <= 0.0:
        return Spent(0.0, point.order, bound)
    if point.error > TRUST * point.value:
        return Spent(precisely(point.order), point.order, bound, high_precision=True)
    return Spent(point.value + point.error, point.order, bound)


def spent_delta(mechanism: Mechanism, bound: Bound, sigma: float, epsilon: float) -> Spent:
    """Delta that ``bound`` proves at this noise and epsilon, in [DELTA_FLOOR, 1]."""
    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        return Spent(_delta_from_log(gaussian.log_delta(total_mu(mechanism, sigma), epsilon)), None, bound)
    from csgm_cli.renyi.conversion import best_log_delta
    from csgm_cli.renyi.curves import renyi_curve

    point = best_log_delta(renyi_curve(mechanism, bound), sigma, epsilon)
    beyond = point.value - point.error > 0.0 or point.value + point.error < math.log(DELTA_FLOOR)
    if point.error > TRUST and not beyond:
        value = _oracle_delta(mechanism, bound, sigma, epsilon, point)
        return Spent(value, point.order, bound, high_precision=True)
    return Spent(_delta_from_log(point.value + point.error), point.order, bound)


def _delta_from_log(log_delta: float) -> float:
    if log_delta < math.log(DELTA_FLOOR):
        return DELTA_FLOOR
    return gaussian.exp_upwards(log_delta)


def oracle_epsilon(
    mechanism: Mechanism, bound: Bound, sigma: float, delta: float, order: float | None
) -> float:
    """The same statement at the same order from the oracle, rounded up."""
    from csgm_cli.core import oracle

    return above(oracle.epsilon(mechanism, sigma, delta, order, bound, ORACLE_DIGITS))


def above(epsilon: SupportsFloat) -> float:
    """An epsilon of the oracle as a float that is not below it; 0 stays 0."""
    value = float(epsilon)
    return math.nextafter(value, math.inf) if value > 0.0 else 0.0


def _oracle_delta(
    mechanism: Mechanism, bound: Bound, sigma: float, epsilon: float, point: Converted
) -> float:
    from csgm_cli.core import oracle

    value = float(oracle.delta(mechanism, sigma, epsilon, point.order, bound, ORACLE_DIGITS))
    return min(1.0, max(DELTA_FLOOR, math.nextafter(value, math.inf)))
