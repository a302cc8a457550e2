"""Confidence intervals for a mean and for a probability."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def mean_interval(samples: NDArray[np.float64], confidence: float) -> tuple[float, float, float]:
    """The mean of independent ``samples`` and Student's interval for the expectation."""
    from scipy import special  # slow to import

    count = len(samples)
    mean = float(samples.mean())
    quantile = float(special.stdtrit(count - 1, (1 + confidence) / 2))
    margin = quantile * float(samples.std(ddof=1)) / math.sqrt(count)
    return mean, mean - margin, mean + margin


def clopper_pearson(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Clopper-Pearson bounds on a probability; each fails with probability at most ``error``."""
    from scipy import special

    low = float(special.betaincinv(successes, trials - successes + 1, error)) if successes else 0.0
    failures = trials - successes
    high = float(special.betaincinv(successes + 1, failures, 1 - error)) if failures else 1.0
    return low, high
