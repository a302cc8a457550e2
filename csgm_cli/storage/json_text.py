"""Read JSON strictly: a file must mean the same to every reader."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable
from typing import Any, NoReturn, TypeVar

from csgm_cli.errors import shown
from csgm_cli.ranges import underflows

T = TypeVar("T", bound=Hashable)


def parse_json(text: str) -> object:
    """The value of a JSON text.

    ``ValueError`` with the reason for what is not JSON, repeated keys, NaN and infinity, and numbers that
    float64 cannot hold or cannot tell from 0.
    """
    try:
        value: object = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_int,
            object_pairs_hook=without_repeats,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    return value


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; ``ValueError`` for equal keys, of which readers see different ones."""
    if (twice := first_repeat(key for key, _ in pairs)) is not None:
        raise ValueError(f"it holds {shown(twice)} twice")
    return dict(pairs)


def first_repeat(values: Iterable[T]) -> T | None:
    """Return the first of ``values`` that equals an earlier one, in one pass; None if all differ."""
    seen: set[T] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(f"it holds {literal}, which is no JSON number")


def _float(literal: str) -> float:
    number = float(literal)
    if underflows(literal, number):
        raise ValueError(f"it holds {shown(literal)}, which float64 cannot tell from 0")
    if math.isinf(number):
        raise _beyond(literal)
    return number


def _int(literal: str) -> int:
    try:
        number = int(literal)
        float(number)
    except (OverflowError, ValueError):  # ValueError: of thousands of digits
        raise _beyond(literal) from None
    return number


def _beyond(literal: str) -> ValueError:
    return ValueError(f"it holds {shown(literal)}, which is beyond float64")
