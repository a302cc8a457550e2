"""Decimal display rounded to the safe side."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

#: Significant digits of displayed results.
DISPLAY_DIGITS = 6


def round_up(x: float, digits: int = DISPLAY_DIGITS) -> str:
    """Return ``x`` with at most ``digits`` significant digits, rounded towards +infinity.

    Read back as a float, the text is never below ``x`` and less than one unit of its last digit
    above. A float whose shortest decimal form is short enough is shown as that form: 1e-8 is
    "1e-8", although the binary number behind it is a little larger. ``ValueError`` unless ``x`` is
    finite and ``digits`` is in [1, 17].
    """
    return _shown(x, digits, ROUND_CEILING)


def round_down(x: float, digits: int = DISPLAY_DIGITS) -> str:
    """Return ``x`` rounded towards -infinity; otherwise as ``round_up``."""
    return _shown(x, digits, ROUND_FLOOR)


def exact(x: float) -> str:
    """Return the shortest text that reads back as ``x``: for a value that the user gave.

    ``ValueError`` unless ``x`` is finite.
    """
    return round_up(x, 17)


def _shown(x: float, digits: int, rounding: str) -> str:
    if not math.isfinite(x) or not 1 <= digits <= 17:
        raise ValueError(f"cannot show {x!r} with {digits} digits")
    if x == 0:
        return "0"  # also for -0.0
    # repr is the shortest decimal that reads back as x, so rounding it is rounding x, and reading
    # back is monotone: the side is kept.
    context = Context(prec=digits, rounding=rounding)
    return _written(context.create_decimal(repr(float(x))).normalize(context), digits)


def _written(number: Decimal, digits: int) -> str:
    """Plain where that takes few padding zeros, scientific elsewhere (the limits of ``%g``)."""
    plain = -4 <= number.adjusted() < digits
    return f"{number:f}" if plain else f"{number:e}"
