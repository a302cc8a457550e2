"""Plain text: aligned lines, the same bytes everywhere, never wrapped or cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.render.reports.report import report

if TYPE_CHECKING:
    from csgm_cli.render.document import Document
    from csgm_cli.render.reports.parts import Fact, Table


def render(document: Document, *, statement: bool = False) -> str:
    """Return the document for a person to read: tables, facts and statement, answer first."""
    content = report(document, statement=statement)
    facts = ["  ".join(cells).rstrip() for cells in fact_rows(content.facts)]
    blocks = [*map(table_lines, content.tables), facts, [content.paragraph] if content.paragraph else []]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def table_lines(table: Table) -> list[str]:
    """Return the header and the rows as lines with aligned columns."""
    grid = (table.header, *table.rows)
    forms = [
        f"{'>' if column[0] in table.numeric else '<'}{max(map(len, column))}"
        for column in zip(*grid, strict=True)
    ]
    return ["  ".join(map(format, row, forms)).rstrip() for row in grid]


def fact_rows(facts: tuple[Fact, ...]) -> list[tuple[str, str, str]]:
    """Return label, value and note of each fact, padded so that they align.

    A value without a note runs on to the right and widens no column.
    """
    labels = max((len(fact.label) for fact in facts), default=0)
    values = max((len(fact.value) for fact in facts if fact.note), default=0)
    return [(fact.label.ljust(labels), fact.value.ljust(values), fact.note) for fact in facts]
