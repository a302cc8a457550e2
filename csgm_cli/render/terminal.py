"""The terminal that text is laid out for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Terminal:
    """The terminal that text is meant for: its ``width`` in columns, and whether to use ``colour``."""

    width: int
    colour: bool
