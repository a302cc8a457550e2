"""``.json`` (one document) and ``.csv`` (a folder: one file per array, and ``metadata.json``).

Both hold ``layout`` (dtype and shape of each array) and ``metadata``; JSON also ``arrays``, as nested
lists. Numbers have round-trip digits; a float32 has those of the same number in float64.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from csgm_cli.errors import StorageError, UsageError
from csgm_cli.model.factorization import SIDES
from csgm_cli.storage.arrays import metadata
from csgm_cli.storage.arrays.content import Array, ArrayFile, check_names, check_shape, wrong_dtype
from csgm_cli.storage.arrays.metadata import JSON, as_object, broken, parse_object
from csgm_cli.storage.files import check_regular

#: Numbers of a JSON file together (three dense factors at T = 1182), and of one array in CSV (T = 512).
MOST_IN_JSON, MOST_IN_CSV = 1 << 22, 1 << 18

#: A number takes at most 24 characters, a comma and, as the last of its row, a bracket and a line end.
_CHARACTERS = 28

_METADATA = "metadata.json"


class _Layout(NamedTuple):
    dtype: str
    shape: tuple[int, ...]


def check_json_size(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ``UsageError`` (slug ``too-large``) for more numbers than JSON is good for."""
    if (total := sum(map(math.prod, shapes.values()))) > MOST_IN_JSON:
        message = f"{total} numbers are too many for JSON, which takes {MOST_IN_JSON}"
        raise UsageError("too-large", message, "write .npz, or fewer arrays")


def check_csv_size(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ``UsageError`` (slug ``too-large``) for an array that has more numbers than CSV is good for."""
    for name, shape in shapes.items():
        if math.prod(shape) > MOST_IN_CSV:
            message = (
                f"{name} has shape {shape}, too large for CSV, which takes {MOST_IN_CSV} numbers (T = 512)"
            )
            raise UsageError("too-large", message, "write .npz, or other arrays")


def write_json(path: Path, file: ArrayFile, sealed: Mapping[str, JSON]) -> None:
    """Write one JSON object with sorted keys, and each row of an array on a line of its own."""
    with path.open("x", encoding="ascii", newline="\n") as out:
        out.write('{"arrays":{')
        for position, (name, array) in enumerate(sorted(file.arrays.items())):
            out.write(f'{"," if position else ""}\n"{name}":[')
            out.writelines(f"{',' if row else ''}\n{line}" for row, line in enumerate(_lines(array)))
            out.write("]")
        out.write(f'}},\n"layout":{metadata.canonical(_layout(file))}')
        out.write(f',\n"metadata":{metadata.canonical(sealed)}}}\n')


def read_json(path: Path) -> tuple[dict[str, Array], dict[str, JSON]]:
    """The arrays and the metadata as held; ``UsageError`` otherwise."""
    text = _content(path, _CHARACTERS * MOST_IN_JSON + metadata.MOST_BYTES)
    # Each of these makes an object of up to a hundred bytes, however short it is written.
    if sum(text.count(mark) for mark in (b",", b"[", b"{")) > 2 * MOST_IN_JSON:
        raise UsageError("too-large", f"it holds more than {MOST_IN_JSON} numbers")
    document = parse_object(text, "it")
    if "arrays" not in document:
        raise broken("it is no file of arrays: it has no arrays")
    rows = as_object(document["arrays"], "arrays")
    layouts = _layouts(document, rows)
    arrays = {
        name: _array(name, rows[name] if len(layout.shape) == 2 else [rows[name]], layout)
        for name, layout in layouts.items()
    }
    return arrays, as_object(document.get("metadata"), "metadata")


def write_folder(path: Path, file: ArrayFile, sealed: Mapping[str, JSON]) -> None:
    """Write a new folder: NAME.csv with each row of the array on a line, no heading; and metadata.json."""
    path.mkdir()
    for name, array in file.arrays.items():
        with (path / f"{name}.csv").open("x", encoding="ascii", newline="\n") as out:
            out.writelines(line.strip("[]") + "\n" for line in _lines(array))
    head = metadata.canonical({"layout": _layout(file), "metadata": sealed})
    (path / _METADATA).write_text(head + "\n", encoding="ascii", newline="\n")


def is_folder(path: Path) -> bool:
    """True for a folder that describes itself as `write_folder` does."""
    return (path / _METADATA).exists()


def read_folder(path: Path) -> tuple[dict[str, Array], dict[str, JSON]]:
    """The arrays and the metadata as held; ``UsageError`` otherwise, OSError for a file that is missing."""
    document = parse_object(_content(path / _METADATA, metadata.MOST_BYTES), _METADATA)
    layouts = _layouts(document, None)
    arrays = {name: _array(name, _csv_rows(path, name), layout) for name, layout in layouts.items()}
    return arrays, as_object(document.get("metadata"), "metadata")


def check_replaceable(path: Path) -> None:
    """Raise ``StorageError`` (slug ``cannot-write``) for a folder with anything that we would not write."""
    ours = {_METADATA, *(f"{name}.csv" for name in SIDES)}
    if strangers := sorted({entry.name for entry in path.iterdir()} - ours):
        message = f"cannot replace the folder {str(path)!r}: it also holds {strangers[0]!r}"
        raise StorageError("cannot-write", message, "pass another name")


def _lines(array: Array) -> Iterator[str]:
    return (metadata.canonical(row.tolist()) for row in array)


def _layout(file: ArrayFile) -> dict[str, JSON]:
    return {
        name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in file.arrays.items()
    }


def _layouts(document: Mapping[str, JSON], names: Collection[str] | None) -> dict[str, _Layout]:
    held = as_object(document.get("layout"), "layout")
    if names is not None and set(held) != set(names):
        raise broken("its layout and its arrays do not have the same names")
    check_names(held)
    layouts = {}
    for name in held:
        entry = as_object(held[name], f"layout of {name}")
        dtype, shape = entry.get("dtype"), entry.get("shape")
        if dtype not in ("float32", "float64"):
            raise wrong_dtype(name, metadata.canonical(dtype)[:40])
        if not isinstance(shape, list) or not all(type(side) is int for side in shape):
            raise broken(f"its layout gives no shape of {name}")
        check_shape(name, tuple(shape))
        layouts[name] = _Layout(dtype, tuple(shape))
    return layouts


def _array(name: str, table: JSON, layout: _Layout) -> Array:
    """The array from its rows; one row or one column for an array with one side."""
    wide = _table(name, table)
    if wide.size != math.prod(layout.shape) or (len(layout.shape) == 2 and wide.shape != layout.shape):
        raise broken(f"{name} has {wide.shape[0]} rows of {wide.shape[1]}, not the shape of its layout")
    with np.errstate(over="ignore"):  # infinity is refused with those of other files
        array: Array = wide.reshape(layout.shape).astype(layout.dtype)
    return array


def _table(name: str, rows: JSON) -> Array:
    if not (isinstance(rows, list) and rows and isinstance(rows[0], list)):
        raise broken(f"{name} is not a list of rows")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != len(rows[0]):
            raise broken(f"row {number} of {name} is not as long as the first")
        if not {type(value) for value in row} <= {int, float}:
            raise broken(f"row {number} of {name} holds something that is no number")
    try:
        return np.array(rows, np.float64)
    except OverflowError:
        raise UsageError("not-finite", f"{name} holds a number beyond float64") from None


def _csv_rows(path: Path, name: str) -> JSON:
    try:
        text = _content(path / f"{name}.csv", _CHARACTERS * MOST_IN_CSV)
    except FileNotFoundError:  # of the folder there would be no such file
        raise FileNotFoundError(None, f"there is no {name}.csv in it") from None
    try:
        if b"_" in text:  # Python would read 1_0 as 10
            raise ValueError("an underscore")
        return [[float(field) for field in line.split(",")] for line in text.decode("ascii").splitlines()]
    except ValueError as error:
        raise broken(f"{name}.csv holds something that is no number: {error}") from None


def _content(path: Path, most: int) -> bytes:
    check_regular(path)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UsageError("too-large", f"{path.name} takes more than {most} bytes")
    return content
