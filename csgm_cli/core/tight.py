"""The tight accountant: delta between what kappa* shows and what is proven for every vector.

docs/theory.md, "The tight accountant". Where every coordinate can sit at its clip (L-inf-CSGM,
k = dim) the profile there is exact; elsewhere it is a lower bound, and the proven upper bound is the
larger of the two directions' best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np

from csgm_cli.core.certificate import Again, Certificate, Proof
from csgm_cli.core.cones import (
    POLE_ROOM,
    add_cone,
    concave_twin,
    grid_add_cone,
    remove_cone,
    remove_exponent,
)
from csgm_cli.core.contour import Contour, Direction, Law, build_contour
from csgm_cli.core.conversion import best_log_delta
from csgm_cli.core.curves import Curve, renyi_curve
from csgm_cli.core.gaussian import log_delta
from csgm_cli.core.profile import Profile, over, profile, reach
from csgm_cli.core.retrace import add_cone_again, concave_again, profile_again, remove_cone_again
from csgm_cli.core.search import descend, followed, secant
from csgm_cli.core.sliced_law import single_round
from csgm_cli.errors import NoAnswerError
from csgm_cli.model import Bound, Mechanism

#: kappa* is not asked for a sigma further below the answer than this, relative.
_DEEPEST = 0.1
#: Relative width to which a sigma is solved, and room left for an epsilon solved at it, and for the
#: rounding of numbers derived from it.
_WIDTH = 4e-13
#: (sigma/ceiling)^2 is not looked at below this.
_LEAST_SHARE = 1e-40
#: A slope where none is known.
_SLOPE = 20.0
#: Relative width to which lower bounds are solved, and by which they are rounded down.
_LOOSE = 1e-10
#: Targets above this delta are met at this one: of what is closer to 1, float64 has too few digits.
LARGEST_DELTA = 1 - 1e-4
#: How much log delta may wobble at least; answers keep clear of the target by it. No such room is made
#: for a wobble that costs more than the second of sigma.
_WOBBLE, _TOO_MUCH = 1e-12, 1e-9
#: Bounds that exceed the profile by less than this, relative, are said to equal it.
_EQUAL = 1e-9
#: Deltas below this are not told apart from it where parameters are chosen.
_LEAST = 1e-320
#: The profile with all coordinates at the clip is not looked at where there are more than this times k.
_MANY_TIMES = 2.0


@dataclass(frozen=True)
class TightDelta:
    """What is proven in both directions for every vector; not ``is_known`` where Renyi bounds are all."""

    add: Certificate
    remove: Certificate
    is_known: bool

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
    is_known: bool


def worst_law(mechanism: Mechanism, sigma: float) -> Law:
    """The loss at kappa*: as many coordinates at the clip as fit, and the rest in one."""
    count = mechanism.coordinates
    t = (mechanism.linf_sensitivity / sigma) ** 2
    whole, rounds = float(math.floor(count)), float(mechanism.releases)
    parts = ((rounds * whole, t),) if whole == count else ((rounds * whole, t), (rounds, t * (count - whole)))
    return Law(mechanism.gamma, parts)


def every_law(mechanism: Mechanism, sigma: float) -> Law | None:
    """The loss with all ``dim`` coordinates at the clip; None where that is hopelessly more than can be."""
    dim = mechanism.geometry.dim
    if dim is None or dim > _MANY_TIMES * mechanism.coordinates:
        return None
    t = (mechanism.linf_sensitivity / sigma) ** 2
    return Law(mechanism.gamma, ((float(mechanism.releases) * dim, t),))


def is_exact(mechanism: Mechanism) -> bool:
    """True where kappa* is elementwise largest, so that its profile is the answer."""
    return mechanism.geometry.dim is not None and mechanism.coordinates >= mechanism.geometry.dim


def is_the_truth(mechanism: Mechanism, found: TightDelta) -> bool:
    """True where ``found`` is the profile itself, and not only above it."""
    return is_exact(mechanism) and found.bound is Bound.PROFILE and found.decisive.slack <= _EQUAL


@lru_cache(maxsize=32)
def tight_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> TightDelta:
    """What is proven of delta at this noise and epsilon, under add-remove and for gamma < 1."""
    with np.errstate(all="ignore"):  # what overflows is infinite, and then it is not the best proof
        rdp = _renyi(Proof.RDP, renyi_curve(mechanism, Bound.RDP), sigma, epsilon)
        law, every = worst_law(mechanism, sigma), every_law(mechanism, sigma)
        exact = is_exact(mechanism)
        adding = [p for p in _add_proofs(law, every, epsilon, exact=exact) if p is not None]
        add = min([rdp, *adding], key=_value)
        enough = add.value if adding else 0.0
        remove = rdp
        for proof in _remove_proofs(law, every, epsilon, add.value, exact=exact):
            if remove.value <= enough:  # the dear proofs only where they could matter
                break
            remove = remove if proof is None else min(remove, proof, key=_value)
        if adding or exact or remove is rdp:
            return TightDelta(add, remove, is_known=bool(adding) or not exact)
        last = grid_add_cone(
            law, epsilon, remove.value
        )  # dear, and in vain where the other direction has rdp alone
        return TightDelta(min(rdp, last or rdp, key=_value), remove, is_known=last is not None)


def _add_proofs(law: Law, every: Law | None, epsilon: float, *, exact: bool) -> Iterator[Certificate | None]:
    if every is not None:
        yield _every_coordinate(every, Direction.ADD, epsilon)
    if exact or reach(law) == 0.0:
        return
    at_kappa = profile(law, Direction.ADD, epsilon)
    if at_kappa.contour is not None:
        cone = add_cone(law, at_kappa.contour, epsilon, max(at_kappa.lower, _LEAST))
        again = add_cone_again(cone, at_kappa.contour, law)
        yield replace(cone, value=cone.value * (1 + over(law)), slack=over(law), again=again)


def _remove_proofs(
    law: Law, every: Law | None, epsilon: float, scale: float, *, exact: bool
) -> Iterator[Certificate | None]:
    renyi = _remove_renyi(law, epsilon)
    yield renyi
    if every is not None:
        yield _every_coordinate(every, Direction.REMOVE, epsilon)
    if exact:
        return
    scale, least = max(scale, _LEAST), renyi.value
    contour = _remove_contour(law, epsilon, scale)
    if contour is not None:
        cone = remove_cone(law, contour, epsilon, scale)
        if cone is not None:
            least = min(least, cone.value)
            yield replace(cone, again=remove_cone_again(cone, contour, law))
    if least > _infinitely_spread(law, epsilon) * (1 - 1e-9):
        twin = concave_twin(law, epsilon, scale)
        yield None if twin is None else replace(twin, again=concave_again(twin, law))


def _infinitely_spread(law: Law, epsilon: float) -> float:
    """Delta of infinitely spread vectors, below which no concave twin gets: a Gaussian's."""
    return math.exp(log_delta(law.gamma * math.sqrt(law.total_t), epsilon))


def _every_coordinate(every: Law, direction: Direction, epsilon: float) -> Certificate | None:
    found = profile(every, direction, epsilon)
    if not found.is_known:
        return None
    again = None if found.contour is None else profile_again(found.contour, every)
    return Certificate(
        Proof.PROFILE, found.upper, slack=found.slack, blur=found.blur, wobble=found.wobble, again=again
    )


def _remove_contour(law: Law, epsilon: float, scale: float) -> Contour | None:
    """One for the remove direction, left of where the cone's exponent lets it go."""
    room = remove_exponent(law, epsilon, scale) - 1.0
    if room <= 0.0 or epsilon + law.floor >= 0.0:
        return None
    return build_contour(law, Direction.REMOVE, epsilon, pole=POLE_ROOM * room)


def _value(certificate: Certificate) -> float:
    return certificate.value


def kappa_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> float:
    """A lower bound on the true delta: the profile at kappa*, the larger direction."""
    return _kappa(worst_law(mechanism, sigma), epsilon).lower


def _kappa(law: Law, epsilon: float) -> Profile:
    add = profile(law, Direction.ADD, epsilon)
    with np.errstate(all="ignore"):
        if _remove_renyi(law, epsilon).value <= add.lower:
            return add
        remove = profile(law, Direction.REMOVE, epsilon)
    return add if add.lower >= remove.lower else remove


def single_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> float:
    """A quick lower bound on the true delta: one coordinate at its clip in one round, and the rest 0."""
    t = (mechanism.linf_sensitivity / sigma) ** 2
    return max(single_round(mechanism.gamma, t, direction, epsilon) for direction in Direction)


def tight_epsilon(
    mechanism: Mechanism, sigma: float, delta: float, ceiling: float, *, near: float, with_lower: bool
) -> TightEpsilon:
    """Epsilon at ``delta``, at most ``ceiling``, which is proven; or just ``near`` where that will do.

    It will where the bound there is smooth, so that a search from the ceiling would end no higher.
    """
    delta = min(delta, LARGEST_DELTA)

    there = tight_delta(mechanism, sigma, near) if near < ceiling else None
    if there is not None and _log_ratio(there.upper, delta) + there.decisive.wobble <= 0.0:
        upper = near
    else:
        _, slope = _slopes(mechanism, sigma, ceiling)

        def excess(epsilon: float) -> float:
            return _settled(
                _log_ratio(tight_delta(mechanism, sigma, epsilon).upper, delta), _WIDTH / 4 * slope
            )

        upper = descend(excess, ceiling, 0.0, width=_WIDTH / 2, slope=slope)
        there = tight_delta(mechanism, sigma, upper)
    lower = 0.0
    if upper < ceiling and is_the_truth(mechanism, there):
        lower = upper
    elif with_lower:
        lower = kappa_epsilon(mechanism, sigma, delta, upper)
    return TightEpsilon(lower, upper, there.bound, there.order, there.is_known)


def kappa_epsilon(mechanism: Mechanism, sigma: float, delta: float, ceiling: float) -> float:
    """The epsilon that kappa* shows at ``delta``, a lower bound on the true one; 0 where it is not known."""
    if kappa_delta(mechanism, sigma, ceiling) == 0.0:  # out of reach
        return 0.0
    _, slope = _slopes(mechanism, sigma, ceiling)

    def excess(epsilon: float) -> float:
        return _settled(_log_ratio(kappa_delta(mechanism, sigma, epsilon), delta), _LOOSE / 2 * slope)

    return max(0.0, descend(excess, ceiling, 0.0, width=_LOOSE, slope=slope) * (1 - 2 * _LOOSE))


def tight_sigma(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """A sigma that suffices for every vector, at most ``ceiling``, which another bound has proven."""
    delta = min(delta, LARGEST_DELTA)

    slope, _ = _slopes(mechanism, ceiling, epsilon)

    def clear(wobble: float) -> float:
        return max(_WOBBLE, 2 * wobble if wobble <= _TOO_MUCH * slope else 0.0) + _WIDTH * slope

    def at(share: float) -> Certificate:
        return tight_delta(mechanism, ceiling * math.sqrt(share), epsilon).decisive

    @cache
    def excess(share: float) -> float:
        found = at(share)
        wobble = found.wobble if found.wobble <= _TOO_MUCH * slope else 0.0
        value = _log_ratio(found.value, delta) + clear(found.wobble)
        return _settled(value, max(_WIDTH / 2 * slope, wobble))

    def ahead(share: float) -> float | None:
        again = at(share).again
        if again is None:
            return None

        def value(there: float) -> float:
            estimate = again(epsilon, there / share)
            return _log_ratio(estimate, delta) + clear(0.0) + _WIDTH / 2 * slope

        return secant(value, share, -slope / 2 / share, width=1e-15)

    # log delta is nearly straight in sigma^2
    share = followed(excess, ahead, 1.0)
    if share is None:
        share = descend(excess, 1.0, _LEAST_SHARE, width=2 * _WIDTH, slope=slope / 2)
    return ceiling * math.sqrt(share)


def _settled(value: float, room: float) -> float:
    """``value`` + ``room``; 0, which ends a search, where ``value`` is at most 0 by less than 2 ``room``."""
    return value + room if not -2 * room <= value <= 0.0 else 0.0


def _slopes(mechanism: Mechanism, sigma: float, epsilon: float) -> tuple[float, float]:
    """About how steeply log delta falls in log sigma and in log epsilon: as steeply as its Renyi bound."""
    try:
        point = best_log_delta(renyi_curve(mechanism, Bound.RDP), sigma, epsilon)
    except NoAnswerError:  # out of reach
        return _SLOPE, _SLOPE
    slopes = 2 * point.moment.d_log_t, (point.order - 1) * epsilon
    return (max(slopes[0], 1.0), max(slopes[1], 1.0)) if math.isfinite(sum(slopes)) else (_SLOPE, _SLOPE)


def kappa_sigma(mechanism: Mechanism, epsilon: float, delta: float, ceiling: float) -> float:
    """The sigma that kappa* needs, at most ``ceiling``, which suffices; 0 where that is not known."""
    if delta > LARGEST_DELTA:
        return 0.0
    if is_exact(mechanism) and is_the_truth(mechanism, tight_delta(mechanism, ceiling, epsilon)):
        return ceiling

    if kappa_delta(mechanism, ceiling, epsilon) == 0.0:  # out of reach
        return 0.0
    slope, _ = _slopes(mechanism, ceiling, epsilon)

    @cache
    def excess(share: float) -> float:
        value = _log_ratio(kappa_delta(mechanism, ceiling * math.sqrt(share), epsilon), delta)
        return _settled(value, _LOOSE / 2 * slope)

    def ahead(share: float) -> float | None:
        again = _kappa_again(worst_law(mechanism, ceiling * math.sqrt(share)), epsilon)
        if again is None:
            return None

        def value(there: float) -> float:
            return _log_ratio(again(epsilon, there / share), delta) + _LOOSE / 2 * slope

        return secant(value, share, -slope / 2 / share, width=_LOOSE / 100)

    share = followed(excess, ahead, 1.0)
    floor = _DEEPEST**2
    if share is None:
        share = descend(excess, 1.0, floor, width=2 * _LOOSE, slope=slope / 2)
    return ceiling * math.sqrt(share) * (1 - 2 * _LOOSE) if share > floor else 0.0


def _kappa_again(law: Law, epsilon: float) -> Again | None:
    """How `kappa_delta` goes on."""
    found = _kappa(law, epsilon)
    return None if found.contour is None else profile_again(found.contour, law, lower=True)


def _log_ratio(value: float, delta: float) -> float:
    return math.log(value / delta) if value > 0.0 else -math.inf


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

    def again(epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        return _remove_renyi(law.scaled(noise, rounds), epsilon).value

    return replace(_renyi(Proof.RENYI_REMOVE, curve, 1.0, epsilon), again=again)
