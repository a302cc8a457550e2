"""Ctrl-C, from the first import to the interpreter's exit (standard library only, and little of that).

Python's own way, an exception between any two instructions, can surface inside an import or a
destructor, where it ends in a traceback or is lost. Here an interrupt ends the process on the spot.
Only while a file is written does it unwind the stack, so that nothing is left beside the file; and
once a result is out it changes nothing any more. A process that was started with SIGINT ignored, or
that calls ``csgm_cli.cli.main`` for itself, keeps its own handling.
"""

from __future__ import annotations

from contextlib import contextmanager
from signal import SIG_DFL, SIG_IGN, SIGINT, SIGTERM, default_int_handler, getsignal, signal

from csgm_cli.cli import leave_interrupted

TYPE_CHECKING = False  # see csgm_cli.cli
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import NoReturn


def leave_at_once() -> None:
    """From now on an interrupt ends the process with 130 and one line on stderr."""
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, _leave)


@contextmanager
def unwinding() -> Iterator[None]:
    """Let an interrupt, or SIGTERM, end the process by an exception that the code within can clean up at."""
    if getsignal(SIGINT) is not _leave:
        yield
        return
    on_terminate = getsignal(SIGTERM)
    signal(SIGINT, _unwind)
    if on_terminate is SIG_DFL:
        signal(SIGTERM, _unwind)
    try:
        yield
    finally:
        signal(SIGTERM, on_terminate)
        signal(SIGINT, _leave)


def ignore() -> None:
    """The result is out: the process ends with the status that the result has."""
    if getsignal(SIGINT) is _leave:
        signal(SIGINT, SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - what signal calls
    leave_interrupted()


def _unwind(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - what signal calls
    if number == SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
