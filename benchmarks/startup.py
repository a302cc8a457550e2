"""CPU time of whole csgm commands, in multiples of importing click."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Table, csgm, interleaved, missed, python, show

_BASELINE = 'python -c "import click"'
_TARGET = "--epsilon 5 --delta 1e-8"
#: Commands, and the limit on each as a multiple of the baseline; None where there is no limit.
LIMITS = {
    "csgm --help": 1.5,
    "csgm calibrate --help": None,
    f"csgm calibrate --mechanism gaussian {_TARGET}": 2.0,
    f"csgm calibrate --gamma 0.01 --norm-ratio 1000 --accountant rdp {_TARGET}": 3.5,
    f"csgm calibrate --gamma 0.01 --norm-ratio 1000 {_TARGET}": 4.0,
    "csgm factorize --T 32": 12.0,
}


def tables(*, quick: bool) -> Iterator[Table]:
    repeats = 5 if quick else 21
    commands = {name: csgm(*name.split()[1:]) for name in LIMITS}
    commands = {_BASELINE: python("-c", "import click"), **commands}
    # Most of the CPU of the last three is the import of numpy.
    commands['python -c "import numpy"'] = python("-c", "import numpy")
    costs = interleaved(commands, repeats)
    unit = costs[_BASELINE].cpu
    rows = []
    for name, used in costs.items():
        limit = LIMITS.get(name)
        promise = "" if limit is None else f"{limit:g}{missed(used.cpu, limit * unit)}"
        numbers = [
            show(1e3 * used.cpu),
            show(used.cpu / unit),
            promise,
            show(1e3 * used.wall),
            show(used.peak),
        ]
        rows.append([f"`{name}`", *numbers])
    yield Table(
        "Start-up",
        f"Medians of {repeats} interleaved runs of whole processes in an empty folder.",
        ["command", "CPU ms", "multiple", "limit", "wall ms", "peak MiB"],
        rows,
    )
