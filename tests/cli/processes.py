"""Waiting for what a process of csgm does, however busy the machine is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

#: Seconds, far more than any machine takes: the limit only ends a test that would hang.
PATIENCE = 120.0


def wait_until(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    """Wait for ``condition()`` while ``process`` runs; fails if it ends first or hangs."""
    given_up = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, f"it ended early, with {process.returncode}"
        if time.monotonic() >= given_up:
            process.kill()
            raise AssertionError(f"not within {PATIENCE:g} s")
        time.sleep(0.01)


def end_of(process: subprocess.Popen) -> int:
    """Wait for ``process`` and return its exit code; one that does not end is killed and fails the test."""
    try:
        return process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
