"""Terminal text: the plain text's words, wrapped and coloured, with every number whole."""

import re

import pytest

from csgm_cli.jobs.selftest import selftest
from csgm_cli.render import render
from csgm_cli.render.document import selftest_document
from csgm_cli.render.terminal import Terminal

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
WIDTHS = [1, 20, 40, 60, 80, 100, 200]
NAMES = ["calibrate", "calibrate-bare", "plan", "version"]
TABLES = ["account-curve", "compare", "selftest"]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost(documents, name, width, colour):
    """At any width the words and numbers are those of the plain text, in the same order, uncut."""
    text = render(documents[name], "text", terminal=Terminal(width, colour))
    if width >= 20:  # narrower than a word, a paragraph has to break words
        assert ESCAPE.sub("", text).split() == render(documents[name], "text").split()
    else:
        assert "".join(ESCAPE.sub("", text).split()) == "".join(render(documents[name], "text").split())


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("name", TABLES)
def test_columns_that_do_not_fit_are_left_out_whole(documents, name, width):
    """Every cell that is shown is a cell of the plain table, and the columns left out are named."""
    shown = render(documents[name], "text", terminal=Terminal(width, colour=False)).splitlines()
    plain = render(documents[name], "text").splitlines()
    end = shown.index("") if "" in shown else len(shown)
    table, left_out = shown[:end], ""
    if table[-1].startswith("not shown"):
        left_out = table.pop().partition(": ")[2]
    for line, whole in zip(table, plain, strict=False):
        assert set(re.split("  +", line.strip())) <= set(re.split("  +", whole.strip()))
    missing = set(re.split("  +", plain[0].strip())) - set(re.split("  +", table[0].strip()))
    assert missing == set(left_out.split(", ")) - {""}
    assert max(map(len, table)) <= width or len(missing) > 0


def test_every_report_fits_80_columns(documents):
    """Tables too: of every command, in every form that the golden outputs have."""
    reports = {name: document for name, document in documents.items() if name != "error"}
    for document in (*reports.values(), selftest_document(selftest())):
        text = render(document, "text", terminal=Terminal(80, colour=False))
        assert max(map(len, text.splitlines())) <= 80


def test_an_exceeded_limit_is_red(documents):
    documents["account"]["inputs"]["max_epsilon"] = 1.0
    text = render(documents["account"], "text", terminal=Terminal(80, colour=True))
    assert "\x1b[1;31mEXCEEDED" in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_facts_fit(documents, width):
    """Lines of facts and paragraphs wrap at the terminal's width."""
    text = render(documents["calibrate"], "text", terminal=Terminal(width, colour=False))
    assert max(map(len, text.splitlines())) <= width


def test_wide_terminal_has_the_plain_text(documents):
    """Where everything fits and there is no colour, a terminal gets the bytes of a pipe."""
    for name in (*NAMES, *TABLES):
        text = render(documents[name], "text", terminal=Terminal(200, colour=False))
        assert text == render(documents[name], "text")


def test_colour_is_decided_by_the_caller(documents, monkeypatch):
    """Escape codes appear exactly when asked for, whatever the environment says."""
    for variable, setting in (("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "10")):
        monkeypatch.setenv(variable, setting)
    assert "\x1b[1m0.0121905" in render(documents["calibrate"], "text", terminal=Terminal(80, colour=True))
    monkeypatch.delenv("NO_COLOR")
    for variable, setting in (("FORCE_COLOR", "1"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(variable, setting)
    assert "\x1b" not in render(documents["calibrate"], "text", terminal=Terminal(80, colour=False))


def test_markup_is_text(documents):
    """Square brackets and colons in a statement are shown, not interpreted."""
    documents["calibrate"]["result"]["statement"] = "[bold]in [0, 1][/bold] :smile: [eps]"
    text = render(documents["calibrate"], "text", terminal=Terminal(80, colour=True), statement=True)
    assert "[bold]in [0, 1][/bold] :smile: [eps]" in text


def test_other_formats_ignore_the_terminal(documents):
    """A terminal changes text alone: JSON, CSV and Markdown keep their bytes."""
    for form in ("json", "csv", "markdown"):
        assert render(documents["plan"], form, terminal=Terminal(40, colour=True)) == render(
            documents["plan"], form
        )
