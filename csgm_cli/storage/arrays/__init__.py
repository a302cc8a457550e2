"""Matrix factorizations as files (.npz, .safetensors, .json, folders of CSV), trusted or not."""

from csgm_cli.storage.arrays.content import ArrayFile, SavedArrays, check_hash
from csgm_cli.storage.arrays.files import (
    check_destination,
    read_arrays,
    read_matrix,
    read_vector,
    write_arrays,
)

__all__ = [
    "ArrayFile",
    "SavedArrays",
    "check_destination",
    "check_hash",
    "read_arrays",
    "read_matrix",
    "read_vector",
    "write_arrays",
]
