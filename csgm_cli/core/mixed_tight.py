"""The tight accountant on releases of different mechanisms, under add-remove.

docs/theory.md, "Mixed releases by the profile". The test functions of `cones`, with an exponent that
the good sets of all releases admit; what falls outside of these adds up. Exponents and r come from
fixed lattices, and losses are blurred by an amount that only the target decides: so bounds are the
least of ones that never fall when a release is added.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli import gaussian
from csgm_cli.core.certificate import Certificate, Proof
from csgm_cli.core.cones import (
    LEAST_POLE,
    POLE_ROOM,
    add_bounds,
    best_spread,
    concave_bound,
    concave_bounds,
    log_steepest,
    remove_bound,
)
from csgm_cli.core.good_sets import (
    EXPONENTS,
    FINE,
    exponents_below,
    first_small,
    least_over,
    log_outside_all,
    log_outside_all_below,
    narrowest,
    reach_of,
)
from csgm_cli.core.profile import USEFUL
from csgm_cli.core.retrace import of_epsilon
from csgm_cli.core.tight import TightDelta, tight_delta
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.mechanism import Bound
from csgm_cli.profile.contour import Contour, Direction, Law, build_contour
from csgm_cli.renyi.conversion import Converted, best_log_delta, log_delta_at
from csgm_cli.renyi.curves import Curve, renyi_curve
from csgm_cli.renyi.log_moment import mixed_log_moments
from csgm_cli.renyi.moment import summed

if TYPE_CHECKING:
    from csgm_cli.core.composition import Composition, Kind

#: Log-variances of the blur, relative to that of the Gaussian loss which just meets the target; the first
#: serves where contours end in time. The log(1/delta) from which on they grow with it.
_BLURS, _DEEP = (1e-6, 1e-5, 1e-4), 100.0
#: No Gaussian is sought for a smaller epsilon.
_LEAST_EPSILON = 1e-7
#: Contours with up to so many nodes fall without a blur.
_FEW_NODES = 2000
#: By how much a bound may exceed what it proves, relative: by rounding, and by so many times what a
#: blur does to the integrand at the saddle.
_SLACK, _FAR_MORE = 1e-7, 30.0
#: Shares of epsilon at which the remove direction is looked at.
_SHARES = (1.0, 0.98, 0.9, 0.7)
#: So many ranges of exponents are tried, those whose scores are not further apart than this; exponents
#: that no release admits are so up to this.
_MOST_RANGES, _SCORES_APART, _BEYOND_ALL = 2, 0.1, 512.0
#: What capped posteriors may add is delta times exp(-_CAP), times the exponent; and what is told from 0.
_CAP, _TINY = 5.0, 1e-300
#: Above this no concave twin is of use.
_LARGEST_EXPONENT = 1e3


def mixed_delta(releases: Composition, epsilon: float, delta: float) -> TightDelta:
    """What is proven of the delta at ``epsilon`` in both directions, over all vectors of all releases.

    ``delta`` is the one at stake: it sets the blur, and where searches begin. What one kind of release
    is proven to have by itself is not undercut, so that adding the others cannot seem to help.
    """
    with np.errstate(all="ignore"):  # what overflows is infinite, and then it is not the best proof
        nothing = Certificate(Proof.RDP, 1.0)
        line = _line(releases, Direction.ADD, epsilon, delta)
        add = None if line is None else _add(releases, line, epsilon, delta)
        if line is None or add is None:
            return TightDelta(nothing, nothing, is_known=False)
        remove = _remove(releases, epsilon, delta, line.contour.shift, add.value)
        found = TightDelta(add, remove, is_known=True)
        least = _most_alone(releases.kinds, epsilon, found.upper, 1.0 + line.contour.shift)
    if least <= found.upper:
        return found
    raised = replace(
        found.decisive, value=least, slack=least / found.upper * (1 + found.decisive.slack) - 1, again=None
    )
    return replace(found, add=raised) if found.decisive is add else replace(found, remove=raised)


@dataclass(frozen=True)
class _Line:
    """A contour of the releases' loss with a blur of log-variance ``blur``."""

    contour: Contour
    blur: float

    def certified(self, certificate: Certificate) -> Certificate:
        """With what the oracle must know: how much the blur may add, and whether it ends the integral."""
        slack = _SLACK + _FAR_MORE * self.blur * self.contour.shift * (self.contour.shift + 1) / 2
        falls_by_itself = self.contour.z.size <= _FEW_NODES
        return replace(certificate, slack=slack, blur=0.0 if falls_by_itself else self.blur)


@lru_cache(maxsize=16)
def _line(
    releases: Composition, direction: Direction, epsilon: float, delta: float, pole: float = math.inf
) -> _Line | None:
    """A contour with the first blur that ends it soon enough: as a rule what only the target decides."""
    mu = gaussian.mu_for(max(epsilon, _LEAST_EPSILON), delta)
    for blur in _BLURS:
        variance = blur * mu * mu * max(1.0, -math.log(delta) / _DEEP)
        contour = build_contour(releases.law.blurred(variance), direction, epsilon, pole)
        if contour is not None:
            return _Line(contour, variance)
    return None


# ---------------------------------------------------------------- add


def _add(releases: Composition, line: _Line, epsilon: float, delta: float) -> Certificate | None:
    if releases.is_exact:
        return _profile(line, epsilon)
    contour, laws = line.contour, [kind.law for kind in releases.bound]
    plain = best_spread(contour, epsilon, 0.0, 0.0, None)

    def bound(exponent: float) -> Certificate | None:
        outside = log_outside_all(laws, exponent)
        if outside == math.inf:
            return None
        return best_spread(contour, epsilon, exponent, math.exp(outside), None)

    exponents = exponents_below(min(kind.largest_exponent for kind in releases.bound))
    first = first_small(exponents, lambda b: log_outside_all(laws, b) + math.log(max(b, 1.0)), delta)
    best = least_over(exponents, first, bound)
    cone = plain if best is None or plain.value <= best.value else best
    exponent, spread = cone.exponent, np.array([cone.spread])
    assert exponent is not None
    per_weight = math.exp(log_outside_all(laws, exponent)) if exponent > 0.0 else 0.0

    def again(there: float) -> float:
        return float(add_bounds(contour, there, exponent, per_weight, spread)[0])

    return replace(line.certified(cone), again=of_epsilon(again))


def _profile(line: _Line, epsilon: float) -> Certificate | None:
    """The hockey-stick itself."""
    contour, ones = line.contour, np.ones_like(line.contour.z)
    value, error = contour.integral(-epsilon, ones)
    if not error < USEFUL * value:
        return None
    again = of_epsilon(lambda there: sum(contour.integral(-there, ones)))
    return replace(line.certified(Certificate(Proof.PROFILE, min(1.0, value + error))), again=again)


# ---------------------------------------------------------------- remove


def _remove(releases: Composition, epsilon: float, delta: float, near: float, enough: float) -> Certificate:
    """The best proof, or the first that is not above ``enough``; ``near`` is about where saddles are."""
    best = _remove_renyi(releases, epsilon)
    if best.value <= enough:
        return best
    for found in _dear_removals(releases, epsilon, delta, near):
        if found is not None and found.value < best.value:
            best = found
        if best.value <= enough:
            break
    return best


def _dear_removals(
    releases: Composition, epsilon: float, delta: float, near: float
) -> Iterator[Certificate | None]:
    """The profile, or cones over the ranges of exponents that one more gamma admits than the range above.

    Releases that do not admit an exponent are capped, see `Kind.capped`.
    """
    if releases.is_exact:
        yield _remove_profile(releases, epsilon, delta)
        return
    for exponents in _promising(releases.bound, epsilon, delta, near):
        yield _remove_cone(releases, epsilon, delta, exponents)
    yield _concave_twin(releases, epsilon, delta)


def _remove_renyi(releases: Composition, epsilon: float) -> Certificate:
    """By D_a(Q||P) <= (a/2) growth of every kind, together that of one Gaussian."""
    curve = Curve(1.0, ((1.0, math.sqrt(releases.growth)),), weak_triangle=False, integer_orders=False)
    try:
        point = best_log_delta(curve, 1.0, epsilon)
    except NoAnswerError:  # out of reach
        return Certificate(Proof.RENYI_REMOVE, 1.0)
    again = of_epsilon(lambda there: _remove_renyi(releases, there).value)
    return Certificate(Proof.RENYI_REMOVE, _delta_of(point), order=point.order, again=again)


def _promising(kinds: Sequence[Kind], epsilon: float, delta: float, near: float) -> list[list[float]]:
    """The ranges of exponents that seem best at a saddle ``near``; each caps a gamma more than the one below.

    By what the test function costs there, and what capped releases have in log-variance too much.
    """
    tops = sorted({kind.largest_exponent for kind in kinds})
    reach = _cap_reach(kinds, epsilon, delta)
    scored = []
    for low, top in zip([0.0, *tops], [*tops, _BEYOND_ALL], strict=True):
        exponents = [b for b in exponents_below(top) if b > low]
        capped = [kind for kind in kinds if kind.largest_exponent < top]
        narrow = [kind for kind in kinds if kind.largest_exponent == top]
        power = min([kind.exponent_at(reach) for kind in narrow], default=_BEYOND_ALL)
        if not exponents or power - 1.0 <= 1.05 * near:
            continue
        excess = math.fsum([kind.capped(reach) - kind.spread_variance for kind in capped])
        cost = (near + 1) * math.log1p(-1 / power) + math.log(power / (power - 1 - near))
        scored.append((cost + near * (near + 1) / 2 * excess, exponents))
    scored.sort(key=lambda pair: pair[0])
    return [exponents for score, exponents in scored[:_MOST_RANGES] if score < scored[0][0] + _SCORES_APART]


def _cap_reach(kinds: Sequence[Kind], epsilon: float, delta: float) -> float:
    """How many deviations up posteriors are capped, so that what is above hardly matters."""
    total = math.fsum([kind.law.total_t for kind in kinds])
    return math.sqrt(2 * (epsilon - math.log(delta) + _CAP + math.log1p(total)))


def _remove_profile(releases: Composition, epsilon: float, delta: float) -> Certificate | None:
    """The hockey-stick itself, or at a smaller epsilon where it is next to nothing and hard to compute."""
    if releases.gaussian_t == 0.0 and epsilon + releases.law.floor >= 0.0:
        return Certificate(Proof.PROFILE, 0.0)
    for share in _SHARES:
        line = _line(releases, Direction.REMOVE, share * epsilon, delta)
        if line is not None and (found := _profile(line, share * epsilon)) is not None:
            return found if share == 1.0 else replace(found, slack=math.inf)
    return None


def _remove_cone(
    releases: Composition, epsilon: float, delta: float, exponents: Sequence[float]
) -> Certificate | None:
    """The best over exponents that all the same releases admit."""
    capped = [kind for kind in releases.bound if kind.largest_exponent < exponents[-1]]
    laws = [kind.law for kind in releases.bound if kind not in capped]
    reach = _cap_reach(capped, epsilon, delta)
    beyond = math.fsum([k.law.total_t for k in capped]) * math.erfc(reach / math.sqrt(2)) / 4

    def log_error(exponent: float) -> float:
        outside = log_outside_all(laws, exponent)
        return outside if outside == math.inf else math.log(math.exp(outside) + beyond + _TINY)

    roomy = sum(exponent >= 1.0 + LEAST_POLE for exponent in exponents)  # largest first
    first = min(first_small(exponents, lambda b: log_error(b) + math.log(b) + epsilon, delta), roomy - 1)
    if first < 0 or log_error(exponents[first]) + epsilon > 0.0:
        return None
    together = releases.with_capped(capped, reach)
    line = _line(together, Direction.REMOVE, epsilon, delta, pole=POLE_ROOM * (exponents[first] - 1.0))
    if line is None:
        return None

    def bound(exponent: float) -> Certificate | None:
        error = log_error(exponent)
        if error == math.inf or exponent - 1.0 < line.contour.least_pole:
            return None
        return remove_bound(line.contour, epsilon, exponent, error, reach if capped else None)

    best = least_over(exponents, first, bound)
    if best is None:
        return None
    chosen = best.exponent
    assert chosen is not None

    def again(there: float) -> float:
        found = remove_bound(line.contour, there, chosen, log_error(chosen), None)
        return math.inf if found is None else found.value

    return replace(line.certified(best), again=of_epsilon(again))


def _concave_twin(releases: Composition, epsilon: float, delta: float) -> Certificate | None:
    laws, growth = [kind.law for kind in releases.kinds], releases.growth
    variance = math.fsum([kind.spread_variance for kind in releases.kinds]) + releases.gaussian_t
    if math.exp(gaussian.log_delta(math.sqrt(variance), epsilon)) >= delta * math.e:
        return None  # no twin gets below that
    lowest = math.ceil(FINE * math.log2(max(kind.largest_exponent for kind in releases.kinds)))
    exponents = [2.0 ** (j / FINE) for j in range(lowest, lowest + EXPONENTS)]

    def log_error(exponent: float) -> float:
        outside = log_outside_all_below(laws, exponent)
        return outside + max(0.0, exponent * (exponent - 1) / 2) * growth

    def bound(exponent: float) -> Certificate | None:
        error = log_error(exponent) if exponent <= _LARGEST_EXPONENT else math.inf
        return None if error == math.inf else concave_bound(variance, epsilon, exponent, error, None)

    def near_enough(law: Law, exponent: float) -> bool:
        q = reach_of(law, narrowest(law.gamma, exponent))
        error = math.log(law.total_t / law.gamma) + log_steepest(epsilon, exponent)
        return q * abs(q) / 2 >= error - math.log(delta) + 10.0

    enough = (j for j, b in enumerate(exponents) if all(near_enough(law, b) for law in laws))
    twin = least_over(exponents, next(enough, len(exponents) - 1), bound)
    if twin is None:
        return None
    exponent, spread = twin.exponent, np.array([twin.spread])
    assert exponent is not None

    def again(there: float) -> float:
        return float(concave_bounds(variance, there, exponent, log_error(exponent), spread)[0])

    return replace(twin, again=of_epsilon(again))


# ---------------------------------------------------------------- one kind alone, and at kappa*


def _most_alone(kinds: Sequence[Kind], epsilon: float, enough: float, order: float) -> float:
    """The largest delta of one kind of release by itself; only those that may be above ``enough`` are asked.

    Few may: Renyi's bound at any ``order`` tells most that are not.
    """
    moments = iter(mixed_log_moments(order, [(k.law.gamma, t) for k in kinds for _, t in k.law.parts]))
    found = enough
    for kind in kinds:
        moment = summed([(count, next(moments)) for count, _ in kind.law.parts])
        if _delta_of(log_delta_at(order, moment, epsilon)) <= found:
            continue
        with contextlib.suppress(NoAnswerError):
            if (
                _delta_of(best_log_delta(renyi_curve(kind.mechanism, Bound.RDP), kind.sigma, epsilon))
                <= found
            ):
                continue
        revealed = math.exp(gaussian.log_delta(math.sqrt(kind.law.total_t), epsilon))
        if revealed > found:
            found = max(found, min(revealed, tight_delta(kind.mechanism, kind.sigma, epsilon).upper))
    return found


def _delta_of(point: Converted) -> float:
    return gaussian.exp_upwards(point.value + point.error)


def kappa_delta(releases: Composition, direction: Direction, epsilon: float, delta: float) -> float:
    """A lower bound on the true delta: the profile where each release has its kappa*, in one direction."""
    again = kappa_again(releases, direction, epsilon, delta)
    return 0.0 if again is None else again(epsilon)


def kappa_again(
    releases: Composition, direction: Direction, epsilon: float, delta: float
) -> Callable[[float], float] | None:
    """`kappa_delta`, and about what it is at other epsilons; None where it is not known.

    The profile is at least A(v) - (A(2v) - A(v))/(sqrt(2) e^(-v/8) - 1), A(v) with a blur v.
    """
    line = _line(releases, direction, epsilon, delta)
    if line is None:
        return None
    contour, blur = line.contour, line.blur
    gain = math.sqrt(2.0) * math.exp(-blur / 8) - 1

    def shown(there: float) -> float:
        once, error = contour.integral(-there, np.ones_like(contour.z))
        twice, further = contour.integral(-there, np.exp(contour.z * (contour.z + 1) * (blur / 2)))
        lowest = once - error - contour.aliases
        return max(0.0, lowest - (twice + further - lowest) / gain)

    return shown


def steepness(releases: Composition, epsilon: float, delta: float) -> float | None:
    """About how steeply log delta falls in epsilon; None where that is not known."""
    line = _line(releases, Direction.ADD, epsilon, delta)
    return None if line is None else line.contour.shift
