"""The exponent B of the convex functions that the worst-case client vector is proven to maximise.

C_B is the set of convex phi with phi''(u) u^(1+B) nondecreasing (docs/theory.md, "Concentrated vectors").
Conditions 1 and 2 are those of Theorem 7; Theorem 9 reduces condition 1 to finitely many t. Condition 2 holds
for t <= 8.65, or gamma >= 6.31e-5 (Lemma 4). Otherwise B = 0. With R the posterior probability that a
coordinate was sent and N_m(t) = E_Q[Y^(1-B) R^m], condition 1 is v >= 0 at every t of the coordinates, where

    v = 2 - 4 (1+B) N_3/N_2 + (1+B)(2+B) N_4/N_2 - B (B-1) N_2/N_0.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from csgm_cli.roots import narrow_bracket

Array = NDArray[np.float64]

#: Condition 2 is proven for t <= SIGN_CHANGE_T, and for larger t where gamma >= SIGN_CHANGE_GAMMA.
SIGN_CHANGE_T, SIGN_CHANGE_GAMMA = 8.65, 6.31e-5

#: A B below `_SMALLEST` counts as 0: it would lower sigma by less than 0.02 %, and below 0.065 the largest B
#: may increase with gamma. For t > `_LARGEST_T`, B is below `_SMALLEST` wherever condition 2 is proven.
_SMALLEST, _LARGEST_T = 0.1, 32.0
#: The share of the numerically largest B that is certified.
_SAFETY = 0.999
#: Margin on v >= 0, well above its rounding error, which is below 1e-14 in 2,000 trials.
_MARGIN = 1e-9


@lru_cache(maxsize=256)
def largest_exponent(gamma: float, t: float) -> float:
    """A proven exponent B >= 0 for all coordinates with squared clip-to-noise ratio at most ``t``.

    Nonincreasing in t, and in gamma (up to rounding), except that for t > `SIGN_CHANGE_T` it is 0 for
    gamma below `SIGN_CHANGE_GAMMA`. The result is 0.1 % below the largest B that meets condition 1, or 0 if
    that is below 0.1 or condition 2 is not proven.

    Args:
        gamma: probability that a coordinate is sent, 0 < gamma < 1.
        t: (L-inf clip / sigma)^2, positive; the largest t of the coordinates with this gamma.
    """
    if t > _LARGEST_T or (t > SIGN_CHANGE_T and gamma < SIGN_CHANGE_GAMMA):
        return 0.0
    exponent = _SAFETY * _numerical_exponent(gamma, t)
    return exponent if exponent > 0.0 and is_certified(exponent, gamma, t) else 0.0


def _numerical_exponent(gamma: float, t: float) -> float:
    """The largest B with v >= 0 at 0 and at ``t``, by root finding; 0 if it is below `_SMALLEST`."""
    points, x = np.array([t]), quadrature_nodes(t)

    def negative_v(exponent: float) -> float:
        moments = moments_of_r(exponent, gamma, points, x)
        return -float(v_lower_bound(exponent, moments, moments, np.zeros(1))[0])

    at_zero = (1.0 - gamma) / (2.0 * gamma)
    if at_zero < _SMALLEST or (low := negative_v(_SMALLEST)) > 0.0:
        return 0.0
    if (high := negative_v(at_zero)) <= 0.0:
        return at_zero
    return narrow_bracket(negative_v, (_SMALLEST, low), (at_zero, high), 1e-13, relative=True)


def is_certified(exponent: float, gamma: float, t: float) -> bool:
    """Whether condition 1 is proven on [0, ``t``].

    Bisects cells until v is positive in each, or not at the end of one.
    """
    x, ends = quadrature_nodes(t), np.linspace(0.0, t, 17)
    moments = moments_of_r(exponent, gamma, ends, x)
    left, right, at_left, at_right = ends[:-1], ends[1:], moments[:, :-1], moments[:, 1:]
    at_new = moments
    while v_lower_bound(exponent, at_new, at_new, np.zeros(1)).min() >= _MARGIN:
        failed = v_lower_bound(exponent, at_left, at_right, right - left) < _MARGIN
        if not failed.any():
            return True
        left, right, at_left, at_right = left[failed], right[failed], at_left[:, failed], at_right[:, failed]
        middle = (left + right) / 2
        at_new = at_middle = moments_of_r(exponent, gamma, middle, x)
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        at_left, at_right = np.hstack([at_left, at_middle]), np.hstack([at_middle, at_right])
    return False


def v_lower_bound(exponent: float, at_left: Array, at_right: Array, width: Array) -> Array:
    """A lower bound on v in each cell, from N_0, N_2, N_3, N_4 at its ends; v itself where the width is 0."""
    b = exponent
    slack: dict[int, Array] = {m: np.exp(m * b * width / (2 * (m + b))) for m in (2, 3, 4)}
    low_2, low_4 = at_left[1] / slack[2], at_left[3] / slack[4]
    high_2, high_3 = at_right[1] * slack[2], at_right[2] * slack[3]
    ratio = (high_2 if b >= 1.0 else low_2) / at_left[0]
    bound: Array = 2 - 4 * (1 + b) * high_3 / low_2 + (1 + b) * (2 + b) * low_4 / high_2 - b * (b - 1) * ratio
    return bound


def moments_of_r(exponent: float, gamma: float, t: Array, x: Array) -> Array:
    """N_0, N_2, N_3 and N_4 (rows) at each ``t`` (columns), by the trapezoid rule on the nodes ``x``."""
    lognormal = np.exp(np.sqrt(t)[:, None] * x - t[:, None] / 2)
    log_y = np.log1p(gamma * (lognormal - 1))
    log_weights = np.maximum((1 - exponent) * log_y - x * x / 2, -600.0)  # subnormal numbers are slow
    weights = np.exp(log_weights) * ((x[1] - x[0]) / math.sqrt(2 * math.pi))
    r = gamma * lognormal * np.exp(-log_y)
    squared = weights * r * r
    return np.stack([weights.sum(1), squared.sum(1), (squared * r).sum(1), (squared * r * r).sum(1)])


def quadrature_nodes(t: float) -> Array:
    """Equidistant nodes from 8.5 below to 8.5 above [-s/2, 4 s], which contains the mode of each integrand.

    The truncation error is 1e-16. The integrands are bounded for |Im x| <= pi/(2 s), so the error of the
    trapezoid rule with step h = 0.25/s is about exp(-pi^2/(s h)) = 1e-17; for small s, with h = 0.5, it is
    exp(-2 pi^2/h^2). The largest measured error is 4e-15 (relative).
    """
    s = math.sqrt(t)
    return np.arange(-8.5 - s / 2, 8.5 + 4 * s, 0.25 / max(s, 0.5))
