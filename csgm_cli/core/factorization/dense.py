"""B, C and C^-1 as T x T arrays, and the memory that takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.factorization.semiseparable import dense_from, generators
from csgm_cli.core.factorization.quadrature import poles_for
from csgm_cli.core.factorization.workload import apply, dense, structure
from csgm_cli.model import Dual, Workload

Array = NDArray[np.float64]
_LEAF = 64
_ERROR = 1e-14


def optimal_factor(workload: Workload, dual: Dual) -> Array:
    """The lower-triangular C, columns of norm 1, of the factorization that belongs to ``dual``."""
    if workload.matrix is None and workload.momentum == 0.0:
        a = structure(workload)
        v = np.asarray(dual.columns) * a.rates**2
        flat = structure(Workload(workload.T))
        low, high = 1.0 / flat.trace_bound(v, dual.rows), flat.inverse_norm_bound(v, dual.rows)
        return dense_from(generators(workload, dual, poles_for(low, high, _ERROR)))
    root = np.sqrt(dual.columns)
    w = np.sqrt(dual.rows)[:, None] * dense(workload) * root
    _, values, right = np.linalg.svd(w)
    x = (right.T * values) @ right / (root * root[:, None])
    norms = np.sqrt(np.diag(x))
    x /= norms * norms[:, None]
    # C^T C = X with C lower-triangular: Cholesky from the last index to the first.
    return np.ascontiguousarray(np.linalg.cholesky(x[::-1, ::-1])[::-1, ::-1].T)


def triangular_inverse(c: Array) -> Array:
    """The inverse of a lower-triangular matrix, by halves, so that most of the work is matrix products."""
    n = len(c)
    if n <= _LEAF:
        return np.tril(np.linalg.inv(c))
    half = n // 2
    inverse = np.zeros_like(c)
    inverse[:half, :half] = triangular_inverse(c[:half, :half])
    inverse[half:, half:] = triangular_inverse(c[half:, half:])
    inverse[half:, :half] = -inverse[half:, half:] @ (c[half:, :half] @ inverse[:half, :half])
    return inverse
