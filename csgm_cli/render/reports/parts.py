"""The parts of a report: facts, tables, text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from csgm_cli.errors import printable
from csgm_cli.render.document import Document
from csgm_cli.rounding import DISPLAY_DIGITS, round_down, round_up


@dataclass(frozen=True)
class Fact:
    """One labelled value; ``note`` explains it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of text under a ``header``; columns named in ``numeric`` are aligned to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[str]

    @property
    def printable(self) -> Table:
        """The table with its cells escaped."""
        return replace(self, rows=tuple(tuple(map(printable, row)) for row in self.rows))

    def without(self, title: str) -> Table:
        """Return the table without the column ``title``."""
        at = self.header.index(title)
        header, *rows = (row[:at] + row[at + 1 :] for row in (self.header, *self.rows))
        return Table(header, tuple(rows), self.numeric)


@dataclass(frozen=True)
class Report:
    """The parts in reading order: ``table`` and ``further`` ones, ``facts``, ``paragraph``; none if empty.

    ``statement``: the publishable paragraph, shown on request.
    """

    table: Table | None = None
    further: tuple[Table, ...] = ()
    facts: tuple[Fact, ...] = ()
    paragraph: str = ""
    statement: str = ""

    @property
    def printable(self) -> Report:
        """The report with its cells, facts and text escaped, as some come from files (headers do not)."""
        facts = (Fact(*map(printable, (fact.label, fact.value, fact.note))) for fact in self.facts)
        return Report(
            table=self.table and self.table.printable,
            further=tuple(table.printable for table in self.further),
            facts=tuple(facts),
            paragraph=printable(self.paragraph),
            statement=printable(self.statement),
        )

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables, in reading order."""
        return self.further if self.table is None else (self.table, *self.further)


#: A column of a table: its title and how to read its cell off a row (None where there is nothing).
Column = tuple[str, Callable[[Document], str | None]]

#: Columns of words; all others hold numbers.
_WORDS = {
    "mechanism", "accountant", "bound", "error", "recomputed", "result", "strategy", "claim", "check",
    "population", "release", "adjacency", "owner", "reason", "change", "what", "limit was",
    "privunit-shuffle",
}  # fmt: skip


def table(columns: list[Column], rows: list[Document]) -> Table:
    """Columns without a single cell are left out."""
    cells = [[read(row) for row in rows] for _, read in columns]
    kept = {title: column for (title, _), column in zip(columns, cells, strict=True) if any(column)}
    return Table(
        header=tuple(kept),
        rows=tuple(tuple(cell or "-" for cell in row) for row in zip(*kept.values(), strict=True)),
        numeric=frozenset(kept) - _WORDS,
    )


def is_factorized(inputs: Document) -> bool:
    """Return whether the noise is that of a factorization."""
    return inputs.get("factorization") is not None


def plain_mechanism(inputs: Document) -> str:
    """Return the name of the mechanism without compression that MSE ratios are relative to."""
    return "matrix" if is_factorized(inputs) else "Gaussian"


def error_parts_text(mse: Document) -> str:
    """Return what an MSE is made of."""
    return f"privacy {round_up(mse['privacy'])} + sparsification {round_up(mse['sparsification'])}"


def verified_text(verified: Document) -> tuple[str, str]:
    """Return in how many digits an answer was recomputed, and how far off that was."""
    difference = f"relative difference {round_up(verified['relative_difference'], 2)}"
    return f"{verified['digits']} digits", difference


def up(x: float | None, digits: int = DISPLAY_DIGITS) -> str | None:
    """Return a cell with a number rounded up; None where there is none."""
    return None if x is None else round_up(x, digits)


def down(x: float | None) -> str | None:
    """Return a cell with a number rounded down; None where there is none."""
    return None if x is None else round_down(x)


def order_text(order: float | None) -> str | None:
    """Return a Renyi order as text shows it; None where none is involved."""
    return None if order is None else f"{order:.6g}"
