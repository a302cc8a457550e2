"""Find a repeated value in one pass; files may hold hundreds of thousands of keys."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def first_repeat(values: Iterable[T]) -> T | None:
    """Return the first of ``values`` that equals an earlier one; None if all differ."""
    seen: set[T] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None
