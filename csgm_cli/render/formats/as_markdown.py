"""Markdown: the text report with its table and facts as GitHub tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from csgm_cli.render.reports.parts import Table
from csgm_cli.render.reports.report import report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csgm_cli.render.document import Document


def render(document: Document, *, statement: bool = False) -> str:
    """Return the report, rounded to the safe side as in text."""
    content = report(document, statement=statement)
    blocks = ["\n".join(_lines(table)) for table in content.tables]
    if content.facts:
        rows = tuple((fact.label, fact.value, fact.note) for fact in content.facts)
        blocks.append("\n".join(_lines(Table(("quantity", "value", "note"), rows, frozenset()))))
    if content.paragraph:
        blocks.append(_escaped(content.paragraph))
    return "\n\n".join(blocks) + "\n"


def _lines(table: Table) -> Iterator[str]:
    yield _line(table.header)
    yield _line(tuple("---:" if title in table.numeric else "---" for title in table.header))
    yield from map(_line, table.rows)


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_escaped(cell).replace("|", "\\|") for cell in cells) + " |"


def _escaped(text: str) -> str:
    """Return ``text`` without tags, links, images and code, which only a file could put into it."""
    return re.sub(r"[\\`\[]|<(?=[A-Za-z/!?])", r"\\\g<0>", text)
