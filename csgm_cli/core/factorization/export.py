"""Factorizations as they are written: rounded to a precision, and measured after that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.factorization.dense import Precision, dense_factors
from csgm_cli.core.factorization.factorize import factorization_of
from csgm_cli.core.factorization.semiseparable import cast, column_norms_squared, norm_margin, row_errors

if TYPE_CHECKING:
    from csgm_cli.factorization_model import Factorization, Factors, Generators


def rounded(
    factorization: Factorization, precision: Precision = "float64", *, dense: bool = True
) -> tuple[Factorization, Factors | None]:
    """The factorization in ``precision`` with the numbers that hold after rounding, and its dense factors.

    The sensitivity is not above what it was (1 for ``optimal`` and ``streaming``), the errors are those of
    the rounded arrays: of the dense factors, or without ``dense`` (then None) of the rounded streaming form.
    The dual is not rounded: where it is all there is, its errors are computed to all digits.
    """
    if factorization.generators is not None:
        factorization = _streaming(factorization, factorization.generators, precision)
    elif factorization.dual is not None and not dense:
        exact = factorization_of(factorization.workload, factorization.objective, factorization.dual)
        factorization = replace(exact, iterations=factorization.iterations)
    if not dense:
        return factorization, None
    factors = dense_factors(factorization, precision)
    measured = replace(
        factorization,
        sensitivity_squared=factors.sensitivity**2,
        mean_squared_error=factors.mean_squared_error,
        max_squared_error=factors.max_squared_error,
    )
    return measured, factors


def _streaming(factorization: Factorization, exact: Generators, precision: Precision) -> Factorization:
    g, scale = _rounded(exact, precision, 1.0), 1.0
    most = 1.0 - norm_margin(exact)
    while (squared := float(column_norms_squared(g).max())) > most:
        scale *= most / squared**0.5 * (1.0 - float(np.finfo(precision).eps))
        g = _rounded(exact, precision, scale)
    rows = squared * row_errors(factorization.workload, cast(g, np.float64))
    return replace(
        factorization,
        generators=g,
        sensitivity_squared=squared,
        mean_squared_error=float(rows.mean()),
        max_squared_error=float(rows.max()),
    )


def _rounded(g: Generators, precision: Precision, scale: float) -> Generators:
    """C times ``scale``, in ``precision``."""
    wide = cast(g, np.float64)
    return cast(replace(wide, outputs=scale * wide.outputs, diagonal=scale * wide.diagonal), precision)
