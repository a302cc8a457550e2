"""Ranges of numeric inputs, and checks of types and names (standard library only)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum


@dataclass(frozen=True)
class Range:
    """A closed interval of allowed values; ``open_high`` excludes the upper end."""

    low: float
    high: float
    open_high: bool = False
    integer: bool = False

    def __contains__(self, value: float) -> bool:
        if not math.isfinite(value) or (self.integer and value != math.floor(value)):
            return False
        return self.low <= value and (value < self.high if self.open_high else value <= self.high)

    def __str__(self) -> str:
        kind = "an integer" if self.integer else "a number"
        return f"{kind} in [{self.low:g}, {self.high:g}{')' if self.open_high else ']'}"


#: The allowed values of every numeric input, by the one name it has everywhere.
RANGES: dict[str, Range] = {
    "epsilon": Range(1e-6, 1e4),
    "delta": Range(1e-300, 1.0, open_high=True),
    "gamma": Range(1e-9, 1.0),
    "compression": Range(1.0, 1e9),
    "norm_ratio": Range(1.0, 1e6),
    "l2_norm": Range(1e-30, 1e30),
    "linf_norm": Range(1e-36, 1e30),
    "sigma": Range(1e-45, 1e48),
    "noise_multiplier": Range(1e-15, 1e18),
    "rounds": Range(1, 1e9, integer=True),
    "sampling_rate": Range(1e-9, 1.0),
    "epochs": Range(1, 1e9, integer=True),
    "dim": Range(1, 1e12, integer=True),
    "cohort_size": Range(1, 1e12, integer=True),
    "population_size": Range(1, 1e12, integer=True),
    "training_rounds": Range(1, 1e12, integer=True),
    "value_bits": Range(1, 64, integer=True),
    "T": Range(1, 1e8, integer=True),
    "participations": Range(1, 1e8, integer=True),
    "min_separation": Range(1, 1e8, integer=True),
    "bands": Range(1, 4096, integer=True),
    "sensitivity": Range(1e-15, 1e15),
    "momentum": Range(0.0, 1.0, open_high=True),
    "buffers": Range(1, 64, integer=True),
    "tolerance": Range(1e-13, 1.0),
    "max_epsilon": Range(0.0, 1e12),
    "max_mse_overhead": Range(0.0, 1e6),
    "max_noise_overhead": Range(0.0, 1e6),
    "jobs": Range(1, 256, integer=True),
    "seed": Range(0, 1e15, integer=True),
    "trials": Range(10, 1e7, integer=True),
    "local_steps": Range(1, 1e4, integer=True),
    "learning_rate": Range(1e-6, 1e6),
}

#: Former names of inputs, which are still read wherever the present ones are.
FORMER_NAMES = {"population": "population_size"}


def current_name(key: str) -> str:
    """The name of an input that a flag, a key or ``--vary`` spells with dashes or by its former name."""
    name = key.replace("-", "_")
    return FORMER_NAMES.get(name, name)


#: The range of an epsilon at which delta is computed; a target must be above 0.
EPSILON_OR_ZERO = Range(0.0, RANGES["epsilon"].high)
#: Above this a delta is large for any number of clients, and probably a mistake.
LARGE_DELTA = 0.01


def check_range(name: str, value: object, allowed: Range | None = None) -> float:
    """The number ``value`` as a plain float, or as an int where ``allowed`` is of integers.

    NumPy's numbers will do. ``UsageError`` with slug ``invalid-type`` for what is no number (text, None,
    a bool), ``out-of-range`` unless it is in ``allowed`` or `RANGES`.
    """
    allowed = allowed or RANGES[name]
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _wrong_type(name, "a number", value)
    try:
        number = float(value)
    except OverflowError:  # hundreds of digits: beyond every range, whatever its sign
        number = math.inf
    if number not in allowed:
        what = f"{name} must be {allowed}, got {repr(number).removesuffix('.0')}"
        raise UsageError("out-of-range", what, _probably_meant(name, number))
    return int(number) if allowed.integer else number


def _probably_meant(name: str, number: float) -> str:
    from csgm_cli.hints import probably_meant  # few questions need it

    return probably_meant(name, number)


def swapped(epsilon: float, delta: float) -> str:
    """The hint that two numbers, one of them out of range, seem to be swapped; empty where not."""
    if delta not in RANGES["epsilon"] or epsilon not in RANGES["delta"] or epsilon > LARGE_DELTA:
        return ""
    return f"epsilon and delta seem to be swapped: epsilon {delta:g}, delta {epsilon:g}"


def check_ranges(name: str, values: Iterable[object], of: str) -> tuple[float, ...]:
    """Each of ``values`` (a list, an array, ...) by `check_range` of the input ``of``."""
    try:
        listed = tuple(values)
    except TypeError:
        raise _wrong_type(name, "a sequence of numbers", values) from None
    return tuple(check_range(of, value) for value in listed)


def check_type(name: str, value: object, kind: type) -> None:
    """Raise ``UsageError`` (slug ``invalid-type``) unless ``value`` is a ``kind``."""
    if not isinstance(value, kind):
        raise _wrong_type(name, f"a {kind.__name__}", value)


def settle(frozen: object, name: str) -> None:
    """Replace the field ``name`` by the plain number that it is, by `check_range`."""
    object.__setattr__(frozen, name, check_range(name, getattr(frozen, name)))


def _wrong_type(name: str, wanted: str, value: object) -> UsageError:
    return UsageError("invalid-type", f"{name} must be {wanted}, got {shown(value)}")


def underflows(text: str, number: float) -> bool:
    """True where ``text``, a decimal number, is not 0 but ``number``, what float64 makes of it, is."""
    return number == 0.0 and any(digit in "123456789" for digit in text.lower().partition("e")[0])


def member_named(kind: type[StrEnum], field: str, value: str) -> StrEnum:
    """The member called ``value``; ``UsageError`` (slug ``unknown-choice``) lists the right names."""
    try:
        return kind(value)
    except ValueError:
        from csgm_cli.hints import did_you_mean

        words = [member.value for member in kind]
        what = f"{field} must be one of {', '.join(words)}, got {shown(value)}"
        close = did_you_mean(value, words) if isinstance(value, str) else ""
        raise UsageError("unknown-choice", what + close) from None
