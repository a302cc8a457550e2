"""Factors with N numbers of state: the streaming form, and the way to the dense optimum in O(T^2 N).

With N poles, C^T C = X is a sum of the covariances of N Markov chains (docs/factorize.md). Their sum,
observed from the last index to the first, has the innovations form C, and run forwards in time C^-1 is a
filter with N numbers of state. Workloads with momentum would need two numbers per pole and have no such
form here.
"""

# ruff: noqa: N806 - T is the number of rows in every formula

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.factorization.workload import structure
from csgm_cli.factorization_model import Dual, Generators, Workload

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from csgm_cli.core.factorization.quadrature import Poles

Array = NDArray[np.float64]

#: More than the relative rounding of `column_norms_squared`.
NORM_MARGIN = 2.0**-40

_TINY = 1e-200


def generators(workload: Workload, dual: Dual, poles: Poles, norms: Array) -> Generators:
    """C with one number of state per pole and columns of these ``norms``, to rounding; only without momentum.

    ``norms``: those of the C that the poles stand in for (``column_norms``). C is defined by the numbers
    returned; how they were found only matters to how good it is.
    """
    rates = structure(workload).rates
    decays, driven = _transitions(np.asarray(dual.columns) * rates**2, np.asarray(dual.rows), poles)
    outputs, diagonal = _innovations(decays, driven)
    norms = np.sqrt(column_norms_squared(Generators(decays, decays, outputs, diagonal))) / norms
    return Generators(decays, decays / norms[:, None], outputs, diagonal / norms)


def _transitions(v: Array, u: Array, poles: Poles) -> tuple[Array, Array]:
    """Of each pole's chain: the factor from index i+1 to i, and the variance it is driven with (T, N)."""
    decays = np.empty((len(v), len(poles.shifts)))
    known = np.zeros(len(poles.shifts))  # information on the state from earlier indices
    for i, (precision, variance) in enumerate(zip(v, u, strict=True)):
        known = known + poles.shifts * precision
        decays[i] = 1.0 / (1.0 + variance * known)
        known = known * decays[i]
    return decays, poles.weights * u[:, None] * decays


def _innovations(decays: Array, driven: Array) -> tuple[Array, Array]:
    """Gains (T, N) and diagonal of C (T,) of the sum of the chains, from the last index to the first."""
    T, n = decays.shape
    gains, diagonal = np.empty((T, n)), np.empty(T)
    covariance = np.zeros((n, n))
    on_diagonal = covariance.reshape(-1)[:: n + 1]
    for i in reversed(range(T)):
        covariance *= decays[i]
        covariance *= decays[i][:, None]
        on_diagonal += driven[i]
        gain = covariance.sum(axis=1)
        diagonal[i] = math.sqrt(gain.sum())
        gains[i] = gain / diagonal[i]
        covariance -= gains[i] * gains[i][:, None]
    return gains, diagonal


def cast(g: Generators, dtype: DTypeLike) -> Generators:
    """The generators with their numbers rounded, or widened, to ``dtype``."""
    return Generators(*(part.astype(dtype) for part in (g.decays, g.inputs, g.outputs, g.diagonal)))


def column_norms_squared(generators: Generators) -> Array:
    """The squared norm of each column of C, in O(T N^2), in float64 whatever the precision."""
    g = cast(generators, np.float64)
    T, n = g.decays.shape
    norms = g.diagonal**2
    gram = np.zeros((n, n))  # of the rows of C that are yet to come, at this state
    for i in reversed(range(T)):
        norms[i] += g.inputs[i] @ gram @ g.inputs[i]
        gram *= g.decays[i]
        gram *= g.decays[i][:, None]
        gram += g.outputs[i] * g.outputs[i][:, None]
    return np.asarray(norms)


def row_errors(workload: Workload, g: Generators) -> Array:
    """The squared norm of each row of B = A C^-1: variances of A x for x = C^-1 z, white z.

    O(T N^2), no T x T array. ``workload`` must be without momentum.
    """
    rates = structure(workload).rates
    T, n = g.decays.shape
    # The state: that of the filter, and what is released, y + rate x.
    covariance = np.zeros((n + 1, n + 1))
    factors, entry, found = np.ones(n + 1), np.empty(n + 1), np.empty(T)
    for i in range(T):
        outputs, scale = g.outputs[i], g.diagonal[i]
        seen = covariance[:, :n] @ outputs / -scale  # covariance with the part of x known before z
        variance = (1.0 - float(outputs @ seen[:n]) * scale) / scale**2
        factors[:n], entry[:n], entry[n] = g.decays[i], g.inputs[i], rates[i]
        covariance *= factors
        covariance *= factors[:, None]
        cross = (factors * seen)[:, None] * entry
        covariance += cross + cross.T + variance * (entry * entry[:, None])
        found[i] = covariance[n, n]
    return found


def row_from(g: Generators, t: int) -> Array:
    """Entries 0 to ``t`` of row ``t`` of C, in O(t N)."""
    row, state = np.empty(t + 1), np.asarray(g.outputs[t], dtype=np.float64)
    row[t] = g.diagonal[t]
    for j in reversed(range(t)):
        row[j] = state @ g.inputs[j]
        state = state * g.decays[j]
    return row


def dense_from(g: Generators) -> Array:
    """C as a T x T array."""
    T, n = g.decays.shape
    c, columns = np.zeros((T, T)), np.zeros((n, T))
    for i in range(T):
        c[i, :i] = g.outputs[i] @ columns[:, :i]
        c[i, i] = g.diagonal[i]
        columns[:, :i] *= g.decays[i][:, None]
        columns[:, i] = g.inputs[i]
        if i % 64 == 0:  # subnormal numbers are slow
            columns[np.abs(columns) < _TINY] = 0.0
    return c
