"""What every error message has in common."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.errors import CsgmError, UsageError, one_line, shown


@given(st.text())
def test_messages_are_one_printable_line(text):
    """Whatever a message quotes, it can be printed; printable text stays as it is."""
    error = UsageError("slug", text, text)
    assert error.message.isprintable()
    assert str(error) == error.message == error.hint
    assert error.message == text or not text.isprintable()


@pytest.mark.parametrize(
    ("text", "line"), [("a\nb", r"a\nb"), ("\x1b[0m", r"\x1b[0m"), ("\udcff", r"\udcff"), ("é", "é")]
)
def test_what_is_escaped(text, line):
    """Line ends, controls and bytes that are no text are escaped, letters are not."""
    assert one_line(text) == line


def test_long_messages_keep_both_ends():
    """The beginning says what it is about, the end what is wrong."""
    message = CsgmError("slug", f"cannot write '{'x' * 5000}': it is full").message
    assert message.startswith("cannot write 'xxx")
    assert message.endswith("xxx': it is full")
    assert len(message) < 800
    assert CsgmError("slug", "x" * 1000).message == "x" * 1000


def test_quoted_values_are_cut():
    """A value is shown as Python writes it, up to a length."""
    assert shown("a\n") == r"'a\n'"
    assert shown("x" * 100) == "'" + "x" * 59 + "..."
    assert shown(10**5000) == "a number of thousands of digits"
