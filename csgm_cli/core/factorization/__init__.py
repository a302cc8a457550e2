"""Factorizations A = B C of workloads: optimal with a certificate, streaming, and the usual baselines.

``parse_workload``, ``schedule_workload``, ``matrix_workload`` make a workload;
``factorize`` finds the factorization, ``dense_factors`` its arrays. Nothing here reads or writes files.
"""

from csgm_cli.core.factorization.dense import dense_bytes, dense_factors
from csgm_cli.core.factorization.factorize import factorize
from csgm_cli.core.factorization.workload import matrix_workload, parse_workload, schedule_workload

__all__ = [
    "dense_bytes",
    "dense_factors",
    "factorize",
    "matrix_workload",
    "parse_workload",
    "schedule_workload",
]
