"""The noise that a server adds to the sum of a round, in the rotated domain."""

# ruff: noqa: N806 - T is the number of rows in every formula

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.factorization import factor_norms, parse_workload
from csgm_cli.factorization.norms import noise_sensitivity
from csgm_cli.model.factorization import Factorization
from csgm_cli.noise.checks import checked_matrix
from csgm_cli.noise.stream import NoiseStream

if TYPE_CHECKING:
    from csgm_cli.mechanism.plan import Plan
    from csgm_cli.mechanism.randomness import Randomness
    from csgm_cli.model.mechanism import FactorNorms

Floats: TypeAlias = NDArray[np.float64]
#: A factorization, or the array B of a factorization file.
Factors: TypeAlias = Factorization | NDArray[np.floating]

#: Relative tolerance for sensitivities of the same factorization, solved on different machines.
_SAME = 1e-9
#: Coordinates per batch of noise: an array of 512 KiB.
_CHUNK = 1 << 16


class AddedNoise(Protocol):
    """Adds noise to the sum of each round."""

    def release(self, total: Floats) -> Floats:
        """Return the noisy sum; ``total`` may be overwritten."""


class FreshNoise:
    """Independent noise of standard deviation sigma in every round."""

    def __init__(self, plan: Plan, randomness: Randomness) -> None:
        self._sigma, self._randomness = plan.sigma, randomness

    def release(self, total: Floats) -> Floats:
        """The sum with noise on each coordinate."""
        generator = np.random.Generator(np.random.Philox(key=self._randomness.key()))
        for start in range(0, len(total), _CHUNK):
            part = total[start : start + _CHUNK]
            part += self._sigma * generator.standard_normal(len(part))
        return total


class CorrelatedNoise:
    """Adds row t of B Z to the t-th prefix sum; after T rows the next epoch starts with new sums and a new Z.

    ``epochs``: number of epochs begun in earlier runs; an interrupted one counts in full.

    Raises:
        UsageError: ``factors`` do not match the plan (slug ``other-factorization``) or are missing
            (``missing-factors``).
    """

    def __init__(self, plan: Plan, factors: Factors | None, randomness: Randomness, epochs: int = 0) -> None:
        planned = plan.mechanism.factorization
        assert planned is not None  # checked by the caller
        self._factors, sensitivity = _checked_factors(factors, planned)
        self._sigma = plan.sigma * max(1.0, sensitivity / planned.sensitivity)
        self._T, self._length = planned.T, plan.length
        self._randomness, self._epochs = randomness, epochs
        self._stream: NoiseStream | None = None
        self._sums = np.zeros(0)

    @property
    def starts_epoch(self) -> bool:
        """Whether the next row is the first of an epoch."""
        return self._stream is None or self._stream.t == self._stream.T

    @property
    def next_row(self) -> int:
        """The number of the next row, from 0."""
        return 0 if self._stream is None or self.starts_epoch else self._stream.t

    @property
    def epochs_after_next(self) -> int:
        """The number of epochs that have begun once another row is released."""
        return self._epochs + self.starts_epoch

    def remaining(self, epochs: int) -> int:
        """The number of rows left in a plan with ``epochs`` epochs."""
        left = 0 if self._stream is None else self._stream.T - self._stream.t
        return left + self._T * (epochs - self._epochs)

    def release(self, total: Floats) -> Floats:
        """The prefix sum whose last term is ``total``, plus the next row of the noise."""
        if self.starts_epoch:
            self._epochs += 1
            self._sums = np.zeros(self._length)
            self._stream = NoiseStream(
                self._factors, sigma=self._sigma, dim=self._length, on="sums", seed=self._randomness.key(),
                dtype=np.float64,
            )  # fmt: skip
        assert self._stream is not None  # set above
        self._sums += total
        return self._sums + self._stream.next_round()


def _checked_factors(factors: Factors | None, planned: FactorNorms) -> tuple[Factors, float]:
    """The factors and their sensitivity; errors as in `CorrelatedNoise`."""
    if factors is None:
        raise UsageError(
            "missing-factors",
            "a plan with a factorization needs its factors",
            "pass factors=factorize(T), or the array B of the file",
        )
    if isinstance(factors, Factorization):
        found = factor_norms(factors)
        T, sensitivity, workload = found.T, found.sensitivity, found.workload
    else:
        factors = checked_matrix(factors).copy()  # the caller may change the array later
        T, workload = len(factors), planned.workload
        sensitivity = noise_sensitivity(parse_workload(workload, T), "B", factors)
    same = math.isclose(sensitivity, planned.sensitivity, rel_tol=_SAME)
    if (T, workload) != (planned.T, planned.workload) or not same:
        raise UsageError(
            "other-factorization",
            f"the plan is for T {planned.T} and sensitivity {planned.sensitivity!r}, the factors have T {T},"
            f" sensitivity {sensitivity!r} and workload {workload}",
        )
    return factors, sensitivity
