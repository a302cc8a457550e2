"""Figures as PNG, SVG or PDF, through matplotlib, which is imported only here."""

from __future__ import annotations

import logging
import math
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from itertools import combinations
from typing import TYPE_CHECKING, Any

from csgm_cli.errors import UsageError
from csgm_cli.render.plots.typeset import typeset, typeset_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from csgm_cli.render.plots.figure import Figure, Panel

#: Dates are left out, so that the same figure has the same bytes.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
#: Okabe and Ito's colours and three more: all can be told apart with any kind of colour vision.
_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C5109",
    "#5A3FA0", "#7A7A7A",
)  # fmt: skip
_MARKERS = "os^DvPX*<p"
_DASHES = ("-", "--", "-.", ":")
_LEVEL_DASHES = ("--", ":", "-.")
#: Inches.
_PANEL_WIDTH, _PANEL_HEIGHT = 5.0, 4.0
#: Points; a smaller font where labels would overlap. Journals ask for 6 or more.
_FONT_SIZES = (9, 8, 7, 6)
#: Average width of a character of the caption, whose font is "small", relative to the font size.
_CHARACTER_WIDTH = 0.5
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "csgm",
    "svg.fonttype": "none",  # text stays text
    "pdf.fonttype": 42,  # TrueType, which journals ask for
    "font.family": ["DejaVu Sans"],  # comes with matplotlib
    "axes.formatter.use_mathtext": True,
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "markers.fillstyle": "none",  # a line or marker below stays visible
    "savefig.dpi": 160,
}


def check_can_draw(suffix: str) -> None:
    """Raise ``UsageError`` for another kind of file, or where matplotlib is missing."""
    if suffix.lower() not in _METADATA:
        message = f"the name of a picture ends in {', '.join(_METADATA)}, got {suffix!r}"
        raise UsageError("unknown-choice", message, "or --plot - for the terminal")
    if find_spec("matplotlib") is None:
        raise UsageError("missing-extra", "pictures need an extra: pip install 'csgm-cli[plot]'")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # its caches are nobody's concern here
    try:
        import matplotlib.figure  # noqa: F401 - whether it can be imported, before the work for a picture
    except ImportError as error:
        message = f"matplotlib is installed, and cannot be imported: {error}"
        hint = "pip install --force-reinstall 'csgm-cli[plot]'"
        raise UsageError("missing-extra", message, hint) from None


def default_size(figure: Figure) -> tuple[float, float]:
    """Return the width and height in inches where none are given: both panels of two are as large as one."""
    return _PANEL_WIDTH * len(figure.panels), _PANEL_HEIGHT


def picture(figure: Figure, suffix: str, size: tuple[float, float] | None = None) -> tuple[bytes, bool]:
    """Return the content of a file, independent of matplotlib's settings, and whether nothing overlaps in it.

    ``size``: width and height in inches, by default ``default_size``. ``UsageError`` as in `check_can_draw`.
    """
    check_can_draw(suffix)
    content = BytesIO()
    with styled(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a size too small for a layout: the result says it
        canvas = canvas_of(figure, size or default_size(figure))
        is_clear = _is_clear(canvas)
        canvas.savefig(content, format=suffix.lower()[1:], metadata=_METADATA[suffix.lower()])
    return content.getvalue(), is_clear


@contextmanager
def styled() -> Iterator[None]:
    """Replace all settings of matplotlib by those of csgm's figures."""
    import matplotlib as mpl

    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        yield


def canvas_of(figure: Figure, size: tuple[float, float]) -> Any:  # noqa: ANN401 - matplotlib may be missing, and its types with it
    """Return a matplotlib figure in the largest font with which nothing overlaps, or the smallest."""
    import matplotlib as mpl

    for points in _FONT_SIZES:
        mpl.rcParams["font.size"] = points
        canvas = _laid_out(figure, size)
        canvas.draw_without_rendering()
        if _is_clear(canvas):
            break
    return canvas


def _laid_out(figure: Figure, size: tuple[float, float]) -> Any:  # noqa: ANN401 - as above
    """Place panels side by side, one legend above, the caption below."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=size, layout="constrained")
    FigureCanvasAgg(canvas)  # measures text
    axes = canvas.subplots(1, len(figure.panels), squeeze=False)[0]
    for panel, on in zip(figure.panels, axes, strict=True):
        _draw(panel, on)
    _add_legend(canvas, *axes[0].get_legend_handles_labels())
    columns = int(72 * size[0] / (_CHARACTER_WIDTH * mpl.rcParams["font.size"]))
    canvas.supxlabel(typeset_lines(figure.caption, columns), fontsize="small", color="#444444")
    return canvas


def _is_clear(canvas: Any) -> bool:  # noqa: ANN401 - as above
    """Tell whether panels, legend and caption lie inside the canvas and apart from each other."""
    parts = (*canvas.axes, *canvas.legends, *canvas.texts)
    boxes = [part.get_tightbbox() for part in parts]
    inside = all(
        canvas.bbox.contains(*corner) for box in boxes for corner in (box.min.tolist(), box.max.tolist())
    )
    return inside and not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def _draw(panel: Panel, axes: Any) -> None:  # noqa: ANN401 - as above
    from cycler import cycler

    axes.set_prop_cycle(cycler(color=_COLOURS, marker=_MARKERS, linestyle=(_DASHES * 3)[: len(_COLOURS)]))
    level_dashes = iter(_LEVEL_DASHES)
    for line in panel.lines:
        label = typeset(line.label)
        if line.level:
            axes.axhline(line.points[0][1], color="#444444", linestyle=next(level_dashes), label=label)
        else:
            axes.plot(*zip(*line.points, strict=True), label=label)
    axes.set(title=typeset(panel.title), xlabel=typeset(panel.x.label), ylabel=typeset(panel.y.label))
    if axes.yaxis.label.get_window_extent().height > axes.bbox.height:
        axes.set_ylabel(typeset(panel.y.label).replace(" (", "\n(", 1))
    if panel.x.log:
        axes.set_xscale("log")
        _label_logarithms(axes.xaxis)
    if panel.y.log:
        axes.set_yscale("log")
        _label_logarithms(axes.yaxis)


def _add_legend(canvas: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:  # noqa: ANN401 - as above
    """Put a legend of several lines above the panels, in as few rows as fit."""
    if len(labels) < 2:
        return
    for rows in range(1, len(labels) + 1):
        columns = math.ceil(len(labels) / rows)
        legend = canvas.legend(handles, labels, loc="outside upper center", ncols=columns)
        if columns == 1 or legend.get_window_extent().width <= canvas.bbox.width:
            return
        legend.remove()


def _label_logarithms(axis: Any) -> None:  # noqa: ANN401 - as above
    """Label powers of ten, or more numbers where fewer than three of them are in view."""
    from matplotlib.ticker import FixedLocator, LogFormatterSciNotation, MaxNLocator, NullLocator

    low, high = map(math.log10, axis.get_view_interval())
    powers = range(math.ceil(low), math.floor(high) + 1)
    step = math.ceil(len(powers) / max(3, axis.get_tick_space()))
    candidates = (
        [float(power) for power in powers if power % step == 0],
        *(
            [power + math.log10(digit) for power in range(math.floor(low), powers.stop) for digit in digits]
            for digits in ((1, 2, 5), range(1, 10))
        ),
    )
    for places in candidates:
        ticks = [10.0**place for place in places if low <= place <= high]
        if len(ticks) >= 3:
            axis.set_major_locator(FixedLocator(ticks))
            break
    else:
        axis.set_major_locator(MaxNLocator(5))
    axis.set_minor_locator(NullLocator())
    if low >= -3.5 and high < 5.0:
        axis.set_major_formatter("{x:g}")
    else:
        axis.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(math.inf, math.inf)))
