"""Arrays that are said to be a factorization, measured again from nothing but their numbers."""

# ruff: noqa: N803, N806 - A, B, C and T are what they are called in every formula

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csgm_cli.core.factorization.factorize import factorization_of, factorize
from csgm_cli.core.factorization.semiseparable import column_norms_squared, dense_from, row_errors
from csgm_cli.core.factorization.solver import Progress, lower_bound
from csgm_cli.core.factorization.streaming import check_streams
from csgm_cli.core.factorization.triangular import left_quotient, right_quotient
from csgm_cli.core.factorization.workload import (
    dense,
    matrix_workload,
    parse_workload,
    schedule_workload,
)
from csgm_cli.errors import NoAnswerError, UsageError, shown
from csgm_cli.factorization_model import (
    Claim,
    Dual,
    Factorization,
    Generators,
    Inspection,
    Objective,
    Strategy,
    StrategyName,
    Workload,
    objective_named,
)
from csgm_cli.ranges import check_type

Array = NDArray[np.float64]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]

#: Relative difference up to which arrays belong to one another, by what they are stored in.
AGREE = {"float64": 1e-9, "float32": 1e-6}
#: And up to which numbers belong to them.
_TIGHT = 1e-9
#: Errors by one strategy: arrays in float32 may have that much more. By another they are further off.
_ALIKE = 1e-3
_GENERATORS = ("decays", "inputs", "outputs", "diagonal")
#: The sides of each array: T steps, R rows of C, N numbers of state.
_SIDES = {
    "A": "TT",
    "B": "TR",
    "C": "RT",
    "C_inv": "TR",
    "v": "T",
    "u": "T",
    "learning_rates": "T",
    "decays": "TN",
    "inputs": "TN",
    "outputs": "TN",
    "diagonal": "T",
}


def workload_of(name: str, arrays: Arrays) -> Workload:
    """The workload that `Workload.name` names, with as many rows as ``arrays`` have.

    ``matrix`` and ``learning-rates`` are in the arrays ``A`` and ``learning_rates``. ``UsageError`` for other
    names, and (slug ``incomplete-arrays``) where an array is missing.
    """
    T = rows_of(arrays)
    momentum, comma, rest = name.partition(",")
    _check_strays(name, arrays)
    if name == "matrix":
        return matrix_workload(_needed(arrays, "A", name))
    if name == "learning-rates":
        return schedule_workload(_needed(arrays, "learning_rates", name))
    if comma and rest == "learning-rates":
        rates = _needed(arrays, "learning_rates", name)
        return schedule_workload(rates, parse_workload(momentum, T).momentum)
    return parse_workload(name, T)


def _check_strays(name: str, arrays: Arrays) -> None:
    """Raise ``UsageError`` (slug ``unknown-array``) for an array without use to the workload ``name``."""
    used = {"A"} if name == "matrix" else {"learning_rates"} if name.endswith("learning-rates") else set()
    if strays := sorted((arrays.keys() & {"A", "learning_rates", "series"}) - used):
        raise UsageError("unknown-array", f"it holds {strays[0]}, but its workload is {shown(name)}")


def workload_within(arrays: Arrays) -> Workload:
    """The workload of arrays made elsewhere: their ``A`` or ``learning_rates``, and prefix sums without."""
    if "A" in arrays:
        return matrix_workload(arrays["A"])
    if "learning_rates" in arrays:
        return schedule_workload(arrays["learning_rates"])
    return parse_workload("prefix-sum", rows_of(arrays))


def inspect_arrays(
    workload: Workload,
    arrays: Arrays,
    objective: Objective = Objective.MEAN,
    strategy: Strategy | None = None,
    claimed: Mapping[str, float] | None = None,
    *,
    progress: Progress | None = None,
) -> Inspection:
    """Recompute sensitivity, errors and bound of a factorization of ``workload`` from its ``arrays``.

    ``arrays`` (float32 or float64, finite): ``B`` (T, R) and ``C`` (R, T), or one of ``B``, ``C``, ``C_inv``
    where it is lower-triangular; or ``decays``, ``inputs``, ``outputs`` (T, N) and ``diagonal`` (T) of a
    streaming form; or the dual ``v`` (T; with ``u``, T, where it is needed) of an optimal one. The bound is
    what the dual proves, and without a dual the solver's, to 1e-9. ``claimed``: numbers by their key in a
    result; the errors and the sensitivity must be those found, the bound not above and the gap not below.
    ``strategy``: a claim too.

    ``UsageError`` where the arrays are not enough (slug ``incomplete-arrays``), the dual is not positive
    (``bad-dual``), or the numbers are too large to be squared (``out-of-range``).
    """
    check_type("workload", workload, Workload)
    objective = objective_named(objective)
    _check_arrays(workload, arrays)
    with np.errstate(all="ignore"):  # what comes out is looked at
        return _inspected(workload, arrays, objective, strategy, claimed or {}, progress)


def _inspected(
    workload: Workload,
    arrays: Arrays,
    objective: Objective,
    strategy: Strategy | None,
    claimed: Mapping[str, float],
    progress: Progress | None,
) -> Inspection:
    dual = dual_of(workload, arrays, objective)
    bound = _bound(workload, objective, dual, progress)
    generators = generators_of(workload, arrays)
    pair = pair_of(workload, arrays)
    found = _measured(workload, pair, generators)
    is_optimal = strategy is not None and strategy.name is StrategyName.OPTIMAL
    if found is None:
        if dual is None or not (strategy is None or is_optimal):
            raise _incomplete("it holds neither B nor C, nor a streaming form: nothing to measure")
        found = (1.0, bound.mean_squared_error, bound.max_squared_error)
    require_finite(found)
    inspection = Inspection(workload, strategy, objective, *found, bound.lower_bound, bound.iterations)
    agree = max(AGREE[arrays[name].dtype.name] for name in _SIDES.keys() & arrays.keys())
    claims = [*_number_claims(inspection, claimed)]
    claims += _array_claims(workload, arrays, pair, generators, agree)
    claims += _strategy_claims(inspection, bound, generators)
    if is_optimal and dual is not None and (pair is not None or generators is not None):
        claims.append(_dual_claim(inspection, bound, agree))
    return Inspection(
        workload, strategy, objective, *found, bound.lower_bound, bound.iterations, tuple(claims)
    )


def _check_arrays(workload: Workload, arrays: Arrays) -> None:
    """Raise ``UsageError`` unless these are arrays of numbers whose sides agree with ``workload``."""
    check_type("arrays", arrays, Mapping)
    known = {"T": workload.T}
    for name in _SIDES.keys() & arrays.keys():
        array, sides = arrays[name], _SIDES[name]
        if not isinstance(array, np.ndarray) or array.dtype.name not in AGREE:
            raise UsageError("wrong-dtype", f"{name} must be an array of float32 or float64")
        shape = array.shape
        if len(shape) != len(sides) or any(
            known.setdefault(side, n) != n for side, n in zip(sides, shape, strict=True)
        ):
            raise UsageError(
                "shape-mismatch", f"{name} has shape {shape}, not ({', '.join(sides)}) with T = {workload.T}"
            )
        if not np.isfinite(array).all():
            raise UsageError("not-finite", f"{name} holds NaN or infinity")


@dataclass(frozen=True, eq=False)
class Pair:
    """B and C in float64."""

    B: Array
    C: Array

    def measured(self) -> tuple[float, float, float]:
        """Squared sensitivity, mean and largest squared error."""
        squared = float(_squares(self.C, axis=0).max())
        rows = squared * _squares(self.B, axis=1)
        return squared, float(rows.mean()), float(rows.max())

    def residual(self, A: Array) -> float:
        """The largest entry of B C - A, each over its row's norm in B and column's in C; NaN beyond float64.

        An entry of B C is no larger than that. A scale for all would hide small rows behind a large one.
        """
        scale = np.sqrt(np.outer(_squares(self.B, axis=1), _squares(self.C, axis=0)))
        off = np.abs(self.B @ self.C - A)
        return float(np.where(off > 0.0, off / scale, 0.0).max() if np.isfinite(scale).all() else np.nan)

    @property
    def is_causal(self) -> bool:
        """True where row t of B uses no row of C that has a step after t."""
        later = self.C[:, ::-1] != 0
        last = np.where(later.any(axis=1), self.C.shape[1] - 1 - later.argmax(axis=1), -1)
        return not bool(((self.B != 0) & (last > np.arange(len(self.B))[:, None])).any())


def _measured(
    workload: Workload, pair: Pair | None, generators: Generators | None
) -> tuple[float, float, float] | None:
    if pair is not None:
        return pair.measured()
    if generators is None:
        return None
    squared = float(column_norms_squared(generators).max())
    rows = squared * row_errors(workload, generators)
    return squared, float(rows.mean()), float(rows.max())


def _squares(x: Array, axis: int) -> Array:
    return np.asarray(np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", x, x))


def pair_of(workload: Workload, arrays: Arrays) -> Pair | None:
    """B and C as given, or the missing one from the other; None where neither is there."""
    B, C = (_wide(arrays, name) for name in ("B", "C"))
    if C is None and "C_inv" in arrays:
        C = left_quotient(_divisor(arrays, "C_inv"), np.eye(workload.T))
    if B is None and C is None:
        return None
    if C is None:
        C = left_quotient(_divisor(arrays, "B"), dense(workload))
    if B is None:
        B = right_quotient(dense(workload), _divisor({"C": C}, "C"))
    return Pair(B, C)


def _divisor(arrays: Arrays, name: str) -> Array:
    """``UsageError`` (slug ``incomplete-arrays``) unless it is lower-triangular with an inverse."""
    x = np.asarray(arrays[name].astype(np.float64, copy=False))
    if x.shape[0] != x.shape[1] or np.triu(x, 1).any():
        raise _incomplete(f"it holds {name} alone, which is no lower-triangular square")
    if not np.diag(x).all():
        raise _incomplete(f"it holds {name} alone, which is singular")
    return x


def generators_of(workload: Workload, arrays: Arrays) -> Generators | None:
    """The streaming form in ``arrays``; None where there is none."""
    held = [name for name in _GENERATORS if name in arrays]
    if not held:
        return None
    if len(held) < len(_GENERATORS):
        raise _incomplete(f"of a streaming form it holds only {', '.join(held)}")
    check_streams(workload)
    g = Generators(*(arrays[name].astype(np.float64, copy=False) for name in _GENERATORS))
    if not (g.diagonal > 0).all():
        raise UsageError("out-of-range", "the diagonal of a streaming form must be positive")
    return g


def dual_of(workload: Workload, arrays: Arrays, objective: Objective) -> Dual | None:
    """The dual in ``arrays``; None where there is none."""
    v, u = _wide(arrays, "v"), _wide(arrays, "u")
    if v is None:
        return None
    if objective is Objective.MEAN:
        return Dual(v, np.ones(len(v)))
    if u is None and not workload.is_toeplitz:
        raise _incomplete("its dual v lacks u, which the max error of this workload needs")
    return Dual(v, v[::-1].copy() if u is None else u)


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
    workload: Workload, arrays: Arrays, pair: Pair | None, generators: Generators | None, agree: float
) -> list[Claim]:
    """What arrays claim by standing in one file."""
    differences = {}
    if pair is not None and "B" in arrays and ("C" in arrays or "C_inv" in arrays):
        differences["product"] = pair.residual(dense(workload))
    if pair is not None and "C" in arrays and "C_inv" in arrays:
        inverse = Pair(arrays["C_inv"].astype(np.float64, copy=False), pair.C)
        differences["inverse"] = inverse.residual(np.eye(workload.T))
    if generators is not None and pair is not None:
        differences["generators"] = _from_streaming(workload, arrays, dense_from(generators))
    claims = [
        Claim(name, 0.0, found if np.isfinite(found) else None, found <= agree)
        for name, found in differences.items()
    ]
    causal = pair is None or _is_causal(pair, arrays)  # other forms cannot be anything else
    return [*claims, Claim("causal", claimed=True, computed=causal, holds=causal)]


def _is_causal(pair: Pair, arrays: Arrays) -> bool:
    """Of noise on sums and on increments: row t of B and of C_inv has no row of C with a step after t."""
    inverse = _wide(arrays, "C_inv")
    return pair.is_causal and (inverse is None or Pair(inverse, pair.C).is_causal)


def _strategy_claims(found: Inspection, bound: Factorization, generators: Generators | None) -> list[Claim]:
    """That the arrays are by their strategy, as far as its buffers, or the errors that it has, tell.

    Of ``optimal`` the gap says how far from it they are.
    """
    said = found.strategy
    if said is None or said.name is StrategyName.OPTIMAL:
        return []
    if said.name is StrategyName.STREAMING:
        if generators is None:
            return []
        is_theirs = said.buffers == (buffers := generators.decays.shape[1])
        others = f"streaming:{buffers}"
    else:
        true = factorize(found.workload, said, found.objective, optimum=bound)
        pairs = (
            (found.mean_squared_error, true.mean_squared_error),
            (found.max_squared_error, true.max_squared_error),
        )
        is_theirs = all(abs(ours - theirs) <= _ALIKE * theirs for ours, theirs in pairs)
        others = f"not {said}"
    return [Claim("strategy", str(said), str(said) if is_theirs else others, is_theirs)]


def _from_streaming(workload: Workload, arrays: Arrays, C: Array) -> float:
    """How far B, C and C_inv are from belonging to the ``C`` of a streaming form; NaN beyond float64."""
    found = []
    if "C" in arrays:
        held = arrays["C"].astype(np.float64, copy=False)
        same = held.shape == C.shape
        found.append(float(np.abs(C - held).max() / np.abs(C).max()) if same else 1.0)
    for name, product in (("B", dense(workload)), ("C_inv", np.eye(workload.T))):
        if name in arrays:
            held = arrays[name].astype(np.float64, copy=False)
            same = held.shape == C.shape
            found.append(Pair(held, C).residual(product) if same else 1.0)
    return float(np.max(found))


def _dual_claim(found: Inspection, bound: Factorization, agree: float) -> Claim:
    """That arrays are optimal: they have no more error than the dual beside them attains."""
    claimed, computed = bound.squared_error, found.squared_error
    return Claim("dual", claimed, computed, computed <= claimed * (1.0 + agree))


def rows_of(arrays: Arrays) -> int:
    """T, on which the arrays agree."""
    name = next(iter(sorted(_SIDES.keys() & arrays.keys())), None)
    if name is None:
        raise _incomplete("it holds nothing to measure")
    return int(arrays[name].shape[_SIDES[name].index("T")])


def _wide(arrays: Arrays, name: str) -> Array | None:
    return arrays[name].astype(np.float64, copy=False) if name in arrays else None


def _needed(arrays: Arrays, name: str, what: str) -> Array:
    if name not in arrays:
        raise _incomplete(f"it lacks the array {name}, which {what} needs")
    return np.asarray(arrays[name].astype(np.float64, copy=False))


def require_finite(sums: ArrayLike) -> None:
    """Raise ``UsageError`` (slug ``out-of-range``) where sums of squares left the range of float64."""
    if not np.isfinite(sums).all():
        raise UsageError("out-of-range", "its numbers are too large, or too small, to be squared and added")


def _incomplete(reason: str) -> UsageError:
    return UsageError("incomplete-arrays", reason)
