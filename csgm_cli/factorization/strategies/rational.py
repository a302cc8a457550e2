"""Rational functions near x^(-1/2), given by their poles and zeros, and a search for the best of a family.

``points`` p_1 < p_2 < ... < p_2N are the negated poles and zeros of

    r(x) = prod_j (x + p_2j) / (x + p_(2j-1)) = 1 + sum_j w_j / (x + p_(2j-1)),

all w_j positive because they are interlaced. The constant factor is omitted, since C is normalized.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Points in a search: complex if derivatives are computed by complex steps.
Points = NDArray[Any]

#: Coefficients of a move. They reach all parameters of one or two poles; two more would reduce the excess by
#: a few per cent.
_MOVES = 4
#: The search: initial step in the logarithm of a point, and largest number of evaluations per coefficient.
_STEP, _EVALUATIONS = 0.3, 40
#: Stopping criteria: size of the simplex, and relative difference of the errors at its points.
_LAST_STEP, _LAST_ERROR = 1e-2, 1e-6


def residues(zeros: Points, poles: Points) -> Points:
    """w_j of prod_i (x + zeros_i)/(x + poles_i) = 1 + sum_j w_j/(x + poles_j), along the last axis."""
    apart = poles[..., :, None] - poles[..., None, :]
    apart = np.where(np.eye(poles.shape[-1], dtype=bool), 1.0, apart)
    return np.asarray(np.prod((zeros[..., :, None] - poles[..., None, :]) / apart, axis=-2))


def moved(points: Array, moves: Array) -> Array | None:
    """The points times exp of a polynomial in their index; None if they are no longer increasing.

    ``moves``: the Chebyshev coefficients of the polynomial.
    """
    index = np.arange(1, len(points) + 1) / (len(points) + 1)
    found = points * np.exp(np.polynomial.chebyshev.chebval(2.0 * index - 1.0, moves))
    return found if bool((np.diff(found) > 0.0).all()) else None


def best_moves(error: Callable[[Array], float], points: Array) -> Array:
    """The moves of ``points`` with the smallest ``error``, by the Nelder-Mead method.

    The error need not be differentiable (the max error is not), and may be infinite or NaN.
    """
    from scipy.optimize import minimize

    def log_error(moves: Array) -> float:
        at = moved(points, moves)
        found = np.inf if at is None else np.log(error(at))
        return float(found) if np.isfinite(found) else np.inf

    count = min(_MOVES, len(points))
    simplex = np.vstack([np.zeros(count), _STEP * np.eye(count)])
    ends = {"xatol": _LAST_STEP, "fatol": _LAST_ERROR, "maxfev": _EVALUATIONS * count}
    options = {"initial_simplex": simplex, **ends}
    found = minimize(log_error, simplex[0], method="Nelder-Mead", options=options)
    return np.asarray(found.x)
