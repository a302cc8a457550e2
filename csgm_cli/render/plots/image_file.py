"""Pictures as PNG, SVG or PDF, through matplotlib, which is imported only here."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from io import BytesIO
from itertools import cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any

from csgm_cli.errors import UsageError

if TYPE_CHECKING:
    from csgm_cli.render.plots.figure import Figure, Panel

#: What is left out of each kind of file, so that the same picture has the same bytes.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
#: Okabe and Ito's colours, told apart by all kinds of colour vision; in grey, marker and dashes differ.
_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C5109",
    "#5A3FA0", "#7A7A7A",
)  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", "p")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (8, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 2)),
    "-.",
    (0, (1, 2.5)),
    (0, (9, 1, 1, 1)),
)
#: Where lines meet, the later marker lies inside the earlier one.
_SIZES = (9.0, 8.4, 7.8, 7.2, 6.6, 6.0, 5.4, 4.8, 4.2, 3.6)
_LEVELS: tuple[tuple[str, Any], ...] = (
    ("#000000", (0, (6, 2))),
    ("#6b6b6b", (0, (1.5, 1.5))),
    ("#a0a0a0", (0, (6, 2, 1, 2))),
)
#: Characters per line: of the y label, and per panel of the legend and the caption.
_Y_LETTERS = 40
_LEGEND_LETTERS, _CAPTION_LETTERS = 72, 80
#: What the sample of a line takes in the legend.
_HANDLE_LETTERS = 9
#: An axis that spans less has labels between the powers of ten.
_FEW_DECADES = 500.0
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "csgm",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.markeredgewidth": 1.2,
    "markers.fillstyle": "none",
    "lines.linewidth": 1.4,
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


def picture(figure: Figure, suffix: str) -> bytes:
    """Return the content of a file: the same bytes each time, whatever settings matplotlib has here.

    ``UsageError`` as in `check_can_draw`.
    """
    check_can_draw(suffix)
    import matplotlib as mpl

    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        content = BytesIO()
        canvas = canvas_of(figure)
        canvas.savefig(content, format=suffix.lower()[1:], metadata=_METADATA[suffix.lower()])
    return content.getvalue()


def canvas_of(figure: Figure) -> Any:  # noqa: ANN401 - matplotlib may be missing, and its types with it
    """Return a matplotlib figure: panels side by side, one legend above, the caption below."""
    from matplotlib.figure import Figure as Canvas

    count = len(figure.panels)
    canvas = Canvas(figsize=(1.0 + 4.6 * count, 4.4), layout="constrained")
    axes = canvas.subplots(1, count, squeeze=False)[0]
    for panel, on in zip(figure.panels, axes, strict=True):
        _draw(panel, on)
    handles, labels = axes[0].get_legend_handles_labels()
    if len(labels) > 1:
        fitting = _LEGEND_LETTERS * count // (_HANDLE_LETTERS + max(map(len, labels)))
        columns = min(len(labels), max(1, fitting))
        canvas.legend(handles, labels, loc="outside upper center", ncols=columns)
    caption = fill(figure.caption, _CAPTION_LETTERS * count, break_on_hyphens=False)
    canvas.supxlabel(caption, fontsize=7.5, color="#444444")
    return canvas


def _draw(panel: Panel, axes: Any) -> None:  # noqa: ANN401 - as above
    styles, levels = zip(_COLOURS, _MARKERS, _DASHES, _SIZES, strict=True), cycle(_LEVELS)
    for line in panel.lines:
        if line.level:
            colour, dashes = next(levels)
            axes.axhline(line.points[0][1], color=colour, linestyle=dashes, label=line.label, zorder=1.5)
            continue
        colour, marker, dashes, size = next(styles)
        if not line.points:
            continue
        xs, ys = zip(*line.points, strict=True)
        axes.plot(xs, ys, color=colour, marker=marker, markersize=size, linestyle=dashes, label=line.label)
    axes.set(title=panel.title, xlabel=panel.x.label, ylabel=_in_lines(panel.y.label))
    if panel.x.log:
        axes.set_xscale("log")
        _label_logarithms(axes.xaxis, max(panel.xs) / min(panel.xs))
    if panel.y.log:
        axes.set_yscale("log")
        _label_logarithms(axes.yaxis, max(panel.ys) / min(panel.ys))


def _in_lines(label: str) -> str:
    return label if len(label) <= _Y_LETTERS else label.replace(" (", "\n(", 1)


def _label_logarithms(axis: Any, span: float) -> None:  # noqa: ANN401 - as above
    """Label 1, 2, 5 of every power of ten where they are few, as plain numbers where they are short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if span < _FEW_DECADES else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_formatter(NullFormatter())
