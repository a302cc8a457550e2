"""Files: content, permissions, and what is left after every kind of failure."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from csgm_cli.errors import StorageError, UsageError
from csgm_cli.storage.files import (
    check_writable,
    read_bytes,
    read_text,
    write_atomically,
    write_durably,
)

AS_ROOT = os.geteuid() == 0


@pytest.fixture
def report(tmp_path):
    """A file that already exists, alone in its directory."""
    path = tmp_path / "report.txt"
    path.write_text("old")
    return path


def assert_untouched(report):
    """The old content is there and nothing else is."""
    assert report.read_text() == "old"
    assert [path.name for path in report.parent.iterdir()] == ["report.txt"]


def test_new_file(tmp_path):
    """A new file has exactly the bytes given and is alone in its directory."""
    write_atomically(tmp_path / "a", "naïve\n")
    assert (tmp_path / "a").read_bytes() == b"na\xc3\xafve\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_bytes_and_plain_string_paths(tmp_path):
    """Bytes are written as they are, and a path may be a string."""
    write_atomically(str(tmp_path / "a"), b"\x00\r\n\xff")
    assert (tmp_path / "a").read_bytes() == b"\x00\r\n\xff"


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_new_file_follows_the_umask(tmp_path, umask):
    """A new file is as open as the umask lets any new file be."""
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


def test_existing_file_keeps_its_permissions(report):
    """Replacing a file does not change who may read it."""
    report.chmod(0o640)
    write_atomically(report, "new")
    assert report.read_text() == "new"
    assert stat.S_IMODE(report.stat().st_mode) == 0o640


def test_symbolic_link_is_written_through(report, tmp_path):
    """A link stays a link and its target gets the content, also when the target is new."""
    for name, target in (("link", report), ("dangling", tmp_path / "fresh")):
        link = tmp_path / name
        link.symlink_to(target)
        write_atomically(link, "new")
        assert link.is_symlink()
        assert target.read_text() == "new"


def test_long_file_name(tmp_path):
    """The longest name that the file system takes is taken."""
    write_atomically(tmp_path / ("x" * 255), "new")
    assert (tmp_path / ("x" * 255)).read_text() == "new"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/report.txt", "No such file or directory"),
        ("report.txt/x", "Not a directory"),
        (".", "Is a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("nul\0", "null byte"),
    ],
)
def test_unwritable_paths(report, name, reason):
    """A path that cannot be written is a StorageError that names it and says why."""
    loop = report.parent / "loop"
    loop.symlink_to(loop)
    with pytest.raises(StorageError) as caught:
        write_atomically(report.parent / name, "new")
    loop.unlink()
    assert caught.value.slug == "cannot-write"
    assert reason in caught.value.message
    assert repr(str(report.parent / name)) in caught.value.message
    assert_untouched(report)


@pytest.mark.parametrize("name", ["new/", "report.txt/", "new/.", ""])
def test_names_of_directories(report, monkeypatch, name):
    """A name that says that a directory is meant does not become that of a file."""
    monkeypatch.chdir(report.parent)
    with pytest.raises(StorageError) as caught:
        write_atomically(name, "new")
    assert caught.value.message.startswith(f"cannot write {name!r}: ")
    assert_untouched(report)


@pytest.mark.skipif(AS_ROOT, reason="root may write anywhere")
@pytest.mark.parametrize("protected", ["file", "directory"])
def test_no_permission(report, protected):
    """Neither a write-protected file nor a write-protected directory is got around."""
    path = report if protected == "file" else report.parent
    path.chmod(0o555)
    try:
        with pytest.raises(StorageError, match=r"protected|Permission denied"):
            write_atomically(report, "new")
    finally:
        path.chmod(0o755)
    assert_untouched(report)


def test_write_protected_file(report, monkeypatch):
    """The system's answer that a file may not be written is respected."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(StorageError, match="write-protected"):
        write_atomically(report, "new")
    assert_untouched(report)


@pytest.mark.parametrize("step", ["fsync", "open"])
def test_disk_full(report, monkeypatch, step):
    """A full disk is a StorageError; the old file is intact and no temporary file is left."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(StorageError, match="No space left on device"):
        write_atomically(report, "new")
    assert_untouched(report)


def test_file_size_limit(report):
    """A write that the kernel itself stops half-way leaves the old file and nothing beside it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(StorageError, match="File too large"):
            write_atomically(report, b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert_untouched(report)


def test_device_is_written_directly():
    """A device is not replaced: /dev/null stays, /dev/full says that it is full."""
    write_atomically("/dev/null", "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(StorageError, match="No space left on device"):
        write_atomically("/dev/full", "x")


PROGRAM = """
import os, sys, time
from csgm_cli.storage.files import write_atomically
{before}
write_atomically(sys.argv[1], "new")
"""


def start(path, before="", **options):
    """Start a process that writes "new" to ``path`` after running ``before``."""
    command = [sys.executable, "-c", PROGRAM.format(before=before), str(path)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def test_standard_output_as_a_pipe():
    """/dev/stdout goes to whoever reads the pipe."""
    process = start("/dev/stdout", stdout=subprocess.PIPE)
    assert process.communicate() == ("new", "")


def test_standard_output_as_a_file(report):
    """/dev/stdout redirected to a file adds to that file, as the shell's >> asks."""
    with report.open("a") as stdout:
        process = start("/dev/stdout", stdout=stdout)
        assert process.communicate()[1] == ""
    assert report.read_text() == "oldnew"


def test_closed_pipe_keeps_its_own_error():
    """A reader that went away is BrokenPipeError, which is no storage failure."""
    process = start("/dev/stdout", before="sys.stdin.read()", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.close()
    process.stdin.close()
    assert "BrokenPipeError" in process.stderr.read()
    assert process.wait() == 1
    process.stderr.close()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_killed_in_the_middle(report, sent):
    """Stopped before the last step, the old file is whole; after Ctrl-C nothing is left beside it."""
    process = start(report, before="os.fsync = lambda _: time.sleep(60)")
    deadline = time.monotonic() + 30
    while len(list(report.parent.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(sent)
    process.communicate()
    assert process.returncode == -sent
    if sent == signal.SIGINT:
        assert_untouched(report)
    assert report.read_text() == "old"


def test_read_text(tmp_path):
    """Text comes back as it was, with line ends kept and a byte order mark dropped."""
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfna\xc3\xafve\r\n")
    assert read_text(tmp_path / "a") == "naïve\r\n"


def test_read_text_that_is_not_text(tmp_path):
    """Bytes that are not UTF-8 are wrong content: a usage error that says where."""
    (tmp_path / "a").write_bytes(b"ab\xff")
    with pytest.raises(UsageError, match="at byte 2") as caught:
        read_text(tmp_path / "a")
    assert caught.value.slug == "not-utf-8"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing", "No such file"), (".", "Is a directory"), ("nul\0", "null byte")],
)
def test_unreadable_paths(tmp_path, name, reason):
    """A file that cannot be opened is a StorageError that names it and says why."""
    with pytest.raises(StorageError, match=reason) as caught:
        read_text(tmp_path / name)
    assert caught.value.slug == "cannot-read"
    assert repr(str(tmp_path / name)) in caught.value.message


def test_an_endless_file_is_refused():
    """A device that never ends is too large, and does not hang."""
    with pytest.raises(UsageError) as caught:
        read_text("/dev/zero")
    assert caught.value.slug == "too-large"


def test_a_file_of_16_mib_is_read_and_a_byte_more_refused(tmp_path):
    """The limit itself is allowed."""
    (tmp_path / "a").write_bytes(b"")
    os.truncate(tmp_path / "a", 2**24)
    assert len(read_bytes(tmp_path / "a")) == 2**24
    os.truncate(tmp_path / "a", 2**24 + 1)
    with pytest.raises(UsageError, match="larger than any file") as caught:
        read_bytes(tmp_path / "a")
    assert caught.value.slug == "too-large"


def write_later(pipe, content, before=0.0, between=0.0):
    """Write to a pipe, in a thread, in two parts."""

    def write():
        time.sleep(before)
        with pipe.open("wb", buffering=0) as file:
            for part in (content[:2], content[2:]):
                time.sleep(between)
                file.write(part)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(("before", "between"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.3), (0.2, 0.2)])
def test_a_pipe_is_read_to_its_end(tmp_path, before, between):
    """Whether its writer is early, late or slow, and of more than a pipe holds at once nothing is lost."""
    os.mkfifo(tmp_path / "pipe")
    content = b"0123456789" * 20_000
    thread = write_later(tmp_path / "pipe", content, before, between)
    assert read_bytes(tmp_path / "pipe") == content
    thread.join(timeout=30)


def test_a_pipe_has_the_limit_of_a_file(tmp_path, monkeypatch):
    """Its first byte, which is read apart, counts."""
    monkeypatch.setattr("csgm_cli.storage.files._MOST_BYTES", 9)
    os.mkfifo(tmp_path / "pipe")
    thread = write_later(tmp_path / "pipe", b"123456789")
    assert read_bytes(tmp_path / "pipe") == b"123456789"
    thread.join(timeout=30)
    thread = write_later(tmp_path / "pipe", b"1234567890")
    with pytest.raises(UsageError, match="larger than any file"):
        read_bytes(tmp_path / "pipe")
    thread.join(timeout=30)


def test_a_pipe_that_never_ends(tmp_path):
    """It is too large, and does not hang."""
    os.mkfifo(tmp_path / "pipe")
    command = ["dd", "if=/dev/zero", f"of={tmp_path / 'pipe'}", "bs=1M", "status=none"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        with pytest.raises(UsageError) as caught:
            read_bytes(tmp_path / "pipe")
        assert process.wait(timeout=30) == -signal.SIGPIPE
    assert caught.value.slug == "too-large"


def test_a_pipe_that_nobody_writes_to(tmp_path, monkeypatch):
    """Nobody waits for ever, and the message says for what."""
    monkeypatch.setattr("csgm_cli.storage.files._PATIENCE", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="it is a pipe that nobody writes to") as caught:
        read_text(tmp_path / "pipe")
    assert caught.value.slug == "cannot-read"


def test_an_open_pipe_that_is_empty(monkeypatch):
    """Its writer was there, and is gone: that is an empty file, at once."""
    monkeypatch.setattr("csgm_cli.storage.files._PATIENCE", 1e9)
    readable, writable = os.pipe()
    with os.fdopen(readable):
        os.close(writable)
        assert read_text(f"/dev/fd/{readable}") == ""


def test_check_writable(tmp_path):
    """What a write would fail on is found without writing; what it would not is let be."""
    (tmp_path / "file").write_text("old")
    for good in (tmp_path / "file", tmp_path / "new", "/dev/null", "relative"):
        check_writable(good)
    for bad in (tmp_path, tmp_path / "missing" / "new", tmp_path / "file" / "new", "nul\0"):
        with pytest.raises(StorageError, match="cannot write"):
            check_writable(bad)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_durable_write_syncs_the_file_and_then_its_folder(tmp_path, monkeypatch):
    """The content, and the entry that names it."""
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    write_durably(tmp_path / "a", "content")
    assert (tmp_path / "a").read_text() == "content"
    assert synced == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]
