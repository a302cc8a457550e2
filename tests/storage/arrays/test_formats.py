"""Every format: what was written comes back, the bytes never change, and other programs read them."""

import csv
import hashlib
import json
import os
import stat
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from csgm_cli.errors import UsageError
from csgm_cli.storage.arrays import ArrayFile, check_hash, read_arrays, read_matrix, write_arrays

FORMATS = ["npz", "safetensors", "json", "csv"]


@pytest.fixture(params=FORMATS)
def suffix(request):
    """Each format in turn; .safetensors only where its library is."""
    if request.param == "safetensors":
        pytest.importorskip("safetensors")
    return request.param


def contents(path):
    """The bytes of a file, or those of each file of a folder by name."""
    if path.is_dir():
        return {file.name: file.read_bytes() for file in path.iterdir()}
    return path.read_bytes()


def assert_same(read, written):
    """Same names, types and bits, and the same metadata."""
    assert read.metadata == written.metadata
    assert read.arrays.keys() == written.arrays.keys()
    for name, array in written.arrays.items():
        found = read.arrays[name]
        assert found.dtype == array.dtype.newbyteorder("=")
        assert found.dtype.isnative
        assert found.shape == array.shape
        assert found.tobytes() == array.astype(found.dtype).tobytes()
    assert read.recorded_hash == read.actual_hash
    check_hash(read)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def array_files(draw):
    """Dense factors, not always square, and a streaming form, in either type, byte order and memory order."""
    T, R, N = (draw(st.integers(1, 4)) for _ in range(3))
    shapes = {"B": (T, R), "C": (R, T), "C_inv": (T, R), "v": (T,), "decays": (T, N), "series": (2, T)}
    arrays = {}
    for name in draw(st.lists(st.sampled_from(sorted(shapes)), min_size=1, unique=True)):
        width = draw(st.sampled_from([32, 64]))
        finite = st.floats(width=width, allow_nan=False, allow_infinity=False)
        dtype = np.dtype(f"{draw(st.sampled_from('<>'))}f{width // 8}")
        array = draw(st_numpy.arrays(dtype, shapes[name], elements=finite))
        arrays[name] = np.asarray(array, order=draw(st.sampled_from("CF")))
    metadata = draw(st.dictionaries(st.text().filter(lambda key: key not in {"schema", "sha256"}), JSON))
    return ArrayFile(arrays, metadata)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=array_files())
def test_round_trip(tmp_path, suffix, file):
    """Every finite number of every type, subnormals and -0.0 among them, comes back to the bit."""
    path = tmp_path / f"x.{suffix}"
    write_arrays(path, file, force=True)
    assert_same(read_arrays(path), file)


def test_same_bytes(tmp_path, suffix, factorization):
    """Same content, same bytes: whatever the order of names, numbers in memory, bytes, or the umask."""
    write_arrays(tmp_path / f"a.{suffix}", factorization)
    reordered = ArrayFile(
        {
            name: np.asarray(array, array.dtype.newbyteorder(">"), order="F")
            for name, array in reversed(factorization.arrays.items())
        },
        dict(reversed(factorization.metadata.items())),
    )
    before = os.umask(0o077)
    try:
        write_arrays(tmp_path / f"b.{suffix}", reordered)
    finally:
        os.umask(before)
    assert contents(tmp_path / f"a.{suffix}") == contents(tmp_path / f"b.{suffix}")


def test_permissions(tmp_path, suffix, factorization):
    """A new file or folder is as open as the umask lets any be."""
    before = os.umask(0o027)
    try:
        write_arrays(tmp_path / f"x.{suffix}", factorization)
    finally:
        os.umask(before)
    path = tmp_path / f"x.{suffix}"
    assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640)


def test_one_hash_for_all_formats(tmp_path, factorization):
    """The hash is that of the documented text, put together here by hand."""
    text = b""
    for name, kind in (("B", "<f8"), ("C", "<f8"), ("v", "<f4")):
        array = factorization.arrays[name]
        text += json.dumps([name, kind, list(array.shape)], separators=(",", ":")).encode() + b"\n"
        text += b"".join(value.astype(kind).tobytes() for value in array.flat)
    # sorted, ASCII, no white space
    text += b'{"T":5,"gap":1e-10,"notes":["a",null,true,{"\\u00e9":-0.0}],"workload":"prefix-sum"}'
    for suffix in ("npz", "json", "csv"):
        write_arrays(tmp_path / f"x.{suffix}", factorization)
        assert read_arrays(tmp_path / f"x.{suffix}").recorded_hash == hashlib.sha256(text).hexdigest()


def test_numpy_reads_npz(tmp_path, factorization):
    """numpy.load lists arrays alone; the metadata are JSON for unzip -z; entries are from 1980."""
    write_arrays(tmp_path / "x.npz", factorization)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as found:
        assert {name: found[name].shape for name in found.files} == {"B": (5, 5), "C": (5, 5), "v": (5,)}
        for name, array in factorization.arrays.items():
            np.testing.assert_array_equal(found[name], array, strict=True)
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        metadata = json.loads(archive.comment)
        assert archive.testzip() is None
    assert metadata.items() >= factorization.metadata.items()
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_npz_of_earlier_versions(tmp_path, factorization):
    """Their metadata are an entry of the archive, which is read; in both places they are refused."""
    write_arrays(tmp_path / "x.npz", factorization)
    with zipfile.ZipFile(tmp_path / "x.npz") as new, zipfile.ZipFile(tmp_path / "old.npz", "w") as old:
        for name in new.namelist():
            old.writestr(name, new.read(name))
        old.writestr("metadata.json", new.comment)
    assert_same(read_arrays(tmp_path / "old.npz"), factorization)
    with zipfile.ZipFile(tmp_path / "old.npz", "a") as both:
        both.comment = b"{}"
    with pytest.raises(UsageError, match="metadata twice"):
        read_arrays(tmp_path / "old.npz")


def test_metadata_too_long_for_npz(tmp_path, factorization):
    """A zip comment holds 65,535 bytes; nothing is left behind."""
    metadata = {"notes": "x" * 70_000}
    with pytest.raises(UsageError, match="65535") as caught:
        write_arrays(tmp_path / "x.npz", ArrayFile(factorization.arrays, metadata))
    assert caught.value.slug == "too-large"
    assert list(tmp_path.iterdir()) == []


def test_one_array_as_npy(tmp_path, factorization):
    """numpy.load reads it, and so does csgm, by the name of the file; there is no room for a second."""
    write_arrays(tmp_path / "B.npy", ArrayFile({"B": factorization.arrays["B"]}, {"T": 5}))
    np.testing.assert_array_equal(np.load(tmp_path / "B.npy"), factorization.arrays["B"], strict=True)
    read = read_arrays(tmp_path / "B.npy")
    assert (list(read.arrays), read.metadata, read.recorded_hash) == (["B"], {}, None)
    with pytest.raises(UsageError, match="B, C, v") as caught:
        write_arrays(tmp_path / "x.npy", factorization)
    assert caught.value.slug == "several-arrays"


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_npy_version(tmp_path, version, order):
    """NumPy writes 3.0 on request only, with the same numbers."""
    array = np.asarray(np.arange(6.0).reshape(2, 3), order=order)
    with (tmp_path / "B.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    np.testing.assert_array_equal(read_arrays(tmp_path / "B.npy").arrays["B"], array)


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["W.npy", "H.npy"], "it holds H, W; expected arrays named A, B, C"),
        (["C.csv"], "it holds C.csv; expected"),
    ],
)
@pytest.mark.parametrize("form", ["folder", "npz"])
def test_names_that_were_found(tmp_path, names, listed, form):
    """A file without any array that csgm knows lists those that it has, and those that it could have."""
    path = tmp_path / f"x.{form}"
    if form == "folder":
        path.mkdir()
        for name in names:
            (np.savetxt if name.endswith(".csv") else np.save)(path / name, np.eye(2))
    else:
        np.savez(path, **{name.removesuffix(".npy"): np.eye(2) for name in names})
    with pytest.raises(UsageError) as caught:
        read_arrays(path)
    assert caught.value.slug == "no-arrays"
    assert listed in caught.value.message
    assert "C.npy" in caught.value.hint


def test_safetensors_reads_its_own(tmp_path, factorization):
    """safetensors.numpy reads the arrays, safe_open the metadata."""
    numpy_tensors = pytest.importorskip("safetensors.numpy")
    from safetensors import safe_open

    write_arrays(tmp_path / "x.safetensors", factorization)
    found = numpy_tensors.load_file(tmp_path / "x.safetensors")
    for name, array in factorization.arrays.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    with safe_open(tmp_path / "x.safetensors", framework="numpy") as file:
        assert json.loads(file.metadata()["csgm"]).items() >= factorization.metadata.items()


def test_json_module_reads_json(tmp_path, factorization):
    """The standard library finds nested lists of numbers."""
    write_arrays(tmp_path / "x.json", factorization)
    document = json.loads((tmp_path / "x.json").read_text(encoding="ascii"))
    assert document["metadata"].items() >= factorization.metadata.items()
    assert document["layout"]["v"] == {"dtype": "float32", "shape": [5]}
    for name, array in factorization.arrays.items():
        assert document["arrays"][name] == array.tolist()


def test_csv_module_reads_csv(tmp_path, factorization):
    """The standard library finds one row per line, and numpy.loadtxt the array."""
    write_arrays(tmp_path / "x.csv", factorization)
    assert sorted(path.name for path in (tmp_path / "x.csv").iterdir()) == [
        "B.csv",
        "C.csv",
        "metadata.json",
        "v.csv",
    ]
    with (tmp_path / "x.csv" / "B.csv").open(newline="") as file:
        assert [[float(value) for value in row] for row in csv.reader(file)] == [
            [1.0] * row + [0.0] * (5 - row) for row in range(1, 6)
        ]
    for name, array in factorization.arrays.items():
        np.testing.assert_array_equal(np.loadtxt(tmp_path / "x.csv" / f"{name}.csv", delimiter=","), array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_made_elsewhere(tmp_path, save):
    """Arrays named b and c count, others are left alone, even pickled ones; nothing is claimed."""
    B, C = np.tril(np.ones((3, 3))), np.eye(3, dtype=">f4")
    save(tmp_path / "x.npz", b=np.asfortranarray(B), c=C, info=np.array([{"by": "someone"}], dtype=object))
    read = read_arrays(tmp_path / "x.npz")
    np.testing.assert_array_equal(read.arrays["B"], B)
    np.testing.assert_array_equal(read.arrays["C"], C)
    assert read.arrays["C"].dtype == np.float32
    assert (read.metadata, read.recorded_hash) == ({}, None)
    check_hash(read)


def test_npy_made_elsewhere(tmp_path):
    """A .npy file says by its name which array it is; a folder may hold several."""
    np.save(tmp_path / "B.npy", np.tril(np.ones((3, 3))))
    np.save(tmp_path / "c.npy", np.eye(3))
    (tmp_path / "notes.txt").write_text("mine")
    assert read_arrays(tmp_path / "c.npy").arrays.keys() == {"C"}
    assert read_arrays(tmp_path).arrays.keys() == {"B", "C"}


def test_safetensors_made_elsewhere(tmp_path):
    """Metadata of another program are no claim of ours."""
    numpy_tensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "x.safetensors"
    numpy_tensors.save_file({"c": np.eye(3), "bias": np.ones(3, np.int64)}, path, {"format": "pt"})
    read = read_arrays(path)
    np.testing.assert_array_equal(read.arrays["C"], np.eye(3))
    assert (read.metadata, read.recorded_hash) == ({}, None)


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_matrix(tmp_path, dtype, order):
    """A matrix has the values that numpy.load finds, in the machine's byte order, square or not."""
    matrix = np.array([[1.5, 0, -2], [1e-3, 7, 0.1]], dtype, order=order)
    np.save(tmp_path / "a.npy", matrix)
    found = read_matrix(tmp_path / "a.npy")
    np.testing.assert_array_equal(found, np.load(tmp_path / "a.npy"))
    assert found.dtype.isnative


def test_old_numpy_format(tmp_path):
    """Version 2 of the .npy format, with its longer header, is read as well."""
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, np.eye(3), version=(2, 0))
    np.testing.assert_array_equal(read_matrix(tmp_path / "a.npy"), np.eye(3))
