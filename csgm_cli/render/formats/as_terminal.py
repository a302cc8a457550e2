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


def render_for(document: Document, terminal: Terminal) -> str:
    """Return the same words and numbers as plain text has, laid out for ``terminal``."""
    content = report(document)
    blocks = [_printed(_table(table), terminal, wrap=False) for table in content.tables]
    if content.facts:
        narrow = terminal.width < _ROOM + max(len(fact.label) for fact in content.facts)
        block = _lines(content.facts) if narrow else _grid(content.facts)
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


def _table(table: Table) -> Text:
    header, *rows = table_lines(table)
    return Text("\n").join([Text(header, style="bold"), *map(Text, rows)])


def _grid(facts: tuple[Fact, ...]) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for row in _styled(facts):
        grid.add_row(*row)
    return grid


def _lines(facts: tuple[Fact, ...]) -> Text:
    return Text("\n").join(Text("  ").join(row) for row in _styled(facts))


def _styled(facts: tuple[Fact, ...]) -> Iterator[tuple[Text, Text]]:
    """The answer, which comes first, stands out; notes stand back."""
    style = "bold"
    for label, value, note in fact_rows(facts):
        yield Text(label), Text.assemble((value, style), "  ", (note, "dim"))
        style = ""
