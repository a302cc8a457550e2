"""The least noise that meets a target."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from csgm_cli.accounting.accountants import log_delta_of, resolved
from csgm_cli.accounting.calibration import least_sigma
from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.account import about_mechanism, check_accountant, target_guarantee
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
from csgm_cli.model.mechanism import Accountant, AccountantLike, Mechanism, Target, accountant_named
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.model.result import Calibration, Guarantee
from csgm_cli.ranges import RANGES, check_range, check_type


def calibrate(
    mechanism: Mechanism,
    target: Target,
    accountant: AccountantLike = Accountant.AUTO,
    *,
    verify: bool = False,
    value_bits: int = 32,
) -> Calibration:
    """The least noise with which ``mechanism`` meets ``target``, and what it costs.

    The answer meets the target; noise smaller by 1e-8 relative (1e-5 if a certified grid decides) does not,
    by the same accountant.
    ``verify`` recomputes the achieved epsilon by independent code in 50 digits (contours: 15, grids: 4).
    ``value_bits`` in [1, 64]: of one sent value, for ``bits_per_client``.

    Raises:
        UsageError: a value out of range, or an accountant without a bound for the mechanism.
        NoAnswerError: delta already covers the target, no noise in range meets it, or verification fails.
    """
    check_type("mechanism", mechanism, Mechanism)
    check_type("target", target, Target)
    check_type("verify", verify, bool)
    accountant = accountant_named(accountant)
    check_range("value_bits", value_bits)
    check_accountant([mechanism], accountant)  # before the target is refused
    _refuse_covered(mechanism, target)
    spent = least_sigma(mechanism, accountant, target.epsilon, target.delta)
    sigma, l2_norm = spent.value, mechanism.geometry.l2_norm
    noise_multiplier = sigma / l2_norm
    if noise_multiplier not in RANGES["noise_multiplier"]:
        raise NoAnswerError(
            "no-noise-in-range", f"the target would need noise multiplier {noise_multiplier:g}"
        )
    lower = None if spent.lower is None else spent.lower / l2_norm
    guarantee = replace(target_guarantee(mechanism, sigma, target, spent, verify=verify), lower_bound=lower)
    answer = described(
        mechanism,
        resolved(accountant, guarantee.bound),
        sigma,
        guarantee,
        value_bits,
    )
    plain = gaussian_sigma(gaussian_like(mechanism), accountant, target) / l2_norm
    notices = (*about_mechanism(mechanism, accountant), *answer.notices)
    answer = replace(answer, gaussian_noise_multiplier=plain, notices=notices)
    return with_errors(answer, accountant, target)


def described(
    mechanism: Mechanism, accountant: Accountant, sigma: float, guarantee: Guarantee, value_bits: int
) -> Calibration:
    """The result for this noise without the MSE."""
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
    plain_sigma = gaussian_sigma(plain, accountant, target)
    last = None
    if mechanism.factorization is not None:
        last = mean_squared_error(mechanism, sigma, plain, plain_sigma, Rows.LAST)
    mse = mean_squared_error(mechanism, sigma, plain, plain_sigma)
    return replace(answer, mse=mse, mse_last_row=last)


def shortfall(mechanism: Mechanism, accountant: Accountant, sigma: float, target: Target) -> float:
    """Log of the delta proven at this noise over the target's: at most 0 where the noise suffices."""
    return log_delta_of([(mechanism, sigma)], accountant, target.epsilon) - math.log(target.delta)


def gaussian_sigma(gaussian: Mechanism, accountant: Accountant, target: Target) -> float:
    """The sigma of ``gaussian`` at a target: by the same accountant if that is a Renyi bound, else exact.

    With client sampling ``tight`` is the exact accountant of the Gaussian mechanism.
    """
    exact = Accountant.EXACT if gaussian.is_gaussian else Accountant.TIGHT
    same = accountant if accountant in (Accountant.RDP, Accountant.PAPER) else exact
    needed = replace(gaussian, geometry=Geometry(l2_norm=gaussian.geometry.l2_norm))
    return _least_sigma(needed, same, target)


@lru_cache(maxsize=64)
def _least_sigma(mechanism: Mechanism, accountant: Accountant, target: Target) -> float:
    return least_sigma(mechanism, accountant, target.epsilon, target.delta).value


def _refuse_covered(mechanism: Mechanism, target: Target) -> None:
    """Raise ``NoAnswerError`` if delta is at least the probability that a client sends anything.

    In one round it sends nothing with probability (1 - gamma)^d, or 1 - q + q (1 - gamma)^d with client
    sampling. If delta is at least the probability that it sends something in any round, every epsilon holds
    without noise.
    """
    log_silent = _log_silent(mechanism)
    if log_silent is None:
        return
    revealed = -math.expm1(mechanism.releases * log_silent)
    if target.delta >= revealed:  # also under replace-one: the masks of both vectors can be the same
        raise NoAnswerError(
            "delta-covers-target",
            f"delta {target.delta!r} already covers the target: a client sends anything only with probability"
            f" {revealed!r}, so no noise is needed",
            "ask for a smaller delta",
        )


def _log_silent(mechanism: Mechanism) -> float | None:
    """Log of the probability that a client sends nothing in a round; None where it is 0 or unknown."""
    dim, rate = mechanism.geometry.dim, mechanism.sampling_rate
    if mechanism.sends_all:
        return None if rate == 1.0 else math.log1p(-rate)
    if dim is None:
        return None
    masked = dim * math.log1p(-mechanism.gamma)
    return masked if rate == 1.0 else math.log1p(rate * math.expm1(masked))
