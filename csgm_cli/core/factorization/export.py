"""Factorizations as they are written: rounded to a precision, and measured after that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.factorization.dense import Precision, dense_factors
from csgm_cli.core.factorization.factorize import factorization_of
from csgm_cli.core.factorization.semiseparable import row_errors
from csgm_cli.factorization_model import Factorization, Factors, Generators

Array = NDArray[np.float64]

#: Column norms of a streaming form are summed in float64; this margin exceeds their rounding.
_MARGIN = 2.0**-40


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
    while (squared := float(column_norms_squared(g).max())) > 1.0 - _MARGIN:
        scale *= (1.0 - _MARGIN) / squared**0.5 * (1.0 - float(np.finfo(precision).eps))
        g = _rounded(exact, precision, scale)
    rows = squared * row_errors(factorization.workload, _widened(g))
    return replace(
        factorization,
        generators=g,
        sensitivity_squared=squared,
        mean_squared_error=float(rows.mean()),
        max_squared_error=float(rows.max()),
    )


def _rounded(g: Generators, precision: Precision, scale: float) -> Generators:
    """C times ``scale``, in ``precision``."""

    def cast(x: Any, factor: float = 1.0) -> Any:  # noqa: ANN401 - arrays of either precision
        return (factor * x.astype(np.float64)).astype(precision)

    return Generators(cast(g.decays), cast(g.inputs), cast(g.outputs, scale), cast(g.diagonal, scale))


def _widened(g: Generators) -> Generators:
    return Generators(*(part.astype(np.float64) for part in (g.decays, g.inputs, g.outputs, g.diagonal)))


def column_norms_squared(generators: Generators) -> Array:
    """The squared norm of each column of C, in O(T N^2), in float64 whatever the precision."""
    g = _widened(generators)
    norms = g.diagonal**2
    gram = np.zeros((g.decays.shape[1],) * 2)  # of the rows of C that are yet to come, at this state
    for i in reversed(range(len(norms))):
        norms[i] += g.inputs[i] @ gram @ g.inputs[i]
        gram = gram * g.decays[i] * g.decays[i][:, None] + np.outer(g.outputs[i], g.outputs[i])
    return np.asarray(norms)
