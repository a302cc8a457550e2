"""``.safetensors``, by the library of that name (an extra); the metadata are one JSON text, ``csgm``."""

from __future__ import annotations

import stat
from pathlib import Path
from types import ModuleType

import numpy as np

from csgm_cli.errors import UsageError
from csgm_cli.storage.arrays import metadata
from csgm_cli.storage.arrays.content import Array, ArrayFile, check_shape, known_names, wrong_dtype
from csgm_cli.storage.arrays.metadata import JSON, broken

_DTYPES = ("F32", "F64")

_METADATA = "csgm"


def library() -> ModuleType:
    """The module ``safetensors``; ``UsageError`` (slug ``missing-extra``) where it is not installed."""
    try:
        import safetensors.numpy
    except ImportError:
        message = ".safetensors files need an extra: pip install 'csgm-cli[safetensors]'"
        raise UsageError("missing-extra", message) from None
    return safetensors


def write(path: Path, file: ArrayFile, sealed: dict[str, JSON]) -> None:
    """Write straight from the arrays' memory; one that is not stored row by row is copied first.

    One key of metadata, because the library does not keep the order of several.
    """
    safetensors = library()
    arrays = {
        name: np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        for name, array in file.arrays.items()
    }
    path.touch(exist_ok=False)
    permissions = stat.S_IMODE(path.stat().st_mode)
    try:
        safetensors.numpy.save_file(arrays, path, metadata={_METADATA: metadata.canonical(sealed)})
    except safetensors.SafetensorError as error:
        raise OSError(None, str(error)) from None
    path.chmod(permissions)  # the library makes a file for its owner alone


def read(path: Path) -> tuple[dict[str, Array], dict[str, JSON] | None]:
    """The arrays and the metadata as held, None where they are not ours; ``UsageError`` otherwise."""
    safetensors = library()
    _check_header(path)
    try:
        # Not "mmap": a file that shrinks meanwhile would kill the process.
        with safetensors.safe_open(path, framework="numpy", backend="pread") as tensors:
            held = (tensors.metadata() or {}).get(_METADATA)
            names = known_names(tensors.keys(), ours=held is not None)
            for name, theirs in names.items():
                part = tensors.get_slice(theirs)
                if part.get_dtype() not in _DTYPES:
                    raise wrong_dtype(name, part.get_dtype())
                check_shape(name, tuple(part.get_shape()))
            arrays = {name: tensors.get_tensor(theirs) for name, theirs in names.items()}
    except safetensors.SafetensorError as error:
        raise broken(f"it is not a sound .safetensors file: {error}") from None
    return arrays, None if held is None else metadata.parse_object(held, "metadata")


def _check_header(path: Path) -> None:
    """The library takes the last of two equal names, and any length of header up to 100 MB."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > metadata.MOST_BYTES:
            raise broken(f"it is not a sound .safetensors file: a header of {length} bytes")
        metadata.parse(file.read(length))
