"""``csgm check`` of large budgets: 100 and 1,000 different releases with a million rounds in all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from benchmarks.measure import Table, csgm, interleaved, show, verdict

_ROUNDS = 1_000_000
#: Number of releases, and the limit on CPU seconds beyond the check of two releases.
_SIZES = {100: 1.0, 1000: 4.0}
#: Epsilon spent is about 4.75: well below the first, just below and just above the next two, and far above.
_LIMITS = (20.0, 5.0, 4.745, 1.0)


def tables(*, quick: bool) -> Iterator[Table]:
    repeats = 3 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        commands = {(2, 5.0): _command(Path(folder), 5.0, 2)}
        for size in _SIZES:
            for limit in _LIMITS:
                commands[size, limit] = _command(Path(folder), limit, size)
        names = {f"{size} {limit:g}": command for (size, limit), command in commands.items()}
        costs = interleaved(names, repeats)
    start = costs["2 5"].cpu
    rows = []
    for size, most in _SIZES.items():
        for limit in _LIMITS:
            used = costs[f"{size} {limit:g}"]
            beyond = used.cpu - start
            rows.append(
                [
                    f"{size:,}",
                    f"{limit:g}",
                    show(1e3 * used.cpu),
                    show(1e3 * beyond),
                    f"{1e3 * most:g}",
                    verdict(beyond, most),
                    show(used.peak),
                ]
            )
    yield Table(
        "Budget",
        f"`csgm check` of different releases with {_ROUNDS:,} rounds in all, which spend epsilon"
        f" 4.75 or so at delta 1e-6; medians of {repeats} interleaved runs of whole processes."
        f" The check of two releases takes {show(1e3 * start)} ms CPU.",
        ["releases", "limit on epsilon", "CPU ms", "beyond two releases", "limit ms", "verdict", "peak MiB"],
        rows,
    )


def _command(folder: Path, limit: float, releases: int) -> list[str]:
    path = folder / f"{releases}-{limit:g}.toml"
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
