"""``python -m benchmarks.attack``: try to break the upper bounds on delta of the tight accountant.

In each random setting, many feasible client vectors and an adversary who chooses the vector of the next
round after seeing the loss so far. No true delta may exceed any bound that is proven for its direction.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from benchmarks.adversary import (
    Grid,
    Spectrum,
    Vector,
    World,
    best_response,
    best_tilt,
    constant,
    contour_delta,
    fitting_grid,
    gaussian_fits,
    gaussian_spectrum,
    spectrum,
)
from csgm_cli.bounds.concentrated import concentrated
from csgm_cli.bounds.tight import MATCHED_ADD, bounds_for_every_vector, tight
from csgm_cli.bounds.worst_case import worst_case_law
from csgm_cli.model.certificate import Certificate, Direction
from csgm_cli.model.mechanism import Mechanism
from csgm_cli.model.mechanism_table import Geometry, MechanismName

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

#: The grid raises a profile by about 1e-3 at most; a ratio above this is computed more precisely.
_CLOSE, _REFINEMENTS = 0.99, (6.0, 24.0)
#: Up to this k every strategy is tried on a grid. Above, fixed vectors by contour integrals, and adaptive
#: strategies where the grid has at most so many cells.
_FEW, _FEW_CELLS = 30.0, 1 << 15
#: A smaller share of the squared norm is left out: it is out of float64's range in a profile.
_TOO_LITTLE = 1e-20


@dataclass(frozen=True)
class Setting:
    """A mechanism at one noise, s = Delta_inf / sigma, and the epsilon asked about."""

    gamma: float
    s: float
    k: float
    rounds: int
    epsilon: float

    @property
    def mechanism(self) -> Mechanism:
        """With an unknown dimension."""
        geometry = Geometry(math.sqrt(self.k))
        return Mechanism(MechanismName.L2_CSGM, self.gamma, geometry, self.rounds)

    @property
    def sigma(self) -> float:
        """For Delta_2 = 1."""
        return self.mechanism.geometry.linf_norm / self.s

    @property
    def kappa(self) -> Vector:
        """As many coordinates at the clip as fit, and the rest in one."""
        whole, t = math.floor(self.k), self.s**2
        return ((whole, t),) + (((1, (self.k - whole) * t),) if self.k > whole else ())

    @property
    def gaussian_mu(self) -> float:
        """Of one round, where infinitely many coordinates share the norm."""
        return self.gamma * self.s * math.sqrt(self.k)

    def __str__(self) -> str:
        return (
            f"gamma {self.gamma:.5g}, s {self.s:.5g}, k {self.k:.5g}, T {self.rounds},"
            f" epsilon {self.epsilon:.5g}"
        )


@dataclass
class Finding:
    """The largest ratio of a true delta to one bound; ``strategy``: of the adversary that reached it."""

    cases: int = 0
    violations: int = 0
    ratio: float = 0.0
    strategy: str = ""
    setting: Setting | None = None

    def add(self, ratio: float, strategy: str, setting: Setting) -> None:
        """Count one more comparison."""
        self.cases += 1
        self.violations += ratio > 1.0
        if ratio > self.ratio:
            self.ratio, self.strategy, self.setting = ratio, strategy, setting


@dataclass
class Record:
    """All findings, by direction and proof."""

    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    attacked: int = 0
    adaptive: int = 0
    cross_checks: int = 0
    disagreement: float = 0.0
    gain: float = 1.0

    def add(self, direction: str, proof: str, true: float, bound: float, strategy: str, at: Setting) -> None:
        """Compare a true delta with a bound."""
        ratio = true / bound if bound > 0.0 else (math.inf if true > 0.0 else 0.0)
        if ratio > 1.0:
            said = f"VIOLATION: {direction}, {proof}: {true!r} by {strategy} above {bound!r} at {at}"
            print(said, file=sys.stderr, flush=True)
        self.findings.setdefault((direction, proof), Finding()).add(ratio, strategy, at)

    def show_progress(self, every: int) -> None:
        """Say on stderr, once in so many settings, what was found so far."""
        if self.attacked % every == 0:
            said = f"{self.attacked} settings, {self.violations} violations, {time.process_time():.0f} s"
            print(said, file=sys.stderr, flush=True)

    @property
    def violations(self) -> int:
        """In how many comparisons a true delta exceeded the bound."""
        return sum(finding.violations for finding in self.findings.values())

    def __str__(self) -> str:
        rows = [
            "| direction | bound | comparisons | violations | largest true/bound | adversary | setting |",
            "|" + "---|" * 7,
        ]
        for (direction, proof), f in sorted(self.findings.items()):
            where = f.setting or "-"
            found = f"{f.cases} | {f.violations} | {f.ratio:.4f} | {f.strategy} | {where}"
            rows.append(f"| {direction} | {proof} | {found} |")
        return "\n".join(rows)


# ---------------------------------------------------------------- settings and vectors


@dataclass(frozen=True)
class Proven:
    """``bounds``: every proven bound on one direction, by name. ``tight``: what the accountant proves."""

    bounds: dict[Direction, dict[str, Certificate]]
    tight: dict[Direction, Certificate]

    @property
    def delta(self) -> float:
        """The bound on delta."""
        return max(certificate.delta for certificate in self.tight.values())


def settings(rng: random.Random) -> Iterator[tuple[Setting, Proven]]:
    """Random settings in which delta is proven to be between 1e-12 and 1/2, with the bounds to attack."""
    while True:
        k = between(rng, 1.0, 30.0) if rng.random() < 0.8 else between(rng, 30.0, 1e5)
        k = float(round(k)) if rng.random() < 0.3 else k
        s = between(rng, 0.02, 3.0)
        at = Setting(between(rng, 1e-3, 0.95), s, k, rng.randint(1, 4), between(rng, 0.1, 6.0))
        law = worst_case_law([(at.mechanism, at.sigma)])
        if not 1e-13 < MATCHED_ADD(law, at.epsilon).delta < 0.6:  # quick, and seldom far from the bound
            continue
        found = Proven(
            {direction: dict(_bounds(law, direction, at.epsilon)) for direction in Direction},
            tight(law, at.epsilon),
        )
        if 1e-12 < found.delta < 0.5:
            yield at, found


def _bounds(law: Law, direction: Direction, epsilon: float) -> Iterator[tuple[str, Certificate]]:
    for method in bounds_for_every_vector(law, direction):
        if (certificate := method(law, epsilon, None)) is not None:
            yield certificate.proof.value, certificate
    if (found := concentrated(law, direction, epsilon)) is not None:
        yield "concentrated (grid)" if found.step else "concentrated (contour)", found


def between(rng: random.Random, low: float, high: float) -> float:
    """Log-uniform between ``low`` and ``high``."""
    return low * math.exp(rng.random() * math.log(high / low))


def vectors(rng: random.Random, at: Setting) -> dict[str, Vector]:
    """Feasible vectors, kappa* first: each t at most s^2, their sum at most k s^2."""
    top, total, least = at.s**2, at.k * at.s**2, math.ceil(at.k)
    menu: dict[str, Vector] = {"kappa*": at.kappa}
    for factor in (1.0, 1.5, 3.0, 8.0):
        count = max(least, math.ceil(least * factor * between(rng, 1.0, 1.3)))
        menu[f"spread x{factor:g}"] = ((count, total / count),)
    for name in ("two-level", "two-level again"):
        high = rng.randint(1, math.floor(at.k)) if at.k >= 1 else 0
        share = rng.random()
        rest = total - high * top * share
        low = math.ceil(rest / top * between(rng, 1.0, 10.0))
        menu[name] = ((high, top * share), (low, rest / low))
    menu["dirichlet"] = _dirichlet(rng, at)
    shaved = between(rng, 1e-3, 0.3)
    menu["nearly kappa*"] = ((least, total / least * (1 - shaved)), (1, min(top, total * shaved)))
    menu["half"] = ((max(1, math.floor(at.k / 2)), top),)
    return menu


def _dirichlet(rng: random.Random, at: Setting) -> Vector:
    """Five groups of equal coordinates with random shares of the squared norm, clipped to s^2."""
    top, total = at.s**2, at.k * at.s**2
    shares = [rng.gammavariate(0.7, 1.0) for _ in range(5)]
    groups = []
    for share in shares:
        part = total * share / sum(shares)
        count = math.ceil(part / top * between(rng, 0.5, 3.0)) or 1
        if part > _TOO_LITTLE * total:
            groups.append((count, min(top, part / count)))
    return tuple(groups)


# ---------------------------------------------------------------- attacks


def attack(
    at: Setting, direction: Direction, proven: Proven, menu: dict[str, Vector], record: Record
) -> tuple[float, str]:
    """The largest delta found in one direction and its adversary, compared with every bound."""
    found = {"gaussian": gaussian_delta(at.gaussian_mu * math.sqrt(at.rounds), at.epsilon)}
    if at.k > _FEW:
        found |= fixed_deltas(at, direction, menu)
        found |= adaptive_deltas(at, direction, menu, record, most_cells=_FEW_CELLS)
    else:
        found |= adaptive_deltas(at, direction, menu, record)
    true, name = max((value, name) for name, value in found.items())
    bounds = proven.bounds[direction] | {"tight": proven.tight[direction]}
    least = min(certificate.delta for certificate in bounds.values())
    for refine in _REFINEMENTS:
        if true > _CLOSE * least and name != "gaussian":
            true = min(true, _more_precisely(at, direction, menu, name, refine))
    for proof, certificate in bounds.items():
        record.add(direction.value, proof, true, certificate.delta, name, at)
    return true, name


def _more_precisely(
    at: Setting, direction: Direction, menu: dict[str, Vector], name: str, refine: float
) -> float:
    """Delta of one adversary, by a contour integral or on a finer grid; infinite where neither works."""
    if name in menu:
        by_contour = contour_delta(_world(at, direction), menu[name], at.rounds)
        if by_contour is not None:
            return by_contour
    return adaptive_deltas(at, direction, menu, Record(), refine).get(name, math.inf)


def _world(at: Setting, direction: Direction) -> World:
    return World(at.gamma, 1 if direction is Direction.ADD else -1, at.epsilon, 1.0)


def fixed_deltas(at: Setting, direction: Direction, menu: dict[str, Vector]) -> dict[str, float]:
    """Delta of each vector in all rounds by a contour integral, where that converges."""
    world = _world(at, direction)
    found = {name: contour_delta(world, vector, at.rounds) for name, vector in menu.items()}
    return {name: delta for name, delta in found.items() if delta is not None}


def adaptive_deltas(
    at: Setting,
    direction: Direction,
    menu: dict[str, Vector],
    record: Record,
    refine: float = 1.0,
    most_cells: int | None = None,
) -> dict[str, float]:
    """Delta of each vector in all rounds, and of the adversary who chooses among them round by round."""
    prepared = prepare(at, direction, menu, refine)
    if prepared is None or (most_cells is not None and prepared[1].cells > most_cells):
        return {}
    world, grid = prepared
    laws: dict[str, Spectrum] = {name: spectrum(world, grid, vector) for name, vector in menu.items()}
    if gaussian_fits(world, grid, at.gaussian_mu, at.rounds):
        laws["gaussian"] = gaussian_spectrum(world, grid, at.gaussian_mu)
    deltas = {name: constant(world, grid, law, at.rounds) for name, law in laws.items()}
    if at.rounds > 1:
        best = max(deltas.values())
        deltas["adaptive"] = best_response(world, grid, list(laws.values()), at.rounds)
        record.adaptive += 1
        if best > 1e-12:
            record.gain = max(record.gain, deltas["adaptive"] / best)
    deltas.pop("gaussian", None)  # in all rounds it has a closed form
    return deltas


def prepare(
    at: Setting, direction: Direction, menu: dict[str, Vector], refine: float = 1.0
) -> tuple[World, Grid] | None:
    """The world tilted to the saddle point of the worst vector, and a grid that fits all vectors."""
    all_vectors = list(menu.values())
    world = _world(at, direction)
    world = replace(world, tilt=best_tilt(world, all_vectors, at.rounds))
    grid = fitting_grid(world, all_vectors, at.rounds, refine)
    return None if grid is None else (world, grid)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of the Gaussian mechanism of sensitivity / sigma ``mu``."""
    from scipy.special import log_ndtr

    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    first, second = float(log_ndtr(a)), epsilon + float(log_ndtr(b))
    return -math.exp(first) * math.expm1(min(0.0, second - first))


def cross_check(at: Setting, menu: dict[str, Vector], record: Record) -> None:
    """Compare the grid with contour integrals at all vectors."""
    for direction in Direction:
        deltas = adaptive_deltas(at, direction, menu, Record())
        for name, contour in fixed_deltas(at, direction, menu).items():
            if deltas and contour > max(1e-12, 0.1 * max(deltas.values())):
                record.cross_checks += 1
                record.disagreement = max(record.disagreement, abs(deltas[name] / contour - 1))


def run(count: int, seed: int, seconds: float = math.inf) -> Record:
    """Attack ``count`` settings, or as many as take ``seconds`` of CPU."""
    rng, record = random.Random(seed), Record()
    for at, found in settings(rng):
        if record.attacked >= count or time.process_time() > seconds:
            return record
        record.attacked += 1
        menu = vectors(rng, at)
        worst = {direction: attack(at, direction, found, menu, record) for direction in Direction}
        true, name = max(worst.values())
        record.add("both", "tight", true, found.delta, name, at)
        if record.attacked % 20 == 0 and at.k <= _FEW:
            cross_check(at, menu, record)
        record.show_progress(500)
    raise AssertionError("settings never end")


def run_by_options(
    run: Callable[[int, int, float], Record], module: str, settings: int, arguments: Sequence[str] | None
) -> tuple[Record, str]:
    """Attack as the command line says, by default so many settings; the record, and a summary of it."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=sys.modules[run.__module__].__doc__
    )
    parser.add_argument("--settings", type=int, default=settings)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this much CPU time")
    options = parser.parse_args(arguments)
    record = run(options.settings, options.seed, options.seconds)
    return record, (
        f"{record.attacked} settings, seed {options.seed}, {record.adaptive} adaptive games,"
        f" {record.violations} violations, {time.process_time():.0f} s of CPU.\n"
        f"Adaptive over the best fixed vector: up to {record.gain:.4f}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    record, summary = run_by_options(run, "benchmarks.attack", 5000, arguments)
    compared = f"{record.cross_checks} comparisons, at most {record.disagreement:.1e} apart"
    print(f"{summary} Grid and contour: {compared}.\n\n{record}")


if __name__ == "__main__":
    main()
