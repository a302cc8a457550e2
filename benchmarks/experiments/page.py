"""The tables and pictures of docs/experiments.md, from recorded results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.experiments.plan import (
    COHORT_100,
    COHORT_1000,
    COMMON,
    EPOCH,
    GAUSSIAN,
    L2,
    LARGER,
    LINF,
    OPTIMAL,
    SEEDS,
    SETTINGS,
    STREAM,
    STREAM_PRIVATE,
    TREE,
    Run,
    Setting,
    all_runs,
)
from benchmarks.measure import ROOT, Table, show
from csgm_cli.render.plots.figure import Axis, Figure, Line, Panel
from csgm_cli.render.plots.image_file import picture

Results = Mapping[str, Mapping[str, Any]]
_PAGE = ROOT / "docs" / "experiments.md"
_MARK = "<!-- results -->\n"
_BY_COMPRESSION, _BY_ROUND = "experiments-compression.svg", "experiments-rounds.svg"
_COLUMNS = ("mechanism", "gamma", "bytes", "compression", "noise inflation")
_STREAMS = {
    (GAUSSIAN, OPTIMAL): "matrix mechanism",
    (GAUSSIAN, TREE): "restarted trees (Honaker)",
    (L2, OPTIMAL): "SGMF",
}


def write_page(results: Results) -> None:
    """Replace what follows the mark in the page, and both pictures."""
    text = _PAGE.read_text(encoding="utf-8").partition(_MARK)[0]
    _PAGE.write_text(f"{text}{_MARK}\n{tables(results)}", encoding="utf-8")
    for name, figure in ((_BY_COMPRESSION, _by_compression(results)), (_BY_ROUND, _by_round(results))):
        (ROOT / "docs" / name).write_bytes(picture(figure, ".svg")[0])


def tables(results: Results) -> str:
    """A table for each setting, and what failed."""
    said = f"Every training: `csgm simulate train --data DIR {COMMON}`, with the options of its table.\n"
    return "\n".join([said, *(str(_table(setting, results)) for setting in SETTINGS), _closing(results)])


def _table(setting: Setting, results: Results) -> Table:
    """One row for each mechanism and gamma, with the accuracy of every seed."""
    runs: dict[tuple[str, float], list[Run]] = {}
    for run in all_runs():
        if run.setting is setting:
            runs.setdefault((_name(run), run.gamma), []).append(run)
    seeds = sorted({run.seed for found in runs.values() for run in found})
    last, summary = (EPOCH, "last epoch") if setting in (STREAM, STREAM_PRIVATE) else (1, "mean")
    rows = [_row(*shown, [results.get(run.options) for run in found], last) for shown, found in runs.items()]
    header = [*_COLUMNS, *(f"seed {seed}" for seed in seeds), summary]
    return Table(setting.title, f"`--epsilon {setting.epsilon:g} {setting.options}`", header, rows)


def _name(run: Run) -> str:
    return _STREAMS.get((run.mechanism, run.factorization), run.mechanism)


def _row(name: str, gamma: float, found: Sequence[Mapping[str, Any] | None], last: int) -> list[str]:
    """The summary is the mean accuracy after the ``last`` rounds of all seeds."""
    done = [line for line in found if line is not None and not line["exit_code"]]
    costs = ["", "", ""]
    if done:
        cost = done[0]["cost"]
        size, inflation = cost["bytes_per_client"], cost["noise_inflation"]
        costs = [f"{size:,.0f}", f"{cost['dense_bytes_per_client'] / size:.3g}x", show(inflation)]
    average = f"{mean(mean(line['accuracy'][-last:]) for line in done):.3f}" if done else ""
    return [name, f"{gamma:g}", *costs, *map(_accuracy, found), average]


def _accuracy(line: Mapping[str, Any] | None) -> str:
    if line is None:
        return "not run"
    return f"exit {line['exit_code']}" if line["exit_code"] else f"{line['accuracy'][-1]:.4f}"


def _closing(results: Results) -> str:
    """How many trainings there are, which failed and why, and what they ran on."""
    planned = [run.options for run in all_runs()]
    lines = [results[options] for options in planned if options in results]
    failed = [line for line in lines if line["exit_code"]]
    versions = sorted({f"NumPy {line['versions']['numpy']}" for line in lines if not line["exit_code"]})
    seconds = sum(line["cpu_seconds"] for line in lines)
    said = [
        f"## Runs\n\n{len(lines)} of {len(planned)} trainings were run, in {seconds / 60:.0f} minutes of CPU"
        f" ({', '.join(versions)}); {len(failed)} failed.\n"
    ]
    said += [f"* `{line['options']}`: exit {line['exit_code']}, {line['error']}\n" for line in failed]
    return "\n".join(said)


def _by_compression(results: Results) -> Figure:
    """Mean accuracy against 1/gamma, one panel for each setting with a cohort in each round."""
    panels = []
    for setting in (COHORT_1000, COHORT_100, LARGER):
        lines = [
            Line(L2, _points(setting, L2, results)),
            Line(GAUSSIAN, _points(setting, GAUSSIAN, results), level=True),
            Line(LINF, _points(setting, LINF, results)),
        ]
        x = Axis("compression (1 / gamma)", log=True)
        y = Axis("accuracy after the last round", log=False)
        panels.append(Panel(setting.title, x, y, tuple(line for line in lines if line.points)))
    return Figure(tuple(panels), "Fashion-MNIST, epsilon 10, delta 1e-5; means over the seeds")


def _points(setting: Setting, mechanism: str, results: Results) -> tuple[tuple[float, float], ...]:
    found: dict[float, list[float]] = {}
    for run in all_runs():
        line = results.get(run.options)
        if (run.setting, run.mechanism) == (setting, mechanism) and line and not line["exit_code"]:
            found.setdefault(1 / run.gamma, []).append(line["accuracy"][-1])
    return tuple((x, mean(values)) for x, values in found.items())


def _by_round(results: Results) -> Figure:
    """Accuracy at the end of each epoch, first seed."""
    lines = []
    for run in all_runs():
        line = results.get(run.options)
        if run.setting is STREAM and run.seed == SEEDS[0] and line and not line["exit_code"]:
            label = _name(run) + ("" if run.mechanism == GAUSSIAN else f", gamma {run.gamma:g}")
            points = [
                (epoch + 1.0, value) for epoch, value in enumerate(line["accuracy"][EPOCH - 1 :: EPOCH])
            ]
            lines.append(Line(label, tuple(points)))
    x, y = Axis(f"epoch of {EPOCH} rounds", log=False), Axis("accuracy at its end", log=False)
    return Figure((Panel("", x, y, tuple(lines)),), "Fashion-MNIST, epsilon 10, delta 1e-5; seed 0")
