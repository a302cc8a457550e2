"""How a result shows itself in a Python session and in a notebook (standard library only)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum


def at_least(number: float | None) -> str:
    """``number`` with six digits, rounded up, for noise and for what is spent; ``-`` for None."""
    from csgm_cli.rounding import round_up  # few programs look at a result

    return _finite(number) or round_up(float(number or 0.0))


def at_most(number: float | None) -> str:
    """``number`` with six digits, rounded down, for lower bounds and for what remains; ``-`` for None."""
    from csgm_cli.rounding import round_down

    return _finite(number) or round_down(float(number or 0.0))


def _finite(number: float | None) -> str:
    if number is None:
        return "-"
    return "" if math.isfinite(number) else str(number)


class Displayed:
    """A mixin: one line for ``repr``, and a table for notebooks, of the numbers that matter.

    A class lists them, rounded to the safe side, in ``_shown``, and what only the table has in ``_details``.
    """

    def _shown(self) -> Mapping[str, object]:
        raise NotImplementedError

    def _details(self) -> Mapping[str, object]:
        return {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {' '.join(_words(self._shown()))}>"

    def _repr_html_(self) -> str:
        rows = _rows({**self._shown(), **self._details()}.items())
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"


def _words(shown: Mapping[str, object]) -> list[str]:
    """``name=text``, in quotes where the text has spaces of its own or anything that is not printable."""
    plain = ((name, _text(value)) for name, value in shown.items())
    return [f"{name}={text if _is_word(text) else repr(text)}" for name, text in plain]


def _is_word(text: str) -> bool:
    return text.isprintable() and " " not in text and text != ""


def _text(value: object) -> str:
    return str(value.value) if isinstance(value, Enum) else str(value)


def _rows(shown: Iterable[tuple[str, object]]) -> str:
    from html import escape

    cells = ((escape(name), escape(_text(value))) for name, value in shown)
    return "".join(f"<tr><th>{name}</th><td>{text}</td></tr>" for name, text in cells)
