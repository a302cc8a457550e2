"""The standard streams: what goes where, and whether it may have colour."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from csgm_cli.errors import CsgmError, StorageError

if TYPE_CHECKING:
    from csgm_cli.render import Terminal

_RED, _YELLOW, _RESET = "\x1b[31m", "\x1b[33m", "\x1b[0m"


def use_colour(stream: TextIO | None) -> bool:
    """Say whether ``stream`` may be coloured: NO_COLOR, then FORCE_COLOR, then a capable terminal."""
    if stream is None or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()


def terminal() -> Terminal | None:
    """Describe the terminal that stdout is; None where it is a pipe or a file."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    from csgm_cli.render import Terminal

    return Terminal(get_terminal_size().columns, use_colour(sys.stdout))


def write(text: str) -> None:
    """Put ``text`` on stdout; ``StorageError`` where there is none."""
    if sys.stdout is None:
        raise StorageError("unwritable-output", "cannot write the result: standard output is closed")
    _put(text, sys.stdout)


def flush() -> None:
    """Hand stdout's buffer to the system now, while an error can still become an exit code.

    ``BrokenPipeError`` where the reader went away, ``StorageError`` where the system refuses.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon(sys.stdout)
        raise StorageError("unwritable-output", f"cannot write the result: {error.strerror}") from None


def note(line: str) -> None:
    """Put one line (or block of lines) on stderr."""
    if sys.stderr is not None:
        _put(f"{line}\n", sys.stderr)
        sys.stderr.flush()


def warning(slug: str, message: str) -> None:
    """Put ``warning[slug]: message`` on stderr."""
    note(f"{_coloured(f'warning[{slug}]', _YELLOW)}: {message}")


def error(problem: CsgmError) -> None:
    """Put ``error[slug]: message`` and, where there is a hint, ``try: hint`` on stderr."""
    note(f"{_coloured(f'error[{problem.slug}]', _RED)}: {problem.message}")
    if problem.hint:
        note(f"  try: {problem.hint}")


def abandon(*streams: TextIO | None) -> None:
    """Point each stream's descriptor at the null device, so that the flush at exit cannot fail."""
    for stream in streams:
        try:
            descriptor = os.open(os.devnull, os.O_WRONLY)
            os.dup2(descriptor, stream.fileno() if stream else descriptor)
        except (OSError, ValueError):  # not backed by a descriptor, or closed: nothing left to flush
            continue


def _coloured(text: str, colour: str) -> str:
    return f"{colour}{text}{_RESET}" if use_colour(sys.stderr) else text


def _put(text: str, stream: TextIO) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that cannot show a character still gets the rest
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
