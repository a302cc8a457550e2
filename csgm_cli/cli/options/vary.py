"""The grammar of ``--vary``: ``OPTION=a,b,c``, ``OPTION=LO:HI:N`` or ``OPTION=LO:HI:Nlog``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from csgm_cli.cli.options.parameter_types import VARIABLE, Number
from csgm_cli.cli.options.sources import flag_of, source_of
from csgm_cli.errors import UsageError, shown
from csgm_cli.hints import did_you_mean
from csgm_cli.ranges import EPSILON_OR_ZERO, current_name
from csgm_cli.storage.json_text import first_repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Most values of one range; a whole sweep has a limit of its own.
_MOST_VALUES = 100_000
_COUNT = re.compile(
    r"(\d{1,9}|\d{1,3}(?:_\d{3}){1,2}|\d{1,9}(?:\.\d+)?e\+?\d)(log)?", re.ASCII | re.IGNORECASE
)
#: Ranges as other tools write them.
_DOTS = r"([\d.e+-]*?\d)(?:\.{2,3}|-| to )(\d[\d.e+-]*)"
_HINT = "for example --vary gamma=0.001:0.5:20log or --vary norm-ratio=10,30,100"


@dataclass(frozen=True)
class Varied:
    """The values that the option called ``name`` takes, in the order asked for, each once."""

    name: str
    values: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.name.replace('_', '-')}={','.join(map(str, self.values))}"


class Vary(click.ParamType[Varied]):
    """An option of calibrate or account, and its values."""

    name = "vary"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Varied:
        """Return the values; ``UsageError`` names the option, the part that is wrong and what is allowed."""
        if isinstance(value, Varied):
            return value
        label = source_of(ctx, param).label
        option, equals, text = str(value).partition("=")
        name = current_name(option.strip())
        if not equals:
            raise UsageError("bad-vary", f"{label} must be OPTION=VALUES, got {shown(value)}", _HINT)
        if name not in VARIABLE:
            options = [known.replace("_", "-") for known in VARIABLE]
            meant = did_you_mean(option.strip().replace("_", "-"), options)
            raise UsageError(
                "bad-vary", f"{label} cannot vary {shown(option)}{meant}", f"one of {', '.join(options)}"
            )
        return Varied(name, _values(text, number_of(name), f"{label} {name.replace('_', '-')}"))

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Split the variable at white space: commas belong to the values."""
        return rv.split()


def number_of(name: str) -> Number:
    """Return the type of a varied option; account takes an epsilon of 0, too."""
    return Number(name, EPSILON_OR_ZERO if name == "epsilon" else None)


def varied_label(name: str) -> str:
    """Return how messages call a varied option."""
    return f"--vary {flag_of(name)[2:]}"


def _values(text: str, number: Number, label: str) -> tuple[float, ...]:
    if ends := re.fullmatch(_DOTS, text):
        hint = f"N values from LO to HI: {ends[1].strip()}:{ends[2].strip()}:N, or :Nlog for equal ratios"
        raise UsageError("bad-vary", f"{label} must be a list or LO:HI:N, got {shown(text)}", hint)
    values = _range(text, number, label) if ":" in text else _list(text, number, label)
    if (twice := first_repeat(values)) is not None:
        raise UsageError("bad-vary", f"{label} has the value {twice!r} twice")
    return values


def _list(text: str, number: Number, label: str) -> tuple[float, ...]:
    return tuple(number.read(part, label) for part in text.split(","))


def _range(text: str, number: Number, label: str) -> tuple[float, ...]:
    """Both ends exactly as given; a count is rounded to whole numbers, and one that repeats is left out."""
    low, _, rest = text.partition(":")
    high, _, size = rest.partition(":")
    matched = _COUNT.fullmatch(size.strip())
    if matched is None:
        raise UsageError(
            "bad-vary", f"{label} must be a list or LO:HI:N or LO:HI:Nlog, got {shown(text)}", _HINT
        )
    number_of_values, log = float(matched[1].replace("_", "")), bool(matched[2])
    count = int(number_of_values)
    if count != number_of_values or not 2 <= count <= _MOST_VALUES:
        raise UsageError("bad-vary", f"{label} must have 2 to {_MOST_VALUES} values, got {matched[1]}")
    ends = (number.read(low, label), number.read(high, label))
    if log and min(ends) <= 0.0:
        raise UsageError("bad-vary", f"{label} needs ends above 0 for equal ratios, got {shown(text)}")
    inner = _between(*ends, count, log=log)
    if number.allowed.integer:
        return tuple(dict.fromkeys(map(round, (ends[0], *inner, ends[1]))))
    return (ends[0], *inner, ends[1])


def _between(low: float, high: float, count: int, *, log: bool) -> list[float]:
    """The values between the ends, rounded once: 0.1:0.5:5 has 0.3, and 1:1000:4log has 10."""
    from decimal import Context, Decimal

    context = Context(prec=30)
    ends = [Decimal(repr(end)) for end in (low, high)]
    start, stop = [context.ln(end) for end in ends] if log else ends
    found = []
    for i in range(1, count - 1):
        rise = context.divide(context.multiply(context.subtract(stop, start), Decimal(i)), Decimal(count - 1))
        value = context.add(start, rise)
        found.append(float(context.exp(value) if log else value))
    return found
