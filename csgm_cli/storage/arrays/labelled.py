"""Labelled examples from a folder of idx files (.gz or not) or with one .npz file; nothing is unpickled."""

from __future__ import annotations

import gzip
import math
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from csgm_cli.errors import UsageError
from csgm_cli.storage.arrays import npz
from csgm_cli.storage.arrays.content import check_file_size
from csgm_cli.storage.arrays.metadata import broken
from csgm_cli.storage.files import cannot_read, check_regular, naming
from csgm_cli.storage.memory import check_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

#: Training and test examples with their labels, as Keras names them in .npz files.
NAMES = ("x_train", "y_train", "x_test", "y_test")
#: How the names of idx files end, before a possible ``.gz``.
_ENDINGS = {
    "x_train": ("train-images-idx3-ubyte",),
    "y_train": ("train-labels-idx1-ubyte",),
    "x_test": ("t10k-images-idx3-ubyte", "test-images-idx3-ubyte"),
    "y_test": ("t10k-labels-idx1-ubyte", "test-labels-idx1-ubyte"),
}
#: Beyond any set of examples that is trained with here; more would be a mistake, or an attack.
_MOST_CLASSES = 1000
#: A gzip file may grow by this factor when read, or to this size: the limits of .npz files.
_GROWTH, _SMALL = 100, 1 << 26
_BYTES = 8  # the code of unsigned bytes in the magic number


def read_labelled(folder: str | Path) -> dict[str, NDArray[Any]]:
    """The arrays `NAMES` of ``folder``: examples (count, features) in float32, labels (count,) in int64.

    Bytes are divided by 255. ``StorageError`` (slug ``cannot-read``) for what cannot be opened;
    ``UsageError`` otherwise: ``no-arrays``, ``broken-file``, ``pickled``, ``wrong-dtype``,
    ``shape-mismatch``, ``not-finite``, ``zip-bomb``, ``too-large``.
    """
    path = Path(folder)
    with _reading(path):
        entries = sorted(entry for entry in path.iterdir() if entry.is_file())
        archives = [entry for entry in entries if entry.suffix.lower() == ".npz"]
    if len(archives) == 1:
        with _reading(archives[0]):
            check_regular(archives[0])
            arrays: dict[str, NDArray[Any]] = dict(npz.read_named(archives[0], NAMES, _check_header)[0])
    else:
        arrays = {name: _read_idx(_only(path, entries, name)) for name in NAMES}
    with naming(path):
        return _checked(arrays)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in every error."""
    with naming(path):
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: a path with a null character
            if isinstance(error, gzip.BadGzipFile):
                raise broken(f"it is not a sound gzip file: {error}") from None
            raise cannot_read(path, error) from error


def _only(folder: Path, entries: list[Path], name: str) -> Path:
    """The idx file of ``name``."""
    endings = _ENDINGS[name]
    found = [entry for entry in entries if entry.name.removesuffix(".gz").endswith(endings)]
    if len(found) != 1:
        message = f"{str(folder)!r} holds {len(found)} files {endings[0]}[.gz], and no single .npz file"
        hint = "the four idx files of MNIST or its relatives, or one .npz with " + ", ".join(NAMES)
        raise UsageError("no-arrays", message, hint)
    return found[0]


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """The unsigned bytes of an idx file, whose header is judged before any room is made for them."""
    with _reading(path):
        check_regular(path)
        size = path.stat().st_size
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            try:
                return _idx(stream, size)  # type: ignore[arg-type] # gzip's files are binary streams, too
            except (EOFError, zlib.error) as error:
                raise broken(f"it is truncated or damaged: {error}") from None


def _idx(stream: IO[bytes], file_size: int) -> NDArray[np.uint8]:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] != _BYTES or magic[3] not in (1, 2, 3):
        raise broken("it is not an idx file of unsigned bytes with up to three dimensions")
    sides = stream.read(4 * magic[3])
    shape = tuple(int.from_bytes(sides[i : i + 4], "big") for i in range(0, len(sides), 4))
    count = math.prod(shape)
    if count > max(_SMALL, _GROWTH * file_size):
        raise UsageError("zip-bomb", f"its {file_size} bytes claim to hold {count}")
    check_file_size(count)
    check_memory(5 * count, f"an array with shape {shape} needs")  # with its copy in float32
    content = stream.read(count)
    if len(shape) < magic[3] or len(content) < count:
        raise broken("it is truncated")
    if stream.read(1):
        raise broken("it goes on after its end")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _check_header(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if dtype.kind not in "uif" or dtype.itemsize > 8:
        raise UsageError("wrong-dtype", f"{name} has the type {dtype}; integers or floats are read")
    if min(shape, default=0) < 0 or (name.startswith("y") and len(shape) != 1):
        raise UsageError("shape-mismatch", f"{name} has shape {shape}")


def _checked(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    for part in ("train", "test"):
        features, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if features.ndim < 2 or not features.size or labels.shape != features.shape[:1]:
            message = f"x_{part} has shape {features.shape} and y_{part} {labels.shape}"
            raise UsageError("shape-mismatch", message, "one row and one label for each example")
        found[f"x_{part}"] = _features(f"x_{part}", features)
        found[f"y_{part}"] = _labels(f"y_{part}", labels)
    widths = [found[name].shape[1] for name in ("x_train", "x_test")]
    if widths[0] != widths[1]:
        message = f"training examples have {widths[0]} features and test examples {widths[1]}"
        raise UsageError("shape-mismatch", message)
    return found


def _features(name: str, values: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # to infinity, which is refused
        rows = values.reshape(len(values), -1).astype(np.float32)
    if values.dtype == np.uint8:
        rows /= 255
    if not np.isfinite(rows).all():
        raise UsageError("not-finite", f"{name} holds NaN or infinity")
    return rows


def _labels(name: str, values: NDArray[Any]) -> NDArray[np.int64]:
    if not ((values >= 0) & (values < _MOST_CLASSES) & (values == np.floor(values))).all():
        raise UsageError("bad-labels", f"labels of {name} must be whole numbers below {_MOST_CLASSES}")
    return values.astype(np.int64)
