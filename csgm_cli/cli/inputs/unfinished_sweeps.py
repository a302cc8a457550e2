"""``csgm sweep --resume``: which rows of an earlier run can be kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random, SystemRandom
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

    ``contradicted``: one of these because the oracle says something else. ``recomputed``: how many rows were
    computed again, with the same answer.
    """

    size: int = 0
    rows: int = 0
    failed: int = 0
    contradicted: bool = False
    recomputed: int = 0


#: Rows chosen at random to be recomputed.
_SAMPLE = 5


class _Sample:
    """Rows chosen at random, each set of `_SAMPLE` rows with equal probability (reservoir sampling)."""

    def __init__(self, seed: int | None) -> None:
        self._random = SystemRandom() if seed is None else Random(seed)  # noqa: S311 - reproducible on request
        self.lines: list[tuple[int, str]] = []

    def add(self, row: int, line: str) -> None:
        """Take the next row, number ``row`` from 0, or leave it out."""
        if row < _SAMPLE:
            self.lines.append((row, line))
        elif (at := self._random.randrange(row + 1)) < _SAMPLE:
            self.lines[at] = (row, line)


def kept_rows(path: str, sweep: Sweep, form: RowFormat, seed: int | None = None) -> Kept:
    """Look at every row that is there in whole; ``UsageError`` (slug ``other-sweep``) unless all belong here.

    Each must be of the point that stands at its place. The last one, the first with an answer and a random
    sample, chosen by ``seed``, are solved again: rows have every digit, so that any other question, or
    another version of csgm, shows.
    """
    lines = lines_of(path)
    kept, to_solve, last = Kept(_header_size(path, sweep, form, lines)), {}, ""
    sample, header_lines = _Sample(seed), bool(kept.size)
    for line in lines:
        start = form.start(sweep.identity(kept.rows)) if kept.rows < len(sweep.points) else "\0"
        if not line.startswith(start[: len(line)]):
            raise _other_sweep(path, kept.rows + 1 + header_lines, "is no row of this sweep")
        if not line.endswith("\n"):  # the process was killed while it wrote this
            break
        failed = not line.endswith(form.end({"error": None}))
        if not failed and kept.failed == kept.rows:
            to_solve[kept.rows] = line
        sample.add(kept.rows, line)
        contradicted = kept.contradicted or (failed and "verification-failed" in line)
        size = kept.size + len(line.encode())
        kept, last = Kept(size, kept.rows + 1, kept.failed + failed, contradicted), line
    if kept.rows:
        to_solve[kept.rows - 1] = last
    to_solve |= sample.lines
    for row, line in sorted(to_solve.items()):
        if form.line(sweep.solve(row)[0]) != line:
            raise _other_sweep(path, row + 1 + header_lines, "differs from its recomputation")
    return replace(kept, recomputed=len(to_solve))


def _header_size(path: str, sweep: Sweep, form: RowFormat, lines: Iterator[str]) -> int:
    """Take the header off ``lines``; 0 where there is none, or only a part of it."""
    from csgm_cli.render.document import sweep_row

    header = form.header(sweep_row(sweep.identity(0), None, ()))
    first = next(lines, "") if header else ""
    if not header.startswith(first):
        raise _other_sweep(path, 1, "is not the header of this sweep")
    return len(header.encode()) if first == header else 0


def _other_sweep(path: str, line: int, fault: str) -> UsageError:
    message = f"{path!r} holds the rows of another sweep, or was edited: line {line} {fault}"
    return UsageError("other-sweep", message, "pass another --output")
