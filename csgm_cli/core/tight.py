"""The tight accountant: delta between what kappa* shows and what is proven for every vector.

docs/theory.md, "The tight accountant". Where every coordinate can sit at its clip (L-inf-CSGM,
k = dim) the profile there is exact; elsewhere it is a lower bound, and the proven upper bound is the
larger of the two directions' best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from csgm_cli.core.certificate import Certificate, Proof, value_of
from csgm_cli.core.cones import (
    POLE_ROOM,
    add_cone,
    concave_twin,
    least_remove_cone,
    remove_cone,
    remove_exponent,
)
from csgm_cli.core.grid_cone import grid_add_cone
from csgm_cli.core.profile import Profile, over, profile, profile_from_above, reach
from csgm_cli.core.retrace import add_cone_again, concave_again, held_at, profile_again, remove_cone_again
from csgm_cli.errors import NoAnswerError
from csgm_cli.gaussian import exp_upwards, log_delta
from csgm_cli.model.mechanism import Bound, Mechanism
from csgm_cli.profile.contour import Contour, Direction, Law, build_contour
from csgm_cli.profile.single_round import single_round
from csgm_cli.renyi.conversion import best_log_delta
from csgm_cli.renyi.curves import Curve, renyi_curve
from csgm_cli.roots import lowest

#: Targets above this delta are met at this one: of what is closer to 1, float64 has too few digits.
LARGEST_DELTA = 1 - 1e-4
#: Bounds that exceed the profile by less than this, relative, are said to equal it.
_EQUAL = 1e-9
#: Deltas below this are not told apart from it where parameters are chosen, and logarithms taken.
LEAST_DELTA = 1e-320
#: The profile with all coordinates at the clip is not looked at where there are more than this times k.
_MANY_TIMES = 2.0
#: Bounds were seen to rise with epsilon from 8e-4 on. How far aside, relative, that is told, how many smaller
#: powers of two are looked at, how closely the least is sought, and while it is lower by how much, relative.
_MAY_RISE, _ASIDE, _POWERS, _CLOSE = 1e-4, 1e-6, 10, 1e-8
_REFINEMENTS, _CREEP, _NO_BOUND = 8, 1e-12, 1e300
_CONES = {Proof.REMOVE_CONE, Proof.CONCAVE}


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
    def bracketed(self) -> float:
        """How wide the bracket of a bound `profile` is, relative; 0 for the others."""
        return self.decisive.slack - self.decisive.raised if self.bound is Bound.PROFILE else 0.0

    @property
    def order(self) -> float | None:
        """The Renyi order of ``bound``, where it is a Renyi bound."""
        return self.decisive.order if self.bound is Bound.RDP else None


def worst_law(mechanism: Mechanism, sigma: float) -> Law:
    """The loss at kappa*: as many coordinates at the clip as fit, and the rest in one."""
    count = mechanism.coordinates
    t = (mechanism.linf_sensitivity / sigma) ** 2
    whole, rounds = float(math.floor(count)), float(mechanism.releases)
    parts = ((rounds * whole, t),) if whole == count else ((rounds * whole, t), (rounds, t * (count - whole)))
    return Law(mechanism.gamma, parts)


def _every_law(mechanism: Mechanism, sigma: float) -> Law | None:
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
    found = _proven_at(mechanism, sigma, epsilon)
    may_rise = found.decisive is found.remove and found.remove.value >= _MAY_RISE
    if epsilon == 0.0 or not may_rise or is_exact(mechanism):
        return found
    return replace(found, remove=_remove_from_below(mechanism, sigma, epsilon, found.remove))


def _remove_from_below(mechanism: Mechanism, sigma: float, epsilon: float, at: Certificate) -> Certificate:
    """The least of ``at`` and of what smaller epsilons prove, for delta falls with epsilon.

    The bound of a cone may rise with it, and where it ends that of the Renyi bound takes over.
    """
    law, looked = worst_law(mechanism, sigma), [(at, epsilon)]
    for there in _smaller(epsilon):
        if _infinitely_spread(law, there) >= at.value:  # no cone there is below
            break
        looked.append((_remove_at(mechanism, sigma, there), there))
        if {looked[-2][0].proof, looked[-1][0].proof} <= _CONES and looked[-1][0].value > looked[-2][0].value:
            break
    best, place = min(_refined(mechanism, sigma, looked), key=lambda each: each[0].value)
    if place == epsilon:
        return at
    return replace(best, epsilon=place, again=None if best.again is None else held_at(best.again, place))


_Looked = list[tuple[Certificate, float]]


def _refined(mechanism: Mechanism, sigma: float, looked: _Looked) -> _Looked:
    """With places between and beside them, where cones say that they are the least, while that helps.

    A cone found elsewhere has other parameters, for errors grow with epsilon.
    """
    looked, highest = list(looked), looked[0][1]
    ahead = [_lowest(proof, place, highest) for proof, place in looked if proof.proof in _CONES]
    for _ in range(_REFINEMENTS):
        expected, there = min(ahead, default=(math.inf, 0.0))
        if expected >= min(proof.value for proof, _ in looked) * (1 - _CREEP):
            break
        ahead.remove((expected, there))
        proof = _remove_at(mechanism, sigma, there)
        looked.append((proof, there))
        if proof.proof in _CONES:
            ahead.append(_lowest(proof, there, highest))
    return looked


def _lowest(cone: Certificate, place: float, highest: float) -> tuple[float, float]:
    """The least of a cone's bound with its parameters at ``place``, up to ``highest``, and where that is."""
    again = cone.again
    below = next(_smaller(place)) if place > 0.0 else 0.0
    if again is None or (place == highest and again(place * (1 - _ASIDE)) >= cone.value):
        return cone.value, place
    at, value = lowest(lambda there: math.log(min(again(there), _NO_BOUND)), below, highest, _CLOSE * highest)
    return math.exp(value), at


def _smaller(epsilon: float) -> Iterator[float]:
    """Powers of 2^(1/8) down to a half, then of two, the same for all epsilons between them, and 0.

    What errors leave of one good set of the lattice ends about 2^(1/4) above what they leave of the next.
    """
    power = math.ceil(8 * math.log2(epsilon)) - 1
    yield from (2.0 ** ((power - step) / 8) for step in range(8))
    power = math.ceil(math.log2(epsilon)) - 2
    yield from (2.0 ** (power - step) for step in range(_POWERS))
    yield 0.0


@lru_cache(maxsize=32)
def _remove_at(mechanism: Mechanism, sigma: float, epsilon: float) -> Certificate:
    """That of the remove direction; a search comes back to the same smaller epsilons."""
    return _soon_proven(mechanism, sigma, epsilon).remove


def _proven_at(mechanism: Mechanism, sigma: float, epsilon: float) -> TightDelta:
    """The least proof of each direction, for this very epsilon."""
    found, law = _soon_proven(mechanism, sigma, epsilon), worst_law(mechanism, sigma)
    if is_exact(mechanism) or found.add.value <= found.remove.value or _reached(law, epsilon):
        return found
    with np.errstate(all="ignore"):
        last = grid_add_cone(law, epsilon, found.remove.value)
    return found if last is None else replace(found, add=min(found.add, last, key=value_of), is_known=True)


def _soon_proven(mechanism: Mechanism, sigma: float, epsilon: float) -> TightDelta:
    """Without brackets of the add direction's cone, which are dear, where contours do not reach.

    They are in vain, which counts as known, where the remove direction has `rdp` alone.
    """
    with np.errstate(all="ignore"):  # what overflows is infinite, and then it is not the best proof
        rdp = _renyi(Proof.RDP, renyi_curve(mechanism, Bound.RDP), sigma, epsilon)
        law, every = worst_law(mechanism, sigma), _every_law(mechanism, sigma)
        exact = is_exact(mechanism)
        adding = [p for p in _add_proofs(law, every, epsilon, exact=exact) if p is not None]
        add = min([rdp, *adding], key=value_of)
        enough = add.value if adding and (exact or _reached(law, epsilon)) else 0.0
        remove = rdp
        for proof in _remove_proofs(law, every, epsilon, add.value, exact=exact):
            if remove.value <= enough:  # the dear proofs only where they could matter
                break
            remove = remove if proof is None else min(remove, proof, key=value_of)
        return TightDelta(add, remove, is_known=bool(adding) or (remove is rdp and not exact))


def _reached(law: Law, epsilon: float) -> Profile | None:
    """The add direction at kappa*, where a contour leads to it."""
    found = None if reach(law) == 0.0 else profile(law, Direction.ADD, epsilon)
    return None if found is None or found.contour is None else found


def _add_proofs(law: Law, every: Law | None, epsilon: float, *, exact: bool) -> Iterator[Certificate | None]:
    if every is not None:
        yield _every_coordinate(every, Direction.ADD, epsilon)
    at_kappa = None if exact else _reached(law, epsilon)
    if at_kappa is not None and at_kappa.contour is not None:
        cone = add_cone(law, at_kappa.contour, epsilon, max(at_kappa.lower, LEAST_DELTA))
        again = add_cone_again(cone, at_kappa.contour, law)
        value, slack, wobble = cone.value * (1 + over(law)), over(law), at_kappa.wobble  # the same sums
        yield replace(cone, value=value, slack=slack, wobble=wobble, again=again)


def _remove_proofs(
    law: Law, every: Law | None, epsilon: float, scale: float, *, exact: bool
) -> Iterator[Certificate | None]:
    renyi = remove_renyi(law, epsilon)
    yield renyi
    if every is not None:
        yield _every_coordinate(every, Direction.REMOVE, epsilon)
    if exact:
        return
    scale, least = max(scale, LEAST_DELTA), renyi.value
    contour = None
    if least_remove_cone(law, epsilon, least) < least:
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
    found = profile_from_above(every, direction, epsilon)
    if not found.is_known:
        return None
    again = None if found.contour is None else profile_again(found.contour, every)
    return Certificate(
        Proof.PROFILE,
        found.upper,
        slack=found.slack,
        raised=found.raised,
        blur=found.blur,
        wobble=found.wobble,
        again=again,
    )


def _remove_contour(law: Law, epsilon: float, scale: float) -> Contour | None:
    """One for the remove direction, left of where the cone's exponent lets it go."""
    room = remove_exponent(law, epsilon, scale) - 1.0
    if room <= 0.0 or epsilon + law.floor >= 0.0:
        return None
    return build_contour(law, Direction.REMOVE, epsilon, pole=POLE_ROOM * room)


def kappa_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> float:
    """A lower bound on the true delta: the profile at kappa*, the larger direction."""
    return kappa_profile(worst_law(mechanism, sigma), epsilon).lower


def kappa_profile(law: Law, epsilon: float) -> Profile:
    """The profile at kappa* in the direction that shows more."""
    return profile(law, kappa_direction(law, epsilon), epsilon)


def kappa_direction(law: Law, epsilon: float) -> Direction:
    """The direction in which the profile at kappa* shows more.

    No law is known in which that is remove by more than rounding: where both are brackets, which are dear,
    it is not asked. Either is a lower bound.
    """
    add = profile(law, Direction.ADD, epsilon)
    if add.is_known and add.contour is None:
        return Direction.ADD
    with np.errstate(all="ignore"):
        if remove_renyi(law, epsilon).value <= add.lower:
            return Direction.ADD
        remove = profile(law, Direction.REMOVE, epsilon)
    return Direction.ADD if add.lower >= remove.lower else Direction.REMOVE


def single_delta(mechanism: Mechanism, sigma: float, epsilon: float) -> float:
    """A quick lower bound on the true delta: one coordinate at its clip in one round, and the rest 0."""
    t = (mechanism.linf_sensitivity / sigma) ** 2
    return max(single_round(mechanism.gamma, t, direction, epsilon) for direction in Direction)


def _renyi(proof: Proof, curve: Curve, sigma: float, epsilon: float) -> Certificate:
    try:
        point = best_log_delta(curve, sigma, epsilon)
    except NoAnswerError:  # out of reach
        return Certificate(proof, 1.0)
    return Certificate(proof, exp_upwards(point.value + point.error), order=point.order)


def remove_renyi(law: Law, epsilon: float) -> Certificate:
    """Remove direction by D_a(Q||P) <= (a/2) g^2 total_t (e^t - 1)/t, that of a Gaussian."""
    curve = Curve(1.0, ((1.0, math.sqrt(law.growth)),), weak_triangle=False, integer_orders=False)

    def again(epsilon: float, noise: float = 1.0, rounds: float = 1.0) -> float:
        return remove_renyi(law.scaled(noise, rounds), epsilon).value

    return replace(_renyi(Proof.RENYI_REMOVE, curve, 1.0, epsilon), again=again)
