"""Limits of a process: never the exit code of a failed claim."""

import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from csgm_cli import cli
from csgm_cli.errors import StorageError
from csgm_cli.storage.memory import check_libraries_fit

MIB = 1 << 20
LINES = [
    "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000 --rounds 1 --value",
    "factorize --T 64 --value",
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split()[0])
@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
@pytest.mark.parametrize("limit", [60, 80, 120, 240])
def test_a_memory_limit_is_no_failed_claim(place, line, name, limit):
    """OpenBLAS would end the process with 1, the exit code of a failed claim, for want of a buffer."""
    kind = getattr(resource, name)
    done = subprocess.run(
        [sys.executable, "-m", "csgm_cli", *shlex.split(line)],
        env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])},
        preexec_fn=lambda: resource.setrlimit(kind, (limit * MIB, limit * MIB)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 0:
        assert float(done.stdout) > 0
    else:
        assert done.returncode == 4
        assert done.stderr.startswith("error[memory-limit]")


@pytest.mark.parametrize("threads", ["", "1", "4", "many", "0"])
def test_threads_need_more_memory(monkeypatch, threads):
    """Every further BLAS thread has buffers of its own; what is no number of threads is none."""
    monkeypatch.setattr("csgm_cli.storage.memory._of_process", lambda: 300 * MIB)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
    if threads == "4":
        with pytest.raises(StorageError, match=r"384 MiB of memory are needed, .* leaves 300 MiB"):
            check_libraries_fit()
    else:
        check_libraries_fit()
