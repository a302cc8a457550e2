"""``csgm sweep --resume``: which rows of an earlier run can be kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError
from csgm_cli.storage.rows import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csgm_cli.cli.inputs.sweeps import Sweep
    from csgm_cli.render import RowFormat


@dataclass(frozen=True)
class Kept:
    """What stays of a file: ``size`` in bytes with the header, ``rows``, and how many have no answer.

    ``contradicted``: one of these because the oracle says something else.
    """

    size: int = 0
    rows: int = 0
    failed: int = 0
    contradicted: bool = False


def kept_rows(path: str, sweep: Sweep, form: RowFormat) -> Kept:
    """Look at every row that is there in whole; ``UsageError`` (slug ``other-sweep``) unless all belong here.

    Each must be of the point that stands at its place. The last one, and the first with an answer, are
    solved again: rows have every digit, so that any other question, or another version of csgm, shows.
    """
    lines = lines_of(path)
    kept, to_solve, last = Kept(_header_size(path, sweep, form, lines)), {}, ""
    for line in lines:
        start = form.start(sweep.identity(kept.rows)) if kept.rows < len(sweep.points) else "\0"
        if not line.startswith(start[: len(line)]):
            raise _other_sweep(path, f"row {kept.rows + 1}")
        if not line.endswith("\n"):  # the process was killed while it wrote this
            break
        failed = not line.endswith(form.end({"error": None}))
        if not failed and kept.failed == kept.rows:
            to_solve[kept.rows] = line
        contradicted = kept.contradicted or (failed and "verification-failed" in line)
        size = kept.size + len(line.encode())
        kept, last = Kept(size, kept.rows + 1, kept.failed + failed, contradicted), line
    if kept.rows:
        to_solve[kept.rows - 1] = last
    for row, line in to_solve.items():
        if form.line(sweep.solve(row)[0]) != line:
            raise _other_sweep(path, f"row {row + 1}")
    return kept


def _header_size(path: str, sweep: Sweep, form: RowFormat, lines: Iterator[str]) -> int:
    """Take the header off ``lines``; 0 where there is none, or only a part of it."""
    from csgm_cli.render.document import sweep_row

    header = form.header(sweep_row(sweep.identity(0), None, ()))
    first = next(lines, "") if header else ""
    if not header.startswith(first):
        raise _other_sweep(path, "the header")
    return len(header.encode()) if first == header else 0


def _other_sweep(path: str, what: str) -> UsageError:
    return UsageError(
        "other-sweep", f"{path!r} holds the rows of another sweep: {what} differs", "give another --output"
    )
