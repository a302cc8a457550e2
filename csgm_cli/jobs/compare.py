"""Several mechanisms side by side: at one target, or at one mean squared error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from csgm_cli.errors import NoAnswerError, UsageError, VerificationError
from csgm_cli.jobs.account import check_accountant, epsilon_guarantee, one_round
from csgm_cli.jobs.calibrate import calibrate, described, with_errors
from csgm_cli.jobs.privunit import check_shuffle, privunit_rows
from csgm_cli.jobs.utility import require_error_inputs, sigma_at_equal_error
from csgm_cli.model.comparison import Comparison, ComparisonRow, PrivUnitRow
from csgm_cli.model.mechanism import (
    Accountant,
    AccountantLike,
    Adjacency,
    AdjacencyLike,
    FactorNorms,
    Mechanism,
    Target,
    accountant_named,
)
from csgm_cli.model.mechanism_table import MECHANISMS, WITH_GAMMA, Geometry, MechanismName
from csgm_cli.model.result import Calibration, Notice
from csgm_cli.ranges import check_range, check_ranges, check_type


def compare(
    geometry: Geometry,
    target: Target,
    *,
    gammas: Sequence[float],
    rounds: int | None = None,
    adjacency: AdjacencyLike = Adjacency.ADD_REMOVE,
    accountant: AccountantLike = Accountant.AUTO,
    verify: bool = False,
    value_bits: int = 32,
    factorization: FactorNorms | None = None,
    epochs: int | None = None,
    disjoint_cohorts: bool = False,
    sampling_rate: float = 1.0,
    other_strategies: Sequence[FactorNorms] = (),
    with_privunit_shuffle: bool = False,
) -> Comparison:
    """The Gaussian mechanism, then L2-CSGM and L-inf-CSGM at every gamma, calibrated to ``target``.

    ``gammas`` in [1e-9, 1], at least one; ``rounds`` in [1, 1e9], ``value_bits`` in [1, 64]: see `calibrate`.
    With a ``sampling_rate`` every row has it, ``rounds`` are all training rounds, and ``cohort_size`` is the
    expected one.
    One accountant serves all rows, so that no mechanism is charged for a looser analysis. L-inf-CSGM
    needs ``geometry.dim`` and is left out, with a notice, without it. A row without an answer has
    no calibration, and a notice says why.

    With a ``factorization`` they are the matrix mechanism, SGMF and its L-inf form; SGMF is also there with
    each of ``other_strategies``, factorizations of the same workload. Every MSE ratio is relative to the
    first row, the matrix mechanism with ``factorization``, so that ratios order rows as errors do.

    ``with_privunit_shuffle`` adds ``privunit_rows``: local privacy behind a shuffler instead of a trusted
    server, for one round under replace-one; ``dim`` and ``cohort_size`` are needed.

    Raises:
        UsageError: a value out of range, no gamma, an accountant that cannot serve every row, or PrivUnit
            rows for another setting than theirs.
        VerificationError: a row's answer is not confirmed.
    """
    _check_types(geometry, target, value_bits=value_bits, verify=verify)
    check_type("with_privunit_shuffle", with_privunit_shuffle, bool)
    reference = Mechanism(
        MechanismName.GAUSSIAN,
        1.0,
        geometry,
        rounds,
        adjacency,
        factorization,
        epochs,
        disjoint_cohorts,
        sampling_rate,
    )
    if with_privunit_shuffle:
        check_shuffle(reference)
    mechanisms, used, notices = _mechanisms_and_accountant(reference, gammas, other_strategies, accountant)

    def answer(mechanism: Mechanism) -> Calibration:
        found = calibrate(mechanism, target, used, verify=verify, value_bits=value_bits)
        is_reference_strategy = mechanism.factorization == factorization
        return found if is_reference_strategy else with_errors(found, used, target, against=reference)

    rows = tuple(_row(mechanism, answer, notices) for mechanism in mechanisms)
    shuffled: tuple[PrivUnitRow, ...] = ()
    if with_privunit_shuffle and rows[0].calibration is not None:
        shuffled, found = privunit_rows(geometry, target, rows[0].calibration, verify=verify)
        notices += found
    return Comparison(
        target, used, at_equal_mse=False, rows=rows, notices=tuple(notices), privunit_rows=shuffled
    )


def compare_at_equal_mse(
    geometry: Geometry,
    target: Target,
    *,
    gammas: Sequence[float],
    rounds: int | None = None,
    adjacency: AdjacencyLike = Adjacency.ADD_REMOVE,
    accountant: AccountantLike = Accountant.AUTO,
    verify: bool = False,
    value_bits: int = 32,
    factorization: FactorNorms | None = None,
    epochs: int | None = None,
    disjoint_cohorts: bool = False,
    sampling_rate: float = 1.0,
    other_strategies: Sequence[FactorNorms] = (),
) -> Comparison:
    """The epsilon of every mechanism at the MSE that the Gaussian mechanism has at ``target``.

    sigma_m^2 = gamma^2 (sigma_G^2 - n (1 - gamma) l2_norm^2/(gamma d)) without a factorization and client
    sampling, and see `sigma_at_equal_error`; where that is not positive, sparsification alone exceeds the
    MSE: the row has no calibration and a notice says so, as where no epsilon could be computed or verified.

    Raises:
        UsageError: as in `compare`, or ``dim`` or ``cohort_size`` is missing.
    """
    _check_types(geometry, target, value_bits=value_bits, verify=verify)
    require_error_inputs(geometry, "an equal-MSE comparison")
    reference = Mechanism(
        MechanismName.GAUSSIAN,
        1.0,
        geometry,
        rounds,
        adjacency,
        factorization,
        epochs,
        disjoint_cohorts,
        sampling_rate,
    )
    mechanisms, used, notices = _mechanisms_and_accountant(reference, gammas, other_strategies, accountant)
    reference = mechanisms[0]
    baseline = calibrate(reference, target, used, verify=verify, value_bits=value_bits)

    def answer(mechanism: Mechanism) -> Calibration | None:
        sigma = sigma_at_equal_error(mechanism, reference, baseline.sigma)
        if sigma <= 0.0:
            return None
        guarantee = epsilon_guarantee(mechanism, sigma, target.delta, used, verify=verify)
        found = described(mechanism, used, sigma, guarantee, value_bits)
        return with_errors(found, used, target, against=reference)

    others = [_row(mechanism, answer, notices) for mechanism in mechanisms[1:]]
    rows = [ComparisonRow(reference, baseline), *others]
    return Comparison(target, used, at_equal_mse=True, rows=tuple(rows), notices=tuple(notices))


def common_accountant(mechanisms: Sequence[Mechanism], accountant: AccountantLike) -> Accountant:
    """The one accountant for all rows: auto is exact where every row is Gaussian, else tight.

    tight is exact for the Gaussian rows.
    """
    accountant = accountant_named(accountant)
    check_accountant(mechanisms, accountant)
    if accountant not in (Accountant.AUTO, Accountant.TIGHT):
        return accountant
    return Accountant.EXACT if all(m.is_gaussian for m in mechanisms) else Accountant.TIGHT


def _check_types(geometry: Geometry, target: Target, *, value_bits: int, verify: bool) -> None:
    check_type("geometry", geometry, Geometry)
    check_type("target", target, Target)
    check_type("verify", verify, bool)
    check_range("value_bits", value_bits)


def _mechanisms_and_accountant(
    reference: Mechanism, gammas: Sequence[float], others: Sequence[FactorNorms], accountant: AccountantLike
) -> tuple[list[Mechanism], Accountant, list[Notice]]:
    """The mechanisms of the rows (``reference`` first), the accountant of all rows, and notices."""
    counted = reference.with_releases(reference.releases)  # so that not every row has the same notice
    mechanisms, notices = _mechanisms(counted, gammas, others)
    used = common_accountant(mechanisms, accountant)
    return mechanisms, used, [*one_round(reference), *notices]


def _mechanisms(
    reference: Mechanism, gammas: Sequence[float], others: Sequence[FactorNorms]
) -> tuple[list[Mechanism], list[Notice]]:
    asked = check_ranges("gammas", gammas, "gamma")
    if not asked:
        raise UsageError("missing-gamma", "no gamma was given", "pass `gamma`")
    mechanisms = [reference]
    needing = [name for name in WITH_GAMMA if MECHANISMS[name].needs_dim and reference.geometry.dim is None]
    notices = [Notice("linf-csgm-left-out", f"{name} is left out: it needs dim") for name in needing]
    names = [name for name in WITH_GAMMA if name not in needing]
    for gamma in asked:
        at_gamma = [replace(reference, name=name, gamma=gamma) for name in names]
        mechanisms += at_gamma
        mechanisms += [replace(at_gamma[0], factorization=other) for other in others]
    return mechanisms, notices


def _row(
    mechanism: Mechanism, answer: Callable[[Mechanism], Calibration | None], notices: list[Notice]
) -> ComparisonRow:
    """The row of ``answer``; where it has none (None: at an equal MSE) ``notices`` tell why."""
    try:
        found = answer(mechanism)
    except VerificationError:
        raise
    except NoAnswerError as error:
        return _row_without_answer(mechanism, error.message, notices)
    if found is None:
        why = "the sparsification error alone exceeds the MSE of the Gaussian mechanism"
        return _row_without_answer(mechanism, why, notices)
    return ComparisonRow(mechanism, found)


def _row_without_answer(mechanism: Mechanism, why: str, notices: list[Notice]) -> ComparisonRow:
    strategy = mechanism.factorization and mechanism.factorization.strategy
    by = f" with {strategy}" if strategy else ""
    said = f"{mechanism.name}{by} at gamma {mechanism.gamma!r}: {why}"
    notices.append(Notice("row-without-answer", said))
    return ComparisonRow(mechanism, None)
