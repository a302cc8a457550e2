"""Files that were broken, on purpose or not: each is refused with one clear error, nothing unpickled."""

import io
import json
import os
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csgm_cli.errors import StorageError, UsageError
from csgm_cli.storage.arrays import check_hash, read_arrays, read_matrix, write_arrays

B, C = np.tril(np.ones((3, 3))), np.eye(3)
METADATA = json.dumps({"schema": "csgm/arrays/1", "sha256": "0" * 64})


def npy(array, *, version=(1, 0)):
    """The bytes of a .npy file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), version=version)
    return stream.getvalue()


def npy_with_header(header, data=b"\0" * 72):
    """A .npy file with this text where its header should be."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin1") + data


def header_of(shape, descr="'<f8'"):
    """The header that NumPy would write for this shape."""
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


def archive(*entries, compression=zipfile.ZIP_STORED):
    """A zip archive of (name, bytes) pairs, in which names may repeat."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile remarks on names that repeat
        for name, data in entries:
            file.writestr(zipfile.ZipInfo(name), data, compression)
    return stream.getvalue()


def factors(**changed):
    """An archive of B and C made elsewhere, some replaced."""
    return archive(*((f"{name}.npy", data) for name, data in ({"B": npy(B), "C": npy(C)} | changed).items()))


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
    "third version": (factors(B=npy(B, version=(3, 0))), "broken-file"),
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


def document(
    rows="[[1.0,2.0],[3.0,4.0]]", layout='{"B":{"dtype":"float64","shape":[2,2]}}', metadata=METADATA
):
    """A JSON file of one array, with some part changed."""
    return f'{{"arrays":{{"B":{rows}}},"layout":{layout},"metadata":{metadata}}}'.encode()


TEXT = {
    "empty file": (b"", "broken-file"),
    "a list": (b"[]", "broken-file"),
    "an empty object": (b"{}", "broken-file"),
    "cut off": (document()[:-1], "broken-file"),
    "not UTF-8": (document().replace(b"schema", b"\xff"), "broken-file"),
    "nested deeply": (b'{"arrays":' * 50_000, "broken-file"),
    "an array nested deeply": (document("[" * 5000 + "]" * 5000), "broken-file"),
    "ragged": (document("[[1.0,2.0],[3.0]]"), "broken-file"),
    "not a list": (document("3"), "broken-file"),
    "rows that are no lists": (document("[1.0,2.0]"), "broken-file"),
    "first row no list": (document("[1.0,[2.0]]"), "broken-file"),
    "no rows": (document("[]"), "broken-file"),
    "empty rows": (document("[[],[]]"), "broken-file"),
    "text": (document('[["1.0",2.0],[3.0,4.0]]'), "broken-file"),
    "true": (document("[[true,2.0],[3.0,4.0]]"), "broken-file"),
    "null": (document("[[null,2.0],[3.0,4.0]]"), "broken-file"),
    "NaN": (document("[[NaN,2.0],[3.0,4.0]]"), "not-finite"),
    "1e999": (document("[[1e999,2.0],[3.0,4.0]]"), "not-finite"),
    "400 digits": (document(f"[[{'9' * 400},2.0],[3.0,4.0]]"), "not-finite"),
    "5000 digits": (document(f"[[{'9' * 5000},2.0],[3.0,4.0]]"), "broken-file"),
    "beyond float32": (
        document("[[1e300]]", '{"B":{"dtype":"float32","shape":[1,1]}}'),
        "not-finite",
    ),
    "another shape": (document(layout='{"B":{"dtype":"float64","shape":[1,4]}}'), "broken-file"),
    "one side": (document(layout='{"B":{"dtype":"float64","shape":[4]}}'), "shape-mismatch"),
    "shape of text": (document(layout='{"B":{"dtype":"float64","shape":["2",2]}}'), "broken-file"),
    "no shape": (document(layout='{"B":{"dtype":"float64"}}'), "broken-file"),
    "dtype of objects": (document(layout='{"B":{"dtype":"object","shape":[2,2]}}'), "wrong-dtype"),
    "dtype that is a list": (document(layout='{"B":{"dtype":[1],"shape":[2,2]}}'), "wrong-dtype"),
    "layout of another": (document(layout='{"C":{"dtype":"float64","shape":[2,2]}}'), "broken-file"),
    "layout is a list": (document(layout="[]"), "broken-file"),
    "two B": (document('1,"B":2'), "duplicate-array"),
    "unknown array": (document().replace(b'"B"', b'"W"'), "unknown-array"),
    "no schema": (document(metadata="{}"), "broken-file"),
    "no metadata": (document(metadata="null"), "broken-file"),
}


@pytest.mark.parametrize("name", TEXT)
def test_json(tmp_path, name):
    """Each broken JSON file is refused for its own reason."""
    data, slug = TEXT[name]
    (tmp_path / "x.json").write_bytes(data)
    assert refusal(tmp_path / "x.json").slug == slug


CSV = {
    "ragged": (b"1.0,2.0\n3.0\n", "broken-file"),
    "another shape": (b"1.0,2.0\n", "broken-file"),
    "empty": (b"", "broken-file"),
    "empty cell": (b"1.0,\n3.0,4.0\n", "broken-file"),
    "heading": (b"a,b\n1.0,2.0\n3.0,4.0\n", "broken-file"),
    "underscore": (b"1_0,2.0\n3.0,4.0\n", "broken-file"),
    "other digits": ("\u0661,2.0\n3.0,4.0\n".encode(), "broken-file"),
    "NaN": (b"nan,2.0\n3.0,4.0\n", "not-finite"),
    "infinity": (b"1e999,2.0\n3.0,4.0\n", "not-finite"),
    "huge": (b"1.0,2.0\n" * 1_000_000, "too-large"),
}


def folder(path, data=b"1.0,2.0\n3.0,4.0\n", layout='{"B":{"dtype":"float64","shape":[2,2]}}'):
    """A CSV folder of one array."""
    path.mkdir()
    (path / "B.csv").write_bytes(data)
    (path / "metadata.json").write_text(f'{{"layout":{layout},"metadata":{METADATA}}}')
    return path


@pytest.mark.parametrize("name", CSV)
def test_csv(tmp_path, name):
    """Each broken CSV file is refused for its own reason."""
    data, slug = CSV[name]
    assert refusal(folder(tmp_path / "x.csv", data)).slug == slug


def test_csv_with_windows_line_ends(tmp_path):
    """What a spreadsheet does to line ends does not matter."""
    read = read_arrays(folder(tmp_path / "x.csv", b"1.0,2.0\r\n3.0,4.0"))
    np.testing.assert_array_equal(read.arrays["B"], [[1, 2], [3, 4]])


@pytest.mark.parametrize("layout", ['{"../B":{"dtype":"float64","shape":[2,2]}}', "{}", "[]"])
def test_csv_layout(tmp_path, layout):
    """A layout names known arrays only, so that no file elsewhere is opened."""
    assert refusal(folder(tmp_path / "x.csv", layout=layout)).slug in {
        "unknown-array",
        "no-arrays",
        "broken-file",
    }


def test_csv_folder_with_a_missing_file(tmp_path):
    """A file of the folder that cannot be opened is a StorageError, as any other is."""
    (folder(tmp_path / "x.csv") / "B.csv").unlink()
    with pytest.raises(StorageError, match=r"there is no B\.csv in it"):
        read_arrays(tmp_path / "x.csv")


def test_folder_of_something_else(tmp_path):
    """A folder without arrays holds none."""
    (tmp_path / "notes.txt").write_text("mine")
    assert refusal(tmp_path).slug == "no-arrays"


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


@pytest.mark.parametrize(("part", "times"), [(b" ", 120_000_000), (b"[],", 5_000_000)])
def test_huge_json(tmp_path, part, times):
    """JSON that is too long, or would make too many objects, is refused before it is parsed."""
    (tmp_path / "x.json").write_bytes(b"[" + part * times + b"0]")
    assert refusal(tmp_path / "x.json").slug == "too-large"


@pytest.mark.parametrize("name", ["x.txt", "x", "x.csv", "x.npz.bak"])
def test_unknown_suffix(tmp_path, name):
    """A file is what its suffix says, and .csv is a folder."""
    (tmp_path / name).write_bytes(factors())
    assert refusal(tmp_path / name).slug == "unknown-format"
    assert refusal(tmp_path / name, read_matrix).slug == "unknown-format"


@pytest.mark.parametrize("reader", [read_arrays, read_matrix])
def test_unreadable(tmp_path, reader):
    """What cannot be opened, and a pipe that may never end, is a StorageError that names it."""
    os.mkfifo(tmp_path / "pipe.npy")
    for name, reason in (
        ("missing.npy", "No such file"),
        ("pipe.npy", "no regular file"),
        ("nul\0.npy", "null"),
    ):
        with pytest.raises(StorageError, match=reason) as caught:
            reader(tmp_path / name)
        assert caught.value.slug == "cannot-read"
        assert repr(str(tmp_path / name)) in caught.value.message


@pytest.mark.parametrize("name", ["B.npy", "B.csv", "metadata.json"])
def test_folder_with_a_pipe(tmp_path, name):
    """Nor is a pipe or a device inside a folder waited for."""
    if name == "B.npy":
        path = tmp_path
    else:
        path = folder(tmp_path / "x.csv")
        (path / name).unlink()
    os.mkfifo(path / name)
    with pytest.raises(StorageError, match="no regular file"):
        read_arrays(path)


def test_sparse_file_of_terabytes(tmp_path):
    """A file that is larger than any is refused by its size alone."""
    for name in ("x.npz", "B.npy", "x.safetensors"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 40)
        assert refusal(tmp_path / name).slug == "too-large"


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json", "csv"])
@pytest.mark.parametrize("change", ["number", "metadata", "hash", "no hash"])
def test_changed_content(tmp_path, suffix, change, factorization):
    """A file that was changed by someone who knows the format is read, and does not have its hash."""
    if suffix == "safetensors":
        pytest.importorskip("safetensors")
    path = tmp_path / f"x.{suffix}"
    write_arrays(path, factorization)
    _rewrite(path, change)
    read = read_arrays(path)
    assert read.recorded_hash != read.actual_hash
    with pytest.raises(UsageError) as caught:
        check_hash(read)
    assert caught.value.slug == "hash-mismatch"


def _rewrite(path, change):
    """Change one thing in a file, and whatever of the container has to agree with it."""
    old, new = {
        "number": (None, None),
        "metadata": ('"T":5', '"T":6'),
        "hash": ('"sha256":"', '"sha256":"0'),
        "no hash": ('"sha256"', '"sha257"'),
    }[change]
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as file:
            entries = {name: file.read(name) for name in file.namelist()}
        if change == "number":
            entries["B.npy"] = entries["B.npy"][:-1] + b"\x40"
        else:
            entries["metadata.json"] = entries["metadata.json"].decode().replace(old, new).encode()
        path.write_bytes(archive(*entries.items()))
    elif path.suffix == ".safetensors":
        from safetensors import safe_open
        from safetensors.numpy import save_file

        with safe_open(path, framework="numpy") as file:
            arrays = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118 - no mapping
            text = file.metadata()["csgm"]
        if change == "number":
            arrays["B"][0, 0] = 2
        else:
            text = text.replace(old, new)
        save_file(arrays, path, {"csgm": text})
    elif change == "number" and path.suffix == ".csv":
        numbers = (path / "B.csv").read_text()
        (path / "B.csv").write_text(numbers.replace("1.0", "2.0", 1))
    else:
        file = path / "metadata.json" if path.is_dir() else path
        text = file.read_text()
        file.write_text(text.replace("1.0", "2.0", 1) if change == "number" else text.replace(old, new))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json"])
def test_any_damage(tmp_path, suffix, factorization, data):
    """A file with any bytes changed, lost or put in is refused, or reads as before, or has another hash."""
    if suffix == "safetensors":
        pytest.importorskip("safetensors")
    path = tmp_path / f"x.{suffix}"
    write_arrays(path, factorization, force=True)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        end = start + data.draw(st.integers(0, 4))
        content[start:end] = data.draw(st.binary(max_size=4))
    path.write_bytes(content)
    try:
        read = read_arrays(path)
    except UsageError:
        return
    if read.recorded_hash == read.actual_hash:
        assert read.metadata == factorization.metadata
        assert all((read.arrays[name] == array).all() for name, array in factorization.arrays.items())
