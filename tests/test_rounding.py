"""Directed rounding: the side, the distance, and the form of what is shown."""

import math
import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from csgm_cli.rounding import exact, round_down, round_up

FINITE = st.floats(allow_nan=False, allow_infinity=False)
DIGITS = st.integers(1, 17)


def last_place(shown, digits):
    """One unit of the last of ``digits`` significant digits of a shown number."""
    return Decimal(10) ** (Decimal(shown).adjusted() - digits + 1)


@given(FINITE, DIGITS)
@example(1e-8, 6)  # the binary number is above 1e-8, what the user wrote is not
@example(0.1 + 0.2, 6)
@example(1.7976931348623157e308, 3)
@example(5e-324, 6)
def test_round_up(x, digits):
    """The number shown, exactly or read back, is never below, and is within one unit of the last place."""
    shown = round_up(x, digits)
    assert float(shown) >= x
    # Where the text reads back as x itself, it is x; everywhere else it is above the binary number.
    assert Decimal(shown) >= Decimal(x) or float(shown) == x
    assert Decimal(shown) - Decimal(repr(x)) < last_place(repr(x), digits)
    assert len(Decimal(shown).normalize().as_tuple().digits) <= digits


@given(FINITE, DIGITS)
def test_round_down_mirrors_round_up(x, digits):
    """Rounding down is rounding the opposite number up."""
    up = round_up(-x, digits)
    assert round_down(x, digits) == (up.removeprefix("-") if x >= 0 else f"-{up}")
    assert float(round_down(x, digits)) <= x


@given(FINITE)
def test_exact(x):
    """A given value is shown so that it reads back as the same float."""
    assert float(exact(x)) == x


@given(st.floats(1e-300, 1e300), DIGITS)
def test_form(x, digits):
    """Plain between 1e-4 and the digits shown, scientific elsewhere, never with idle zeros."""
    for shown in (round_up(x, digits), round_down(x, digits)):
        magnitude = Decimal(shown)
        if Decimal("1e-4") <= magnitude < Decimal(10) ** digits:
            assert re.fullmatch(r"0|[1-9]\d*|\d+\.\d*[1-9]", shown)
        else:
            assert re.fullmatch(r"[1-9](\.\d*[1-9])?e[+-][1-9]\d*", shown)


@pytest.mark.parametrize(
    ("x", "up", "down"),
    [
        (0.0121904123, "0.0121905", "0.0121904"),
        (4.99999999999, "5", "4.99999"),
        (5.0, "5", "5"),
        (5.000000000000001, "5.00001", "5"),
        (1e-8, "1e-8", "1e-8"),
        (1.00000000001e-8, "1.00001e-8", "1e-8"),
        (0.1, "0.1", "0.1"),
        (320000.0, "320000", "320000"),
        (1234567.0, "1.23457e+6", "1.23456e+6"),
        (0.00012, "0.00012", "0.00012"),
        (0.000012, "1.2e-5", "1.2e-5"),
        (-1.2345678, "-1.23456", "-1.23457"),
        (0.0, "0", "0"),
        (-0.0, "0", "0"),
        (1000000, "1e+6", "1e+6"),
    ],
)
def test_six_digits_by_hand(x, up, down):
    """Values worked out by hand, among them the ones that round to the next decade."""
    assert (round_up(x), round_down(x)) == (up, down)


@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("show", [round_up, round_down, exact])
def test_no_number(x, show):
    """NaN and infinity are never shown as a result."""
    with pytest.raises(ValueError, match="cannot show"):
        show(x)


@pytest.mark.parametrize("digits", [0, 18, -1])
def test_digits_out_of_range(digits):
    """Only 1 to 17 significant digits make sense for a float."""
    with pytest.raises(ValueError, match=f"with {digits} digits"):
        round_up(1.0, digits)
