"""Proven upper bounds on delta over ALL client vectors, adaptive ones included.

For a convex test function phi that dominates the hockey-stick, delta <= sup E_Q[phi(e^L)]. Write
W(u) = phi''(u) u. Where W(u) u^B is nondecreasing the supremum is at the vector kappa* with as many
coordinates at the clip as fit, up to an additive ``err`` that is 0 for B = 0; where it is
nonincreasing the expectation is below its limit for infinitely spread vectors, a lognormal, up to
``err'`` (docs/theory.md, "Upper bounds over all vectors"). Each function here minimises over its family.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.certificate import Certificate, Proof, value_of
from csgm_cli.core.loss_line import ROUNDING
from csgm_cli.roots import downhill

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from csgm_cli.profile.contour import Contour, Law

#: The additive error of a cone, relative to the delta at stake, with which the search begins.
ERROR_SHARE = 1e-3
#: How many steps of the lattice a good set may be larger than the one to begin with.
_FURTHEST = 400
#: Poles (exponents - 1) that contours keep clear of, relative to that of the exponent to begin with.
POLE_ROOM = 0.9
#: Contours closer to the imaginary axis than such a pole lets them be take too long, and show little.
LEAST_POLE = 0.1
#: The bounds that say which good sets may do are far less than this times what they bound.
_FAR_MORE = 1e3
#: log(sinh(x)/x) in powers of x^2, from the first on, which serve up to this x.
_LOG_SINHC, _NEAR = (1 / 6, -1 / 180, 1 / 2835, -1 / 37800, 1 / 467775), 0.1


def posterior(gamma: float, z: float) -> float:
    """R at log-odds z above the prior: logit R = logit gamma + z."""
    return 1 / (1 + math.exp(min(700.0, math.log1p(-gamma) - math.log(gamma) - z)))


def admissible_exponent(gamma: float, z: float) -> float:
    """The largest B that the good set |Z| <= z allows; 0 where that is negative."""
    high, low = posterior(gamma, z), posterior(gamma, -z)
    return max(0.0, 1 / (2 * high) + 2 * low * high / (low + high) ** 2 - 1)


def admissible_exponent_below(gamma: float, z: float) -> float:
    """The least B' that the good set |Z| <= z allows."""
    return 1 / (2 * posterior(gamma, -z)) - 0.5


def log_steepest(epsilon: float, exponent: float) -> float:
    """About the log of c v^B', by which errors of a `concave_twin` grow, at large epsilons."""
    return epsilon * max(0.0, 1.0 - exponent)


def good_set(law: Law, weight: float, share: float) -> float:
    """A z whose error 2 total_t weight P(N > (z - t/2)/sqrt t) is at most ``share``.

    By P(N > q) <= exp(-q^2/2)/2, q >= 0, for the largest coordinate, which serves the others too.
    """
    s = math.sqrt(law.largest_t)
    q = math.sqrt(max(0.0, 2 * (math.log(law.total_t) + math.log(weight) - math.log(share))))
    return s * q + s * s / 2


def log_outside(law: Law, z: float) -> float:
    """Log of 2 total_t P(N > (z - t/2)/sqrt t), what pairs outside the good set contribute per weight."""
    s = math.sqrt(law.largest_t)
    q = (z - s * s / 2) / s
    tail = math.log(math.erfc(q / math.sqrt(2))) + 1e-12 if q < 30.0 else -q * q / 2
    return math.log(law.total_t) + tail


def _least_good_set(law: Law) -> float:
    """Up to z with (z - s^2/2)/s = sqrt 2 the error need not fall fast enough with s."""
    s = math.sqrt(law.largest_t)
    return s * math.sqrt(2) + s * s / 2


def lattice(low: float, high: float) -> NDArray[np.float64]:
    """The powers of 2^(1/8) from about ``low`` to about ``high``.

    Parameters of test functions are taken from it: the least of bounds that are monotone is
    monotone where all choose from the same ones.
    """
    first, last = math.floor(8 * math.log2(low)), math.ceil(8 * math.log2(high))
    return np.asarray(np.exp2(np.arange(first, last + 1) / 8))


def over_good_sets(
    law: Law, first: float, bound: Callable[[float], Certificate | None]
) -> Certificate | None:
    """The least ``bound(z)`` over a lattice of z, downhill from about ``first``.

    From `_least_good_set` on the error falls fast enough with s for the sum to fall with it.
    """
    least = math.ceil(8 * math.log2(_least_good_set(law)))

    @cache
    def found(j: int) -> Certificate | None:
        return bound(2 ** ((least + j) / 8))

    at = max(0, round(8 * math.log2(min(first, 1e308))) - least)
    while math.isinf(value_of(found(at))) and at > 0:  # no exponent is admissible: a smaller good set
        at -= 1
    return least_downhill(found, at, at + _FURTHEST)


def least_downhill(found: Callable[[int], Certificate | None], first: int, last: int) -> Certificate | None:
    """The least of what is ``found`` at 0 ... ``last``, downhill from ``first``; each is asked for again."""
    return found(downhill(lambda j: value_of(found(j)), first, last))


def add_cone(law: Law, contour: Contour, epsilon: float, scale: float) -> Certificate:
    """Bound on the add direction: phi''(u) u = c (u/v)^-B for u >= v, touching at r v.

    ``contour`` is that of the add hockey-stick, ``scale`` about its delta. The best of B = 0 and of
    the largest B of every good set, over r.
    """
    plain = best_spread(contour, epsilon, 0.0, 0.0, None)

    def with_exponent(z: float) -> Certificate | None:
        exponent = admissible_exponent(law.gamma, z)
        if exponent == 0.0:
            return None
        return best_spread(contour, epsilon, exponent, math.exp(log_outside(law, z)), z)

    first = good_set(law, 10.0 / law.gamma, ERROR_SHARE * scale)
    best = over_good_sets(law, first, with_exponent)
    return plain if best is None else min(plain, best, key=value_of)


def best_spread(
    contour: Contour, epsilon: float, exponent: float, per_weight: float, z: float | None
) -> Certificate:
    """The best log r of a lattice: the best of every fourth, then of all around that."""

    def values(spreads: NDArray[np.float64]) -> NDArray[np.float64]:
        return add_bounds(contour, epsilon, exponent, per_weight, spreads)

    bound, spread = _least(lattice(0.05 / contour.shift, 60.0 / contour.shift), values)
    return Certificate(Proof.ADD_CONE, bound, exponent, spread, z)


def add_bounds(
    contour: Contour, epsilon: float, exponent: float, per_weight: float, spreads: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`add_cone` at one exponent, with that error for each unit of c, for every log r in ``spreads``."""
    weights, log_v = touching(epsilon, exponent, spreads)
    bounds = contour.mixtures(-log_v, weights, exponent) + per_weight * weights
    return np.where(bounds > 0.0, bounds, np.inf)


def _least(
    spreads: NDArray[np.float64], values: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> tuple[float, float]:
    """The least value and where it is: the best of every fourth spread, then of all around that."""
    middle = 4 * int(np.argmin(values(spreads[::4])))
    around = spreads[max(middle - 3, 0) : middle + 4]
    found = values(around)
    at = int(np.argmin(found))
    return float(found[at]), float(around[at])


def touching(
    epsilon: float, exponent: float, spreads: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(c, log v) of the add function of exponent B that touches y - e^eps at y = r v, log r = spread."""
    c = 1 / spreads if exponent == 0.0 else exponent / -np.expm1(-exponent * spreads)
    return c, epsilon - _log_touch(exponent, spreads)


def remove_cone(law: Law, contour: Contour, epsilon: float, scale: float) -> Certificate | None:
    """Bound on the remove direction: phi''(u) u = B e^eps (u/v)^-B for u >= v = e^-eps (B-1)/B.

    ``contour`` is one for the remove hockey-stick. None unless B - 1 is far enough to the right of it.
    """

    def with_exponent(z: float) -> Certificate | None:
        exponent = admissible_exponent(law.gamma, z)
        if exponent - 1.0 < contour.least_pole:
            return None
        return remove_bound(contour, epsilon, exponent, log_outside(law, z), z)

    return over_good_sets(law, _first_remove_z(law, epsilon, scale), with_exponent)


def remove_bound(
    contour: Contour, epsilon: float, exponent: float, log_per_weight: float, z: float | None
) -> Certificate | None:
    """`remove_cone` at one exponent, whose error is exp(``log_per_weight``) times the most that W can be."""
    error = exponent * math.exp(min(epsilon + log_per_weight, 700.0))
    tilt = -epsilon + math.log1p(-1 / exponent)
    value, rounding = contour.integral(tilt, (exponent - 1) / (exponent - 1 - contour.z))
    if not value > 0.0:
        return None
    bound = value + rounding + error
    return Certificate(Proof.REMOVE_CONE, bound, exponent, z=z, wobble=ROUNDING * rounding / bound)


def remove_exponent(law: Law, epsilon: float, scale: float) -> float:
    """About the exponent that `remove_cone` will use, or the first of its lattice with room for a contour.

    Smaller good sets have larger exponents, and larger errors. 0 where those have no room either.
    """
    z = min(_first_remove_z(law, epsilon, scale), 700.0)  # far beyond any with such an exponent
    exponent, j = admissible_exponent(law.gamma, z), round(8 * math.log2(z))
    while exponent < 1.0 + LEAST_POLE:
        z, j = 2 ** (j / 8), j - 1
        if z < _least_good_set(law) or epsilon + log_outside(law, z) > 0.0:
            return 0.0
        exponent = admissible_exponent(law.gamma, z)
    return exponent


def least_remove_cone(law: Law, epsilon: float, most: float) -> float:
    """About the least that `remove_cone` can be where that is at most ``most``, without a contour.

    Which is phi(1): phi is convex and E_Q[u] = 1. Exponents are bounded by what errors can be.
    """
    exponent = remove_exponent(law, epsilon, _FAR_MORE * most / ERROR_SHARE)
    if exponent <= 1.0:
        return math.inf
    return math.exp(exponent * math.log1p(-1 / exponent) - epsilon * (exponent - 1)) / (exponent - 1)


def _first_remove_z(law: Law, epsilon: float, scale: float) -> float:
    return good_set(law, math.exp(min(epsilon, 600.0)) / law.gamma, ERROR_SHARE * scale)


def concave_twin(law: Law, epsilon: float, scale: float) -> Certificate | None:
    """Bound on the remove direction by the lognormal limit: phi''(u) u = c (u/v)^-B' for u <= v.

    B' = 1/(2 r_min) - 1/2, touching 1 - e^eps y at y = r v, r < 1. None where the error term, which
    grows with B', swamps the bound for every good set.
    """

    def with_exponent(z: float) -> Certificate | None:
        exponent = admissible_exponent_below(law.gamma, z)
        if exponent > 1e3:
            return None
        log_error = concave_log_error(law, exponent, z)
        return concave_bound(law.gamma**2 * law.total_t, epsilon, exponent, log_error, z)

    s = math.sqrt(law.largest_t)
    steepest = log_steepest(epsilon, admissible_exponent_below(law.gamma, 0.0))
    excess = math.log(law.total_t / law.gamma) + steepest - math.log(scale)
    q = math.sqrt(2 * max(0.0, excess) + 20.0)
    return over_good_sets(law, s * q + s * s / 2, with_exponent)


def concave_bound(
    variance: float, epsilon: float, exponent: float, log_error: float, z: float | None
) -> Certificate | None:
    """`concave_twin` at one exponent, of a lognormal with that log-variance, over log r.

    The error is c v^B' exp(``log_error``).
    """

    def values(spreads: NDArray[np.float64]) -> NDArray[np.float64]:
        return concave_bounds(variance, epsilon, exponent, log_error, -spreads)

    width = min(1.0 / (1.0 + exponent), math.sqrt(variance))  # losses may be smaller than what B' tells apart
    value, spread = _least(lattice(0.01 * width, 60.0 / (1.0 + exponent)), values)
    return Certificate(Proof.CONCAVE, value, exponent, -spread, z) if value < 1.0 else None


def concave_bounds(
    variance: float, epsilon: float, exponent: float, log_error: float, spreads: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`concave_bound` for every log r < 0 in ``spreads``."""
    log_c, log_v = _touching_below(epsilon, exponent, spreads)
    errors = np.exp(np.minimum(log_c + exponent * log_v + log_error, 1.0))
    bounds = _lognormal_mixtures(variance, exponent, log_c, log_v) + errors
    return np.where(bounds > 0.0, bounds, np.inf)


def concave_log_error(law: Law, exponent: float, z: float) -> float:
    """Log of the error of a `concave_twin`, over c v^B'."""
    return _log_mean_weight(law, exponent) + log_outside(law, z)


def _log_mean_weight(law: Law, exponent: float) -> float:
    """Log of the most that E[(1-g)^-2B' U^-B'] of the other coordinates can be."""
    return max(0.0, exponent * (exponent - 1) / 2) * law.growth - 2 * exponent * math.log1p(-law.gamma)


def _touching_below(
    epsilon: float, exponent: float, spreads: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(log c, log v) of the remove function of exponent B' that touches at y = r v, log r < 0."""
    log_c = math.log(exponent) + epsilon - np.log(np.expm1(-exponent * spreads))
    return log_c, -epsilon - _log_touch(exponent, spreads)


def _log_touch(exponent: float, spreads: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log of B (e^((1-B) s) - 1)/((1-B) (1 - e^(-B s))), s the spreads, to 1e-14 of s.

    Orders near 1/s multiply it in exponents. It is s/2 + log sinhc((1-B) s/2) - log sinhc(B s/2), which
    but for s/2 is even in s; for B >= 2 and s > 0 also (1 - (e^s - 1)/(e^(B s) - 1))/(1 - 1/B), where the
    two sinhc may be large.
    """
    half, size = spreads / 2, np.abs(spreads)
    near = half + _log_sinhc_ratio(exponent, half)
    if exponent >= 2.0:
        ratio = np.expm1(np.minimum(size, 700.0)) / np.expm1(np.minimum(exponent * size, 700.0))
        far = np.minimum(spreads, 0.0) + np.log1p(-ratio) - math.log1p(-1 / exponent)
    else:
        far = half + _log_sinhc((1.0 - exponent) * half) - _log_sinhc(exponent * half)
    return np.where(max(exponent, abs(1.0 - exponent)) * size / 2 < _NEAR, near, far)


def _log_sinhc_ratio(exponent: float, half: NDArray[np.float64]) -> NDArray[np.float64]:
    """By what log sinhc(a) exceeds log sinhc(b), a = (1-B) half and b = B half, both small.

    No digit is lost: differences of the series in squares have the factor a^2 - b^2 = (1-2B) half^2.
    """
    a, b = ((1.0 - exponent) * half) ** 2, (exponent * half) ** 2
    powers, sums, total = np.ones_like(half), np.ones_like(half), np.zeros_like(half)
    for coefficient in _LOG_SINHC:  # sums: of a^i b^j, i + j = n
        total += coefficient * sums
        powers = powers * b
        sums = a * sums + powers
    return (1.0 - 2.0 * exponent) * half**2 * total


def _log_sinhc(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """log(sinh(x)/x): a series up to 0.1, to 1e-17."""
    size = np.abs(x)
    near, far = np.minimum(size, _NEAR) ** 2, np.maximum(size, _NEAR)
    series = near * np.polynomial.polynomial.polyval(near, _LOG_SINHC)
    return np.asarray(np.where(size < _NEAR, series, far + np.log(-np.expm1(-2 * far) / (2 * far))))


def _lognormal_mixtures(
    variance: float, exponent: float, log_c: NDArray[np.float64], log_v: NDArray[np.float64]
) -> NDArray[np.float64]:
    """E[phi(G)] for the mean-1 lognormal G of that log-variance, one for each (c, v).

    (1/2 pi i) int exp(z(z+1) variance/2) c v^(z+1)/(z+1-B') / (z (z+1)) dz to the right of the poles.
    """
    pole = max(0.0, exponent - 1.0)
    saddle = np.where(np.isfinite(log_v), -log_v / variance - 0.5, 0.0)
    shift = np.maximum(saddle, pole + 1 / math.sqrt(variance))[:, None]
    step = 2 * math.pi * (shift - pole) / 60.0  # aliases below exp(-60) of the peak, times its growth
    step = np.minimum(step, 0.3 / math.sqrt(variance))
    count = math.ceil(9.5 / math.sqrt(variance) / float(step.min()))
    z = shift + 1j * step * np.arange(count)[None, :]
    log_terms = z * (z + 1) * (variance / 2) + log_c[:, None] + (z + 1) * log_v[:, None]
    useless = ~(log_terms.real.max(axis=1) < 50.0)
    terms = np.exp(np.where(useless[:, None], 0.0, log_terms)) / ((z + 1 - exponent) * z * (z + 1))
    terms = terms.real
    sums = terms.sum(axis=1) - terms[:, 0] / 2
    rounding = 1e-12 * np.abs(terms).sum(axis=1)
    return np.where(useless, math.inf, (sums + rounding) * step[:, 0] / math.pi)
