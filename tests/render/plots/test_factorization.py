"""Pictures of factorizations: what they show, against closed forms."""

import numpy as np
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.factorization import (
    dense_factors,
    factor_rows,
    factorize,
    matrix_workload,
    parse_workload,
    schedule_workload,
    strategies_by_size,
)
from csgm_cli.model.factorization import Objective, Workload, strategy_named
from csgm_cli.render.plots.factorization import rows_figure, strategies_figure
from csgm_cli.render.plots.image_file import canvas_of, default_size, picture
from csgm_cli.render.plots.text_chart import chart


@pytest.fixture(scope="module")
def by_size():
    """Prefix sums up to 16 rows."""
    return strategies_by_size(Workload(16))


def lines(panel):
    """The points of a panel by label."""
    return {line.label: dict(line.points) for line in panel.lines}


def test_errors_against_the_size(by_size, reference):
    """Powers of two up to T; independent noise costs (T + 1)/2, output noise T, the tree its formula."""
    errors, excess = (lines(panel) for panel in strategies_figure(by_size).panels)
    assert list(errors["optimal"]) == [2, 4, 8, 16]
    for T, error in errors["optimal"].items():
        best = reference["factorization"]["values"][str(T)]["optimal_dense_mean"]["mse"]
        assert error == pytest.approx(best, rel=1e-9)
        assert errors["identity"][T] == pytest.approx((T + 1) / 2)
        assert errors["output"][T] == pytest.approx(T)
        height = T.bit_length() - 1
        assert errors["tree"][T] == pytest.approx((height + 1) * (height / 2 + 1 / T))
        assert excess["output"][T] == pytest.approx(T / best - 1, rel=1e-6)
    assert errors.keys() == excess.keys()  # so that a strategy looks the same in both


def test_optimum_is_drawn_at_its_certified_gap(by_size):
    """The excess of the optimum has a point for each T: its gap, or the rounding error where that is zero."""
    excess = lines(strategies_figure(by_size).panels[1])
    gaps = {rows[0].T: rows[0].gap for rows in by_size}
    assert excess["optimal"] == {T: max(gap, 2.0**-52) for T, gap in gaps.items()}
    assert max(gaps.values()) < 1e-8
    drawn = canvas_of(strategies_figure(by_size), (10.0, 4.0)).axes[1].lines[0]
    assert drawn.get_label() == "optimal"
    assert list(drawn.get_xdata()) == list(gaps)


def test_sizes():
    """Steps of four for a large T, and T itself, whatever it is."""
    assert [rows[0].T for rows in strategies_by_size(Workload(100))] == [4, 16, 64, 100]
    assert [rows[0].T for rows in strategies_by_size(Workload(6))] == [2, 4, 6]
    assert [rows[0].T for rows in strategies_by_size(Workload(1))] == [1]


@pytest.mark.parametrize("name", ["schedule", "matrix"])
def test_first_rows_of_a_workload(name):
    """Smaller sizes are of the first rows: independent noise has their mean squared row norm."""
    rates = np.array([1.0, 0.5, 0.25, 2.0])
    whole = np.tril(np.ones((4, 4))) * rates
    workload = schedule_workload(rates) if name == "schedule" else matrix_workload(whole)
    found = strategies_by_size(workload)
    for rows in found:
        identity = next(row for row in rows if str(row.strategy) == "identity")
        first = whole[: rows[0].T, : rows[0].T]
        assert identity.mean_squared_error == pytest.approx((first**2).sum() / rows[0].T)
    assert [rows[0].T for rows in found] == [2, 4]


@pytest.mark.parametrize("T", [1, 2, 7, 40])
@pytest.mark.parametrize(
    ("spec", "strategy"),
    [
        ("prefix-sum", "optimal"),
        ("prefix-sum", "streaming:3"),
        ("prefix-sum", "toeplitz-sqrt"),
        ("prefix-sum", "toeplitz-sqrt-normalized"),
        ("prefix-sum", "honaker-full"),
        ("prefix-sum", "identity"),
        ("momentum=0.9", "optimal"),
        ("momentum=0.9", "toeplitz-sqrt-normalized"),
        ("momentum=0.9", "output"),
    ],
)
def test_rows_are_those_of_the_factor(spec, strategy, T):
    """Rows made one by one are those of the dense C at sensitivity 1."""
    found = factorize(parse_workload(spec, T), strategy_named(strategy))
    c = dense_factors(found).C / found.sensitivity
    for t, row in zip([0, T // 2, T - 1], factor_rows(found, [0, T // 2, T - 1]), strict=True):
        np.testing.assert_allclose(row, c[t, : t + 1], rtol=1e-5, atol=1e-9)


def test_trees_have_no_rows():
    """Their C has a row per node."""
    with pytest.raises(UsageError) as refused:
        factor_rows(factorize(Workload(4), strategy_named("tree")), [0])
    assert refused.value.slug == "no-rows"


def test_rows_from_the_diagonal_backwards():
    """The first point is the diagonal, the last the first column, with at most 24 of them."""
    found = factorize(Workload(500), strategy_named("toeplitz-sqrt"))
    (row,) = factor_rows(found, [499])
    figure = rows_figure(found, [(499, row)])
    ((line,),) = (panel.lines for panel in figure.panels)
    assert line.label == "row 500 of C"
    assert figure.panels[0].x.label.startswith("lag + 1 ")
    assert line.points[0] == (1.0, row[499])
    assert line.points[-1] == (500.0, row[0])
    assert len(line.points) <= 24
    # (1 - z)^(-1/2) = 1 + z/2 + 3 z^2/8 + ...
    assert [y / row[499] for _, y in line.points[1:3]] == pytest.approx([0.5, 0.375])
    for word in ("T 500", "prefix-sum", "toeplitz-sqrt", "objective mean", "gap"):
        assert word in figure.caption


@pytest.mark.parametrize("objective", list(Objective))
def test_drawn(objective):
    """Axes are logarithmic and named, nothing lies outside, and the bytes are the same each time."""
    found = strategies_by_size(Workload(20), objective)
    figure = strategies_figure(found)
    canvas = canvas_of(figure, default_size(figure))
    canvas.draw_without_rendering()
    for axes in canvas.axes:
        assert axes.get_xscale() == axes.get_yscale() == "log"
        assert "T (rows" in axes.get_xlabel()
        assert f"{objective.value} squared error" in axes.get_ylabel().replace("\n", " ")
    assert picture(figure, ".svg") == picture(figure, ".svg")
    assert picture(figure, ".svg")[1]
    said = chart(figure, 80)
    assert "toeplitz-optimal" in said
    assert max(map(len, said.splitlines())) <= 80


def test_negative_entries_have_a_linear_axis():
    """A workload whose C has entries below 0."""
    found = factorize(matrix_workload(np.array([[1.0, 0.0], [-2.0, 1.0]])))
    figure = rows_figure(found, list(enumerate(factor_rows(found, [0, 1]))))
    assert not figure.panels[0].y.log
    canvas_of(figure, default_size(figure)).draw_without_rendering()
