"""Streams and colour."""

import io
import sys

import pytest

from csgm_cli.cli import console
from csgm_cli.errors import StorageError, UsageError


class Stream(io.StringIO):
    """A stream that is a terminal or not, and knows few characters."""

    def __init__(self, *, terminal: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self.terminal = terminal
        self.characters = encoding

    def isatty(self) -> bool:
        return self.terminal

    @property
    def encoding(self) -> str:
        return self.characters

    def write(self, text: str) -> int:
        text.encode(self.characters)
        return super().write(text)


@pytest.mark.parametrize(
    ("environment", "terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "0"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": ""}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
    ],
)
def test_colour(place, monkeypatch, environment, terminal, coloured):
    """NO_COLOR beats FORCE_COLOR, which beats what the stream is; empty means unset."""
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert console.use_colour(Stream(terminal=terminal)) is coloured


def test_streams_are_coloured_separately(place, monkeypatch):
    """A piped stdout says nothing about stderr, and the other way round."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Stream(terminal=False))
    monkeypatch.setattr(sys, "stderr", Stream(terminal=True))
    console.error(UsageError("slug", "message", "hint"))
    assert sys.stderr.getvalue() == "\x1b[31merror[slug]\x1b[0m: message\n  try: hint\n"
    assert console.terminal() is None
    monkeypatch.setattr(sys, "stdout", Stream(terminal=True))
    monkeypatch.setattr(sys, "stderr", Stream(terminal=False))
    console.warning("slug", "message")
    assert sys.stderr.getvalue() == "warning[slug]: message\n"
    terminal = console.terminal()
    assert (terminal.width, terminal.colour) == (80, True)


def test_characters_that_a_stream_lacks(monkeypatch):
    """A message with characters that the terminal cannot show is shown with escapes, not lost."""
    monkeypatch.setattr(sys, "stdout", Stream(terminal=False, encoding="ascii"))
    console.write("a\u20acb\n")
    assert sys.stdout.getvalue() == "a\\u20acb\n"


def test_no_stdout(monkeypatch):
    """A result that has nowhere to go is an IO error; a note that has nowhere to go is dropped."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(StorageError):
        console.write("x")
    console.note("x")
    console.abandon_unless_flushed()
    assert console.terminal() is None


def test_text_for_a_terminal(csgm, monkeypatch):
    """On a terminal the words and numbers are those of the piped text, and lines fit the width."""
    line = "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000"
    piped = csgm(line).stdout
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    seen = csgm(line).stdout
    assert seen.split() == piped.split()
    assert max(map(len, seen.splitlines())) <= 80
    assert "\x1b" not in seen


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = [100.0]
    monkeypatch.setattr(console, "monotonic", lambda: now[0])
    return now


def shown_progress(monkeypatch, clock, seconds, *, terminal=True, quiet=False):
    """What stderr has of ten steps that take ``seconds`` each."""
    stream = Stream(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    with console.progress(10, "points", quiet=quiet) as advance:
        for done in range(1, 11):
            clock[0] += seconds
            advance(done)
    return stream.getvalue()


def test_progress(monkeypatch, clock):
    """After a second the line shows how many are done, and it is gone at the end."""
    said = shown_progress(monkeypatch, clock, 0.3)
    assert said.startswith("\r4 of 10 points, 40 %\x1b[K\r")
    assert "10 of 10 points, 100 %" in said
    assert said.endswith("\r\x1b[K")  # at the start of the line, which is cleared
    assert "\n" not in said


def test_progress_now_and_then(monkeypatch, clock):
    """Many fast steps do not flood the terminal."""
    assert shown_progress(monkeypatch, clock, 0.06 + 1.0).count("points") == 10
    assert shown_progress(monkeypatch, clock, 0.14).count("points") == 3
    assert shown_progress(monkeypatch, clock, 0.05) == ""


@pytest.mark.parametrize("how", [{"terminal": False}, {"quiet": True}])
def test_no_progress(monkeypatch, clock, how):
    """Nothing is shown to a file or a pipe, or where rows go to the same terminal."""
    assert shown_progress(monkeypatch, clock, 5.0, **how) == ""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_elapsed_time_only_at_a_terminal(monkeypatch, capsys, is_terminal):
    """The stderr of a script is the same every time."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    console.elapsed("solved in 1 s")
    assert capsys.readouterr().err == ("solved in 1 s\n" if is_terminal else "")
