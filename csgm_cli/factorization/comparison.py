"""All strategies compared with one certified optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.errors import CsgmError
from csgm_cli.factorization.factorize import factorize
from csgm_cli.factorization.memory import solving_bytes
from csgm_cli.factorization.workload import leading
from csgm_cli.model.factorization import (
    Factorization,
    Objective,
    ObjectiveLike,
    Strategy,
    StrategyName,
    Workload,
    WorkloadLike,
)
from csgm_cli.model.result import Notice

if TYPE_CHECKING:
    from csgm_cli.factorization.solve.solver import Progress

#: Buffers of the filters that are compared.
_BUFFERS = (2, 4, 8)
#: Of these, the one in a picture; and the sizes there, each so many times the one before.
_PICTURED, _STEP = 4, 4


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


def compared_bytes(workload: Workload) -> int:
    """About the peak memory of `compare_strategies`; nothing is allocated."""
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
    others = (name for name in StrategyName if name is not StrategyName.OPTIMAL and not name.has_buffers)
    return [*filters, *(Strategy(name) for name in others)]
