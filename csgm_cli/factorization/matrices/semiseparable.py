"""Factors with N numbers of state: the streaming form, and the way to the dense optimum in O(T^2 N).

With N poles, C^T C = X is a sum of the covariances of N Markov chains (docs/factorize.md). Their sum,
observed from the last index to the first, has the innovations form C, and run forwards in time C^-1 is a
filter with N numbers of state. Workloads with momentum would need two numbers per pole and have no such
form here.

Every recursion runs in all blocks of rows at once, twice: the first time from nothing, to find what a block
makes of any state that enters it; then from the states that follow from block to block.
"""

# ruff: noqa: N803, N806 - T is the number of rows in every formula

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import NoAnswerError
from csgm_cli.factorization.workload import structure
from csgm_cli.model.factorization import Dual, Generators, Workload

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from csgm_cli.factorization.matrices.quadrature import Poles

Array = NDArray[np.float64]

_TINY = 1e-200
#: Numbers in the squared states of all blocks together: a few arrays of this size stay in a core's cache.
_BATCH = 16384
#: With fewer blocks it is faster to go through the rows once, in one.
_FEWEST_BLOCKS = 8
#: Rows of the dense C that are computed together.
_ROWS = 64


def generators(workload: Workload, dual: Dual, poles: Poles, norms: Array) -> Generators:
    """C with one number of state per pole and columns of these ``norms``, to rounding; only without momentum.

    ``norms``: those of the C that the poles stand in for (``column_norms``). C is defined by the numbers
    returned; how they were found only matters to how good it is. ``NoAnswerError`` (slug ``not-certified``)
    where weights are so far apart that rounding leaves no C.
    """
    rates = structure(workload).rates
    precision = np.asarray(dual.columns) * rates**2
    decays, driven = _transitions(precision, np.asarray(dual.rows), poles)
    with np.errstate(invalid="ignore", divide="ignore"):  # the result is checked
        outputs, diagonal = _innovations(decays, driven, poles.constant / precision)
    if not (np.isfinite(outputs).all() and (diagonal > 0).all()):
        raise NoAnswerError(
            "not-certified",
            f"a filter of {len(poles.shifts)} poles is beyond float64: the weights of its rows, or learning"
            " rates, are too far apart",
            "let learning rates differ by less",
        )
    # The state before its decay rather than after, so that every pole has the same input.
    before = np.vstack([np.ones(decays.shape[1]), decays[:-1]])
    inputs, outputs = np.ones_like(decays), outputs * before
    norms = np.sqrt(column_norms_squared(Generators(before, inputs, outputs, diagonal))) / norms
    return Generators(before, inputs / norms[:, None], outputs, diagonal / norms)


def _length(T: int, n: int) -> int:
    """How many rows a block has, all but the last, which may have fewer."""
    blocks = min(math.isqrt(T), _BATCH // n**2)
    return T if blocks < _FEWEST_BLOCKS else -(-T // blocks)


def _transitions(v: Array, u: Array, poles: Poles) -> tuple[Array, Array]:
    """Of each pole's chain: the factor from index i+1 to i, and the variance it is driven with (T, N)."""
    length = _length(len(v), len(poles.shifts))
    decays = np.empty((len(v), len(poles.shifts)))
    known = _information(v, u, poles.shifts, length)
    for k in range(length):  # of every block; the last one may be through
        precision, variance = v[k::length, None], u[k::length, None]
        known = known[: len(precision)] + poles.shifts * precision
        decays[k::length] = step = 1.0 / (1.0 + variance * known)
        known = known * step
    return decays, poles.weights * u[:, None] * decays


def _information(v: Array, u: Array, shifts: Array, length: int) -> Array:
    """What is known of each state from the blocks before (blocks, N): products of nonnegative matrices."""
    before = -(-len(v) // length) - 1
    known = np.zeros((before + 1, len(shifts)))
    # It is the quotient of two numbers, (x, 1) at first: what becomes of (1, 0) and of (0, 1).
    precision, variance = np.zeros((2, before, len(shifts))), np.zeros((2, before, len(shifts)))
    precision[0] = variance[1] = 1.0
    for k in range(length if before else 0):
        rows = slice(k, before * length, length)
        precision += shifts * v[rows, None] * variance
        variance += u[rows, None] * precision
        scale = precision.sum(axis=0) + variance.sum(axis=0)
        precision /= scale
        variance /= scale
    for b in range(before):
        known[b + 1] = known[b] * precision[0, b] + precision[1, b]
        known[b + 1] /= known[b] * variance[0, b] + variance[1, b]
    return known


def _innovations(decays: Array, driven: Array, white: Array) -> tuple[Array, Array]:
    """Gains (T, N) and diagonal of C (T,) of the sum of the chains and white noise, from the last index on.

    ``white`` (T,): the variance of the noise.
    """
    T, n = decays.shape
    length = _length(T, n)
    gains, diagonal = np.empty((T, n)), np.empty(T)
    covariance = _covariances(decays, driven, white, length)
    for k in reversed(range(length)):
        gain, size = _observed(covariance, decays[k::length], driven[k::length], white[k::length])
        gains[k::length], diagonal[k::length] = gain, size
    return gains, diagonal


def _observed(covariance: Array, decays: Array, driven: Array, white: Array) -> tuple[Array, Array]:
    """One step of every block, in place: the states move on, and their sum is observed in white noise."""
    part = covariance[: len(decays)]
    part *= decays[:, None, :]
    part *= decays[:, :, None]
    np.einsum("bii->bi", part)[...] += driven
    gain = part.sum(axis=2)
    size = np.sqrt(gain.sum(axis=1) + white)
    gain /= size[:, None]
    part -= gain[:, None, :] * gain[:, :, None]
    return gain, size


def _covariances(decays: Array, driven: Array, white: Array, length: int) -> Array:
    """Of the states that enter each block from the later ones (blocks, N, N).

    A block makes ``through`` (1 + P ``seen``)^-1 P ``through``^T + ``own`` of P (Särkkä and
    García-Fernández 2021, parallel filtering).
    """
    T, n = decays.shape
    blocks = -(-T // length)
    entering = np.zeros((blocks, n, n))
    if blocks == 1:
        return entering
    own, seen = np.zeros((blocks, n, n)), np.zeros((blocks, n, n))
    through = np.zeros((blocks, n, n)) + np.eye(n)
    for k in reversed(range(length)):
        factors = decays[k::length]
        m = len(factors)
        gain, size = _observed(own, factors, driven[k::length], white[k::length])
        through[:m] *= factors[:, :, None]
        heard = through[:m].sum(axis=1) / size[:, None]
        seen[:m] += heard[:, None, :] * heard[:, :, None]
        through[:m] -= gain[:, :, None] * heard[:, None, :]
    for b in reversed(range(1, blocks)):
        left = np.linalg.solve(np.eye(n) + entering[b] @ seen[b], entering[b])
        entering[b - 1] = through[b] @ left @ through[b].T + own[b]
    return entering


def cast(g: Generators, dtype: DTypeLike) -> Generators:
    """The generators with their numbers rounded, or widened, to ``dtype``."""
    return Generators(*(part.astype(dtype) for part in (g.decays, g.inputs, g.outputs, g.diagonal)))


def norm_margin(generators: Generators) -> float:
    """More than the relative rounding of `column_norms_squared`, whose terms are all nonnegative.

    A row takes four roundings in either pass, a block three, and the last product N^2.
    """
    T, n = generators.decays.shape
    length = _length(T, n)
    passes = 1 if length >= T else 2
    steps = passes * length - (-T // length)
    return float(max(2.0**-40, (6.0 * steps + n**2 + 8.0) * 2.0**-53))


def column_norms_squared(generators: Generators) -> Array:
    """The squared norm of each column of C, in O(T N^2), in float64 whatever the precision."""
    g = cast(generators, np.float64)
    T, n = g.decays.shape
    length = _length(T, n)
    norms = g.diagonal**2
    gram = _grams(g, length)  # of the rows of C that are yet to come, at this state
    for k in reversed(range(length)):
        inputs = g.inputs[k::length]
        norms[k::length] += np.einsum("bi,bij,bj->b", inputs, gram[: len(inputs)], inputs)
        _add_row(gram, g, slice(k, None, length))
    return np.asarray(norms)


def _add_row(gram: Array, g: Generators, rows: slice) -> None:
    """One row of C of every block, in place."""
    decays, outputs = g.decays[rows], g.outputs[rows]
    part = gram[: len(decays)]
    part *= decays[:, None, :]
    part *= decays[:, :, None]
    part += outputs[:, None, :] * outputs[:, :, None]


def _grams(g: Generators, length: int) -> Array:
    """Of the rows of C after each block (blocks, N, N)."""
    T, n = g.decays.shape
    blocks = -(-T // length)
    entering = np.zeros((blocks, n, n))
    if blocks == 1:
        return entering
    own, through = np.zeros((blocks, n, n)), np.ones((blocks, n))
    for k in reversed(range(length)):
        _add_row(own, g, slice(k, None, length))
        through[: len(g.decays[k::length])] *= g.decays[k::length]
    for b in reversed(range(1, blocks)):
        entering[b - 1] = entering[b] * through[b] * through[b][:, None] + own[b]
    return entering


def row_errors(workload: Workload, g: Generators) -> Array:
    """The squared norm of each row of B = A C^-1: variances of A x for x = C^-1 z, white z.

    O(T N^2), no T x T array. ``workload`` must be without momentum.
    """
    rates = structure(workload).rates
    T, n = g.decays.shape
    length, found = _length(T, n), np.empty(T)
    covariance = _released(g, rates, length)
    for k in range(length):
        rows = slice(k, None, length)
        covariance = covariance[: len(rates[rows])]
        _release(covariance, _Step.of(g, rates, rows))
        found[rows] = covariance[:, n, n]
    return found


@dataclass(frozen=True)
class _Step:
    """What one row of every block does to the state: that of the filter, and what is released, y + rate x.

    It is multiplied by ``factors`` and gains ``entry`` x, with x = (z - ``outputs`` . state) / ``diagonal``.
    """

    factors: Array
    entry: Array
    outputs: Array
    diagonal: Array

    @staticmethod
    def of(g: Generators, rates: Array, rows: slice) -> _Step:
        """That of ``rows``."""
        outputs, rate = g.outputs[rows], rates[rows, None]
        none = np.zeros_like(rate)
        return _Step(
            np.hstack([g.decays[rows], none + 1.0]),
            np.hstack([g.inputs[rows], rate]),
            np.hstack([outputs, none]),
            g.diagonal[rows, None],
        )


def _release(covariance: Array, step: _Step) -> None:
    """Move the covariance of every block on by one row, in place."""
    # With the part of x that is known before z.
    seen = np.einsum("bij,bj->bi", covariance, step.outputs / -step.diagonal)
    variance = 1.0 / step.diagonal**2 - np.einsum("bi,bi->b", step.outputs / step.diagonal, seen)[:, None]
    covariance *= step.factors[:, None, :]
    covariance *= step.factors[:, :, None]
    cross = (step.factors * seen + 0.5 * variance * step.entry)[:, :, None] * step.entry[:, None, :]
    covariance += cross
    covariance += cross.transpose(0, 2, 1)


def _released(g: Generators, rates: Array, length: int) -> Array:
    """Covariances of the states that enter each block from the earlier ones (blocks, N + 1, N + 1)."""
    T, n = g.decays.shape
    blocks = -(-T // length)
    entering = np.zeros((blocks, n + 1, n + 1))
    if blocks == 1:
        return entering
    own, through = np.zeros((blocks - 1, n + 1, n + 1)), np.zeros((blocks - 1, n + 1, n + 1)) + np.eye(n + 1)
    for k in range(length):
        step = _Step.of(g, rates, slice(k, (blocks - 1) * length, length))
        _release(own, step)
        known = np.einsum("bi,bij->bj", step.outputs / -step.diagonal, through)
        through *= step.factors[:, :, None]
        through += step.entry[:, :, None] * known[:, None, :]
    for b in range(1, blocks):
        entering[b] = through[b - 1] @ entering[b - 1] @ through[b - 1].T + own[b - 1]
    return entering


def row_from(g: Generators, t: int) -> Array:
    """Entries 0 to ``t`` of row ``t`` of C, in O(t N)."""
    row, state = np.empty(t + 1), np.asarray(g.outputs[t], dtype=np.float64)
    row[t] = g.diagonal[t]
    for j in reversed(range(t)):
        row[j] = state @ g.inputs[j]
        state = state * g.decays[j]
    return row


def dense_from(g: Generators) -> Array:
    """C as a T x T array.

    A block of rows is, left of the diagonal, the product of (rows, N) and (N, columns) factors.
    """
    T, n = g.decays.shape
    c, states = np.zeros((T, T)), np.zeros((n, T))
    for start in range(0, T, _ROWS):
        stop = min(start + _ROWS, T)
        outputs = np.empty((stop - start, n))  # as seen from the state at ``start``
        passed = np.ones(n)
        for i in range(start, stop):
            outputs[i - start] = g.outputs[i] * passed
            passed *= g.decays[i]
            c[i, start:i] = g.outputs[i] @ states[:, start:i]
            c[i, i] = g.diagonal[i]
            states[:, start:i] *= g.decays[i][:, None]
            states[:, i] = g.inputs[i]
        c[start:stop, :start] = outputs @ states[:, :start]
        states[:, :start] *= passed[:, None]
        states[np.abs(states) < _TINY] = 0.0  # subnormal numbers are slow
    return c
