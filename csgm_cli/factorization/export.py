"""Factorizations to be written: rounded to a precision, measured, and checked against their claims."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.factorization.array_contents import AGREE
from csgm_cli.factorization.bands.factorize import banded_factorization
from csgm_cli.factorization.dense import Precision, dense_factors, fitting_scale
from csgm_cli.factorization.factorize import factorization_of
from csgm_cli.factorization.inspection import alike
from csgm_cli.factorization.matrices.semiseparable import cast, column_norms_squared, norm_margin, row_errors
from csgm_cli.factorization.norms import noise_sensitivity, norms_of_arrays, norms_of_pair
from csgm_cli.factorization.pair import Pair, pair_of, squared_norms
from csgm_cli.factorization.participation.measure import participation_of, participation_of_arrays
from csgm_cli.factorization.workload import inverse_norm_bound, mean_and_max
from csgm_cli.model.factorization import DENSE, StrategyName
from csgm_cli.ranges import check_range

if TYPE_CHECKING:
    from csgm_cli.model.factorization import AnyFloatArray, Factorization, Factors, Generators, Workload
    from csgm_cli.model.participation import Participation

#: By how much more sensitivity noise made with the rounded arrays may need than their C has.
_FAITHFUL = {"float32": 1e-3, "float64": 1e-6}
#: By how much rounding may enlarge a gap that is larger than the tolerance: a strategy's, not a solver's.
_ROUNDED_GAP = 1.01
#: What may be written where all arrays together ask for too much.
_FEWER = (("C", "C_inv"), ("B", "C"))


def rounded(
    factorization: Factorization,
    precision: Precision = "float64",
    *,
    arrays: Collection[str] = DENSE,
    tolerance: float = 1.0,
) -> tuple[Factorization, Factors | None]:
    """The factorization in ``precision`` with the numbers that hold after rounding, and its dense factors.

    ``arrays``: what is to be kept of it. The sensitivity is not above what it was (1 for ``optimal`` and
    ``streaming``), the errors are those of the rounded arrays: of those of B, C and C_inv that are in
    ``arrays``, or without any (then None) of the rounded streaming form. The dual is not rounded: where it is
    all there is, its errors are computed to all digits.

    ``NoAnswerError`` (slug ``not-certified``) where arrays in ``precision`` have a gap above ``tolerance``
    (in float32, 1e-6 above what the dual attains) though they are ``optimal``, or make noise that needs more
    than the sensitivity of their C, by 1e-6 of it (1e-3 in float32), or errors by more than a hundredth other
    than those of their strategy. ``UsageError`` (slug ``out-of-range``) for numbers that ``precision`` cannot
    hold, or beyond what mechanisms take.
    """
    if factorization.band_matrix is not None:
        return _rounded_bands(factorization, precision, tolerance), None
    attained = factorization
    if factorization.generators is not None:
        factorization = _streaming(factorization, factorization.generators, precision)
    elif factorization.dual is not None:
        exact = factorization_of(factorization.workload, factorization.objective, factorization.dual)
        attained = factorization = replace(exact, iterations=factorization.iterations)
    kept = [name for name in DENSE if name in arrays]
    factors = None
    if kept:
        factorization, factors = _measured(factorization, precision, kept)
    check_range("sensitivity", factorization.sensitivity)
    if factors is not None:
        _check_noise(factorization, factors, kept, precision)
    if factorization.strategy.name is StrategyName.OPTIMAL:
        _check_gap(factorization, attained, precision if kept else "float64", tolerance)
    elif factorization.generators is None and not alike(factorization, attained):
        raise NoAnswerError(
            "not-certified",
            f"the arrays in {precision} would not have the errors of {factorization.strategy}",
            "`dtype` float64" if precision == "float32" else "`strategy` optimal",
        )
    return factorization, factors


def _rounded_bands(factorization: Factorization, precision: Precision, tolerance: float) -> Factorization:
    """With bands in ``precision``, columns no longer than they were, measured again."""
    bands = np.array(factorization.band_matrix, dtype=np.float64)
    bands *= fitting_scale(bands, factorization.sensitivity, precision)
    found = banded_factorization(
        factorization.workload,
        factorization.strategy,
        factorization.objective,
        factorization.participation,
        bands.astype(precision).astype(np.float64),
        factorization.band_dual,
    )
    if found.gap > max(tolerance, factorization.gap * _ROUNDED_GAP):
        raise NoAnswerError(
            "not-certified",
            f"the bands in {precision} would have a gap of {found.gap:.2g}, where {factorization.gap:.2g} was"
            " certified",
            "`dtype` float64" if precision == "float32" else "use a larger `tolerance`",
        )
    check_range("sensitivity", found.sensitivity)
    bands = np.asarray(found.band_matrix, dtype=precision)
    return replace(found, band_matrix=bands, iterations=factorization.iterations)


def noise_matrix(
    factorization: Factorization, name: Literal["B", "C_inv"], precision: Precision
) -> tuple[AnyFloatArray | None, float]:
    """B or C_inv in ``precision``, None where there is none, and by what its noise has to be larger.

    Rounded it is exactly that of another C: the second number, at least 1, is the sensitivity of that one
    over the factorization's, also for the participations that this was made for. ``NoAnswerError`` (slug
    ``not-certified``) where it is too large, as `rounded`.
    """
    matrix: AnyFloatArray | None = getattr(dense_factors(factorization, precision), name)
    if matrix is None:
        return None, 1.0
    needed = noise_sensitivity(factorization.workload, name, matrix) / factorization.sensitivity
    if factorization.participation is not None and math.isfinite(needed):
        needed = max(needed, _repeated_growth(factorization, factorization.participation, name, matrix))
    if not needed <= 1.0 + _FAITHFUL[precision]:
        raise _ill_conditioned([name], precision)
    return matrix, max(1.0, needed)


def _repeated_growth(
    factorization: Factorization, participation: Participation, name: str, matrix: AnyFloatArray
) -> float:
    """The sensitivities of noise made with ``matrix`` for clients that take part so, over those of C."""
    workload, objective = factorization.workload, factorization.objective
    ours = participation_of(factorization, participation)
    theirs = participation_of_arrays(workload, {name: matrix}, objective, participation)
    return max(
        theirs.joint_sensitivity / ours.joint_sensitivity,
        theirs.release_sensitivity / ours.release_sensitivity,
    )


def _measured(
    factorization: Factorization, precision: Precision, kept: Collection[str]
) -> tuple[Factorization, Factors]:
    """With the numbers of the arrays ``kept``, which are those of the file's reader."""
    limit, extra = factorization, float(np.finfo(precision).eps)
    while True:
        factors = dense_factors(limit, precision)
        if {"B", "C_inv"} == set(kept):  # a reader has C from its inverse: B must be of that one
            inverted = _pair(limit, factors, ["C_inv"])
            factors = replace(factors, B=inverted.B.astype(precision))
        squared, mean, worst = _pair(limit, factors, kept).measured(factorization.workload)
        if "C" in kept or squared <= factorization.sensitivity_squared:
            measured = replace(
                factorization,
                sensitivity_squared=squared,
                mean_squared_error=mean,
                max_squared_error=worst,
            )
            return measured, factors
        if not squared <= factorization.sensitivity_squared * (1.0 + _FAITHFUL[precision]) ** 2:
            raise _ill_conditioned(kept, precision)
        # The C of a rounded inverse is not the rounded C.
        shrunk = factorization.sensitivity_squared / squared * (1.0 - extra)
        limit = replace(limit, sensitivity_squared=limit.sensitivity_squared * shrunk)
        extra *= 2.0
        del factors  # before there are others


def _pair(factorization: Factorization, factors: Factors, kept: Collection[str]) -> Pair:
    pair = pair_of(factorization.workload, {name: getattr(factors, name) for name in kept})
    assert pair is not None  # something is kept
    return pair


def _check_noise(
    factorization: Factorization, factors: Factors, kept: Collection[str], precision: Precision
) -> None:
    """Raise ``NoAnswerError`` where arrays, each rounded by itself, no longer belong to one another."""
    if _is_faithful(factorization, factors, kept, precision):
        return
    fewer = [names for names in _FEWER if set(names) < set(kept)]
    fewer = [names for names in fewer if _is_faithful(factorization, factors, names, precision)]
    raise _ill_conditioned(kept, precision, f"`arrays` {','.join(fewer[0])}" if fewer else "")


def _ill_conditioned(kept: Collection[str], precision: Precision, hint: str = "") -> NoAnswerError:
    return NoAnswerError(
        "not-certified",
        f"this workload is too ill-conditioned for {precision}: noise made with the rounded"
        f" {' or '.join(kept)} would need more sensitivity than C has",
        "`dtype` float64" if precision == "float32" else hint,
    )


def _is_faithful(
    factorization: Factorization, factors: Factors, names: Collection[str], precision: Precision
) -> bool:
    workload, arrays = factorization.workload, {name: getattr(factors, name) for name in names}
    most = factorization.sensitivity * (1.0 + _FAITHFUL[precision])
    try:
        if "C" in names and math.isfinite(growth := _noise_growth(workload, factors)):
            pair = _pair(factorization, factors, names)
            if norms_of_pair(workload, pair).sensitivity * growth <= most:
                return True
        return norms_of_arrays(workload, arrays, factorization.objective).sensitivity <= most
    except UsageError:  # beyond what mechanisms take
        return False


def _noise_growth(workload: Workload, factors: Factors) -> float:
    """At most so many times the sensitivity of C is that of noise made with B or C^-1; in O(T^2).

    Both are X with E = X C - A (for C^-1: X C - 1), where column j of E is at most eps ||X||_F ||C e_j||
    long, by `right_quotient` and the rounding of X and C; for C^-1 = A^-1 B it is at most eps ||A^-1||
    ||B||_F ||C e_j||. Noise X Z has the sensitivity of X^-1 A = C - X^-1 E, and X^-1 = C (A + E)^-1, so that
    no column is longer than 1 + off / (1 - off) times that of C. Infinity where A + E might be singular.
    """
    b, c, inverse = (_frobenius(x) for x in (factors.B, factors.C, factors.C_inv))
    eps = (len(factors.C) + 4.0) * 2.0**-53 + 4.0 * float(np.finfo(factors.C.dtype).eps)
    off = eps * c * max(inverse, b * inverse_norm_bound(workload))
    return 1.0 + off / (1.0 - off) if off < 0.5 else math.inf


def _frobenius(x: AnyFloatArray | None) -> float:
    return math.inf if x is None else math.sqrt(float(squared_norms(x, axis=1).sum()))


def _check_gap(found: Factorization, attained: Factorization, precision: Precision, tolerance: float) -> None:
    """Raise ``NoAnswerError`` unless optimal arrays are optimal to the tolerance after rounding."""
    rounding = AGREE[precision]
    holds = found.squared_error <= attained.squared_error * (1.0 + rounding)
    if holds and (precision == "float32" or found.gap <= tolerance):
        return
    if precision == "float32":
        hint = "`dtype` float64"
    elif holds:
        hint = f"`tolerance` {10.0 ** math.ceil(math.log10(found.gap)):g} can be reached"
    else:
        hint = "`arrays` v writes the dual alone"
    raise NoAnswerError(
        "not-certified",
        f"the arrays in {precision} would have a gap of {found.gap:.2g} at T = {found.T},"
        f" where {attained.gap:.2g} was certified",
        hint,
    )


def _streaming(factorization: Factorization, exact: Generators, precision: Precision) -> Factorization:
    g, scale = _rounded(exact, precision, 1.0), 1.0
    most = 1.0 - norm_margin(exact)
    while (squared := float(column_norms_squared(g).max())) > most:
        scale *= most / squared**0.5 * (1.0 - float(np.finfo(precision).eps))
        g = _rounded(exact, precision, scale)
    rows = squared * row_errors(factorization.workload, cast(g, np.float64))
    mean, worst = mean_and_max(factorization.workload, rows)
    return replace(
        factorization,
        generators=g,
        sensitivity_squared=squared,
        mean_squared_error=mean,
        max_squared_error=worst,
    )


def _rounded(g: Generators, precision: Precision, scale: float) -> Generators:
    """C times ``scale``, in ``precision``."""
    wide = cast(g, np.float64)
    return cast(replace(wide, outputs=scale * wide.outputs, diagonal=scale * wide.diagonal), precision)
