"""One array in NumPy's own format: the header is judged before any room is made for the numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib import format as numpy_format

from csgm_cli.errors import UsageError
from csgm_cli.storage.arrays.content import (
    Array,
    ArrayFile,
    blocks,
    check_dtype,
    check_file_size,
    check_shape,
    known_names,
)
from csgm_cli.storage.arrays.metadata import broken
from csgm_cli.storage.files import check_regular
from csgm_cli.storage.memory import check_memory

if TYPE_CHECKING:
    from pathlib import Path

#: Raises ``UsageError`` unless an array may have this name, type and shape.
Check: TypeAlias = Callable[[str, "np.dtype[Any]", tuple[int, ...]], None]

_BLOCK = 1 << 20

#: By version of the format. The third differs from the second in the encoding of names of fields, which no
#: array of floats has.
_HEADERS = {
    (1, 0): numpy_format.read_array_header_1_0,
    (2, 0): numpy_format.read_array_header_2_0,
    (3, 0): numpy_format.read_array_header_2_0,
}


def write(stream: IO[bytes], array: Array) -> None:
    """Write ``array`` little-endian and row by row."""
    header = {
        "descr": array.dtype.newbyteorder("<").str,
        "fortran_order": False,
        "shape": array.shape,
    }
    numpy_format.write_array_header_1_0(stream, header)
    for block in blocks(array):
        stream.write(block)


def write_file(path: Path, file: ArrayFile, sealed: object) -> None:  # noqa: ARG001 - it has no room for metadata
    """Write the only array of ``file``."""
    (array,) = file.arrays.values()
    with path.open("xb") as stream:
        write(stream, array)


def check_alone(shapes: Collection[str]) -> None:
    """Raise ``UsageError`` (slug ``several-arrays``) unless there is one array."""
    if len(shapes) != 1:
        message = f"a .npy file holds one array, and these are {', '.join(shapes)}"
        raise UsageError("several-arrays", message, "`arrays` C writes C alone; .npz holds them all")


def check_factor(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raise ``UsageError`` unless ``name`` may be an array of a factorization."""
    check_dtype(name, dtype)
    check_shape(name, shape)


def read(stream: IO[bytes], size: int, name: str, check: Check = check_factor) -> Array:
    """The array ``name`` in the native byte order, from a stream that declares ``size`` bytes.

    ``check`` judges its type and shape. ``UsageError`` (slugs ``broken-file``, ``pickled``, ``wrong-dtype``,
    ``shape-mismatch``, ``too-large``).
    """
    shape, fortran_order, dtype = _header(stream, name)
    if not all(type(side) is int for side in shape):
        raise broken(f"{name} has a header with shape {shape}")
    check(name, dtype, shape)
    expected = stream.tell() + math.prod(shape) * dtype.itemsize
    if size != expected:
        raise broken(f"{name} takes {expected} bytes with shape {shape}, but {size} are there")
    check_memory(math.prod(shape) * dtype.itemsize, f"{name} with shape {shape} needs")
    array: Array = np.empty(shape, dtype, order="F" if fortran_order else "C")
    _fill(stream, array, name)
    return array if dtype.isnative else array.byteswap(inplace=True).view(dtype.newbyteorder("="))


def read_files(paths: Iterable[Path]) -> tuple[dict[str, Array], None]:
    """The arrays in .npy files made elsewhere, each named after its file; ``UsageError`` for none."""
    by_stem = {path.stem: path for path in paths}
    names = known_names(by_stem, ours=False)
    return {name: read_file(by_stem[stem], name) for name, stem in names.items()}, None


def read_file(path: Path, name: str) -> Array:
    """The array ``name`` in the .npy file ``path``; errors as for `read`, OSError as it comes."""
    check_regular(path)
    size = path.stat().st_size
    check_file_size(size)
    with path.open("rb") as stream:
        return read(stream, size, name)


def _header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = numpy_format.read_magic(stream)
        if version not in _HEADERS:
            number = ".".join(map(str, version))
            raise UsageError(
                "unknown-format", f"{name} is in version {number} of .npy, which is not supported"
            )
        with warnings.catch_warnings():  # NumPy remarks on files of Python 2
            warnings.simplefilter("ignore")
            shape, fortran_order, dtype = _HEADERS[version](stream)
    # NumPy evaluates the header as a Python literal, which can fail in each of these ways.
    except (ValueError, TypeError, SyntaxError, TokenError, MemoryError, RecursionError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise broken(f"{name} has no .npy header: {reason}") from None
    return shape, fortran_order, dtype


def _fill(stream: IO[bytes], array: Array, name: str) -> None:
    room = array.reshape(-1, order="A").view(np.uint8).data
    for start in range(0, len(room), _BLOCK):
        part = room[start : start + _BLOCK]
        block = stream.read(len(part))
        if len(block) != len(part):
            raise broken(f"{name} is truncated")
        part[:] = block
    if stream.read(1):  # this also makes a zip archive check the sum of what was read
        raise broken(f"{name} goes on after its end")
