"""CPU time of a solve in this process against rounds and k, and on many random settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from statistics import fmean, median, quantiles

from benchmarks.measure import Table, show, verdict
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry, MechanismName

_TARGET = Target(5.0, 1e-8)
#: Limits on the CPU per point, in ms.
_LIMITS = {Accountant.RDP: 2.0, Accountant.AUTO: 15.0}
#: Solves above this, in ms, are counted.
_SLOW = 100.0


def tables(*, quick: bool) -> Iterator[Table]:
    repeats = 3 if quick else 15
    _solve(_mechanism(0.01, 100.0, 1))  # imports
    yield _scaling("rounds", lambda n: _mechanism(0.01, 100.0, n), range(0, 10, 3 if quick else 1), repeats)
    powers = range(0, 13, 3 if quick else 1)
    yield _scaling("k", lambda n: _mechanism(0.01, n**0.5, 1), powers, repeats)
    yield _sweep(500 if quick else 10_000)
    yield _sweep_auto(50 if quick else 1000)


def _mechanism(gamma: float, norm_ratio: float, rounds: int) -> Mechanism:
    return Mechanism(MechanismName.L2_CSGM, gamma, Geometry(norm_ratio), rounds)


def _solve(
    mechanism: Mechanism, target: Target = _TARGET, accountant: Accountant = Accountant.RDP
) -> tuple[float, float]:
    """The noise multiplier, and the CPU milliseconds that finding it took."""
    begun = time.process_time()
    noise = calibrate(mechanism, target, accountant).noise_multiplier
    return noise, 1e3 * (time.process_time() - begun)


def _scaling(name: str, build: Callable[[int], Mechanism], powers: range, repeats: int) -> Table:
    # The targets differ, so that no solve reuses the cached profiles of another.
    targets = [Target(_TARGET.epsilon * (1 + 1e-9 * i), _TARGET.delta) for i in range(repeats)]
    rows = []
    for power in powers:
        row = [f"1e{power}"]
        for accountant in _LIMITS:
            solved = [_solve(build(10**power), target, accountant) for target in targets]
            cpu = median(ms for _, ms in solved)
            row += [f"{solved[0][0]:.9g}", show(cpu)]
        rows.append(row)
    fixed = "norm ratio 100" if name == "rounds" else "1 round"
    said = f"l2-csgm, gamma 0.01, {fixed}, epsilon 5, delta 1e-8; median of {repeats} solves."
    header = [name, "noise multiplier, rdp", "CPU ms", "noise multiplier, auto", "CPU ms"]
    return Table(f"Scaling in {name}", said, header, rows)


#: The ranges of random settings: gamma, norm ratio, rounds, epsilon and delta.
_Ranges = Sequence[tuple[float, float]]
_USUAL = ((1e-3, 0.5), (1.0, 1e4), (1.0, 1e4), (0.1, 10.0), (1e-10, 1e-4))
#: Often few mask bits are sent there, and the certified grid decides.
_FEW_BITS = ((1e-6, 1e-3), (1.0, 100.0), (1.0, 1e4), (1e-3, 10.0), (1e-30, 1e-4))


def _random_solves(points: int, ranges: _Ranges, accountant: Accountant) -> list[float]:
    """The CPU milliseconds of each solve of settings that are log-uniform within ``ranges``."""
    random = Random(0)
    taken = []
    for _ in range(points):
        gamma, ratio, rounds, epsilon, delta = (low * (high / low) ** random.random() for low, high in ranges)
        mechanism = _mechanism(gamma, ratio, int(rounds))
        taken.append(_solve(mechanism, Target(epsilon, delta), accountant)[1])
    return taken


def _shown_ranges(ranges: _Ranges) -> str:
    names = ("gamma", "norm ratio", "rounds", "epsilon", "delta")
    return ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in zip(names, ranges, strict=True))


def _sweep(points: int) -> Table:
    begun = time.process_time()
    taken = _random_solves(points, _USUAL, Accountant.RDP)
    total = time.process_time() - begun
    per_point, limit = 1e3 * total / points, _LIMITS[Accountant.RDP]
    said = (
        f"{points:,} random l2-csgm settings in one process, rdp: {_shown_ranges(_USUAL)}, all log-uniform."
        f" Limit {limit:g} ms per setting: {verdict(per_point, limit)}."
    )
    numbers = [per_point, fmean(taken), median(taken), quantiles(taken, n=100)[98], max(taken), total]
    header = ["settings", "ms per setting", "mean solve ms", "median ms", "99 % ms", "max ms", "total s"]
    return Table("Random settings, rdp", said, header, [[f"{points:,}", *map(show, numbers)]])


def _sweep_auto(points: int) -> Table:
    rows, means = [], []
    for name, ranges in (("usual", _USUAL), ("few bits", _FEW_BITS)):
        taken = _random_solves(points, ranges, Accountant.AUTO)
        cuts = quantiles(taken, n=100)
        means.append(fmean(taken))
        above = sum(ms > _SLOW for ms in taken) / points
        numbers = (fmean(taken), median(taken), cuts[89], cuts[98], max(taken))
        rows.append([name, *map(show, numbers), f"{above:.1%}"])
    limit = _LIMITS[Accountant.AUTO]
    said = (
        f"{points:,} random l2-csgm settings each, auto, all log-uniform. Usual: {_shown_ranges(_USUAL)}."
        f" Few bits: {_shown_ranges(_FEW_BITS)}. Limit {limit:g} ms on the mean of the usual ones:"
        f" {verdict(means[0], limit)}."
    )
    header = ["settings", "mean ms", "median ms", "90 % ms", "99 % ms", "max ms", f"above {_SLOW:g} ms"]
    return Table("Random settings, auto", said, header, rows)
