"""A chart of plain characters, the same bytes for the same width."""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING

from csgm_cli.rounding import round_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from csgm_cli.render.plots.figure import Axis, Figure, Line, Panel

_MARKS = "ox+*#@%&$svz"
_LEVEL_MARKS = "-=~"
_HEIGHT = 16
#: Width of the longest numbers at the ends of both axes.
_LEAST_WIDTH = 34


def chart(figure: Figure, width: int) -> str:
    """Return the panels below each other and the caption, at most ``width`` (or 34) columns wide."""
    width = max(width, _LEAST_WIDTH)
    blocks = ["\n".join(_panel(panel, width)) for panel in figure.panels]
    return "\n\n".join([*blocks, "\n".join(wrap(figure.caption, width))]) + "\n"


def _panel(panel: Panel, width: int) -> Iterator[str]:
    xs, ys = _Scale(panel.x, panel.xs), _Scale(panel.y, panel.ys)
    ends = (round_up(ys.high, 4), round_up(ys.low, 4))
    margin = max(map(len, ends))
    columns = width - margin - 1
    yield from wrap(f"{panel.title}: {_said(panel.y)}" if panel.title else _said(panel.y), width)
    for number, row in enumerate(_rows(panel.lines, xs, ys, columns)):
        label = {0: ends[0], _HEIGHT - 1: ends[1]}.get(number, "")
        yield f"{label:>{margin}}|{row}".rstrip()
    yield " " * margin + "+" + "-" * columns
    low, high = round_up(xs.low, 4), round_up(xs.high, 4)
    yield " " * (margin + 1) + f"{low}{high:>{columns - len(low)}}"
    yield from (f"{'':{margin + 1}}{line}" for line in wrap(_said(panel.x), columns))
    for line, mark in _marked(panel.lines):
        yield from wrap(f"{mark} {line.label}", width)


def _said(axis: Axis) -> str:
    return f"{axis.label}, logarithmic" if axis.log else axis.label


def _rows(lines: Sequence[Line], xs: _Scale, ys: _Scale, columns: int) -> list[str]:
    def drawn(*, level: bool) -> Iterator[tuple[Line, str]]:
        return ((line, mark) for line, mark in reversed(_marked(lines)) if line.level is level)

    grid = [[" "] * columns for _ in range(_HEIGHT)]
    # Levels lie behind the lines, and where two points meet the line that is named first is seen.
    for line, mark in [*drawn(level=True), *drawn(level=False)]:
        for x, y in line.points:
            row = _HEIGHT - 1 - ys.place(y, _HEIGHT)
            for column in range(columns) if line.level else [xs.place(x, columns)]:
                grid[row][column] = mark
    return ["".join(row) for row in grid]


def _marked(lines: Sequence[Line]) -> list[tuple[Line, str]]:
    marks, level_marks = iter(_MARKS), iter(_LEVEL_MARKS)
    return [(line, next(level_marks if line.level else marks)) for line in lines]


class _Scale:
    """Where a value stands among equally wide cells."""

    def __init__(self, axis: Axis, values: Sequence[float]) -> None:
        self.low, self.high = min(values), max(values)
        self._log = axis.log

    def place(self, value: float, cells: int) -> int:
        if self.high == self.low:
            return cells // 2
        low, at, high = (math.log(v) if self._log else v for v in (self.low, value, self.high))
        return round((at - low) / (high - low) * (cells - 1))
