"""Exit codes: each thing that can happen ends in its own, without a traceback."""

import errno
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from csgm_cli import cli
from csgm_cli.cli.commands.about.version import command as version
from csgm_cli.cli.exits import ExitCode, as_csgm_error
from csgm_cli.errors import CsgmError, NoAnswerError, StorageError, UsageError
from tests.cli.processes import end_of, wait_until

CALIBRATE = "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000"
EVERY_KIND_OF_OUTPUT = [
    CALIBRATE,
    "--help",
    "--version",
    "calibrate -h",
    "completion bash",
    "version",
    "selftest",
]
PROGRAM = [sys.executable, "-m", "csgm_cli"]


def raising(error):
    """A command body that fails with ``error``."""

    def run(request):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("x", "m"), 2),
        (NoAnswerError("x", "m"), 3),
        (StorageError("x", "m"), 4),
        (click.UsageError("m"), 2),
        (click.BadParameter("m"), 2),
        (click.ClickException("m"), 2),
        (click.FileError("f", "m"), 4),
        (PermissionError(errno.EACCES, "denied", "f"), 4),
        (FileNotFoundError(errno.ENOENT, "missing", "f"), 4),
        (ZeroDivisionError("division by zero"), 70),
        (RecursionError(), 70),
        (MemoryError(), 2),
        (CsgmError("x", "m"), 70),
        (AssertionError(), 70),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (EOFError(), 130),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141),
        (click.exceptions.Exit(5), 5),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_exit_code_of_what_a_command_raises(csgm, monkeypatch, error, status):
    """Whatever a command raises becomes an exit code and at most one error on stderr."""
    monkeypatch.setattr(version, "run", raising(error))
    outcome = csgm("version --format text")
    assert (outcome.status, outcome.stdout) == (status, "")
    assert "Traceback" not in outcome.stderr
    assert outcome.stderr.count("error[") == (status in (2, 3, 4, 70))


def test_bug_asks_for_a_report(csgm, monkeypatch):
    """A bug says what happened and how to report it; its traceback is shown only on demand."""
    monkeypatch.setattr(version, "run", raising(ZeroDivisionError("division by zero")))
    plain = csgm("version --format text").stderr
    assert "ZeroDivisionError: division by zero" in plain
    assert "csgm version" in plain
    monkeypatch.setenv("CSGM_DEBUG", "1")
    assert "Traceback (most recent call last)" in csgm("version --format text").stderr


def test_bug_in_json_mode(csgm, monkeypatch):
    """A bug, too, is an object where the caller reads JSON."""
    monkeypatch.setattr(version, "run", raising(ZeroDivisionError()))
    outcome = csgm("version --format json")
    assert (outcome.status, outcome.document["error"]["slug"]) == (70, "bug")


@pytest.mark.parametrize(("error", "status"), [(ZeroDivisionError(), 70), (MemoryError(), 2)])
def test_failure_of_the_error_report(csgm, monkeypatch, error, status):
    """Where reporting an error fails, the exit code is that of the failure; there is no traceback."""
    monkeypatch.setattr("csgm_cli.render.render_error", lambda *_: raising(error)(None))
    outcome = csgm("calibrate --format json")
    assert outcome.status == status
    assert outcome.stderr.startswith("error[bug]" if status == 70 else "error[too-large]")
    assert "Traceback" not in outcome.stderr


def test_exit_codes_are_those_of_the_design():
    """The table of exit codes, as users script against it."""
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "CLAIM_FAILED": 1,
        "USAGE": 2,
        "NO_ANSWER": 3,
        "IO": 4,
        "BUG": 70,
        "INTERRUPTED": 130,
        "CLOSED_PIPE": 141,
    }
    for error in (UsageError, NoAnswerError, StorageError, CsgmError):
        assert error.exit_status in set(ExitCode)


def test_no_click_exception_becomes_a_failed_claim():
    """Every exception class of click maps to a status other than 1, which click itself would use."""
    ctx = click.Context(click.Command("x"))
    errors = [
        click.ClickException("m"),
        click.UsageError("m", ctx),
        click.BadParameter("m", ctx),
        click.MissingParameter("m", ctx),
        click.NoSuchOption("--x", ctx=ctx),
        click.BadOptionUsage("--x", "m", ctx),
        click.BadArgumentUsage("m", ctx),
        click.exceptions.NoSuchCommand("x", ctx=ctx),
        click.exceptions.NoArgsIsHelpError(ctx),
        click.FileError("f"),
    ]
    assert {type(as_csgm_error(error)).exit_status for error in errors} == {2, 4}


def test_no_command(csgm):
    """Without a command the help goes to stderr, with exit code 2."""
    outcome = csgm("")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("Usage: csgm")


def test_no_command_in_json_mode(csgm, monkeypatch):
    """Where the environment asks for JSON, a missing command is an error object like any other."""
    monkeypatch.setenv("CSGM_FORMAT", "json")
    outcome = csgm("")
    assert (outcome.status, outcome.document["error"]["slug"]) == (2, "missing-command")


@pytest.mark.parametrize("line", ["--help", "-h", "--version", "calibrate --help", "plan -h"])
def test_help_and_version(csgm, line):
    """Help and version are results: stdout, exit code 0."""
    outcome = csgm(line)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert "csgm" in outcome.stdout


def test_entry_point(place):
    """The console script leaves the interpreter with main's exit code."""
    done = subprocess.run(
        [sys.executable, "-c", "from csgm_cli.cli import entry_point; entry_point()", "nonsense"],
        env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])},
        check=False,
    )
    assert done.returncode == 2


def shell(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a bash script in which ``csgm`` is this package's program."""
    csgm = f'csgm() {{ "{sys.executable}" -m csgm_cli "$@"; }}\n'
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CSGM_")}
    environment["PYTHONPATH"] = str(Path(cli.__file__).parents[2])
    return subprocess.run(
        ["bash", "-c", csgm + script],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("line", [CALIBRATE, "--help", "completion zsh", f"{CALIBRATE} --format json"])
def test_closed_pipe(place, line):
    """A reader that goes away ends csgm quietly with 141, also when only the last flush notices."""
    done = shell(f"(sleep 0.5; csgm {line}; echo $? >&2) | true", place)
    assert done.stderr == "141\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
@pytest.mark.parametrize("line", [*EVERY_KIND_OF_OUTPUT, f"{CALIBRATE} --output /dev/full"])
def test_full_disk(place, line):
    """What cannot be written is an IO error, with one message and no complaint of the interpreter."""
    done = shell(f"csgm {line} > /dev/full", place)
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error[cannot-write]: ")
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize("line", EVERY_KIND_OF_OUTPUT)
def test_no_stdout(place, line):
    """Where stdout is closed, whatever was asked for is lost, and that is an error."""
    done = shell(f"csgm {line} >&-", place)
    assert (done.returncode, done.stderr.split(":")[0]) == (4, "error[cannot-write]")


def test_completion_to_a_full_disk(place):
    """A shell's question is answered the way results are written."""
    asked = "export _CSGM_COMPLETE=bash_complete COMP_WORDS='csgm cal' COMP_CWORD=1\n"
    assert shell(f"{asked} csgm", place).stdout == "plain,calibrate\n"
    assert shell(f"{asked} csgm > /dev/full", place).returncode == 4


@pytest.mark.parametrize(
    ("instruction", "words", "word"),
    [
        ("tcsh_complete", "csgm cal", "1"),
        ("bash", "csgm cal", "1"),
        ("bash_nonsense", "csgm cal", "1"),
        ("bash_complete", "csgm cal", None),
        ("bash_complete", "csgm cal", "one"),
        ("zsh_complete", None, "1"),
    ],
)
def test_wrong_request_for_completion(csgm, monkeypatch, instruction, words, word):
    """Variables that no shell would set are a usage error: not a bug, and not exit code 1."""
    given = {"_CSGM_COMPLETE": instruction, "COMP_WORDS": words, "COMP_CWORD": word}
    for name, value in given.items():
        if value is not None:
            monkeypatch.setenv(name, value)
    outcome = csgm("")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[completion-request]: ")


@pytest.mark.parametrize(
    "flags", [["-r", "--rounds"], ["--rounds", "-r"], ["--rounds"], ["-r", "--rounds", "--round"]]
)
def test_a_missing_option_is_named_by_its_longest_flag(flags):
    """Whatever the order in which its flags are declared."""
    error = as_csgm_error(click.MissingParameter(param=click.Option([*flags, "rounds"])))
    assert (error.slug, error.message) == ("missing-option", "--rounds is required")


def test_a_missing_argument_is_named_as_the_help_names_it():
    """By the word that stands for it in the usage line; one that click does not know has no name."""
    error = as_csgm_error(click.MissingParameter(param=click.Argument(["result"], metavar="FILE")))
    assert error.message == "FILE is required"
    assert as_csgm_error(click.MissingParameter()).message == "an argument is required"


def test_incomplete_installation(place):
    """Without its libraries csgm says so in one line, and not by the exit code of a failed claim."""
    package = str(Path(cli.__file__).parents[2])
    source = (
        f"import sys; sys.path.insert(0, {package!r}); from csgm_cli.cli import entry_point; entry_point()"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr == "error[bug]: csgm is not installed completely: No module named 'click'\n"


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (f"csgm {CALIBRATE} >&-", 4),
        ("csgm calibrate --format json >&-", 2),
        ("csgm calibrate 2>&-", 2),
        ("csgm calibrate 2> /dev/full", 2),
        ("csgm calibrate --format json > /dev/full", 2),
    ],
)
def test_lost_streams(place, script, status):
    """A stream that is closed or full never turns one exit code into another, least of all into 1."""
    done = shell(script, place)
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_a_waiting_process(place):
    """An interrupt while csgm waits for the rest of its input: exit code 130, one line, nothing on stdout."""
    os.mkfifo(place / "pipe")
    pipe = os.open(place / "pipe", os.O_RDWR)  # a writer from the start, who never finishes
    os.write(pipe, b"{")
    with subprocess.Popen(
        [*PROGRAM, "account", "--from", "pipe"],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: not select.select([pipe], [], [], 0)[0], process)  # csgm has read what there is
        process.send_signal(signal.SIGINT)
        assert end_of(process) == 130
        assert (process.stdout.read(), process.stderr.read()) == ("", "interrupted\n")
    os.close(pipe)
