"""``csgm factorize`` while it runs: memory, checkpoints, interrupts and progress."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import csgm_cli
from csgm_cli.cli.commands import factorize as command_module
from csgm_cli.storage import memory
from csgm_cli.storage.arrays import check_hash, read_arrays
from tests.cli.processes import end_of, wait_until

ROOT = Path(csgm_cli.__file__).parents[1]


def test_dense_beyond_memory(csgm, place, monkeypatch):
    """Refused before solving, with the size it would need, and the form that is small named as the way."""
    monkeypatch.setattr(command_module, "Progress", None)  # nothing may get as far as solving
    outcome = csgm("factorize --T 1e7 --output f.npz")
    assert (outcome.status, outcome.stdout) == (2, "")
    first, second = outcome.stderr.splitlines()
    assert first.startswith("error[too-large]: dense factors at T = 10000000 need 26")
    assert " GiB of memory" in first
    assert "streaming:8" in second
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 20)
    for words, way in (
        ("--strategy streaming:2 --arrays B,C", "--arrays generators,v"),
        ("--workload momentum=0.9", "--arrays v"),
    ):
        outcome = csgm(f"factorize --T 1000 --output f.npz {words}")
        assert outcome.status == 2
        assert way in outcome.stderr


def test_available_memory():
    """What the system says is free: more than a process needs, and no more than there is."""
    free = memory.available_bytes()
    assert free is not None
    assert 1 << 24 < free <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_checkpoint(csgm, place):
    """A finished state is gone on from; a tighter tolerance takes fewer steps than from nothing."""
    assert csgm("factorize --T 64 --tolerance 1e-6 --checkpoint c.npz").status == 0
    outcome = csgm("factorize --T 64 --checkpoint c.npz --format json")
    assert outcome.stderr.startswith("going on from c.npz\n")
    resumed = outcome.document["result"]
    fresh = csgm("factorize --T 64 --format json").document["result"]
    assert resumed["iterations"] < fresh["iterations"]
    assert resumed["gap"] <= 1e-9
    assert resumed["mean_squared_error"] == pytest.approx(fresh["mean_squared_error"], rel=1e-9)


@pytest.mark.parametrize(
    "words",
    ["--T 65", "--T 64 --objective max", "--T 64 --workload momentum=0.5", "--workload A.npy", "--T 64 -o"],
)
def test_checkpoint_of_another_problem(csgm, place, words):
    """Exit code 2, and the file stays what it was."""
    if words.endswith("-o"):  # a factorization is no checkpoint
        csgm("factorize --T 64 --output c.npz")
        words = "--T 64"
    else:
        csgm("factorize --T 64 --checkpoint c.npz")
    np.save("A.npy", np.eye(64))
    before = Path("c.npz").read_bytes()
    outcome = csgm(f"factorize {words} --checkpoint c.npz")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[other-problem]: 'c.npz' is no checkpoint of this problem")
    assert Path("c.npz").read_bytes() == before


def test_broken_checkpoint(csgm, place):
    """Not a checkpoint at all, or one that was changed: exit code 2, the file intact."""
    Path("c.npz").write_text("no")
    outcome = csgm("factorize --T 64 --checkpoint c.npz")
    assert (outcome.status, Path("c.npz").read_text()) == (2, "no")
    assert outcome.stderr.startswith("error[broken-file]")


def test_interrupted_and_resumed(place):
    """Ctrl-C ends with 130, without the output or half a file, and the checkpoint is good to go on from."""
    source = (
        "from csgm_cli import cli; from csgm_cli.cli.output import solver_progress; "
        "solver_progress._PAUSE = 0; cli.entry_point()"
    )
    line = [sys.executable, "-c", source, "factorize", "--T", "100000", "--tolerance", "1e-8"]
    line += ["--checkpoint", "c.npz", "--output", "f.npz", "--arrays", "v"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        wait_until(Path("c.npz").exists, process)
        process.send_signal(signal.SIGINT)
        assert end_of(process) == 130
        assert process.stdout.read() == b""
        assert process.stderr.read().endswith(b"interrupted\n")
    assert {path.name for path in place.iterdir()} == {".git", "c.npz"}
    saved = read_arrays("c.npz")
    check_hash(saved)
    assert saved.metadata["T"] == 100000
    assert (saved.arrays["v"] > 0).all()


def test_no_progress_in_a_pipe(csgm, monkeypatch):
    """However long it takes, what is no terminal gets nothing, not even the time it took."""
    monkeypatch.setattr("csgm_cli.cli.console.PATIENCE", 0.0)
    outcome = csgm("factorize --T 32")
    assert outcome.stderr == ""


def test_progress_on_a_terminal(csgm, monkeypatch, capsys):
    """Gap against target, on one line that is gone at the end."""
    monkeypatch.setattr("csgm_cli.cli.console.PATIENCE", 0.0)
    monkeypatch.setattr(sys.stderr.__class__, "isatty", lambda self: self is sys.stderr, raising=False)
    outcome = csgm("factorize --T 32 --value")
    shown = outcome.stderr.split("\r")
    assert any("gap " in part and "target 1.0e-09" in part for part in shown)
    assert any("#" in part and "." in part for part in shown)
    assert outcome.stderr.rpartition("\x1b[K")[2].startswith("solved in ")


@pytest.mark.parametrize(
    "line",
    [
        "factorize --T 1e6 --strategy toeplitz-sqrt",
        "factorize --T 1e6 --strategy streaming:8",
        "factorize --T 1e6 --strategy identity",
        "factorize --T 1e6 --compare",
        "factorize --workload A.npy",
        "account --noise-multiplier 1 --mechanism gaussian --delta 1e-6 --factorization tree:1e6",
    ],
)
def test_more_than_there_is_memory_for(csgm, place, monkeypatch, line):
    """It is refused before anything is solved, with both sizes."""
    np.save("A.npy", np.tri(300))
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 20)
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert re.match(
        r"error\[too-large\]: .* needs? [\d.]+ [GM]iB of memory, 1 MiB are available", outcome.stderr
    )


@pytest.mark.parametrize("line", ["factorize --T 8", "factorize --T 8 --compare"])
def test_memory_that_gives_out(csgm, monkeypatch, line):
    """Where nobody could tell before, running out of memory is no bug either."""

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("csgm_cli.factorization.factorize", fail)
    monkeypatch.setattr("csgm_cli.factorization.compare_strategies", fail)
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[too-large]: ")
    assert "T = 8" in outcome.stderr


@pytest.mark.parametrize(("T", "expected"), [(40, 1e-9), (41, 1e-6)])
def test_tolerance_of_many_rows(csgm, monkeypatch, T, expected):
    """Where nobody says, it is one that rounding leaves within reach; the document says which."""
    monkeypatch.setattr(sys.modules["csgm_cli.factorization.factorize"], "_MANY_ROWS", 40)
    for line in (
        f"factorize --T {T}",
        f"factorize --T {T} --compare",
        f"factorize --T {T} --strategy streaming:2",
    ):
        assert csgm(f"{line} --format json").document["inputs"]["tolerance"] == expected
    assert csgm(f"factorize --T {T} --tolerance 1e-3 --format json").document["inputs"]["tolerance"] == 1e-3


def test_what_to_do_where_memory_is_short(csgm, monkeypatch):
    """The refusal names a way out, for one strategy, for all and inside a mechanism."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 20)
    for line, hint in (
        ("factorize --T 1e8 --strategy streaming:4", "use a smaller T and more epochs"),
        ("factorize --T 1e8 --compare", "one --strategy alone may need less"),
        (
            "calibrate --epsilon 1 --delta 1e-6 --mechanism gaussian --factorization streaming:4:1e8",
            "use a smaller T and more epochs",
        ),
    ):
        error, tried = csgm(line).stderr.splitlines()
        assert error.startswith("error[too-large]: ")
        assert hint in tried
