"""``blt:N``: Toeplitz C with N buffers, the buffered linear Toeplitz factors of DP-FTRL, for prefix sums.

C(z) = prod_j (1 - zero_j z)/(1 - pole_j z) with poles and zeros interlaced in (0, 1), stored as a_j = 1 -
pole_j and h_j = 1 - zero_j. The first columns of C and of B = A C^-1 are sums of exponentials with positive
weights, so both errors have closed forms in O(N^2) for every T. ``blt-normalized:N`` has the same C with its
columns scaled to norm 1.
"""

# ruff: noqa: N803, N806 - T is the number of rows in every formula

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.factorization.matrices.quadrature import zolotarev
from csgm_cli.factorization.matrices.semiseparable import column_norms_squared
from csgm_cli.factorization.strategies.rational import Points, best_moves, moved, residues
from csgm_cli.factorization.workload import mean_and_max
from csgm_cli.model.factorization import Generators, Objective, Strategy, Workload

if TYPE_CHECKING:
    from csgm_cli.model.participation import Participation

Array = NDArray[np.float64]

#: From 12 to 16 buffers the error falls by 3e-5 at T = 10^8, and by less for fewer rows.
MOST_BUFFERS = 16
#: A rate below this fraction of 1/T is expanded to first order, since the closed form would cancel.
_SLOW = 1e-3
#: Step of the complex-step derivative: its square is negligible relative to 1.
_IMAGINARY = 1e-30
#: The normalized form is tuned at this many rows over the number of buffers, or at T rows if fewer.
_TUNED_NUMBERS = 65536


def check_buffers(strategy: Strategy) -> None:
    """``UsageError`` (slug ``out-of-range``) for more buffers than are useful."""
    if strategy.buffers is not None and strategy.buffers > MOST_BUFFERS:
        raise UsageError(
            "out-of-range",
            f"{strategy.name} takes 1 to {MOST_BUFFERS} buffers, got {strategy.buffers}",
            "more would not lower its error; streaming:N comes closer to the optimum",
        )


def blt_points(
    workload: Workload, objective: Objective, buffers: int, participation: Participation | None = None
) -> Array:
    """The best plain form as ``points`` (see `rational`) in the eigenvalues 2 - z - 1/z of (A^T A)^-1.

    ``participation``: as for `plain_error`.
    A local optimum, by BFGS with derivatives by complex steps, from Zolotarev's approximation.
    """
    from scipy.optimize import minimize

    T, steps = workload.T, _IMAGINARY * 1j * np.eye(2 * buffers)

    def loss(x: Array) -> tuple[float, Array]:
        with np.errstate(all="ignore"):  # what is not finite is refused
            logs = np.log(plain_error(_interlaced(x + steps), workload, objective, participation))
        value, slope = float(logs[0].real), np.asarray(logs.imag / _IMAGINARY)
        is_valid = np.isfinite(value) and np.isfinite(slope).all()
        return (value, slope) if is_valid else (np.inf, np.zeros_like(slope))

    intervals = [(1.0 / T**2, 4.0)]
    if participation is not None:  # one interval alone may end with a buffer that does nothing
        intervals += [(1.0 / T**2, 1.0), (1.0 / (T * participation.min_separation), 1.0)]
    options = {"gtol": 1e-8, "maxiter": 300}
    found = [
        minimize(loss, _parameters(zolotarev(*ends, buffers)), jac=True, method="BFGS", options=options)
        for ends in intervals
    ]
    return np.asarray(_interlaced(min(found, key=lambda one: float(one.fun)).x))


def normalized_points(workload: Workload, objective: Objective, buffers: int) -> Array:
    """The points of the best normalized form; its error is at most that with the plain form's points.

    With D the nonincreasing column norms, row t of B is D_t B_t + sum_{k<t} (D_k - D_(k+1)) B_k in the rows
    of the plain B, whose norms are nondecreasing: its norm is at most D_0 times that of B_t.
    """
    few = replace(workload, T=min(workload.T, _TUNED_NUMBERS // buffers))
    plain = blt_points(workload, objective, buffers)
    first = plain if few.T == workload.T else blt_points(few, objective, buffers)
    with np.errstate(all="ignore"):  # non-finite values are rejected
        moves = best_moves(lambda points: _normalized_error(points, few, objective), first)
        tuned = moved(plain, moves)
        tuned = plain if tuned is None else tuned
        return min(tuned, plain, key=lambda points: _normalized_error(points, workload, objective))


def plain_error(
    points: Points, workload: Workload, objective: Objective, participation: Participation | None = None
) -> Points:
    """The error by ``objective`` of the plain form, its sensitivity 1; ``points`` may be a stack of them.

    ``participation``: the squared joint sensitivity, of vectors that are sent whole, is then the number of
    participations, as for so many releases of sensitivity 1.
    """
    T, (a, h) = workload.T, _distances(points)
    if participation is None:
        squared = _norm_squared(residues(h, a), a, T - 1) + 1.0
    else:
        joint = _joint_squared(residues(h, a), a, T, participation)
        squared = joint / participation.participations
    # Of B: a constant and exponentials, of which none decays more slowly.
    weights = np.concatenate([np.prod(a / h, axis=-1)[..., None], -residues(a, h) / h], axis=-1)
    rates = np.concatenate([np.zeros_like(h[..., :1]), h], axis=-1)
    last = _norm_squared(weights, rates, T)  # the longest row
    if objective is Objective.MAX:
        return np.asarray(squared * workload.epochs * last)
    mean = np.einsum("...i,...j,...ij->...", weights, weights, _mean_powers(_both(rates), T))
    return np.asarray(squared * (mean + (workload.epochs - 1) / 2.0 * last))


def blt_generators(points: Array, T: int, *, normalized: bool) -> Generators:
    """Generators of C scaled to sensitivity 1, or with every column scaled to norm 1 (``normalized``)."""
    a, h = _distances(points)
    shape = (T, len(a))
    decays, outputs = np.broadcast_to(1.0 - a, shape), np.broadcast_to(residues(h, a), shape)
    if normalized:
        norms = np.sqrt(column_norms_squared(Generators(decays, np.ones(shape), outputs, np.ones(T))))
    else:
        norms = np.full(T, np.sqrt(1.0 + _norm_squared(outputs[0], a, T - 1)))
    return Generators(decays, np.broadcast_to(1.0 / norms[:, None], shape), outputs, 1.0 / norms)


def _joint_squared(weights: Points, a: Points, T: int, participation: Participation) -> Points:
    """The sum of X_(mb, nb) over m, n < k, the largest over patterns: X decreases along rows and diagonals.

    With r = 1 - a, X_((n-d)b, nb) is c_(db) plus the sum over s < T - 1 - nb of c_(1+s) c_(1+s+db), where
    c_(1+t) = sum_j weights_j r_j^t. O(k N^2).
    """
    k, b = participation.participations, participation.min_separation
    starts, log_rates = b * np.arange(k)[:, None], np.log1p(-a)[..., None, :]
    # Each X_(nb, nb) once and twice all X_(mb, nb) with m < n: the sum over d of r^(db), d = 1, ..., n.
    earlier = np.exp(b * log_rates) * np.expm1(starts * log_rates) / np.expm1(b * log_rates)
    counted = 1.0 + 2.0 * earlier
    exponents = (T - 1 - starts) * log_rates
    ended = -np.expm1(exponents)
    # The sum over n of counted_q (1 - r_p^s r_q^s), s = T - 1 - nb, of terms without cancellation.
    sums = np.swapaxes(ended, -1, -2) @ counted + np.swapaxes(np.exp(exponents), -1, -2) @ (counted * ended)
    products = weights[..., :, None] * weights[..., None, :] * sums / _both(a)
    first = 2.0 * weights * earlier.sum(axis=-2) / (1.0 - a)
    return np.asarray(k + first.sum(axis=-1) + products.sum(axis=(-1, -2)))


def _parameters(points: Array) -> Array:
    """Numbers without constraints that `_interlaced` makes ``points`` of."""
    logs = np.log(points)
    return np.concatenate([logs[:1], np.log(np.expm1(np.diff(logs)))])


def _interlaced(x: Points) -> Points:
    """Increasing points from unconstrained numbers: log p_1, then the logarithms of p_(j+1)/p_j - 1."""
    return np.asarray(np.exp(np.cumsum(np.concatenate([x[..., :1], np.log1p(np.exp(x[..., 1:]))], -1), -1)))


def _distances(points: Points) -> tuple[Points, Points]:
    """1 - pole and 1 - zero of C: the d in (0, 1) with d^2/(1 - d) = point."""
    distances = 2.0 * points / (points + np.sqrt(points * (points + 4.0)))
    return distances[..., ::2], distances[..., 1::2]


def _both(a: Points) -> Points:
    """1 - r_i r_j for all pairs of r = 1 - a, without cancellation."""
    return np.asarray(a[..., :, None] + a[..., None, :] - a[..., :, None] * a[..., None, :])


def _norm_squared(weights: Points, a: Points, n: int) -> Points:
    """sum_{t<n} (sum_j weights_j (1 - a_j)^t)^2."""
    return np.asarray(np.einsum("...i,...j,...ij->...", weights, weights, _powers(_both(a), n)))


def _powers(e: Points, n: int) -> Points:
    """sum_{t<n} (1 - e)^t."""
    is_zero = e == 0.0
    rate = np.where(is_zero, 0.5, e)
    with np.errstate(divide="ignore"):  # 1 - e may be 0
        return np.where(is_zero, n, -np.expm1(n * np.log1p(-rate)) / rate)


def _mean_powers(e: Points, T: int) -> Points:
    """The mean of `_powers` over n = 1, ..., T."""
    is_slow = T * e.real < _SLOW
    rate = np.where(is_slow, 0.5, e)
    slow = (T + 1) / 2.0 * (1.0 - e * (T - 1) / 3.0)
    return np.where(is_slow, slow, (1.0 - (1.0 - rate) * _powers(rate, T) / T) / rate)


def _normalized_error(points: Array, workload: Workload, objective: Objective) -> float:
    mean, worst = mean_and_max(workload, _normalized_rows(points, workload.T))
    return mean if objective is Objective.MEAN else worst


def _normalized_rows(points: Array, T: int) -> Array:
    """The squared row norms of B in the normalized form: variances of the sums of D_t y_t for y = C^-1 z.

    With q_k the states of C^-1, y = z - sum_k weights_k q_k, and cov(sum of D y, q_k) is a filter of
    the closed forms cov(y_t, q_k(t)).
    """
    from scipy.signal import lfilter

    a, h = _distances(points)
    outputs, weights = residues(h, a), -residues(a, h)
    t = np.arange(T)
    grams, decayed = outputs[:, None] * outputs / _both(a), (1.0 - a[:, None]) ** (T - 1 - t)
    norms = np.sqrt(1.0 + grams.sum() - np.einsum("it,it->t", grams @ decayed, decayed))
    covariances, decayed = weights[:, None] * weights / _both(h), (1.0 - h[:, None]) ** t
    states = covariances.sum(axis=1)[:, None] - (covariances @ decayed) * decayed
    past = np.zeros(T)  # sum_k weights_k cov(sum of D y before t, q_k(t))
    for weight, distance, state in zip(weights, h, states, strict=True):
        driven = norms * (weight - (1.0 - distance) * state)
        past += lfilter([0.0, 1.0], [1.0, distance - 1.0], driven)
    return np.cumsum(norms * (norms * (1.0 + states.sum(axis=0)) - 2.0 * past))
