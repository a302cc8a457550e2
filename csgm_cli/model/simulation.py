"""The frozen values of simulations, which no other command needs (standard library only)."""

from __future__ import annotations

from dataclasses import dataclass


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
