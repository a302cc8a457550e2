"""What a worker process of ``--jobs`` runs: requests on stdin, answers on stdout, both pickled.

`csgm_cli.cli.parallel` is the other end.
"""

from __future__ import annotations

import os
import pickle
import sys
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO

from csgm_cli.cli import hush_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable


def serve() -> None:
    """Answer requests until the process that started this one ends, which closes stdin."""
    hush_arithmetic()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = None  # no module may print between the answers
    received: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_receive, args=(requests, received), daemon=True).start()
    work = received.get()
    try:
        while True:
            answers.write(pickle.dumps([_answer(work, number) for number in received.get()]))
            answers.flush()
    except OSError:  # nobody reads the answers any more
        os._exit(1)


def _receive(requests: BinaryIO, received: SimpleQueue[Any]) -> None:
    """Hand on requests; at their end stop the process, whatever it is computing."""
    try:
        while True:
            received.put(pickle.load(requests))  # noqa: S301 - sent by csgm's own process
    finally:
        os._exit(1)


def _answer(work: Callable[[int], Any], number: int) -> tuple[Any, Exception | None]:
    try:
        return work(number), None
    except Exception as error:
        return None, _portable(error)


def _portable(error: Exception) -> Exception:
    """Return ``error``, or what it says where it does not survive pickling."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
