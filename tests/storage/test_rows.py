"""Files that grow by rows: what stays, what is replaced, and who is blamed."""

import errno
import os
import stat
import sys
import threading
from contextlib import nullcontext
from unittest.mock import Mock

import pytest

from csgm_cli.errors import StorageError, UsageError
from csgm_cli.storage import rows
from csgm_cli.storage.rows import claimed, exclusive, growing, lines_of


def only(folder):
    """The one name in ``folder``."""
    (path,) = folder.iterdir()
    return path.name


def test_new_file_grows_at_once(tmp_path):
    """What was added can be read before the end, and stays when the work fails."""
    path = tmp_path / "rows"

    def work():
        with growing(path) as write:
            write("ä\n")
            assert path.read_text() == "ä\n"
            write("b\n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert path.read_text() == "ä\nb\n"
    assert only(tmp_path) == "rows"


@pytest.mark.parametrize("fails", [False, True])
def test_full_file_is_replaced_in_the_end(tmp_path, fails):
    """A file with something in it changes as a whole and keeps its permissions, or does not change."""
    path = tmp_path / "rows"
    path.write_text("old")
    path.chmod(0o640)

    def work():
        with growing(path) as write:
            write("new")
            assert path.read_text() == "old"
            if fails:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) if fails else nullcontext():
        work()
    assert path.read_text() == ("old" if fails else "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert only(tmp_path) == "rows"


@pytest.mark.parametrize("keep", [0, 2, 6])
def test_kept_part(tmp_path, keep):
    """The first bytes stay, the rest gives way, and so it is even if nothing is added."""
    path = tmp_path / "rows"
    path.write_bytes(b"a\nb\nto")
    with growing(path, keep):
        assert path.read_bytes() == b"a\nb\nto"[:keep]
    with growing(path, keep) as write:
        write("c\n")
    assert path.read_bytes() == b"a\nb\nto"[:keep] + b"c\n"


def test_keeping_of_a_missing_file(tmp_path):
    """Nothing to keep is no error: the file is made."""
    with growing(tmp_path / "rows", 0) as write:
        write("a\n")
    assert (tmp_path / "rows").read_text() == "a\n"


@pytest.mark.parametrize("content", [None, "", "a\n"])
def test_one_claim_at_a_time(tmp_path, content):
    """A file that is claimed is in use, whether it is new, empty or full, and free again afterwards."""
    path = tmp_path / "rows"
    if content is not None:
        path.write_text(content)
    with claimed(path):
        with pytest.raises(StorageError, match="another process is writing it") as caught, claimed(path):
            pass
        assert (caught.value.slug, caught.value.exit_status) == ("in-use", 4)
    with claimed(path), growing(path) as write:
        write("b\n")
    with claimed(path):
        assert path.read_text() == "b\n"
    assert only(tmp_path) == "rows"


def test_a_file_that_was_just_replaced_cannot_be_claimed(tmp_path, monkeypatch):
    """The claim of a file that lost its name, between opening and locking, would guard nothing."""
    import fcntl

    path, lock = tmp_path / "rows", fcntl.flock
    path.write_text("old")

    def replaced_before(*arguments):
        (tmp_path / "new").write_text("new")
        (tmp_path / "new").replace(path)
        lock(*arguments)

    monkeypatch.setattr("fcntl.flock", replaced_before)
    with pytest.raises(StorageError, match="another process is writing it"), claimed(path):
        pass


def test_one_exclusive_block_at_a_time(tmp_path, monkeypatch):
    """Through any name of the file; others get an error after a while, and have no effect on the first."""
    monkeypatch.setattr(rows, "_PATIENCE", 0.05)
    (tmp_path / "link").symlink_to("rows")
    with exclusive(tmp_path / "rows"):
        for name in ("rows", "link"):
            with pytest.raises(StorageError, match=name) as caught, exclusive(tmp_path / name):
                pass
            assert (caught.value.slug, caught.value.exit_status) == ("in-use", 4)
        with exclusive(tmp_path / "other"):
            pass
    with exclusive(tmp_path / "rows"):
        pass


def test_exclusive_blocks_wait_for_others(tmp_path):
    """Threads that add a line in turn: none is lost."""
    path = tmp_path / "rows"
    path.write_text("")

    def add():
        for _ in range(5):
            with exclusive(path):
                path.write_text(path.read_text() + "x")

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "x" * 20


def test_without_locks_nothing_is_exclusive(tmp_path, monkeypatch):
    """On a system, or a file system, that has none: an error, and the block does not run."""
    refused = OSError(errno.ENOLCK, "No locks available")
    for patch in ((sys.modules, "fcntl", None), ("fcntl.flock", Mock(side_effect=refused))):
        with monkeypatch.context() as patched:
            (patched.setitem if len(patch) == 3 else patched.setattr)(*patch)
            with pytest.raises(StorageError, match="locks") as caught, exclusive(tmp_path / "rows"):
                pytest.fail("the block must not run")
        assert caught.value.slug == "cannot-write"


def test_no_claim_of_a_device():
    """Several processes may write to one device."""
    with claimed("/dev/null"), claimed("/dev/null"):
        pass


def test_link_and_pipe(tmp_path):
    """A link is written through, and a pipe gets the rows."""
    (tmp_path / "link").symlink_to("file")
    with growing(tmp_path / "link") as write:
        write("a\n")
    assert (tmp_path / "file").read_text() == "a\n"
    assert (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    seen = []
    reader = threading.Thread(target=lambda: seen.append((tmp_path / "pipe").read_text()))
    reader.start()
    with growing(tmp_path / "pipe") as write:
        write("a\n")
        write("b\n")
    reader.join(timeout=30)
    assert seen == ["a\nb\n"]


@pytest.mark.parametrize("name", ["missing/rows", ".", "nul\0"])
def test_unwritable(tmp_path, name):
    """The path and the reason are named."""
    with pytest.raises(StorageError, match="cannot write"), growing(tmp_path / name):
        pass


def test_full_disk():
    """A device that takes nothing is blamed where it is written to."""
    with pytest.raises(StorageError, match="No space left on device"), growing("/dev/full") as write:
        write("a\n")


def test_errors_of_the_work_are_its_own(tmp_path):
    """A ValueError or OSError of the work inside is not blamed on the file."""
    for error in (ValueError("not finite"), FileNotFoundError("other")):
        with pytest.raises(type(error)) as caught, growing(tmp_path / "rows"):
            raise error
        assert caught.value is error


def test_lines(tmp_path):
    """Lines come with their ends; the last may lack it, and bytes that are no text do not stop it."""
    path = tmp_path / "rows"
    assert list(lines_of(path)) == []
    path.write_bytes(b"a\n\xffb\nto")
    assert list(lines_of(path)) == ["a\n", "\ufffdb\n", "to"]


def test_unreadable(tmp_path):
    """A folder, a pipe or a device has no rows to go on with."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null", tmp_path):
        with pytest.raises(UsageError, match="no file whose rows"):
            list(lines_of(path))
    with pytest.raises(StorageError, match="cannot read"):
        list(lines_of("nul\0"))
