"""What a given noise guarantees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.accounting import accountants
from csgm_cli.accounting.accountants import (
    DELTA_FLOOR,
    LOOSE,
    LOOSE_DELTA,
    Answer,
    resolved,
    spent_delta,
    spent_epsilon,
)
from csgm_cli.errors import CsgmError, UsageError
from csgm_cli.jobs.statement import assumptions_of, statement
from csgm_cli.jobs.utility import error_parts, last_row_parts, mean_noise_std, noise_std_per_row
from csgm_cli.model.certificate import Proof
from csgm_cli.model.mechanism import (
    Accountant,
    AccountantLike,
    Bound,
    Conversion,
    Mechanism,
    Target,
    accountant_named,
)
from csgm_cli.model.result import Account, Guarantee, Notice, Verification, one_round_notice
from csgm_cli.ranges import EPSILON_OR_ZERO, check_range, check_ranges, check_type
from csgm_cli.rounding import round_up

if TYPE_CHECKING:
    from csgm_cli.bounds.worst_case import Release

#: Relative increase of a sensitivity up to which columns of C count as orthogonal: rounding.
_ORTHOGONAL = 1e-6
#: An epsilon below the first is rare; one above the second is typical, or a sign of too little noise.
_SMALL, _USUAL = 0.5, 2.0


def account_epsilon(
    mechanism: Mechanism,
    sigma: float,
    deltas: Sequence[float],
    accountant: AccountantLike = Accountant.AUTO,
    *,
    verify: bool = False,
) -> Account:
    """The epsilon that noise ``sigma`` proves at each delta in [1e-300, 1).

    ``sigma`` (units of ``l2_norm``, which times 1e-15 to 1e18 it must be) is the std of the noise on each
    coordinate of the sum. ``verify`` recomputes each epsilon by independent code.

    Raises:
        UsageError: a value out of range, no delta, or an accountant without a bound for the mechanism.
        NoAnswerError: the loss is beyond what can be computed, or verification fails.
    """
    accountant = accountant_named(accountant)
    sigma, noise_multiplier = _checked_noise(mechanism, sigma)
    check_accountant([mechanism], accountant)
    check_type("verify", verify, bool)
    asked = check_ranges("deltas", deltas, "delta")
    if not asked:
        raise UsageError("missing-delta", "no delta was given")
    found = [epsilon_guarantee(mechanism, sigma, delta, accountant, verify=verify) for delta in asked]
    return _account(mechanism, sigma, noise_multiplier, accountant, found)


def account_delta(
    mechanism: Mechanism,
    sigma: float,
    epsilon: float,
    accountant: AccountantLike = Accountant.AUTO,
    *,
    verify: bool = False,
) -> Account:
    """The delta that noise ``sigma`` proves at ``epsilon`` in [0, 1e4]; arguments as in `account_epsilon`.

    Deltas below 1e-300 are given as that, with a notice.

    Raises:
        UsageError: a value out of range, or an accountant without a bound for the mechanism.
        NoAnswerError: the loss is beyond what can be computed, or verification fails.
    """
    accountant = accountant_named(accountant)
    sigma, noise_multiplier = _checked_noise(mechanism, sigma)
    check_accountant([mechanism], accountant)
    check_type("verify", verify, bool)
    epsilon = check_range("epsilon", epsilon, EPSILON_OR_ZERO)
    spent = spent_delta([(mechanism, sigma)], accountant, epsilon)
    notices = notices_of(spent, asks_delta=True)
    if spent.value == DELTA_FLOOR:
        notices += (Notice("delta-floor", f"delta is below {DELTA_FLOOR:g} and reported as {DELTA_FLOOR:g}"),)
    if spent.value == 1.0:
        notices += (Notice("no-guarantee", "delta is 1: this noise proves nothing at this epsilon"),)
    verified = verified_by([(mechanism, sigma)], spent, epsilon, spent.value) if verify else None
    guarantee = replace(_guarantee(mechanism, epsilon, spent.value, spent, verified), notices=notices)
    return _account(mechanism, sigma, noise_multiplier, accountant, [guarantee])


def check_accountant(mechanisms: Iterable[Mechanism], accountant: Accountant) -> None:
    """Raise ``UsageError`` if the accountant has no bound for one of the mechanisms."""
    accountants.check_accountant(list(mechanisms), accountant)


def epsilon_guarantee(
    mechanism: Mechanism, sigma: float, delta: float, accountant: Accountant, *, verify: bool = False
) -> Guarantee:
    """The guarantee at one delta, by `spent_epsilon`; the values are taken as checked."""
    spent = spent_epsilon([(mechanism, sigma)], accountant, delta)
    verified = verified_by([(mechanism, sigma)], spent, spent.value, delta) if verify else None
    return _guarantee(mechanism, spent.value, delta, spent, verified)


def target_guarantee(
    mechanism: Mechanism, sigma: float, target: Target, spent: Answer, *, verify: bool
) -> Guarantee:
    """The guarantee of a calibrated noise; the caller sets ``lower_bound``."""
    releases = [(mechanism, sigma)]
    verified = verified_by(releases, spent, target.epsilon, target.delta) if verify else None
    return _guarantee(mechanism, target.epsilon, target.delta, spent, verified)


def verified_by(releases: Sequence[Release], spent: Answer, epsilon: float, delta: float) -> Verification:
    """The certificates recomputed by independent code.

    Raises:
        NoAnswerError: they do not hold, or the recomputation does not converge.
    """
    from csgm_cli.verify.dispatch import verify

    return verify(releases, spent.certificates, delta, epsilon, paper=spent.bound is Bound.PAPER)


def _guarantee(
    mechanism: Mechanism, epsilon: float, delta: float, spent: Answer, verified: Verification | None
) -> Guarantee:
    return Guarantee(
        epsilon,
        delta,
        spent.order,
        spent.bound,
        conversion_of(spent.proof),
        assumptions_of(mechanism, spent.bound),
        lower_bound=spent.lower,
        verified=verified,
        notices=notices_of(spent),
        proof=spent.proof,
    )


def mistaken_for_effective(
    mechanism: Mechanism,
    sigma: float,
    found: Guarantee,
    accountant: Accountant,
    limit: float | None = None,
) -> tuple[Notice, ...]:
    """A hint that the noise multiplier may be the effective one: it makes epsilon unusually small.

    ``found``: what ``sigma`` guarantees by ``accountant`` at a given delta. ``limit``: on epsilon, if any. At
    norm ratio 1 the mechanism is DP-SGD, which has no effective noise multiplier.
    """
    if mechanism.sends_all or mechanism.geometry.norm_ratio == 1.0 or found.epsilon >= _SMALL:
        return ()
    given = sigma / mechanism.geometry.l2_norm
    try:
        [other] = account_epsilon(mechanism, mechanism.gamma * sigma, [found.delta], accountant).guarantees
    except CsgmError:  # a hint is not worth an error
        return ()
    if other.epsilon < min(_USUAL, math.inf if limit is None else limit / 2):
        return ()
    said = (
        f"if {given:g} is the effective noise multiplier, sigma / (gamma l2_norm), pass"
        f" {given * mechanism.gamma:g}; epsilon is then {other.epsilon:.3g}, not {found.epsilon:.3g}"
    )
    return (Notice("perhaps-effective", said),)


def _checked_noise(mechanism: Mechanism, sigma: float) -> tuple[float, float]:
    """Sigma and the noise multiplier."""
    check_type("mechanism", mechanism, Mechanism)
    sigma = check_range("sigma", sigma)
    return sigma, check_range("noise_multiplier", sigma / mechanism.geometry.l2_norm)


def _account(
    mechanism: Mechanism,
    sigma: float,
    noise_multiplier: float,
    accountant: Accountant,
    guarantees: Sequence[Guarantee],
) -> Account:
    used = {resolved(accountant, g.bound) for g in guarantees}
    return Account(
        mechanism,
        used.pop() if len(used) == 1 else accountant,
        noise_multiplier,
        tuple(guarantees),
        tuple(statement(mechanism, sigma, g) for g in guarantees),
        mean_noise_std(mechanism, sigma),
        error_parts(mechanism, sigma),
        about_mechanism(mechanism, accountant),
        noise_std_per_row=noise_std_per_row(mechanism, sigma),
        error_parts_last_row=last_row_parts(mechanism, sigma),
    )


def about_mechanism(mechanism: Mechanism, accountant: Accountant) -> tuple[Notice, ...]:
    """Notices that follow from the mechanism alone."""
    return (*one_round(mechanism), *overlapping(mechanism), *_dim_one(mechanism, accountant))


def _dim_one(mechanism: Mechanism, accountant: Accountant) -> tuple[Notice, ...]:
    """A hint for DP-SGD with Poisson sampling, where the profile is exact."""
    geometry, by_profile = mechanism.geometry, accountant in (Accountant.AUTO, Accountant.TIGHT)
    if mechanism.sends_all or geometry.norm_ratio > 1.0 or geometry.dim is not None or not by_profile:
        return ()
    said = (
        "norm ratio 1 without dim: if each update is sent whole or not at all (DP-SGD), set dim to 1; the"
        " answer is then exact, and needs less noise"
    )
    return (Notice("dim-one", said),)


def one_round(mechanism: Mechanism) -> tuple[Notice, ...]:
    """A notice if the number of releases was not given."""
    if mechanism.counts_releases:
        return ()
    name = "rounds" if mechanism.factorization is None else "epochs"
    return (one_round_notice(name, "=1"),)


def overlapping(mechanism: Mechanism) -> tuple[Notice, ...]:
    """A notice if columns of C that one client affects overlap: masked vectors then need more noise."""
    factors = mechanism.factorization
    if factors is None or factors.repeated is None or mechanism.sends_all:
        return ()
    factor = factors.release_sensitivity / factors.sensitivity
    if factor <= 1.0 + _ORTHOGONAL:
        return ()
    by = "" if factors.strategy is None else f" ({factors.strategy})"
    said = (
        f"columns of C{by} that are {factors.repeated.min_separation} or more steps apart overlap: each"
        f" participation counts as a release with clip norms {round_up(factor)} times as large"
    )
    return (Notice("overlapping-columns", said),)


def conversion_of(proof: Proof) -> Conversion | None:
    """The conversion of a Renyi bound; None for other proofs."""
    return Conversion.CKS20 if proof is Proof.RENYI else None


def notices_of(spent: Answer, *, asks_delta: bool = False) -> tuple[Notice, ...]:
    """Notices about how ``spent``, an epsilon, a sigma or a delta, was computed."""
    notices = []
    if spent.high_precision:
        said = "float64 is not accurate enough here; computed with 30 digits"
        notices.append(Notice("high-precision", said))
    if spent.fell_back:
        above = f"{LOOSE_DELTA:g} times the" if asks_delta else f"{100 * LOOSE:g} % above the"
        smallest = "smallest valid delta" if asks_delta else "smallest valid value"
        said = (
            "the privacy profile could not be computed here; this closed-form bound may be more than"
            f" {above} {smallest}"
        )
        notices.append(Notice("tight-fell-back", said))
    return tuple(notices)
