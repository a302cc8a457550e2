"""Parameter types; each rejects a wrong value with one message that names its source."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click

from csgm_cli.cli.options.sources import source_of
from csgm_cli.errors import UsageError, shown
from csgm_cli.ranges import RANGES, Range, swapped, underflows

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The numeric options of calibrate and account, which can be varied.
VARIABLE = (
    "epsilon", "delta", "noise_multiplier", "sigma", "gamma", "compression", "norm_ratio", "linf_norm",
    "l2_norm", "dim", "cohort_size", "rounds", "sampling_rate", "population_size", "training_rounds",
    "epochs", "participations", "min_separation", "value_bits",
)  # fmt: skip
#: Smallest and largest width or height of a plot.
PLOT_INCHES = (2, 40)
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_GROUPED = re.compile(r"\d{1,3}(_\d{3})+", re.ASCII)
#: Common spellings of numbers that are rejected; compiled on error only.
_PERCENT = r"(?a)(\d+(?:\.\d+)?) ?%"
_SUFFIXED = r"(?ai)(\d+(?:\.\d+)?) ?([kmgbt])"
_COMMAS = r"(?a)[1-9]\d{0,2}(,\d{3})+"
_UNDERSCORES = r"(?a)\d+(_\d+)+(\.\d+)?"
_DECIMAL_COMMA = r"(?a)\d+,\d+"
_FRACTION = r"(?a)(\d+(?:\.\d+)?) ?/ ?(\d+(?:\.\d+)?)"
_POWER = r"(?a)(?:(\d+(?:\.\d+)?) ?[*x] ?)?10(?:\^|\*\*)([+-]?\d+)"
_POWERS = {"k": 3, "m": 6, "g": 9, "b": 9, "t": 12}


def _rewritten(text: str) -> str:
    """Return a number in a common spelling (4M, 1/20, 10^-7) as csgm reads it; empty for other text."""
    text = text.strip()
    if suffixed := re.fullmatch(_SUFFIXED, text):
        return f"{suffixed[1]}e{_POWERS[suffixed[2].lower()]}"
    if percent := re.fullmatch(_PERCENT, text):
        from decimal import Decimal

        return f"{Decimal(percent[1]).scaleb(-2).normalize():f}"
    if power := re.fullmatch(_POWER, text):
        return f"{power[1] or 1}e{power[2]}"
    fraction = re.fullmatch(_FRACTION, text)
    if fraction and (divisor := float(fraction[2])) > 0:
        return f"{float(fraction[1]) / divisor:.15g}"
    if re.fullmatch(_COMMAS, text) or re.fullmatch(_UNDERSCORES, text):
        return re.sub("[,_]", "", text)
    return text.replace(",", ".") if re.fullmatch(_DECIMAL_COMMA, text) else ""


def swapped_as_written(epsilon: object, delta: object) -> str:
    """Return the hint that two numbers seem to be swapped, or nothing, before they are read."""
    loss, failure = _number(epsilon, grouped=False), _number(delta, grouped=False)
    return "" if loss is None or failure is None else swapped(loss, failure)


def _is_list(text: str) -> bool:
    """Say whether numbers stand in one text; 0,05 and 4,000,000 are one number."""
    parts = text.replace(",", " ").replace(";", " ").split()
    if len(parts) < 2 or re.fullmatch(_COMMAS, text.strip()) or re.fullmatch(r"(?a)0,\d+", text.strip()):
        return False
    return all(_FLOAT.fullmatch(part) for part in parts)


def unquoted(value: object) -> str:
    """Return the hint that a number of a TOML file stands in quotes; empty where it is none."""
    is_number = isinstance(value, str) and _number(value, grouped=True) is not None
    return f"without quotes: {value}" if is_number else ""


def several_values(name: str, values: str) -> str:
    """Return how to ask for several values of the option called ``name``; empty where nothing takes them."""
    option = name.replace("_", "-")
    return f"for several values: csgm sweep --vary {option}={values}" if name in VARIABLE else ""


def _hinting_at_sweep(error: UsageError, param: click.Parameter | None, value: object) -> UsageError:
    """Return the error of a number with the hint that a list was written where one number is wanted."""
    if param is None or not (isinstance(value, str) and _is_list(value)):
        return error
    values = ",".join(value.replace(",", " ").replace(";", " ").split())
    hints = filter(None, (error.hint, several_values(param.name or "", values)))
    return error.reworded(error.message, "; ".join(hints))


def _probably_meant(quantity: str, number: float) -> str:
    from csgm_cli.hints import probably_meant  # few questions need it

    return probably_meant(quantity, number)


class Number(click.ParamType[float]):
    """A finite number in the allowed range of ``quantity``; a count also as 1e6 or 1_000_000."""

    def __init__(self, quantity: str, allowed: Range | None = None) -> None:
        self.quantity = quantity
        self.allowed = allowed or RANGES[quantity]
        self.name = "count" if self.allowed.integer else "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; ``UsageError`` names its source, the value and the range."""
        label = source_of(ctx, param).label
        if param is not None and param.multiple and isinstance(value, str) and _is_list(value):
            message = f"{label} takes one number each time, got {shown(value)}"
            raise UsageError("out-of-range", message, f"repeat {label}")
        try:
            return self.read(value, label)
        except UsageError as error:
            raise _hinting_at_sweep(error, param, value) from None

    def read(self, value: object, label: str) -> float:
        """Return ``value`` (text, or a number from a file) as a number, called ``label`` in an error."""
        number = _number(value, grouped=self.allowed.integer)
        if isinstance(value, str) and number is not None and underflows(value, number):
            what = f"{label} must be {self.allowed}, got {shown(value)}, which float64 cannot tell from 0"
            raise UsageError("out-of-range", what)
        if number is not None and number in self.allowed:
            return int(number) if self.allowed.integer else number + 0.0  # no negative zero
        hint = self._rewriting(str(value)) if number is None else _probably_meant(self.quantity, number)
        raise UsageError("out-of-range", f"{label} must be {self.allowed}, got {shown(value)}", hint)

    def _rewriting(self, text: str) -> str:
        number = _rewritten(text)
        return f"write it as {number}" if number and float(number) in self.allowed else ""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Split the variable of a repeatable option at commas and white space."""
        return rv.replace(",", " ").split()


class Choice(click.Choice[str]):
    """One of a few words, with a suggestion for a misspelt one."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word; ``UsageError`` names its source and the words allowed."""
        return self.read(value, source_of(ctx, param).label)

    def read(self, value: object, label: str) -> str:
        """Return ``value`` if it is one of the words; it is called ``label`` in an error."""
        if value in self.choices:
            return str(value)
        from csgm_cli.hints import did_you_mean

        message = f"{label} must be one of {', '.join(self.choices)}, got {shown(value)}"
        raise UsageError("unknown-choice", message + did_you_mean(str(value), self.choices))


class SamplingChoice(Choice):
    """A way to draw cohorts for which amplification is proven."""

    def read(self, value: object, label: str) -> str:
        """Return ``value`` if it is one of the words; it is called ``label`` in an error."""
        try:
            return super().read(value, label)
        except UsageError as error:
            from csgm_cli.hints import WITHOUT_AMPLIFICATION

            raise error.reworded(error.message, WITHOUT_AMPLIFICATION) from None


class StrategyChoice(Choice):
    """A strategy of factorization; ``streaming:N``, or another with buffers, with N in range."""

    def read(self, value: object, label: str) -> str:
        """Return ``value`` if it names a strategy; it is called ``label`` in an error."""
        word, colon, number = str(value).partition(":")
        has_buffers = f"{word}:N" in self.choices
        if has_buffers and colon and number != "N":
            return f"{word}:{Number('buffers').read(number, f'{label} {word}:N')}"
        if has_buffers and colon:
            raise UsageError("not-a-number", f"{label} {value} needs a number for N", f"{word}:4")
        return super().read(value, label)


class File(click.Path):
    """The path of a file; not looked at before it is opened, where a refusal has its own exit code."""

    def convert(self, value: str | os.PathLike[str], param: object, ctx: object) -> str:  # noqa: ARG002 - click's signature
        """Return the path as it was given."""
        return os.fspath(value)


class PlotSize(click.ParamType[str]):
    """The width and height of a plot in inches, as in ``6x4``."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the size as it was given; ``UsageError`` names its source and the allowed range."""
        parts = [_number(part, grouped=False) for part in str(value).lower().split("x")]
        low, high = PLOT_INCHES
        if len(parts) != 2 or not all(part is not None and low <= part <= high for part in parts):
            label = source_of(ctx, param).label
            message = f"{label} must be WIDTHxHEIGHT in inches, each in [{low}, {high}], got {shown(value)}"
            raise UsageError("out-of-range", message, "for example 6x4")
        return str(value)


class Switch(click.types.BoolParamType):
    """A flag; from the environment 1, true, yes, on and their opposites."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return the truth value; ``UsageError`` names its source."""
        truth = self.str_to_bool(value) if isinstance(value, str | bool) else None
        if truth is None:
            label = source_of(ctx, param).label
            raise UsageError("not-a-switch", f"{label} must be true or false, got {shown(value)}")
        return truth


def _number(value: object, *, grouped: bool) -> float | None:
    """Return ``value`` as a float; None where it is not a plain decimal number."""
    if isinstance(value, str):
        text = value.strip()
        if grouped and _GROUPED.fullmatch(text):
            text = text.replace("_", "")
        return float(text) if _FLOAT.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")
