"""Figures of factorizations: the error of each strategy against T, and rows of C."""

from __future__ import annotations

from sys import float_info
from typing import TYPE_CHECKING

from csgm_cli.render.plots.figure import Figure, lines_of, panel_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from csgm_cli.model.factorization import Factorization, FloatArray

_ERRORS = {"mean": "mean squared error", "max": "max squared error"}
_UNIT = "per coordinate, unit sensitivity and noise"
_SIZE = "T (rows of the workload)"
_LAG = "lag + 1 (lag 0 is the diagonal of C)"
#: A gap of zero has no logarithm: it is drawn at the rounding error of float64.
_LEAST_GAP = float_info.epsilon
#: Most points of one row of C: their markers stay apart.
_MOST_POINTS = 24


def strategies_figure(by_size: Sequence[Sequence[Factorization]]) -> Figure:
    """Error, and its excess over the proven lower bound, against T; one line per strategy.

    ``by_size``: for each T, in ascending order, the strategies of ``strategies_by_size``. The excess of the
    optimum is its certified gap.
    """
    last = by_size[-1][0]
    what = _ERRORS[last.objective.value]
    errors: dict[str, list[tuple[float, float]]] = {}
    excess: dict[str, list[tuple[float, float]]] = {}
    for found in (row for rows in by_size for row in rows):
        name = str(found.strategy)
        errors.setdefault(name, []).append((found.T, found.squared_error))
        excess.setdefault(name, []).append((found.T, max(found.gap, _LEAST_GAP)))
    panels = (
        panel_of("", _SIZE, f"{what} ({_UNIT})", lines_of(errors)),
        panel_of("", _SIZE, f"excess of the {what} (relative to the lower bound)", lines_of(excess)),
    )
    gap = max(rows[0].gap for rows in by_size)
    caption = (
        f"workload {last.workload.name}, objective {last.objective.value}, optimal to a gap of {gap:.1e}"
    )
    return Figure(panels, caption)


def rows_figure(found: Factorization, rows: Sequence[tuple[int, FloatArray]]) -> Figure:
    """Rows of C from the diagonal backwards: (t, entries C[t, 0..t]) with t counted from 0."""
    lines = {}
    for t, entries in rows:
        backwards = entries[::-1]
        points = [(lag + 1.0, float(backwards[lag])) for lag in _spread(len(backwards)) if backwards[lag]]
        lines[f"row {t + 1:,} of C"] = points
    panel = panel_of("", _LAG, "entry of C (unit sensitivity)", lines_of(lines))
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
