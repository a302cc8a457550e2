"""Sensitivity, errors and lower bound of a banded C, all from its bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.bands.blocks import blocks_of, evaluate
from csgm_cli.factorization.bands.certificate import lower_bound

if TYPE_CHECKING:
    from csgm_cli.model.factorization import BandedDual, Workload

Array = NDArray[np.float64]


class Measured(NamedTuple):
    """Squared sensitivity, both squared errors at sensitivity 1, and a lower bound on the objective."""

    sensitivity_squared: float
    mean_squared_error: float
    max_squared_error: float
    lower_bound: float


def row_errors(workload: Workload, bands: Array) -> Array:
    """The squared norm of each row of B."""
    return blocks_of(bands / rates_of(workload)).row_errors()


def measured(workload: Workload, bands: Array, dual: BandedDual | None = None) -> Measured:
    """Measure the C with these ``bands``; the lower bound holds for every C with as many bands.

    Without a ``dual`` the bound is the one on the mean error that C itself proves, which also bounds the max
    error.
    """
    squared = float(np.einsum("lj,lj->j", bands, bands).max())
    rows = squared * row_errors(workload, bands)
    proof, weights = (bands, np.ones(workload.T)) if dual is None else (dual.bands, dual.rows)
    proof, weights = np.asarray(proof), np.asarray(weights) / np.sum(weights)
    norms = np.sqrt(np.einsum("lj,lj->j", proof, proof).max()) / rates_of(workload)
    # The bound is for columns of these norms; for norm 1 it is larger by their square.
    bound = lower_bound(evaluate(proof / rates_of(workload), weights), norms, len(proof))
    bound *= float(norms[0] * rates_of(workload)[0]) ** 2
    return Measured(squared, float(rows.mean()), float(rows.max()), bound)


def rates_of(workload: Workload) -> Array:
    """The learning rates, or ones: for prefix sums C diag(1/rates) has the errors of C."""
    rates = workload.learning_rates
    return np.ones(workload.T) if rates is None else np.asarray(rates)
