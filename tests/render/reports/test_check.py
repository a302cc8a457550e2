"""What people and machines read of a check: rounded to the safe side, escaped, at the right line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.errors import UsageError, printable
from csgm_cli.render import CHECK_FORMATS, FORMATS, render
from csgm_cli.render.formats import as_github
from csgm_cli.render.reports.check import share_text
from csgm_cli.render.reports.report import report


def rows(table):
    """The rows of a table as dictionaries."""
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def test_rounded_to_the_safe_side(documents):
    """Spent and needed up, remaining down, changes up; no limit is shown as met by rounding."""
    content = report(documents["check"])
    within, above, empty = rows(content.table)
    assert (within["spent"], within["remaining"], within["result"]) == ("3", "9.99999e-8", "holds")
    assert (above["spent"], above["remaining"], above["result"]) == ("3.00001", "-1e-7", "EXCEEDED")
    assert (empty["spent"], empty["remaining"], empty["result"]) == ("0", "1", "holds")
    releases, moved, changes = content.further
    assert rows(releases)[3]["needs noise mult."] == "0.0123457"
    assert rows(moved)[0]["by tool"] == "+0.0123456"
    assert [row["spends"] for row in rows(changes)] == ["+1.23457", "-1.23456", "0"]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100 %"),
        (0.0, "0 %"),
        (0.99999, ">99.9 %"),
        (1e-9, "<0.1 %"),
        (0.5, "50.0 %"),
        (0.0012, "0.1 %"),
    ],
)
def test_shares_are_all_or_nothing_only_if_they_are(share, text):
    """100 % and 0 % are exact."""
    assert share_text(share) == text


@given(st.text(), st.text(min_size=1))
def test_github_escapes_come_back(message, title):
    """Whatever the text, a command is one line, and the runner's unescaping gives the printable text back."""
    line = as_github._command("error", {"title": title}, message)
    assert "\n" not in line
    assert "\r" not in line
    listed, _, said = line.removeprefix("::error title=").partition("::")
    assert not set(listed) & set(":,")
    for code, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        listed, said = (
            listed.replace(code, character),
            said.replace(code, character) if character not in ":," else said,
        )
    assert (listed, said) == (printable(title), printable(message))


@pytest.mark.parametrize("form", sorted(set(CHECK_FORMATS) - set(FORMATS)))
def test_formats_of_check_alone(documents, form):
    """No other document has these formats."""
    assert render(documents["check"], form)
    with pytest.raises(UsageError, match="is for csgm check"):
        render(documents["calibrate"], form)
