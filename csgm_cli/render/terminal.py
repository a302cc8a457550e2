"""Text for a terminal, through rich: notes wrap at its width, numbers are never cut."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from csgm_cli.render.as_text import table_lines
from csgm_cli.render.report import Fact, Table, report

if TYPE_CHECKING:
    from csgm_cli.render import Terminal
    from csgm_cli.render.document import Document


def render_for(document: Document, terminal: Terminal) -> str:
    """Return the same content as plain text, laid out for ``terminal``."""
    content = report(document)
    blocks: list[Grid | Text] = []
    if content.table is not None:
        blocks.append(_table(content.table))
    if content.facts:
        blocks.append(_facts(content.facts))
    if content.paragraph:
        blocks.append(Text(content.paragraph))
    return "\n".join(_printed(block, terminal) for block in blocks)


def _printed(block: Grid | Text, terminal: Terminal) -> str:
    # Everything that rich would guess from the environment is stated: the command has decided.
    console = Console(
        file=StringIO(),
        width=terminal.width,
        height=25,
        force_terminal=True,
        color_system="standard" if terminal.colour else None,
        no_color=not terminal.colour,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
    )
    # A table of numbers is left to the terminal to wrap, as rich would cut the numbers.
    console.print(block, soft_wrap=isinstance(block, Text) and block.no_wrap is True)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def _table(table: Table) -> Text:
    header, *rows = table_lines(table)
    return Text("\n").join([Text(header, style="bold"), *map(Text, rows)])


def _facts(facts: tuple[Fact, ...]) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(style="dim")
    for index, fact in enumerate(facts):
        grid.add_row(Text(fact.label), Text(fact.value, style="bold" if index == 0 else ""), Text(fact.note))
    return grid
