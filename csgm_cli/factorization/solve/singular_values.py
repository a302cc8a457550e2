"""Singular values and right singular vectors of a weighted workload, accurate for graded matrices too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.solve.oracle import SINGULAR_ERROR

if TYPE_CHECKING:
    from csgm_cli.model.factorization import Dual

Array = NDArray[np.float64]

#: An ordinary decomposition is accurate enough where no weight is below this share of the largest.
_EVEN = 1e-5
#: Options of LAPACK's gejsv: a matrix with strongly scaled rows and columns; no left singular vectors.
_GRADED, _NO_LEFT_VECTORS = 2, 3


def singular_pairs(w: Array, dual: Dual) -> tuple[Array, Array]:
    """Singular values and right singular vectors (as rows) of W = ``w``, weighted by ``dual``.

    Where weights tend to 0, an error relative to the largest value would be divided by them. Jacobi's method
    (LAPACK's gejsv, Drmac and Veselic 2008) is accurate to the digits of each column for a matrix that is
    graded by rows and columns like this one, but several times slower.
    """
    weights = np.concatenate([dual.columns / dual.columns.max(), dual.rows / dual.rows.max()])
    if weights.min() > _EVEN:
        _, values, right = np.linalg.svd(w)
        return np.maximum(values, SINGULAR_ERROR * values[0]), right  # below are no digits
    from scipy.linalg import lapack

    scaled, _, vectors, work, _, _ = lapack.dgejsv(w, joba=_GRADED, jobu=_NO_LEFT_VECTORS)
    return scaled * (work[0] / work[1]), vectors.T
