"""Recompute sensitivity, errors and claims of a factorization from its arrays."""

# ruff: noqa: N803 - C is what it is called in every formula

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import NoAnswerError
from csgm_cli.factorization.array_contents import (
    AGREE,
    MEASURED,
    Arrays,
    banded_dual_of,
    bands_of,
    check_arrays,
    dual_of,
    generators_of,
    incomplete,
    require_finite,
    wide,
    widened,
)
from csgm_cli.factorization.bands.measure import measured
from csgm_cli.factorization.factorize import factorization_of, factorize
from csgm_cli.factorization.fixed_order import overlap, problem_of, unpack_dual
from csgm_cli.factorization.matrices.semiseparable import column_norms_squared, dense_from, row_errors
from csgm_cli.factorization.matrices.triangular import unit_columns
from csgm_cli.factorization.pair import Pair, pair_of
from csgm_cli.factorization.solve.solver import Progress, lower_bound
from csgm_cli.factorization.workload import columns, mean_and_max
from csgm_cli.model.factorization import (
    BandedDual,
    Claim,
    Dual,
    Factorization,
    Generators,
    Inspection,
    Objective,
    ObjectiveLike,
    Strategy,
    StrategyLike,
    StrategyName,
    Workload,
    WorkloadLike,
    as_strategy,
    as_workload,
    objective_named,
)

if TYPE_CHECKING:
    from csgm_cli.model.participation import Participation

Array = NDArray[np.float64]

#: Relative difference up to which numbers are those of the arrays.
_TIGHT = 1e-9
#: And up to which errors are those of a strategy, for arrays in float32; by another they are further off.
_ALIKE = 1e-2


def inspect_arrays(
    workload: WorkloadLike,
    arrays: Arrays,
    objective: ObjectiveLike = Objective.MEAN,
    strategy: StrategyLike | None = None,
    claimed: Mapping[str, float] | None = None,
    *,
    participation: Participation | None = None,
    bands: int | None = None,
    progress: Progress | None = None,
) -> Inspection:
    """Recompute sensitivity, errors and bound of a factorization of ``workload`` from its ``arrays``.

    ``arrays`` (float32 or float64, finite): ``B`` (T, R) and ``C`` (R, T), or one of ``B``, ``C``, ``C_inv``
    of rank T, from which `pair_of` computes the rest; or the ``bands`` of C (P, T); or ``decays``,
    ``inputs``, ``outputs`` (T, N) and ``diagonal`` (T) of a streaming form; or the dual ``v`` (T; with ``u``,
    T, where it is needed) of an optimal one. The bound is what the dual proves, and without a dual the
    solver's, to 1e-9; of bands, that of all C with as many. ``claimed``: numbers by their key in a result;
    the errors and the sensitivity must be those found, the bound not above and the gap not below.
    ``strategy``, the ``participation`` and the number of ``bands``: claims too. Without ``claimed`` the
    arrays claim nothing; B C = A is checked all the same, as a claim whose ``claimed`` is None.

    ``UsageError`` where the arrays are not enough (slug ``incomplete-arrays``), the dual is not positive
    (``bad-dual``), or the numbers are too large to be squared (``out-of-range``).
    """
    workload = as_workload(workload)
    strategy = None if strategy is None else as_strategy(strategy)
    objective = objective_named(objective)
    check_arrays(workload, arrays)
    with np.errstate(all="ignore"):  # the result is checked
        if (matrix := bands_of(workload, arrays)) is not None:
            dual = banded_dual_of(workload, arrays, objective)
            found = _inspected_bands(workload, matrix, objective, strategy, claimed, dual)
            found = replace(found, participation=participation, bands=bands or len(matrix))
            return replace(found, claims=(*found.claims, *_band_claims(found, matrix)))
        return _inspected(workload, arrays, objective, strategy, claimed, progress, participation)


def _inspected_bands(
    workload: Workload,
    bands: Array,
    objective: Objective,
    strategy: Strategy | None,
    claimed: Mapping[str, float] | None,
    dual: BandedDual | None,
) -> Inspection:
    numbers = measured(workload, bands, dual)
    require_finite(numbers)
    found = Inspection(workload, strategy, objective, *numbers)
    return replace(found, claims=tuple(_number_claims(found, claimed or {})))


def _band_claims(found: Inspection, bands: Array) -> list[Claim]:
    """That columns which one client touches have no row in common, and that C is by its strategy."""
    held = int(np.flatnonzero(bands.any(axis=1)).max()) + 1
    claims = []
    if found.strategy is not None:
        claims.append(Claim("bands", found.bands, held, held <= (found.bands or 0)))
    if found.participation is not None:
        k, separation = found.participation.participations, found.participation.min_separation
        most = -(-found.T // separation)
        claims.append(Claim("participations", k, min(k, most), k <= most))
        claims.append(Claim("min_separation", separation, held, separation >= held))
    if found.strategy is not None and found.strategy.name is StrategyName.BANDED_TOEPLITZ:
        holds = all(np.ptp(row[: found.T - at]) == 0.0 for at, row in enumerate(bands))
        said = str(found.strategy)
        claims.append(Claim("strategy", said, said if holds else f"not {said}", holds))
    return claims


def _inspected(
    workload: Workload,
    arrays: Arrays,
    objective: Objective,
    strategy: Strategy | None,
    claimed: Mapping[str, float] | None,
    progress: Progress | None,
    participation: Participation | None,
) -> Inspection:
    dual = dual_of(workload, arrays, objective)
    bound = _class_bound(workload, arrays, strategy, participation)
    bound = bound or _bound(workload, objective, dual, progress)
    generators = generators_of(workload, arrays)
    pair = pair_of(workload, arrays)
    found = _measured(workload, pair, generators)
    is_optimal = strategy is not None and strategy.name is StrategyName.OPTIMAL
    if found is None:
        if dual is None or not (strategy is None or is_optimal):
            raise incomplete("it holds neither B nor C, nor a streaming form: nothing to measure")
        found = (1.0, bound.mean_squared_error, bound.max_squared_error)
    require_finite(found)
    inspection = Inspection(
        workload,
        strategy,
        objective,
        *found,
        bound.lower_bound,
        bound.iterations,
        participation=participation,
    )
    claims = _number_claims(inspection, claimed or {})
    products = _array_claims(workload, arrays, pair, generators)
    claims += products if claimed is not None else [replace(product, claimed=None) for product in products]
    claims += _strategy_claims(inspection, bound, generators)
    if participation is not None and participation.fixed_order and pair is not None:
        claims.append(_orthogonality(wide(pair.C), participation.min_separation, _agreement(arrays)))
    if is_optimal and dual is not None and (pair is not None or generators is not None):
        claims.append(_dual_claim(inspection, bound, _agreement(arrays)))
    return replace(inspection, claims=tuple(claims))


def _measured(
    workload: Workload, pair: Pair | None, generators: Generators | None
) -> tuple[float, float, float] | None:
    if pair is not None:
        return pair.measured(workload)
    if generators is None:
        return None
    squared = float(column_norms_squared(generators).max())
    return squared, *mean_and_max(workload, squared * row_errors(workload, generators))


def _class_bound(
    workload: Workload, arrays: Arrays, strategy: Strategy | None, participation: Participation | None
) -> Factorization | None:
    """With the bound of C for a fixed order that a dual in ``arrays`` proves; None without one.

    Another strategy is compared with all C, of which it is no bound.
    """
    packed = widened(arrays, "class_dual")
    if packed is None or participation is None:
        return None
    if strategy is not None and strategy.name is not StrategyName.FIXED_ORDER:
        return None
    separation = participation.min_separation
    least = problem_of(workload, separation).lower_bound(unpack_dual(packed, separation))
    return Factorization(
        workload, Strategy(StrategyName.FIXED_ORDER), Objective.MEAN, 1.0, least, least, least
    )


def _orthogonality(C: Array, separation: int, agree: float) -> Claim:
    """That columns which one client touches in a fixed order are orthogonal, up to rounding."""
    found = overlap(C, separation)
    return Claim("orthogonality", 0.0, found, found <= agree)


def _bound(
    workload: Workload, objective: Objective, dual: Dual | None, progress: Progress | None
) -> Factorization:
    """With the bound that ``dual`` proves; without one, the solver's."""
    if dual is not None:
        return factorization_of(workload, objective, dual)
    try:
        return factorize(workload, objective=objective, progress=progress)
    except NoAnswerError:  # a bound that is lower is still one
        weak = lower_bound(workload, objective)
        return Factorization(workload, Strategy(StrategyName.OPTIMAL), objective, 1.0, weak, weak, weak)


def _number_claims(found: Inspection, claimed: Mapping[str, float]) -> list[Claim]:
    """Numbers are those of the arrays as they are held, so that it does not matter in which precision."""
    claims = []
    for name, said in claimed.items():
        computed = getattr(found, name)
        if name == "T":
            holds = said == computed
        elif name == "lower_bound":
            holds = 0 < said <= computed * (1.0 + _TIGHT)
        elif name == "gap":
            holds = said >= computed - _TIGHT
        else:
            holds = abs(said - computed) <= _TIGHT * computed
        claims.append(Claim(name, said, computed, holds))
    return claims


def _array_claims(
    workload: Workload, arrays: Arrays, pair: Pair | None, generators: Generators | None
) -> list[Claim]:
    """What arrays claim by standing in one file."""
    differences = {}
    if pair is not None and "B" in arrays and ("C" in arrays or "C_inv" in arrays):
        differences["product"] = pair.residual(partial(columns, workload))
    if pair is not None and "C" in arrays and "C_inv" in arrays:
        differences["inverse"] = Pair(arrays["C_inv"], pair.C).residual(unit_columns(workload.T))
    if generators is not None and pair is not None:
        differences["generators"] = _from_streaming(workload, arrays, dense_from(generators))
    agree = _agreement(arrays)
    return [
        Claim(name, 0.0, found if np.isfinite(found) else None, found <= agree)
        for name, found in differences.items()
    ]


def _agreement(arrays: Arrays) -> float:
    return max(AGREE[arrays[name].dtype.name] for name in MEASURED & arrays.keys())


def alike(found: Inspection | Factorization, true: Factorization) -> bool:
    """Whether ``found`` has, to rounding in float32, both errors of ``true``: it is by the same strategy."""
    pairs = (
        (found.mean_squared_error, true.mean_squared_error),
        (found.max_squared_error, true.max_squared_error),
    )
    return all(abs(ours - theirs) <= _ALIKE * theirs for ours, theirs in pairs)


def _strategy_claims(found: Inspection, bound: Factorization, generators: Generators | None) -> list[Claim]:
    """That the arrays are by their strategy, as far as its buffers, or the errors that it has, tell.

    Of ``optimal`` the gap says how far from it they are.
    """
    said = found.strategy
    if said is None or said.name in (StrategyName.OPTIMAL, StrategyName.FIXED_ORDER):
        return []
    if said.name is StrategyName.STREAMING:
        if generators is None:
            return []
        is_theirs = said.buffers == (buffers := generators.decays.shape[1])
        others = f"streaming:{buffers}"
    else:
        made_for = found.participation if said.name.takes_participations else None
        true = factorize(found.workload, said, found.objective, optimum=bound, participation=made_for)
        is_theirs = alike(found, true)
        others = f"not {said}"
    return [Claim("strategy", str(said), str(said) if is_theirs else others, is_theirs)]


def _from_streaming(workload: Workload, arrays: Arrays, C: Array) -> float:
    """How far B, C and C_inv are from belonging to the ``C`` of a streaming form; NaN beyond float64."""
    found = []
    if (held := widened(arrays, "C")) is not None:
        same = held.shape == C.shape
        found.append(float(np.abs(C - held).max() / np.abs(C).max()) if same else 1.0)
    for name, product in (("B", partial(columns, workload)), ("C_inv", unit_columns(workload.T))):
        if (held := arrays.get(name)) is not None:
            same = held.shape == C.shape
            found.append(Pair(held, C).residual(product) if same else 1.0)
    return float(np.max(found))


def _dual_claim(found: Inspection, bound: Factorization, agree: float) -> Claim:
    """That arrays are optimal: they have no more error than the dual beside them attains."""
    claimed, computed = bound.squared_error, found.squared_error
    return Claim("dual", claimed, computed, computed <= claimed * (1.0 + agree))
