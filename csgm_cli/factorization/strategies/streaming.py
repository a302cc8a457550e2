"""``streaming:N``: which N poles make the best factorization with N buffers."""

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

#: The poles are tuned with so many numbers in buffers, or at T where that is fewer.
_TUNED_NUMBERS, _TUNED_ROWS = 8192, 256
#: The gap of the weights that they are tuned with: what many poles leave is less than that of worse ones.
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

    C^T C is D_v^(-1/2) r(K^-1) D_v^(-1/2) for the r with the least error among those moved from Zolotarev's;
    it is found at a moderate T. The workload must pass ``check_streams``.
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
        except NoAnswerError:  # moved too far
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
    """Zolotarev's points where most eigenvalues of K^-1 are, K = D_v^(1/2) A^T D_u A D_v^(1/2).

    The largest of K is of the size of its trace. Up to what its ends add, those of K^-1 are below four times
    the reciprocals of u_i v_i rates_i^2, of which the geometric mean is taken.
    """
    rows, columns = np.asarray(dual.rows), np.asarray(dual.columns) * structure(workload).rates ** 2
    trace = float(columns @ np.cumsum(rows[::-1])[::-1])
    high = 4.0 * math.exp(-float(np.log(rows * columns).mean()))
    return zolotarev(min(0.5 / trace, high), high, buffers)
