"""Epsilon and delta of one or several releases, under each accountant.

Every number is an upper bound. Under composition log-moments add at every order, and so do the squared mus
of Gaussian releases (docs/theory.md, "Mixed releases").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from csgm_cli import gaussian
from csgm_cli.bounds.worst_case import Release, is_replace_one, paper_law, total_mu, worst_case_law
from csgm_cli.errors import NoAnswerError, UsageError, VerificationError
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.model.mechanism import Accountant, Bound

if TYPE_CHECKING:
    from csgm_cli.bounds.by_order import ByOrder
    from csgm_cli.model.mechanism import Mechanism
    from csgm_cli.renyi.law import Law

#: Relative float64 error of an exact Gaussian epsilon above which mpmath recomputes it; number of digits.
_TRUST, _ORACLE_DIGITS = 4e-10, 30
#: Smaller deltas are reported as this value, the smallest that csgm accepts.
DELTA_FLOOR = 1e-300
#: A larger target delta counts as this one: closer to 1, log delta and orders close to 1 lose their digits.
LARGEST_TARGET_DELTA = 0.9
#: Relative distance of a closed form from the lower bound (delta: factor) above which csgm warns.
LOOSE, LOOSE_DELTA = 0.05, 5.0
#: Relative amount by which rounding and brackets may put a lower bound above an upper one.
_CONTRADICTION = 1e-5


_NAMED_BOUNDS = {
    Proof.RENYI: Bound.RDP,
    Proof.PROFILE: Bound.PROFILE,
    Proof.MASK_REVEALED: Bound.MASK_REVEALED,
}


@dataclass(frozen=True)
class Answer:
    """The answer of an accountant: an epsilon, a delta, or a sigma, depending on the question.

    ``certificates`` prove it: one for each direction, or one for both. ``lower``: a lower bound for every
    analysis; None if none was found, or if the accountant does not compute one. ``high_precision``: float64
    was not accurate enough, so the value comes from mpmath. ``fell_back``: the privacy profile could not be
    computed, and the closed form may be further above the lower bound than `LOOSE` or `LOOSE_DELTA`.
    """

    value: float
    bound: Bound
    certificates: tuple[Certificate, ...]
    lower: float | None = None
    high_precision: bool = False
    fell_back: bool = False

    @property
    def decisive(self) -> Certificate:
        """The certificate with the largest delta."""
        return max(self.certificates, key=lambda certificate: certificate.log_delta)

    @property
    def order(self) -> float | None:
        """The order of a Renyi or matched bound."""
        return self.decisive.order

    @property
    def proof(self) -> Proof:
        """The theorem behind the value."""
        return Proof.RENYI if self.decisive.proof is Proof.RENYI_REMOVE else self.decisive.proof


# ---------------------------------------------------------------- the bounds of each accountant


def bounds_of(releases: Sequence[Release], accountant: Accountant) -> tuple[Bound, ...]:
    """The closed-form bounds that ``accountant`` minimises over; see also `uses_profile`.

    Raises:
        UsageError: the accountant has no bound for these releases.
    """
    check_accountant([mechanism for mechanism, _ in releases], accountant)
    if accountant not in (Accountant.AUTO, Accountant.TIGHT):
        return (Bound(accountant.value),)
    if all(mechanism.is_gaussian for mechanism, _ in releases):
        return (Bound.EXACT,)
    if any(mechanism.sampling_rate < 1.0 for mechanism, _ in releases):
        return (Bound.RDP,)
    replaced = is_replace_one(releases)
    return (Bound.MASK_REVEALED, Bound.RDP) if replaced else (Bound.MASK_REVEALED,)


def check_accountant(mechanisms: Sequence[Mechanism], accountant: Accountant) -> None:
    """Raise ``UsageError`` if the accountant has no bound for one of the mechanisms."""
    sampled = next((m for m in mechanisms if m.sampling_rate < 1.0), None)
    if accountant in (Accountant.EXACT, Accountant.PAPER) and sampled is not None:
        raise UsageError(
            "no-sampled-accountant",
            f"accountant {accountant} has no bound with client sampling, got sampling rate"
            f" {sampled.sampling_rate!r}",
            "use auto, tight or rdp",
        )
    refused = next((m for m in mechanisms if not m.is_gaussian), None)
    if accountant is Accountant.EXACT and refused is not None:
        raise UsageError(
            "no-exact-accountant",
            f"accountant exact needs the gaussian mechanism or gamma 1, got {refused.name} with gamma"
            f" {refused.gamma!r}",
            "use auto, tight or rdp",
        )


def uses_profile(releases: Sequence[Release], accountant: Accountant) -> bool:
    """Whether the accountant also uses the tight bounds (under replace-one, their triangle inequality)."""
    tight = accountant in (Accountant.AUTO, Accountant.TIGHT)
    return tight and not all(mechanism.is_gaussian for mechanism, _ in releases)


def resolved(accountant: Accountant, bound: Bound) -> Accountant:
    """The accountant that by itself gives the answer that ``auto`` obtained from ``bound``."""
    if accountant is not Accountant.AUTO or bound is Bound.MASK_REVEALED:
        return accountant
    return Accountant.EXACT if bound is Bound.EXACT else Accountant.TIGHT


# ---------------------------------------------------------------- delta


def spent_delta(releases: Sequence[Release], accountant: Accountant, epsilon: float) -> Answer:
    """The smallest delta, at least `DELTA_FLOOR`, that the accountant's bounds prove at ``epsilon`` >= 0."""
    found = [closed_delta(releases, bound, epsilon) for bound in bounds_of(releases, accountant)]
    if uses_profile(releases, accountant):
        found.append(_profile_delta(releases, epsilon))
    best = min(found, key=lambda spent: spent.decisive.log_delta)
    if not uses_profile(releases, accountant):
        return with_exact_lower(best, releases)
    return with_lower(best, releases, _lower_delta(releases, epsilon), LOOSE_DELTA)


def log_delta_of(
    releases: Sequence[Release], accountant: Accountant, epsilon: float, enough: float = -math.inf
) -> float:
    """Log of `spent_delta`, without a floor; only closed forms if one of them is at most ``enough``."""
    found = [
        _closed_certificate(releases, bound, epsilon).log_delta for bound in bounds_of(releases, accountant)
    ]
    if min(found) > enough and uses_profile(releases, accountant):
        found.append(_profile_delta(releases, epsilon).decisive.log_delta)
    return min(found)


def closed_delta(
    releases: Sequence[Release], bound: Bound, epsilon: float, order: float | None = None
) -> Answer:
    """The delta that one closed-form bound proves at ``epsilon``; by default at the best order."""
    certificate = _closed_certificate(releases, bound, epsilon, order)
    return Answer(_clamped_delta(certificate), bound, (certificate,))


def _closed_certificate(
    releases: Sequence[Release], bound: Bound, epsilon: float, order: float | None = None
) -> Certificate:
    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        log_delta = gaussian.log_delta(total_mu(releases), epsilon)
        return Certificate(Proof(bound.value), None, epsilon, log_delta)
    return replace(renyi_method(releases, bound), order=order)(law_of(bound, releases), epsilon)


def _profile_delta(releases: Sequence[Release], epsilon: float) -> Answer:
    from csgm_cli.bounds.tight import tight
    from csgm_cli.bounds.triangle import triangle

    law = worst_case_law(releases)
    if is_replace_one(releases):
        certificates: tuple[Certificate, ...] = (triangle(law, epsilon),)
    else:
        certificates = tuple(tight(law, epsilon).values())
    found = by_certificates(0.0, certificates)
    return replace(found, value=_clamped_delta(found.decisive))


def bound_of(certificate: Certificate) -> Bound:
    """The name of the bound proven by a certificate of the tight accountant."""
    if certificate.proof is Proof.TRIANGLE:
        return Bound.REPLACE_ONE
    if certificate.proof in _NAMED_BOUNDS:
        return _NAMED_BOUNDS[certificate.proof]
    return Bound.TIGHT_ADD if certificate.direction is Direction.ADD else Bound.TIGHT_REMOVE


def _lower_delta(releases: Sequence[Release], epsilon: float) -> float:
    from csgm_cli.bounds.lower import lower_log_delta

    found = lower_log_delta(releases, epsilon)
    return math.exp(found) if found > math.log(DELTA_FLOOR) else 0.0


def _clamped_delta(certificate: Certificate) -> float:
    return min(1.0, max(DELTA_FLOOR, certificate.delta))


def renyi_method(releases: Sequence[Release], bound: Bound) -> ByOrder:
    """The Renyi bound of these releases as a method."""
    from csgm_cli.bounds.by_order import RENYI

    return replace(RENYI, replace_one=is_replace_one(releases), integer_orders=bound is Bound.PAPER)


def law_of(bound: Bound, releases: Sequence[Release]) -> Law:
    """The law of the releases at the worst-case vector, or in the paper's form."""
    return (paper_law if bound is Bound.PAPER else worst_case_law)(releases)


# ---------------------------------------------------------------- epsilon


def spent_epsilon(
    releases: Sequence[Release], accountant: Accountant, delta: float, *, needs_lower: bool = True
) -> Answer:
    """The smallest epsilon >= 0 that the accountant's bounds prove at ``delta``.

    Raises:
        NoAnswerError: the privacy loss is too large to compute.
    """
    given, delta = delta, min(delta, LARGEST_TARGET_DELTA)
    found = [_closed_epsilon(releases, bound, delta) for bound in bounds_of(releases, accountant)]
    if not uses_profile(releases, accountant):
        return with_exact_lower(_finite(found), releases) if delta == given else _finite(found)
    profiled, lower = _profile_epsilon(releases, delta)
    best = _finite([*found, *([profiled] if profiled else [])])
    if not needs_lower:
        return best
    return with_lower(best, releases, lower if delta == given else 0.0, 1 + LOOSE)


def _finite(found: Sequence[Answer]) -> Answer:
    best = min(found, key=lambda spent: spent.value)
    if math.isinf(best.value):
        raise NoAnswerError("out-of-reach", "the privacy loss at this noise is beyond what can be computed")
    return best


def _closed_epsilon(releases: Sequence[Release], bound: Bound, delta: float) -> Answer:
    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        return _gaussian_epsilon(releases, bound, delta)
    from csgm_cli.renyi.conversion import best_epsilon

    method = renyi_method(releases, bound)
    curve, near = method.curve(law_of(bound, releases)), math.exp(_near_epsilon(releases, delta))
    epsilon, order = best_epsilon(curve, method.convert, math.log(delta), near)
    if epsilon == 0.0:
        return Answer(0.0, bound, (_closed_certificate(releases, bound, 0.0),))
    certificate = Certificate(Proof.RENYI, None, epsilon, math.log(delta), order=order)
    return Answer(epsilon, bound, (certificate,))


def _gaussian_epsilon(releases: Sequence[Release], bound: Bound, delta: float) -> Answer:
    mu = total_mu(releases)
    epsilon, precise = gaussian.epsilon_for(mu, delta), False
    if epsilon > 0.0 and 2 * gaussian.SAFETY * gaussian.elasticity(mu, epsilon) > _TRUST:
        from csgm_cli.verify.renyi import epsilon as precise_epsilon

        # A tiny epsilon at a large delta is sensitive to the last digits of mu.
        value = float(precise_epsilon(releases, delta, None, bound, _ORACLE_DIGITS))
        epsilon, precise = (math.nextafter(value, math.inf) if value > 0.0 else 0.0), True
    if epsilon == 0.0:
        return Answer(0.0, bound, (_closed_certificate(releases, bound, 0.0),), high_precision=precise)
    certificate = Certificate(Proof(bound.value), None, epsilon, math.log(delta))
    return Answer(epsilon, bound, (certificate,), high_precision=precise)


def _profile_epsilon(releases: Sequence[Release], delta: float) -> tuple[Answer | None, float]:
    """The tight answer (None if no epsilon in range proves delta), and the lower bound on epsilon."""
    from csgm_cli.accounting.paths import epsilon_path
    from csgm_cli.accounting.solve import solve

    path = epsilon_path(releases, math.log(delta))
    try:
        found = solve(path, _near_epsilon(releases, delta))
    except NoAnswerError:
        return None, 0.0
    if found.proven <= path.floor:
        at_zero = _profile_delta(releases, 0.0)
        if at_zero.decisive.log_delta <= math.log(delta):
            return replace(at_zero, value=0.0), 0.0
    proven = by_certificates(math.exp(found.proven), found.certificates)
    return proven, math.exp(found.refuted)


def by_certificates(value: float, certificates: tuple[Certificate, ...]) -> Answer:
    """The answer that certificates of both directions prove, named after the one that decides."""
    decisive = max(certificates, key=lambda certificate: certificate.log_delta)
    return Answer(value, bound_of(decisive), certificates)


def _near_epsilon(releases: Sequence[Release], delta: float) -> float:
    """Initial guess at log epsilon, from the Gaussian limit of spread vectors."""
    mu = math.sqrt(worst_case_law(releases).spread_variance) * (2.0 if is_replace_one(releases) else 1.0)
    return math.log(max(gaussian.epsilon_for(min(max(mu, 1e-9), 1e4), delta), 1e-6))


def _are_attained(releases: Sequence[Release]) -> bool:
    """Whether some client attains the sensitivities of all releases; else lower bounds prove nothing."""
    return all(mechanism.is_attained for mechanism, _ in releases)


def with_exact_lower(best: Answer, releases: Sequence[Release]) -> Answer:
    """With the answer itself as the lower bound if the profile is exact."""
    is_lower = best.bound is Bound.EXACT and _are_attained(releases)
    return replace(best, lower=best.value) if is_lower else best


def with_lower(best: Answer, releases: Sequence[Release], lower: float, waste: float) -> Answer:
    """With a lower bound, 0 if none was found; ``waste``: the factor above it at which csgm warns."""
    if not _are_attained(releases):
        return best
    if lower > (1 + _CONTRADICTION) * best.value:
        raise VerificationError(
            "verification-failed",
            f"the lower bound {lower!r} is above the upper bound {best.value!r}",
            "run csgm selftest and report this: no answer is given",
        )
    lower = min(lower, best.value)
    proofs = {part.proof for part in (best.decisive, *best.decisive.parts)}
    exact = proofs & {Proof.PROFILE, Proof.CONCENTRATED} or best.value in (0.0, DELTA_FLOOR)
    loose = not exact and best.value > waste * lower
    known = lower if lower > 0.0 or best.value in (0.0, DELTA_FLOOR) else None
    return replace(best, lower=known, fell_back=loose)
