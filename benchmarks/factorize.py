"""Time and memory of the factorizations against T: ``python -m benchmarks.factorize [--quick] [--record]``.

Each row is a process of its own, so that its peak memory is that of one problem.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator

from benchmarks.measure import ROOT, Table, cost, python, show

_RECORD = ROOT / "docs" / "factorize.md"
_MARK = "<!-- figures -->\n"
#: What is solved: a workload, T, objective, relative gap, dense factors or not; and the promised CPU seconds.
_CASES = (
    ("prefix-sum", 32, "mean", 1e-9, False, None),
    ("prefix-sum", 256, "mean", 1e-9, False, None),
    ("prefix-sum", 1024, "mean", 1e-9, False, 0.1),
    ("prefix-sum", 8192, "mean", 1e-9, False, 1.5),
    ("prefix-sum", 65_536, "mean", 1e-9, False, None),
    ("prefix-sum", 1_000_000, "mean", 1e-6, False, 120.0),
    ("prefix-sum", 1024, "max", 1e-9, False, None),
    ("prefix-sum", 8192, "max", 1e-9, False, None),
    ("momentum=0.9", 1024, "mean", 1e-9, False, None),
    ("momentum=0.9", 8192, "mean", 1e-9, False, 10.0),
    ("prefix-sum", 1024, "mean", 1e-9, True, None),
    ("prefix-sum", 4096, "mean", 1e-9, True, 40.0),
)


def main() -> None:
    if sys.argv[1:2] == ["--solve"]:
        print(json.dumps(_solve(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.factorize", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="nothing beyond T = 10,000")
    parser.add_argument("--record", action="store_true", help="write the tables to docs/factorize.md")
    options = parser.parse_args()
    found = "\n".join(str(table) for table in (_solves(quick=options.quick), _baselines()))
    print(found)
    if options.record:
        text = _RECORD.read_text(encoding="utf-8").partition(_MARK)[0]
        _RECORD.write_text(f"{text}{_MARK}\n{found}", encoding="utf-8")


def _solve(spec: str, rows: str, objective: str, tolerance: str, arrays: str) -> dict[str, float]:
    """One case, in this process."""
    from csgm_cli.core.factorization import dense_factors, factorize, parse_workload
    from csgm_cli.factorization_model import Objective

    workload = parse_workload(spec, int(rows))
    begun = time.process_time()
    found = factorize(workload, objective=Objective(objective), tolerance=float(tolerance))
    if arrays == "True":
        dense_factors(found)
    used = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    error = found.squared_error
    return {"cpu": used, "peak": peak, "steps": found.iterations, "error": error, "gap": found.gap}


def _solves(*, quick: bool) -> Table:
    rows = []
    for spec, size, objective, tolerance, arrays, limit in _CASES:
        if quick and size > 10_000:
            continue
        words = [spec, str(size), objective, repr(tolerance), str(arrays)]
        found = json.loads(cost(python("-m", "benchmarks.factorize", "--solve", *words)).stdout)
        missed = limit is not None and found["cpu"] > limit
        rows.append(
            [
                f"{spec}, {objective}{', B, C and C^-1' if arrays else ''}",
                f"{size:,}",
                f"{found['error']:.10g}",
                f"{found['gap']:.1e}",
                str(found["steps"]),
                show(found["cpu"]),
                "" if limit is None else f"{limit:g}{' (missed)' if missed else ''}",
                show(found["peak"]),
            ]
        )
    header = ["problem", "T", "squared error", "gap", "steps", "CPU s", "limit", "peak MiB"]
    said = "One process each, one thread. CPU of the solve (both errors included), without the imports."
    return Table("Time and memory against T", said, header, rows)


def _baselines() -> Table:
    from csgm_cli.core.factorization import factorize
    from csgm_cli.factorization_model import Strategy, StrategyName, Workload

    sizes = (32, 256, 1024, 8192)
    optima = {T: factorize(Workload(T)) for T in sizes}
    strategies = [Strategy(name) for name in StrategyName if name not in ("optimal", "streaming")]
    strategies += [Strategy(StrategyName.STREAMING, n) for n in (2, 3, 4, 6, 8)]

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
