"""``streaming:N``: which N poles make the best factorization with N buffers."""

# ruff: noqa: N806 - T is the number of rows in every formula

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.factorization.matrices.quadrature import inverse_sqrt_poles
from csgm_cli.factorization.matrices.semiseparable import generators, row_errors
from csgm_cli.factorization.solve.solver import column_norms, solve
from csgm_cli.factorization.workload import mean_and_max, structure
from csgm_cli.model.factorization import Dual, Generators, Objective, Workload

Array = NDArray[np.float64]

#: The interval of the quadrature is tuned with so many numbers in buffers, or at T where that is fewer.
_TUNED_NUMBERS, _TUNED_ROWS = 8192, 256
#: The gap of the weights that it is tuned with: what many poles leave is less than that of worse ones.
_TUNED_GAP = 1e-9
_POWER_STEPS = 300
_SEARCH_STEPS = 10
#: One pole has the same error along a whole curve.
_WORTHWHILE = 1e-10


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

    The poles are those of the quadrature on the spectrum, its ends moved by the factors that are best at a
    moderate T: with few poles it pays to cover less. The workload must pass ``check_streams``.
    """
    rows = min(workload.T, max(_TUNED_ROWS, _TUNED_NUMBERS // buffers))
    few, few_dual = workload, dual
    if rows < workload.T:
        few = Workload(rows, epochs=workload.epochs)
        few_dual = solve(few, objective, _TUNED_GAP).dual
    factors = _best_factors(few, few_dual, objective, buffers)
    norms = column_norms(workload, objective, dual)
    return _generators(workload, dual, buffers, _spectrum(workload, dual), factors, norms)


def _generators(
    workload: Workload,
    dual: Dual,
    buffers: int,
    spectrum: tuple[float, float],
    factors: tuple[float, float],
    norms: Array,
) -> Generators:
    low, high = spectrum[0] * math.exp(factors[0]), spectrum[1] * math.exp(factors[1])
    return generators(workload, dual, inverse_sqrt_poles(low, max(low, high), buffers), norms)


def _best_factors(workload: Workload, dual: Dual, objective: Objective, buffers: int) -> tuple[float, float]:
    """Logarithmic factors for the ends of the interval, by a pattern search on the exact error."""
    spectrum, norms = _spectrum(workload, dual), column_norms(workload, objective, dual)

    def error(at: tuple[float, float]) -> float:
        rows = row_errors(workload, _generators(workload, dual, buffers, spectrum, at, norms))
        mean, worst = mean_and_max(workload, rows)
        return mean if objective is Objective.MEAN else worst

    best = (0.0, 0.0)
    least, step = error(best), 1.0
    for _ in range(_SEARCH_STEPS):
        low, high = best
        around = [(low + step, high), (low - step, high), (low, high + step), (low, high - step)]
        found = min((error(at), at) for at in around)
        if found[0] < least * (1.0 - _WORTHWHILE):
            least, best = found
        else:
            step /= 2.0
    return best


def _spectrum(workload: Workload, dual: Dual) -> tuple[float, float]:
    """About the least and largest eigenvalues of (D_v^(1/2) A^T D_u A D_v^(1/2))^-1, by power iteration."""
    root, rows = structure(workload).rates * np.sqrt(dual.columns), np.asarray(dual.rows)

    def forward(x: Array) -> Array:
        sums = np.cumsum(root * x) * rows
        return root * np.cumsum(sums[::-1])[::-1]

    def backward(x: Array) -> Array:
        differences = -np.diff(x / root, append=0.0) / rows
        return np.diff(differences, prepend=0.0) / root

    T = len(root)
    return 1.0 / _largest_eigenvalue(forward, np.ones(T)), _largest_eigenvalue(
        backward, np.cos(math.pi * np.arange(T))
    )


def _largest_eigenvalue(matrix: Callable[[Array], Array], x: Array) -> float:
    value = 0.0
    for _ in range(_POWER_STEPS):
        x = matrix(x)
        before, value = value, float(np.linalg.norm(x))
        x = x / value
        if abs(value - before) <= 1e-6 * value:
            break
    return value
