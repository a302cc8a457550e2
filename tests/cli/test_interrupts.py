"""Ctrl-C at any moment: 130 and one line, or the answer; never a traceback, never death by a signal."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from csgm_cli import cli

CALIBRATE = shlex.split("calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --dim 1e6 --cohort-size 1000")

#: Runs csgm in a process that sends itself a signal at the n-th call, or at the first call of a function.
#: Nothing may be imported here that csgm would import under its own care.
AT_CALL = """
import os, sys
from csgm_cli import cli
number, where = int(sys.argv[1]), sys.argv[2]
del sys.argv[1:3]
left = int(where) if where.isdigit() else 0
def watch(frame, event, arg):
    global left
    if event in ("call", "c_call"):
        left -= 1
        name = arg.__name__ if event == "c_call" else frame.f_code.co_name
        if left == 0 or name == where:
            sys.setprofile(None)
            os.kill(os.getpid(), number)
sys.setprofile(watch)
cli.entry_point()
"""

#: Says on a pipe when csgm has taken over the signal, and then goes on.
ANNOUNCED = """
import os, signal, sys
from csgm_cli import cli
ready, install = [int(sys.argv.pop(1))], signal.signal
def watched(*arguments):
    before = install(*arguments)
    if ready:
        os.close(ready.pop())
    return before
signal.signal = watched
cli.entry_point()
"""

#: What would run at the interpreter's exit: functions of atexit, then destructors.
AT_EXIT = """
import atexit, os
from csgm_cli import cli
class Last:
    def __del__(self, kill=os.kill, process=os.getpid()):
        kill(process, 2)
atexit.register(os.kill, os.getpid(), 2)
last = Last()
"""


def program(source, place, *words):
    """The arguments of ``subprocess`` that run ``source``, away from this machine's settings."""
    environment = os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])}
    return {"args": [sys.executable, "-c", source, *map(str, words)], "cwd": place, "env": environment}


def finished(source, place, *words, **options):
    """Run ``source`` to its end."""
    return subprocess.run(
        **program(source, place, *words), capture_output=True, text=True, timeout=60, check=False, **options
    )


@pytest.mark.parametrize("call", [2, 3, 5, 10, 20, 50, 100, 500, 1_000, 5_000, 20_000, 50_000])
def test_interrupt_at_the_nth_call(place, call):
    """From the first call on, an interrupt ends with 130 and one line, imports or not."""
    done = finished(AT_CALL, place, 2, call, *CALIBRATE)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_calls_end(place):
    """A signal that is never sent changes nothing, which also shows that the others were sent in time."""
    done = finished(AT_CALL, place, 2, 10**9, *CALIBRATE)
    assert done.returncode == 0
    assert "noise multiplier" in done.stdout


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 1.0])
def test_interrupt_after_a_delay(place, delay):
    """Whenever an interrupt comes from outside, it ends in 130 and one line, or in the whole answer."""
    ready, told = os.pipe()
    with (
        os.fdopen(ready, "rb") as waiting,
        subprocess.Popen(
            **program(ANNOUNCED, place, told, *CALIBRATE, "--value"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[told],
        ) as process,
    ):
        os.close(told)
        waiting.read()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    if process.returncode == 0:
        assert float(out) > 0
        assert all(line.startswith("warning[") for line in err.splitlines())
    else:
        assert process.returncode == 130
        assert err.endswith("interrupted\n")
        assert "Traceback" not in err


@pytest.mark.parametrize(("words", "status"), [(CALIBRATE, 0), (["calibrate"], 2), (["--help"], 0)])
def test_interrupt_at_exit(place, words, status):
    """Once everything is said, the process ends: an interrupt does not change the exit code."""
    plain = finished("from csgm_cli import cli; cli.entry_point()", place, *words)
    done = finished(AT_EXIT + "cli.entry_point()", place, *words)
    assert (done.returncode, done.stdout, done.stderr) == (status, plain.stdout, plain.stderr)


def test_interrupt_after_the_result(place):
    """Between a result and its warnings an interrupt comes too late."""
    done = finished(AT_CALL, place, 2, "warning", *CALIBRATE)
    assert done.returncode == 0
    assert done.stderr.startswith("warning[rotation-rule]")


#: What asks a process to end, and the exit code that a shell reports for it.
ENDINGS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGXCPU, 152)]


@pytest.mark.parametrize(("sent", "status"), ENDINGS)
def test_stopped_while_a_file_is_written(place, sent, status):
    """A stop between the new content and its final name keeps the old file, with nothing beside it."""
    (place / "kept").write_text("old")
    done = finished(AT_CALL, place, int(sent), "fsync", *CALIBRATE, "--output", "kept")
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
    assert (place / "kept").read_text() == "old"
    assert {path.name for path in place.iterdir()} == {".git", "kept"}


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_stopped_twice_while_a_file_is_written(place, sent, status):
    """A terminal that closes sends SIGHUP twice: the second does not break off the cleaning."""
    (place / "kept").write_text("old")
    again = AT_CALL.replace("sys.setprofile(None)", "sys.setprofile(None if name == '_remove' else watch)")
    again = again.replace("name == where", "name in (where, '_remove')")
    done = finished(again, place, int(sent), "fsync", *CALIBRATE, "--output", "kept")
    assert (done.returncode, done.stderr) == (status, "")
    assert (place / "kept").read_text() == "old"
    assert {path.name for path in place.iterdir()} == {".git", "kept"}


@pytest.mark.parametrize("ignored", [signal.SIGTERM, signal.SIGHUP])
def test_ignored_endings_stay_ignored(place, ignored):
    """What nohup or a script had ignored does not stop the writing of a file."""
    plain = finished("from csgm_cli import cli; cli.entry_point()", place, *CALIBRATE)
    words = [int(ignored), "fsync", *CALIBRATE, "--output", "new"]
    done = finished(AT_CALL, place, *words, preexec_fn=lambda: signal.signal(ignored, signal.SIG_IGN))
    assert done.returncode == 0
    assert (place / "new").read_text() == plain.stdout


def test_interrupt_after_the_file(place):
    """Once the file has its name, an interrupt does not change the exit code."""
    done = finished(AT_CALL, place, 2, "warning", *CALIBRATE, "--output", "new")
    assert done.returncode == 0
    assert (place / "new").read_text().startswith("noise multiplier")


def test_ignored_interrupts_stay_ignored(place):
    """A job that was started with interrupts ignored, as nohup and scripts do, is not interrupted."""
    ignored = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    done = finished(AT_CALL, place, 2, 1_000, *CALIBRATE, preexec_fn=ignored)
    assert done.returncode == 0
    assert done.stdout


def test_main_leaves_the_handling_of_signals_alone(csgm):
    """A program that calls main for itself keeps its own handlers."""
    before = [signal.getsignal(number) for number, _ in ENDINGS]
    assert csgm("version --output there").status == 0
    assert csgm("version").status == 0
    assert [signal.getsignal(number) for number, _ in ENDINGS] == before


def test_little_is_imported_before_interrupts_are_seen_to():
    """What a console script imports first takes no time in which an interrupt would be a traceback."""
    package = str(Path(cli.__file__).parents[2])
    source = (
        f"import os, sys; sys.path.insert(0, {package!r}); before = set(sys.modules); import csgm_cli.cli"
    )
    source += "; print(*(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", source], capture_output=True, text=True, check=True, timeout=60
    )
    frozen = {"importlib._bootstrap", "importlib._bootstrap_external", "__future__"}
    assert set(done.stdout.split()) - frozen == {
        "csgm_cli",
        "csgm_cli.version",
        "csgm_cli.cli",
        "csgm_cli.cli.leave",
    }
