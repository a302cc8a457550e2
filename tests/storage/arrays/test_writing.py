"""Writing: what is refused beforehand, and what is left after every kind of failure."""

import os
import resource
import signal
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from csgm_cli.errors import StorageError, UsageError
from csgm_cli.storage.arrays import ArrayFile, check_destination, check_hash, read_arrays, write_arrays

AS_ROOT = os.geteuid() == 0


@pytest.fixture(params=["npz", "safetensors", "json", "csv"])
def path(request, tmp_path):
    """A path of each format, in a folder of its own."""
    if request.param == "safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"x.{request.param}"


@pytest.fixture
def written(path, factorization):
    """A path that already holds a factorization."""
    write_arrays(path, factorization)
    return path


@pytest.fixture
def other(factorization):
    """What is to replace it."""
    return ArrayFile({"B": np.full((300, 5), 2.5), "C": np.full((5, 300), 0.1)}, {"T": 300})


def assert_untouched(path, factorization):
    """The old factorization is there, whole, and nothing else is."""
    read = read_arrays(path)
    check_hash(read)
    assert read.metadata == factorization.metadata
    assert read.arrays.keys() == factorization.arrays.keys()
    assert list(path.parent.iterdir()) == [path]


def test_existing_is_refused(written, factorization, other):
    """Nothing is replaced that was not said to be."""
    with pytest.raises(StorageError) as caught:
        write_arrays(written, other)
    assert caught.value.slug == "file-exists"
    assert caught.value.exit_status == 4
    assert repr(str(written)) in caught.value.message
    assert_untouched(written, factorization)


@pytest.mark.parametrize("has_links", [True, False])
def test_a_faster_process_keeps_its_file(written, factorization, other, monkeypatch, has_links):
    """A file that appears between the first check and the end of the work is not replaced either."""
    monkeypatch.setattr("csgm_cli.storage.arrays.files._check_place", lambda *_, **__: None)
    if not has_links:
        monkeypatch.setattr("pathlib.Path.hardlink_to", lambda *_: exec("raise PermissionError"))
    with pytest.raises(StorageError) as caught:
        write_arrays(written, other)
    assert (caught.value.slug, caught.value.exit_status) == ("file-exists", 4)
    assert_untouched(written, factorization)


def test_a_file_system_without_links(tmp_path, factorization, monkeypatch):
    """A new file gets its name there, too."""
    monkeypatch.setattr("pathlib.Path.hardlink_to", lambda *_: exec("raise PermissionError"))
    write_arrays(tmp_path / "new.npz", factorization)
    assert_untouched(tmp_path / "new.npz", factorization)


def test_force_replaces(written, other):
    """With force the new content takes the place of all of the old, and keeps who may read it."""
    written.chmod(0o750)
    write_arrays(written, other, force=True)
    read = read_arrays(written)
    check_hash(read)
    assert read.arrays.keys() == {"B", "C"}
    if written.is_dir():
        assert {file.name for file in written.iterdir()} == {"B.csv", "C.csv", "metadata.json"}
    assert stat.S_IMODE(written.stat().st_mode) == 0o750
    assert list(written.parent.iterdir()) == [written]


@pytest.mark.parametrize("force", [False, True])
def test_link_is_written_through(path, factorization, force):
    """A link stays a link, whether or not there is something at its other end."""
    target = path.with_name(f"target{path.suffix}")
    if force:
        write_arrays(target, factorization)
    path.symlink_to(target)
    write_arrays(path, factorization, force=force)
    assert path.is_symlink()
    check_hash(read_arrays(target))


FAILURES = {"full disk": OSError(28, "No space left on device"), "Ctrl-C": KeyboardInterrupt()}


@pytest.mark.parametrize("failure", FAILURES)
def test_failure_at_the_last_step(written, factorization, other, monkeypatch, failure):
    """A failure after all was written leaves the old content and nothing beside it."""

    def fail(_):
        raise FAILURES[failure]

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((StorageError, KeyboardInterrupt)) as caught:
        write_arrays(written, other, force=True)
    if failure == "full disk":
        assert caught.value.slug == "cannot-write"
        assert "No space left on device" in caught.value.message
    assert_untouched(written, factorization)


def test_file_size_limit(written, factorization, other):
    """A write that the kernel stops half-way leaves the old content and nothing beside it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(StorageError, match="File too large") as caught:
            write_arrays(written, other, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.slug == "cannot-write"
    assert_untouched(written, factorization)


PROGRAM = """
import os, signal, sys
import numpy as np
from csgm_cli.storage.arrays import ArrayFile, write_arrays
os.fsync = lambda _: os.kill(os.getpid(), signal.{signal})
write_arrays(sys.argv[1], ArrayFile({{"C": np.eye(9)}}, {{}}), force=True)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_killed_in_the_middle(written, factorization, sent):
    """Killed between the first and the last byte, the old content is whole; Ctrl-C leaves nothing else."""
    command = [sys.executable, "-c", PROGRAM.format(signal=sent.name), str(written)]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == -sent
    if sent == signal.SIGKILL:
        (left,) = (entry for entry in written.parent.iterdir() if entry != written)
        assert left.name.startswith(".csgm-")
        left.rename(written.parent.parent / left.name)
    assert_untouched(written, factorization)


def test_folder_is_put_back(tmp_path, factorization, other, monkeypatch):
    """A folder that cannot be replaced after all is where it was."""
    write_arrays(tmp_path / "x.csv", factorization)
    rename = Path.rename

    def second_fails(source, target):
        if target == tmp_path / "x.csv" and (source / "B.csv").stat().st_size > 1000:
            raise OSError(5, "Input/output error")
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(StorageError, match="Input/output error"):
        write_arrays(tmp_path / "x.csv", other, force=True)
    assert_untouched(tmp_path / "x.csv", factorization)


def test_folder_of_something_else_is_kept(tmp_path, factorization):
    """Not even force replaces a folder with anything in it that csgm does not write."""
    (tmp_path / "x.csv").mkdir()
    (tmp_path / "x.csv" / "thesis.txt").write_text("the only copy")
    with pytest.raises(StorageError, match=r"thesis\.txt") as caught:
        write_arrays(tmp_path / "x.csv", factorization, force=True)
    assert caught.value.slug == "cannot-write"
    assert (tmp_path / "x.csv" / "thesis.txt").read_text() == "the only copy"


@pytest.mark.parametrize(("suffix", "make"), [("npz", Path.mkdir), ("npz", os.mkfifo), ("csv", Path.touch)])
def test_of_another_kind(tmp_path, factorization, suffix, make):
    """A folder is not replaced by a file, nor a file by a folder, nor a pipe by either."""
    path = tmp_path / f"x.{suffix}"
    make(path)
    kind = stat.S_IFMT(path.stat().st_mode)
    with pytest.raises(StorageError, match="it exists and is no") as caught:
        write_arrays(path, factorization, force=True)
    assert caught.value.slug == "cannot-write"
    assert stat.S_IFMT(path.stat().st_mode) == kind


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/x.npz", "no folder"),
        ("x.txt/x.npz", "Not a directory"),
        ("nul\0.npz", "null"),
        ("loop.npz", "links"),
    ],
)
def test_unwritable_paths(tmp_path, name, reason):
    """A path where nothing can be written is known before any work, with the reason."""
    (tmp_path / "x.txt").touch()
    (tmp_path / "loop.npz").symlink_to(tmp_path / "loop.npz")
    with pytest.raises(StorageError, match=reason) as caught:
        check_destination(tmp_path / name, {"C": (2, 2)})
    assert caught.value.slug == "cannot-write"
    assert repr(str(tmp_path / name)) in caught.value.message


@pytest.mark.skipif(AS_ROOT, reason="root may write anywhere")
def test_write_protected_folder(tmp_path):
    """A folder that may not be written in is known before any work."""
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StorageError, match="write-protected"):
            check_destination(tmp_path / "x.npz", {"C": (2, 2)})
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize("name", ["x", "x.txt", "x.npz.gz"])
def test_unknown_format(tmp_path, name):
    """Only a suffix that names a format says what to write."""
    with pytest.raises(UsageError, match=r"\.npz, \.safetensors, \.json, \.csv") as caught:
        check_destination(tmp_path / name, {"C": (2, 2)})
    assert caught.value.slug == "unknown-format"


@pytest.mark.parametrize(
    ("suffix", "fits", "beyond"),
    [
        ("csv", {"B": (512, 512), "C": (512, 512)}, {"B": (512, 512), "C": (513, 513)}),
        ("json", {"B": (1182, 1182), "C": (1182, 1182), "C_inv": (1182, 1182)}, {"B": (2049, 2049)}),
    ],
)
def test_too_large_for_text(tmp_path, suffix, fits, beyond):
    """Text has its limits, known before any work; .npz is named as the way."""
    check_destination(tmp_path / f"x.{suffix}", fits)
    check_destination(tmp_path / "x.npz", beyond)
    with pytest.raises(UsageError) as caught:
        check_destination(tmp_path / f"x.{suffix}", beyond)
    assert caught.value.slug == "too-large"
    assert ".npz" in caught.value.hint


def test_too_large_for_any_file(tmp_path):
    """What no file may hold is known before any work; twice as many numbers of half the size fit."""
    for T, itemsize in ((16_384, 8), (23_170, 4)):
        check_destination(tmp_path / "x.npz", {"B": (T, T), "C": (T, T)}, itemsize=itemsize)
        with pytest.raises(UsageError) as caught:
            check_destination(
                tmp_path / "x.npz", {"B": (T + 1, T + 1), "C": (T + 1, T + 1)}, itemsize=itemsize
            )
        assert caught.value.slug == "too-large"
        assert "streaming" in caught.value.hint


@pytest.mark.parametrize(
    ("arrays", "metadata", "slug"),
    [
        ({}, {}, "no-arrays"),
        ({"W": np.eye(2)}, {}, "unknown-array"),
        ({"C": np.eye(2, dtype=int)}, {}, "wrong-dtype"),
        ({"C": np.array([[np.nan]])}, {}, "not-finite"),
        ({"B": np.eye(2), "C": np.eye(3)}, {}, "shape-mismatch"),
        ({"C": np.eye(2)}, {"gap": float("inf")}, "not-finite"),
        ({"C": np.eye(2)}, {"notes": "x" * 600_000}, "too-large"),
    ],
)
def test_what_cannot_be_read_is_not_written(tmp_path, arrays, metadata, slug):
    """The writer holds itself to the reader's rules."""
    with pytest.raises(UsageError) as caught:
        write_arrays(tmp_path / "x.npz", ArrayFile(arrays, metadata))
    assert caught.value.slug == slug
    assert list(tmp_path.iterdir()) == []


def test_missing_extra(tmp_path, factorization, monkeypatch):
    """Without its library, .safetensors is refused both ways with the command that installs it."""
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    (tmp_path / "x.safetensors").touch()
    for attempt in (
        lambda: read_arrays(tmp_path / "x.safetensors"),
        lambda: write_arrays(tmp_path / "y.safetensors", factorization),
        lambda: check_destination(tmp_path / "y.safetensors", {}),
    ):
        with pytest.raises(UsageError, match=r"pip install 'csgm-cli\[safetensors\]'$") as caught:
            attempt()
        assert caught.value.slug == "missing-extra"
    write_arrays(tmp_path / "x.npz", factorization)


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_no_second_copy(tmp_path, suffix):
    """Writing takes a few mebibytes more than the arrays, reading no more than the arrays themselves."""
    if suffix == "safetensors":
        pytest.importorskip("safetensors")
    arrays = {name: np.full((1200, 1200), 0.1) for name in ("B", "C", "C_inv")}
    arrays["C"] = np.asfortranarray(arrays["C"]) if suffix == "npz" else arrays["C"]
    size = sum(array.nbytes for array in arrays.values())
    tracemalloc.start()
    try:
        write_arrays(tmp_path / f"x.{suffix}", ArrayFile(arrays, {}))
        assert tracemalloc.get_traced_memory()[1] < 6e6
        tracemalloc.reset_peak()
        assert len(read_arrays(tmp_path / f"x.{suffix}").arrays) == 3
        assert tracemalloc.get_traced_memory()[1] < size + 6e6
    finally:
        tracemalloc.stop()
