"""Solve one problem with one tool in this process: ``python -m benchmarks.solver TOOL PROBLEM REPEATS``.

Prints, as JSON, the value and the time of a solve after all imports. It is a process of its own, so that
its parent can measure it and no tool pays for the imports of another.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

Solve = Callable[[], float]


@dataclass(frozen=True)
class Problem:
    """The least noise for ``count`` coordinates, each of norm 1 and sent with probability ``gamma``.

    The same problem as a Gaussian mechanism subsampled at rate ``gamma`` and composed ``count`` times.
    ``rounds``: over how many releases csgm spreads them. ``bracket``: for tools that need one.
    """

    said: str
    gamma: float
    count: int
    rounds: int
    epsilon: float
    delta: float
    bracket: tuple[float, float]

    @property
    def norm_ratio(self) -> float:
        """L2 over L-infinity norm of the coordinates of one release."""
        return math.sqrt(self.count / self.rounds)

    @property
    def words(self) -> list[str]:
        """The options of ``csgm calibrate``."""
        target = ["--epsilon", repr(self.epsilon), "--delta", repr(self.delta)]
        if self.gamma == 1.0:
            return [*target, "--mechanism", "gaussian"]
        ratio = ["--norm-ratio", repr(self.norm_ratio), "--rounds", str(self.rounds)]
        return [*target, "--gamma", repr(self.gamma), *ratio]


PROBLEMS = {
    "a": Problem("plain Gaussian, epsilon 5, delta 1e-8", 1.0, 1, 1, 5.0, 1e-8, (0.5, 4.0)),
    "b": Problem("gamma 0.01, 1000 rounds, epsilon 3, delta 1e-6", 0.01, 1000, 1000, 3.0, 1e-6, (0.5, 4.0)),
    "c": Problem("gamma 0.01, k = 24,414, epsilon 5, delta 1e-5", 0.01, 24_414, 1, 5.0, 1e-5, (0.5, 4.0)),
    "d": Problem(
        "gamma 0.01, k = 2,441,400, epsilon 5, delta 1e-5", 0.01, 2_441_400, 1, 5.0, 1e-5, (5.0, 40.0)
    ),
}


def _csgm(problem: Problem, accountant: str) -> Solve:
    from csgm_cli.jobs.calibrate import calibrate
    from csgm_cli.model.mechanism import Accountant, Mechanism, Target
    from csgm_cli.model.mechanism_table import Geometry, MechanismName

    if problem.gamma < 1.0:
        import csgm_cli.renyi.log_moment

        assert csgm_cli.renyi.log_moment  # imported before the clock starts
    name = MechanismName.GAUSSIAN if problem.gamma == 1.0 else MechanismName.L2_CSGM
    mechanism = Mechanism(name, problem.gamma, Geometry(problem.norm_ratio), problem.rounds)
    target = Target(problem.epsilon, problem.delta)

    def solve() -> float:
        return calibrate(mechanism, target, Accountant(accountant)).noise_multiplier * problem.norm_ratio

    return solve


def _dp_accounting_exact(problem: Problem) -> Solve:
    from dp_accounting.gaussian_mechanism import get_sigma_gaussian

    return lambda: float(get_sigma_gaussian(problem.epsilon, problem.delta))


def _dp_accounting(problem: Problem, kind: str) -> Solve:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    def event(sigma: float) -> Any:  # noqa: ANN401 - the library has no types
        one = dp_accounting.GaussianDpEvent(sigma)
        if problem.gamma < 1.0:
            one = dp_accounting.PoissonSampledDpEvent(problem.gamma, one)
        return dp_accounting.SelfComposedDpEvent(one, problem.count)

    def solve() -> float:
        low, high = problem.bracket
        sigma = dp_accounting.calibrate_dp_mechanism(
            RdpAccountant if kind == "rdp" else PLDAccountant,
            event,
            problem.epsilon,
            problem.delta,
            dp_accounting.ExplicitBracketInterval(low, high),
        )
        return float(sigma)

    return solve


def _prv_accountant(problem: Problem) -> Solve:
    from prv_accountant.dpsgd import find_noise_multiplier

    return lambda: float(
        find_noise_multiplier(
            sampling_probability=problem.gamma,
            num_steps=problem.count,
            target_epsilon=problem.epsilon,
            target_delta=problem.delta,
            mu_max=10 * problem.bracket[1],
        )
    )


def prepared(tool: str, problem: Problem) -> Solve:
    """Import ``tool`` and return a function that solves ``problem`` with it."""
    name, _, kind = tool.rpartition(" ")
    if name == "csgm":
        return _csgm(problem, kind)
    if name == "prv-accountant":
        return _prv_accountant(problem)
    return _dp_accounting_exact(problem) if kind == "exact" else _dp_accounting(problem, kind)


def main(tool: str, problem: str, repeats: str) -> None:
    """Solve once, then ``repeats`` times more."""
    solve = prepared(tool, PROBLEMS[problem])
    value, cpu, wall = 0.0, [], []
    for _ in range(1 + int(repeats)):
        begun = time.process_time(), time.perf_counter()
        value = solve()
        cpu.append(time.process_time() - begun[0])
        wall.append(time.perf_counter() - begun[1])
    again = {"cpu": median(cpu[1:] or cpu), "wall": median(wall[1:] or wall)}
    json.dump({"value": value, "first": {"cpu": cpu[0], "wall": wall[0]}, "again": again}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
