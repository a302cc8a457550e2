"""The content of arrays: a workload, B and C, a streaming form, a dual; and the memory to measure them."""

# ruff: noqa: N803, N806 - A, B, C and T are what they are called in every formula

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csgm_cli.errors import UsageError, shown
from csgm_cli.factorization.matrices.triangular import left_quotient, right_quotient
from csgm_cli.factorization.memory import solving_bytes
from csgm_cli.factorization.strategies.streaming import check_streams
from csgm_cli.factorization.workload import (
    dense,
    matrix_workload,
    parse_workload,
    schedule_workload,
)
from csgm_cli.model.factorization import (
    GENERATORS,
    SIDES,
    Dual,
    Generators,
    Objective,
    Strategy,
    StrategyName,
    Workload,
)
from csgm_cli.ranges import check_type

Array = NDArray[np.float64]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]

#: Relative difference up to which arrays belong to one another, by what they are stored in.
AGREE = {"float64": 1e-9, "float32": 1e-6}
#: What is measured: a Toeplitz strategy's series says how others came about.
MEASURED = SIDES.keys() - {"series"}


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


def workload_within(arrays: Arrays) -> Workload | None:
    """The workload that arrays made elsewhere hold, as ``A`` or ``learning_rates``; None without either."""
    if "A" in arrays:
        return matrix_workload(arrays["A"])
    if "learning_rates" in arrays:
        return schedule_workload(arrays["learning_rates"])
    return None


def inspecting_bytes(workload: Workload, arrays: Arrays) -> int:
    """About the peak memory of `inspect_arrays`, beside the ``arrays`` themselves; nothing is allocated.

    A thin B and C, of one row of C, are still multiplied out.
    """
    T = workload.T
    solving = solving_bytes(workload, Strategy(StrategyName.OPTIMAL))
    nodes = [arrays[name].shape[axis] for name, axis in (("B", 1), ("C", 0), ("C_inv", 1)) if name in arrays]
    return max(solving, 8 * T * (5 * T + 2 * max(nodes))) if nodes else solving


def check_arrays(workload: Workload, arrays: Arrays) -> None:
    """Raise ``UsageError`` unless these are arrays of numbers whose sides agree with ``workload``."""
    check_type("arrays", arrays, Mapping)
    known = {"T": workload.T}
    for name in MEASURED & arrays.keys():
        array, sides = arrays[name], SIDES[name]
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


def _squares(x: Array, axis: int) -> Array:
    return np.asarray(np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", x, x))


def pair_of(workload: Workload, arrays: Arrays) -> Pair | None:
    """B and C as given, or the missing one from the other; None where neither is there."""
    B, C = (widened(arrays, name) for name in ("B", "C"))
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
    x = wide(arrays[name])
    if x.shape[0] != x.shape[1] or np.triu(x, 1).any():
        raise incomplete(f"it holds {name} alone, which is no lower-triangular square")
    if not np.diag(x).all():
        raise incomplete(f"it holds {name} alone, which is singular")
    return x


def generators_of(workload: Workload, arrays: Arrays) -> Generators | None:
    """The streaming form in ``arrays``; None where there is none."""
    held = [name for name in GENERATORS if name in arrays]
    if not held:
        return None
    if len(held) < len(GENERATORS):
        raise incomplete(f"of a streaming form it holds only {', '.join(held)}")
    check_streams(workload)
    g = Generators(*(wide(arrays[name]) for name in GENERATORS))
    if not (g.diagonal > 0).all():
        raise UsageError("out-of-range", "the diagonal of a streaming form must be positive")
    return g


def dual_of(workload: Workload, arrays: Arrays, objective: Objective) -> Dual | None:
    """The dual in ``arrays``; None where there is none."""
    v, u = widened(arrays, "v"), widened(arrays, "u")
    if v is None:
        return None
    if objective is Objective.MEAN:
        return Dual(v, np.ones(len(v)))
    if u is None and not workload.is_toeplitz:
        raise incomplete("its dual v lacks u, which the max error of this workload needs")
    return Dual(v, v[::-1].copy() if u is None else u)


def rows_of(arrays: Arrays) -> int:
    """T, on which the arrays agree."""
    name = next(iter(sorted(MEASURED & arrays.keys())), None)
    if name is None:
        raise incomplete("it holds nothing to measure")
    return int(arrays[name].shape[SIDES[name].index("T")])


def widened(arrays: Arrays, name: str) -> Array | None:
    """The array ``name`` in float64; None where there is none."""
    return wide(arrays[name]) if name in arrays else None


def wide(array: NDArray[Any]) -> Array:
    """The array in float64, itself where it is."""
    return np.asarray(array.astype(np.float64, copy=False))


def _needed(arrays: Arrays, name: str, what: str) -> Array:
    if name not in arrays:
        raise incomplete(f"it lacks the array {name}, which {what} needs")
    return wide(arrays[name])


def require_finite(sums: ArrayLike) -> None:
    """Raise ``UsageError`` (slug ``out-of-range``) where sums of squares left the range of float64."""
    if not np.isfinite(sums).all():
        raise UsageError("out-of-range", "its numbers are too large, or too small, to be squared and added")


def incomplete(reason: str) -> UsageError:
    """The error of arrays that are not enough to be measured."""
    return UsageError("incomplete-arrays", reason)
