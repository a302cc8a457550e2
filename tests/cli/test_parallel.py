"""Work shared by processes: order, errors, an early end, and where they import from."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import csgm_cli
from csgm_cli.cli.parallel import in_order
from csgm_cli.errors import StorageError, UsageError


def whoami(number):
    """A call that says which process made it."""
    return number, os.getpid()


def fails_at_the_end(number):
    """A call that fails once."""
    return 1 / (number - 39)


def refuses(number):
    """A call that raises an error with a hint."""
    raise UsageError("out-of-range", f"got {number}", "give less")


class Unpicklable(Exception):
    """An error that pickle cannot restore."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def raises_unpicklable(number):
    """A call whose error does not survive pickling."""
    raise Unpicklable(number, number + 1)


def killed_once(number):
    """A call that the system ends, as for want of memory."""
    if number == 30:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def is_any_alive(processes):
    """Whether one of these children of this process still runs."""
    return any(Path(f"/proc/{process}").exists() for process in processes)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_are_in_order(jobs):
    """Results come in the order of the calls, from as many processes as asked for at most."""
    numbers = range(5, 64)
    found = list(in_order(whoami, numbers, jobs))
    assert [number for number, _ in found] == list(numbers)
    processes = {process for _, process in found}
    assert len(processes) <= jobs
    assert (os.getpid() in processes) == (jobs == 1)
    assert not is_any_alive(processes - {os.getpid()})


@pytest.mark.parametrize("numbers", [range(0), range(1)])
def test_too_little_to_share(numbers):
    """One call needs no other process."""
    assert [process for _, process in in_order(whoami, numbers, 4)] == [os.getpid()] * len(numbers)


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_arrive(jobs):
    """What a call raises is raised at its turn, after the results before it."""
    results = in_order(fails_at_the_end, range(8, 40), jobs)
    assert next(results) == 1 / (8 - 39)
    with pytest.raises(ZeroDivisionError):
        list(results)


def test_errors_arrive_whole():
    """An error of csgm keeps its hint; one that cannot be pickled keeps its message."""
    with pytest.raises(UsageError) as refused:
        list(in_order(refuses, range(2, 10), 2))
    assert (refused.value.slug, refused.value.message, refused.value.hint) == (
        "out-of-range",
        "got 2",
        "give less",
    )
    with pytest.raises(RuntimeError, match="Unpicklable: 2 and 3"):
        list(in_order(raises_unpicklable, range(2, 10), 2))


def test_early_end():
    """A caller that stops ends the processes."""
    results = in_order(whoami, range(1000), 2)
    processes = {next(results)[1] for _ in range(40)}
    results.close()
    assert not is_any_alive(processes)


def test_a_killed_worker_is_lost():
    """A worker that the system kills is no bug: results before it arrive, then a storage error."""
    found = []
    with pytest.raises(StorageError, match="killed by signal 9") as lost:
        found.extend(in_order(killed_once, range(64), 2))
    assert found == list(range(len(found)))
    assert (lost.value.slug, lost.value.exit_status) == ("worker-lost", 4)


#: How csgm is started: as pip's script does it, and as a module.
SCRIPT = "from csgm_cli.cli import entry_point; entry_point()"
SWEEP = "sweep --epsilon 1 --delta 1e-8 --rounds 1 --norm-ratio 100 --vary gamma=0.1:1:9 --accountant rdp"


#: Modules of Python, of a dependency and of csgm. (With -m, Python itself looks for csgm_cli there.)
FOREIGN = [
    *(("script", name) for name in ("struct", "pickle", "numpy", "queue", "csgm_cli")),
    *(("module", name) for name in ("struct", "numpy")),
]


@pytest.mark.parametrize(("start", "name"), FOREIGN)
def test_nothing_is_imported_from_the_current_folder(place, tmp_path_factory, start, name):
    """A module in the current folder is not run, not even by worker processes."""
    script = tmp_path_factory.mktemp("bin") / "csgm"
    script.write_text(SCRIPT)
    (place / f"{name}.py").write_text("open('was-run', 'w'); raise SystemExit('foreign code')")
    command = [sys.executable, *([str(script)] if start == "script" else ["-m", "csgm_cli"])]
    done = subprocess.run(
        [*command, *shlex.split(SWEEP), "--format", "csv", "--jobs", "2"],
        env=os.environ | {"PYTHONPATH": str(Path(csgm_cli.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 10
    assert not (place / "was-run").exists()
