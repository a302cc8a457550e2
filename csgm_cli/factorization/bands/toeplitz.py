"""The best banded Toeplitz C for prefix sums: p coefficients c, C_ij = c[i - j]."""

# ruff: noqa: N803 - T is the number of rows in every formula

from __future__ import annotations

from itertools import islice

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.bands.blocks import trimmed
from csgm_cli.factorization.bands.descent import Point, descent
from csgm_cli.model.factorization import Objective

Array = NDArray[np.float64]

_PAIRS, _MOST_STEPS = 20, 2000
#: The search ends when this many steps lower the logarithm of the error by less than this.
_PATIENCE, _PROGRESS = 10, 1e-14


def toeplitz_bands(T: int, bands: int, objective: Objective) -> Array:
    """The bands (p, T) of the best C found, with coefficients of norm 1; a local optimum.

    The first column of B is b = cumsum(1/c). The mean error is ||c||^2 sum_t (1 - t/T) b_t^2, the max error,
    that of the last row, ||c||^2 ||b||^2.
    """
    weights = np.arange(T, 0.0, -1.0) / T if objective is Objective.MEAN else np.ones(T)
    c = _coefficients(weights, bands)
    return trimmed(np.repeat((c / np.linalg.norm(c))[:, None], T, axis=1))


def _coefficients(weights: Array, bands: int) -> Array:
    from scipy.signal import lfilter

    sums = np.ones(len(weights))

    def evaluate(x: Array) -> Point:
        """The logarithm of the error at c = (1, x): db = -(b/c) * dc."""
        c = np.concatenate([[1.0], x])
        with np.errstate(all="ignore"):  # unstable filters overflow
            b = lfilter([1.0], c, sums)
            slope = lfilter([1.0], c, b)
            weighed = weights * b
            rows, columns = float(weighed @ b), float(c @ c)
            value = np.log(rows) + np.log(columns)
            pulls = np.array([weighed[lag:] @ slope[: len(b) - lag] for lag in range(1, bands)])
            gradient = 2.0 * x / columns - 2.0 * pulls / rows
        finite = np.isfinite(value) and np.isfinite(gradient).all()
        return Point(x, float(value) if finite else np.inf, gradient)

    k = np.arange(1.0, bands)
    # The coefficients of the square root of prefix sums decrease, so the filter is stable.
    x: Array = np.cumprod((2.0 * k - 1.0) / (2.0 * k)).astype(np.float64)
    before: list[float] = []
    for point in islice(descent(evaluate, x, _PAIRS), _MOST_STEPS):
        x = point.x
        before.append(point.value)
        if len(before) > _PATIENCE and before[-1 - _PATIENCE] - point.value < _PROGRESS:
            break
    return np.concatenate([[1.0], x])
