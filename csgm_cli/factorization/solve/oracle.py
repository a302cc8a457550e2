"""phi: the diagonals of the square roots of W^T W and W W^T, W = D_u^(1/2) A D_v^(1/2), with proven errors.

Both diagonals sum to the nuclear norm of W, the value h of the dual problem (docs/factorize.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.matrices.quadrature import Poles, poles_for
from csgm_cli.factorization.matrices.transfer import Chain, MomentumChain, SumChain, diagonal_of_root
from csgm_cli.factorization.workload import Structure, dense, structure

if TYPE_CHECKING:
    from csgm_cli.model.factorization import Dual, Workload

Array = NDArray[np.float64]

#: The bounds on the spectrum are rounded themselves.
_OUTWARD = 1.0 + 1e-9
#: Backward error of a decomposition: each singular value, and each entry of a square root, is off by a modest
#: multiple of the last bit of the largest value.
SINGULAR_ERROR = 64.0 * 2.0**-53


@dataclass(frozen=True)
class Diagonals:
    """``columns``: diag((W^T W)^(1/2)); ``rows``: diag((W W^T)^(1/2)), None unless asked for.

    ``error`` bounds the relative error of h and, beside the ``absolute`` one, of each entry.
    """

    columns: Array
    rows: Array | None
    error: float
    absolute: float

    @property
    def h(self) -> float:
        """The nuclear norm of W."""
        return float(self.columns.sum())


class Oracle(Protocol):
    """Evaluates both diagonals at given weights."""

    def diagonals(self, dual: Dual, accuracy: float, *, rows: bool) -> Diagonals:
        """Evaluate phi at ``dual``, to about ``accuracy`` (relative; the error is in the result)."""
        ...


def oracle_for(workload: Workload) -> Oracle:
    """O(T) where the workload has structure, a dense singular value decomposition elsewhere."""
    return ChainOracle(structure(workload)) if workload.matrix is None else DenseOracle(dense(workload))


@dataclass(frozen=True)
class ChainOracle:
    """No T x T array, no matter how large T."""

    structure: Structure

    def diagonals(self, dual: Dual, accuracy: float, *, rows: bool) -> Diagonals:  # noqa: D102 - of Oracle
        v, u = np.asarray(dual.columns), np.asarray(dual.rows)
        columns, error = _diagonal(self.structure, v, u, accuracy)
        if not rows:
            return Diagonals(columns, None, error, 0.0)
        flipped, other = _diagonal(self.structure.flipped, u[::-1].copy(), v[::-1].copy(), accuracy)
        return Diagonals(columns, flipped[::-1].copy(), max(error, other), 0.0)


@dataclass(frozen=True, eq=False)
class PreparedChain:
    """W / ``scale`` as a chain, without momentum with all rates 1, and poles for the spectrum of its K^-1."""

    chain: Chain
    v: Array
    u: Array
    rates: Array
    poles: Poles
    scale: float


def prepared(a: Structure, v: Array, u: Array, error: float) -> PreparedChain:
    """The chain of W at these weights; ``error``: that of the poles."""
    largest = float(a.rates.max())
    a, v, u = _simplified(a, v, u, largest)
    chain: Chain = MomentumChain(a.left, a.right) if a.right else SumChain()
    return PreparedChain(chain, v, u, a.rates, _poles(a, v, u, error), largest)


def _diagonal(a: Structure, v: Array, u: Array, accuracy: float) -> tuple[Array, float]:
    """diag((W^T W)^(1/2)) and a bound on its relative error."""
    it = prepared(a, v, u, accuracy)
    values, rounding = diagonal_of_root(it.chain, it.poles, it.v, it.u, it.rates)
    return it.scale * values, it.poles.error + rounding


def _simplified(a: Structure, v: Array, u: Array, largest: float) -> tuple[Structure, Array, Array]:
    """The same W / ``largest``, with rates of at most 1; without momentum they go into the weights."""
    rates = a.rates / largest
    if a.left == 0.0:
        return Structure(1.0, 0.0, np.ones(len(v))), v, u * rates**2
    if a.right == 0.0:
        return Structure(1.0, 0.0, np.ones(len(v))), v * rates**2, u
    return Structure(a.left, a.right, rates), v, u


def _poles(a: Structure, v: Array, u: Array, error: float) -> Poles:
    low, high = 1.0 / (a.trace_bound(v, u) * _OUTWARD), a.inverse_norm_bound(v, u) * _OUTWARD
    return poles_for(low, high, error)


def chain_poles(a: Structure, dual: Dual, error: float) -> Poles:
    """Poles for the spectrum of (W^T W)^-1 at ``dual``."""
    return _poles(a, np.asarray(dual.columns), np.asarray(dual.rows), error)


@dataclass(frozen=True)
class DenseOracle:
    """Any lower-triangular matrix, in O(T^3)."""

    matrix: Array

    def diagonals(self, dual: Dual, accuracy: float, *, rows: bool) -> Diagonals:  # noqa: ARG002, D102 - of Oracle
        w = np.sqrt(dual.rows)[:, None] * self.matrix * np.sqrt(dual.columns)
        left, values, right = np.linalg.svd(w)
        columns = values @ right**2
        lost = SINGULAR_ERROR * float(values[0])
        error = lost * len(values) / float(values.sum())
        return Diagonals(columns, left**2 @ values if rows else None, error, lost)
