"""The content of arrays: a workload, a streaming form, a dual; and the memory to measure them."""

# ruff: noqa: N806 - T is what it is called in every formula

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from csgm_cli.errors import UsageError, shown
from csgm_cli.factorization.bands.factorize import check_bandable
from csgm_cli.factorization.matrices.triangular import PANEL
from csgm_cli.factorization.memory import bands_bytes, solving_bytes
from csgm_cli.factorization.solve.problem import LEAST_SHARE
from csgm_cli.factorization.strategies.streaming import check_streams
from csgm_cli.factorization.workload import (
    matrix_workload,
    parse_workload,
    row_weights,
    schedule_workload,
)
from csgm_cli.model.factorization import (
    DENSE,
    GENERATORS,
    SIDES,
    BandedDual,
    Dual,
    Generators,
    Objective,
    Strategy,
    StrategyName,
    Workload,
)
from csgm_cli.ranges import check_range, check_type

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

    B and C are multiplied out in panels, also where they are thin; a missing one of them is computed.
    """
    T = workload.T
    if "bands" in arrays:
        return bands_bytes(T, len(arrays["bands"]))
    if "class_dual" in arrays:
        return solving_bytes(workload, Strategy(StrategyName.FIXED_ORDER))
    nodes = [arrays[name].shape[axis] for name, axis in (("B", 1), ("C", 0), ("C_inv", 1)) if name in arrays]
    panels = 8 * T * 6 * PANEL if nodes else 0
    if nodes and not ({"B", "C"} <= arrays.keys() and max(nodes) <= T):
        panels += 8 * T * (T + 3 * max(nodes))
    return max(solving_bytes(workload, Strategy(StrategyName.OPTIMAL)), panels)


def check_arrays(workload: Workload, arrays: Arrays) -> None:
    """Raise ``UsageError`` unless these are arrays of numbers whose sides agree with ``workload``.

    A workload has rank T, and so have B, C and C_inv: R is at least T (slug ``shape-mismatch``).
    """
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
        if known.get("R", known["T"]) < known["T"]:
            message = f"{name} has shape {shape}: of rank below T = {known['T']} it factorizes no workload"
            raise UsageError("shape-mismatch", message, "was it transposed?")
        if not np.isfinite(array).all():
            raise UsageError("not-finite", f"{name} holds NaN or infinity")


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


def bands_of(workload: Workload, arrays: Arrays) -> Array | None:
    """The bands of C in ``arrays``, which then hold no other factor; None where there are none.

    ``UsageError``: slug ``conflicting-arrays`` beside other factors, ``shape-mismatch`` for more bands than
    rows, ``out-of-range`` for numbers outside of C, or a diagonal that is not positive.
    """
    if "bands" not in arrays:
        return None
    if others := sorted(arrays.keys() & {*DENSE, *GENERATORS, "v"}):
        raise UsageError(
            "conflicting-arrays",
            f"it holds {others[0]} beside bands, which are a factorization by themselves",
        )
    check_bandable(workload)
    return _checked_bands(workload, arrays, "bands")


def banded_dual_of(workload: Workload, arrays: Arrays, objective: Objective) -> BandedDual | None:
    """What proves the bound on the error of bands in ``arrays``; None where C itself has to.

    ``UsageError`` (slug ``incomplete-arrays``) where the max error lacks the weights u, (``bad-dual``) where
    these are not positive and of comparable size.
    """
    if "bound_bands" not in arrays:
        return None
    proof = _checked_bands(workload, arrays, "bound_bands")
    if objective is Objective.MEAN:
        return BandedDual(np.ones(workload.T), proof)
    if "u" not in arrays:
        raise incomplete("its bound on the max error lacks the weights u")
    u = wide(arrays["u"])
    if not u.min() >= LEAST_SHARE * u.max() > 0.0:
        raise UsageError("bad-dual", "the weights u must be positive and of comparable size")
    return BandedDual(u, proof)


def _checked_bands(workload: Workload, arrays: Arrays, name: str) -> Array:
    bands = wide(arrays[name])
    check_range("bands", len(bands))
    if len(bands) > workload.T:
        message = f"{name} has shape {bands.shape}: C with T = {workload.T} has no more bands than rows"
        raise UsageError("shape-mismatch", message, "was it transposed?")
    if any(bands[row, -row:].any() for row in range(1, len(bands))):
        raise UsageError("out-of-range", f"{name}[l, j] must be 0 where j + l >= T: C has no such row")
    if not (bands[0] > 0).all():
        raise UsageError("out-of-range", f"the diagonal of C, {name}[0], must be positive")
    return bands


def dual_of(workload: Workload, arrays: Arrays, objective: Objective) -> Dual | None:
    """The dual in ``arrays``; None where there is none."""
    v, u = widened(arrays, "v"), widened(arrays, "u")
    if v is None:
        return None
    if objective is Objective.MEAN:
        return Dual(v, row_weights(workload))
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
