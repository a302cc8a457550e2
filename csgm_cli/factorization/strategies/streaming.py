"""``streaming:N``: the N poles of the best factorization with N buffers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.factorization.matrices.quadrature import Poles, zolotarev
from csgm_cli.factorization.matrices.semiseparable import generators, row_errors
from csgm_cli.factorization.solve.solver import column_norms, solve
from csgm_cli.factorization.strategies.rational import best_moves, moved, residues
from csgm_cli.factorization.workload import mean_and_max, structure
from csgm_cli.model.factorization import Dual, Generators, Objective, Workload

Array = NDArray[np.float64]

#: The poles are tuned at this many rows over the number of buffers, but at least _TUNED_ROWS, and at most T.
_TUNED_NUMBERS, _TUNED_ROWS = 8192, 256
#: Gap of the dual for tuning: small, since the excess of many poles is small too.
_TUNED_GAP = 1e-9


def check_streams(workload: Workload) -> None:
    """``UsageError`` (slug ``no-streaming-form``) for workloads with momentum and for matrices."""
    if workload.matrix is not None or workload.momentum:
        raise UsageError(
            "no-streaming-form",
            f"streaming needs prefix-sum or learning rates without momentum, got {workload.name}",
            "use optimal, whose factors are dense",
        )


def streaming_generators(workload: Workload, dual: Dual, objective: Objective, buffers: int) -> Generators:
    """C with ``buffers`` numbers of state, from the optimal ``dual`` of ``workload``.

    C^T C is D_v^(-1/2) r(K^-1) D_v^(-1/2) for the r with the smallest error in a family around Zolotarev's,
    which is tuned at a moderate T. The workload must pass ``check_streams``.
    """
    rows = min(workload.T, max(_TUNED_ROWS, _TUNED_NUMBERS // buffers))
    few, few_dual = workload, dual
    if rows < workload.T:
        few = Workload(rows, epochs=workload.epochs)
        few_dual = solve(few, objective, _TUNED_GAP).dual
    few_norms = column_norms(few, objective, few_dual)

    def error(points: Array) -> float:
        try:
            rows = row_errors(few, _generators(few, few_dual, points, few_norms))
        except NoAnswerError:  # points out of range
            return math.inf
        mean, worst = mean_and_max(few, rows)
        return mean if objective is Objective.MEAN else worst

    moves = best_moves(error, _first_points(few, few_dual, buffers))
    first = _first_points(workload, dual, buffers)
    points = moved(first, moves)
    return _generators(
        workload, dual, first if points is None else points, column_norms(workload, objective, dual)
    )


def _generators(workload: Workload, dual: Dual, points: Array, norms: Array) -> Generators:
    poles, zeros = points[::2], points[1::2]
    return generators(workload, dual, Poles(poles, residues(zeros, poles), math.inf, 1.0), norms)


def _first_points(workload: Workload, dual: Dual, buffers: int) -> Array:
    """Zolotarev's points on the range of most eigenvalues of K^-1, K = D_v^(1/2) A^T D_u A D_v^(1/2).

    The largest eigenvalue of K is comparable to its trace. Up to boundary effects, the eigenvalues of K^-1
    are below 4/(u_i v_i rates_i^2), of which the geometric mean is used.
    """
    rows, columns = np.asarray(dual.rows), np.asarray(dual.columns) * structure(workload).rates ** 2
    trace = float(columns @ np.cumsum(rows[::-1])[::-1])
    high = 4.0 * math.exp(-float(np.log(rows * columns).mean()))
    return zolotarev(min(0.5 / trace, high), high, buffers)
