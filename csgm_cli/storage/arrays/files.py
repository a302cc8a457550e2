"""Arrays to a file and back, in the format that its suffix names."""

from __future__ import annotations

import math
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from csgm_cli.errors import UsageError, shown
from csgm_cli.ranges import check_type
from csgm_cli.storage.arrays import metadata, npy, npz, tensors, text
from csgm_cli.storage.arrays.content import (
    Array,
    ArrayFile,
    SavedArrays,
    check_arrays,
    check_file_size,
    check_finite,
    check_total,
    digest,
    no_arrays,
)
from csgm_cli.storage.arrays.metadata import JSON
from csgm_cli.storage.files import (
    blaming,
    cannot_read,
    check_file_name,
    check_folder,
    check_regular,
    existing_mode,
    file_exists,
    naming,
    replacing,
)

Shapes = Mapping[str, tuple[int, ...]]
Content = tuple[dict[str, Array], dict[str, JSON] | None]


class _Format(NamedTuple):
    """``check`` raises ``UsageError`` where arrays of these shapes cannot be written."""

    check: Callable[[Shapes], object]
    write: Callable[[Path, ArrayFile, dict[str, JSON]], None]
    read: Callable[[Path], Content]


_FORMATS = {
    ".npz": _Format(lambda _: None, npz.write, npz.read),
    ".safetensors": _Format(lambda _: tensors.library(), tensors.write, tensors.read),
    ".json": _Format(text.check_json_size, text.write_json, text.read_json),
    ".csv": _Format(text.check_csv_size, text.write_folder, text.read_folder),
    ".npy": _Format(npy.check_alone, npy.write_file, lambda path: npy.read_files([path])),
}


def check_destination(path: str | Path, shapes: Shapes, *, itemsize: int = 8, force: bool = False) -> None:
    """Refuse before any work what `write_arrays` would refuse after it.

    ``shapes``: of the arrays to be written, by name; ``itemsize``: bytes of one number. ``UsageError``: a
    suffix that names no format (slug ``unknown-format``), ``missing-extra``, ``too-large``,
    ``several-arrays`` for .npy.
    ``StorageError``: ``file-exists`` unless ``force``, and ``cannot-write`` where there is no such folder,
    or what is there was not written by csgm.
    """
    check_total(itemsize * sum(map(math.prod, shapes.values())))
    _check_place(path, shapes, force=force)


def write_arrays(path: str | Path, file: ArrayFile, *, force: bool = False) -> None:
    """Write ``file`` as the suffix of ``path`` says: .npz, .safetensors, .json, .csv for a folder, or .npy.

    A .npy file holds one array and no metadata.

    The same arrays and metadata make the same bytes. At every moment ``path`` has the old content or the
    new; no second copy of the arrays is made. Errors: those of `check_destination`, those of
    `content.check_arrays`, and ``StorageError`` (slug ``cannot-write``).
    """
    check_type("file", file, ArrayFile)
    check_arrays(file.arrays)
    _check_place(_path(path), {name: array.shape for name, array in file.arrays.items()}, force=force)
    sealed = metadata.sealed(file.metadata, digest(file))
    if len(metadata.canonical(sealed)) > metadata.MOST_BYTES // 2:
        raise UsageError("too-large", "the metadata take more than half a mebibyte")
    with replacing(path, force=force) as temporary:
        _format(path).write(temporary, file, sealed)


def read_arrays(path: str | Path) -> SavedArrays:
    """Read a file of arrays and trust nothing in it; nothing is unpickled.

    Reads all that `write_arrays` writes, and what others make: .npz and .safetensors with arrays named B
    and C (in any case), B.npy, C.npy, or a folder with these. The hash is recomputed, not judged:
    `content.check_hash` does that. ``StorageError`` (slug ``cannot-read``) for a file that cannot be opened;
    ``UsageError`` otherwise: ``unknown-format``, ``broken-file``, ``pickled``, ``wrong-dtype``,
    ``shape-mismatch``, ``not-finite``, ``duplicate-array``, ``unknown-array``, ``no-arrays``, ``bad-name``,
    ``encrypted``, ``zip-bomb``, ``too-large``, ``missing-extra``.
    """
    target = _path(path)
    with _reading(path):
        arrays, held = _reader(target)(target)
        check_arrays(arrays)
        described, recorded = ({}, None) if held is None else metadata.opened(held)
        actual = digest(ArrayFile(arrays, described))
    return SavedArrays(arrays, described, recorded, actual)


def read_matrix(path: str | Path) -> Array:
    """Read a (rows, columns) matrix of finite float32 or float64 numbers from a .npy file.

    Errors as for `read_arrays`; whether the matrix makes sense as a workload is for others to say.
    """
    return _read_npy(path, "A", "a matrix")


def read_vector(path: str | Path) -> Array:
    """Read one row of finite float32 or float64 numbers from a .npy file; errors as for `read_matrix`."""
    return _read_npy(path, "learning_rates", "a row of numbers")


def _read_npy(path: str | Path, name: str, what: str) -> Array:
    target = _path(path)
    with _reading(path):
        if _check_readable(target) or target.suffix.lower() != ".npy":
            raise UsageError("unknown-format", f"{what} is read from a .npy file")
        array = npy.read_file(target, name)
        check_finite(name, array)
    return array


def _path(path: str | Path) -> Path:
    """``UsageError`` (slug ``invalid-type``) for what is no path."""
    try:
        return Path(path)
    except TypeError:
        raise UsageError("invalid-type", f"a path must be text or a Path, got {shown(path)}") from None


def _format(path: str | Path) -> _Format:
    suffix = Path(path).suffix.lower()
    if suffix not in _FORMATS:
        message = f"{str(path)!r} must end in {', '.join(_FORMATS)} to say what to write"
        raise UsageError("unknown-format", message)
    return _FORMATS[suffix]


def _reader(path: Path) -> Callable[[Path], Content]:
    if _check_readable(path):
        return text.read_folder if text.is_folder(path) else _read_folder
    suffix = path.suffix.lower()
    if suffix not in _FORMATS.keys() - {".csv"}:
        message = "arrays are read from .npz, .safetensors, .json, .npy and folders of .csv or .npy"
        raise UsageError("unknown-format", message)
    check_file_size(path.stat().st_size)
    return _FORMATS[suffix].read


def _read_folder(path: Path) -> Content:
    """The .npy files of a folder made elsewhere; ``UsageError`` lists what else it holds, for want of any."""
    files = list(path.glob("*.npy"))
    if not files:
        raise no_arrays([entry.name for entry in path.iterdir()])
    return npy.read_files(files)


def _check_readable(path: Path) -> bool:
    """True for a folder, False for a regular file, and an OSError for anything else."""
    try:
        mode = path.stat().st_mode
    except ValueError as error:  # a path with a null character
        raise OSError(None, str(error)) from None
    if not stat.S_ISDIR(mode):
        check_regular(path)
    return stat.S_ISDIR(mode)


def _check_place(path: str | Path, shapes: Shapes, *, force: bool) -> None:
    form = _format(path)
    form.check(shapes)
    target = Path(path)
    with blaming(path):
        if form.write is not text.write_folder:
            check_file_name(path)
        if (mode := existing_mode(target)) is not None:
            _check_existing(target, mode, folder=form.write is text.write_folder, force=force)
        check_folder(target)


def _check_existing(target: Path, mode: int, *, folder: bool, force: bool) -> None:
    if not force:
        raise file_exists(target)
    if folder:
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(None, "it exists and is no folder")
        text.check_replaceable(target)
    elif not stat.S_ISREG(mode):
        raise IsADirectoryError(None, "it exists and is no regular file")


@contextmanager
def _reading(path: str | Path) -> Iterator[None]:
    """Name the file in every error."""
    with naming(path):
        try:
            yield
        except OSError as error:
            raise cannot_read(path, error) from error
