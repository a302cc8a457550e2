"""Rational functions that stand in for the inverse square root of a positive definite matrix.

x^(-1/2) ~ sum_j weight_j / (x + shift_j) on [low, high], from the midpoint rule in the elliptic-function
variable of Hale, Higham and Trefethen (2008, "Computing A^alpha, log(A), and related matrix functions by
contour integrals", method 3). Up to a factor 1 + O(error) it is Zolotarev's best approximation in relative
error, with all shifts and weights positive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Nearer end points gain nothing, and the series below converge more slowly.
_LEAST_RATIO = 16.0
#: What is left after this many units of the argument of a hyperbolic function is below 1e-17.
_TAIL = 40.0


@dataclass(frozen=True)
class Poles:
    """``constant`` + sum_j ``weights``_j / (x + ``shifts``_j), within ``error`` (relative) of x^(-1/2).

    Shifts ascend; both arrays have one positive entry per pole. ``error`` includes the rounding of the
    shifts and weights themselves, and is infinite where nothing is claimed.
    """

    shifts: Array
    weights: Array
    error: float
    constant: float = 0.0


def poles_for(low: float, high: float, error: float) -> Poles:
    """The fewest poles with a relative error on [``low``, ``high``] below ``error`` (at least 1e-15)."""
    modulus = _modulus(low, high)
    # Error of the midpoint rule: 4 exp(-2 pi N K/K'), a little over twice the first alias.
    rate = 2.0 * math.pi * _agm(modulus) / _agm(_complement(modulus))
    return inverse_sqrt_poles(low, high, max(1, math.ceil(math.log(4.0 / max(error, 1e-15)) / rate)))


def inverse_sqrt_poles(low: float, high: float, count: int) -> Poles:
    """The rule with ``count`` poles for x^(-1/2) on [``low``, ``high``], 0 < low <= high."""
    modulus = _modulus(low, high)
    high = low / modulus**2
    quarter = math.pi / (2.0 * _agm(_complement(modulus)))  # K
    across = math.pi / (2.0 * _agm(modulus))  # K'
    half = (count + 1) // 2
    u = np.asarray((np.arange(half) + 0.5) * (across / count), dtype=np.float64)
    ratio, slope = _sc(u, quarter, across, modulus)
    # sc(K' - u) = 1/(k sc(u)): the far poles mirror the near ones, where sc is computed accurately.
    mirrored = slice(count - half - 1, None, -1) if count > half else slice(0, 0)
    near, far = ratio, 1.0 / (modulus * ratio[mirrored])
    slopes = np.concatenate([slope, slope[mirrored] / (modulus * ratio[mirrored] ** 2)])
    shifts = low * np.concatenate([near, far]) ** 2
    weights = (2.0 * math.sqrt(low) * across / (math.pi * count)) * slopes
    nome = math.exp(-2.0 * math.pi * count * quarter / across)
    return Poles(shifts, weights, 4.0 * nome / (1.0 - nome) + 128.0 * float(np.finfo(float).eps))


def zolotarev(low: float, high: float, count: int) -> Array:
    """Negated poles and zeros, interlaced, of Zolotarev's approximation of type (count, count) to x^(-1/2).

    2 ``count`` ascending points, each with a pole first: sc^2 at equal distances; 0 < low <= high.
    """
    modulus = _modulus(low, high)
    quarter = math.pi / (2.0 * _agm(_complement(modulus)))
    across = math.pi / (2.0 * _agm(modulus))
    u = np.asarray(np.arange(1, count + 1) * (across / (2 * count + 1)), dtype=np.float64)
    near = _sc(u, quarter, across, modulus)[0]
    far = 1.0 / (modulus * near[::-1])
    return np.asarray(low * np.concatenate([near, far]) ** 2)


def _modulus(low: float, high: float) -> float:
    return math.sqrt(low / max(high, _LEAST_RATIO * low))


def _complement(modulus: float) -> float:
    return math.sqrt((1.0 - modulus) * (1.0 + modulus))


def _agm(b: float) -> float:
    """The arithmetic-geometric mean of 1 and ``b``."""
    a = 1.0
    while abs(a - b) > 1e-15 * a:
        a, b = 0.5 * (a + b), math.sqrt(a * b)
    return a


def _sc(u: Array, quarter: float, across: float, modulus: float) -> tuple[Array, Array]:
    """Jacobi's sc(u | k'^2) and its derivative dn/cn^2 for 0 < u <= K'/2.

    sn, cn and dn as sums over the periods 2 K' of tanh and sech with the period 4 K of the other
    direction; the term of the nearest period dominates, so nothing cancels.
    """
    unit = math.pi / (2.0 * quarter)
    period = 2.0 * unit * across
    n = np.arange(1, 2 + math.ceil(_TAIL / period))
    sign = np.where(n % 2 == 0, 1.0, -1.0)
    x = (unit * u)[:, None]
    with np.errstate(over="ignore"):  # sech is 0 there
        below, above = 1.0 / np.cosh(n * period - x), 1.0 / np.cosh(n * period + x)
    nearest = 1.0 / np.cosh(x[:, 0])
    # tanh(x - nX) + tanh(x + nX) = sinh(2 x) sech(nX - x) sech(nX + x).
    sn = np.tanh(x[:, 0]) + np.sinh(2.0 * x[:, 0]) * ((below * above) @ sign)
    cn = nearest + (below + above) @ sign
    dn = unit * (nearest + (below + above).sum(axis=1))
    scale = unit / _complement(modulus)
    return sn / cn, dn / (scale * cn) ** 2
