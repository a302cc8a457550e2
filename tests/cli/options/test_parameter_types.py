"""Parameter types: what they accept, exactly."""

import click
import pytest

from csgm_cli.cli.options.parameter_types import Choice, Number, Switch
from csgm_cli.errors import UsageError
from csgm_cli.ranges import RANGES, Range


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("1e6", 1_000_000),
        ("1E+3", 1000),
        ("1_000_000", 1_000_000),
        ("12_345", 12_345),
        ("5.0", 5),
        (" 7 ", 7),
        (".2e1", 2),
        ("1000000000", 10**9),
        (1e6, 1_000_000),
        (3, 3),
    ],
)
def test_count(text, number):
    """A count may be written as 1e6 or 1_000_000, and is an int."""
    found = Number("rounds").convert(text, None, None)
    assert found == number
    assert isinstance(found, int)


@pytest.mark.parametrize(
    "text", ["1.5", "1_0", "_1", "1_000_", "1,000", "1e-1", "one", "", "0b1", "٣", True, None, [1]]
)
def test_no_count(text):
    """Everything else is refused, look-alikes included."""
    with pytest.raises(UsageError):
        Number("rounds").read(text, "rounds")


@pytest.mark.parametrize("quantity", RANGES)
def test_ranges_are_closed(quantity):
    """Both ends of every range are allowed (delta's upper end is not), and nothing beyond them."""
    allowed = RANGES[quantity]
    kind = Number(quantity)
    assert kind.read(repr(allowed.low), "x") == allowed.low
    for outside in (
        allowed.low * (1 - 1e-9) - 1e-310,
        allowed.high * (1 + 1e-9) if not allowed.open_high else allowed.high,
    ):
        with pytest.raises(UsageError) as error:
            kind.read(repr(outside), "x")
        assert str(allowed) in error.value.message
    if not allowed.open_high:
        assert kind.read(repr(allowed.high), "x") == allowed.high


def test_own_range():
    """A command may allow more than usual: account takes an epsilon of zero, and it is not negative."""
    kind = Number("epsilon", Range(0.0, 1e4))
    assert str(kind.read("-0", "x")) == "0.0"
    with pytest.raises(UsageError):
        Number("epsilon").read("0", "x")


def test_choice():
    """A choice is exact, and close words are suggested."""
    kind = Choice(["rdp", "paper"])
    assert kind.convert("rdp", None, None) == "rdp"
    for wrong, said in (("RDP", "; did you mean rdp?"), ("papr", "; did you mean paper?"), (3, "")):
        with pytest.raises(UsageError) as error:
            kind.read(wrong, "x")
        assert error.value.message == f"x must be one of rdp, paper, got {wrong!r}{said}"


@pytest.mark.parametrize(
    ("text", "truth"), [("1", True), ("Yes", True), ("off", False), ("false", False), (True, True)]
)
def test_switch(text, truth):
    """A switch from the environment understands the usual words."""
    assert Switch().convert(text, None, None) is truth


@pytest.mark.parametrize("text", ["2", "maybe", 1.0, None])
def test_no_switch(text):
    """Anything else is refused rather than taken for true or false."""
    with pytest.raises(UsageError):
        Switch().convert(text, None, None)


def test_types_are_clicks():
    """Completion relies on click knowing the types."""
    assert isinstance(Choice(["a"]), click.Choice)
    assert isinstance(Switch(), click.types.BoolParamType)
