"""All strategies compared with one certified optimum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.errors import CsgmError
from csgm_cli.factorization.factorize import factorize
from csgm_cli.factorization.memory import solving_bytes
from csgm_cli.factorization.participation.measure import equally_private
from csgm_cli.factorization.workload import leading, over_epochs
from csgm_cli.model.factorization import (
    Factorization,
    Objective,
    ObjectiveLike,
    Strategy,
    StrategyName,
    Workload,
    WorkloadLike,
    as_workload,
    objective_named,
)
from csgm_cli.model.result import Notice

if TYPE_CHECKING:
    from csgm_cli.factorization.solve.solver import Progress
    from csgm_cli.model.participation import Participation

#: Buffers of the filters that are compared.
_BUFFERS = (2, 4, 8)
#: Up to so many rows a dense factorization takes seconds.
_MOST_DENSE_ROWS = 1000
#: A streaming form that is restarted, for comparison.
_RESTARTED = Strategy(StrategyName.STREAMING, 4)
#: From 2 to 3 buffers the error of repeated participation falls by less than 0.2 % (docs/factorize.md).
_REPEATED = Strategy(StrategyName.BLT, 3)
#: Of these, the one in a picture; and the sizes there, each so many times the one before.
_PICTURED, _STEP = 4, 4

_SENT_WHOLE = Notice(
    "sent-whole",
    f"the errors of {_REPEATED} are for vectors that are sent whole: with masks it needs more noise",
)


def compare_strategies(
    workload: WorkloadLike,
    objective: ObjectiveLike = Objective.MEAN,
    tolerance: float | None = None,
    *,
    progress: Progress | None = None,
) -> tuple[tuple[Factorization, ...], tuple[Notice, ...]]:
    """The optimum and every other strategy that ``workload`` has, each with its ``gap`` to the optimum.

    ``tolerance`` is that of the optimum, as for `factorize`. A notice (slug ``strategy-left-out``) says of
    each strategy that has no factorization of this workload why. ``UsageError`` and ``NoAnswerError`` as for
    `factorize`.
    """
    optimum = factorize(workload, Strategy(StrategyName.OPTIMAL), objective, tolerance, progress=progress)
    return _beside(optimum, _others(_BUFFERS), tolerance)


def compare_participations(
    workload: WorkloadLike,
    participation: Participation,
    bands: int | None = None,
    objective: ObjectiveLike = Objective.MEAN,
    tolerance: float | None = None,
    *,
    progress: Progress | None = None,
) -> tuple[tuple[Factorization, ...], tuple[Notice, ...]]:
    """Banded factorizations beside restarts after each ``min_separation`` steps, at equal privacy.

    Up to 1,000 rows also the dense one for a fixed order, which has its own bound.
    Each row is as many releases of sensitivity 1 as there are participations, that of ``blt`` only for
    vectors that are sent whole (`equally_private`). The ``lower_bound`` of all is that of the banded C;
    restarts (with more than one epoch) minimise the mean error over all their epochs.
    ``UsageError`` and ``NoAnswerError`` as for `factorize`.
    """
    workload, objective = as_workload(workload), objective_named(objective)
    names = [StrategyName.BANDED] + [StrategyName.BANDED_TOEPLITZ] * workload.is_toeplitz
    best, *toeplitz = (
        factorize(
            workload,
            name,
            objective,
            tolerance,
            participation=participation,
            bands=bands,
            progress=progress,
        )
        for name in names
    )
    dense = []
    if objective is Objective.MEAN and workload.T <= _MOST_DENSE_ROWS:
        strategy = Strategy(StrategyName.FIXED_ORDER)
        dense.append(factorize(workload, strategy, participation=participation))
    alone = factorize(workload, StrategyName.IDENTITY, objective)
    restarts, notices = _restarts(workload, participation.min_separation)
    if workload.name == "prefix-sum":
        toeplitz.append(_blt(workload, participation, objective))
        notices = (*[_SENT_WHOLE] * (participation.participations > 1), *notices)
    others = [
        replace(row, objective=objective, lower_bound=best.lower_bound, dual=None)
        for row in (*toeplitz, *restarts, alone)
    ]
    return (*dense, best, *others), notices


def _blt(workload: Workload, participation: Participation, objective: Objective) -> Factorization:
    return equally_private(factorize(workload, _REPEATED, objective, participation=participation))


def _restarts(workload: Workload, rows: int) -> tuple[list[Factorization], tuple[Notice, ...]]:
    """Factorizations of so many ``rows`` that start anew until T is reached; and where that is later."""
    rows = min(rows, workload.T)
    epochs = -(-workload.T // rows)
    if workload.learning_rates is not None:
        message = "restarts are left out: learning rates differ from epoch to epoch"
        return [], (Notice("strategy-left-out", message),)
    again = over_epochs(leading(workload, rows), epochs)
    optimum = factorize(again, Strategy(StrategyName.OPTIMAL))
    found, _ = _beside(optimum, [_RESTARTED, Strategy(StrategyName.TREE)], None)
    if epochs * rows == workload.T:
        return list(found), ()
    message = f"restarts have {epochs * rows} steps, {epochs} times {rows}, instead of {workload.T}"
    return list(found), (Notice("restart-padded", message),)


def compared_bytes(workload: Workload, bands: int | None = None) -> int:
    """About the peak memory of `compare_strategies`, or with ``bands`` of `compare_participations`."""
    if bands is not None:
        return solving_bytes(workload, Strategy(StrategyName.BANDED), bands)
    return max(
        solving_bytes(workload, strategy) for strategy in (Strategy(StrategyName.OPTIMAL), *_others(_BUFFERS))
    )


def strategies_by_size(
    workload: Workload, objective: Objective = Objective.MEAN, tolerance: float | None = None
) -> tuple[tuple[Factorization, ...], ...]:
    """The strategies of `compare_strategies`, of streaming forms one, for the first rows of ``workload``.

    For T, and for 4, 16, 64, ... rows below it (2, 4, 8, ... where T is at most 64), in ascending order.
    """
    step = _STEP if workload.T > _STEP**3 else 2
    sizes = [step**k for k in range(1, workload.T.bit_length()) if step**k < workload.T]
    found = []
    for size in (*sizes, workload.T):
        first = leading(workload, size)
        optimum = factorize(first, Strategy(StrategyName.OPTIMAL), objective, tolerance)
        found.append(_beside(optimum, _others((_PICTURED,)), tolerance)[0])
    return tuple(found)


def _beside(
    optimum: Factorization, others: list[Strategy], tolerance: float | None
) -> tuple[tuple[Factorization, ...], tuple[Notice, ...]]:
    """``optimum`` and the other strategies that its workload has, and why not the rest."""
    workload, objective = optimum.workload, optimum.objective
    rows: list[Factorization] = [optimum]
    notices: list[Notice] = []
    for strategy in others:
        try:
            rows.append(factorize(workload, strategy, objective, tolerance, optimum=optimum))
        except CsgmError as error:
            notices.append(Notice("strategy-left-out", f"{strategy} is left out: {error.message}"))
    return tuple(rows), tuple(notices)


def _others(streams: tuple[int, ...]) -> list[Strategy]:
    filters = [Strategy(StrategyName.STREAMING, buffers) for buffers in reversed(streams)]
    filters += [Strategy(name, _PICTURED) for name in (StrategyName.BLT_NORMALIZED, StrategyName.BLT)]
    others = [name for name in StrategyName if not (name.has_buffers or name.is_repeated)]
    return [*filters, *(Strategy(name) for name in others if name is not StrategyName.OPTIMAL)]
