"""Work shared by several processes: results in order, and a clean end when interrupted."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from csgm_cli.cli import interrupts
from csgm_cli.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")

#: The program of a worker process; its arguments are the folders to import from.
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from csgm_cli.cli.worker import serve; serve()"
#: Interpreter options that a worker inherits, by their name in ``sys.flags``.
_INHERITED = {"ignore_environment": "-E", "no_user_site": "-s", "no_site": "-S"}
#: Most calls sent to a process at a time: enough to hide the sending, few enough for rows to come steadily.
_CHUNK = 8


def in_order(work: Callable[[int], T], numbers: Sequence[int], jobs: int) -> Iterator[T]:
    """Yield ``work(n)`` for every n, in order, computed by ``jobs`` processes (one: this process).

    ``work``, what it returns and what it raises must survive pickling. When the caller stops early, by an
    error or Ctrl-C, the processes are ended at once; they also end when this process is killed.
    ``StorageError`` (slug ``worker-lost``) where a process ends before its work is done.
    """
    if jobs == 1 or len(numbers) < 2:
        yield from map(work, numbers)
    else:
        with interrupts.unwinding():
            yield from _shared(work, numbers, min(jobs, len(numbers)))


def _shared(work: Callable[[int], T], numbers: Sequence[int], jobs: int) -> Iterator[T]:
    from concurrent.futures import ThreadPoolExecutor

    size = min(-(-len(numbers) // (4 * jobs)), _CHUNK)
    chunks = [numbers[start : start + size] for start in range(0, len(numbers), size)]
    workers: list[_Worker] = []
    idle: SimpleQueue[_Worker] = SimpleQueue()

    def ask(chunk: Sequence[int]) -> list[Any]:
        worker = idle.get()
        try:
            return worker.ask(chunk)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(jobs)  # each waits for one process
    try:
        for _ in range(jobs):
            workers.append(_Worker(work))
            idle.put(workers[-1])
        with _interrupts_blocked():  # in the threads, too
            answers = threads.map(ask, chunks)
        for results in answers:
            for result, error in results:
                if error is not None:
                    raise error
                yield result
    finally:
        for worker in workers:
            worker.process.kill()
        threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.process.communicate()


class _Worker:
    """A process that computes ``work``. It cannot import from the current folder."""

    def __init__(self, work: Callable[[int], object]) -> None:
        folders = [folder for folder in sys.path if folder]
        folders.append(str(Path(__file__).parents[2]))
        flags = [flag for name, flag in _INHERITED.items() if getattr(sys.flags, name)]
        self._request = pickle.dumps(work)
        with _interrupts_blocked():
            self.process = subprocess.Popen(  # noqa: S603 - this interpreter, without a shell
                [sys.executable, "-P", *flags, "-c", _PROGRAM, *folders],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )

    def ask(self, chunk: Sequence[int]) -> list[Any]:
        """Return (result, None) or (None, error) for every number; errors as for `in_order`."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        request, self._request = self._request + pickle.dumps(chunk), b""
        try:
            stdin.write(request)
            stdin.flush()
            answers: list[Any] = pickle.load(stdout)  # noqa: S301 - written by csgm's own process
        except (OSError, EOFError, pickle.UnpicklingError):
            raise self._lost() from None
        return answers

    def _lost(self) -> StorageError:
        status = self.process.wait()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
        return StorageError("worker-lost", f"a worker process {how}", "fewer --jobs take less memory")


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C and a closing terminal in processes and threads started here: this thread decides."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
