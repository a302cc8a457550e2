"""JSON Lines: each row of the result as one JSON object on one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.render.formats.as_json import dumped

if TYPE_CHECKING:
    from csgm_cli.render.document import Document


def render(document: Document) -> str:
    """Return the rows, with round-trip digits; inputs and warnings of the whole are left out."""
    return "".join(map(line, document["result"]["rows"]))


def header(row: Document) -> str:  # noqa: ARG001 - as in as_csv
    """Return the line above the rows: there is none."""
    return ""


def line(row: Document) -> str:
    """Return one row as a line; ``ValueError`` if it holds a NaN or an infinity."""
    return dumped(row) + "\n"


def start(row: Document) -> str:
    """Return how the line of a row starts whose first keys are those of ``row``."""
    return line(row)[:-2] + ", "


def end(row: Document) -> str:
    """Return how the line of a row ends whose last keys are those of ``row``."""
    return ", " + line(row)[1:]
