"""Time and memory of factorizations against T, and of jax-privacy's dense optimizer.

``python -m benchmarks.factorize [--quick] [--record] [--jax-privacy PYTHON]``; PYTHON is an interpreter that
has jax-privacy, for example that of a virtual environment. Each row is measured in its own process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from benchmarks.measure import ROOT, Table, cost, csgm, interleaved, missed, own_peak, python, show
from benchmarks.startup import LIMITS

_RECORD = ROOT / "docs" / "factorize.md"
_PICTURE = ROOT / "docs" / "factorize-scaling.svg"
_MARK = "<!-- figures -->\n"
#: Problems (workload, objective, whether dense factors are computed), and for each T the tolerance on the gap
#: and the limits on CPU seconds and MiB.
_PROBLEMS: dict[tuple[str, str, bool], dict[int, tuple[float, float | None, float | None]]] = {
    ("prefix-sum", "mean", False): {
        32: (1e-9, None, None),
        256: (1e-9, None, None),
        1024: (1e-9, 0.1, None),
        4096: (1e-9, None, None),
        8192: (1e-9, 1.5, None),
        65_536: (1e-9, None, None),
        1_000_000: (1e-6, 120.0, 2048.0),
    },
    ("prefix-sum", "max", False): {
        **dict.fromkeys((32, 256, 1024, 4096, 8192, 65_536), (1e-9, None, None)),
        1_000_000: (1e-6, None, None),
    },
    ("momentum=0.9", "mean", False): {
        **dict.fromkeys((32, 256, 1024, 4096), (1e-9, None, None)),
        8192: (1e-9, 10.0, None),
    },
    ("momentum=0.9", "max", False): dict.fromkeys((32, 256, 1024, 4096, 8192), (1e-9, None, None)),
    ("prefix-sum", "mean", True): {
        **dict.fromkeys((32, 256, 1024), (1e-9, None, None)),
        4096: (1e-9, 40.0, 1536.0),
    },
}
_QUICK = 10_000
#: Sizes for jax-privacy, and the time limit in seconds.
_DENSE_SIZES, _PATIENCE = (32, 128, 512, 1024), 120.0


def main() -> None:
    if sys.argv[1:2] == ["--solve"]:
        print(json.dumps(_solve(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.factorize", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="T up to 10,000 only")
    parser.add_argument("--record", action="store_true", help="write tables and picture to docs/")
    parser.add_argument("--jax-privacy", metavar="PYTHON", help="an interpreter with jax-privacy")
    options = parser.parse_args()
    measured = _measured(quick=options.quick)
    tables = [_scaling(measured), _process(), *_beside(options.jax_privacy), _baselines()]
    found = "\n".join(str(table) for table in tables)
    print(found)
    if options.record:
        text = _RECORD.read_text(encoding="utf-8").partition(_MARK)[0]
        _RECORD.write_text(f"{text}{_MARK}\n{found}", encoding="utf-8")
        _draw(measured)


def _solve(spec: str, rows: str, objective: str, tolerance: str, arrays: str) -> dict[str, float]:
    """One case, in this process."""
    from csgm_cli.factorization import dense_factors, factorize, parse_workload
    from csgm_cli.model.factorization import Objective

    workload = parse_workload(spec, int(rows))
    begun = time.process_time(), time.perf_counter()
    found = factorize(workload, objective=Objective(objective), tolerance=float(tolerance))
    if arrays == "True":
        dense_factors(found)
    used, wall = time.process_time() - begun[0], time.perf_counter() - begun[1]
    return {
        "cpu": used,
        "wall": wall,
        "peak": own_peak(),
        "steps": found.iterations,
        "error": found.squared_error,
        "gap": found.gap,
        "bound": found.lower_bound,
    }


def _measured(*, quick: bool) -> dict[tuple[str, str, bool], dict[int, dict[str, float]]]:
    found: dict[tuple[str, str, bool], dict[int, dict[str, float]]] = {}
    for problem, sizes in _PROBLEMS.items():
        spec, objective, arrays = problem
        for size, (gap, _, _) in sizes.items():
            if not (quick and size > _QUICK):
                words = [spec, str(size), objective, repr(gap), str(arrays)]
                printed = cost(python("-m", "benchmarks.factorize", "--solve", *words)).stdout
                found.setdefault(problem, {})[size] = json.loads(printed)
    return found


def _name(problem: tuple[str, str, bool]) -> str:
    spec, objective, arrays = problem
    return f"{spec}, {objective}{', B, C and C^-1' if arrays else ''}"


def _scaling(measured: dict[tuple[str, str, bool], dict[int, dict[str, float]]]) -> Table:
    rows = []
    for problem, sizes in measured.items():
        for size, found in sizes.items():
            _, seconds, mebibytes = _PROBLEMS[problem][size]
            rows.append(
                [
                    _name(problem),
                    f"{size:,}",
                    f"{found['error']:.10g}",
                    f"{found['gap']:.1e}",
                    str(found["steps"]),
                    show(found["cpu"]),
                    _limit(found["cpu"], seconds),
                    show(found["peak"]),
                    _limit(found["peak"], mebibytes),
                ]
            )
    header = ["problem", "T", "squared error", "gap", "steps", "CPU s", "limit", "peak MiB", "limit"]
    load = os.getloadavg()[0]
    said = (
        "One process each, one thread. CPU of the solve (both errors included), without the imports."
        f" Machine: {platform.machine()}, {os.cpu_count()} cores, load {load:.0f} by other work;"
        f" Python {platform.python_version()}, numpy {version('numpy')}.\n\n"
        f"![Time and memory against T]({_PICTURE.name})"
    )
    return Table("Time and memory against T", said, header, rows)


def _limit(value: float, limit: float | None) -> str:
    return "" if limit is None else f"{limit:g}{missed(value, limit)}"


def _draw(measured: dict[tuple[str, str, bool], dict[int, dict[str, float]]]) -> None:
    """Plot CPU and memory against T."""
    from csgm_cli.render.plots.figure import Axis, Figure, Line, Panel
    from csgm_cli.render.plots.image_file import picture

    def panel(key: str, label: str) -> Panel:
        lines = (
            Line(_name(problem), tuple((float(size), found[key]) for size, found in sizes.items()))
            for problem, sizes in measured.items()
        )
        return Panel("", Axis("T (rows of the workload)", log=True), Axis(label, log=True), tuple(lines))

    panels = (
        panel("cpu", "CPU time of the solve (seconds)"),
        panel("peak", "peak memory of the process (MiB)"),
    )
    caption = "relative gap 1e-9, at T = 1,000,000 1e-6; one process each, one thread, time without imports"
    _PICTURE.write_bytes(picture(Figure(panels, caption), ".svg")[0])


def _process() -> Table:
    """CPU of the whole command, in multiples of importing click."""
    commands = {
        'python -c "import click"': python("-c", "import click"),
        'python -c "import numpy"': python("-c", "import numpy"),
        "csgm factorize --T 32": csgm("factorize", "--T", "32"),
        "csgm factorize --T 32 --output f.npz": csgm("factorize", "--T", "32", "--output", "f.npz"),
    }
    found = interleaved(commands, 15)
    unit = next(iter(found.values())).cpu
    rows = [
        [
            f"`{name}`",
            show(1e3 * used.cpu),
            f"{used.cpu / unit:.2f}",
            _limit(used.cpu / unit, LIMITS.get(name)),
            show(used.peak),
        ]
        for name, used in found.items()
    ]
    said = "Medians of 15 interleaved runs of the whole process."
    return Table("The whole command", said, ["command", "CPU ms", "multiple", "limit", "peak MiB"], rows)


def _beside(interpreter: str | None) -> Iterator[Table]:
    """The comparison with jax-privacy, if ``interpreter`` has it."""
    if interpreter is None:
        said = "skipping jax-privacy; pass --jax-privacy PYTHON to include it"
        print(said, file=sys.stderr)
        return
    ask = "import importlib.metadata as m; print(m.version('jax-privacy'), m.version('jax'))"
    versions = cost([interpreter, "-c", ask]).stdout.split()
    rows = []
    for size in _DENSE_SIZES:
        words = ["prefix-sum", str(size), "mean", "1e-9", "False"]
        ours = json.loads(cost(python("-m", "benchmarks.factorize", "--solve", *words)).stdout)
        rows.append(_compared("csgm", size, {**ours, "used": [ours["cpu"], ours["wall"]]}, ours["bound"]))
        theirs = _jax_privacy(interpreter, size)
        if not theirs:
            rows.append(["jax-privacy dense", f"{size:,}", "", f"over {_PATIENCE:g}", "", "", ""])
        for name, call in (("first call", "first"), ("second call", "again")):
            if call in theirs:
                tool = f"jax-privacy dense, {name}"
                rows.append(_compared(tool, size, {**theirs, "used": theirs[call]}, ours["bound"]))
    said = (
        f"jax-privacy {versions[0]} (jax {versions[1]}, 64 bits) with its defaults, on all cores, and csgm on"
        " one, in one run: mean error of prefix sums, imports not in the time. Stopped after"
        f" {_PATIENCE:g} s of wall time."
        " The excess is over csgm's proven bound; jax-privacy proves none."
    )
    header = ["tool", "T", "CPU s", "wall s", "squared error", "excess", "peak MiB"]
    yield Table("Compared with a dense optimizer", said, header, rows)


def _compared(tool: str, size: int, found: dict[str, Any], bound: float) -> list[str]:
    cpu, wall = found["used"]
    error = found["error"]
    excess = f"+{error / bound - 1:.1e}"
    return [tool, f"{size:,}", show(cpu), show(wall), f"{error:.10g}", excess, show(found["peak"])]


def _jax_privacy(interpreter: str, size: int) -> dict[str, Any]:
    """The last output of ``benchmarks.dense_optimizer`` within the time limit; empty without any."""
    command = [interpreter, "-m", "benchmarks.dense_optimizer", str(size)]
    try:
        done = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=_PATIENCE, check=True)
        printed = done.stdout
    except subprocess.TimeoutExpired as stopped:
        printed = stopped.stdout or b""
    lines = printed.decode().splitlines()
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return found


def _baselines() -> Table:
    from csgm_cli.factorization import factorize
    from csgm_cli.model.factorization import Strategy, StrategyName, Workload

    sizes = (32, 256, 1024, 8192)
    optima = {T: factorize(Workload(T)) for T in sizes}
    strategies = [Strategy(name) for name in StrategyName if name != "optimal" and not name.has_buffers]
    strategies += [
        Strategy(name, n) for name in (StrategyName.BLT, StrategyName.BLT_NORMALIZED) for n in (2, 4)
    ]
    strategies += [Strategy(StrategyName.STREAMING, n) for n in (1, 2, 3, 4, 6, 8)]

    def rows() -> Iterator[list[str]]:
        yield ["optimal", *(f"{found.mean_squared_error:.9g}" for found in optima.values())]
        for strategy in strategies:
            gaps = [factorize(Workload(T), strategy, optimum=found).gap for T, found in optima.items()]
            yield [str(strategy), *(f"+{gap:.2g}" for gap in gaps)]

    said = (
        "Mean squared error of prefix sums: the optimum, and the excess of the others over its proven bound."
    )
    return Table("Strategies", said, ["strategy", *(f"T = {T:,}" for T in sizes)], list(rows()))


if __name__ == "__main__":
    main()
