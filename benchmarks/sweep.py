"""``csgm sweep`` against a loop over calibrate, with one process and with two."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from benchmarks.measure import Cost, Table, cost, csgm, interleaved, python, show, verdict

_TARGET = ("--epsilon", "5", "--delta", "1e-8")
#: Limits on the CPU per point, in ms.
_LIMITS = {"rdp": 2.0, "auto": 15.0}
#: The same points in a loop without a command line.
_LOOP = """
from csgm_cli.cli.options.vary import Vary
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry
gammas, ratios = (Vary().convert(text, None, None).values for text in {axes!r})
for gamma in gammas:
    for ratio in ratios:
        calibrate(Mechanism("l2-csgm", gamma, Geometry(ratio)), Target(5.0, 1e-8), Accountant({accountant!r}))
"""
_HEADER = ["what", "CPU s", "of the loop", "CPU ms per point", "wall s", "of the loop"]


def tables(*, quick: bool) -> Iterator[Table]:
    yield _table("rdp", (20, 20) if quick else (100, 100), repeats=3)
    yield _table("auto", (10, 5) if quick else (40, 25), repeats=1)


def _table(accountant: str, sizes: tuple[int, int], repeats: int) -> Table:
    axes = (f"gamma=0.001:0.5:{sizes[0]}log", f"norm-ratio=1:10000:{sizes[1]}log")
    points = prod(sizes)
    words = [*_TARGET, "--vary", axes[0], "--vary", axes[1], "--accountant", accountant, "--format", "csv"]
    start_up = cost(csgm("sweep", *_TARGET, "--vary", "gamma=0.1", "--norm-ratio", "10", "--format", "csv"))
    costs = interleaved(
        {
            "a loop over calibrate": python("-c", _LOOP.format(axes=axes, accountant=accountant)),
            "csgm sweep": csgm("sweep", *words),
            "csgm sweep --jobs 2": csgm("sweep", *words, "--jobs", "2"),
        },
        repeats,
    )
    if costs["csgm sweep"].stdout != costs["csgm sweep --jobs 2"].stdout:
        raise RuntimeError("the rows depend on the number of processes")
    per_point = 1e3 * (costs["csgm sweep"].cpu - start_up.cpu) / points
    limit = _LIMITS[accountant]
    said = (
        f"{points:,} points of l2-csgm, gamma 0.001 to 0.5 by norm ratio 1 to 10,000, epsilon 5, delta 1e-8,"
        f" {accountant}, as CSV; median of {repeats} interleaved runs. Beyond the start-up of"
        f" {show(start_up.cpu)} s, a point takes {show(per_point)} ms of CPU; limit {limit:g} ms:"
        f" {verdict(per_point, limit)}."
    )
    return Table(f"csgm sweep, {accountant}", said, _HEADER, list(_rows(costs, points)))


def _rows(costs: dict[str, Cost], points: int) -> Iterator[list[str]]:
    loop = next(iter(costs.values()))
    for name, used in costs.items():
        yield [
            name,
            show(used.cpu),
            show(used.cpu / loop.cpu),
            show(1e3 * used.cpu / points),
            show(used.wall),
            show(used.wall / loop.wall),
        ]
