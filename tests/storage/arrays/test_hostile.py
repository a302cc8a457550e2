"""Files of any kind that are not what they should be: the wrong thing, of no end, changed or damaged."""

import os
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csgm_cli.errors import StorageError, UsageError
from csgm_cli.storage.arrays import check_hash, read_arrays, read_matrix, write_arrays
from tests.storage.arrays.hostile_files import archive, factors, folder, refusal


def test_folder_of_something_else(tmp_path):
    """A folder without arrays holds none."""
    (tmp_path / "notes.txt").write_text("mine")
    assert refusal(tmp_path).slug == "no-arrays"


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
            comment = file.comment
        if change == "number":
            entries["B.npy"] = entries["B.npy"][:-1] + b"\x40"
        else:
            comment = comment.decode().replace(old, new).encode()
        path.write_bytes(archive(*entries.items(), comment=comment))
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
