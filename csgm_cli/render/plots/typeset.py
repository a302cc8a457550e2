"""The words and numbers of a figure in matplotlib's mathematical notation."""

from __future__ import annotations

import re
import textwrap

#: Longer names first: a name may contain another one.
_SYMBOLS = {
    "L2 clip norm squared": r"$\Delta_2^2$",
    "L2 clip norm": r"$\Delta_2$",
    "L-inf clip norm": r"$\Delta_\infty$",
    "l2 norm": r"$\Delta_2$",
    "linf norm": r"$\Delta_\infty$",
    "epsilon": r"$\varepsilon$",
    "delta": r"$\delta$",
    "gamma": r"$\gamma$",
    "sigma": r"$\sigma$",
}
_SYMBOL = re.compile(rf"\b(?:the )?({'|'.join(_SYMBOLS)})\b( (?=\d))?")
#: An integer with trailing zeros, or a number with an exponent.
_POWER = re.compile(r"(?<![\w.-])(\d+(?:\.\d+)?)e([+-]?\d+)(?![\w.])|(?<![\w.-])([1-9])(0{5,})(?![\w.])")


def typeset(text: str) -> str:
    """Return ``text`` with Greek symbols and powers of ten: "delta 1e-8" has both.

    A symbol and the number after it get an equals sign between them.
    """
    return _POWER.sub(_power, _SYMBOL.sub(_symbol, text.replace("$", r"\$")))


def typeset_lines(text: str, columns: int) -> str:
    """`typeset` in lines of about ``columns`` characters, broken after commas.

    matplotlib's own wrapping would parse every beginning of every line, which takes seconds.
    """
    parts = text.replace(" ", "\N{NO-BREAK SPACE}").replace(",\N{NO-BREAK SPACE}", ", ")
    lines = textwrap.wrap(parts, columns)
    return "\n".join(typeset(line.replace("\N{NO-BREAK SPACE}", " ")) for line in lines)


def _symbol(match: re.Match[str]) -> str:
    return _SYMBOLS[match[1]] + (" = " if match[2] else "")


def _power(match: re.Match[str]) -> str:
    mantissa, exponent = match[1] or match[3], int(match[2] or len(match[4]))
    factor = "" if mantissa == "1" else rf"{mantissa}\times"
    return f"${factor}10^{{{exponent}}}$"
