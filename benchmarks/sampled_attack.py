"""``python -m benchmarks.sampled_attack``: try to break the upper bounds on delta under client sampling.

The vectors are those of `attack`, in up to 5,000 rounds; up to 3 rounds also an adversary who chooses the
vector of the next round after seeing the loss so far. No true delta may exceed any bound of its direction.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.adversary import Vector, World, best_response, constant
from benchmarks.attack import Proven, Record, Setting, between, run_by_options, vectors
from benchmarks.sampled_adversary import (
    Losses,
    saddle_tilt,
    sampled_grid,
    sampled_losses,
    sampled_spectrum,
)
from csgm_cli.bounds.tight import bounds_by_grid, bounds_for_every_vector, tight
from csgm_cli.bounds.worst_case import worst_case_law
from csgm_cli.model.certificate import Certificate, Direction
from csgm_cli.renyi.conversion import renyi_log_delta

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Mechanism
    from csgm_cli.renyi.law import Law

#: The grids raise a profile by up to 2 %; a ratio above this is computed again on grids so much finer.
_CLOSE, _REFINEMENTS = 0.97, (4.0, 16.0)
#: The Renyi orders that choose the noise.
_ORDERS = (2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 22.0, 40.0, 60.0)
#: A smaller delta counts as 0: the laws leave out e^-45, and the FFT rounds.
_LEAST = 1e-15
#: Up to so many rounds the adversary may adapt.
_ADAPTIVE_ROUNDS = 3


@dataclass(frozen=True)
class SampledSetting(Setting):
    """A `Setting` in which a client takes part in each round with probability ``rate``."""

    rate: float = 1.0

    @property
    def mechanism(self) -> Mechanism:
        """With an unknown dimension."""
        return replace(super().mechanism, sampling_rate=self.rate)

    def __str__(self) -> str:
        return f"q {self.rate:.5g}, {super().__str__()}"


def settings(rng: random.Random) -> Iterator[tuple[SampledSetting, Proven]]:
    """Random settings with sigma near the smallest that meets a random (epsilon, delta), and the bounds."""
    while True:
        k = between(rng, 1.0, 30.0) if rng.random() < 0.7 else between(rng, 30.0, 1e4)
        k = float(round(k)) if rng.random() < 0.3 else k
        rounds = rng.randint(1, 3) if rng.random() < 0.5 else round(between(rng, 4, 5000))
        at = SampledSetting(
            between(rng, 1e-3, 0.999), 1.0, k, rounds, between(rng, 0.1, 8.0), between(rng, 1e-4, 0.999)
        )
        sigma = between(rng, 0.9, 1.1) * _noise(at, math.log(between(rng, 1e-10, 1e-2)))
        at = replace(at, s=at.mechanism.geometry.linf_norm / sigma)
        law = worst_case_law([(at.mechanism, at.sigma)])
        found = Proven({each: _bounds(law, each, at.epsilon) for each in Direction}, tight(law, at.epsilon))
        if 1e-12 < found.delta < 0.5:
            yield at, found


def _noise(at: SampledSetting, log_delta: float) -> float:
    """The sigma at which a few integer Renyi orders prove ``log_delta``, by bisection."""
    low, high = math.log(1e-3 * at.gamma), math.log(1e3)
    while high - low > 1e-3:
        middle = (low + high) / 2
        law = worst_case_law([(at.mechanism, math.exp(middle))])
        found = min(renyi_log_delta(a, law.log_moment(a), at.epsilon) for a in _ORDERS)
        low, high = (low, middle) if found < log_delta else (middle, high)
    return math.exp(high)


def _bounds(law: Law, direction: Direction, epsilon: float) -> dict[str, Certificate]:
    """The smallest bound of each proof."""
    found: dict[str, Certificate] = {}
    for method in (*bounds_for_every_vector(law, direction), *bounds_by_grid(law, direction)):
        certificate = method(law, epsilon, None)
        if certificate is not None and certificate.log_delta < math.inf:
            known = found.get(certificate.proof.value, certificate)
            found[certificate.proof.value] = min(known, certificate, key=lambda each: each.log_delta)
    return found


def true_deltas(
    at: SampledSetting, direction: Direction, menu: dict[str, Vector], refine: float = 1.0
) -> dict[str, float]:
    """Delta of each vector in all rounds, and for few rounds of the adversary who chooses among them."""
    sign = 1 if direction is Direction.ADD else -1
    laws: dict[str, Losses] = {}
    for name, vector in menu.items():
        # spread over infinitely many coordinates, the vector is that of a Gaussian mechanism
        gamma = 1.0 if name == "gaussian" else at.gamma
        losses = sampled_losses(sign, gamma, at.rate, vector, refine)
        if losses is not None:
            laws[name] = losses
    laws = {name: law for name, law in laws.items() if at.rounds * law.loss[-1] > at.epsilon}
    if not laws:
        return {}
    tilt = saddle_tilt(list(laws.values()), at.rounds, at.epsilon)
    world = World(at.gamma, sign, at.epsilon, tilt)
    grid = sampled_grid(world, list(laws.values()), at.rounds, refine)
    if grid is None:
        return {}
    spectra = {name: sampled_spectrum(world, grid, law) for name, law in laws.items()}
    deltas = {name: constant(world, grid, each, at.rounds) for name, each in spectra.items()}
    if 1 < at.rounds <= _ADAPTIVE_ROUNDS:
        deltas["adaptive"] = best_response(world, grid, list(spectra.values()), at.rounds)
    return {name: delta if delta > _LEAST else 0.0 for name, delta in deltas.items()}


def attack(
    at: SampledSetting, direction: Direction, proven: Proven, menu: dict[str, Vector], record: Record
) -> tuple[float, str]:
    """The largest delta found in one direction and its adversary, compared with every bound."""
    bounds = proven.bounds[direction] | {"tight": proven.tight[direction]}
    least = min(certificate.delta for certificate in bounds.values())
    deltas = true_deltas(at, direction, menu)
    _count(deltas, record)
    for refine in _REFINEMENTS:
        for name, value in deltas.items():
            if value > _CLOSE * least:
                only = menu if name == "adaptive" else {name: menu[name]}
                deltas[name] = min(value, true_deltas(at, direction, only, refine).get(name, math.inf))
    true, name = max(((value, name) for name, value in deltas.items()), default=(0.0, "none"))
    for proof, certificate in bounds.items():
        record.add(direction.value, proof, true, certificate.delta, name, at)
    return true, name


def _count(deltas: dict[str, float], record: Record) -> None:
    if "adaptive" in deltas:
        record.adaptive += 1
        best = max(value for name, value in deltas.items() if name != "adaptive")
        if best > 1e-12:
            record.gain = max(record.gain, deltas["adaptive"] / best)


def run(count: int, seed: int, seconds: float = math.inf) -> Record:
    """Attack ``count`` settings, or as many as take ``seconds`` of CPU."""
    rng, record = random.Random(seed), Record()
    for at, found in settings(rng):
        if record.attacked >= count or time.process_time() > seconds:
            return record
        record.attacked += 1
        menu = vectors(rng, at) | {"gaussian": ((1, at.gaussian_mu**2),)}
        with np.errstate(under="ignore", over="ignore"):
            worst = {each: attack(at, each, found, menu, record) for each in Direction}
        true, name = max(worst.values())
        record.add("both", "tight", true, found.delta, name, at)
        record.show_progress(25)
    raise AssertionError("settings never end")


def main(arguments: Sequence[str] | None = None) -> None:
    record, summary = run_by_options(run, "benchmarks.sampled_attack", 500, arguments)
    print(f"{summary}\n\n{record}")


if __name__ == "__main__":
    main()
