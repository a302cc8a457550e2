"""The banded strategies: the best banded C, and the best banded Toeplitz C."""

# ruff: noqa: N803 - T is the number of rows in every formula

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.factorization.bands.max_error import solve_max_error
from csgm_cli.factorization.bands.measure import measured, rates_of
from csgm_cli.factorization.bands.solver import solve_bands
from csgm_cli.factorization.bands.toeplitz import toeplitz_bands
from csgm_cli.model.factorization import BandedDual, Factorization, Objective, StrategyName

if TYPE_CHECKING:
    from csgm_cli.factorization.solve.solver import Progress
    from csgm_cli.model.factorization import Strategy, Workload
    from csgm_cli.model.participation import Participation

Array = NDArray[np.float64]

#: Default gaps: of the mean error, of the mean error above _MANY_NUMBERS numbers, and of the max error.
_TOLERANCE, _LOOSE, _MANY_NUMBERS, _OF_MAX = 1e-6, 1e-3, 1_000_000, 5e-3
#: Columns scaled to this norm have norm at most 1 after rounding.
_AT_MOST = 1.0 - 1e-14


def band_tolerance(T: int, bands: int, objective: Objective) -> float:
    """The default gap of the best C with this many ``bands``."""
    if objective is Objective.MAX:
        return _OF_MAX
    return _TOLERANCE if T * bands <= _MANY_NUMBERS else _LOOSE


def check_bandable(workload: Workload) -> None:
    """``UsageError`` (slug ``no-banded-form``) for workloads with momentum and for matrices."""
    if workload.matrix is not None or workload.momentum:
        raise UsageError(
            "no-banded-form",
            f"bands need prefix-sum or learning rates without momentum, got {workload.name}",
            "apply momentum in the optimizer that uses the released sums",
        )


def banded(
    workload: Workload,
    strategy: Strategy,
    objective: Objective,
    participation: Participation,
    bands: int | None,
    tolerance: float | None,
    progress: Progress | None,
) -> Factorization:
    """The factorization by a banded ``strategy``, by default with ``bands`` equal to the separation.

    ``UsageError`` if workload, participations and bands do not fit together; ``NoAnswerError`` (slug
    ``not-certified``) if ``tolerance`` is not reached.
    """
    _check(workload, strategy)
    count = min(workload.T, participation.min_separation) if bands is None else min(workload.T, bands)
    participation.check(workload.T, bands)
    if tolerance is None:
        tolerance = band_tolerance(workload.T, count, objective)
    start = toeplitz_bands(workload.T, count, objective) * _AT_MOST
    is_toeplitz = strategy.name is StrategyName.BANDED_TOEPLITZ
    if is_toeplitz and start.size > _MANY_NUMBERS:  # too long a search for a bound alone
        return banded_factorization(workload, strategy, objective, participation, start)
    solved, dual, steps = _optimum(workload, objective, start, tolerance, progress)
    if is_toeplitz:
        proof = BandedDual(np.ones(workload.T), solved) if dual is None else dual
        return banded_factorization(workload, strategy, objective, participation, start, proof)
    found = banded_factorization(workload, strategy, objective, participation, solved, dual)
    if found.gap > tolerance:
        raise NoAnswerError(
            "not-certified",
            f"the certified gap is {found.gap:.2g}, above {tolerance:g}",
            "use a larger `tolerance`",
        )
    return replace(found, iterations=steps)


def _check(workload: Workload, strategy: Strategy) -> None:
    check_bandable(workload)
    if workload.learning_rates is not None and strategy.name is StrategyName.BANDED_TOEPLITZ:
        raise UsageError("not-toeplitz", f"{strategy} needs prefix-sum, got {workload.name}", "use banded")
    if workload.epochs > 1:
        raise UsageError(
            "conflicting-options", "repeated participation is for a single run: epochs must be 1"
        )


def _optimum(
    workload: Workload, objective: Objective, start: Array, tolerance: float, progress: Progress | None
) -> tuple[Array, BandedDual | None, int]:
    """The best C, the dual if C itself does not prove the bound, and the number of steps."""
    rates = rates_of(workload)

    def follow(step: int, gap: float) -> None:
        if progress is not None:
            progress(step, gap, None)

    if objective is Objective.MEAN:
        bands, steps = solve_bands(start, 1.0 / rates, np.ones(workload.T), tolerance, follow)
        return bands * (_AT_MOST * rates), None, steps
    found = solve_max_error(start, 1.0 / rates, tolerance, follow)
    return (
        found.bands * (_AT_MOST * rates),
        BandedDual(found.weights, found.bound_bands * rates),
        found.iterations,
    )


def banded_factorization(
    workload: Workload,
    strategy: Strategy,
    objective: Objective,
    participation: Participation | None,
    bands: Array,
    dual: BandedDual | None = None,
) -> Factorization:
    """The measured factorization with these ``bands``; ``dual`` proves its bound if C does not."""
    return Factorization(
        workload,
        strategy,
        objective,
        *measured(workload, bands, dual),
        participation=participation,
        bands=len(bands),
        band_matrix=np.ascontiguousarray(bands),
        band_dual=dual,
    )
