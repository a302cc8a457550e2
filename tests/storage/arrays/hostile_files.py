"""Bytes of files to break, and what a refusal of one must look like."""

import io
import json
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.storage.arrays import read_arrays

B, C = np.tril(np.ones((3, 3))), np.eye(3)
METADATA = json.dumps({"schema": "csgm/arrays/1", "sha256": "0" * 64})


def npy(array, *, version=(1, 0)):
    """The bytes of a .npy file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), version=version)
    return stream.getvalue()


def archive(*entries, compression=zipfile.ZIP_STORED, comment=b""):
    """A zip archive of (name, bytes) pairs, in which names may repeat."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile remarks on names that repeat
        for name, data in entries:
            file.writestr(zipfile.ZipInfo(name), data, compression)
        file.comment = comment
    return stream.getvalue()


def factors(**changed):
    """An archive of B and C made elsewhere, some replaced."""
    return archive(*((f"{name}.npy", data) for name, data in ({"B": npy(B), "C": npy(C)} | changed).items()))


def refusal(path, reader=read_arrays):
    """The error of reading a file: one line that names it, without a gigabyte asked for on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(UsageError) as caught:
            reader(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 150e6
    assert caught.value.exit_status == 2
    assert repr(str(path)) in caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


def folder(path, data=b"1.0,2.0\n3.0,4.0\n", layout='{"B":{"dtype":"float64","shape":[2,2]}}'):
    """A CSV folder of one array."""
    path.mkdir()
    (path / "B.csv").write_bytes(data)
    (path / "metadata.json").write_text(f'{{"layout":{layout},"metadata":{METADATA}}}')
    return path
