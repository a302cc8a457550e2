"""Work shared by several processes: results in order, and a clean end when interrupted."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from csgm_cli.cli import interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")

#: Most calls sent to a process at a time: enough to hide the sending, few enough for rows to come steadily.
_CHUNK = 8


def in_order(work: Callable[[int], T], numbers: Sequence[int], jobs: int) -> Iterator[T]:
    """Yield ``work(n)`` for every n, in order, computed by ``jobs`` processes (one: this process).

    ``work`` and what it returns must survive pickling. When the caller stops early, by an error or
    Ctrl-C, the processes are ended at once; they also end when this process is killed.
    """
    if jobs == 1 or len(numbers) < 2:
        yield from map(work, numbers)
    else:
        with interrupts.unwinding():
            yield from _shared(work, numbers, jobs)


def _shared(work: Callable[[int], T], numbers: Sequence[int], jobs: int) -> Iterator[T]:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    # Not fork: numpy may have started threads, whose locks a copy of the process would hold for ever.
    with _interrupts_blocked():  # this may start a process, too: the keeper of the pool's semaphores
        pool = ProcessPoolExecutor(
            min(jobs, len(numbers)), mp_context=get_context("spawn"), initializer=_end_with_parent
        )
    share = -(-len(numbers) // (4 * jobs))
    try:
        with _interrupts_blocked():
            results = pool.map(work, numbers, chunksize=min(share, _CHUNK))
        yield from results
    except BaseException:
        with _quiet_threads():
            for child in active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


@contextmanager
def _quiet_threads() -> Iterator[None]:
    """The pool's own thread, before Python 3.12, fails aloud where a process dies with cancelled work."""
    before, threading.excepthook = threading.excepthook, lambda _: None
    try:
        yield
    finally:
        threading.excepthook = before


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started here inherit it: Ctrl-C and a closing terminal reach all, but this one decides."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """Watch the process that started this one: what is killed cannot end its children."""
    import os
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
