"""How long a large budget takes beyond start-up: a hundred releases, all different, and a million rounds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.measure import Table, csgm, interleaved, show, verdict

_RELEASES, _ROUNDS = 100, 1_000_000
#: Promised CPU seconds beyond what the check of a small budget takes.
_LIMIT = 1.0
#: Epsilon spent is about 4.75: well within, just within, just above, far above.
_LIMITS = (20.0, 5.0, 4.745, 1.0)


def tables(*, quick: bool) -> Iterator[Table]:
    repeats = 3 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        commands = {"small": _command(Path(folder), "small", 5.0, 2)}
        for limit in _LIMITS:
            commands[f"{limit:g}"] = _command(Path(folder), f"{limit:g}", limit, _RELEASES)
        costs = interleaved(commands, repeats)
    start = costs.pop("small").cpu
    rows = []
    for name, used in costs.items():
        beyond = used.cpu - start
        rows.append([name, show(1e3 * used.cpu), show(1e3 * beyond), verdict(beyond, _LIMIT)])
    yield Table(
        "Budget",
        f"`csgm check` of {_RELEASES} different releases with {_ROUNDS:,} rounds in all, of which epsilon is"
        f" 4.75 at delta 1e-6; medians of {repeats} runs of the whole process. Limit {_LIMIT:g} s beyond the"
        f" check of two releases ({show(1e3 * start)} ms CPU).",
        ["limit on epsilon", "CPU ms", "beyond start-up", "verdict"],
        rows,
    )


def _command(folder: Path, name: str, limit: float, releases: int) -> list[str]:
    path = folder / f"{name}.toml"
    path.write_text("\n".join(_lines(limit, releases)), encoding="utf-8")
    return csgm("check", str(path), "--exit-zero")


def _lines(limit: float, releases: int) -> Iterator[str]:
    random = Random(0)
    rounds = _ROUNDS // releases
    yield f"[population.people]\nepsilon = {limit}\ndelta = 1e-6"
    for index in range(releases):
        yield f"[population.people.release.r{index}]\nrounds = {rounds}"
        noise = 10 * rounds**0.5
        if index % 4 == 0:
            yield f'mechanism = "gaussian"\nsigma = {noise * random.uniform(0.5, 2)}'
        else:
            gamma = 10 ** random.uniform(-3, -0.5)
            yield f"gamma = {gamma}\nnorm-ratio = {10 ** random.uniform(0.5, 3)}"
            yield f"sigma = {gamma * noise * random.uniform(0.5, 2)}"
