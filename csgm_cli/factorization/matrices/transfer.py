"""diag(K^(1/2)) for K = D_v^(1/2) A^T D_u A D_v^(1/2) in O(T poles), by products of nonnegative matrices.

Every structured workload is a chain: A^T w is read off a small state that runs from the last index to the
first and is driven by w. For a pole s, (K^-1 + s)^-1 is the covariance of D_v^(1/2) A^T D_u^(1/2) w given one
observation of each of its entries with precision s, and

    [(K^-1 + s)^-1]_ii = v_i d log det(I + s K) / d (s v_i).

The determinant is a product of T transfer matrices with nonnegative entries (in the coordinates of the
chains below), so sums of products of nonnegative numbers are all there is: nothing cancels, whatever the
condition of K. Products are taken in blocks: all blocks at once, vectorised over blocks and poles, then
from block to block.
"""

# ruff: noqa: N803 - T is the number of rows in every formula

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from csgm_cli.factorization.matrices.quadrature import Poles

Array = NDArray[np.float64]

_UNIT = 2.0**-53
#: Numbers worked on at once: a few arrays of this size stay in a core's cache.
_BATCH = 16384
_MOST_BLOCKS = 1024
#: Products are rescaled before they can grow by this power of two, so that two of them never overflow.
_HEADROOM = 400.0


class Chain(Protocol):
    """The transfer matrices of a workload, acting in place on arrays with ``size`` coordinates first.

    ``push`` takes one index into the product, from the later indices: the state moves on, driven with
    variance ``u``, and is observed with precision ``rho``. ``pull`` is its transpose. ``response`` is
    what one more observation of unit precision adds to <left, right>.
    """

    @property
    def size(self) -> int:
        """Number of coordinates."""
        ...

    def push(self, r: Array, u: Array, rho: Array, rate: Array) -> None:
        """Multiply ``r`` by the matrix of one index."""

    def pull(self, q: Array, u: Array, rho: Array, rate: Array) -> None:
        """Multiply ``q`` by its transpose."""

    def response(self, q: Array, r: Array) -> Array:
        """The change of <q, r> per unit of precision."""
        ...

    def rounding(self, poles: Poles, v: Array, u: Array, length: int) -> Array:
        """For each pole a bound on the relative rounding error of the diagonal."""
        ...


class SumChain:
    """Prefix sums, all rates 1: a random walk y; the coordinates are (1, var y) up to a common factor."""

    size = 2

    def push(self, r: Array, u: Array, rho: Array, rate: Array) -> None:  # noqa: ARG002, D102 - of Chain
        r[1] += u * r[0]
        r[0] += rho * r[1]

    def pull(self, q: Array, u: Array, rho: Array, rate: Array) -> None:  # noqa: ARG002, D102 - of Chain
        q[1] += rho * q[0]
        q[0] += u * q[1]

    def response(self, q: Array, r: Array) -> Array:  # noqa: D102 - of Chain
        return np.asarray(q[0] * r[1])

    def rounding(self, poles: Poles, v: Array, u: Array, length: int) -> Array:
        """A step rounds var y by less than 6 units, and a block by 12 per step.

        The next step multiplies a relative error of f = var y by at most
        1/((1 + u/f)(1 + rho f)) <= 1/(1 + 2 sqrt(u rho)), so that errors of
        1 + 1/(2 sqrt(u rho)) steps add up.
        """
        memory = 1.0 + 0.5 / np.sqrt(poles.shifts * (u * v).min())
        return np.asarray((24.0 * (2.0 * length + np.minimum(memory, len(v))) + 64.0) * _UNIT)


@dataclass(frozen=True)
class MomentumChain:
    """Two-step recurrences: r_i = left r_(i+1) + w_i, y_i = right y_(i+1) + rate_i r_i.

    The coordinates are (1, var y, cov(y, r), var r, determinant of the covariance) up to a common factor.
    """

    left: float
    right: float
    size = 5

    def push(self, r: Array, u: Array, rho: Array, rate: Array) -> None:  # noqa: D102 - of Chain
        one, yy, yr, rr, det = r
        a, b = self.left, self.right
        det *= a * a
        det += u * yy
        rr *= a * a
        rr += u * one
        yr *= a
        yy *= b * b
        yy += rate * (2.0 * b * yr + rate * rr)
        yr *= b
        yr += rate * rr
        det *= b * b
        one += rho * yy
        rr += rho * det

    def pull(self, q: Array, u: Array, rho: Array, rate: Array) -> None:  # noqa: D102 - of Chain
        one, yy, yr, rr, det = q
        a, b = self.left, self.right
        yy += rho * one
        det += rho * rr
        rr += rate * (yr + rate * yy)
        yr *= b
        yr += (2.0 * b) * rate * yy
        yy *= b * b
        det *= b * b
        yy += u * det
        one += u * rr
        det *= a * a
        rr *= a * a
        yr *= a

    def response(self, q: Array, r: Array) -> Array:  # noqa: D102 - of Chain
        return np.asarray(q[0] * r[1] + q[3] * r[4])

    def rounding(self, poles: Poles, v: Array, u: Array, length: int) -> Array:  # noqa: ARG002 - of Chain
        """Every term of <left, right> passes T steps of less than 20 roundings, and is divided by another."""
        return np.full(len(poles.shifts), (40.0 * (len(v) + length) + 64.0) * _UNIT)


@dataclass(frozen=True)
class _Layout:
    """T indices as ``blocks`` blocks of ``length``, the last ones filled up with indices that do nothing."""

    T: int
    length: int
    blocks: int

    @staticmethod
    def of(T: int) -> _Layout:
        """As many blocks as indices in a block, up to a limit."""
        blocks = max(1, min(_MOST_BLOCKS, math.isqrt(T)))
        return _Layout(T, -(-T // blocks), blocks)

    def split(self, x: Array) -> Array:
        """x, of shape (T,), as an array of shape (length, blocks)."""
        padded = np.zeros(self.length * self.blocks)
        padded[: self.T] = x
        return np.ascontiguousarray(padded.reshape(self.blocks, self.length).T)

    def join(self, x: Array) -> Array:
        """The inverse of ``split``."""
        return x.T.reshape(-1)[: self.T].copy()


@dataclass(frozen=True)
class _Sites:
    """What the transfer matrices are made of, by (index in block, block)."""

    v: Array
    u: Array
    rates: Array
    every: int  # steps between rescalings


def diagonal_of_root(chain: Chain, poles: Poles, v: Array, u: Array, rates: Array) -> tuple[Array, float]:
    """diag(r(K^-1)), r the rational function of ``poles``, and a bound on its relative rounding error.

    ``v``, ``u``, ``rates``: T positive numbers each, of moderate size.
    """
    plan = _Layout.of(len(v))
    sites = _Sites(plan.split(v), plan.split(u), plan.split(rates), _rescaling(poles, v, u, rates))
    rounding = chain.rounding(poles, v, u, plan.length)
    weights = np.stack([poles.weights, poles.weights * rounding])
    total = np.zeros((plan.length, 2, plan.blocks))
    group = max(1, _BATCH // plan.blocks)
    for start in range(0, len(poles.shifts), group):
        part = slice(start, start + group)
        _add(total, chain, sites, poles.shifts[part, None], weights[:, part])
    values, errors = plan.join(total[:, 0]), plan.join(total[:, 1])
    return v * values, float((errors / values).max()) + len(poles.shifts) * _UNIT


def _rescaling(poles: Poles, v: Array, u: Array, rates: Array) -> int:
    """How many steps cannot use up the headroom."""
    step = 8.0 * (1.0 + u.max()) * (1.0 + rates.max()) ** 2 * (1.0 + poles.shifts[-1] * v.max())
    return max(1, int(_HEADROOM / math.log2(step)))


def _add(total: Array, chain: Chain, sites: _Sites, shifts: Array, weights: Array) -> None:
    """Add the poles with these ``shifts`` and (two rows of) ``weights`` to ``total``."""
    length = len(sites.v)
    right, left = _between(_products(chain, sites, shifts))
    rights = np.empty((length, *right.shape))
    for k in reversed(range(length)):
        chain.push(right, sites.u[k], shifts * sites.v[k], sites.rates[k])
        if k % sites.every == 0:
            right /= right.sum(axis=0)
        rights[k] = right
    for k in range(length):
        r = rights[k]
        total[k] += weights @ (chain.response(left, r) / (left * r).sum(axis=0))
        chain.pull(left, sites.u[k], shifts * sites.v[k], sites.rates[k])
        if k % sites.every == 0:
            left /= left.sum(axis=0)


def _products(chain: Chain, sites: _Sites, shifts: Array) -> Array:
    """The product of each block, shape (size, size, poles, blocks), up to a factor per pole and block."""
    length, blocks = sites.v.shape
    products = np.zeros((chain.size, chain.size, len(shifts), blocks))
    for j in range(chain.size):
        products[j, j] = 1.0
    for k in reversed(range(length)):
        chain.push(products, sites.u[k], shifts * sites.v[k], sites.rates[k])
        if k % sites.every == 0:
            products /= products.sum(axis=(0, 1))
    return products


def _between(products: Array) -> tuple[Array, Array]:
    """What enters each block from the later and from the earlier indices, shape (size, poles, blocks)."""
    right = np.zeros(products.shape[1:])
    left = np.zeros(products.shape[1:])
    right[0, :, -1] = left[0, :, 0] = 1.0
    for b in reversed(range(1, products.shape[-1])):
        r = (products[..., b] * right[..., b]).sum(axis=1)
        right[..., b - 1] = r / r.sum(axis=0)
    for b in range(products.shape[-1] - 1):
        q = (products[..., b] * left[:, None, :, b]).sum(axis=0)
        left[..., b + 1] = q / q.sum(axis=0)
    return right, left
