"""Second derivatives of the dual in the logarithms of the weights, and the solution of Newton's system.

With h the nuclear norm of W = D_u^(1/2) A D_v^(1/2), the system is (docs/factorize.md)

    (S + diagonal) step = right side,   S_ik = -2T theta_i theta_k d^2 log h / (d theta_i d theta_k),

theta running over v, and over u too for the max error. S is positive semidefinite. The sizes of v and u are
of no account, and S is 0 along one of them: the caller's diagonal must be positive.
"""

# ruff: noqa: N803, N806 - matrices and T as in every formula

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.matrices.quadrature import poles_for
from csgm_cli.factorization.solve.oracle import PreparedChain, prepared
from csgm_cli.factorization.workload import structure

if TYPE_CHECKING:
    from csgm_cli.model.factorization import Dual, Workload

Array = NDArray[np.float64]

#: Indices whose transfer matrices are held at once.
_CHUNK = 128
#: Some 20 kB of memory per index: not beyond this T.
MOST_ROWS = 100_000


class Curvature(Protocol):
    """S at one pair of weights."""

    def solve(self, diagonal: Array, right: Array) -> Array:
        """The solution of (S + diagonal) x = right; all have shape (T, 1) for v, or (T, 2) for v and u.

        ``ArithmeticError`` where the matrix is, to its accuracy, not positive definite.
        """
        ...


def curvature(workload: Workload, dual: Dual, error: float, *, rows: bool) -> Curvature:
    """S at ``dual``, by quadrature with the relative ``error``; with ``rows`` for u too."""
    if workload.matrix is not None:
        return DenseCurvature.of(np.asarray(workload.matrix), dual, error, rows=rows)
    return ChainCurvature.of(
        prepared(structure(workload), np.asarray(dual.columns), np.asarray(dual.rows), error), rows=rows
    )


@dataclass(frozen=True, eq=False)
class DenseCurvature:
    """S as an array, (T k) x (T k), k = 1 for v or 2 for v and u."""

    matrix: Array

    @staticmethod
    def of(A: Array, dual: Dual, error: float, *, rows: bool) -> DenseCurvature:
        """O(T^3) for each pole: the second derivatives of log det(1 + s K), squares of three resolvents."""
        left, values, right = np.linalg.svd(np.sqrt(dual.rows)[:, None] * A * np.sqrt(dual.columns))
        least = max(values[-1], values[0] * float(np.finfo(float).eps))
        poles = poles_for(values[0] ** -2.0, least**-2.0, error)
        T = len(values)
        S = np.zeros((2 * T, 2 * T) if rows else (T, T))
        for shift, weight in zip(poles.shifts, poles.weights, strict=True):
            damped = values / (1.0 + shift * values**2)
            S[:T, :T] += weight * shift * ((right.T * (damped * values)) @ right) ** 2
            if rows:
                S[T:, T:] += weight * shift * ((left * (damped * values)) @ left.T) ** 2
                S[T:, :T] -= weight * ((left * damped) @ right) ** 2
        S[:T, T:] = S[T:, :T].T
        h = values.sum()
        phi = np.concatenate([values @ right**2, left**2 @ values] if rows else [values @ right**2])
        return DenseCurvature(S * (T / h) + np.outer(phi, phi) * (T / (2.0 * h**2)))

    def solve(self, diagonal: Array, right: Array) -> Array:  # noqa: D102 - of Curvature
        system = self.matrix + np.diag(diagonal.T.reshape(-1))
        try:
            factor = np.linalg.cholesky(system)
        except np.linalg.LinAlgError as error:
            raise ArithmeticError(*error.args) from None
        found = np.linalg.solve(factor.T, np.linalg.solve(factor, right.T.reshape(-1)))
        return np.asarray(found.reshape(right.T.shape).T)


@dataclass(frozen=True, eq=False)
class ChainCurvature:
    """S of a chain: semiseparable, factored in O(T (N d)^2) with d numbers of state for each of N poles.

    log det(1 + s K) is the logarithm of a product of transfer matrices, each linear in the v and in the u of
    its index. To change these is to change the message that goes on to the next index, in d = size - 1
    directions, for its length does not matter; what follows passes the change on by one linear map an index.
    One more number of state, which stays as it is, carries the term of S that has rank 1.

    ``steps``: (T, N, d, d), the maps; ``into``: (T, N d + 1, k), what a change of the weights of an index
    sends on; ``out``: (T, k, N d + 1), what a change that arrives does there, so that S is
    out_i step ... step into_j for i before j; ``own``: (T, k, k), the blocks on its diagonal.
    """

    steps: Array
    into: Array
    out: Array
    own: Array

    @staticmethod
    def of(chain: PreparedChain, *, rows: bool) -> ChainCurvature:
        """S for v, or with ``rows`` for v and u."""
        T, N, k = len(chain.v), len(chain.poles.shifts), 2 if rows else 1
        states = N * (chain.chain.size - 1)
        steps = np.empty((T, N, chain.chain.size - 1, chain.chain.size - 1))
        into, out = np.empty((T, states + 1, k)), np.empty((T, k, states + 1))
        own = np.empty((T, k, k))
        right, left = _messages(chain)
        beta = chain.poles.weights / chain.poles.shifts
        for part in _chunks(T):
            site = _Sites.of(chain, part, right[part], left[part], rows=rows)
            steps[part] = site.steps
            into[part, :-1] = (site.into * -beta[:, None, None]).reshape(-1, states, k)
            out[part, :, :-1] = site.out.reshape(-1, k, states)
            own[part] = -(site.second @ beta)
            into[part, -1] = site.first @ beta  # phi, for the term of rank 1
        h = float(into[:, -1, 0].sum())
        phi = into[:, -1] / h
        into *= T / h
        own *= T / h
        into[:, -1] = 0.5 * T * phi
        out[:, :, -1] = phi
        own += 0.5 * T * phi[:, :, None] * phi[:, None, :]
        return ChainCurvature(steps, into, out, own)

    def solve(self, diagonal: Array, right: Array) -> Array:
        """By the factors L D L^T of the matrix, L unit triangular from the last index to the first."""
        T, states, k = self.into.shape
        gains, scaled = np.empty_like(self.into), np.empty((T, k))
        state, covariance = np.zeros(states), np.zeros((states, states))
        for i in reversed(range(T)):
            spread = covariance @ self.out[i].T
            inverse = _inverse(self.own[i] + np.diag(diagonal[i]) - self.out[i] @ spread)
            change = self.into[i] - self._pass(i, spread)
            gains[i] = change @ inverse
            found = right[i] - self.out[i] @ state
            state = self._pass(i, state[:, None])[:, 0] + gains[i] @ found
            covariance = self._pass(i, self._pass(i, covariance).T)
            covariance += gains[i] @ change.T
            scaled[i] = inverse @ found
        state = np.zeros(states)
        for i in range(T):
            scaled[i] -= gains[i].T @ state
            passed = self.steps[i].transpose(0, 2, 1) @ state[:-1].reshape(*self.steps[i].shape[:2], 1)
            state[:-1] = passed[:, :, 0].reshape(-1)
            state += self.out[i].T @ scaled[i]
        return scaled

    def _pass(self, i: int, states: Array) -> Array:
        """Columns of states, one index on."""
        step = self.steps[i]
        passed = np.empty_like(states)
        np.matmul(
            step,
            states[:-1].reshape(*step.shape[:2], -1),
            out=passed[:-1].reshape(*step.shape[:2], -1),
        )
        passed[-1] = states[-1]
        return passed


def _inverse(block: Array) -> Array:
    """The inverse of a 1 x 1 or 2 x 2 matrix that has to be positive definite."""
    if len(block) == 1:
        determinant, adjugate = block[0, 0], np.ones((1, 1))
    else:
        determinant = block[0, 0] * block[1, 1] - block[0, 1] ** 2
        adjugate = np.array([[block[1, 1], -block[0, 1]], [-block[0, 1], block[0, 0]]])
    if not (block[0, 0] > 0.0 and determinant > 0.0):
        raise ArithmeticError("not positive definite")
    return np.asarray(adjugate / determinant)


def _chunks(T: int) -> list[slice]:
    return [slice(start, min(start + _CHUNK, T)) for start in range(0, T, _CHUNK)]


def _transfers(chain: PreparedChain, part: slice, v: float = 1.0, u: float = 1.0) -> Array:
    """The matrices of the indices ``part``, (indices, N, size, size), v and u scaled by these factors."""
    shape = (chain.v[part].size, len(chain.poles.shifts))
    size = chain.chain.size
    product = np.zeros((size, size, *shape))
    product[range(size), range(size)] = 1.0
    rho = v * chain.v[part, None] * chain.poles.shifts
    chain.chain.push(product, u * chain.u[part, None], rho, chain.rates[part, None])
    return np.moveaxis(product, (0, 1), (2, 3))


def _messages(chain: PreparedChain) -> tuple[Array, Array]:
    """What comes to each index from the later ones (first entry 1), and from the earlier ones."""
    T, N, size = len(chain.v), len(chain.poles.shifts), chain.chain.size
    right, left = np.empty((T, N, size)), np.empty((T, N, size))
    message = np.eye(1, size).repeat(N, axis=0)
    for part in reversed(_chunks(T)):
        for r, transfer in zip(right[part][::-1], _transfers(chain, part)[::-1], strict=True):
            r[:] = message
            message = (transfer @ message[:, :, None])[:, :, 0]
            message /= message[:, :1]
    message = np.eye(1, size).repeat(N, axis=0)
    for part in _chunks(T):
        for q, transfer in zip(left[part], _transfers(chain, part), strict=True):
            q[:] = message
            message = (message[:, None, :] @ transfer)[:, 0]
            message /= message.sum(axis=1, keepdims=True)
    return right, left


@dataclass(frozen=True, eq=False)
class _Sites:
    """Of some indices and every pole: the derivatives of log det(1 + s K) in the logarithms of v and u.

    ``steps``: (indices, N, d, d); ``into``: (indices, N, d, k); ``out``: (indices, k, N, d); ``first``:
    (indices, k, N); ``second``: (indices, k, k, N), for two changes of the same index.
    """

    steps: Array
    into: Array
    out: Array
    first: Array
    second: Array

    @staticmethod
    def of(chain: PreparedChain, part: slice, right: Array, left: Array, *, rows: bool) -> _Sites:
        whole = _transfers(chain, part)
        changes = [whole - _transfers(chain, part, v=0.0)]
        if rows:
            changes.append(whole - _transfers(chain, part, u=0.0))
        sent = _apply(whole, right)
        length = sent[..., :1]
        sent = sent / length
        left = left / (left * sent).sum(axis=-1, keepdims=True)
        passed = _apply(whole.swapaxes(-1, -2), left) / length
        steps = (whole[..., 1:, 1:] - sent[..., 1:, None] * whole[..., :1, 1:]) / length[..., None]
        into, out, first = [], [], []
        for change in changes:
            moved = _apply(change, right) / length
            rate = (left * moved).sum(axis=-1)
            into.append(moved[..., 1:] - sent[..., 1:] * moved[..., :1])
            back = _apply(change.swapaxes(-1, -2), left) / length - rate[..., None] * passed
            out.append(back[..., 1:])
            first.append(rate)
        slopes = np.stack(first, axis=1)
        second = -slopes[:, :, None] * slopes[:, None, :]
        if rows:
            both = changes[0] - (_transfers(chain, part, u=0.0) - _transfers(chain, part, v=0.0, u=0.0))
            mixed = (left * _apply(both, right) / length).sum(axis=-1)
            second[:, 0, 1] += mixed
            second[:, 1, 0] += mixed
        return _Sites(steps, np.stack(into, axis=-1), np.stack(out, axis=1), slopes, second)


def _apply(matrices: Array, vectors: Array) -> Array:
    return np.asarray((matrices @ vectors[..., None])[..., 0])
