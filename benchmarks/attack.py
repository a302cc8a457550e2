"""``python -m benchmarks.attack``: try to break the tight accountant's upper bounds on delta.

Random settings; in each, many feasible vectors and the adversary who picks the next round's vector
after seeing the loss so far. No exact profile may exceed what is proven for its direction.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.adversary import (
    Grid,
    Spectrum,
    Vector,
    World,
    best_response,
    best_tilt,
    constant,
    fitting_grid,
    gaussian_fits,
    gaussian_spectrum,
    spectrum,
)
from csgm_cli.core.profile import reach
from csgm_cli.core.tight import TightDelta, tight_delta
from csgm_cli.model.mechanism import Geometry, Mechanism, MechanismName
from csgm_cli.profile.contour import Direction, Law, build_contour

if TYPE_CHECKING:
    from csgm_cli.core.certificate import Certificate

#: The grids move a profile up by about 1e-3 at most; from here on a finer one decides.
_CLOSE = 0.99
_REFINEMENT = 6.0
#: Up to this k every strategy is tried on a grid; above, constant vectors by contour integrals.
_FEW = 30.0
#: Of the norm squared; far less than that is out of float64's range in a contour integral.
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


@dataclass
class Finding:
    """The worst of one direction and one proof; ``strategy`` says which adversary found it."""

    cases: int = 0
    violations: int = 0
    ratio: float = 0.0
    strategy: str = ""
    setting: Setting | None = None

    def add(self, ratio: float, strategy: str, setting: Setting) -> None:
        """Count one more case."""
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
        """Compare the worst profile found with its bound."""
        ratio = true / bound if bound > 0.0 else (math.inf if true > 0.0 else 0.0)
        self.findings.setdefault((direction, proof), Finding()).add(ratio, strategy, at)

    @property
    def violations(self) -> int:
        """Cases in which a profile exceeded its bound."""
        return sum(finding.violations for finding in self.findings.values())

    def __str__(self) -> str:
        rows = [
            "| direction | proof | cases | violations | worst true / bound | by | setting |",
            "|" + "---|" * 7,
        ]
        for (direction, proof), f in sorted(self.findings.items()):
            where = f.setting
            assert where is not None
            rows.append(
                f"| {direction} | {proof} | {f.cases} | {f.violations} | {f.ratio:.4f} | {f.strategy} | gamma"
                f" {where.gamma:.5g}, s {where.s:.5g}, k {where.k:.5g}, T {where.rounds}, epsilon"
                f" {where.epsilon:.5g} |"
            )
        return "\n".join(rows)


# ---------------------------------------------------------------- settings and vectors


def settings(rng: random.Random) -> Iterator[tuple[Setting, TightDelta]]:
    """Random settings whose delta is between 1e-12 and 1/2, with the bounds to attack."""
    while True:
        k = _between(rng, 1.0, 30.0) if rng.random() < 0.8 else _between(rng, 30.0, 1e5)
        k = float(round(k)) if rng.random() < 0.3 else k
        s = _between(rng, 0.02, 3.0)
        at = Setting(_between(rng, 1e-3, 0.95), s, k, rng.randint(1, 4), _between(rng, 0.1, 6.0))
        found = tight_delta(at.mechanism, at.sigma, at.epsilon)
        if found.is_known and 1e-12 < found.upper < 0.5:
            yield at, found


def _between(rng: random.Random, low: float, high: float) -> float:
    return low * math.exp(rng.random() * math.log(high / low))


def vectors(rng: random.Random, at: Setting) -> dict[str, Vector]:
    """Feasible vectors, kappa* first: every t at most s^2, all together at most k s^2."""
    top, total, least = at.s**2, at.k * at.s**2, math.ceil(at.k)
    menu: dict[str, Vector] = {"kappa*": at.kappa}
    for factor in (1.0, 1.5, 3.0, 8.0):
        count = max(least, math.ceil(least * factor * _between(rng, 1.0, 1.3)))
        menu[f"spread x{factor:g}"] = ((count, total / count),)
    for name in ("two-level", "two-level again"):
        high = rng.randint(1, math.floor(at.k)) if at.k >= 1 else 0
        share = rng.random()
        rest = total - high * top * share
        low = math.ceil(rest / top * _between(rng, 1.0, 10.0))
        menu[name] = ((high, top * share), (low, rest / low))
    menu["dirichlet"] = _dirichlet(rng, at)
    shaved = _between(rng, 1e-3, 0.3)
    menu["nearly kappa*"] = ((least, total / least * (1 - shaved)), (1, min(top, total * shaved)))
    menu["half"] = ((max(1, math.floor(at.k / 2)), top),)
    return menu


def _dirichlet(rng: random.Random, at: Setting) -> Vector:
    """Five groups of equal coordinates at random shares, those above the clip cut down to it.

    Shares too small to show in losses are left out.
    """
    top, total = at.s**2, at.k * at.s**2
    shares = [rng.gammavariate(0.7, 1.0) for _ in range(5)]
    groups = []
    for share in shares:
        part = total * share / sum(shares)
        count = math.ceil(part / top * _between(rng, 0.5, 3.0)) or 1
        if part > _TOO_LITTLE * total:
            groups.append((count, min(top, part / count)))
    return tuple(groups)


# ---------------------------------------------------------------- attacks


def attack(
    at: Setting, direction: Direction, proof: Certificate, menu: dict[str, Vector], record: Record
) -> tuple[float, str]:
    """The largest delta found in one direction and what reached it, held against its bound."""
    found = {"gaussian": gaussian_delta(at.gaussian_mu * math.sqrt(at.rounds), at.epsilon)}
    if at.k > _FEW:
        found |= {name: contour_delta(at, direction, vector) for name, vector in menu.items()}
    else:
        found |= adaptive_deltas(at, direction, menu, record)
    true, name = max((value, name) for name, value in found.items())
    if true > _CLOSE * proof.value and at.k <= _FEW:
        true = min(true, adaptive_deltas(at, direction, menu, record, _REFINEMENT).get(name, true))
    record.add(direction.value, proof.proof.value, true, proof.value, name, at)
    return true, name


def adaptive_deltas(
    at: Setting, direction: Direction, menu: dict[str, Vector], record: Record, refine: float = 1.0
) -> dict[str, float]:
    """Delta of every vector in all rounds, and of the adversary who chooses among them as it goes."""
    prepared = prepare(at, direction, menu, refine)
    if prepared is None:
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
    return deltas


def prepare(
    at: Setting, direction: Direction, menu: dict[str, Vector], refine: float = 1.0
) -> tuple[World, Grid] | None:
    """The world tilted to where the worst of the menu lives, and a grid that holds them all."""
    sign, all_vectors = (1 if direction is Direction.ADD else -1), list(menu.values())
    world = World(at.gamma, sign, at.epsilon, 1.0)
    world = replace(world, tilt=best_tilt(world, all_vectors, at.rounds))
    grid = fitting_grid(world, all_vectors, at.rounds, refine)
    return None if grid is None else (world, grid)


def contour_delta(at: Setting, direction: Direction, vector: Vector) -> float:
    """Delta of one vector in all rounds by the contour integral, less its error; 0 where out of reach."""
    law = Law(at.gamma, tuple((float(at.rounds * n), t) for n, t in vector))
    if direction is Direction.REMOVE and at.epsilon + law.floor >= 0.0:
        return 0.0
    with np.errstate(all="ignore"):  # where searches for a saddle leave the range of floats
        contour = build_contour(law, direction, at.epsilon)
        if contour is None:
            return 0.0
        value, error = contour.integral(-at.epsilon, np.ones_like(contour.z))
    return max(0.0, value - error - contour.aliases)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of the Gaussian mechanism of sensitivity / sigma ``mu``."""
    from scipy.special import log_ndtr

    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    first, second = float(log_ndtr(a)), epsilon + float(log_ndtr(b))
    return -math.exp(first) * math.expm1(min(0.0, second - first))


def cross_check(at: Setting, menu: dict[str, Vector], record: Record) -> None:
    """Hold grid against contour integrals over a menu, where neither has an atom to resolve."""
    if reach(Law(at.gamma, tuple((float(at.rounds * n), t) for n, t in at.kappa))) == 0.0:
        return
    for direction in Direction:
        deltas = adaptive_deltas(at, direction, menu, record)
        for name, vector in menu.items():
            contour = contour_delta(at, direction, vector)
            if deltas and contour > max(1e-12, 0.1 * max(deltas.values())):
                record.cross_checks += 1
                record.disagreement = max(record.disagreement, abs(deltas[name] / contour - 1))


def run(count: int, seed: int, seconds: float = math.inf) -> Record:
    """Attack ``count`` settings, or as many as fit in ``seconds``."""
    rng, record, end = random.Random(seed), Record(), time.monotonic() + seconds
    for at, found in settings(rng):
        if record.attacked >= count or time.monotonic() > end:
            return record
        record.attacked += 1
        menu = vectors(rng, at)
        worst = {
            direction: attack(at, direction, proof, menu, record)
            for direction, proof in ((Direction.ADD, found.add), (Direction.REMOVE, found.remove))
        }
        true, name = max(worst.values())
        record.add("both", found.bound.value, true, found.upper, name, at)
        if record.attacked % 20 == 0 and at.k <= _FEW:
            cross_check(at, menu, record)
    raise AssertionError("settings never end")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attack", description=__doc__)
    parser.add_argument("--settings", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this long")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    record = run(options.settings, options.seed, options.seconds)
    print(
        f"{record.attacked} settings, seed {options.seed}, {record.adaptive} adaptive games,"
        f" {record.violations} violations, {time.monotonic() - start:.0f} s.\n"
        f"Adaptive over the best constant vector: up to {record.gain:.4f}."
        f" Grid against contour: {record.cross_checks} checks, {record.disagreement:.1e} apart at most.\n"
    )
    print(record)


if __name__ == "__main__":
    main()
