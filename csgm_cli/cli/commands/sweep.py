"""``csgm sweep``: calibrate or account at every point of a grid."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from csgm_cli.cli import console, interrupts
from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.mechanisms import NOISE, one_round
from csgm_cli.cli.inputs.sweeps import Sweep, build_sweep
from csgm_cli.cli.inputs.unfinished_sweeps import Kept, kept_rows
from csgm_cli.cli.options.definitions import COHORT, MECHANISM, OUTPUT, option, options
from csgm_cli.cli.options.missing import participation, points, rate, ratio, target_or_noise
from csgm_cli.cli.options.parameter_types import Choice
from csgm_cli.cli.options.request import Exclusive
from csgm_cli.cli.options.vary import number_of
from csgm_cli.cli.output.plot import check_plot, draw, report_with_picture
from csgm_cli.cli.parallel import in_order
from csgm_cli.errors import UsageError
from csgm_cli.model.result import Notice
from csgm_cli.render import ROW_FORMATS, SWEEP_FORMATS, row_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from csgm_cli.cli.options.request import Request
    from csgm_cli.render.document import Document

#: What a preset settles.
_PRESET = ("vary", "epsilon", "delta", *NOISE, "mechanism", *MECHANISM, *COHORT)


def run(request: Request) -> ExitCode:
    """Sweep and report. Rows without an answer are listed on stderr; exit with 3 if no row has one."""
    from csgm_cli.render.plots.figure import check_lines
    from csgm_cli.storage.files import check_writable

    check_plot(request)
    _check_resume(request)
    if request["output"] is not None:
        check_writable(request["output"])
    sweep = build_sweep(request)
    if request["plot"] is not None:
        check_lines(sweep.inputs())
    tally = (_stream if request["format"] in ROW_FORMATS else _collect)(request, sweep)
    if tally.contradicted or tally.failed == len(sweep.points):
        return ExitCode.NO_ANSWER
    return ExitCode.OK


def _check_resume(request: Request) -> None:
    if not request["resume"]:
        return
    if request["output"] is None or request["format"] not in ROW_FORMATS:
        message = f"--resume needs an --output file in {' or '.join(ROW_FORMATS)}"
        raise UsageError("cannot-resume", message, "--output FILE --format csv")
    if request["plot"] is not None:
        raise UsageError(
            "conflicting-options", "--resume and --plot exclude each other", "plot without --resume"
        )


class _Tally:
    """Notices about all rows, each kind once, and the number of rows without an answer."""

    def __init__(self, sweep: Sweep, kept: Kept) -> None:
        self._points, self._about_all = len(sweep.points), one_round(sweep.request)
        self._seen: dict[str, tuple[int, Notice]] = {}
        self._first_failure = ""
        self.rows, self.failed, self.contradicted = 0, kept.failed, kept.contradicted

    def add(self, row: Document, notices: tuple[Notice, ...]) -> None:
        self.rows += 1
        for notice in notices:
            count, first = self._seen.get(notice.slug, (0, notice))
            self._seen[notice.slug] = (count + 1, first)
        if row["error"] is not None:
            self.failed += 1
            self.contradicted |= row["error"]["slug"] == "verification-failed"
            self._first_failure = self._first_failure or f"; the first: {row['error']['message']}"

    def notices(self) -> list[Notice]:
        """Return them with the number of rows that each is about."""
        told = [
            first
            if count == 1
            else replace(first, message=f"{first.message} (the first of {count} such rows)")
            for count, first in self._seen.values()
        ]
        if self.failed:
            said = f"{self.failed} of {self._points} rows have no answer{self._first_failure}"
            told.append(Notice("row-without-answer", said))
        return [*self._about_all, *told]


def _collect(request: Request, sweep: Sweep) -> _Tally:
    """Report all rows together, when the last one is done."""
    from csgm_cli.render.document import sweep_document

    tally, rows = _Tally(sweep, Kept()), []
    for row, notices in _solved(request, sweep, 0):
        tally.add(row, notices)
        rows.append(row)
    report_with_picture(request, sweep_document(sweep.inputs(), rows, tally.notices()))
    return tally


def _stream(request: Request, sweep: Sweep) -> _Tally:
    """Write each row as it is done."""
    from csgm_cli.render.document import sweep_document

    form = row_format(request["format"])
    with _claimed(request):
        kept = kept_rows(request["output"], sweep, form, request["seed"]) if request["resume"] else None
        if kept is not None and kept.rows:
            output = f"{kept.recomputed} of {kept.rows} rows in {request['output']!r}"
            console.note(f"--resume recomputed {output}; all agree")
        done = kept or Kept()
        tally, rows = _Tally(sweep, done), []
        with _sink(request, kept) as write:
            for row, notices in _solved(request, sweep, done.rows):
                tally.add(row, notices)
                if done.size == 0 and tally.rows == 1:
                    write(form.header(row))
                write(form.line(row))
                if request["plot"] is not None:
                    rows.append(row)
    if rows:
        draw(request, sweep_document(sweep.inputs(), rows, ()))
    for notice in tally.notices():
        console.warning(notice.slug, notice.message)
    return tally


def _claimed(request: Request) -> AbstractContextManager[None]:
    if request["output"] is None:
        return nullcontext()
    from csgm_cli.storage.rows import claimed

    return claimed(request["output"])


@contextmanager
def _sink(request: Request, kept: Kept | None) -> Iterator[Callable[[str], None]]:
    if request["output"] is None:
        yield console.write_part
    else:
        from csgm_cli.storage.rows import growing

        size = None if kept is None else kept.size
        with interrupts.unwinding(), growing(request["output"], size) as write:
            yield write
    interrupts.ignore()


def _solved(request: Request, sweep: Sweep, start: int) -> Iterator[tuple[Document, tuple[Notice, ...]]]:
    """Yield the rows from ``start`` on, with progress on stderr."""
    total = len(sweep.points)
    to_terminal = request["output"] is None and request["format"] in ROW_FORMATS
    with console.progress(total, "points", quiet=to_terminal) as advance:
        for done, solved in enumerate(in_order(sweep.solve, range(start, total), request["jobs"]), start + 1):
            advance(done)
            yield solved


command = Command(
    "sweep",
    run,
    help="""Calibrate or account over a grid of parameters.

    Every combination of the varied values is a row; the last --vary moves fastest. Rows are answers of
    calibrate, or of account if --noise-multiplier or --sigma is fixed or varied.

    csv and jsonl rows are written as they are computed, other formats at the end. A point without an answer
    is a row with an error. For thousands of points, use --accountant rdp.""",
    options=[
        option("vary", multiple=True),
        option("preset"),
        *options(*NOISE),
        option("epsilon", number_of("epsilon")),
        *options("delta", "mechanism", *MECHANISM, *COHORT),
        *options("accountant", "value_bits", "verify", "jobs", "resume", "seed", "plot", "plot_size"),
        option("format", Choice(SWEEP_FORMATS)),
        *options(*(name for name in OUTPUT if name != "format")),
    ],
    examples=(
        "csgm sweep --epsilon 5 --delta 1e-8 --vary gamma=0.001:0.1:5log --vary norm-ratio=100,1000",
        "csgm sweep --preset figure1 --accountant rdp --format csv",
    ),
    needs=(points, target_or_noise, rate, ratio, participation),
    exclusives=(Exclusive(("preset",), _PRESET),),
)
