"""Refuse to overwrite a file that the same command reads, or writes for another option."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError
from csgm_cli.storage.files import is_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from csgm_cli.cli.options.request import Request

_READ = ("file", "files", "from", "diff", "against_lock", "factorization", "workload", "vectors", "data")
_WRITTEN = ("output", "write_lock", "plot", "checkpoint")


def check_places(request: Request, more: Iterable[str] = ()) -> None:
    """Raise ``UsageError`` (slug ``same-file``) where a file to be written is one that something needs.

    Links are followed. ``more``: files that are read beside those that options name. A checkpoint may give
    way to --output with --force, and a lock is brought up to date in its place.
    """
    written = {name: request[name] for name in _WRITTEN if request[name] and _is_replaced(request[name])}
    if not written:
        return
    read = [*_read(request), *(("", path) for path in more)]
    for name, path in written.items():
        for other, source in read:
            if _is_in(path, source) and (other, name) != ("against_lock", "write_lock"):
                what = "is the file that is read" if _same(path, source) else f"is a part of {source!r}"
                message = f"{request.label([name])} {what}: {path!r}"
                raise UsageError("same-file", message, "write to another file")
        for other in list(written)[: list(written).index(name)]:
            resumed = {name, other} == {"output", "checkpoint"} and request["force"]
            if _same(path, written[other]) and not resumed:
                labels = f"{request.label([other])} and {request.label([name])}"
                raise UsageError(
                    "same-file", f"{labels} are the same file: {path!r}", "pass a different file for each"
                )


def _read(request: Request) -> Iterator[tuple[str, str]]:
    for name in _READ:
        value = request[name]
        for path in value if isinstance(value, tuple) else (value,):
            if name == "workload":
                path = path and path.rpartition(",")[2]  # noqa: PLW2901 - momentum=0.9,FILE.npy
            if path:
                yield name, path


def _is_replaced(path: str) -> bool:
    """True unless it is a device, a pipe, or nothing that could be written, of which others speak."""
    try:
        return is_plain(path)
    except OSError:
        return False


def _is_in(path: str, source: str) -> bool:
    """Whether ``path`` is ``source``, or a file in the folder that it is."""
    if not os.path.exists(source):  # noqa: PTH110 - plain names
        return False
    if _same(path, source):
        return True
    return os.path.isdir(source) and os.path.isfile(path) and _same(os.path.dirname(path) or ".", source)  # noqa: PTH112, PTH113, PTH120 - plain names


def _same(path: str, other: str) -> bool:
    with suppress(OSError, ValueError):
        return os.path.samefile(path, other)  # noqa: PTH121 - plain names
    with suppress(OSError, ValueError):
        return os.path.realpath(path) == os.path.realpath(other)
    return False
