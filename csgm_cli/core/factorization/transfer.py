"""diag(K^(1/2)) for K = D_v^(1/2) A^T D_u A D_v^(1/2) in O(T poles), by products of nonnegative matrices.

Every workload here is a chain: A^T w is read off a small state that runs from the last index to the first
and is driven by w. For a pole s, (K^-1 + s)^-1 is the covariance of D_v^(1/2) A^T D_u^(1/2) w given one
observation of each entry of it with precision s, and

    [(K^-1 + s)^-1]_ii = v_i d log det(I + s K) / d (s v_i).

The determinant is a product of T transfer matrices with nonnegative entries (on the coordinates of
``Chain``), so sums of products of nonnegative numbers are all there is: nothing cancels, the relative
error of every entry is a few ulps times the length of the longest product, whatever the condition of K.

Products are taken in blocks: all blocks at once, vectorised over blocks and poles, then from block to
block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.factorization.quadrature import Poles

Array = NDArray[np.float64]

_EPS = float(np.finfo(float).eps)
#: Numbers worked on at once: a few arrays of this size stay in a core's cache.
_BATCH = 16384
#: Products are rescaled before they can grow by this power of two, so that two of them never overflow.
_HEADROOM = 400.0


class Chain(Protocol):
    """The transfer matrices of one workload, acting on arrays whose first axis has ``size`` coordinates.

    ``push`` takes index i into the product from the right (the later indices): the state moves on, driven
    with variance ``u``, and is observed with precision ``rho``. ``pull`` is its transpose. ``response``
    is the part of <left, right> that observing once more adds, per unit of precision.
    """

    size: int

    def push(self, r: Array, k: int, u: Array, rho: Array) -> None: ...
    def pull(self, l: Array, k: int, u: Array, rho: Array) -> None: ...
    def response(self, l: Array, r: Array) -> Array: ...


@dataclass(frozen=True)
class SumChain:
    """Prefix sums: the state is a random walk y, the coordinates are (1, var y) up to a common factor."""

    size: int = 2

    def push(self, r: Array, u: Array, rho: Array, rate: Array) -> None:
        r[1] += u * r[0]
        r[0] += rho * r[1]

    def pull(self, l: Array, u: Array, rho: Array, rate: Array) -> None:
        l[1] += rho * l[0]
        l[0] += u * l[1]

    def response(self, l: Array, r: Array) -> Array:
        return l[0] * r[1]


@dataclass(frozen=True)
class MomentumChain:
    """Two-step recurrences: r_i = inner r_(i+1) + w_i, y_i = outer y_(i+1) + rate_i r_i.

    The coordinates are (1, var y, cov(y, r), var r, determinant of the covariance) up to a common factor.
    """

    outer: float
    inner: float
    size: int = 5

    def push(self, r: Array, u: Array, rho: Array, rate: Array) -> None:
        one, yy, yr, rr, det = r
        b, c = self.outer, self.inner
        det *= c * c
        det += u * yy
        rr *= c * c
        rr += u * one
        yr *= c
        yy *= b * b
        yy += rate * (2.0 * b * yr + rate * rr)
        yr *= b
        yr += rate * rr
        det *= b * b
        one += rho * yy
        rr += rho * det

    def pull(self, l: Array, u: Array, rho: Array, rate: Array) -> None:
        one, yy, yr, rr, det = l
        b, c = self.outer, self.inner
        yy += rho * one
        det += rho * rr
        rr += rate * (yr + rate * yy)
        yr *= b
        yr += (2.0 * b) * rate * yy
        yy *= b * b
        det *= b * b
        yy += u * det
        one += u * rr
        det *= c * c
        rr *= c * c
        yr *= c

    def response(self, l: Array, r: Array) -> Array:
        return l[0] * r[1] + l[3] * r[4]


@dataclass(frozen=True)
class Layout:
    """T indices as ``blocks`` blocks of ``length``, the last one filled up with indices that do nothing."""

    T: int
    length: int
    blocks: int

    def split(self, x: Array) -> Array:
        """x, of shape (T,), as an array of shape (length, blocks)."""
        padded = np.zeros(self.length * self.blocks)
        padded[: self.T] = x
        return np.ascontiguousarray(padded.reshape(self.blocks, self.length).T)

    def join(self, x: Array) -> Array:
        """The inverse of ``split``."""
        return x.T.reshape(-1)[: self.T].copy()


def layout(T: int, ) -> Layout:
    blocks = max(1, min(1024, int(math.sqrt(T) * BF)))
    return Layout(T, -(-T // blocks), blocks)

BF = 1.0

def diag_sqrt(chain, poles: Poles, v: Array, u: Array, rate: Array) -> Array:
    T = len(v)
    plan = layout(T)
    vs, us, rates = plan.split(v), plan.split(u), plan.split(rate)
    total = np.zeros_like(vs)
    group = max(1, _BATCH // plan.blocks)
    growth = math.log2(8.0 * (1 + u.max()) * (1 + rate.max()) ** 2 * (1 + poles.shifts[-1] * v.max()))
    every = max(1, int(_HEADROOM / growth))
    for start in range(0, len(poles.shifts), group):
        part = slice(start, start + group)
        _accumulate(chain, total, poles.shifts[part, None], poles.weights[part], vs, us, rates, every)
    return v * plan.join(total)


def _accumulate(chain, total, shifts, weights, vs, us, rates, every):
    length, blocks = vs.shape
    n, g = chain.size, len(weights)
    products = np.zeros((n, n, g, blocks))
    for j in range(n):
        products[j, j] = 1.0
    for k in range(length - 1, -1, -1):
        chain.push(products, us[k], shifts * vs[k], rates[k])
        if k % every == 0:
            products /= products.sum(axis=(0, 1))
    right, left = _between(products)
    rights = np.empty((length, n, g, blocks))
    for k in range(length - 1, -1, -1):
        chain.push(right, us[k], shifts * vs[k], rates[k])
        if k % every == 0:
            right /= right.sum(axis=0)
        rights[k] = right
    for k in range(length):
        r = rights[k]
        total[k] += weights @ (chain.response(left, r) / (left * r).sum(axis=0))
        chain.pull(left, us[k], shifts * vs[k], rates[k])
        if k % every == 0:
            left /= left.sum(axis=0)


def _between(products):
    n, _, g, blocks = products.shape
    right = np.zeros((n, g, blocks))
    left = np.zeros((n, g, blocks))
    right[0, :, -1] = left[0, :, 0] = 1.0
    for b in range(blocks - 1, 0, -1):
        r = (products[:, :, :, b] * right[None, :, :, b]).sum(axis=1)
        right[:, :, b - 1] = r / r.sum(axis=0)
    for b in range(blocks - 1):
        l = (products[:, :, :, b] * left[:, None, :, b]).sum(axis=0)
        left[:, :, b + 1] = l / l.sum(axis=0)
    return right, left
