"""Broken .npz, .npy and .safetensors: each is refused with one clear error, nothing unpickled or unpacked."""

import json
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.storage.arrays import read_matrix
from tests.storage.arrays.hostile_files import METADATA, B, C, archive, factors, npy, refusal


def npy_with_header(header, data=b"\0" * 72):
    """A .npy file with this text where its header should be."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin1") + data


def header_of(shape, descr="'<f8'"):
    """The header that NumPy would write for this shape."""
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def patched(data, signature, offset, value):
    """The bytes with a field changed in the first zip record of that signature."""
    place = data.index(signature) + offset
    return data[:place] + value + data[place + len(value) :]


LISTED, STORED, END = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"


class Bomb:
    """Unpickled, it leaves a folder."""

    def __reduce__(self):
        """What pickle would run."""
        return os.mkdir, ("unpickled",)


NPZ = {
    "empty file": (b"", "broken-file"),
    "text": (b"B C\n1 2\n", "broken-file"),
    "no entries": (archive(), "no-arrays"),
    "only other arrays": (archive(("W.npy", npy(B))), "no-arrays"),
    "truncated": (factors()[:-30], "broken-file"),
    "truncated in the middle": (factors()[:300], "broken-file"),
    "numbers changed under the zip's sum": (factors().replace(npy(B), npy(2 * B), 1), "broken-file"),
    "object array": (factors(B=npy(np.array([Bomb()], object))), "pickled"),
    "objects among fields": (factors(B=npy(np.zeros(3, [("a", object)]))), "pickled"),
    "bare pickle": (factors(B=b"\x80\x04cos\nmkdir\n."), "broken-file"),
    "whole numbers": (factors(B=npy(B.astype(int))), "wrong-dtype"),
    "half precision": (factors(B=npy(B.astype(np.float16))), "wrong-dtype"),
    "long double": (factors(B=npy(B.astype(np.longdouble))), "wrong-dtype"),
    "complex": (factors(B=npy(B.astype(complex))), "wrong-dtype"),
    "text array": (factors(B=npy(B.astype("U5"))), "wrong-dtype"),
    "named fields": (factors(B=npy(np.zeros(3, [("a", float)]))), "wrong-dtype"),
    "NaN": (factors(B=npy(np.where(B, B, np.nan))), "not-finite"),
    "infinity": (factors(C=npy(np.where(C, np.inf, C).astype(np.float32))), "not-finite"),
    "three sides": (factors(B=npy(np.ones((3, 3, 1)))), "shape-mismatch"),
    "one number": (factors(B=npy(1.0)), "shape-mismatch"),
    "nothing": (factors(B=npy(np.ones((0, 3)))), "shape-mismatch"),
    "another inner size": (factors(C=npy(np.ones((4, 3)))), "shape-mismatch"),
    "another T": (factors(C=npy(np.ones((3, 4)))), "shape-mismatch"),
    "series of three": (archive(("series.npy", npy(C))), "shape-mismatch"),
    "header promises more": (factors(B=npy_with_header(header_of((3, 4)))), "broken-file"),
    "header promises less": (factors(B=npy_with_header(header_of((3, 2)))), "broken-file"),
    "header promises exabytes": (factors(B=npy_with_header(header_of((1 << 31, 1 << 30)))), "broken-file"),
    "negative sides": (factors(B=npy_with_header(header_of((-3, -3)))), "shape-mismatch"),
    "sides that are no numbers": (factors(B=npy_with_header(header_of((True, 9)))), "broken-file"),
    "a call in the header": (
        factors(B=npy_with_header("__import__('os').mkdir('unpickled')\n")),
        "broken-file",
    ),
    "deep header": (factors(B=npy_with_header("(" * 9000 + "\n")), "broken-file"),
    "deep unary header": (factors(B=npy_with_header("-" * 9000 + "1\n")), "broken-file"),
    "header of another type": (factors(B=npy_with_header("[1, 2]\n")), "broken-file"),
    "unknown dtype": (factors(B=npy_with_header(header_of((3, 3), "'?!'"))), "broken-file"),
    "fourth version": (factors(B=npy(B).replace(b"NUMPY\x01\x00", b"NUMPY\x04\x00")), "unknown-format"),
    "cut after the listing": (factors() + b"\x07", "broken-file"),
    "header cut off": (factors(B=npy(B)[:20]), "broken-file"),
    "same entry twice": (archive(("B.npy", npy(B)), ("B.npy", npy(C))), "duplicate-array"),
    "same array twice": (archive(("B.npy", npy(B)), ("b.npy", npy(C))), "duplicate-array"),
    "path traversal": (archive(("../B.npy", npy(B)), ("C.npy", npy(C))), "bad-name"),
    "absolute path": (archive(("/etc/B.npy", npy(B))), "bad-name"),
    "backslash": (archive(("..\\B.npy", npy(B))), "bad-name"),
    "drive": (archive(("C:B.npy", npy(B))), "bad-name"),
    "encrypted": (patched(patched(factors(), LISTED, 8, b"\1"), STORED, 6, b"\1"), "encrypted"),
    "lzma": (archive(("B.npy", npy(B)), compression=zipfile.ZIP_LZMA), "broken-file"),
    "two names of one entry": (patched(factors(), STORED, 30, b"X"), "broken-file"),
    "unknown compression": (patched(factors(), LISTED, 10, b"\x63"), "broken-file"),
    "garbage as deflated": (
        patched(patched(factors(), LISTED, 10, b"\x08"), STORED, 8, b"\x08"),
        "broken-file",
    ),
    "declares gigabytes": (patched(factors(), LISTED, 24, struct.pack("<I", 4_000_000_000)), "zip-bomb"),
    "listed before the start": (patched(factors(), END, 16, b"\xff"), "broken-file"),
    "declares too little": (patched(factors(), LISTED, 24, struct.pack("<I", 100)), "broken-file"),
    "lies about both sizes": (patched(factors(), LISTED, 20, struct.pack("<II", 9999, 9999)), "broken-file"),
    "listing elsewhere": (patched(factors(), END, 16, struct.pack("<I", 7)), "broken-file"),
    "listing of gigabytes": (
        patched(factors(), END, 12, struct.pack("<II", 3_000_000_000, 0)),
        "broken-file",
    ),
    "unknown array of ours": (
        archive(("metadata.json", METADATA), ("B.npy", npy(B)), ("W.npy", npy(B))),
        "unknown-array",
    ),
    "metadata under a name one bit off": (
        archive(("letadata.json", METADATA), ("B.npy", npy(B)), ("C.npy", npy(C))),
        "unknown-array",
    ),
    "program in ours": (
        archive(("metadata.json", METADATA), ("B.npy", npy(B)), ("run.sh", b"rm")),
        "unknown-array",
    ),
    "array without suffix in ours": (archive(("metadata.json", METADATA), ("B", npy(B))), "unknown-array"),
    "another schema": (
        archive(("metadata.json", '{"schema":"csgm/arrays/2"}'), ("B.npy", npy(B))),
        "broken-file",
    ),
    "metadata is a list": (archive(("metadata.json", "[1]"), ("B.npy", npy(B))), "broken-file"),
    "metadata is null": (archive(("metadata.json", "null"), ("B.npy", npy(B))), "broken-file"),
    "metadata is no JSON": (archive(("metadata.json", "{T:1}"), ("B.npy", npy(B))), "broken-file"),
    "metadata is not UTF-8": (archive(("metadata.json", b'{"\xff":1}'), ("B.npy", npy(B))), "broken-file"),
    "metadata is empty": (archive(("metadata.json", b""), ("B.npy", npy(B))), "broken-file"),
    "deep metadata": (
        archive(("metadata.json", '{"a":' * 100_000), ("B.npy", npy(B))),
        "broken-file",
    ),
    "metadata with NaN": (archive(("metadata.json", '{"gap":NaN}'), ("B.npy", npy(B))), "not-finite"),
    "metadata with 1e999": (
        archive(("metadata.json", METADATA[:-1] + ',"gap":1e999}'), ("B.npy", npy(B))),
        "not-finite",
    ),
    "metadata with two T": (
        archive(("metadata.json", '{"T":1,"T":2}'), ("B.npy", npy(B))),
        "duplicate-array",
    ),
    "hash that is no text": (
        archive(("metadata.json", '{"schema":"csgm/arrays/1","sha256":1}'), ("B.npy", npy(B))),
        "broken-file",
    ),
    "metadata of megabytes": (
        archive(("metadata.json", '{"a":"' + "x" * 2_000_000 + '"}'), ("B.npy", npy(B))),
        "too-large",
    ),
}


@pytest.mark.parametrize("name", NPZ)
def test_npz(tmp_path, monkeypatch, name):
    """Each broken .npz is refused for its own reason, and leaves nothing behind."""
    monkeypatch.chdir(tmp_path)
    data, slug = NPZ[name]
    (tmp_path / "x.npz").write_bytes(data)
    assert refusal(tmp_path / "x.npz").slug == slug
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_the_bomb_works(tmp_path, monkeypatch):
    """With unpickling allowed, the pickled array of the table above does run code."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npy").write_bytes(npy(np.array([Bomb()], object)))
    np.load(tmp_path / "x.npy", allow_pickle=True)
    assert (tmp_path / "unpickled").is_dir()


NPY = {
    "object": (npy(np.array([Bomb()], object)), "pickled"),
    "NaN": (npy([[np.nan]]), "not-finite"),
    "one side": (npy(np.ones(3)), "shape-mismatch"),
    "empty": (npy(np.ones((0, 0))), "shape-mismatch"),
    "whole numbers": (npy([[1]]), "wrong-dtype"),
    "truncated": (npy(B)[:-1], "broken-file"),
    "longer": (npy(B) + b"\0", "broken-file"),
    "an archive": (factors(), "broken-file"),
    "nothing": (b"", "broken-file"),
}


@pytest.mark.parametrize("name", NPY)
def test_npy(tmp_path, name):
    """Each broken matrix is refused, as a workload and as a factor."""
    data, slug = NPY[name]
    (tmp_path / "B.npy").write_bytes(data)
    assert refusal(tmp_path / "B.npy", read_matrix).slug == slug
    assert refusal(tmp_path / "B.npy").slug == slug


def test_npy_without_a_name(tmp_path):
    """A .npy file that could be anything is not guessed at."""
    (tmp_path / "x.npy").write_bytes(npy(B))
    assert refusal(tmp_path / "x.npy").slug == "no-arrays"


def tensors(header, data=b"\0" * 8, length=None):
    """A .safetensors file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


ONE = {"dtype": "F64", "shape": [1, 1], "data_offsets": [0, 8]}


SAFETENSORS = {
    "empty file": (b"", "broken-file"),
    "header of exabytes": (tensors({"B": ONE}, length=1 << 62), "broken-file"),
    "header longer than the file": (tensors({"B": ONE}, length=900_000), "broken-file"),
    "header shorter than it is": (tensors({"B": ONE}, length=9), "broken-file"),
    "no numbers": (tensors({"B": ONE}, b""), "broken-file"),
    "too many numbers": (tensors({"B": ONE}, b"\0" * 16), "broken-file"),
    "overlap": (tensors({"B": ONE, "C": ONE}), "broken-file"),
    "overflow": (tensors({"B": ONE | {"shape": [1 << 62, 4]}}), "broken-file"),
    "negative side": (tensors({"B": ONE | {"shape": [-1, -1]}}), "broken-file"),
    "same name twice": (
        tensors(b'{"B":' + json.dumps(ONE).encode() + b',"B":' + json.dumps(ONE).encode() + b"}"),
        "duplicate-array",
    ),
    "deep header": (tensors(b"[" * 100_000), "broken-file"),
    "whole numbers": (tensors({"B": ONE | {"dtype": "I64"}}), "wrong-dtype"),
    "unknown dtype": (tensors({"B": ONE | {"dtype": "F99"}}), "broken-file"),
    "one side": (tensors({"B": ONE | {"shape": [1]}}), "shape-mismatch"),
    "NaN": (tensors({"B": ONE}, struct.pack("<d", float("nan"))), "not-finite"),
    "no arrays": (tensors({"W": ONE}), "no-arrays"),
    "metadata is null": (tensors({"B": ONE, "__metadata__": {"csgm": "null"}}), "broken-file"),
    "metadata is no JSON": (tensors({"B": ONE, "__metadata__": {"csgm": "T"}}), "broken-file"),
    "unknown array of ours": (
        tensors({"W": ONE, "__metadata__": {"csgm": METADATA}}),
        "unknown-array",
    ),
}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_safetensors(tmp_path, name):
    """Each broken .safetensors file is refused for its own reason."""
    pytest.importorskip("safetensors")
    data, slug = SAFETENSORS[name]
    (tmp_path / "x.safetensors").write_bytes(data)
    assert refusal(tmp_path / "x.safetensors").slug == slug


def test_zip_bomb(tmp_path):
    """A small file that would fill the memory is refused before any of it is unpacked."""
    np.savez_compressed(tmp_path / "x.npz", B=np.zeros((3000, 3000)))
    assert (tmp_path / "x.npz").stat().st_size < 100_000
    assert refusal(tmp_path / "x.npz").slug == "zip-bomb"


def test_archive_of_thousands(tmp_path):
    """A long listing of entries is refused before it is taken apart."""
    names = (f"{'x' * 200}{number}.npy" for number in range(5000))
    (tmp_path / "x.npz").write_bytes(archive(*((name, b"") for name in names), ("B.npy", npy(B))))
    assert refusal(tmp_path / "x.npz").slug == "broken-file"


def test_a_sparse_file_takes_no_more_memory_than_there_is(tmp_path, monkeypatch):
    """A file of a few blocks on disk can declare gibibytes of zeros: it is refused before it is read."""
    path, side = tmp_path / "sparse.npy", 1 << 14
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (side, side)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 8 * side**2)
    monkeypatch.setattr("csgm_cli.storage.memory.available_bytes", lambda: 1 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=r"needs 2\.0 GiB of memory, 1\.0 GiB are available") as caught:
            read_matrix(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
    assert caught.value.slug == "too-large"
