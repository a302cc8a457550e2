"""``--plot``: the picture of a result, in a file or in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from csgm_cli.cli import console, interrupts
from csgm_cli.cli.options.sources import Rank
from csgm_cli.cli.output.report import report
from csgm_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from csgm_cli.cli.options.request import Request
    from csgm_cli.render.document import Document
    from csgm_cli.render.plots.figure import Figure

#: Width of a chart where stdout is no terminal.
_WIDTH = 80


def check_plot(request: Request) -> None:
    """Raise what would keep the picture from being drawn or written, before the work for it.

    ``UsageError``: another kind of file, a size without a file, matplotlib is missing, or two reports for
    one stream.
    ``StorageError``: the file, or that of --output, cannot be written.
    """
    plot = request["plot"]
    if plot in (None, "-") and request.rank(["plot_size"]) == Rank.FLAG:
        raise UsageError("missing-option", "--plot-size needs --plot FILE", "--plot figure.pdf")
    if plot is None:
        return
    if plot == "-":
        value = request["value"]
        if request["output"] is None and (value or request["format"] != "text"):
            other = "--value" if value else f"--format {request['format']}"
            message = f"--plot - and {other} would both go to standard output"
            raise UsageError("conflicting-options", message, "pass --output for one of them, or --plot FILE")
        return
    from csgm_cli.render.plots.image_file import check_can_draw
    from csgm_cli.storage.files import check_writable

    check_can_draw(Path(plot).suffix)
    check_writable(plot)
    if request["output"] is not None:
        check_writable(request["output"])


def report_with_picture(
    request: Request, document: Document, figure: Figure | None = None, shown: Collection[str] = ()
) -> None:
    """Report as without a picture; a chart for the terminal stands below.

    A picture is drawn before the report and put in place after it, so that an error in one of the two
    replaces neither. ``figure``: what to draw, if it is not what the rows of ``document`` show. ``shown``: as
    in `report`.
    """
    to_file = request["plot"] not in (None, "-")
    content = _drawn(request, document, figure) if to_file else None
    report(request, document, shown=shown)
    if content is not None:
        _put_in_place(request, content)
    elif not to_file:
        draw(request, document, figure, below=request["output"] is None)


def draw(request: Request, document: Document, figure: Figure | None = None, *, below: bool = False) -> None:
    """Put the picture where --plot says, if anywhere; ``below`` a report on the same stream.

    Where no row has an answer a warning says so, and an old picture stays.
    """
    if request["plot"] is None:
        return
    if request["plot"] != "-":
        if (content := _drawn(request, document, figure)) is not None:
            _put_in_place(request, content)
    elif (shown := _figure(document, figure)) is not None:
        from csgm_cli.render.plots.text_chart import chart

        terminal = console.terminal()
        text = chart(shown, _WIDTH if terminal is None else terminal.width)
        console.write(f"\n{text}" if below else text)


def _figure(document: Document, figure: Figure | None) -> Figure | None:
    from csgm_cli.render.plots.figure import figure_of

    figure = figure or figure_of(document)
    if figure is None:
        console.warning("nothing-to-draw", "no picture was drawn: no row has an answer")
    return figure


def _drawn(request: Request, document: Document, figure: Figure | None) -> bytes | None:
    """Return the content of the file, None where there is nothing to draw."""
    from csgm_cli.render.plots.image_file import default_size, picture

    if (figure := _figure(document, figure)) is None:
        return None
    size = default_size(figure)
    if request["plot_size"] is not None:
        width, height = map(float, request["plot_size"].lower().split("x"))
        size = width, height
    content, is_clear = picture(figure, Path(request["plot"]).suffix, size)
    if not is_clear:
        default = "x".join(f"{inches:g}" for inches in default_size(figure))
        message = f"labels of the plot overlap at this size; the default is {default} inches"
        console.warning("plot-too-small", message)
    return content


def _put_in_place(request: Request, content: bytes) -> None:
    from csgm_cli.storage.files import write_atomically

    with interrupts.unwinding():
        write_atomically(request["plot"], content)
