"""Every strategy side by side, against one certified optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.core.factorization.factorize import factorize
from csgm_cli.errors import CsgmError
from csgm_cli.factorization_model import Factorization, Objective, Strategy, StrategyName, Workload
from csgm_cli.model import Notice

if TYPE_CHECKING:
    from csgm_cli.core.factorization.solver import Progress

#: Buffers of the streaming forms that are compared.
_BUFFERS = (2, 4, 8)


def compare_strategies(
    workload: Workload,
    objective: Objective = Objective.MEAN,
    tolerance: float = 1e-9,
    *,
    progress: Progress | None = None,
) -> tuple[tuple[Factorization, ...], tuple[Notice, ...]]:
    """The optimum and every other strategy that ``workload`` has, each with its ``gap`` to the optimum.

    ``tolerance`` is that of the optimum. A notice (slug ``strategy-left-out``) says of each strategy that
    has no factorization of this workload why. ``UsageError`` and ``NoAnswerError`` as for `factorize`.
    """
    optimum = factorize(workload, Strategy(StrategyName.OPTIMAL), objective, tolerance, progress=progress)
    rows, notices = [optimum], []
    for strategy in _others():
        try:
            rows.append(factorize(workload, strategy, objective, tolerance, optimum=optimum))
        except CsgmError as error:
            notices.append(Notice("strategy-left-out", f"{strategy} is left out: {error.message}"))
    return tuple(rows), tuple(notices)


def _others() -> list[Strategy]:
    streaming = [Strategy(StrategyName.STREAMING, buffers) for buffers in reversed(_BUFFERS)]
    apart = (StrategyName.OPTIMAL, StrategyName.STREAMING)
    return [*streaming, *(Strategy(name) for name in StrategyName if name not in apart)]
