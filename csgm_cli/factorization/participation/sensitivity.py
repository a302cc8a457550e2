"""Sensitivities of C for a client that takes part in up to k steps, at least b apart.

The proofs are in docs/theory.md, "Repeated participation".

The exact joint sensitivity is a maximum of a quadratic form over patterns, which is NP-hard in general. It
is computed where only neighbouring participations overlap, and elsewhere bounded from above and from below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.participation.patterns import heaviest, heaviest_path, longest, row_sums
from csgm_cli.model.participation import RepeatedParticipation
from csgm_cli.roots import root_above

if TYPE_CHECKING:
    from csgm_cli.factorization.participation.gram import Gram

Array = NDArray[np.float64]

#: Relative difference between an upper and a lower bound up to which they are one number.
_MEET = 1e-10
#: Two sums in a row of up to k entries round by up to this times k.
_SUMMED = 2.0**-52
#: Steps of the power iteration; its bound on the eigenvalue holds after any number of them.
_POWER_STEPS = 50


def repeated_participation(gram: Gram, participations: int) -> RepeatedParticipation:
    """The sensitivities of C with this Gram matrix, rounded up.

    ``participations`` counts as at most ceil(T / separation).
    """
    k = min(participations, longest(gram.T, gram.separation))
    sums = gram.diagonal if gram.is_orthogonal else row_sums(gram, k)
    ordered = _ordered(gram, k)
    joint, is_exact = _joint_square(gram, k, sums, ordered)
    release = min(float(sums.max()), largest_eigenvalue_bound(ordered))
    is_attained = heaviest(gram.diagonal, k, gram.separation) >= k * release * (1.0 - _MEET)
    entry = gram.rounding + k * _SUMMED * float(gram.diagonal.max())
    # Columns that share no row add nothing to the row sums, and only the diagonal to the joint sum.
    one, all_steps = (gram.rounding, k * entry) if gram.is_orthogonal else (k * entry, k * k * entry)
    return RepeatedParticipation(
        k,
        gram.separation,
        root_above(joint + all_steps),
        root_above(release + one),
        is_exact,
        is_attained,
    )


def toeplitz_participation(
    series: Array, participations: int, separation: int, error: float = 0.0
) -> RepeatedParticipation | None:
    """As `repeated_participation`, for the lower-triangular Toeplitz C with this first column, O(T k).

    None unless its entries are nonnegative and never increase: the worst pattern is then 0, b, 2b, ...
    ``error``: of X, relative to its largest entry, beside the rounding here.
    """
    T = len(series)  # noqa: N806 - what it is called in every formula
    if (series < 0.0).any() or (np.diff(series) > 0.0).any():
        return None
    k = min(participations, longest(T, separation))
    ordered = np.zeros((k, k))
    for lag in range(k):
        sums = np.cumsum(series[: T - lag * separation] * series[lag * separation :])
        rows = np.arange(k - lag)
        ordered[rows, rows + lag] = sums[T - 1 - (rows + lag) * separation]
    ordered = np.maximum(ordered, ordered.T)
    row = k * float(ordered.max()) * ((T + 2) * 2.0**-53 + k * _SUMMED + error)
    return RepeatedParticipation(
        k,
        separation,
        root_above(float(ordered.sum()) + k * row),
        root_above(largest_eigenvalue_bound(ordered) + row),
        is_exact=True,
        is_attained=k == 1,
    )


def _ordered(gram: Gram, k: int) -> Array:
    """No pattern of k participations has a Gram matrix with a larger entry anywhere: (k, k)."""
    return gram.majorant.at(np.arange(k) * gram.separation)


def _joint_square(gram: Gram, k: int, sums: Array, ordered: Array) -> tuple[float, bool]:
    """At least the largest sum over a pattern of X_ij <v_i, v_j>, and whether that is attained."""
    if gram.is_orthogonal:
        return heaviest(gram.diagonal, k, gram.separation), True
    if len(gram.overlaps) <= gram.separation:
        return heaviest_path(gram, k), True
    upper = min(heaviest(sums, k, gram.separation), float(ordered.sum()))
    return upper, _regular_patterns(gram, k) >= upper * (1.0 - _MEET)


def _regular_patterns(gram: Gram, k: int) -> float:
    """A lower bound: the largest sum over steps exactly b apart, with the signs of the first of them."""
    best = 0.0
    for start in range(min(gram.separation, gram.T)):
        found = gram.at(np.arange(start, gram.T, gram.separation)[:k])
        signs = np.where(found[0] < 0.0, -1.0, 1.0)
        best = max(best, float(signs @ found @ signs))
    return best


def largest_eigenvalue_bound(matrix: Array) -> float:
    """At least the largest eigenvalue of a symmetric nonnegative matrix with a positive diagonal.

    For every positive x it is at most max_i (M x)_i / x_i (Collatz and Wielandt).
    """
    x = np.ones(len(matrix))
    bounds = []
    for _ in range(_POWER_STEPS):
        y = matrix @ x
        bounds.append(float((y / x).max()))
        x = y / y.max()
    return min(bounds) * (1.0 + 2.0**-40)
