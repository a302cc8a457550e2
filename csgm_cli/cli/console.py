"""The standard streams: results, notes, progress and colour."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from csgm_cli.cli import interrupts
from csgm_cli.errors import CsgmError, StorageError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from csgm_cli.render.terminal import Terminal

#: Seconds of work before progress is shown.
PATIENCE = 1.0
#: Seconds between two updates of the count.
_PROGRESS_EVERY = 0.1
#: Whether notes, warnings and progress are suppressed.
_is_quiet = False
#: When `transient` was called last.
_shown_at = 0.0
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

    from csgm_cli.render.terminal import Terminal

    return Terminal(get_terminal_size().columns, use_colour(sys.stdout))


def write(text: str) -> None:
    """Hand ``text``, the end of a result, to stdout; errors as in `write_part`. Then Ctrl-C is too late."""
    write_part(text)
    interrupts.ignore()


def write_part(text: str) -> None:
    """Hand ``text`` to stdout and on to the system, while an error can still become an exit code.

    A terminal gets the characters of the locale; a pipe or a file gets UTF-8, whatever the locale.
    ``BrokenPipeError`` where the reader went away, ``StorageError`` where stdout is closed or full.
    """
    if sys.stdout is None:
        raise StorageError("cannot-write", "cannot write to standard output: it is closed")
    try:
        if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        _put(text, sys.stdout)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError("cannot-write", f"cannot write to standard output: {error.strerror}") from None


def be_quiet(*, quiet: bool) -> None:
    """Set whether notes, warnings and progress are suppressed; failures and errors never are."""
    global _is_quiet  # noqa: PLW0603 - there is one stderr
    _is_quiet = quiet


def note(text: str) -> None:
    """Put one line on stderr; where that is impossible, the exit code has to do."""
    if not _is_quiet:
        _say(one_line(text))


def failed(text: str) -> None:
    """Put ``failed: text`` on stderr, in red."""
    _say(f"{_coloured('failed', _RED)}: {one_line(text)}")


def elapsed(text: str) -> None:
    """Put how long the work took on stderr where that is a terminal; a log file stays the same every time."""
    if sys.stderr is not None and sys.stderr.isatty():
        note(text)


def is_live() -> bool:
    """Say whether stderr is a terminal on which a line can be written over."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal and os.environ.get("TERM") != "dumb" and not _is_quiet


def transient(text: str) -> None:
    """Put ``text`` in place of the current line of the terminal that stderr is; nowhere else."""
    global _shown_at  # noqa: PLW0603 - there is one terminal
    _shown_at = monotonic()
    if is_live():
        with suppress(OSError):
            _put(f"\r{text}\x1b[K\r" if text else "\x1b[K", sys.stderr)


def since_shown() -> float:
    """Seconds since the current terminal line was last written."""
    return monotonic() - _shown_at


def block(text: str) -> None:
    """Put lines of csgm's own, help or a traceback, on stderr."""
    _say("\n".join(one_line(line) for line in text.splitlines()))


def warning(slug: str, message: str) -> None:
    """Put ``warning[slug]: message`` on stderr."""
    if not _is_quiet:
        _say(f"{_coloured(f'warning[{slug}]', _YELLOW)}: {one_line(message)}")


def error(problem: CsgmError) -> None:
    """Put ``error[slug]: message`` and, where there is a hint, ``try: hint`` on stderr."""
    _say(f"{_coloured(f'error[{problem.slug}]', _RED)}: {problem.message}")
    if problem.hint:
        _say(f"  try: {problem.hint}")


@contextmanager
def progress(total: int, unit: str, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number done of ``total``; stderr shows it after a second.

    Only where stderr is a terminal, and not where ``quiet``; the line is gone at the end.
    """
    if quiet or not is_live():
        yield lambda _: None
        return
    begun = shown = monotonic()

    def advance(done: int) -> None:
        nonlocal shown
        now = monotonic()
        if now - begun >= PATIENCE and now - shown >= _PROGRESS_EVERY:
            shown = now
            transient(f"{done} of {total} {unit}, {100 * done // total} %")

    try:
        yield advance
    finally:
        if shown > begun:
            transient("")


def abandon_unless_flushed() -> None:
    """Make sure that the flush at the interpreter's exit cannot fail and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(line: str) -> None:
    """Put a line on stderr; on a terminal it is wrapped between words."""
    if sys.stderr is None:
        return
    if sys.stderr.isatty():
        from shutil import get_terminal_size
        from textwrap import fill

        width = max(get_terminal_size().columns, 20)
        parts = (
            fill(part, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            for part in line.splitlines()
        )
        line = "\n".join(parts)
    with suppress(OSError):
        _put(f"{line}\n", sys.stderr)


def _coloured(text: str, colour: str) -> str:
    return f"{colour}{text}{_RESET}" if use_colour(sys.stderr) else text


def _put(text: str, stream: TextIO) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that cannot show a character still gets the rest
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
