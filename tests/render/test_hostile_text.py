"""Text from files reaches no format as a control character, a workflow command, a formula or a tag."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csgm_cli.errors import printable
from csgm_cli.render import CHECK_FORMATS, render, render_error
from csgm_cli.render.formats import as_csv, as_jsonl, as_markdown
from csgm_cli.render.plots.figure import Axis, Figure, Line, Panel
from csgm_cli.render.plots.text_chart import chart
from csgm_cli.render.terminal import Terminal

#: Keys whose strings come from files or from names of files.
FOREIGN = {
    "population", "release", "owner", "reason", "file", "since", "workload", "strategy", "was", "before",
    "after", "message", "csgm_version",
}  # fmt: skip
HOSTILE = [
    "\x1b[2J\x1b]0;title\x07", "a\nfailed: forged", "a\r::error::forged", "::error::forged",
    "  ::add-mask::a", "x##[error]forged", "\x9b31m\x7f", "a\u2028b\u202eb", "\udc80", "\t=1+1", "\ufffe",
]  # fmt: skip


def with_foreign(value, text, key=""):
    """The document with ``text`` in the place of every string that a file could have supplied."""
    if isinstance(value, dict):
        return {name: with_foreign(inner, text, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_foreign(inner, text, key) for inner in value]
    return text if isinstance(value, str) and key in FOREIGN else value


def check_safe(output, form):
    """Printable characters and line ends alone; commands to the runner only from format github."""
    assert all(character == "\n" or character.isprintable() for character in output)
    assert "##[" not in output or form == "json"
    for line in output.splitlines():
        assert form == "github" or not line.lstrip().startswith("::")
        if form == "github":
            assert re.match(r"::(error|notice|warning) (file=[^:,]*,line=\d+,)?title=[^:,]*::", line)


@pytest.mark.parametrize("form", [*CHECK_FORMATS, "terminal"])
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.sampled_from(HOSTILE) | st.text(min_size=1))
def test_no_format_lets_text_out(documents, form, text):
    document = with_foreign(documents["check"], text)
    if form == "terminal":
        check_safe(render(document, "text", terminal=Terminal(80, colour=False)), form)
        return
    output = render(document, form)
    check_safe(output, form)
    if form == "json":
        assert json.loads(output) == document
    if form == "junit":
        assert ET.fromstring(output).find("testsuite/testcase").get("name") == printable(text)
    if form == "github":
        assert len(output.splitlines()) == len(document["result"]["populations"]) + len(document["warnings"])


@pytest.mark.parametrize("form", ["json", "github", "junit"])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_error_lets_text_out(form, text):
    from csgm_cli.errors import Place, UsageError

    check_safe(render_error(UsageError("bad-name", text, text, Place(text, 3)), form), form)


@pytest.mark.parametrize("text", HOSTILE)
def test_json_lines_are_printable(text):
    line = as_jsonl.line({"strategy": text})
    assert line[:-1].isprintable()
    assert json.loads(line) == {"strategy": text}


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", r"'\t=1"),
        ("\r=1", r"'\r=1"),
        ("a=1", "a=1"),
        (-1.5, "-1.5"),
        (-1, "-1"),
        ([-1.5, "=1"], "-1.5;'=1"),
        (["=1", "b"], "'=1;b"),
        (None, ""),
        ("", ""),
    ],
)
def test_text_is_no_formula_in_csv(value, cell):
    """Text gets the apostrophe by which spreadsheets know it; numbers stay numbers."""
    assert next(csv.reader(io.StringIO(as_csv.line({"key": value, "end": 1})))) == [cell, "1"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("<img src=x>", r"\<img src=x>"),
        ("[x](javascript:y)", r"\[x](javascript:y)"),
        ("![x](y)", r"!\[x](y)"),
        ("`a`", r"\`a\`"),
        ("a\\|b", r"a\\\|b"),
        ("<0.1 %", "<0.1 %"),
    ],
)
def test_text_is_no_markup_in_markdown(text, escaped):
    assert as_markdown._line((text,)) == f"| {escaped} |"


@pytest.mark.parametrize("text", HOSTILE)
def test_captions_of_plots(text):
    axis = Axis("x", log=False)
    panel = Panel("", axis, axis, (Line("row", ((1.0, 1.0), (2.0, 3.0))),))
    check_safe(chart(Figure((panel,), text), 40), "text")
