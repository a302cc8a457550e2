"""Ctrl-C, from the first import to the interpreter's exit (standard library only, and little of that).

Python's own way, an exception between any two instructions, can surface inside an import or a
destructor, where it ends in a traceback or is lost. Here an interrupt ends the process on the spot.
Only while a file is written does it unwind the stack, so that nothing is left beside the file, and so
do the other signals that ask a process to end; and once a result is out it changes nothing any more.
A signal that the process was started with as ignored (SIGHUP, by nohup) stays ignored, and a process
that calls ``csgm_cli.cli.main`` for itself keeps its own handling.
"""

from __future__ import annotations

import signal as signals
from contextlib import contextmanager
from signal import SIG_DFL, SIG_IGN, SIGINT, default_int_handler, getsignal, signal

from csgm_cli.cli.leave import leave_interrupted

TYPE_CHECKING = False  # see csgm_cli.cli
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import NoReturn

#: Asked to end, by a supervisor, a terminal that closes, or a limit on the processor's time: what the
#: platform has of these.
_ENDINGS = [
    signals.Signals[name] for name in ("SIGTERM", "SIGHUP", "SIGXCPU") if name in signals.Signals.__members__
]


def leave_at_once() -> None:
    """From now on an interrupt ends the process with 130 and one line on stderr."""
    if getsignal(SIGINT) is default_int_handler:
        signal(SIGINT, _leave)


@contextmanager
def unwinding() -> Iterator[None]:
    """Let an interrupt or a request to end become an exception, which the code within can clean up at."""
    if getsignal(SIGINT) is not _leave:
        yield
        return
    taken = [number for number in _ENDINGS if getsignal(number) is SIG_DFL]
    signal(SIGINT, _unwind)
    for number in taken:
        signal(number, _unwind)
    try:
        yield
    finally:
        for number in taken:
            signal(number, SIG_DFL)
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
    for ending in _ENDINGS:  # a terminal that closes sends SIGHUP twice: the cleaning goes on
        if getsignal(ending) is _unwind:
            signal(ending, SIG_IGN)
    raise SystemExit(128 + number)
