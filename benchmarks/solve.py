"""Calibration of the same problems by csgm, dp-accounting and, if installed, prv-accountant."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from benchmarks.measure import Cost, Table, cost, csgm, interleaved, python, show
from benchmarks.solver import PROBLEMS, Problem

_IMPORT = "import dp_accounting"
#: Optional; at its default error, 0.1 of epsilon.
_PRV = "prv-accountant prv"
#: Slow tools: measured once, and left out of a quick run.
_SLOW = (" pld", " prv")
_HEADER = [
    "tool", "sigma", "process CPU s", "of csgm's", "process wall s", "peak MiB",
    "first solve ms", "solve ms", "of csgm's", "solve wall ms",
]  # fmt: skip
#: By problem; the others are compared with the first.
_TOOLS = {
    "a": ("csgm exact", "csgm rdp", "dp-accounting exact", "dp-accounting rdp", "dp-accounting pld"),
    "b": ("csgm rdp", "csgm auto", "dp-accounting rdp", "dp-accounting pld"),
    "c": ("csgm rdp", "csgm auto", "dp-accounting rdp", "dp-accounting pld", _PRV),
    "d": ("csgm rdp", "csgm auto", "dp-accounting rdp"),
}


@dataclass(frozen=True)
class _Row:
    tool: str
    value: float
    process: Cost
    solving: dict[str, Any]  # as benchmarks.solver prints it


def tables(*, quick: bool) -> Iterator[Table]:
    for name, problem in PROBLEMS.items():
        wanted = [tool for tool in _TOOLS[name] if not (quick and tool.endswith(_SLOW))]
        tools = [tool for tool in wanted if tool != _PRV or find_spec("prv_accountant")]
        rows = _measured(name, problem, tools, repeats=3 if quick else 9)
        missing = "" if tools == wanted else " prv-accountant is not installed."
        yield Table(f"Solve ({name}): {problem.said}", _said(rows) + missing, _HEADER, list(_shown(rows)))
    yield _import_table(repeats=3 if quick else 9)


def _measured(name: str, problem: Problem, tools: Sequence[str], repeats: int) -> list[_Row]:
    """Measure the fast tools in interleaved runs, and the slow ones once."""
    commands = {tool: _process(tool, name, problem) for tool in tools}
    fast = {tool: command for tool, command in commands.items() if not tool.endswith(_SLOW)}
    costs = interleaved(fast, repeats)
    rows = []
    for tool, command in commands.items():
        used = costs.get(tool) or cost(command)
        again = repeats if tool in fast else 0
        solving = json.loads(cost(python("-m", "benchmarks.solver", tool, name, str(again))).stdout)
        rows.append(_Row(tool, solving["value"], used, solving))
    return rows


def _process(tool: str, name: str, problem: Problem) -> list[str]:
    """A whole process: the csgm command, or the shortest script that calls the library."""
    if tool.startswith("csgm "):
        return csgm("calibrate", *problem.words, "--accountant", tool.split()[1])
    return python("-m", "benchmarks.solver", tool, name, "0")


def _said(rows: Sequence[_Row]) -> str:
    best, other = rows[0], next(row for row in rows if row.tool.startswith("dp-accounting"))
    gap = best.value / other.value - 1
    return f"{best.tool} differs from {other.tool} by {gap:+.1e} in sigma (in units of the L-infinity norm)."


def _shown(rows: Sequence[_Row]) -> Iterator[list[str]]:
    process, solve = rows[0].process.cpu, rows[0].solving["again"]["cpu"]
    for row in rows:
        first, again = row.solving["first"], row.solving["again"]
        yield [
            row.tool,
            f"{row.value:.10g}",
            show(row.process.cpu),
            show(row.process.cpu / process),
            show(row.process.wall),
            show(row.process.peak),
            show(1e3 * first["cpu"]),
            show(1e3 * again["cpu"]),
            show(again["cpu"] / solve),
            show(1e3 * again["wall"]),
        ]


def _import_table(repeats: int) -> Table:
    calibrate = f"csgm calibrate (d), {_TOOLS['d'][0]}"
    commands = {
        calibrate: _process(_TOOLS["d"][0], "d", PROBLEMS["d"]),
        _IMPORT: python("-c", _IMPORT),
    }
    costs = interleaved(commands, repeats)
    rows = [[name, show(used.cpu), show(used.wall), show(used.peak)] for name, used in costs.items()]
    share = costs[calibrate].cpu / costs[_IMPORT].cpu
    said = f"A whole `csgm calibrate` takes {share:.2f} of the CPU of importing dp-accounting."
    return Table("Against an import", said, ["process", "CPU s", "wall s", "peak MiB"], rows)
