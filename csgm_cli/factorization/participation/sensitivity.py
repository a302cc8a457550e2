"""Sensitivities of C for a client that takes part in up to k steps, at least b apart.

The proofs are in docs/theory.md, "Repeated participation".

The exact joint sensitivity is a maximum of a quadratic form over patterns, which is NP-hard in general. It
is computed if only neighbouring participations overlap, and otherwise bounded from above and from below.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.participation.patterns import heaviest, heaviest_path, longest, row_sums
from csgm_cli.model.participation import RepeatedParticipation
from csgm_cli.roots import root_above

if TYPE_CHECKING:
    from csgm_cli.factorization.participation.gram import Gram
    from csgm_cli.model.participation import Participation

Array = NDArray[np.float64]

#: Relative difference up to which an upper and a lower bound count as equal.
_MEET = 1e-10
#: Relative rounding error, per entry, of two nested sums of up to k entries.
_SUMMED = 2.0**-52
#: Steps of the power iteration; its upper bound on the eigenvalue holds after any number of steps.
_POWER_STEPS = 50


def repeated_participation(gram: Gram, asked: Participation) -> RepeatedParticipation:
    """The sensitivities, rounded up, of the C with this Gram matrix, for the participation ``asked``.

    There are at most ceil(T / separation) participations.
    """
    k = min(asked.participations, longest(gram.T, gram.separation))
    found = _in_fixed_order(gram, k) if asked.fixed_order else _in_any_order(gram, k)
    joint, release = found.joint, found.release
    entry = gram.rounding + k * _SUMMED * float(gram.diagonal.max())
    # Columns that share no row add nothing to the row sums, and only the diagonal to the joint sum.
    one, all_steps = (gram.rounding, k * entry) if gram.is_orthogonal else (k * entry, k * k * entry)
    return RepeatedParticipation(
        k,
        gram.separation,
        asked.fixed_order,
        joint_sensitivity=root_above(joint + all_steps),
        release_sensitivity=root_above(release + one),
        is_exact=found.is_exact,
        is_attained=found.diagonal >= k * release * (1.0 - _MEET),
    )


class _Squares(NamedTuple):
    """Squared sensitivities, and the largest sum of squared column norms over a pattern."""

    joint: float
    release: float
    diagonal: float
    is_exact: bool


def _in_any_order(gram: Gram, k: int) -> _Squares:
    sums = gram.diagonal if gram.is_orthogonal else row_sums(gram, k)
    ordered = _ordered(gram, k)
    joint, is_exact = _joint_square(gram, k, sums, ordered)
    release = min(float(sums.max()), largest_eigenvalue_bound(ordered))
    return _Squares(joint, release, heaviest(gram.diagonal, k, gram.separation), is_exact)


def _in_fixed_order(gram: Gram, k: int) -> _Squares:
    """Over patterns whose steps are exactly ``separation`` apart, with as many steps as fit."""
    blocks = list(_regular_blocks(gram))
    sums = [float(np.abs(block).sum()) for block in blocks]
    release = max(largest_eigenvalue_bound(np.abs(block)) for block in blocks)
    signed = max(_signed_sum(block) for block in blocks)
    is_exact = k == longest(gram.T, gram.separation) and signed >= max(sums) * (1.0 - _MEET)
    diagonal = max(float(np.sort(np.diag(block))[-k:].sum()) for block in blocks)
    return _Squares(min(max(sums), k * release), release, diagonal, is_exact)


def toeplitz_participation(
    series: Array, participations: int, separation: int, error: float = 0.0
) -> RepeatedParticipation | None:
    """As `repeated_participation`, for the lower-triangular Toeplitz C with this first column, O(T k).

    None unless its entries are nonnegative and nonincreasing: the worst pattern is then 0, b, 2b, ...
    ``error``: additional error of X, relative to its largest entry.
    """
    T = len(series)  # noqa: N806 - the name in every formula
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
        joint_sensitivity=root_above(float(ordered.sum()) + k * row),
        release_sensitivity=root_above(largest_eigenvalue_bound(ordered) + row),
        is_exact=True,
        is_attained=k == 1,
    )


def _ordered(gram: Gram, k: int) -> Array:
    """An entrywise upper bound on the Gram matrix of every pattern of k participations: (k, k)."""
    return gram.majorant.at(np.arange(k) * gram.separation)


def _joint_square(gram: Gram, k: int, sums: Array, ordered: Array) -> tuple[float, bool]:
    """An upper bound on the largest sum over a pattern of X_ij <v_i, v_j>, and whether it is attained."""
    if gram.is_orthogonal:
        return heaviest(gram.diagonal, k, gram.separation), True
    if len(gram.overlaps) <= gram.separation:
        return heaviest_path(gram, k), True
    upper = min(heaviest(sums, k, gram.separation), float(ordered.sum()))
    return upper, _regular_patterns(gram, k) >= upper * (1.0 - _MEET)


def _regular_patterns(gram: Gram, k: int) -> float:
    """A lower bound: the largest sum over up to k steps exactly b apart, with signs."""
    return max(_signed_sum(block[:k, :k]) for block in _regular_blocks(gram))


def _regular_blocks(gram: Gram) -> Iterator[Array]:
    """X at the steps of each residue class modulo b."""
    for start in range(min(gram.separation, gram.T)):
        yield gram.at(np.arange(start, gram.T, gram.separation))


def _signed_sum(block: Array) -> float:
    """The sum of X_ij s_i s_j, s_j the sign of X in the first row."""
    signs = np.where(block[0] < 0.0, -1.0, 1.0)
    return float(signs @ block @ signs)


def largest_eigenvalue_bound(matrix: Array) -> float:
    """An upper bound on the largest eigenvalue of a symmetric nonnegative matrix with a positive diagonal.

    For every positive x it is at most max_i (M x)_i / x_i (Collatz and Wielandt).
    """
    x = np.ones(len(matrix))
    bounds = []
    for _ in range(_POWER_STEPS):
        y = matrix @ x
        bounds.append(float((y / x).max()))
        x = y / y.max()
    return min(bounds) * (1.0 + 2.0**-40)
