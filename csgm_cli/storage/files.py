"""Text files in, and reports out without ever leaving half of one."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from csgm_cli.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: No file that csgm reads comes near this; a device may never end.
_MOST_BYTES = 1 << 24


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file; ``UsageError`` (slug ``too-large``) over 16 MiB, OSError as it comes."""
    with Path(path).open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise UsageError("too-large", f"{str(path)!r} is larger than any file that csgm reads")
    return content


def read_text(path: str | Path) -> str:
    """Return the content of a UTF-8 text file; a byte order mark is dropped.

    ``StorageError`` (slug ``cannot-read``) when it cannot be opened or read; ``UsageError`` (slug
    ``not-utf-8`` or ``too-large``) when it is not text of a sane size.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{str(path)!r} is not UTF-8 text: {error.reason} at byte {error.start}"
        raise UsageError("not-utf-8", message) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise StorageError("cannot-read", f"cannot read {str(path)!r}: {reason_of(error)}") from error


def write_atomically(path: str | Path, data: str | bytes) -> None:
    """Write ``data`` (text as UTF-8) to ``path`` so that a reader sees the old content or the new.

    An existing file keeps its permissions, a symbolic link is written through, and a device or a
    pipe is written to directly. On any failure, Ctrl-C included, the old file stays as it was and
    nothing is left beside it. ``StorageError`` (slug ``cannot-write``) names the path and the reason.
    """
    content = data.encode() if isinstance(data, str) else data
    target = Path(path)
    with blaming(path):
        if is_plain(target):
            with replacing(target) as file:
                file.write(content)
        else:
            _append(target, content)


def check_writable(path: str | Path) -> None:
    """Raise ``StorageError`` (slug ``cannot-write``) now for what would stop a write after long work.

    A folder that is missing or closed, a folder in the place of the file, a file that is protected.
    """
    target = Path(path)
    with blaming(path):
        mode = _mode(target)
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(None, "it is a folder")
        if not target.parent.is_dir():
            raise FileNotFoundError(None, "there is no such folder")
        if not os.access(target.parent if mode is None else target, os.W_OK):
            raise PermissionError(None, "it is write-protected")


@contextmanager
def blaming(path: str | Path) -> Iterator[None]:
    """Turn what fails inside into a ``StorageError`` (slug ``cannot-write``) that names ``path``."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of a pipe went away: that has an exit status of its own
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise StorageError("cannot-write", f"cannot write {str(path)!r}: {reason_of(error)}") from error


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file that takes the place of ``path`` when all went well, and is removed when not."""
    target, mode = path.resolve(), _mode(path)
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(None, "the file is write-protected")
    temporary = target.with_name(f".csgm-{secrets.token_hex(8)}.tmp")
    try:
        # 0o666 less the umask is what any newly created file gets.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_plain(target: Path) -> bool:
    """Say whether a file may be put in the place of ``target``: a regular one, or none yet."""
    mode = _mode(target)
    return (mode is None or stat.S_ISREG(mode)) and not _is_open_elsewhere(target)


def _append(target: Path, content: bytes) -> None:
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_APPEND), "wb") as file:
        file.write(content)


def _mode(target: Path) -> int | None:
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def _is_open_elsewhere(target: Path) -> bool:
    """/dev/stdout may be a regular file that the shell holds open: replacing it would lose its place."""
    return target.parent in (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))


def reason_of(error: OSError | ValueError) -> str:
    """Return what went wrong, without the path."""
    return getattr(error, "strerror", None) or str(error)
