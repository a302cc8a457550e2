"""The tight accountant: delta between what kappa* shows and what is proven for every vector.

docs/theory.md, "The tight accountant". Where every coordinate can sit at its clip (L-inf-CSGM,
k = dim) the profile there is exact; elsewhere it is a lower bound, and the proven upper bound is the
larger of the two directions' best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from csgm_cli.core.cones import add_cone, concave_twin, remove_cone
from csgm_cli.core.contour import Contour, Direction, Law, build_contour
from csgm_cli.core.conversion import best_log_delta
from csgm_cli.core.curves import Curve, renyi_curve
from csgm_cli.core.search import descend
from csgm_cli.model import Bound, Mechanism

#: kappa* is not asked for a sigma further below the answer than exp of this.
_DEEPEST = 2.0
#: Relative width to which lower bounds are solved, and by which they are rounded down.
_LOOSE = 1e-10


@dataclass(frozen=True)
class TightDelta:
    """``lower`` <= the true delta <= ``upper``; ``bound`` names what decided the upper one."""

    lower: float
    upper: float
    bound: Bound


@dataclass(frozen=True)
class TightEpsilon:
    """``lower`` <= the true epsilon <= ``upper``; ``bound`` names what decided the upper one."""

    lower: float
    upper: float
    bound: Bound


def worst_law(mechanism: Mechanism, sigma: float) -> Law:
    """The loss at kappa*: as many coordinates at the clip as fit, and the rest in one."""
    count = mechanism.coordinates
    t = (mechanism.geometry.linf_norm / sigma) ** 2
    whole, rounds = float(math.floor(count)), float(mechanism.rounds)
    parts = ((rounds * whole, t),) if whole == count else ((rounds * whole, t), (rounds, t * (count - whole)))
    return Law(mechanism.gamma, parts)


def is_exact(mechanism: Mechanism) -> bool:
    """True where kappa* is elementwise largest, so that its profile is the answer."""
    return mechanism.geometry.dim is not None and mechanism.coordinates >= mechanism.geometry.dim


def tight_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> TightDelta:
    """Delta at this noise and epsilon, under add-remove and for gamma < 1."""
    law = worst_law(mechanism, sigma)
    add, add_contour = _profile(law, Direction.ADD, epsilon)
    remove, remove_contour = _profile(law, Direction.REMOVE, epsilon)
    lower = max(add[0], remove[0], 0.0)
    if is_exact(mechanism):
        return TightDelta(lower, max(add[1], remove[1]), Bound.PROFILE)
    rdp = math.exp(min(0.0, _log_rdp(renyi_curve(mechanism, Bound.RDP), sigma, epsilon)))
    scale = max(lower, 1e-320)
    by_add = min(rdp, add_cone(law, add_contour, epsilon, scale).value if add_contour else math.inf)
    candidates = [rdp, _remove_renyi(law, epsilon)]
    if remove_contour is not None:
        cone = remove_cone(law, remove_contour, epsilon, scale)
        candidates.append(cone.value if cone else math.inf)
    if min(candidates) > by_add:
        twin = concave_twin(law, epsilon, scale)
        candidates.append(twin.value if twin else math.inf)
    by_remove = min(candidates)
    upper, bound = max((by_add, Bound.TIGHT_ADD), (by_remove, Bound.TIGHT_REMOVE))
    return TightDelta(lower, upper, bound if upper < rdp else Bound.RDP)


def kappa_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> float:
    """A lower bound on the true delta: the profile at kappa*, the larger direction."""
    law = worst_law(mechanism, sigma)
    return max(0.0, *(_profile(law, direction, epsilon)[0][0] for direction in Direction))


def tight_epsilon(mechanism: Mechanism, sigma: float, delta: float, ceiling: float) -> TightEpsilon:
    """Epsilon at ``delta``, at most ``ceiling``, which another bound has proven."""

    def excess(epsilon: float) -> float:
        return _log_ratio(tight_delta(mechanism, sigma, epsilon).upper, delta)

    upper = descend(excess, ceiling, 0.0)
    bound = tight_delta(mechanism, sigma, upper).bound
    exact = bound is Bound.PROFILE and upper < ceiling
    return TightEpsilon(upper if exact else kappa_epsilon(mechanism, sigma, delta, upper), upper, bound)


def refined_epsilon(mechanism: Mechanism, sigma: float, delta: float, near: float) -> TightEpsilon:
    """Epsilon at ``delta`` where ``near`` is a hair above it; kappa* is not asked."""

    def excess(epsilon: float) -> float:
        return _log_ratio(tight_delta(mechanism, sigma, epsilon).upper, delta)

    upper = descend(excess, near, 0.0, stride=1e-12)
    return TightEpsilon(0.0, upper, tight_delta(mechanism, sigma, upper).bound)


def kappa_epsilon(mechanism: Mechanism, sigma: float, delta: float, ceiling: float) -> float:
    """The epsilon that kappa* shows at ``delta``, a lower bound on the true one."""

    def excess(epsilon: float) -> float:
        return _log_ratio(kappa_delta(mechanism, sigma, epsilon), delta)

    return max(0.0, descend(excess, ceiling, 0.0, width=_LOOSE) - 2 * _LOOSE * ceiling)


def tight_sigma(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """A sigma that suffices for every vector, at most ``ceiling``, which another bound has proven."""

    def excess(log_sigma: float) -> float:
        return _log_ratio(tight_delta(mechanism, math.exp(log_sigma), epsilon).upper, delta)

    return min(math.exp(descend(excess, math.log(ceiling), -math.inf)) * (1 + 2.0**-50), ceiling)


def kappa_sigma(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """The sigma that kappa* needs, at most ``ceiling``, which suffices; 0 where that is not known."""

    def excess(log_sigma: float) -> float:
        return _log_ratio(kappa_delta(mechanism, math.exp(log_sigma), epsilon), delta)

    floor = math.log(ceiling) - _DEEPEST
    lower = descend(excess, math.log(ceiling), floor, width=_LOOSE)
    return math.exp(lower - 2 * _LOOSE * max(1.0, abs(lower))) if lower > floor else 0.0


def _log_ratio(value: float, delta: float) -> float:
    return math.log(value / delta) if value > 0.0 else -math.inf


def _profile(law: Law, direction: Direction, epsilon: float) -> tuple[tuple[float, float], Contour | None]:
    if direction is Direction.REMOVE and epsilon + law.floor >= 0.0:
        return (0.0, 0.0), None
    contour = build_contour(law, direction, epsilon)
    if contour is None:
        return (0.0, 1.0), None
    value, error = contour.integral(-epsilon, np.ones_like(contour.z))
    if not error < 1e-6 * value:
        return (0.0, 1.0), None
    return (value - error, value + error), contour


def _log_rdp(curve: Curve, sigma: float, epsilon: float) -> float:
    point = best_log_delta(curve, sigma, epsilon)
    return point.value + point.error


def _remove_renyi(law: Law, epsilon: float) -> float:
    """Remove direction by D_a(Q||P) <= (a/2) g^2 total_t (e^s2 - 1)/s2, that of a Gaussian."""
    t = law.largest_t
    mu2 = law.gamma**2 * law.total_t * math.expm1(t) / t
    curve = Curve(1.0, ((1.0, math.sqrt(mu2)),), weak_triangle=False, integer_orders=False)
    return math.exp(min(0.0, _log_rdp(curve, 1.0, epsilon)))
