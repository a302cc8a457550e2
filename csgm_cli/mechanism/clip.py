"""Clipping of rotated vectors, such that the clip norms hold despite rounding errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from csgm_cli.mechanism.plan import Plan


#: Below this, terms of a sum of squares may have underflowed.
_LEAST_SQUARED = 1e-200


def norm_upper(values: NDArray[np.float64]) -> float:
    """An upper bound on the L2 norm of ``values``, each at most 1e140, rounding errors included."""
    squared = float(np.einsum("i,i", values, values))  # BLAS would start threads for it
    if 0.0 < squared < _LEAST_SQUARED or (squared == 0.0 and values.any()):  # squares underflow
        return math.nextafter(norm_upper(values * 2.0**500) * 2.0**-500, math.inf)
    return math.sqrt(squared) * (1 + _rounding(len(values)))


def _rounding(count: int) -> float:
    """At least four times the relative rounding error of the square root of a sum of ``count`` squares."""
    return (count + 8) * 2.0**-52


def l2_scale(plan: Plan, rotated: NDArray[np.float64]) -> float:
    """The factor, at most 1, by which a rotated vector is multiplied to be within the L2 clip of the plan.

    `norm_upper` of the product, and of any part of it, is at most ``plan.l2_norm``.
    """
    if not plan.clips_l2:
        return 1.0
    # The server's `norm_upper` adds its own rounding error to the norm of what is sent.
    limit = plan.l2_norm * (1 - 3 * _rounding(len(rotated)))
    norm = norm_upper(rotated)
    return limit / norm if norm > limit else 1.0
