"""The privacy profile and its proven upper bounds in high precision, independent of the float64 path.

As in ``oracle``, ``digits`` are the decimal digits that a result has right, results are ``mpf``, and
the global precision is left alone. ``parts`` are ((count, t), ...): how many coordinate-rounds
(integers, possibly as floats) there are at which t = (clip / sigma)^2 > 0; ``gamma`` in (0, 1].
Ranges that are left raise ``UsageError``; a contour that would take too long, because few coordinates
are ever sent, raises ``NoAnswerError`` (slug ``oracle-not-converged``).

The bounds hold for all vectors of one clip norm, adaptive ones included: a convex test function phi
dominates the hockey-stick, and W(u) = phi''(u) u times u^B is nondecreasing (the vector with the
fewest, largest coordinates is worst) or nonincreasing (infinitely spread vectors are), both up to an
additive error for pairs of coordinates outside of |log M| <= z, M = exp(x sqrt(t) - t/2).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core.conditional_oracle import beyond_any_loss, conditional_delta
from csgm_cli.core.contour_oracle import contour_integral
from csgm_cli.core.law_oracle import Direction, Kernel, Law, Parts, hockey_stick
from csgm_cli.core.oracle import SPARE_DIGITS, require
from csgm_cli.core.tilt_oracle import complex_log_moment

if TYPE_CHECKING:
    from csgm_cli.core.oracle import Number

__all__ = [
    "Direction",
    "add_kernel",
    "add_shape",
    "admissible_exponent",
    "complex_log_moment",
    "concave_exponent",
    "concave_remove",
    "concave_shape",
    "conditional_delta",
    "cone_add",
    "cone_remove",
    "err_add",
    "err_concave",
    "err_remove",
    "profile_delta",
    "remove_kernel",
    "remove_shape",
    "renyi_remove",
]

_GRID_RATIO = mpmath.mpf(33) / 32  # of the times in ``renyi_remove``: that much is lost at most
_GRID_START = mpmath.mpf(1) / 16


# ---------------------------------------------------------------- the profile


def profile_delta(
    gamma: Number,
    parts: Parts,
    direction: Direction | str,
    epsilon: Number,
    digits: int = 20,
    blur: Number = 0,
    least: Number = 0,
) -> mpmath.mpf:
    """The exact delta at ``epsilon`` >= 0 of the privacy loss at one vector, in one direction.

    Add: E_Q[(e^L - e^eps)_+]; remove: E_Q[(1 - e^(eps + L))_+], 0 where epsilon is beyond any loss.
    ``gamma`` in (0, 1]. With a ``blur`` > 0, the log-variance of a lognormal R of mean 1, the mean of
    delta at epsilon + log R, an upper bound. Below ``least`` there are fewer digits: the error is
    below 10^-digits of the larger one. Raises ``UsageError`` outside these ranges and ``NoAnswerError`` (slug
    ``oracle-not-converged``) where the contour would take too long.
    """
    law = Law(gamma, parts, Direction(direction))
    if law.count <= 2:
        return conditional_delta(gamma, parts, direction, epsilon, digits)
    require(epsilon >= 0, "epsilon", "at least 0", epsilon)
    if beyond_any_loss(law, epsilon):
        return mpmath.mpf(0)
    return contour_integral(law, hockey_stick(epsilon, blur), digits, least)


# ---------------------------------------------------------------- test functions


def _power_integral(power: mpmath.mpf, r: mpmath.mpf) -> mpmath.mpf:
    """Integral of w^(power - 1) from 1 to ``r``."""
    return mpmath.log(r) if power == 0 else mpmath.expm1(power * mpmath.log(r)) / power


def add_shape(
    epsilon: Number, exponent: Number, r: Number, digits: int = 20
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """(c, v) of W(u) = c (u/v)^-B for u >= v, whose phi has slope 1 at r v and touches u - e^eps there.

    ``exponent`` B >= 0; r > 1, infinite only for B > 1.
    """
    require(exponent >= 0, "exponent", "at least 0", exponent)
    require(r > 1, "r", "above 1", r)
    require(exponent > 1 or r < math.inf, "r", "finite for exponents up to 1", r)
    with mpmath.workdps(digits + SPARE_DIGITS):
        power, ratio = mpmath.mpf(exponent), mpmath.mpf(r)
        if r == math.inf:
            return power, mpmath.exp(epsilon) * (power - 1) / power
        scale = 1 / _power_integral(-power, ratio)
        return scale, mpmath.exp(epsilon) / (scale * _power_integral(1 - power, ratio))


def remove_shape(epsilon: Number, exponent: Number, digits: int = 20) -> tuple[mpmath.mpf, mpmath.mpf]:
    """(c, v) of W(u) = c (u/v)^-B for u >= v, whose phi is 1 - e^eps u up to v and falls to 0; B > 1."""
    require(exponent > 1, "exponent", "above 1", exponent)
    with mpmath.workdps(digits + SPARE_DIGITS):
        power = mpmath.mpf(exponent)
        return power * mpmath.exp(epsilon), mpmath.exp(-mpmath.mpf(epsilon)) * (power - 1) / power


def concave_shape(
    epsilon: Number, exponent: Number, r: Number, digits: int = 20
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """(c, v) of W(u) = c (u/v)^-B' for u <= v, whose phi touches 1 - e^eps u at r v; B' >= 0, r in (0, 1)."""
    require(exponent >= 0, "exponent", "at least 0", exponent)
    require(0 < r < 1, "r", "in (0, 1)", r)
    with mpmath.workdps(digits + SPARE_DIGITS):
        power, ratio = mpmath.mpf(exponent), mpmath.mpf(r)
        scale = -mpmath.exp(epsilon) / _power_integral(-power, ratio)
        return scale, -1 / (scale * _power_integral(1 - power, ratio))


# ---------------------------------------------------------------- bounds without their errors


def cone_add(
    gamma: Number,
    parts: Parts,
    epsilon: Number,
    exponent: Number,
    r: Number,
    digits: int = 20,
    blur: Number = 0,
    least: Number = 0,
) -> mpmath.mpf:
    """E_Q[phi(e^L)] for the phi of ``add_shape``: with ``err_add`` a bound on every add delta.

    With a ``blur`` > 0, as in ``profile_delta``, the mean of that at strikes times R: no less.
    ``least`` is as there, too. One coordinate-round is a plain integral.
    """
    law = Law(gamma, parts, Direction.ADD)
    if law.count == 1:
        shape = add_shape(epsilon, exponent, r, 2 * digits + SPARE_DIGITS)
        return _one_coordinate(gamma, parts, *shape, exponent, digits)
    return contour_integral(law, add_kernel(epsilon, exponent, r, digits, blur), digits, least)


def _one_coordinate(
    gamma: Number, parts: Parts, scale: mpmath.mpf, knee: mpmath.mpf, exponent: Number, digits: int
) -> mpmath.mpf:
    """The mean of the phi with this shape at Y = 1 - g + g exp(x s - s^2/2), over x ~ N(0, 1).

    It is scale (Y int_knee^Y k^(-B-1) dk - int_knee^Y k^-B dk) knee^B for Y > knee.
    """
    with mpmath.workdps(2 * digits + SPARE_DIGITS):
        g, t, power = mpmath.mpf(gamma), mpmath.mpf(parts[0][1]), mpmath.mpf(exponent)
        s, odds = mpmath.sqrt(t), (knee - 1 + g) / g
        reach = mpmath.sqrt(2 * (digits + SPARE_DIGITS) * mpmath.log(10))
        start = max((mpmath.log(odds) + t / 2) / s, -reach) if odds > 0 else -reach

        def term(x: mpmath.mpf) -> mpmath.mpf:
            y = 1 - g + g * mpmath.exp(x * s - t / 2)
            ratio = y / knee
            slopes = ratio * _power_integral(-power, ratio) - _power_integral(1 - power, ratio)
            return knee * slopes * mpmath.npdf(x)

        end = max(start, s) + reach  # beyond, terms are below 10^-digits of what is before
        ends = [start, start + 1 / max(start, 1)]  # a normal tail falls within 1/x
        unit = term(ends[1])  # quad looks at absolute errors
        while ends[-1] < end:
            ends.append(ends[-1] + min(1, 2 * (ends[-1] - ends[-2])))
        return +(scale * unit * mpmath.quad(lambda x: term(x) / unit, ends))


def add_kernel(epsilon: Number, exponent: Number, r: Number, digits: int, blur: Number = 0) -> Kernel:
    """Return the kernel of the phi of ``add_shape``."""
    with mpmath.workdps(digits + 2 * SPARE_DIGITS):
        scale, knee = add_shape(epsilon, exponent, r, digits + SPARE_DIGITS)
        poles = (mpmath.mpf(0), mpmath.mpf(-1), -mpmath.mpf(exponent))
        return Kernel(scale, mpmath.log(knee), poles, blur=blur)


def cone_remove(
    gamma: Number, parts: Parts, epsilon: Number, exponent: Number, digits: int = 20, least: Number = 0
) -> mpmath.mpf:
    """E_Q[phi(e^L)] for the phi of ``remove_shape``: with ``err_remove`` a bound on every remove delta."""
    return contour_integral(
        Law(gamma, parts, Direction.REMOVE), remove_kernel(epsilon, exponent, digits), digits, least
    )


def remove_kernel(epsilon: Number, exponent: Number, digits: int, blur: Number = 0) -> Kernel:
    """Return the kernel of the phi of ``remove_shape``."""
    with mpmath.workdps(digits + 2 * SPARE_DIGITS):
        scale, knee = remove_shape(epsilon, exponent, digits + SPARE_DIGITS)
        left, right = (mpmath.mpf(0), mpmath.mpf(-1)), (mpmath.mpf(exponent) - 1,)
        return Kernel(scale * knee, -mpmath.log(knee), left, right, blur)


def concave_remove(
    gamma: Number,
    total_t: Number,
    epsilon: Number,
    exponent: Number,
    r: Number,
    digits: int = 20,
    least: Number = 0,
) -> mpmath.mpf:
    """E[phi(G)] for the phi of ``concave_shape``: with ``err_concave`` a bound on every remove delta.

    ``total_t`` > 0 is k T (clip / sigma)^2. G is lognormal with log-variance gamma^2 total_t and mean 1,
    the limit of infinitely spread vectors: one coordinate that is always sent.
    """
    with mpmath.workdps(digits + 2 * SPARE_DIGITS):
        scale, knee = concave_shape(epsilon, exponent, r, digits + SPARE_DIGITS)
        poles = (mpmath.mpf(0), mpmath.mpf(-1), mpmath.mpf(exponent) - 1)
        kernel = Kernel(scale * knee, -mpmath.log(knee), poles)
        spread = Law(1, ((1, mpmath.mpf(gamma) ** 2 * mpmath.mpf(total_t)),), Direction.REMOVE)
    return contour_integral(spread, kernel, digits, least)


# ---------------------------------------------------------------- good sets and errors


def admissible_exponent(gamma: Number, z: Number, digits: int = 20) -> mpmath.mpf:
    """The largest B >= 0 for pairs of coordinates with |log M| <= z, z >= 0."""
    with mpmath.workdps(digits + SPARE_DIGITS):
        low, high = _posterior(gamma, -mpmath.mpf(z)), _posterior(gamma, mpmath.mpf(z))
        return max(mpmath.mpf(0), 1 / (2 * high) + 2 * low * high / (low + high) ** 2 - 1)


def concave_exponent(gamma: Number, z: Number, digits: int = 20) -> mpmath.mpf:
    """The least B' for pairs of coordinates with |log M| <= z, z >= 0."""
    with mpmath.workdps(digits + SPARE_DIGITS):
        return 1 / (2 * _posterior(gamma, -mpmath.mpf(z))) - mpmath.mpf(1) / 2


def _posterior(gamma: Number, z: mpmath.mpf) -> mpmath.mpf:
    """Return the probability that the coordinate was sent, given log M = z."""
    sent = mpmath.mpf(gamma) * mpmath.exp(z)
    return sent / (1 - mpmath.mpf(gamma) + sent)


def _outside(z: Number, s: Number, total_t: Number) -> mpmath.mpf:
    """2 total_t P(N > (z - s^2/2)/s): the most that pairs outside of the good set contribute."""
    s = mpmath.mpf(s)
    return 2 * mpmath.mpf(total_t) * mpmath.ncdf(s / 2 - mpmath.mpf(z) / s)


def err_add(
    z: Number, s: Number, total_t: Number, exponent: Number, r: Number, digits: int = 20
) -> mpmath.mpf:
    """What ``cone_add`` may miss; 0 for exponent 0, which needs no good set.

    ``s`` = clip / sigma > 0, ``total_t`` = k T s^2, ``exponent`` at most ``admissible_exponent`` at z.
    """
    with mpmath.workdps(digits + SPARE_DIGITS):
        if exponent == 0:
            return mpmath.mpf(0)
        scale, _ = add_shape(0, exponent, r, digits + SPARE_DIGITS)
        return scale * _outside(z, s, total_t)


def err_remove(
    z: Number, s: Number, total_t: Number, epsilon: Number, exponent: Number, digits: int = 20
) -> mpmath.mpf:
    """What ``cone_remove`` may miss; arguments as in ``err_add``."""
    with mpmath.workdps(digits + SPARE_DIGITS):
        scale, _ = remove_shape(epsilon, exponent, digits + SPARE_DIGITS)
        return scale * _outside(z, s, total_t)


def err_concave(
    z: Number,
    s: Number,
    total_t: Number,
    gamma: Number,
    epsilon: Number,
    exponent: Number,
    r: Number,
    digits: int = 20,
) -> mpmath.mpf:
    """What ``concave_remove`` may miss; ``exponent`` at least ``concave_exponent`` at z, gamma < 1.

    W is not bounded, but E[W] is: two coordinates keep Y >= 1 - gamma, and E_P[U^-B'] of the others is
    at most exp(B'(B'-1)/2 gamma^2 k (e^(s^2) - 1) T) for B' > 1, and 1 otherwise.
    """
    require(0 < gamma < 1, "gamma", "in (0, 1)", gamma)
    with mpmath.workdps(digits + SPARE_DIGITS):
        scale, knee = concave_shape(epsilon, exponent, r, digits + SPARE_DIGITS)
        g, power, top = mpmath.mpf(gamma), mpmath.mpf(exponent), mpmath.mpf(s) ** 2
        others = max(mpmath.mpf(0), power * (power - 1) / 2) * g**2 * total_t * mpmath.expm1(top) / top
        mean = scale * knee**power * (1 - g) ** (-2 * power) * mpmath.exp(others)
        return mean * _outside(z, s, total_t)


# ---------------------------------------------------------------- Renyi


def renyi_remove(gamma: Number, s: Number, total_t: Number, order: Number, digits: int = 20) -> mpmath.mpf:
    """Bound on log E_Q[e^(-order L)] over all vectors, ``order`` > 0; the other arguments as in ``err_add``.

    total_t times the largest K(-order; t)/t over 0 < t <= s^2, on a geometric grid from above, since
    K(-order; .) increases. Below the grid, and wherever it is less, that ratio is at most
    order (order + 1)/2 gamma^2 (e^t - 1)/t.
    """
    require(order > 0, "order", "above 0", order)
    with mpmath.workdps(digits + SPARE_DIGITS):
        t = top = mpmath.mpf(s) ** 2
        slope = mpmath.mpf(order) * (mpmath.mpf(order) + 1) / 2 * mpmath.mpf(gamma) ** 2
        largest = mpmath.mpf(0)
        while t > _GRID_START:
            moment = complex_log_moment(-mpmath.mpf(order), gamma, t, digits).real
            t /= _GRID_RATIO
            largest = max(largest, moment / t)
        largest = max(largest, slope * mpmath.expm1(t) / t)
        return total_t * min(largest, slope * mpmath.expm1(top) / top)
