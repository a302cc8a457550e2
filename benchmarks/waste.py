"""How much more noise calibrate asks for than the lower bound, and what a solve costs, on random settings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.measure import Table, show, verdict
from csgm_cli.accounting.calibration import least_sigma
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism
from csgm_cli.model.mechanism_table import Geometry, MechanismName

if TYPE_CHECKING:
    from csgm_cli.accounting.accountants import Answer

#: Between these, log-uniform.
_RANGES = {
    "gamma": (1e-3, 0.5),
    "norm ratio": (1.0, 3000.0),
    "rounds": (1.0, 1e4),
    "epsilon": (0.1, 10.0),
    "delta": (1e-10, 1e-5),
}
#: Goals for the waste in percent: median, 90 %, worst, and worst where at least this many bits are sent.
_MEDIAN, _NINETY, _WORST, _WORST_WHERE_MANY, _MANY = 0.06, 1.0, 3.0, 1.5, 100.0
#: The setting of the paper (epsilon 5, delta 1e-8, norm ratio 1000): goals in percent by gamma.
_PAPER = {0.5: 0.02, 0.1: 0.05, 0.05: 0.07, 0.01: 0.18, 0.002: 0.5}
#: A slower solve is listed, in ms of CPU.
_SLOW = 300.0


@dataclass(frozen=True)
class Setting:
    """One problem."""

    gamma: float
    norm_ratio: float
    rounds: int
    epsilon: float
    delta: float

    def mechanism(self, adjacency: Adjacency) -> Mechanism:
        """The L2 mechanism without a known dimension."""
        geometry = Geometry(self.norm_ratio)
        return Mechanism(MechanismName.L2_CSGM, self.gamma, geometry, self.rounds, adjacency)

    @property
    def sent(self) -> float:
        """How many bits of the worst-case vector are sent over all rounds, in expectation."""
        return self.norm_ratio**2 * self.rounds * self.gamma

    def __str__(self) -> str:
        shown = (self.gamma, self.norm_ratio, self.rounds, self.epsilon, self.delta)
        return " | ".join(f"{x:.6g}" for x in shown)


@dataclass(frozen=True)
class Solved:
    """The answer to one problem, and the CPU milliseconds that it took."""

    setting: Setting
    spent: Answer
    ms: float

    @property
    def waste(self) -> float:
        """The noise above the lower bound, in percent."""
        return 100 * (self.spent.value / self.spent.lower - 1) if self.spent.lower else math.inf

    @property
    def proof(self) -> str:
        """What decides: the bound, and the proof where that is another word."""
        bound, proof = self.spent.bound.value, self.spent.proof.value
        return bound if bound == proof else f"{bound}, {proof}"

    @property
    def by_grid(self) -> bool:
        """Whether a certified grid gave any part of the deciding proof."""
        decisive = self.spent.decisive
        return any(part.step is not None for part in (decisive, *decisive.parts))


def tables(*, quick: bool) -> Iterator[Table]:
    solve(Setting(0.01, 100.0, 1, 5.0, 1e-8))  # imports
    found = [solve(setting) for setting in settings(100 if quick else 500, seed=0)]
    yield _waste(found)
    yield _proofs("Proofs and CPU", found)
    yield _paper()
    replaced = settings(15 if quick else 60, seed=1)
    replaced_found = [solve(setting, Adjacency.REPLACE_ONE) for setting in replaced]
    yield _replace_one(replaced_found)
    yield _proofs("Replace-one: proofs and CPU", replaced_found)
    yield _outliers(found)


def settings(count: int, seed: int) -> list[Setting]:
    """Random settings; the first ones of a seed are always the same."""
    random, drawn = Random(seed), []
    for _ in range(count):
        gamma, ratio, rounds, epsilon, delta = (
            low * (high / low) ** random.random() for low, high in _RANGES.values()
        )
        drawn.append(Setting(gamma, ratio, round(rounds), epsilon, delta))
    return drawn


def solve(
    setting: Setting, adjacency: Adjacency = Adjacency.ADD_REMOVE, accountant: Accountant = Accountant.AUTO
) -> Solved:
    """Calibrate one setting."""
    mechanism, begun = setting.mechanism(adjacency), time.process_time()
    spent = least_sigma(mechanism, accountant, setting.epsilon, setting.delta)
    return Solved(setting, spent, 1e3 * (time.process_time() - begun))


def _ninety(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(0.9 * len(values)) - 1]


def _waste(found: Sequence[Solved]) -> Table:
    wastes = [solved.waste for solved in found]
    many = [solved.waste for solved in found if solved.setting.sent >= _MANY]
    few = [solved.waste for solved in found if solved.setting.sent < _MANY]
    name = f"worst where k T gamma >= {_MANY:g} ({len(many)} settings)"
    rows = [
        _goal("median", median(wastes), _MEDIAN),
        _goal("90 %", _ninety(wastes), _NINETY),
        _goal("worst", max(wastes), _WORST),
        _goal(name, max(many), _WORST_WHERE_MANY),
        [f"worst elsewhere ({len(few)} settings)", show(max(few, default=0.0)), "", ""],
    ]
    ranges = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in _RANGES.items())
    text = (
        f"Noise of `calibrate` (auto) above its lower bound, in percent, on {len(found)} random settings of"
        f" l2-csgm: {ranges}, all log-uniform."
    )
    return Table("Waste", text, ["waste", "percent", "goal", "verdict"], rows)


def _goal(name: str, value: float, goal: float) -> list[str]:
    return [name, show(value), f"{goal:g}", verdict(value, goal)]


def _proofs(title: str, found: Sequence[Solved]) -> Table:
    rows = [_cost("all", found)]
    rows += [
        _cost(proof, [s for s in found if s.proof == proof]) for proof in sorted({s.proof for s in found})
    ]
    groups: dict[str, Callable[[Solved], bool]] = {
        "contour or closed form": lambda solved: not solved.by_grid,
        "certified grid": lambda solved: solved.by_grid,
    }
    rows += [
        _cost(name, chosen) for name, test in groups.items() if (chosen := [s for s in found if test(s)])
    ]
    text = "Which proof decided how often, and CPU ms per solve; the last rows: by how its mean is computed."
    return Table(
        title, text, ["proof", "settings", "median ms", "90 % ms", "worst ms", "worst waste %"], rows
    )


def _cost(name: str, found: Sequence[Solved]) -> list[str]:
    ms = [solved.ms for solved in found]
    worst = max(solved.waste for solved in found)
    return [name, str(len(found)), show(median(ms)), show(_ninety(ms)), show(max(ms)), show(worst)]


def _paper() -> Table:
    rows = []
    for gamma, goal in _PAPER.items():
        solved = solve(Setting(gamma, 1000.0, 1, 5.0, 1e-8))
        rows.append([*_goal(f"{gamma:g}", solved.waste, goal), solved.proof, show(solved.ms)])
    text = "Noise above the lower bound at epsilon 5, delta 1e-8, norm ratio 1000, one round."
    return Table(
        "Waste in the paper's setting", text, ["gamma", "percent", "goal", "verdict", "proof", "CPU ms"], rows
    )


def _replace_one(found: Sequence[Solved]) -> Table:
    wastes = [solved.waste for solved in found]
    saved = []
    for solved in found:
        by_rdp = solve(solved.setting, Adjacency.REPLACE_ONE, Accountant.RDP)
        saved.append(100 * (1 - solved.spent.value / by_rdp.spent.value))
    columns = ("median", median), ("90 %", _ninety), ("worst", max)
    rows = [["above the lower bound", *(show(of(wastes)) for _, of in columns)]]
    rows.append(
        ["saved against rdp (median, 10 %, least)", *map(show, (median(saved), _tenth(saved), min(saved)))]
    )
    text = (
        f"Noise of `calibrate --adjacency replace-one`, in percent, on {len(found)} random settings as above."
    )
    return Table("Waste under replace-one", text, ["noise", *(name for name, _ in columns)], rows)


def _tenth(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 10]


def _outliers(found: Sequence[Solved]) -> Table:
    rows = [
        [*str(solved.setting).split(" | "), solved.proof, show(solved.waste), show(solved.ms)]
        for solved in found
        if solved.waste > _WORST or solved.ms > _SLOW
    ]
    header = [*_RANGES, "proof", "waste %", "CPU ms"]
    text = f"Settings of the first table above {_WORST:g} % of waste or {_SLOW:g} ms of CPU: {len(rows)}."
    return Table("Outliers", text, header, rows or [["none", *[""] * (len(header) - 1)]])
