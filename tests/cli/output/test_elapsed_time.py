"""What a slow answer shows at a terminal, and that nothing else does."""

import io
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from csgm_cli import cli
from csgm_cli.cli import console
from csgm_cli.cli.output.elapsed_time import working

#: Runs csgm with less patience than it has: so many seconds until there is something to see.
IMPATIENT = """
import sys
from csgm_cli.cli import console
from csgm_cli.cli.output import elapsed_time
console.PATIENCE = elapsed_time._PAUSE = float(sys.argv.pop(1))
if "--rounds=1e9" in sys.argv:  # an answer that never comes
    from itertools import repeat
    from csgm_cli.jobs import calibrate
    calibrate.calibrate = lambda *_, **__: [None for _ in repeat(None) if False]
from csgm_cli import cli
cli.entry_point()
"""
RATIO = "--epsilon 5 --delta 1e-8 --norm-ratio 100 --rounds 1"


def started(place, patience, line, stderr, **variables):
    """Start csgm with ``stderr``."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CSGM_")}
    return subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, str(patience), *shlex.split(line)],
        cwd=place,
        env=clean | {"PYTHONPATH": str(Path(cli.__file__).parents[2]), "TERM": "xterm"} | variables,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def read(terminal, until=None):
    """What comes from a terminal, to its end or until something has come."""
    seen = b""
    with suppress(OSError):  # how Linux says that nobody writes to it any more
        while until is None or until not in seen:
            part = os.read(terminal, 4096)
            if not part:
                break
            seen += part
    return seen


def at_a_terminal(place, patience, line, *, until=None, **variables):
    """Status, stdout and what the terminal that is stderr shows; interrupted once it shows ``until``."""
    terminal, other = pty.openpty()
    with started(place, patience, line, other, COLUMNS="1000", **variables) as process:
        os.close(other)
        seen = b""
        if until is not None:
            seen = read(terminal, until)
            process.send_signal(signal.SIGINT)
        seen += read(terminal)
        out = process.stdout.read().decode()
    os.close(terminal)
    return process.returncode, out, seen.decode()


@pytest.mark.parametrize(
    "line",
    [
        f"calibrate {RATIO} --gamma 0.01",
        f"plan {RATIO} --max-noise-overhead 0.1 --accountant rdp",
        "account --sigma 1 --mechanism gaussian --delta 1e-8 --factorization tree:20000",
        "selftest",
    ],
)
def test_slow_answers_say_so_and_then_are_as_always(place, line):
    """The seconds stand in a line that is gone before the answer comes."""
    with started(place, 1.0, line, subprocess.PIPE) as process:
        piped, said = (stream.decode() for stream in process.communicate(timeout=60))
    status, out, seen = at_a_terminal(place, 0.002, line, NO_COLOR="1")
    assert (status, out) == (0, piped)
    *shown, rest = seen.split("\x1b[K")
    assert re.fullmatch(r"\rworking for \d+ s", shown[0])
    assert shown[-1] == "\r"  # back to the start of the line, which is cleared
    assert rest.replace("\r\n", "\n") == said


@pytest.mark.parametrize("variables", [{}, {"TERM": "dumb"}])
def test_an_answer_within_a_second_shows_nothing(place, variables):
    """Nor does one on a terminal that cannot write over a line, however long it takes."""
    patience, line = (
        (0.002, f"calibrate {RATIO} --gamma 0.01") if variables else (60.0, f"calibrate {RATIO} --gamma 1")
    )
    status, out, seen = at_a_terminal(place, patience, line, **variables)
    assert (status, seen) == (0, "")
    assert out.startswith("noise multiplier")


def test_a_pipe_sees_nothing(place):
    """Where stderr is no terminal there is nobody to wait."""
    with started(place, 0.002, f"calibrate {RATIO} --gamma 0.01", subprocess.PIPE) as process:
        assert process.communicate(timeout=60)[1] == b""


def test_an_interrupt_leaves_a_clean_line(place):
    """Ctrl-C ends a slow answer with 130, and its word stands alone in its line."""
    line = f"calibrate {RATIO.removesuffix('1')}1e9 --gamma 0.01"
    status, out, seen = at_a_terminal(place, 0.02, line, until=b"working for")
    assert (status, out) == (130, "")
    assert seen.endswith("\r\x1b[Kinterrupted\r\n")


def test_a_failure_leaves_a_clean_line(place):
    """The line is gone before an error is told."""
    line = "plan --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 --max-mse-overhead 0.05"
    status, out, seen = at_a_terminal(place, 0.001, f"{line} --mechanism linf-csgm", NO_COLOR="1")
    assert (status, out) == (3, "")
    assert "\x1b[K\r\x1b[Kerror[" in seen


class Terminal(io.StringIO):
    """A terminal, as far as it matters here."""

    def isatty(self):
        return True


def test_alarms_of_others_are_left_alone(monkeypatch):
    """A program with an alarm of its own, or another thread, computes in silence; and gets its alarm back."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    with working():
        assert signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    found = []

    def elsewhere():
        with working():
            found.append(signal.getsignal(signal.SIGALRM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    own = lambda *_: None
    signal.signal(signal.SIGALRM, own)
    try:
        with working():
            found.append(signal.getsignal(signal.SIGALRM))
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert found == [signal.SIG_DFL, own]
    assert sys.stderr.getvalue() == ""


class Stopped(Terminal):
    """A terminal that another alarm finds still busy with the line of the first."""

    def __init__(self):
        super().__init__()
        self.depth = self.deepest = 0

    def write(self, text):
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        if self.depth < 3 and signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
            signal.raise_signal(signal.SIGALRM)
        self.depth -= 1
        return super().write(text)


def test_alarms_do_not_pile_up(monkeypatch):
    """While the terminal is stopped nothing more is shown."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Stopped())
    monkeypatch.setattr("csgm_cli.cli.console.since_shown", lambda: 9.0)
    with working():
        signal.raise_signal(signal.SIGALRM)
    assert sys.stderr.deepest == 1
    assert sys.stderr.getvalue().count("working for") == 1


def test_a_solver_that_shows_how_far_it_is_keeps_the_line(monkeypatch):
    """Two who write over one line would only flicker."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with working():
        console.transient("step 1")
        signal.raise_signal(signal.SIGALRM)
    assert sys.stderr.getvalue() == "\rstep 1\x1b[K\r"
