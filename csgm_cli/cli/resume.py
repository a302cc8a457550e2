"""``csgm sweep --resume``: which rows of an earlier run can stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError
from csgm_cli.storage.rows import lines_of

if TYPE_CHECKING:
    from csgm_cli.cli.points import Sweep
    from csgm_cli.render import RowFormat


@dataclass(frozen=True)
class Kept:
    """What stays of a file: ``size`` in bytes, header included, and the rows, ``failed`` without an answer."""

    size: int
    rows: int
    failed: int


def kept_rows(path: str, sweep: Sweep, form: RowFormat) -> Kept:
    """Look at every row that is there in whole; ``UsageError`` (slug ``other-sweep``) unless all are this one's.

    Each must be of the point that stands at its place. The last one, and the first with an answer, are
    solved again: rows have every digit, so that any other question, or another version of csgm, shows.
    """
    from csgm_cli.render.document import sweep_row

    lines = lines_of(path)
    size, header = 0, form.header(sweep_row(sweep.identity(0), None, ()))
    if header:
        first = next(lines, "")
        if not header.startswith(first):
            raise _other_sweep(path, "its header")
        if first != header:
            return Kept(0, 0, 0)
        size = len(header.encode())
    rows = failed = 0
    to_solve, last = {}, ""
    for line in lines:
        start = form.start(sweep.identity(rows)) if rows < len(sweep.points) else "\n"
        if not line.startswith(start[: len(line)]):
            raise _other_sweep(path, f"row {rows + 1}")
        if not line.endswith("\n"):  # the process was killed while it wrote this
            break
        last, answered = line, line.endswith(form.end({"error": None}))
        if answered and failed == rows:
            to_solve[rows] = line
        failed += not answered
        rows += 1
        size += len(line.encode())
    if rows:
        to_solve[rows - 1] = last
    for row, line in to_solve.items():
        if form.line(sweep.solve(row)[0]) != line:
            raise _other_sweep(path, f"row {row + 1}")
    return Kept(size, rows, failed)


def _other_sweep(path: str, what: str) -> UsageError:
    return UsageError(
        "other-sweep", f"{path!r} holds the rows of another sweep: {what} differs", "give another --output"
    )
