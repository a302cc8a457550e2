"""The figure of a result, independent of the renderer: panels with axes, lines and levels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError, printable
from csgm_cli.model.mechanism_table import has_gamma
from csgm_cli.render.document import command_of
from csgm_cli.render.reports.parts import is_factorized, plain_mechanism
from csgm_cli.rounding import exact, round_down

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from csgm_cli.render.document import Document

#: Most lines that can be told apart in one panel.
MOST_LINES = 10
#: An axis of positive numbers is logarithmic where the largest is at least this many times the smallest.
_LOG_FROM = 5.0


@dataclass(frozen=True)
class Axis:
    """A labelled axis; ``log``: equal ratios are equal lengths."""

    label: str
    log: bool


@dataclass(frozen=True)
class Line:
    """At least one point, in the order of x; a ``level`` is a horizontal line across the panel."""

    label: str
    points: tuple[tuple[float, float], ...]
    level: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes and what is drawn on it; every number is finite."""

    title: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]

    @property
    def xs(self) -> list[float]:
        """Where the points are along x; a level is everywhere."""
        return [x for line in self.lines if not line.level for x, _ in line.points]

    @property
    def ys(self) -> list[float]:
        """Where points and levels are along y."""
        return [y for line in self.lines for _, y in line.points]


@dataclass(frozen=True)
class Figure:
    """Panels side by side, with the same lines, above a ``caption`` that has all fixed parameters."""

    panels: tuple[Panel, ...]
    caption: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "caption", printable(self.caption))  # a workload may come from a file


_LABELS = {
    "gamma": "gamma (probability that a coordinate is sent)",
    "compression": "compression (1 / gamma)",
    "norm_ratio": "norm ratio (L2 clip norm / L-inf clip norm)",
    "linf_norm": "L-inf clip norm",
    "l2_norm": "L2 clip norm",
    "epsilon": "epsilon (nats)",
    "delta": "delta (probability)",
    "noise_multiplier": "noise multiplier (sigma / L2 clip norm)",
    "effective_noise_multiplier": "effective noise multiplier (sigma / (gamma L2 clip norm))",
    "sigma": "sigma (in the unit of the L2 clip norm)",
    "dim": "dim (coordinates)",
    "cohort_size": "cohort size (clients)",
    "rounds": "rounds (releases that one client can influence)",
    "sampling_rate": "sampling rate (probability that a client takes part in a round)",
    "population_size": "population size (clients)",
    "training_rounds": "training rounds",
    "epochs": "epochs (a client takes part once in each)",
    "participations": "participations of one client in the T steps",
    "min_separation": "min separation (steps from one participation to the next)",
    "total": "MSE (in the unit of the L2 clip norm squared)",
    "bits_per_client": "bits per client",
    "mse": "MSE (mean over the rows, in the unit of the L2 clip norm squared)",
    "value_bits": "value bits (bits per sent value)",
}
#: Inputs that a caption names, in this order.
_CAPTION = (
    "epsilon", "delta", "noise_multiplier", "sigma", "mechanism", "gamma", "norm_ratio", "l2_norm", "rounds",
    "sampling_rate", "strategy", "T", "epochs", "min_separation", "dim", "cohort_size", "adjacency",
    "accountant",
)  # fmt: skip


def figure_of(document: Document) -> Figure | None:
    """Return the picture of a sweep or compare document; None where no row has an answer to draw."""
    inputs, rows = document["inputs"], document["result"]["rows"]
    is_comparison = command_of(document) == "compare"
    if all(row["bound"] is None for row in rows if has_gamma(row["mechanism"]) or not is_comparison):
        return None
    if is_comparison:
        return _comparison(inputs, rows)
    if inputs["preset"] is not None:
        return _figure_one(inputs, rows)
    return _sweep(inputs, rows)


def check_lines(inputs: Document) -> None:
    """Raise ``UsageError`` (slug ``too-many-lines``) where a sweep has more lines than can be told apart."""
    if inputs["preset"] is not None:
        return
    x, others = _x_and_others(inputs)
    count = 1
    for name in others:
        count *= len(inputs[name])
    if count > MOST_LINES:
        message = f"a picture over {x.replace('_', '-')} would have {count} lines, more than {MOST_LINES}"
        raise UsageError("too-many-lines", message, "vary fewer values of the other options")


def _x_and_others(inputs: Document) -> tuple[str, list[str]]:
    """The option with the most values goes along x, the first of equals; each other value is a line."""
    x = max(inputs["vary"], key=lambda name: len(inputs[name]))
    return x, [name for name in inputs["vary"] if name != x]


def _sweep(inputs: Document, rows: Sequence[Document]) -> Figure:
    x, others = _x_and_others(inputs)
    y = _answer(inputs)
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["error"] is None:
            label = ", ".join(f"{name.replace('_', ' ')} {_short(_asked(row, name))}" for name in others)
            lines.setdefault(label or _LABELS[y].partition(" (")[0], []).append((_asked(row, x), row[y]))
    return Figure((panel_of("", _LABELS[x], _LABELS[y], lines_of(lines)),), _caption(inputs))


def _answer(inputs: Document) -> str:
    if inputs["noise_multiplier"] is None and inputs["sigma"] is None:
        return "effective_noise_multiplier"
    return "epsilon" if inputs["epsilon"] is None else "delta"


def _asked(row: Document, name: str) -> float:
    value: float = row["target_epsilon"] if name == "epsilon" and "target_epsilon" in row else row[name]
    return value


def _figure_one(inputs: Document, rows: Sequence[Document]) -> Figure:
    y = "effective_noise_multiplier"
    curves = [row for row in rows if has_gamma(row["mechanism"])]
    levels = [row for row in rows if not has_gamma(row["mechanism"])]
    panels = []
    for x, fixed in (("norm_ratio", "gamma"), ("gamma", "norm_ratio")):
        # The value that most rows share is the one that this panel fixes.
        values = [row[fixed] for row in curves]
        value = max(dict.fromkeys(values), key=values.count)
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in curves:
            if row[fixed] == value:
                lines.setdefault(f"l2-csgm, {row['accountant']}", []).append((row[x], row[y]))
        drawn = lines_of(lines) + tuple(
            Line(f"gaussian, {row['accountant']}", ((value, row[y]),), level=True) for row in levels
        )
        title = f"{fixed.replace('_', ' ')} {_short(value)}"
        panels.append(panel_of(title, _LABELS[x], _LABELS[y], drawn))
    return Figure(tuple(panels), _caption({**inputs, "accountant": None, "mechanism": None}))


def _comparison(inputs: Document, rows: Sequence[Document]) -> Figure:
    if any(row.get("privunit") for row in rows):
        return _error_against_bits(inputs, rows)
    y = "epsilon" if inputs["at_equal_mse"] else "effective_noise_multiplier"
    if is_factorized(inputs) and not inputs["at_equal_mse"] and any(row["mse"] for row in rows):
        y = "mse"  # the noise multipliers of different strategies are no measure
        rows = [{**row, "mse": row["mse"] and row["mse"]["total"]} for row in rows]
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows[1:]:
        if row[y] is not None:
            label = ", ".join(filter(None, (row["mechanism"], row["strategy"])))
            lines.setdefault(label, []).append((row["gamma"], row[y]))
    label = ", ".join(filter(None, ("gaussian", rows[0]["strategy"])))
    level = () if rows[0][y] is None else (Line(label, ((1.0, rows[0][y]),), level=True),)
    caption = _caption({**inputs, "strategy": None})  # the lines name theirs
    caption += f", all at the {plain_mechanism(inputs)} mechanism's MSE" if inputs["at_equal_mse"] else ""
    return Figure((panel_of("", _LABELS["gamma"], _LABELS[y], (*lines_of(lines), *level)),), caption)


def _error_against_bits(inputs: Document, rows: Sequence[Document]) -> Figure:
    """MSE against bits per client: CSGM over gamma, PrivUnit over messages, and the Gaussian's level."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows[1:]:
        if row["mse"] is not None:
            label = ", ".join([row["mechanism"], *([row["bound"]] if row["privunit"] else [])])
            lines.setdefault(label, []).append((row["bits_per_client"], row["mse"]["total"]))
    first = rows[0]
    level = Line("gaussian", ((first["bits_per_client"], first["mse"]["total"]),), level=True)
    x, y = _LABELS["bits_per_client"], _LABELS["total"]
    return Figure((panel_of("", x, y, (*lines_of(lines), level)),), _caption(inputs))


def lines_of(lines: dict[str, list[tuple[float, float]]]) -> tuple[Line, ...]:
    """Return a line for each label, its points in the order of x."""
    return tuple(Line(label, tuple(sorted(points))) for label, points in lines.items())


def panel_of(title: str, x: str, y: str, lines: tuple[Line, ...]) -> Panel:
    """Return a panel with axis labels ``x`` and ``y``; numbers that span a factor of 5 get a log axis."""
    linear = Panel(title, Axis(x, log=False), Axis(y, log=False), lines)
    return replace(linear, x=Axis(x, _is_log(linear.xs)), y=Axis(y, _is_log(linear.ys)))


def _is_log(values: Iterable[float]) -> bool:
    low, high = min(values), max(values)
    return low > 0.0 and high >= _LOG_FROM * low


def _caption(inputs: Document) -> str:
    said = []
    for name in _CAPTION:
        value = inputs.get(name)
        if value is None or isinstance(value, list) or (name == "gamma" and "at_equal_mse" in inputs):
            continue
        if name == "sampling_rate" and value == 1.0:
            continue
        words = value if isinstance(value, str) else _short(value)
        said.append(words if name == "mechanism" else f"{name.replace('_', ' ')} {words}")
    return ", ".join(said)


def _short(value: float) -> str:
    text = exact(value)
    return text if len(text) <= 8 else round_down(value)
