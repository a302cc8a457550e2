"""Several mechanisms side by side: at one target, or at one mean squared error."""

from __future__ import annotations

import math
from collections.abc import Sequence

from csgm_cli.comparison_model import Comparison, ComparisonRow
from csgm_cli.core.account import epsilon_guarantee
from csgm_cli.core.calibrate import calibrate, gaussian_sigma
from csgm_cli.core.statement import statement
from csgm_cli.core.utility import bits_per_client, mean_noise_std, mean_squared_error
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.model import (
    Accountant,
    Adjacency,
    Calibration,
    Geometry,
    Mechanism,
    MechanismName,
    Notice,
    Target,
    accountant_named,
    check_range,
    check_ranges,
    check_type,
)


def compare(
    geometry: Geometry,
    target: Target,
    *,
    gammas: Sequence[float],
    rounds: int = 1,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    accountant: Accountant = Accountant.AUTO,
    verify: bool = False,
    value_bits: int = 32,
) -> Comparison:
    """The Gaussian mechanism, then L2-CSGM and L-inf-CSGM at every gamma, calibrated to ``target``.

    ``gammas`` in [1e-9, 1], at least one; ``rounds`` in [1, 1e9], ``value_bits`` in [1, 64]: see `calibrate`.
    One accountant serves all rows, so that no mechanism is charged for a looser analysis. L-inf-CSGM
    needs ``geometry.dim`` and is left out, with a notice, without it. A row without an answer has
    no calibration, and a notice says why.

    Raises:
        UsageError: a value out of range, no gamma, or an accountant that cannot serve every row.
    """
    _check_types(geometry, target, value_bits=value_bits, verify=verify)
    mechanisms, notices = _mechanisms(geometry, gammas, rounds, adjacency)
    used = common_accountant(mechanisms, accountant)
    rows = []
    for mechanism in mechanisms:
        try:
            answer = calibrate(mechanism, target, used, verify=verify, value_bits=value_bits)
        except NoAnswerError as error:
            rows.append(_row_without_answer(mechanism, error.message, notices))
        else:
            rows.append(ComparisonRow(mechanism, answer))
    return Comparison(target, used, at_equal_mse=False, rows=tuple(rows), notices=tuple(notices))


def compare_at_equal_mse(
    geometry: Geometry,
    target: Target,
    *,
    gammas: Sequence[float],
    rounds: int = 1,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    accountant: Accountant = Accountant.AUTO,
    verify: bool = False,
    value_bits: int = 32,
) -> Comparison:
    """The epsilon of every mechanism at the MSE that the Gaussian mechanism has at ``target``.

    sigma_m^2 = gamma^2 (sigma_G^2 - n (1 - gamma) l2_norm^2/(gamma d)); where that is not positive,
    sparsification alone exceeds the MSE: the row has no calibration and a notice says so, as where no
    epsilon could be computed or verified.

    Raises:
        UsageError: as in `compare`, or ``dim`` or ``cohort_size`` is missing.
    """
    _check_types(geometry, target, value_bits=value_bits, verify=verify)
    dim, cohort = geometry.dim, geometry.cohort_size
    if dim is None or cohort is None:
        raise UsageError(
            "missing-utility-inputs",
            "an equal-MSE comparison needs dim and cohort_size",
            "give --dim and --cohort-size",
        )
    mechanisms, notices = _mechanisms(geometry, gammas, rounds, adjacency)
    used = common_accountant(mechanisms, accountant)
    baseline = calibrate(mechanisms[0], target, used, verify=verify, value_bits=value_bits)
    rows = [ComparisonRow(mechanisms[0], baseline)]
    for mechanism in mechanisms[1:]:
        gamma = mechanism.gamma
        lost = cohort * (1 - gamma) * geometry.l2_norm**2 / (gamma * dim)
        left = baseline.sigma**2 - lost
        if left <= 0.0:
            why = "the sparsification error alone exceeds the MSE of the Gaussian mechanism"
            rows.append(_row_without_answer(mechanism, why, notices))
            continue
        sigma = gamma * math.sqrt(left)
        try:
            answer = _at_sigma(mechanism, sigma, target, used, verify=verify, value_bits=value_bits)
        except NoAnswerError as error:
            rows.append(_row_without_answer(mechanism, error.message, notices))
        else:
            rows.append(ComparisonRow(mechanism, answer))
    return Comparison(target, used, at_equal_mse=True, rows=tuple(rows), notices=tuple(notices))


def common_accountant(mechanisms: Sequence[Mechanism], accountant: Accountant) -> Accountant:
    """The one accountant for all rows: auto is exact where every row is Gaussian, else the tightest.

    Under add-remove that is tight, which is exact for the Gaussian rows; under replace-one, where
    the other rows can only have rdp, so does the Gaussian one.
    """
    accountant = accountant_named(accountant)
    if accountant is not Accountant.AUTO:
        return accountant
    if all(m.is_gaussian for m in mechanisms):
        return Accountant.EXACT
    replaced = any(m.adjacency is Adjacency.REPLACE_ONE for m in mechanisms)
    return Accountant.RDP if replaced else Accountant.TIGHT


def _check_types(geometry: Geometry, target: Target, *, value_bits: int, verify: bool) -> None:
    check_type("geometry", geometry, Geometry)
    check_type("target", target, Target)
    check_type("verify", verify, bool)
    check_range("value_bits", value_bits)


def _mechanisms(
    geometry: Geometry, gammas: Sequence[float], rounds: int, adjacency: Adjacency
) -> tuple[list[Mechanism], list[Notice]]:
    asked = check_ranges("gammas", gammas, "gamma")
    if not asked:
        raise UsageError("missing-gamma", "no gamma was given", "give --gamma or --compression")
    mechanisms = [Mechanism(MechanismName.GAUSSIAN, 1.0, geometry, rounds, adjacency)]
    notices = []
    names = [MechanismName.L2_CSGM, MechanismName.LINF_CSGM]
    if geometry.dim is None:
        names.pop()
        notices.append(Notice("linf-csgm-left-out", "linf-csgm needs dim and is left out; give --dim"))
    mechanisms += [Mechanism(name, gamma, geometry, rounds, adjacency) for gamma in asked for name in names]
    return mechanisms, notices


def _row_without_answer(mechanism: Mechanism, why: str, notices: list[Notice]) -> ComparisonRow:
    notices.append(Notice("row-without-answer", f"{mechanism.name} at gamma {mechanism.gamma!r}: {why}"))
    return ComparisonRow(mechanism, None)


def _at_sigma(
    mechanism: Mechanism,
    sigma: float,
    target: Target,
    accountant: Accountant,
    *,
    verify: bool,
    value_bits: int,
) -> Calibration:
    guarantee = epsilon_guarantee(mechanism, sigma, target.delta, accountant, verify=verify)
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
        mean_squared_error(mechanism, sigma, gaussian_sigma(mechanism, accountant, guarantee.bound, target)),
        bits_per_client(mechanism, value_bits),
        guarantee.notices,
    )
