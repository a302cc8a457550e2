"""Pictures: what they show, that it can be read, and that the same picture has the same bytes."""

import copy
import itertools
import re
import struct

import matplotlib as mpl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.errors import UsageError
from csgm_cli.render.plots.figure import MOST_LINES, Axis, Figure, Line, Panel, check_lines, figure_of
from csgm_cli.render.plots.image_file import canvas_of, check_can_draw, default_size, picture, styled
from csgm_cli.render.plots.text_chart import chart
from csgm_cli.render.plots.typeset import typeset, typeset_lines


@pytest.fixture
def sweep(documents):
    """A sweep document of three gammas by two ratios, whose last point has no answer."""
    document = copy.deepcopy(documents["sweep"])
    good, bad = document["result"]["rows"]
    rows = []
    for number, (gamma, ratio) in enumerate(itertools.product([0.1, 0.01, 0.001], [10.0, 1000.0])):
        row = copy.deepcopy(good if number < 5 else bad)
        rows.append(row | {"gamma": gamma, "norm_ratio": ratio})
        if number < 5:
            rows[-1]["effective_noise_multiplier"] = float(number + 1)
    document["inputs"] |= {
        "vary": ["gamma", "norm_ratio"],
        "gamma": [0.1, 0.01, 0.001],
        "norm_ratio": [10.0, 1000.0],
    }
    document["inputs"]["epsilon"] = 5.0
    document["result"]["rows"] = rows
    return document


def test_lines_of_a_sweep(sweep):
    """The option with most values is x, each value of the other a line; failed points are left out."""
    figure = figure_of(sweep)
    (panel,) = figure.panels
    assert panel.lines == (
        Line("norm ratio 10", ((0.001, 5.0), (0.01, 3.0), (0.1, 1.0))),
        Line("norm ratio 1000", ((0.01, 4.0), (0.1, 2.0))),
    )
    assert panel.x == Axis("gamma (probability that a coordinate is sent)", log=True)
    assert panel.y == Axis("effective noise multiplier (sigma / (gamma L2 clip norm))", log=True)
    assert figure.caption.startswith("epsilon 5, delta 1e-8, l2-csgm, l2 norm 1, rounds 1, dim 1000000")
    assert "gamma" not in figure.caption
    assert "norm ratio" not in figure.caption


def test_linear_axes(sweep):
    """Values of one order of magnitude have a linear axis."""
    rows = sweep["result"]["rows"]
    for row, gamma in zip(rows, [0.3, 0.3, 0.2, 0.2, 0.1, 0.1], strict=True):
        row["gamma"] = gamma
        row["effective_noise_multiplier"] = 1.0
    (panel,) = figure_of(sweep).panels
    assert (panel.x.log, panel.y.log) == (False, False)


def test_y_of_account(documents):
    """With the noise given, what was asked for is drawn."""
    document = copy.deepcopy(documents["sweep-account"])
    assert figure_of(document).panels[0].y.label == "epsilon (nats)"
    document["inputs"] |= {"epsilon": 5.0, "delta": None, "vary": ["sigma"]}
    assert figure_of(document).panels[0].y.label == "delta (probability)"


def test_comparison(documents):
    """The Gaussian mechanism is a level, the others are lines over gamma; at equal MSE y is epsilon."""
    (panel,) = figure_of(documents["compare"]).panels
    assert [(line.label, line.level) for line in panel.lines] == [("l2-csgm", False), ("gaussian", True)]
    assert panel.lines[0].points == ((0.01, 1.219041001),)
    assert panel.lines[1].points[0][1] == 1.2181234
    equal = figure_of(documents["compare-equal-mse"])
    assert equal.panels[0].y.label == "epsilon (nats)"
    assert equal.caption.endswith("at the Gaussian mechanism's MSE")


def test_nothing_to_draw(documents):
    """Rows without a single answer make no picture."""
    document = copy.deepcopy(documents["sweep"])
    del document["result"]["rows"][0]
    assert figure_of(document) is None
    for name in ("compare", "compare-equal-mse"):
        document = copy.deepcopy(documents[name])
        del document["result"]["rows"][1]
        assert figure_of(document) is None


def test_comparison_without_the_gaussian(documents):
    """Where the Gaussian mechanism alone has no answer, the others are drawn."""
    document = copy.deepcopy(documents["compare"])
    document["result"]["rows"][0] |= dict.fromkeys(["bound", "effective_noise_multiplier"])
    assert [line.label for line in figure_of(document).panels[0].lines] == ["l2-csgm"]


def test_most_lines(sweep):
    """More lines than can be told apart are refused before anything is computed."""
    inputs = sweep["inputs"]
    check_lines(inputs | {"norm_ratio": [1.0] * MOST_LINES, "gamma": [1.0] * 20})
    check_lines(inputs | {"norm_ratio": [1.0] * 20, "gamma": [1.0] * MOST_LINES})
    with pytest.raises(UsageError, match="over gamma would have 11 lines"):
        check_lines(inputs | {"norm_ratio": [1.0] * 11, "gamma": [1.0] * 20})


# ---------------------------------------------------------------- files

LABELS = tuple(f"norm ratio {ratio}, rounds 100" for ratio in (1, 10, 100, 1000, 1234.56, 3, 30, 300))


def busy(panels=2, lines=8, low=1.0, high=2000.0):
    """A picture with as much on it as there may be."""
    made = tuple(Line(label, ((0.001, low), (0.5, high / (i + 1)))) for i, label in enumerate(LABELS[:lines]))
    levels = (
        Line("gaussian, paper", ((1.0, low),), level=True),
        Line("gaussian, exact", ((1.0, high),), level=True),
    )
    x, y = (
        Axis("gamma (probability that a coordinate is sent)", log=True),
        Axis("effective noise multiplier (sigma / (gamma L2 clip norm))", log=low > 0),
    )
    return Figure((Panel("norm ratio 1000", x, y, made + levels),) * panels, "epsilon 5, delta 1e-8, " * 9)


@pytest.fixture(autouse=True, scope="module")
def style():
    """Draw with csgm's settings of matplotlib."""
    with styled():
        yield


FIGURES = [busy(), busy(1), busy(1, 1), busy(2, 3, 1.1, 1.2), busy(1, 8, 1e-300, 1e4), busy(1, 2, 0.0, 3.0)]


@pytest.mark.parametrize("figure", FIGURES, ids=range(len(FIGURES)))
def test_no_text_lies_on_another(figure):
    """Titles, labels, numbers, legend and caption keep clear of each other and inside the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = canvas_of(figure, default_size(figure))
    FigureCanvasAgg(canvas).draw()
    texts = [text for text in canvas.findobj(Text) if text.get_visible() and text.get_text().strip()]
    inside = [text for text in texts if _is_shown(text, canvas)]
    boxes = [(text.get_text(), text.get_window_extent()) for text in inside]
    assert len(boxes) > 8
    for said, box in boxes:
        assert canvas.bbox.x0 <= box.x0, said
        assert box.x1 <= canvas.bbox.x1, said
        assert canvas.bbox.y0 <= box.y0, said
        assert box.y1 <= canvas.bbox.y1, said
    for (one, left), (other, right) in itertools.combinations(boxes, 2):
        assert not left.overlaps(right), (one, other)


def _is_shown(text, canvas):
    """Tick labels beyond the ends of their axis exist, but are not drawn."""
    for axes in canvas.axes:
        for axis, at in ((axes.xaxis, 0), (axes.yaxis, 1)):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if text in (tick.label1, tick.label2):
                    return tick.label1 is text and low <= text.get_position()[at] <= high
    return True


def test_lines_differ_without_colour():
    """Each line has a marker of its own, its neighbours other dashes, and each level dashes of its own."""
    axes = canvas_of(busy(1), (5.0, 4.0)).axes[0]
    lines, levels = axes.lines[:8], axes.lines[8:]
    assert len({line.get_marker() for line in lines}) == 8
    assert len({line.get_color() for line in lines}) == 8
    dashes = [str(line._unscaled_dash_pattern) for line in axes.lines]
    assert all(left != right for left, right in itertools.pairwise(dashes[:8]))
    assert len(set(dashes[8:])) == 2
    assert {line.get_marker() for line in levels} == {"None"}


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".PNG"])
def test_same_bytes(suffix):
    """The same picture is the same file, whatever was set for matplotlib elsewhere, and has no date."""
    expected = picture(FIGURES[0], suffix)
    with mpl.rc_context({"font.size": 30, "svg.hashsalt": None, "axes.grid": False}):
        assert picture(FIGURES[0], suffix) == expected
    assert not re.search(rb"20\d\d-\d\d-\d\d|CreationDate|<dc:date", expected[0])


def test_text_of_svg_is_text():
    """A program can search and edit the words of an SVG: no glyph is drawn as a path."""
    content = picture(FIGURES[1], ".svg")[0].decode()
    assert all(f">{word}<" in content for word in ("norm ratio 1000", "gaussian, exact"))
    assert chr(0x3B3) in content  # gamma
    assert "glyph" not in content
    assert "DejaVuSans-" not in content


def test_fonts_of_pdf_are_truetype():
    """Journals refuse Type 3 fonts: a PDF embeds TrueType, which is Type 42."""
    content = picture(FIGURES[1], ".pdf")[0]
    assert b"/FontFile2" in content
    assert b"/Type3" not in content


@pytest.mark.parametrize("size", [(3.5, 2.5)])
def test_size(size):
    """A PNG has 160 pixels per inch, and SVG and PDF 72 points."""
    content = {suffix: picture(FIGURES[2], suffix, size)[0] for suffix in (".png", ".svg", ".pdf")}
    assert struct.unpack(">II", content[".png"][16:24]) == tuple(round(160 * inches) for inches in size)
    width, height = (72 * inches for inches in size)
    assert f'width="{width:g}pt" height="{height:g}pt"'.encode() in content[".svg"]
    assert re.search(rf"/MediaBox \[ 0 0 {width:g} {height:g} \]".encode(), content[".pdf"])


@pytest.mark.parametrize(
    ("figure", "size", "is_clear"),
    [
        (busy(1, 2), (3.5, 2.5), True),
        (busy(2, 8), (10.0, 4.0), True),
        (busy(2, 8), (3.5, 2.5), False),
        (busy(1, 8), (2.0, 2.0), False),
    ],
)
def test_overlapping_labels_are_reported(figure, size, is_clear):
    """One panel fits into a column of a journal; two with a long legend do not, and it is said."""
    assert picture(figure, ".png", size)[1] is is_clear


@given(st.floats(-12, 12), st.floats(0.31, 30))
@settings(max_examples=6, deadline=None)
def test_at_least_three_numbers_along_a_logarithmic_axis(start, decades):
    """Wherever it begins and ends, and all of them as powers of ten or none."""
    line = Line("", ((10.0**start, 10.0**start), (10.0 ** (start + decades), 10.0 ** (start + decades))))
    canvas = canvas_of(
        Figure((Panel("", Axis("x", log=True), Axis("y", log=True), (line,)),), ""), (5.0, 4.0)
    )
    canvas.draw_without_rendering()
    [axes] = canvas.axes
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        said = [
            label.get_text()
            for label, at in zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True)
            if low <= at <= high
        ]
        assert len(set(said)) == len(said) >= 3
        assert len({"10^{" in text for text in said}) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gamma 0.01", r"$\gamma$ = 0.01"),
        ("epsilon 5, delta 1e-8", r"$\varepsilon$ = 5, $\delta$ = $10^{-8}$"),
        ("delta 2.5e-06", r"$\delta$ = $2.5\times10^{-6}$"),
        ("sigma / (gamma L2 clip norm)", r"$\sigma$ / ($\gamma$ $\Delta_2$)"),
        ("norm ratio (L2 clip norm / L-inf clip norm)", r"norm ratio ($\Delta_2$ / $\Delta_\infty$)"),
        ("in the unit of the L2 clip norm squared", r"in the unit of $\Delta_2^2$"),
        ("dim 1000000, rounds 200, l2 norm 1", r"dim $10^{6}$, rounds 200, $\Delta_2$ = 1"),
        ("T 4,096, cohort size 1234567", "T 4,096, cohort size 1234567"),
        ("l2-csgm, toeplitz-sqrt, adjacency add-remove", "l2-csgm, toeplitz-sqrt, adjacency add-remove"),
        ("a$b", r"a\$b"),
    ],
)
def test_symbols_and_numbers(text, expected):
    """Names become the symbols of the paper, and exponents powers of ten."""
    assert typeset(text) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (60, [r"$\varepsilon$ = 5, $\delta$ = $10^{-8}$, norm ratio 100, l2-csgm"]),
        (22, [r"$\varepsilon$ = 5, $\delta$ = $10^{-8}$,", "norm ratio 100,", "l2-csgm"]),
        (21, [r"$\varepsilon$ = 5,", r"$\delta$ = $10^{-8}$,", "norm ratio 100,", "l2-csgm"]),
    ],
)
def test_captions_break_after_commas(columns, expected):
    """Where the words of a line, before they become symbols, would have more columns."""
    assert typeset_lines("epsilon 5, delta 1e-8, norm ratio 100, l2-csgm", columns).split("\n") == expected


@pytest.mark.parametrize("suffix", ["", ".jpg", ".svgz", "png"])
def test_unknown_kind(suffix):
    """Other kinds of file are refused with those that there are."""
    with pytest.raises(UsageError, match=r"\.png, \.svg, \.pdf"):
        check_can_draw(suffix)


# ---------------------------------------------------------------- charts

numbers = st.floats(1e-300, 1e300)
lines = st.lists(
    st.builds(
        Line,
        st.text("abc ,", max_size=40),
        st.lists(st.tuples(numbers, numbers), min_size=1, max_size=9).map(tuple),
    ),
    min_size=1,
    max_size=MOST_LINES,
)
axis = st.builds(Axis, st.just("label of the axis (unit)"), st.booleans())


@given(st.integers(-5, 200), lines, axis, axis, st.lists(numbers, max_size=3), st.text("xyz, ", max_size=200))
def test_chart_fits(width, drawn, x, y, levels, caption):
    """Any chart keeps to the width, is plain ASCII, and shows a mark for every line or one on top of it."""
    level_lines = tuple(Line("level", ((1.0, at),), level=True) for at in levels)
    text = chart(Figure((Panel("title", x, y, (*drawn, *level_lines)),), caption), width)
    assert text.endswith("\n")
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= max(width, 34)
    assert text == chart(Figure((Panel("title", x, y, (*drawn, *level_lines)),), caption), width)
    body = [line.partition("|")[2] for line in text.splitlines() if "|" in line]
    assert len(body) == 16
    assert "o" in "".join(body)


def test_places_of_a_chart():
    """The lowest point is at the bottom left, the highest at the top right, the middle in between."""
    points = ((1.0, 1.0), (10.0, 10.0), (100.0, 100.0))
    log = Axis("x", log=True)
    text = chart(Figure((Panel("", log, log, (Line("line", points),)),), "caption"), 41)
    body = [line.partition("|")[2] for line in text.splitlines() if "|" in line]
    (top, right), (middle, center), (bottom, left) = [
        (i, row.index("o")) for i, row in enumerate(body) if "o" in row
    ]
    assert (top, bottom, left) == (0, 15, 0)
    assert (right, center) in ((36, 18), (37, 18), (35, 18))
    assert middle in (7, 8)
    assert text.splitlines()[-3:] == ["o line", "", "caption"]


def test_comparison_of_strategies(documents):
    """With a factorization the strategies are lines, and what they are compared by is the MSE."""
    document = copy.deepcopy(documents["compare-factorized"])
    answered, bare = document["result"]["rows"]
    document["result"]["rows"] = [answered | {"mechanism": "gaussian"}, answered, bare]
    figure = figure_of(document)
    (panel,) = figure.panels
    assert panel.lines == (
        Line("l2-csgm, optimal", ((0.01, 1.585061001),)),
        Line("gaussian, optimal", ((1.0, 1.585061001),), level=True),
    )
    assert panel.y.label.startswith("MSE")
    assert "T 32, epochs 16" in figure.caption
    assert "strategy" not in figure.caption  # there are several
    for row in document["result"]["rows"]:
        row["mse"] = None
    (panel,) = figure_of(document).panels
    assert panel.y.label.startswith("effective noise multiplier")


def test_every_option_that_can_be_varied_has_a_label():
    """An axis of any sweep has words."""
    from csgm_cli.cli.options.parameter_types import VARIABLE
    from csgm_cli.render.plots.figure import _LABELS

    assert set(VARIABLE) <= set(_LABELS)
