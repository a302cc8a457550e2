"""Factorizations A = B C of workloads: optimal with a certificate, streaming, and the usual baselines.

``parse_workload``, ``schedule_workload``, ``matrix_workload`` make a workload; ``factorize`` finds the
factorization, ``compare_strategies`` all of them; ``rounded`` makes the arrays to export, ``inspect_arrays``
recomputes everything from arrays; ``factor_norms`` are what a mechanism needs to know. Nothing here reads
or writes files.
"""

from csgm_cli.factorization.array_contents import inspecting_bytes, rows_of, workload_of, workload_within
from csgm_cli.factorization.bands.factorize import band_tolerance
from csgm_cli.factorization.comparison import (
    compare_participations,
    compare_strategies,
    compared_bytes,
    strategies_by_size,
)
from csgm_cli.factorization.dense import dense_factors, factor_rows, rows_take_all
from csgm_cli.factorization.export import rounded
from csgm_cli.factorization.factorize import default_tolerance, factorize
from csgm_cli.factorization.fixed_order import FIXED_ORDER_TOLERANCE
from csgm_cli.factorization.inspection import inspect_arrays
from csgm_cli.factorization.memory import dense_bytes, solving_bytes
from csgm_cli.factorization.norms import factor_norms, norms_of_arrays
from csgm_cli.factorization.participation.measure import (
    equally_private,
    repeated_bytes,
    repeated_bytes_of_arrays,
)
from csgm_cli.factorization.workload import matrix_workload, over_epochs, parse_workload, schedule_workload

__all__ = [
    "FIXED_ORDER_TOLERANCE",
    "band_tolerance",
    "compare_participations",
    "compare_strategies",
    "compared_bytes",
    "default_tolerance",
    "dense_bytes",
    "dense_factors",
    "equally_private",
    "factor_norms",
    "factor_rows",
    "factorize",
    "inspect_arrays",
    "inspecting_bytes",
    "matrix_workload",
    "norms_of_arrays",
    "over_epochs",
    "parse_workload",
    "repeated_bytes",
    "repeated_bytes_of_arrays",
    "rounded",
    "rows_of",
    "rows_take_all",
    "schedule_workload",
    "solving_bytes",
    "strategies_by_size",
    "workload_of",
    "workload_within",
]
