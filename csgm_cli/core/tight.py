"""The tight accountant: delta between what kappa* shows and what is proven for every vector.

docs/theory.md, "The tight accountant". Where every coordinate can sit at its clip (L-inf-CSGM,
k = dim) the profile there is exact; elsewhere it is a lower bound, and the proven upper bound is the
larger of the two directions' best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from csgm_cli.core.certificate import Certificate, Proof
from csgm_cli.core.cones import add_cone, concave_twin, remove_cone
from csgm_cli.core.contour import Contour, Direction, Law, build_contour
from csgm_cli.core.conversion import best_log_delta
from csgm_cli.core.curves import Curve, renyi_curve
from csgm_cli.core.search import descend
from csgm_cli.errors import NoAnswerError
from csgm_cli.model import Bound, Mechanism

#: kappa* is not asked for a sigma further below the answer than exp of this.
_DEEPEST = 2.0
#: From this t on a single coordinate shows whether it was sent.
_VISIBLE = 16.0
#: Where fewer coordinates than the first are sent on average, or fewer than the second and the loss
#: has less variance than the third, the Renyi bounds have to do.
_FEW_SENT, _MANY_SENT, _LEAST_VARIANCE = 0.22, 20.0, 0.01
#: Relative width to which a sigma is solved, and room left for an epsilon solved at it.
_WIDTH = 4e-13
#: Relative width to which lower bounds are solved, and by which they are rounded down.
_LOOSE = 1e-10


@dataclass(frozen=True)
class TightDelta:
    """``lower`` <= the true delta <= ``upper``, the larger of what is proven for both directions."""

    lower: float
    add: Certificate
    remove: Certificate

    @property
    def upper(self) -> float:
        """Delta that holds for every vector."""
        return max(self.add.value, self.remove.value)

    @property
    def bound(self) -> Bound:
        """The name of what decided ``upper``."""
        if self.decisive.proof in (Proof.RDP, Proof.PROFILE):
            return Bound(self.decisive.proof.value)
        return Bound.TIGHT_ADD if self.decisive is self.add else Bound.TIGHT_REMOVE

    @property
    def decisive(self) -> Certificate:
        """The certificate of the direction with the larger bound."""
        return self.add if self.add.value >= self.remove.value else self.remove

    @property
    def order(self) -> float | None:
        """The Renyi order of ``bound``, where it is a Renyi bound."""
        return self.decisive.order if self.bound is Bound.RDP else None


@dataclass(frozen=True)
class TightEpsilon:
    """``lower`` <= the true epsilon <= ``upper``; ``bound`` (and ``order``) decided the upper one."""

    lower: float
    upper: float
    bound: Bound
    order: float | None


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


def is_within_reach(mechanism: Mechanism, sigma: float) -> bool:
    """True where contours of the loss at kappa* converge quickly at any epsilon.

    It depends on the noise alone, so that all answers at one noise rest on the same bounds. The
    characteristic function of the loss decays over 1/std of its bulk, and a mask bit that is all
    but visible gives it an atom.
    """
    law = worst_law(mechanism, sigma)
    t = law.largest_t
    if t > _VISIBLE:
        return False
    variance = law.gamma**2 * law.total_t * math.expm1(t) / t
    sent = law.gamma * law.total_t / t
    return sent >= _MANY_SENT or (sent >= _FEW_SENT and variance >= _LEAST_VARIANCE)


def tight_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> TightDelta:
    """Delta at this noise and epsilon, under add-remove and for gamma < 1."""
    with np.errstate(all="ignore"):  # what overflows is infinite, and then it is not the best proof
        return _tight_delta(mechanism, sigma, epsilon)


def _tight_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> TightDelta:
    law = worst_law(mechanism, sigma)
    rdp = _renyi(Proof.RDP, renyi_curve(mechanism, Bound.RDP), sigma, epsilon)
    if not is_within_reach(mechanism, sigma):
        return TightDelta(0.0, rdp, rdp)
    add, remove = (_profile(law, direction, epsilon) for direction in Direction)
    lower = min(1.0, max(add.lower, remove.lower))
    if is_exact(mechanism) and add.upper < 1.0:
        exact_add = Certificate(Proof.PROFILE, add.upper)
        if remove.upper < 1.0:
            return TightDelta(lower, exact_add, Certificate(Proof.PROFILE, remove.upper))
        return TightDelta(lower, exact_add, min(rdp, _remove_renyi(law, epsilon), key=_value))
    scale = max(lower, 1e-320)
    adding = [rdp]
    if add.contour is not None:
        adding.append(add_cone(law, add.contour, epsilon, scale))
    best_add = min(adding, key=_value)
    return TightDelta(lower, best_add, _best_remove(law, remove, epsilon, scale, rdp, best_add.value))


def _best_remove(
    law: Law, profile: _Profile, epsilon: float, scale: float, rdp: Certificate, enough: float
) -> Certificate:
    """The best proof for the remove direction; the dear one only where the others exceed ``enough``."""
    proofs: list[Certificate | None] = [rdp, _remove_renyi(law, epsilon)]
    if profile.contour is not None:
        proofs.append(remove_cone(law, profile.contour, epsilon, scale))
    best = min((proof for proof in proofs if proof is not None), key=_value)
    twin = None if best.value <= enough else concave_twin(law, epsilon, scale)
    return min(best, twin or best, key=_value)


def _value(certificate: Certificate) -> float:
    return certificate.value


def kappa_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> float:
    """A lower bound on the true delta: the profile at kappa*, the larger direction."""
    law = worst_law(mechanism, sigma)
    if not is_within_reach(mechanism, sigma):
        return 0.0
    with np.errstate(all="ignore"):
        return max(_profile(law, direction, epsilon).lower for direction in Direction)


def tight_epsilon(
    mechanism: Mechanism, sigma: float, delta: float, ceiling: float, *, with_lower: bool
) -> TightEpsilon:
    """Epsilon at ``delta``, at most ``ceiling``, which another bound has proven."""

    def excess(epsilon: float) -> float:
        return _log_ratio(tight_delta(mechanism, sigma, epsilon).upper, delta)

    if not is_within_reach(mechanism, sigma):
        return TightEpsilon(0.0, ceiling, Bound.RDP, None)
    upper = descend(excess, ceiling, 0.0, width=_WIDTH / 2)
    there = tight_delta(mechanism, sigma, upper)
    if there.bound is Bound.PROFILE and upper < ceiling:
        lower = upper
    else:
        lower = kappa_epsilon(mechanism, sigma, delta, upper) if with_lower else 0.0
    return TightEpsilon(lower, upper, there.bound, there.order)


def kappa_epsilon(mechanism: Mechanism, sigma: float, delta: float, ceiling: float) -> float:
    """The epsilon that kappa* shows at ``delta``, a lower bound on the true one."""

    def excess(epsilon: float) -> float:
        return _log_ratio(kappa_delta(mechanism, sigma, epsilon), delta)

    if kappa_delta(mechanism, sigma, ceiling) == 0.0:  # out of reach
        return 0.0
    return max(0.0, descend(excess, ceiling, 0.0, width=_LOOSE) - 2 * _LOOSE * ceiling)


def tight_sigma(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """A sigma that suffices for every vector, at most ``ceiling``, which another bound has proven."""

    def excess(log_sigma: float) -> float:
        return _log_ratio(tight_delta(mechanism, math.exp(log_sigma), epsilon).upper, delta)

    if not is_within_reach(mechanism, ceiling):
        return ceiling
    return min(math.exp(descend(excess, math.log(ceiling), -math.inf, width=_WIDTH)) * (1 + _WIDTH), ceiling)


def kappa_sigma(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """The sigma that kappa* needs, at most ``ceiling``, which suffices; 0 where that is not known."""

    def excess(log_sigma: float) -> float:
        return _log_ratio(kappa_delta(mechanism, math.exp(log_sigma), epsilon), delta)

    if kappa_delta(mechanism, ceiling, epsilon) == 0.0:  # out of reach
        return 0.0
    floor = math.log(ceiling) - _DEEPEST
    lower = descend(excess, math.log(ceiling), floor, width=_LOOSE)
    return math.exp(lower - 2 * _LOOSE) if lower > floor else 0.0


def _log_ratio(value: float, delta: float) -> float:
    return math.log(value / delta) if value > 0.0 else -math.inf


@dataclass(frozen=True)
class _Profile:
    """One direction's delta at kappa*; [0, 1] where it is out of reach."""

    lower: float
    upper: float
    contour: Contour | None


def _profile(law: Law, direction: Direction, epsilon: float) -> _Profile:
    if direction is Direction.REMOVE and epsilon + law.floor >= 0.0:
        return _Profile(0.0, 0.0, None)
    contour = build_contour(law, direction, epsilon)
    if contour is not None:
        value, error = contour.integral(-epsilon, np.ones_like(contour.z))
        if error < 1e-6 * value:
            return _Profile(value - error, value + error, contour)
    return _Profile(0.0, 1.0, None)


def _renyi(proof: Proof, curve: Curve, sigma: float, epsilon: float) -> Certificate:
    try:
        point = best_log_delta(curve, sigma, epsilon)
    except NoAnswerError:  # out of reach
        return Certificate(proof, 1.0)
    return Certificate(proof, math.exp(min(0.0, point.value + point.error)), order=point.order)


def _remove_renyi(law: Law, epsilon: float) -> Certificate:
    """Remove direction by D_a(Q||P) <= (a/2) g^2 total_t (e^t - 1)/t, that of a Gaussian."""
    t = law.largest_t
    mu = law.gamma * math.sqrt(law.total_t * math.expm1(min(t, 700.0)) / t)
    curve = Curve(1.0, ((1.0, mu),), weak_triangle=False, integer_orders=False)
    return _renyi(Proof.RENYI_REMOVE, curve, 1.0, epsilon)
