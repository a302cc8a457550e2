"""Sensitivity, errors and lower bound of a banded C, all from its bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.bands.blocks import blocks_of, evaluate
from csgm_cli.factorization.bands.certificate import lower_bound
from csgm_cli.model.factorization import Objective

if TYPE_CHECKING:
    from csgm_cli.model.factorization import Workload

Array = NDArray[np.float64]

#: Weights of rows that bound the max error are powers of the rows' errors; none below this share.
_POWERS, _LEAST_WEIGHT = (64.0, 256.0, 1024.0, 4096.0), 1e-12


class Measured(NamedTuple):
    """Squared sensitivity, both squared errors at sensitivity 1, and a lower bound on the objective."""

    sensitivity_squared: float
    mean_squared_error: float
    max_squared_error: float
    lower_bound: float


def row_errors(workload: Workload, bands: Array) -> Array:
    """The squared norm of each row of B."""
    return blocks_of(released(workload, bands)).row_errors()


def measured(workload: Workload, objective: Objective, bands: Array) -> Measured:
    """Everything about the C with these ``bands``; the bound holds for every C with as many."""
    squares = np.einsum("lj,lj->j", bands, bands)
    squared = float(squares.max())
    rows = row_errors(workload, bands)
    if objective is Objective.MEAN:
        bound = weighted_bound(workload, bands, squared, np.ones(len(rows)))
    else:
        relative = np.log(rows / rows.max())
        weights = (np.maximum(np.exp(power * relative), _LEAST_WEIGHT) for power in _POWERS)
        bound = max(weighted_bound(workload, bands, squared, each) for each in weights)
    return Measured(squared, squared * float(rows.mean()), squared * float(rows.max()), bound)


def weighted_bound(workload: Workload, bands: Array, squared: float, weights: Array) -> float:
    """A lower bound on the weighted mean, and so on the max error, of all C with as many bands."""
    norms = np.sqrt(squared) / rates_of(workload)
    found = evaluate(released(workload, bands), weights)
    return squared * lower_bound(found, norms, len(bands)) / float(weights.sum())


def released(workload: Workload, bands: Array) -> Array:
    """The bands of the C whose errors for prefix sums are those of C for ``workload``: C diag(1/rates)."""
    return bands if workload.learning_rates is None else bands / rates_of(workload)


def rates_of(workload: Workload) -> Array:
    """The learning rates, ones where there are none."""
    rates = workload.learning_rates
    return np.ones(workload.T) if rates is None else np.asarray(rates)
