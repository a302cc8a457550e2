"""Plain text: aligned lines, the same bytes everywhere, never wrapped or cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.render.report import Fact, Table, report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csgm_cli.render.document import Document


def render(document: Document) -> str:
    """Return the document for a person to read: table, facts and statement, answer first."""
    content = report(document)
    table = [] if content.table is None else list(table_lines(content.table))
    blocks = [table, list(_fact_lines(content.facts)), [content.paragraph] if content.paragraph else []]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def table_lines(table: Table) -> Iterator[str]:
    """Yield the header and the rows as lines with aligned columns."""
    grid = (table.header, *table.rows)
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    right = [title in table.numeric for title in table.header]
    for row in grid:
        cells = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        yield "  ".join(cells).rstrip()


def _fact_lines(facts: tuple[Fact, ...]) -> Iterator[str]:
    labels = max((len(fact.label) for fact in facts), default=0)
    values = max((len(fact.value) for fact in facts if fact.note), default=0)
    for fact in facts:
        yield f"{fact.label:<{labels}}  {fact.value:<{values}}  {fact.note}".rstrip()
