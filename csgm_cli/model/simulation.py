"""The frozen values of simulations, which no other command needs (standard library only)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from csgm_cli.model.result import Calibration


@dataclass(frozen=True)
class Prediction:
    """A quantity by its formula, and its estimate with a confidence interval."""

    quantity: str
    predicted: float
    estimate: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the interval covers the prediction."""
        return self.low <= self.predicted <= self.high


@dataclass(frozen=True)
class MeanSimulation:
    """What simulated rounds say about the error of the mean.

    ``predictions``: of the MSE and of the bias, each with an interval of confidence ``confidence``.
    ``worst_case_mse``: the MSE for the worst client vectors, which calibrations report; None where the row
    norms of a factorization are unknown. ``encoding_error``: relative L2 distance of the mean of the encoded
    vectors from that of the given ones, due to clipping and rounding.
    """

    trials: int
    confidence: float
    predictions: tuple[Prediction, ...]
    worst_case_mse: float | None
    encoding_error: float

    @property
    def holds(self) -> bool:
        """Whether every interval covers its prediction."""
        return all(prediction.holds for prediction in self.predictions)


@dataclass(frozen=True)
class Audit:
    """A lower bound on epsilon from a distinguishing game, which holds with probability ``confidence``.

    ``trials``: games with the client, and as many without. ``threshold``: on the log-likelihood ratio, of the
    event that gave the bound.
    """

    epsilon: float
    delta: float
    confidence: float
    trials: int
    threshold: float


@dataclass(frozen=True)
class TrainingCost:
    """What a plan costs, known before the training.

    ``noise_inflation``: the effective noise multiplier over that of the plain Gaussian mechanism (with a
    factorization, the matrix mechanism). ``bytes_per_client``: expected size of a payload;
    ``dense_bytes_per_client``: of all parameters in float32. ``noise_to_signal``: L2 norm of the noise on the
    mean of a round over the L2 clip norm, which the norm of the mean does not exceed; with a factorization,
    of the noise on the sum of the T rounds of an epoch over T clip norms.
    """

    noise_inflation: float
    bytes_per_client: float
    dense_bytes_per_client: int
    noise_to_signal: float


@dataclass(frozen=True)
class TrainingRound:
    """One round of a simulated training.

    ``accuracy``: on the test examples, after the round. ``bytes``: what the clients sent, headers included;
    with client sampling the expected number, as the size of a cohort is secret. ``participations``: the
    releases, or with a factorization the epochs, that one client may have influenced so far.
    """

    round: int
    accuracy: float
    bytes: int
    participations: int


@dataclass(frozen=True)
class TrainingRun:
    """A simulated training, or what was done of it when it was interrupted.

    ``calibration``: of its plan. ``dataset``, ``dataset_sha256``: what it was trained on.
    ``examples_per_client``; ``parameters``: of the model. ``planned_rounds``: of the whole training.
    ``bytes_are_expected``: as the size of a cohort is secret. ``versions``: of Python and NumPy, as other
    versions may round differently.
    """

    calibration: Calibration
    cost: TrainingCost
    rounds: tuple[TrainingRound, ...]
    planned_rounds: int
    dataset: str
    dataset_sha256: str
    examples_per_client: int
    parameters: int
    bytes_are_expected: bool
    versions: Mapping[str, str]

    @property
    def is_complete(self) -> bool:
        """Whether all planned rounds were run."""
        return len(self.rounds) == self.planned_rounds


@dataclass(frozen=True, eq=False)
class TrainingState:
    """What a training goes on from: the rounds so far, the model, and its velocity.

    ``total``: the sum of all payloads of a begun epoch in the rotated domain; zeros without a factorization.
    """

    rounds: tuple[TrainingRound, ...]
    parameters: NDArray[np.float64]
    velocity: NDArray[np.float64]
    total: NDArray[np.float64]
