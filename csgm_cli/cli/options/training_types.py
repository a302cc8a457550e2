"""Words with a number after a colon: the model and the partition of ``csgm simulate train``."""

from __future__ import annotations

import click

from csgm_cli.cli.options.parameter_types import Number
from csgm_cli.cli.options.sources import source_of
from csgm_cli.errors import UsageError, shown
from csgm_cli.ranges import Range


class NumberedWord(click.ParamType[str]):
    """``plain``, or ``word:NUMBER`` with the number in a range."""

    def __init__(self, name: str, plain: str, word: str, number: str, allowed: Range) -> None:
        self.name = name
        self._plain, self._word, self._form = plain, word, f"{word}:{number}"
        self._number = Number(word, allowed)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word as it was given; ``UsageError`` names its source and the forms allowed."""
        label = source_of(ctx, param).label
        self.read(value, label)
        return str(value)

    def read(self, value: object, label: str) -> float | None:
        """Return the number; None for the plain word."""
        word, colon, number = str(value).partition(":")
        if value == self._plain:
            return None
        if word != self._word or not colon:
            message = f"{label} must be {self._plain} or {self._form}, got {shown(value)}"
            raise UsageError("unknown-choice", message)
        return self._number.read(number, f"{self._form[len(word) + 1 :]} of {label} {self._form}")


PARTITION = NumberedWord("partition", "iid", "dirichlet", "A", Range(1e-3, 1e6))
MODEL = NumberedWord("model", "softmax", "mlp", "H", Range(1, 1e5, integer=True))
