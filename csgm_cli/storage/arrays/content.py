"""What a file of arrays holds, whatever its format: names, shapes, finite numbers, and their hash."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.model.factorization import SIDES
from csgm_cli.storage.arrays.metadata import JSON, canonical

Array: TypeAlias = NDArray[np.floating]

#: Arrays of one file, in bytes together: three dense factors at T = 13,000.
MOST_BYTES = 1 << 32

#: What a file may hold beside its arrays: metadata, headers, a listing.
_MOST_BESIDE = 1 << 22

_BLOCK = 1 << 20

#: Names that a message lists.
_MOST_LISTED = 12


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """Arrays by name and what is said of them.

    ``arrays``: float32 or float64, finite, named and shaped as `SIDES` says: A = B C with A (T, T),
    B (T, R), C (R, T) and C_inv; ``v`` and ``u`` the dual's columns and rows; ``decays``, ``inputs``,
    ``outputs`` (T, N) and ``diagonal`` a streaming form. ``metadata``: anything that JSON can say, without
    NaN and infinity; the names ``schema`` and ``sha256`` are the file's own.
    """

    arrays: Mapping[str, Array]
    metadata: Mapping[str, JSON]


@dataclass(frozen=True, eq=False)
class SavedArrays(ArrayFile):
    """An `ArrayFile` that was read, with the hash that it records and that of what it holds.

    ``recorded_hash`` is None where the file records none: made elsewhere, it has no metadata either.
    """

    recorded_hash: str | None
    actual_hash: str


def check_hash(saved: SavedArrays) -> None:
    """Raise ``UsageError`` (slug ``hash-mismatch``) where a file does not hold what its hash was taken of.

    A file made elsewhere, without metadata, claims nothing and passes.
    """
    if saved.recorded_hash == saved.actual_hash or (saved.recorded_hash is None and not saved.metadata):
        return
    raise UsageError(
        "hash-mismatch",
        f"its SHA-256 is {saved.actual_hash}, but it records {saved.recorded_hash or 'none'}",
        "the file was changed after it was written: write it again",
    )


def check_arrays(arrays: Mapping[str, Array]) -> None:
    """Raise ``UsageError`` unless these are arrays that a file may hold.

    Slugs: ``no-arrays``, ``unknown-array``, ``wrong-dtype``, ``shape-mismatch``, ``not-finite``,
    ``too-large``.
    """
    check_names(arrays)
    check_total(sum(array.nbytes for array in arrays.values()))
    known: dict[str, tuple[int, str]] = {}
    for name in sorted(arrays):
        check_dtype(name, arrays[name].dtype)
        check_shape(name, arrays[name].shape)
        _check_agreement(name, arrays[name].shape, known)
        check_finite(name, arrays[name])


def check_names(names: Iterable[str]) -> None:
    """Raise ``UsageError`` unless there are names and each is one of `SIDES`."""
    names = list(names)
    if strangers := sorted(set(names) - SIDES.keys()):
        message = f"it holds an array {strangers[0]!r}"
        raise UsageError("unknown-array", message, f"arrays are named {', '.join(SIDES)}")
    if not names:
        raise no_arrays([])


def no_arrays(found: Collection[str]) -> UsageError:
    """The error of a file whose arrays have other names, those ``found``."""
    listed = ", ".join(sorted(found)[:_MOST_LISTED]) + (", ..." if len(found) > _MOST_LISTED else "")
    message = f"it holds {listed or 'nothing'}; expected arrays named {', '.join(SIDES)}"
    hint = "name the factors: np.savez(FILE, B=B, C=C), or B.npy and C.npy in a folder"
    if any(name.lower().endswith(".csv") for name in found):
        hint = "a folder of .csv is read only with the metadata.json of csgm: save C by np.save('C.npy', C)"
    return UsageError("no-arrays", message, hint)


def known_names(found: Iterable[str], *, ours: bool) -> dict[str, str]:
    """The arrays to read of those ``found`` in a file: its name for each, by ours.

    Names count in any case. A file of ours holds nothing else; of one made elsewhere, other arrays are
    left unread. ``UsageError`` (slugs ``duplicate-array``, ``unknown-array``, ``no-arrays``).
    """
    by_folded = {name.casefold(): name for name in SIDES}
    names: dict[str, str] = {}
    strangers: list[str] = []
    for name in found:
        our_name = by_folded.get(name.casefold())
        if our_name is None:
            strangers.append(name)
        elif our_name in names:
            message = f"it holds {our_name} twice, as {names[our_name]!r} and {name!r}"
            raise UsageError("duplicate-array", message)
        else:
            names[our_name] = name
    if strangers and not ours and not names:
        raise no_arrays(strangers)
    check_names([*names, *(strangers if ours else [])])
    return names


def check_dtype(name: str, dtype: np.dtype[np.generic]) -> None:
    """Raise ``UsageError`` (slug ``wrong-dtype``, ``pickled`` for objects) unless float32 or float64."""
    if dtype.hasobject:
        message = f"{name} holds Python objects, which only unpickling could read: that can run any code"
        raise UsageError("pickled", message, "save plain arrays of float64")
    if dtype.kind != "f" or dtype.itemsize not in (4, 8):
        raise wrong_dtype(name, str(dtype))


def wrong_dtype(name: str, dtype: str) -> UsageError:
    """The error of an array ``name`` that holds anything but floating-point numbers of 4 or 8 bytes."""
    message = f"{name} holds {dtype}: only float32 and float64 are read"
    return UsageError("wrong-dtype", message, "convert it with .astype('float64')")


def check_shape(name: str, shape: tuple[int, ...]) -> None:
    """Raise ``UsageError`` (slug ``shape-mismatch``) unless ``name`` may have this shape by itself."""
    sides = SIDES[name]
    if len(shape) != len(sides) or min(shape) < 1 or ("2" in sides and shape[0] != 2):
        message = f"{name} has shape {shape}, not ({', '.join(sides)})"
        raise UsageError("shape-mismatch", message)


def _check_agreement(name: str, shape: tuple[int, ...], known: dict[str, tuple[int, str]]) -> None:
    for side, size in zip(SIDES[name], shape, strict=True):
        expected, other = known.setdefault(side, (size, name))
        if size != expected:
            message = f"{name} has shape {shape}, so that {side} is {size}, but {other} says {expected}"
            raise UsageError("shape-mismatch", message)


def check_finite(name: str, array: Array) -> None:
    """Raise ``UsageError`` (slug ``not-finite``) where ``array`` holds a NaN or an infinity."""
    if not all(np.isfinite(rows).all() for rows in _rows(array)):
        raise UsageError("not-finite", f"{name} holds NaN or infinity")


def check_total(size: int) -> None:
    """Raise ``UsageError`` (slug ``too-large``) for more than `MOST_BYTES` of arrays."""
    if size > MOST_BYTES:
        message = (
            f"{size / 2**30:.1f} GiB of arrays are more than the {MOST_BYTES / 2**30:.0f} GiB of one file"
        )
        raise UsageError("too-large", message, "leave out dense arrays: a streaming form needs none")


def check_file_size(size: int) -> None:
    """`check_total` for a file, or what an archive holds: a little more than its arrays."""
    check_total(size - _MOST_BESIDE)


def blocks(array: Array) -> Iterator[bytes]:
    """The numbers of ``array``, row by row and little-endian, about a mebibyte at a time."""
    for rows in _rows(array):
        yield rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes()


def _rows(array: Array) -> Iterator[Array]:
    if array.flags.c_contiguous:
        array = array.reshape(-1)
    step = max(1, _BLOCK // (array.itemsize * math.prod(array.shape[1:])))
    for start in range(0, len(array), step):
        yield array[start : start + step]


def digest(file: ArrayFile) -> str:
    """SHA-256, in hexadecimal, of all that a file says, the same in every format.

    Of each array by name, a line of JSON ``["B","<f8",[32,32]]`` and then its numbers, row by row and
    little-endian; after the arrays, the metadata as JSON with sorted keys and without white space.
    """
    total = hashlib.sha256()
    for name in sorted(file.arrays):
        array = file.arrays[name]
        head = [name, array.dtype.newbyteorder("<").str, list(array.shape)]
        total.update(canonical(head).encode() + b"\n")
        for block in blocks(array):
            total.update(block)
    total.update(canonical(dict(file.metadata)).encode())
    return total.hexdigest()
