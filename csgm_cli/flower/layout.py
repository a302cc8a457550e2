"""Convert the arrays of a model to one vector and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from csgm_cli.errors import UsageError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]


def check_arrays(arrays: Arrays, exclude: Sequence[str], dim: int) -> None:
    """Check the arrays of a model; those named in ``exclude`` are not trained.

    Raises:
        UsageError: an excluded name does not exist, a trained array does not hold floats, or the trained
            arrays have no values or more than ``dim`` (slug ``bad-model``).
    """
    if unknown := [name for name in exclude if name not in arrays]:
        raise UsageError("bad-model", f"the model has no array {shown(unknown[0])} to exclude")
    for name in _trained(arrays, exclude):
        if arrays[name].dtype.kind != "f":
            raise UsageError(
                "bad-model",
                f"array {shown(name)} holds {arrays[name].dtype}, which cannot be averaged",
                f"exclude it: CsgmStrategy(..., exclude=[{shown(name)}])",
            )
    count = sum(arrays[name].size for name in _trained(arrays, exclude))
    if not 0 < count <= dim:
        raise UsageError(
            "bad-model",
            f"the model has {count} trained values, the plan is for dim {dim}",
            "calibrate again",
        )


def update_vector(before: Arrays, after: Arrays, exclude: Sequence[str], dim: int) -> NDArray[np.float64]:
    """The change of the trained arrays as one vector of length ``dim``, padded with zeros.

    Raises:
        UsageError: names, shapes or types have changed (slug ``bad-model``); others as in `check_arrays`.
    """
    check_arrays(before, exclude, dim)
    if set(before) != set(after):
        raise UsageError("bad-model", "the trained model has other arrays than the model that was sent")
    vector, start = np.zeros(dim), 0
    for name in _trained(before, exclude):
        old, new = before[name], after[name]
        if old.shape != new.shape:
            raise UsageError("bad-model", f"array {shown(name)} has another shape after training")
        if new.dtype.kind != "f":
            raise UsageError("bad-model", f"array {shown(name)} holds {new.dtype} after training")
        with np.errstate(all="ignore"):  # infinite values are refused when the vector is encoded
            vector[start : start + old.size] = np.subtract(new, old, dtype=np.float64).ravel()
        start += old.size
    return vector


def moved_arrays(
    arrays: Arrays, vector: NDArray[np.float64], exclude: Sequence[str]
) -> dict[str, NDArray[np.generic]]:
    """The arrays with ``vector`` added to the trained ones; types and excluded arrays do not change."""
    moved, start = dict(arrays), 0
    for name in _trained(arrays, exclude):
        array = arrays[name]
        part = vector[start : start + array.size].reshape(array.shape)
        moved[name] = np.asarray(np.add(array, part, dtype=np.float64), array.dtype)
        start += array.size
    return moved


def _trained(arrays: Arrays, exclude: Sequence[str]) -> list[str]:
    """The names that are not excluded, sorted, since transport may change their order."""
    return sorted(name for name in arrays if name not in exclude)
