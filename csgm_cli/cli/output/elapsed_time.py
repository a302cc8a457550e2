"""The elapsed time of a slow command, shown at a terminal."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from csgm_cli.cli import console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: Seconds between two showings.
_PAUSE = 1.0


@contextmanager
def working() -> Iterator[None]:
    """Show on stderr for how many seconds the code within has been running; the line is gone at the end.

    Only where stderr is a terminal. The system's alarm clock wakes it, which costs a quick answer
    nothing; where that is somebody else's, or there is none, nothing is shown.
    """
    begun, shown, busy = monotonic(), False, False

    def show(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what signal calls
        nonlocal shown, busy
        # A terminal that was stopped keeps the last showing waiting; a solver may show how far it is.
        if busy or console.since_shown() < _PAUSE / 2:
            return
        shown = busy = True
        console.transient(f"working for {monotonic() - begun:.0f} s")
        busy = False

    if not console.is_live() or not _take_alarm(show):
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, console.PATIENCE, _PAUSE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if shown:
            console.transient("")


def _take_alarm(handler: Callable[[int, FrameType | None], None]) -> bool:
    if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        return False
    try:
        signal.signal(signal.SIGALRM, handler)
    except ValueError:  # not in the main thread
        return False
    return True
