"""Files that grow by whole lines, and can be continued after the process was killed."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from csgm_cli.errors import StorageError, UsageError
from csgm_cli.storage.files import blaming, cannot_read, is_plain, open_new, open_to_append, staged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Seconds to wait for a process that appends one entry.
_PATIENCE = 3.0


def lines_of(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their newlines; only the last may lack it, or be torn.

    Nothing where there is no file yet; bytes that are no UTF-8 are replaced, so that the line equals
    none that was written. ``UsageError`` (slug ``cannot-resume``) for a device or a pipe,
    ``StorageError`` (slug ``cannot-read``) where reading fails.
    """
    try:
        if not is_plain(path):
            raise UsageError("cannot-resume", f"{str(path)!r} is no file whose rows could be read back")
        with Path(path).open("rb") as file:
            for line in file:
                yield line.decode("utf-8", "replace")
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise cannot_read(path, error) from error


@contextmanager
def claimed(path: str | Path) -> Iterator[None]:
    """Keep other processes of csgm from adding rows to ``path``, which is created where it is missing.

    ``StorageError`` (slug ``in-use``) where another process has claimed it. The system drops a claim when
    its process ends, however it ends, so that no stale claim is left. Devices and pipes are not claimed, nor
    are files where the system or the file system has no locks.
    """
    with ExitStack() as stack:
        with blaming(path):
            if is_plain(path):
                descriptor = stack.enter_context(_closing(open_to_append(Path(path), create=True)))
                _lock(descriptor, path)
        yield


def _lock(descriptor: int, path: str | Path) -> None:
    try:
        locked = _try_lock(descriptor)
    except (ImportError, OSError):  # the system or the file system has no locks
        return
    if not locked or not os.path.samestat(os.fstat(descriptor), os.stat(path)):  # noqa: PTH116 - plain names; it was replaced just now
        raise _in_use(path)


def _try_lock(descriptor: int) -> bool:
    """Lock an open file unless another process has; ImportError or OSError where there are no locks."""
    import fcntl  # not on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _in_use(path: str | Path) -> StorageError:
    return StorageError("in-use", f"cannot write {str(path)!r}: another process is writing it")


@contextmanager
def exclusive(path: str | Path) -> Iterator[None]:
    """Let one process at a time into blocks for ``path``; the others wait a few seconds.

    The lock is on the file ``path`` + ".lock", which stays: others may be waiting for it. The system drops
    the lock when its process ends, however it ends.

    Raises:
        StorageError: another process is inside (slug ``in-use``), or there are no locks (``cannot-write``).
    """
    lock = Path(f"{Path(path).resolve()}.lock")
    with ExitStack() as stack:
        with blaming(lock):
            descriptor = stack.enter_context(_closing(open_to_append(lock, create=True)))
            _wait_for_lock(descriptor, path)
        yield


def _wait_for_lock(descriptor: int, path: str | Path) -> None:
    given_up = monotonic() + _PATIENCE
    try:
        while not _try_lock(descriptor):
            if monotonic() >= given_up:
                raise _in_use(path)
            sleep(_PATIENCE / 200)
    except ImportError:
        raise OSError(None, "this system has no file locks") from None


@contextmanager
def growing(path: str | Path, keep: int | None = None) -> Iterator[Callable[[str], None]]:
    """Give a function that adds text to ``path`` and hands it to the system at once.

    ``keep``: how many bytes of the file stay, before what is added; then whatever was added stays,
    too. With None, a file that has something in it is replaced as a whole at the end, and stays as it
    was on any failure. ``StorageError`` (slug ``cannot-write``) names the path and the reason.
    """
    with ExitStack() as stack:
        with blaming(path):
            descriptor = stack.enter_context(_opened(path, keep))

        def write(text: str) -> None:
            with blaming(path):
                _write(descriptor, text.encode())

        yield write
        with blaming(path):
            stack.close()


@contextmanager
def _opened(path: str | Path, keep: int | None) -> Iterator[int]:
    plain, target = is_plain(path), Path(path)
    if keep is None and plain and target.exists() and target.stat().st_size > 0:
        with staged(path) as temporary, _closing(open_new(temporary)) as descriptor:
            yield descriptor
        return
    with _closing(open_to_append(target, create=plain)) as descriptor:
        if keep is not None:
            os.ftruncate(descriptor, keep)
        yield descriptor


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: bytes) -> None:
    while content:  # the system may take only a part at a time
        content = content[os.write(descriptor, content) :]
