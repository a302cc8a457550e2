"""Estimates of the peak memory of this package's computations; nothing is allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.model.factorization import StrategyName

if TYPE_CHECKING:
    from csgm_cli.model.factorization import Strategy, Workload

#: Measured bytes per row: of the solver, of a search or a streaming form (and of each of its buffers).
_PER_ROW = {"solver": 560, "momentum": 1000, "search": 900, "stream": 160, "buffer": 56}
#: T x T float64 arrays alive at the peak: of the solver for a matrix, of ``dense_factors`` without (three of
#: them and panels) and with a matrix or momentum.
_SOLVER_ARRAYS, _STRUCTURED_ARRAYS, _DENSE_ARRAYS = 7, 3.5, 7.25
#: T x T float64 arrays of the solver for a fixed order.
_FIXED_ORDER_ARRAYS = 12
#: Arrays of T x b numbers at the peak of an evaluation of a banded C, and the fewest rows of its blocks.
_BLOCK_ARRAYS, _LEAST_BLOCK = 40, 16


def bands_bytes(T: int, bands: int) -> int:  # noqa: N803 - the number of rows in every formula
    """About the peak memory of one evaluation of a banded C."""
    size = max(bands, _LEAST_BLOCK)
    return 8 * _BLOCK_ARRAYS * (T + size) * size


def solving_bytes(workload: Workload, strategy: Strategy, bands: int | None = None) -> int:
    """About the peak memory of `factorize`, with so many ``bands``."""
    if bands is not None:
        return bands_bytes(workload.T, bands)
    if strategy.name is StrategyName.FIXED_ORDER:
        return 8 * _FIXED_ORDER_ARRAYS * workload.T**2
    if workload.matrix is not None:
        return 8 * _SOLVER_ARRAYS * workload.T**2
    filtered = _PER_ROW["stream"] + _PER_ROW["buffer"] * (strategy.buffers or 0)
    if strategy.name in (StrategyName.BLT, StrategyName.BLT_NORMALIZED):  # no solver
        return workload.T * filtered
    row = _PER_ROW["momentum" if workload.momentum else "solver"]
    if strategy.name is StrategyName.TOEPLITZ_OPTIMAL:
        row = max(row, _PER_ROW["search"])
    return workload.T * max(row, filtered)


def dense_bytes(workload: Workload) -> int:
    """Peak memory of ``dense_factors`` and ``rounded``, in either precision, to a quarter for large T."""
    is_structured = workload.matrix is None and workload.momentum == 0.0
    return int(8 * workload.T**2 * (_STRUCTURED_ARRAYS if is_structured else _DENSE_ARRAYS))
