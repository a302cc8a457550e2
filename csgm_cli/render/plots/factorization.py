"""Pictures of factorizations: the error of each strategy against T, and rows of C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.render.plots.figure import Axis, Figure, Line, Panel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from csgm_cli.model.factorization import Factorization, FloatArray

_ERRORS = {"mean": "mean squared error", "max": "max squared error"}
_UNIT = "per coordinate, unit sensitivity and noise"
#: Most points of one row of C: their markers stay apart.
_MOST_POINTS = 24


def strategies_figure(by_size: Sequence[Sequence[Factorization]]) -> Figure:
    """Error, and its excess over the proven bound of the optimum, against T; one line per strategy.

    ``by_size``: for each T, in ascending order, the strategies of ``strategies_by_size``.
    """
    last = by_size[-1][0]
    what = _ERRORS[last.objective.value]
    errors: dict[str, list[tuple[float, float]]] = {}
    excess: dict[str, list[tuple[float, float]]] = {}
    for optimum, found in ((rows[0], row) for rows in by_size for row in rows):
        name = str(found.strategy)
        errors.setdefault(name, []).append((found.T, found.squared_error))
        excess.setdefault(name, [])
        if found.gap > optimum.gap:
            excess[name].append((found.T, found.gap))
    steps = "T (rows of the workload)"
    panels = [_panel(steps, f"{what} ({_UNIT})", errors)]
    if any(excess.values()):
        panels.append(_panel(steps, f"excess of the {what} (relative to the optimum's bound)", excess))
    gap = max(rows[0].gap for rows in by_size)
    caption = (
        f"workload {last.workload.name}, objective {last.objective.value}, optimal to a gap of {gap:.1e}"
    )
    return Figure(tuple(panels), caption)


def rows_figure(found: Factorization, rows: Sequence[tuple[int, FloatArray]]) -> Figure:
    """Rows of C from the diagonal backwards: (t, entries C[t, 0..t]) with t counted from 0."""
    lines = {}
    for t, entries in rows:
        backwards = entries[::-1]
        points = [(lag + 1.0, float(backwards[lag])) for lag in _spread(len(backwards)) if backwards[lag]]
        lines[f"row {t + 1:,} of C"] = points
    y = "entry of C (unit sensitivity)"
    panel = _panel("columns back from the diagonal, counted from 1", y, lines)
    errors = f"mean squared error {found.mean_squared_error:.6g}, max {found.max_squared_error:.6g}"
    caption = (
        f"T {found.T:,}, workload {found.workload.name}, strategy {found.strategy},"
        f" objective {found.objective.value}, {errors}, gap {found.gap:.1e}"
    )
    return Figure((panel,), caption)


def _spread(count: int) -> list[int]:
    """Indices below ``count``, at most ``_MOST_POINTS`` with about equal ratios of index + 1."""
    if count == 1:
        return [0]
    ratio = count ** (1.0 / (_MOST_POINTS - 1))
    return sorted({min(count, round(ratio**k)) - 1 for k in range(_MOST_POINTS)})


def _panel(x: str, y: str, lines: dict[str, list[tuple[float, float]]]) -> Panel:
    """Logarithmic axes where all numbers are positive."""
    drawn = tuple(Line(label, tuple(points)) for label, points in lines.items())
    positive = all(y > 0.0 for line in drawn for _, y in line.points)
    return Panel("", Axis(x, log=True), Axis(y, log=positive), drawn)
