"""Dense C for clients that take part in a fixed order, every b steps exactly.

All columns have norm 1, and columns whose distance is a multiple of b are orthogonal: X = C^T C is the
identity within each class of steps modulo b. The dual is a positive definite V that is 0 between classes:
with V = F F^T, no such C has less mean error than ||A F||_*^2 / (T tr V) (docs/theory.md).
"""

# ruff: noqa: N803, N806 - A, F, G, S, V, X and T are the names in the formulas

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.factorization.bands.descent import Point, descent
from csgm_cli.factorization.matrices.triangular import right_quotient
from csgm_cli.factorization.workload import columns, dense, mean_and_max
from csgm_cli.model.factorization import Factorization, Objective

if TYPE_CHECKING:
    from collections.abc import Callable

    from csgm_cli.factorization.solve.solver import Progress
    from csgm_cli.model.factorization import Strategy, Workload
    from csgm_cli.model.participation import Participation

Array = NDArray[np.float64]

#: Steps of the search, which takes ten to thirty, and of the fixed point of diagonal V that it begins with.
_MOST_STEPS, _FIRST_STEPS, _PAIRS = 300, 5, 20
#: Columns of this norm have at most norm 1, rounding included.
_AT_MOST = 1.0 - 2.0**-40
#: The default gap, well above what rounding leaves.
FIXED_ORDER_TOLERANCE = 1e-6
#: Rounding of the singular values, relative to the largest.
_ROUNDING = 64.0 * 2.0**-53


@dataclass(frozen=True, eq=False)
class FixedOrder:
    """The classes of T steps modulo ``separation``, and A^T A of the workload."""

    gram: Array
    separation: int

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Where row and column are of one class, shape (T, T)."""
        steps = np.arange(len(self.gram)) % self.separation
        return np.asarray(steps[:, None] == steps)

    def root(self, F: Array) -> tuple[Array, Array]:
        """S = (F^T A^T A F)^(1/2) as its eigenvalues and eigenvectors."""
        values, vectors = np.linalg.eigh(F.T @ self.gram @ F)
        return np.sqrt(np.maximum(values, 0.0)), vectors

    def lower_bound(self, F: Array) -> float:
        """No C has less mean error; V = F F^T."""
        values, _ = self.root(F)
        lost = _ROUNDING * len(F) * float(values.max())
        return max(0.0, float(values.sum()) - lost) ** 2 / (float((F**2).sum()) * len(F))

    def factor(self, F: Array) -> Array:
        """The lower-triangular C that belongs to V = F F^T, its classes made orthonormal."""
        values, vectors = self.root(F)
        inverse = np.linalg.inv(F) * self.inside
        m = np.sqrt(values)[:, None] * (vectors.T @ inverse)  # m^T m is X up to what is left within classes
        for residue in range(min(self.separation, len(F))):
            own = np.linalg.eigh(m[:, residue :: self.separation].T @ m[:, residue :: self.separation])
            m[:, residue :: self.separation] = (
                m[:, residue :: self.separation] @ (own[1] / np.sqrt(own[0])) @ own[1].T
            )
        r = np.asarray(np.linalg.qr(m[:, ::-1], mode="r"))[::-1, ::-1]
        return np.ascontiguousarray(r * np.where(np.diag(r) < 0.0, -1.0, 1.0)[:, None])

    def error(self, C: Array) -> float:
        """The mean error tr(A^T A X^-1) / T of C."""
        inverse = np.linalg.inv(C)
        return float(np.einsum("ij,ij->", self.gram @ inverse, inverse)) / len(C)


def fixed_order(
    workload: Workload,
    strategy: Strategy,
    objective: Objective,
    participation: Participation,
    tolerance: float | None,
    progress: Progress | None,
) -> Factorization:
    """The dense C with the smallest mean error for clients that take part in a fixed order.

    ``UsageError`` for the max error or epochs; ``NoAnswerError`` if ``tolerance`` is not reached.
    """
    participation = replace(participation, fixed_order=True)
    participation.check(workload.T)
    if objective is not Objective.MEAN or workload.epochs > 1:
        raise UsageError("conflicting-options", f"{strategy} minimises the mean error of one run")

    def follow(step: int, gap: float) -> None:
        if progress is not None:
            progress(step, gap, None)

    problem = problem_of(workload, participation.min_separation)
    tolerance = FIXED_ORDER_TOLERANCE if tolerance is None else tolerance
    C, root, steps = solve_fixed_order(problem, tolerance, follow)
    C *= _AT_MOST
    squared = float(np.einsum("ij,ij->j", C, C).max())
    B = right_quotient(columns(workload, 0, workload.T), C)
    return Factorization(
        workload,
        strategy,
        objective,
        squared,
        *mean_and_max(workload, squared * np.einsum("ij,ij->i", B, B)),
        problem.lower_bound(root),
        iterations=steps,
        participation=participation,
        factor=C,
        class_dual=pack_dual(root, participation.min_separation),
    )


def problem_of(workload: Workload, separation: int) -> FixedOrder:
    """The problem for prefix sums or any other workload; O(T^3) operations a step, T x T arrays."""
    A = dense(workload)
    return FixedOrder(A.T @ A, separation)


def solve_fixed_order(
    problem: FixedOrder, tolerance: float, progress: Callable[[int, float], None]
) -> tuple[Array, Array, int]:
    """C, F of the dual V = F F^T, and steps, to the certified gap ``tolerance``; else ``NoAnswerError``."""
    inside = problem.inside

    def evaluate(x: Array) -> Point:
        """Tr V - 2 ||A F||_*, which is least where V belongs to the best C."""
        F = np.zeros(inside.shape)
        F[inside] = x
        values, vectors = problem.root(F)
        with np.errstate(all="ignore"):
            slope = F - (problem.gram @ F @ vectors / values) @ vectors.T
        value = float(x @ x) - 2.0 * float(values.sum())
        finite = np.isfinite(slope).all()
        return Point(x, value if finite else np.inf, 2.0 * slope[inside])

    least, step = np.inf, 0
    points = descent(evaluate, _first(problem)[inside], _PAIRS)
    for step, point in enumerate(islice(points, _MOST_STEPS)):
        F = np.zeros(inside.shape)
        F[inside] = point.x
        C = problem.factor(F)
        gap = problem.error(C) / problem.lower_bound(F) - 1.0
        least = min(least, gap)
        progress(step, gap)
        if gap <= tolerance:
            return C, F, step
    raise NoAnswerError(
        "not-certified",
        f"the gap could not be brought to {tolerance:g}: {least:.2g} was certified in {step} steps",
        "use a larger `tolerance`",
    )


def _first(problem: FixedOrder) -> Array:
    """The diagonal F to begin with."""
    diagonal = np.ones(len(problem.gram))
    for _ in range(_FIRST_STEPS):
        values, vectors = problem.root(np.diag(diagonal))
        diagonal = np.sqrt(np.einsum("ij,j,ij->i", vectors, values, vectors))
    return np.diag(diagonal)


def pack_dual(F: Array, separation: int) -> Array:
    """V = F F^T as its diagonals within classes, shape (K, T): row l is V[j + l b, j]."""
    T = len(F)
    V = F @ F.T
    found = np.zeros((-(-T // separation), T))
    for at in range(len(found)):
        found[at, : T - at * separation] = np.diagonal(V, -at * separation)
    return found


def unpack_dual(packed: Array, separation: int) -> Array:
    """F, lower-triangular, of the V that `pack_dual` packed; ``UsageError`` (slug ``bad-dual``) otherwise."""
    T = packed.shape[1]
    if len(packed) != -(-T // separation):
        raise UsageError("bad-dual", f"the dual has {len(packed)} rows, not T / min_separation")
    V = np.zeros((T, T))
    for at, band in enumerate(packed):
        np.fill_diagonal(V[at * separation :], band[: T - at * separation])
    try:
        return np.asarray(np.linalg.cholesky(V))  # reads what is on and below the diagonal
    except np.linalg.LinAlgError:
        raise UsageError("bad-dual", "the dual is not positive definite") from None


def overlap(C: Array, separation: int) -> float:
    """The largest cosine between two columns whose distance is a multiple of ``separation``."""
    scaled = C / np.sqrt(np.einsum("ij,ij->j", C, C))
    most = 0.0
    for residue in range(min(separation, C.shape[1])):
        own = scaled[:, residue::separation]
        off = np.abs(own.T @ own - np.eye(own.shape[1]))
        most = max(most, float(off.max()))
    return most
