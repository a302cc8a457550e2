"""What a plan costs in noise and bytes, before a model is trained with it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from csgm_cli.jobs.utility import Rows, error_weights
from csgm_cli.mechanism.wire import expected_bytes
from csgm_cli.model.simulation import TrainingCost

if TYPE_CHECKING:
    from csgm_cli.mechanism.plan import Plan
    from csgm_cli.model.result import Calibration


def training_cost(calibration: Calibration, plan: Plan, parameters: int) -> TrainingCost:
    """The cost of ``plan``, which runs ``calibration``, for a model of so many ``parameters``."""
    gaussian = calibration.gaussian_noise_multiplier
    return TrainingCost(
        noise_inflation=calibration.effective_noise_multiplier / gaussian if gaussian else 1.0,
        bytes_per_client=expected_bytes(plan),
        dense_bytes_per_client=4 * parameters,
        noise_to_signal=_noise_to_signal(plan, parameters),
    )


def _noise_to_signal(plan: Plan, parameters: int) -> float:
    """sqrt(d) sigma/(n gamma l2_norm), or with a factorization sqrt(d) sigma ||B[T]||/(n gamma T l2_norm)."""
    factors = plan.mechanism.factorization
    row, rounds = (
        (1.0, 1) if factors is None else (math.sqrt(error_weights(plan.mechanism, Rows.LAST)[0]), factors.T)
    )
    std = row * plan.sigma / (plan.cohort_size * plan.gamma)
    return math.sqrt(parameters) * std / (rounds * plan.l2_norm)
