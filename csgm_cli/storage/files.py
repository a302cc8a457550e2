"""Read files, and write them atomically."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from errno import ENXIO
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeVar

from csgm_cli.errors import Place, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

#: Text files of csgm are far smaller; a device may never end.
_MOST_BYTES = 1 << 24
#: Less the umask, what any newly created file gets.
_NEW_MODE = 0o666
#: Seconds to wait for the other end of a pipe.
_PATIENCE = 3.0
_PROTECTED = "the file is write-protected"


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file or of a pipe; ``UsageError`` (slug ``too-large``) over 16 MiB.

    OSError as it comes, and for a pipe to which nobody has begun to write within a few seconds.
    """
    if Path(path).is_fifo():
        content = _read_pipe(Path(path))
    else:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise UsageError("too-large", f"{str(path)!r} is larger than any file that csgm reads")
    return content


def read_text(path: str | Path) -> str:
    """Return the content of a UTF-8 text file, or of a pipe; a byte order mark is dropped.

    ``StorageError`` (slug ``cannot-read``) when it cannot be opened or read; ``UsageError`` (slug
    ``not-utf-8`` or ``too-large``) when it is not text of a sane size.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"{str(path)!r} is not UTF-8 text: {error.reason} at byte {error.start} (line {line})"
        raise UsageError("not-utf-8", message, place=Place(str(path), line)) from error
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise cannot_read(path, error) from error


def write_atomically(path: str | Path, data: str | bytes) -> None:
    """Write ``data`` (text as UTF-8) to ``path`` so that a reader sees the old content or the new.

    An existing file keeps its permissions, a symbolic link is written through, and a device or a
    pipe is written to directly. On any failure, Ctrl-C included, the old file stays as it was and
    nothing is left beside it. ``StorageError`` (slug ``cannot-write``) names the path and the reason.
    """
    # A name of a file may have bytes that are no text: they are escaped, as on stdout.
    content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    with blaming(path):
        if not is_plain(path):
            with os.fdopen(open_to_append(Path(path)), "wb") as file:
                file.write(content)
            return
        with staged(path) as temporary, os.fdopen(open_new(temporary), "wb") as file:
            file.write(content)


def write_durably(path: str | Path, data: str) -> None:
    """Do as `write_atomically` does; on return the file would survive the end of power."""
    write_atomically(path, data)
    with blaming(path):
        _sync(Path(path).resolve().parent, os.O_RDONLY)


def check_writable(path: str | Path) -> None:
    """Raise ``StorageError`` (slug ``cannot-write``) now for what would stop a write after long work.

    A folder that is missing or closed, a folder in the place of the file, a file that is protected.
    """
    target = Path(path)
    with blaming(path):
        if is_plain(path):
            check_folder(target)
        elif target.is_dir():
            raise IsADirectoryError(None, "Is a directory")
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(None, _PROTECTED)


@contextmanager
def blaming(path: str | Path) -> Iterator[None]:
    """Turn an OSError inside into a ``StorageError`` (slug ``cannot-write``) that names ``path``."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of a pipe went away: that has an exit status of its own
    except OSError as error:
        raise StorageError("cannot-write", f"cannot write {str(path)!r}: {_reason_of(error)}") from error


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Put ``path`` in front of what a ``UsageError`` inside says; running out of memory becomes one, too."""
    try:
        yield
    except UsageError as error:
        raise error.reworded(f"{str(path)!r}: {error.message}", error.hint) from None
    except MemoryError:
        raise UsageError("too-large", f"{str(path)!r} does not fit into memory") from None


@contextmanager
def replacing(path: str | Path, *, force: bool = True) -> Iterator[Path]:
    """Yield a fresh path at which to build a file or a folder; it takes the place of ``path`` at the end.

    Without ``force`` only if nothing stands there by then: ``StorageError`` (slug ``file-exists``).

    What stands at ``path`` stays as it was when the block fails, Ctrl-C included, and nothing is left
    beside it. A file keeps its permissions and a symbolic link is written through. An existing folder
    is replaced with all it holds: between its two renames there is none, should the machine stop there.
    ``StorageError`` (slug ``cannot-write``) names the path and the reason.
    """
    with blaming(path), staged(path, force=force) as temporary:
        yield temporary


@contextmanager
def staged(path: str | Path, *, force: bool = True) -> Iterator[Path]:
    """Do as `replacing` does, but let each OSError come as it is, those of the block included."""
    mode = existing_mode(Path(path))
    target = Path(path).resolve()
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(None, _PROTECTED)
    temporary = _sibling(target)
    try:
        yield temporary
        for file in temporary.iterdir() if temporary.is_dir() else [temporary]:
            _sync(file)
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        (_move if force else _move_to_new)(temporary, target)
    except BaseException:
        _remove(temporary)
        raise


def open_new(path: Path) -> int:
    """Return a descriptor of a file that must not be there yet."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _NEW_MODE)


def open_to_append(path: Path, *, create: bool = False) -> int:
    """Return a descriptor of a file, a device or a pipe that is there, or with ``create`` of a new file.

    OSError for a pipe that nobody has begun to read within a few seconds: there may never be a reader.
    """
    flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT if create else 0)
    if not path.is_fifo():
        return os.open(path, flags, _NEW_MODE)

    def opened() -> int | None:
        try:
            return os.open(path, flags | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != ENXIO:
                raise
            return None

    descriptor = _in_time(opened, "it is a pipe that nobody reads")
    os.set_blocking(descriptor, True)
    return descriptor


def _read_pipe(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:

        def begun() -> bytes | None:
            try:
                first = os.read(pipe.fileno(), 1)
            except BlockingIOError:  # a writer is there, and takes its time
                return b""
            # What is open already had its writer, who may be done: the end is the end.
            return first if first or _is_open_elsewhere(path) else None

        first = _in_time(begun, "it is a pipe that nobody writes to")
        os.set_blocking(pipe.fileno(), True)
        return first + pipe.read(_MOST_BYTES + 1)


def _in_time(attempt: Callable[[], T | None], complaint: str) -> T:
    """What ``attempt`` returns once that is not None; OSError with the ``complaint`` after a few seconds."""
    given_up = monotonic() + _PATIENCE
    while (found := attempt()) is None:
        if monotonic() >= given_up:
            raise OSError(None, complaint)
        sleep(_PATIENCE / 100)
    return found


def check_regular(path: Path) -> None:
    """Raise OSError unless ``path`` is a regular file: opening a pipe may wait for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(None, f"{path.name!r} is no regular file")


def check_folder(path: Path) -> None:
    """Raise OSError where nothing can be put into the folder of ``path`` (of its target, if it is a link)."""
    folder = path.resolve().parent
    if not folder.is_dir():
        raise NotADirectoryError(None, f"there is no folder {str(folder)!r}")
    if not os.access(folder, os.W_OK):
        raise PermissionError(None, f"the folder {str(folder)!r} is write-protected")


def is_plain(path: str | Path) -> bool:
    """Say whether a file may be put in the place of ``path``: a regular one, or none yet.

    ``IsADirectoryError`` for a directory's name: ``Path`` drops what says so, and "new/" must not
    become a file "new". Another OSError as it comes.
    """
    check_file_name(path)
    mode = existing_mode(Path(path))
    return (mode is None or stat.S_ISREG(mode)) and not _is_open_elsewhere(Path(path))


def check_file_name(path: str | Path) -> None:
    """Raise ``IsADirectoryError`` for no name, or a directory's."""
    name = os.fspath(path)
    if os.path.basename(name) in ("", os.curdir, os.pardir):  # noqa: PTH119 - Path().name is another thing
        raise IsADirectoryError(None, "Is a directory's name, not a file's" if name else "no file is named")


def _move(temporary: Path, target: Path) -> None:
    if not (temporary.is_dir() and target.is_dir()):
        temporary.replace(target)
        return
    old = _sibling(target)  # a folder that holds something cannot be replaced in one step
    try:
        target.rename(old)
        temporary.rename(target)
    except BaseException:
        if not target.exists():
            old.rename(target)
        raise
    _remove(old)


def _move_to_new(temporary: Path, target: Path) -> None:
    """Give ``temporary`` its name, unless another process was faster."""
    if not temporary.is_dir():
        try:
            target.hardlink_to(temporary)
        except FileExistsError:
            raise file_exists(target) from None
        except OSError:  # the file system has no hard links
            if target.exists():
                raise file_exists(target) from None
        else:
            temporary.unlink()
            return
    try:
        temporary.rename(target)
    except OSError as error:
        raise (file_exists(target) if target.exists() else error) from None


def file_exists(target: Path) -> StorageError:
    """Return the error for a file that is there, and is replaced only when that is asked for."""
    return StorageError("file-exists", f"{str(target)!r} exists already", "`force` replaces it")


def _sibling(target: Path) -> Path:
    return target.with_name(f".csgm-{os.urandom(8).hex()}.tmp")


def _sync(file: Path, mode: int = os.O_WRONLY) -> None:
    descriptor = os.open(file, mode)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        import shutil  # slow to import

        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def existing_mode(target: Path) -> int | None:
    """``st_mode`` of what stands at ``target``, links followed; None for nothing, OSError as it comes."""
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None
    except ValueError as error:  # a path with a null character
        raise OSError(None, str(error)) from None


def _is_open_elsewhere(target: Path) -> bool:
    """/dev/stdout may be a regular file that the shell holds open: replacing it would lose its place."""
    return target.parent in (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))


def cannot_read(path: str | Path, error: OSError | ValueError) -> StorageError:
    """Return the error (slug ``cannot-read``) that names ``path`` and the reason."""
    return StorageError("cannot-read", f"cannot read {str(path)!r}: {_reason_of(error)}")


def _reason_of(error: OSError | ValueError) -> str:
    """Return what went wrong, without the path."""
    return getattr(error, "strerror", None) or str(error)
