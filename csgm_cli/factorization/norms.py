"""The norms of a factorization that privacy and error depend on: columns of C and rows of B."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.factorization.array_contents import (
    Arrays,
    bands_of,
    dual_of,
    generators_of,
    require_finite,
    wide,
)
from csgm_cli.factorization.bands.measure import row_errors as banded_rows
from csgm_cli.factorization.factorize import baseline_rows, optimal_rows
from csgm_cli.factorization.matrices.semiseparable import column_norms_squared, norm_margin, row_errors
from csgm_cli.factorization.matrices.triangular import left_quotient_panels, right_quotient, unit_columns
from csgm_cli.factorization.pair import Pair, is_triangular, pair_of, squared_norms
from csgm_cli.factorization.solve.solver import certificate
from csgm_cli.factorization.workload import columns, row_norms_squared
from csgm_cli.model.factorization import (
    DENSE,
    Dual,
    Factorization,
    Generators,
    Objective,
    ObjectiveLike,
    Strategy,
    StrategyLike,
    Workload,
    WorkloadLike,
    as_strategy,
    as_workload,
    objective_named,
)
from csgm_cli.model.mechanism import FactorNorms, RowNorms
from csgm_cli.ranges import check_type

Array = NDArray[np.float64]


def factor_norms(factorization: Factorization) -> FactorNorms:
    """The norms of ``factorization``, without a T x T array: what `Mechanism` takes.

    ``UsageError`` (slug ``out-of-range``) where the noise of such norms could not be computed with.
    """
    check_type("factorization", factorization, Factorization)
    squared = factorization.sensitivity_squared
    if factorization.generators is not None:
        squared = _streaming_sensitivity_squared(factorization.generators)
    for held in (factorization.band_matrix, factorization.factor):
        squared = squared if held is None else _most(np.asarray(held))
    return _norms(factorization.workload, factorization.strategy, squared, _rows(factorization))


def norms_of_arrays(
    workload: WorkloadLike,
    arrays: Arrays,
    objective: ObjectiveLike = Objective.MEAN,
    strategy: StrategyLike | None = None,
) -> FactorNorms:
    """The norms of what `inspect_arrays` inspects, with the same arguments and errors.

    The sensitivity is the largest that the arrays have together: noise may be made with any of C, C_inv, B
    and the streaming form, of which rounding makes slightly different factorizations.
    """
    workload = as_workload(workload)
    strategy = None if strategy is None else as_strategy(strategy)
    with np.errstate(all="ignore"):  # the result is checked
        return _measured(workload, arrays, objective_named(objective), strategy)


def norms_of_pair(workload: Workload, pair: Pair) -> FactorNorms:
    """The norms of B and C as they are; errors as for `norms_of_arrays`."""
    return _norms(workload, None, _most(pair.C), squared_norms(pair.B, axis=1))


def _measured(
    workload: Workload, arrays: Arrays, objective: Objective, strategy: Strategy | None
) -> FactorNorms:
    if (bands := bands_of(workload, arrays)) is not None:
        return _norms(workload, strategy, _most(bands), banded_rows(workload, bands))
    pair, generators = pair_of(workload, arrays), generators_of(workload, arrays)
    squares = [] if generators is None else [_streaming_sensitivity_squared(generators)]
    rows = None if generators is None else row_errors(workload, generators)
    if pair is not None:
        squares += _each_square(workload, arrays, pair.C)
        rows = squared_norms(pair.B, axis=1)
    if rows is None:
        dual = dual_of(workload, arrays, objective)
        if dual is None:
            raise UsageError(
                "incomplete-arrays", "it holds neither B nor C, nor a streaming form, nor a dual"
            )
        squares, rows = [1.0], _dual_rows(workload, objective, dual)
    return _norms(workload, strategy, max(squares), rows)


def _each_square(workload: Workload, arrays: Arrays, c: NDArray[np.floating]) -> Iterator[float]:
    """The squared sensitivity of C as each of the arrays has it."""
    yield _most(c)
    if len(arrays.keys() & set(DENSE)) > 1:
        for name in sorted(arrays.keys() & {"B", "C_inv"}):
            yield from _squares_of_noise(workload, name, arrays[name])


def noise_sensitivity(workload: Workload, name: str, matrix: NDArray[np.floating]) -> float:
    """The least sensitivity of a C of which ``matrix`` is the B (or C^-1, by ``name``): noise needs no more.

    Whatever the factorization is said to be. Infinity where ``matrix`` has no full rank.
    """
    with np.errstate(all="ignore"):  # the result is checked
        squares = list(_squares_of_noise(workload, name, matrix))
    return _root_above(squares[0]) if squares and math.isfinite(squares[0]) else math.inf


def _squares_of_noise(workload: Workload, name: str, matrix: NDArray[np.floating]) -> Iterator[float]:
    """That of noise B Z is that of B^-1 A or B^+ A, of noise C^-1 Z likewise; none without full rank."""
    x = wide(matrix)
    if not is_triangular(x):  # L Q has the columns of L^-1 A turned: of the same norms
        x = np.asarray(np.linalg.qr(x.T, mode="r")).T
    if is_triangular(x):  # else no product with it is A
        a = partial(columns, workload) if name == "B" else unit_columns(workload.T)
        yield max(_most(panel) for _, panel in left_quotient_panels(x, a))


def _most(c: NDArray[np.floating]) -> float:
    """At least the largest squared column norm: each sum's relative rounding is below its length in ulps."""
    return float(squared_norms(c, axis=0).max()) * (1.0 + (len(c) + 2) * 2.0**-53)


def _streaming_sensitivity_squared(generators: Generators) -> float:
    return float(column_norms_squared(generators).max()) * (1.0 + norm_margin(generators))


def _rows(found: Factorization) -> Array:
    """The squared norm of each row of B."""
    workload = found.workload
    if found.band_matrix is not None:
        return banded_rows(workload, np.asarray(found.band_matrix))
    if found.factor is not None:
        b = right_quotient(columns(workload, 0, workload.T), np.asarray(found.factor, np.float64))
        return squared_norms(b, axis=1)
    if found.generators is not None:
        return row_errors(workload, found.generators)
    if found.dual is not None:
        return _dual_rows(workload, found.objective, found.dual)
    return baseline_rows(workload, found.strategy.name, found.series)


def _dual_rows(workload: Workload, objective: Objective, dual: Dual) -> Array:
    return optimal_rows(workload, certificate(workload, objective, dual))


def _norms(workload: Workload, strategy: Strategy | None, squared: float, rows: Array) -> FactorNorms:
    """``squared``: at least the squared sensitivity; ``rows``: squared norms of the rows of B."""
    summed = row_norms_squared(workload)
    norms = np.sqrt(rows)
    require_finite(squared)
    require_finite(rows)
    return FactorNorms(
        workload.T,
        workload.name,
        None if strategy is None else str(strategy),
        _root_above(squared),
        RowNorms(
            float(norms.min()),
            float(norms.mean()),
            float(norms.max()),
            float(rows.mean()),
            float(rows[-1]),
            float(summed.mean()),
            float(summed[-1]),
        ),
    )


def _root_above(x: float) -> float:
    """The square root of ``x``, or the next float above it."""
    root = math.sqrt(x)
    return root if Fraction(root) ** 2 >= Fraction(x) else math.nextafter(root, math.inf)
