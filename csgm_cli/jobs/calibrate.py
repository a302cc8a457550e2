"""The least noise that meets a target."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli import gaussian
from csgm_cli.core.bounds import (
    bounds_of,
    looks_at_profile,
    resolved,
    spent_delta,
    spent_epsilon,
    total_mu,
)
from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.account import NO_LOWER_BOUND, epsilon_guarantee
from csgm_cli.jobs.statement import statement
from csgm_cli.jobs.utility import (
    Rows,
    bits_per_client,
    error_parts,
    gaussian_like,
    mean_noise_std,
    mean_squared_error,
    noise_std_per_row,
)
from csgm_cli.model.mechanism import Accountant, Bound, Mechanism, Target, accountant_named
from csgm_cli.model.result import Calibration, Guarantee
from csgm_cli.ranges import RANGES, check_range, check_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Room for the rounding of numbers derived from sigma (noise multiplier, sigma / l2_norm l2_norm).
_MARGIN = 2e-13
#: Room, tried in turn, for an answer that account, on its own way to the best bound, does not confirm:
#: an order next to 1 moves epsilon by how float64 rounds it, and a bracket of a profile by its own width. The
#: bound that comes next may be far off.
_ROOM = (0.0, 1e-11, 1e-10, 1e-9, 1e-7, 1e-5, 1e-3)
#: What epsilon misses by takes at least this share of it as room: epsilon falls at most so steeply in sigma.
_SHARE = 1e-3
#: Where jumps of delta move sigma by more than this, a tenth of "hardly less", account's search is asked.
_HARDLY = 1e-9
#: Where the profile saves more than this, relative, it need not be known what other bounds prove exactly.
_CLEARLY = 1e-6


def calibrate(
    mechanism: Mechanism,
    target: Target,
    accountant: Accountant = Accountant.AUTO,
    *,
    verify: bool = False,
    value_bits: int = 32,
) -> Calibration:
    """The least noise with which ``mechanism`` meets ``target``, and what it costs.

    The answer meets the target; noise smaller by 1e-8 relative does not, by the same accountant.
    ``verify`` recomputes the achieved epsilon by independent code in 50 digits (tight bounds: 30 to 8).
    ``value_bits`` in [1, 64]: of one sent value, for ``bits_per_client``.

    Raises:
        UsageError: a value out of range, or an accountant without a bound for the mechanism.
        NoAnswerError: delta alone covers the target, no noise in range meets it, or verification fails.
    """
    check_type("mechanism", mechanism, Mechanism)
    check_type("target", target, Target)
    check_type("verify", verify, bool)
    accountant = accountant_named(accountant)
    check_range("value_bits", value_bits)
    bounds_of(mechanism, accountant)  # an accountant without a bound is refused before the target is
    _refuse_covered(mechanism, target)
    sigma, guarantee = _certified(mechanism, accountant, target, verify=verify)
    if _wobbles(mechanism, accountant, target, sigma):
        sigma, guarantee = _agreed(mechanism, accountant, target, sigma, verify=verify)
    if guarantee.epsilon > target.epsilon:
        raise NoAnswerError("not-certified", f"the answer sigma {sigma!r} could not be certified")
    lower = _lower_bound(mechanism, accountant, target, sigma)
    noise_multiplier = sigma / mechanism.geometry.l2_norm
    if noise_multiplier not in RANGES["noise_multiplier"]:
        raise NoAnswerError(
            "no-noise-in-range", f"the target would need noise multiplier {noise_multiplier:g}"
        )
    answer = described(
        mechanism,
        resolved(mechanism, accountant, guarantee.bound),
        sigma,
        _with_lower_bound(guarantee, lower),
        value_bits,
    )
    return with_errors(answer, accountant, target)


def described(
    mechanism: Mechanism, accountant: Accountant, sigma: float, guarantee: Guarantee, value_bits: int
) -> Calibration:
    """What there is to say of this noise without a target: all but the MSE."""
    noise_multiplier = sigma / mechanism.geometry.l2_norm
    return Calibration(
        mechanism,
        accountant,
        noise_multiplier,
        noise_multiplier / mechanism.gamma,
        sigma,
        guarantee,
        statement(mechanism, sigma, guarantee),
        mean_noise_std(mechanism, sigma),
        None,
        bits_per_client(mechanism, value_bits),
        guarantee.notices,
        noise_std_per_row(mechanism, sigma),
    )


def with_errors(
    answer: Calibration, accountant: Accountant, target: Target, against: Mechanism | None = None
) -> Calibration:
    """The same with its MSE beside the Gaussian mechanism's, which is calibrated only where that is wanted.

    ``accountant`` is the one that was asked for. ``against``: the Gaussian mechanism, where it is not
    the one with the factorization of ``answer``.
    """
    mechanism, sigma = answer.mechanism, answer.sigma
    if error_parts(mechanism, sigma) is None:
        return answer
    plain = against or gaussian_like(mechanism)
    plain_sigma = gaussian_sigma(plain, mechanism, accountant, answer.guarantee.bound, target)
    last = None
    if mechanism.factorization is not None:
        last = mean_squared_error(mechanism, sigma, plain, plain_sigma, Rows.LAST)
    mse = mean_squared_error(mechanism, sigma, plain, plain_sigma)
    return replace(answer, mse=mse, mse_last_row=last)


def _certified(
    mechanism: Mechanism, accountant: Accountant, target: Target, *, verify: bool
) -> tuple[float, Guarantee]:
    """The least sigma that account, asked for its epsilon, agrees with."""
    for enough in _sufficient(mechanism, accountant, target):
        least = 0.0
        for room in _ROOM:
            if room < least:
                continue
            sigma = enough * (1 + room)
            guarantee = _confirmed(mechanism, accountant, target, sigma, verify=verify)
            if guarantee.epsilon <= target.epsilon:
                return sigma, guarantee
            short = guarantee.epsilon / target.epsilon - 1
            least = min(_SHARE * short, _ROOM[-1])  # less would hardly help, and costs a search
    return sigma, guarantee


def _confirmed(
    mechanism: Mechanism, accountant: Accountant, target: Target, sigma: float, *, verify: bool
) -> Guarantee:
    """What account says of this sigma; or of its noise multiplier, should that round to less and miss."""

    def at(noise: float, *, verify: bool) -> Guarantee:
        return epsilon_guarantee(
            mechanism, noise, target.delta, accountant, verify=verify, near=target.epsilon, with_lower=False
        )

    found, l2_norm = at(sigma, verify=verify), mechanism.geometry.l2_norm
    rounded = sigma / l2_norm * l2_norm
    if rounded >= sigma or found.epsilon > target.epsilon:
        return found
    other = at(rounded, verify=False)
    return other if other.epsilon > target.epsilon else found


def _wobbles(mechanism: Mechanism, accountant: Accountant, target: Target, sigma: float) -> bool:
    """Whether what decides here may jump by what account, on its way to an epsilon, would notice."""
    if not looks_at_profile(mechanism, accountant):
        return False
    from csgm_cli.core.tight import LARGEST_DELTA, tight_delta
    from csgm_cli.core.tight_solve import WOBBLES, slope_in_sigma

    found, delta = tight_delta(mechanism, sigma, target.epsilon), min(target.delta, LARGEST_DELTA)
    wobble = found.decisive.wobble
    if found.upper > delta or wobble <= WOBBLES:
        return False
    return wobble > _HARDLY * slope_in_sigma(mechanism, sigma, target.epsilon, delta)


def _agreed(
    mechanism: Mechanism, accountant: Accountant, target: Target, sigma: float, *, verify: bool
) -> tuple[float, Guarantee]:
    """The noise near sigma that account, with nothing to start from, confirms, but hardly less does not."""
    from csgm_cli.core.agreed import agreed

    l2_norm = mechanism.geometry.l2_norm

    def at(noise: float, *, verify: bool = False) -> Guarantee:
        return epsilon_guarantee(
            mechanism, noise * l2_norm, target.delta, accountant, verify=verify, with_lower=False
        )

    highest = _near_sigma(mechanism, Bound.RDP, target) / l2_norm
    noise = agreed(lambda noise: at(noise).epsilon, target.epsilon, sigma / l2_norm, highest)
    if noise == highest:
        noise = least_sigma(mechanism, Bound.RDP, target) / l2_norm
    return noise * l2_norm, at(noise, verify=verify)


def sufficient_sigma(mechanism: Mechanism, accountant: Accountant, target: Target) -> float:
    """The least sigma at which one of the accountant's bounds proves ``target``."""
    return next(_sufficient(mechanism, accountant, target))


def _sufficient(mechanism: Mechanism, accountant: Accountant, target: Target) -> Iterator[float]:
    """The least sigma that a bound on the profile proves, if that is any good, and that of the others."""
    bounds = bounds_of(mechanism, accountant)
    if not looks_at_profile(mechanism, accountant):
        yield _others_sigma(bounds, mechanism, target)
        return
    from csgm_cli.core.tight import LARGEST_DELTA
    from csgm_cli.core.tight_solve import tight_sigma

    # A search for all deltas above, which ends at the same noise.
    limit = Target(target.epsilon, min(target.delta, LARGEST_DELTA))
    near = [min(_near_sigma(mechanism, bound, goal) for bound in bounds) for goal in {limit, target}]
    ceiling = max(near)
    tight = tight_sigma(mechanism, limit.epsilon, limit.delta, ceiling)
    if tight < min(near) * (1 - _CLEARLY):  # as a rule; what the others prove need not be known
        yield tight
        yield _others_sigma(bounds, mechanism, target)
        return
    ceiling, sigma = (_others_sigma(bounds, mechanism, goal) for goal in (limit, target))
    tight = tight_sigma(mechanism, limit.epsilon, limit.delta, ceiling)
    if tight < sigma:
        yield tight
    yield sigma


def _others_sigma(bounds: Sequence[Bound], mechanism: Mechanism, target: Target) -> float:
    """The least sigma of Renyi and Gaussian bounds."""
    return min(least_sigma(mechanism, bound, target) for bound in bounds)


def shortfall(mechanism: Mechanism, accountant: Accountant, sigma: float, target: Target) -> float:
    """At most 0 where one of the accountant's bounds proves ``target`` at this noise.

    Elsewhere how far the best one is from it: the logarithm of its epsilon over the target's, or of its
    delta where the privacy profile is looked at.
    """
    bounds = bounds_of(mechanism, accountant)
    if not looks_at_profile(mechanism, accountant):
        epsilon = min(spent_epsilon(mechanism, bound, sigma, target.delta).value for bound in bounds)
        return math.log(epsilon / target.epsilon) if epsilon > 0.0 else -math.inf
    from csgm_cli.core.tight import single_delta, tight_delta

    least = single_delta(mechanism, sigma, target.epsilon)
    if least <= target.delta:  # else nothing proves it, for it is not so
        least = min(spent_delta(mechanism, bound, sigma, target.epsilon).value for bound in bounds)
        least = min(least, tight_delta(mechanism, sigma, target.epsilon).upper)
    return math.log(least / target.delta) if least > 0.0 else -math.inf


def _lower_bound(mechanism: Mechanism, accountant: Accountant, target: Target, sigma: float) -> float | None:
    """The noise multiplier below which kappa* breaks ``target``; None where it is not looked at."""
    if not looks_at_profile(mechanism, accountant):
        return None
    from csgm_cli.core.tight_solve import kappa_sigma

    return kappa_sigma(mechanism, target.epsilon, target.delta, sigma) / mechanism.geometry.l2_norm


def _with_lower_bound(guarantee: Guarantee, lower: float | None) -> Guarantee:
    said = (NO_LOWER_BOUND,) if lower == 0.0 else ()
    return replace(guarantee, lower_bound=lower, notices=guarantee.notices + said)


def least_sigma(mechanism: Mechanism, bound: Bound, target: Target) -> float:
    """The least sigma at which ``bound`` proves ``target``, on the private side with room to spare."""
    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        return _least_gaussian_sigma(mechanism, target)
    from csgm_cli.renyi.renyi_noise import least_renyi_sigma

    return least_renyi_sigma(mechanism, bound, target) * (1 + _MARGIN)


def _near_sigma(mechanism: Mechanism, bound: Bound, target: Target) -> float:
    """That, but for rounding: not proven, where that is dear."""
    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        return _least_gaussian_sigma(mechanism, target)
    from csgm_cli.renyi.renyi_noise import near_renyi_sigma

    return near_renyi_sigma(mechanism, bound, target)


def _least_gaussian_sigma(mechanism: Mechanism, target: Target) -> float:
    return total_mu(mechanism, 1.0) / gaussian.mu_for(target.epsilon, target.delta) * (1 + _MARGIN)


def gaussian_sigma(
    gaussian: Mechanism, mechanism: Mechanism, accountant: Accountant, bound: Bound, target: Target
) -> float:
    """The sigma of ``gaussian`` at the target of ``mechanism``, by an accountant of the same kind.

    Exact where the mechanism has a bound on the profile; where only a Renyi bound serves it (rdp,
    paper, and replace-one), the same Renyi bound for both.
    """
    used = resolved(mechanism, accountant, bound)
    only_renyi = bound in (Bound.RDP, Bound.PAPER) and not looks_at_profile(mechanism, used)
    return least_sigma(gaussian, bound if only_renyi else Bound.EXACT, target)


def _refuse_covered(mechanism: Mechanism, target: Target) -> None:
    """No noise is asked for where most likely nothing of a client is ever sent.

    With probability (1 - gamma)^(d rounds) no coordinate of a client is sent at all; where delta
    covers the rest, every epsilon holds without noise, and "the least noise" is none.
    """
    dim = mechanism.geometry.dim
    if mechanism.is_gaussian or dim is None:
        return
    revealed = -math.expm1(dim * mechanism.releases * math.log1p(-mechanism.gamma))
    if target.delta >= revealed:  # also under replace-one: the masks of both vectors can be the same
        raise NoAnswerError(
            "delta-covers-target",
            f"delta {target.delta!r} alone covers the target: anything of a client is sent with probability"
            f" {revealed!r} only, so no noise is needed at any epsilon",
            "ask for a smaller delta",
        )
