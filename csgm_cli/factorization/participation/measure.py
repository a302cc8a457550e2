"""Sensitivities of a factorization under repeated participation, from its arrays or from its strategy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.factorization.array_contents import (
    Arrays,
    bands_of,
    dual_of,
    generators_of,
    incomplete,
)
from csgm_cli.factorization.dense import dense_factors
from csgm_cli.factorization.factorize import factorization_of
from csgm_cli.factorization.matrices.semiseparable import dense_from
from csgm_cli.factorization.matrices.triangular import left_quotient
from csgm_cli.factorization.memory import dense_bytes
from csgm_cli.factorization.pair import noise_quotient, pair_of
from csgm_cli.factorization.participation.gram import Gram, gram_of, gram_of_bands
from csgm_cli.factorization.participation.sensitivity import (
    repeated_participation,
    toeplitz_participation,
)
from csgm_cli.model.factorization import (
    DENSE,
    Factorization,
    Generators,
    Objective,
    StrategyName,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from csgm_cli.model.participation import Participation, RepeatedParticipation

#: Relative error of a C that is recomputed from its strategy.
_COMPUTED = 2.0**-40
#: Strategies other than bands that take no T x T array.
_SMALL = (StrategyName.IDENTITY, StrategyName.TOEPLITZ_SQRT, StrategyName.BLT)
#: T x T float64 arrays alive at the peak: X, its diagonals twice, and tables of partial sums.
_GRAM_ARRAYS = 6
#: k x k ones of `toeplitz_participation`.
_SERIES_ARRAYS = 3


def repeated_bytes(workload: Workload, strategy: StrategyName | None = None) -> int:
    """About the peak memory of `participation_of`, or of `participation_of_arrays` with T x T arrays."""
    if strategy in _SMALL or (strategy is not None and strategy.is_banded):
        return 0
    return dense_bytes(workload) + 8 * _GRAM_ARRAYS * workload.T**2


def repeated_bytes_of_arrays(workload: Workload, arrays: Arrays, asked: Participation) -> int:
    """About the peak memory of `participation_of_arrays`."""
    if "bands" in arrays:
        return 0
    if _decreasing_of(workload, arrays, asked) is not None:
        return 8 * _SERIES_ARRAYS * asked.participations**2
    return repeated_bytes(workload)


def participation_of(found: Factorization, asked: Participation) -> RepeatedParticipation:
    """The sensitivities of the C of ``found`` for the participation ``asked``."""
    fast = None if asked.fixed_order else _of_series(found, asked)
    if fast is not None:
        return fast
    return repeated_participation(_gram(found, asked.min_separation), asked)


def equally_private(found: Factorization) -> Factorization:
    """The errors of ``blt`` at the privacy of as many releases of sensitivity 1 as there are participations.

    Its sensitivity is then that of each of so many releases that have its joint sensitivity together, which
    is for vectors that are sent whole.
    """
    asked = found.participation
    assert found.generators is not None  # as `factorize` makes it
    assert asked is not None
    column, total = _first_column(found.generators), np.zeros(found.T)
    for start in range(0, asked.participations * asked.min_separation, asked.min_separation):
        total[start:] += column[: found.T - start]
    squared = float(total @ total) / asked.participations
    larger = squared / found.sensitivity_squared
    return replace(
        found,
        sensitivity_squared=squared,
        mean_squared_error=larger * found.mean_squared_error,
        max_squared_error=larger * found.max_squared_error,
    )


def _first_column(generators: Generators) -> NDArray[np.float64]:
    """That of C of a filter whose rows are all the same, so that C is Toeplitz."""
    powers = np.asarray(generators.decays)[0] ** np.arange(len(generators.diagonal) - 1)[:, None]
    weights = np.asarray(generators.outputs)[0] * np.asarray(generators.inputs)[0]
    return np.concatenate([np.asarray(generators.diagonal)[:1], powers @ weights])


def _decreasing(generators: Generators) -> NDArray[np.float64] | None:
    """The first column of a Toeplitz C of decreasing entries; None for any other C."""
    rows = (generators.decays, generators.inputs, generators.outputs, generators.diagonal)
    if any(np.ptp(np.asarray(row), axis=0).any() for row in rows):
        return None
    with np.errstate(all="ignore"):  # what is not finite does not decrease
        column = _first_column(generators)
        return column if column[-1] >= 0.0 and (np.diff(column) <= 0.0).all() else None


def _decreasing_of(workload: Workload, arrays: Arrays, asked: Participation) -> NDArray[np.float64] | None:
    """As `_decreasing`, where ``arrays`` have no other factors and the order is not fixed."""
    if asked.fixed_order or not arrays.keys().isdisjoint(DENSE):
        return None
    generators = generators_of(workload, arrays)
    return None if generators is None else _decreasing(generators)


def _of_series(found: Factorization, asked: Participation) -> RepeatedParticipation | None:
    if found.strategy.name is StrategyName.BLT and found.generators is not None:
        column = _decreasing(found.generators)
        return None if column is None else _of_column(column, asked)
    if found.series is None or found.strategy.name is StrategyName.TOEPLITZ_SQRT_NORMALIZED:
        return None
    return _of_column(np.asarray(found.series)[1], asked)


def _of_column(column: NDArray[np.float64], asked: Participation) -> RepeatedParticipation | None:
    return toeplitz_participation(column, asked.participations, asked.min_separation, _COMPUTED)


def participation_of_arrays(
    workload: Workload, arrays: Arrays, objective: Objective, asked: Participation
) -> RepeatedParticipation:
    """The largest sensitivities that the arrays have together, as in `norms_of_arrays`."""
    column = _decreasing_of(workload, arrays, asked)
    if column is not None and (alone := _of_column(column, asked)) is not None:
        return alone
    found = [
        repeated_participation(gram, asked)
        for gram in _grams(workload, arrays, objective, asked.min_separation)
    ]
    return replace(
        found[0],
        joint_sensitivity=max(each.joint_sensitivity for each in found),
        release_sensitivity=max(each.release_sensitivity for each in found),
        is_exact=all(each.is_exact for each in found),
        is_attained=all(each.is_attained for each in found),
    )


def _gram(found: Factorization, separation: int) -> Gram:
    if found.band_matrix is not None:
        return gram_of_bands(np.asarray(found.band_matrix), separation)
    if found.strategy.name is StrategyName.IDENTITY:
        return Gram(np.ones(found.T), np.zeros((0, found.T)), separation, 0.0)
    gram = gram_of(dense_factors(found).C, separation)
    return replace(gram, rounding=gram.rounding + _COMPUTED * float(gram.diagonal.max()))


def _grams(workload: Workload, arrays: Arrays, objective: Objective, separation: int) -> Iterator[Gram]:
    if (bands := bands_of(workload, arrays)) is not None:
        yield gram_of_bands(bands, separation)
        return
    generators, pair = generators_of(workload, arrays), pair_of(workload, arrays)
    if generators is not None:
        gram = gram_of(dense_from(generators), separation)
        yield replace(gram, rounding=gram.rounding + _COMPUTED * float(gram.diagonal.max()))
    if pair is not None:
        yield gram_of(pair.C, separation)
        for c in _other_factors(workload, arrays):
            yield gram_of(c, separation)
    if generators is None and pair is None:
        dual = dual_of(workload, arrays, objective)
        if dual is None:
            raise incomplete("it holds neither B nor C, nor a streaming form, nor a dual")
        yield _gram(factorization_of(workload, objective, dual), separation)


def _other_factors(workload: Workload, arrays: Arrays) -> Iterator[NDArray[np.floating]]:
    """The C of noise generated with B or C_inv, if C was not computed from that array."""
    if len(arrays.keys() & set(DENSE)) > 1:
        for name in sorted(arrays.keys() & {"B", "C_inv"}):
            quotient = noise_quotient(workload, name, arrays[name])
            if quotient is not None:
                yield left_quotient(*quotient)
