"""Text for a terminal, through rich: words wrap at its width, numbers are never cut."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from csgm_cli.render.formats.as_text import fact_rows, table_lines
from csgm_cli.render.reports.report import report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csgm_cli.render.document import Document
    from csgm_cli.render.reports.parts import Fact, Table
    from csgm_cli.render.terminal import Terminal

#: Beside the labels, facts need this many columns for their longest number or word.
_ROOM = 30
#: Columns that are left out of a table that is too wide, in this order.
_LEAST_NEEDED = (
    "reason", "owner", "order", "adjacency", "cases", "bound", "lower bound", "rmse", "epsilon",
    "bits/client", "max squared error", "delta", "mechanism", "effective", "gamma", "more rounds",
)  # fmt: skip
_FAILURES = ("EXCEEDED", "FAILS")


def render_for(document: Document, terminal: Terminal, *, statement: bool = False) -> str:
    """Return the same words and numbers as plain text has, laid out for ``terminal``."""
    content = report(document, statement=statement)
    blocks = [_printed(_table(table, terminal.width), terminal, wrap=False) for table in content.tables]
    if content.facts:
        narrow = terminal.width < _ROOM + max(len(fact.label) for fact in content.facts)
        rows = list(_styled(content.facts, is_answer_first=content.table is None))
        block = _lines(rows) if narrow else _grid(rows)
        blocks.append(_printed(block, terminal, wrap=not narrow))
    if content.paragraph:
        blocks.append(_printed(Text(content.paragraph), terminal, wrap=True))
    return "\n".join(blocks)


def _printed(block: Grid | Text, terminal: Terminal, *, wrap: bool) -> str:
    """Without ``wrap``, lines too long are left for the terminal to break."""
    text = StringIO()
    # All that rich would guess from the environment is stated: the command has decided.
    console = Console(
        file=text,
        width=terminal.width,
        height=25,
        force_terminal=True,
        force_jupyter=False,
        color_system="standard" if terminal.colour else None,
        no_color=not terminal.colour,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(block, soft_wrap=not wrap)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _table(table: Table, width: int) -> Text:
    """The table without the columns that do not fit, which are named below it."""
    dropped: list[str] = []
    header, *rows = table_lines(table)
    for title in _LEAST_NEEDED:
        if max(map(len, (header, *rows))) <= width:
            break
        if title in table.header:
            dropped.append(title)
            table = table.without(title)
            header, *rows = table_lines(table)
    lines = [Text(header, style="bold"), *map(_marked, rows)]
    if dropped:
        lines.append(Text(f"not shown for lack of width: {', '.join(dropped)}", style="dim"))
    return Text("\n").join(lines)


def _marked(line: str) -> Text:
    """A line in which failures stand out."""
    text = Text(line)
    text.highlight_words(_FAILURES, style="bold red")
    return text


def _grid(rows: list[tuple[Text, Text]]) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for row in rows:
        grid.add_row(*row)
    return grid


def _lines(rows: list[tuple[Text, Text]]) -> Text:
    return Text("\n").join(Text("  ").join(row) for row in rows)


def _styled(facts: tuple[Fact, ...], *, is_answer_first: bool) -> Iterator[tuple[Text, Text]]:
    """The answer and failures stand out, and notes stand back."""
    style = "bold" if is_answer_first else ""
    for label, value, note in fact_rows(facts):
        note_style = "bold red" if note in _FAILURES else "dim"
        yield Text(label), Text.assemble((value, style), "  ", (note, note_style))
        style = ""
