"""The log-moment of one coordinate at complex orders, for contour integrals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from csgm_cli.renyi.log_moment import FAR, log_gap
from csgm_cli.renyi.moment import LARGEST_EXPONENT
from csgm_cli.renyi.tilt import LOG_ACCURACY, STRIP, integration_interval

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Maximal number of quadrature nodes of one call.
_MOST_COMPLEX = 6_000_000
#: From this number of (node, order) pairs on, sums use a nonuniform FFT; the maximal number of its nodes.
_FAST, _MOST_FAR = 200_000, 300_000


def complex_log_moment(orders: ComplexArray, gamma: float, t: float) -> ComplexArray | None:
    """K at equidistant complex orders with a common real part (> 1 or < 0), to about 1e-14 relative.

    Uses the principal branch of log E[Y^a]; only integer powers of E[Y^a] do not depend on the branch.
    None beyond float64, and if too expensive: the integrand oscillates faster the further the orders are from
    real ones. As E[Y] = 1, the first form is used at orders below 0, the second, accurate near 1, above 1:

        E[Y^a] - 1 = E[e^w - 1 - w] - a E[Y - 1 - log Y],              w = a log Y,
                   = E[Y (e^w - 1 - w)] + (a - 1) E[Y log Y - Y + 1],  w = (a - 1) log Y.
    """
    if gamma == 1.0:
        return orders * (orders - 1) * (t / 2)
    s = math.sqrt(t)
    real, span = float(orders[0].real), float(np.abs(orders.imag).max())
    if s >= FAR:
        return None  # the loss has almost an atom, and no contour integral converges
    height = min(STRIP * math.pi / s, 9.2)
    step = 2 * math.pi / ((LOG_ACCURACY + height * height / 2) / height + span * s)
    low, high = integration_interval(real, gamma, s)
    count = math.ceil((high - low) / step)
    if count > _MOST_COMPLEX:
        return None
    x = low + step * np.arange(count + 1, dtype=np.float64)
    z = s * x - s * s / 2
    y = gamma * np.expm1(np.minimum(z, LARGEST_EXPONENT))
    u = np.where(z < LARGEST_EXPONENT, np.log1p(y), z + math.log(gamma))
    if float((real * u - x * x / 2).max()) > LARGEST_EXPONENT / 2 - 20:  # the sum below is squared
        return None
    small = np.abs(y) < 0.125
    gap = np.where(small, log_gap(np.where(small, y, 0.0), terms=18), y - u)
    bell, log_weight, powers, slope = np.exp(-x * x / 2), -x * x / 2, orders, -gap
    if real > 0.0:
        log_weight, powers = log_weight + u, orders - 1
        slope = np.where(small, y * y - (1 + y) * gap, (1 + y) * u - y)
    size = math.hypot(float(powers[0].real), span)
    near = np.abs(u) * size < 1.0
    far = np.flatnonzero(~near)
    if far.size > _MOST_FAR:
        return None
    excess = _moment_series(powers / size, size * u[near], np.exp(log_weight[near]))
    if far.size:
        excess += _direct(powers, u[far], log_weight[far])
    return _complex_log1p(step / math.sqrt(2 * math.pi) * (excess + powers * float((bell * slope).sum())))


def _moment_series(unit: ComplexArray, scaled: Array, weight: Array) -> ComplexArray:
    """Sum of weight (e^w - 1 - w), w = unit scaled, |unit| and |scaled| at most 1.

    A power series in ``unit``: all orders share the moments of ``scaled``.
    """
    power = weight * scaled * scaled / 2
    coefficients = []
    for j in range(3, 22):
        coefficients.append(float(power.sum()))
        power = power * scaled / j
    total = np.zeros_like(unit)
    for coefficient in reversed(coefficients):
        total = total * unit + coefficient
    return total * unit * unit


def _direct(orders: ComplexArray, u: Array, log_weight: Array) -> ComplexArray:
    """Sum of exp(log_weight) (e^w - 1 - w), w = orders u.

    Equidistant orders are base + offset, so all e^w are products of entries of two short tables. If there
    are too many products, a nonuniform FFT is used instead.
    """
    if orders.size * u.size > _FAST:
        powers = _transformed(orders, u, log_weight)
    else:
        rows = math.isqrt(orders.size - 1) + 1
        blocks = -(-orders.size // rows)
        offsets = np.exp((orders[:rows] - orders[0])[:, None] * u[None, :])
        bases = np.exp(orders[::rows][None, :] * u[:, None] + log_weight[:, None])
        powers = (offsets @ bases).T.reshape(rows * blocks)[: orders.size]
    weight = np.exp(log_weight)
    return np.asarray(powers - float(weight.sum()) - orders * float((weight * u).sum()))


def _transformed(orders: ComplexArray, u: Array, log_weight: Array) -> ComplexArray:
    """Sum of exp(log_weight + orders u) by a nonuniform FFT, to 1e-14 of the sum of the moduli."""
    from csgm_cli.renyi.exponential_sums import exponential_sums

    first = orders[0]
    step, size = float((orders[-1] - first).imag) / (orders.size - 1), np.exp(first.real * u + log_weight)
    phase = float(first.imag) * u
    powers = exponential_sums(u, size * np.cos(phase), step, orders.size)
    return np.asarray(powers + 1j * exponential_sums(u, size * np.sin(phase), step, orders.size))


def _complex_log1p(z: ComplexArray) -> ComplexArray:
    """log(1 + z), accurate for small z."""
    a, b = z.real, z.imag
    excess = a * (2 + a) + b * b  # |1 + z|^2 - 1
    square = np.maximum((1 + a) ** 2 + b * b, 1e-300)
    modulus = np.where(excess > -0.5, np.log1p(np.maximum(excess, -0.5)), np.log(square))
    return modulus / 2 + 1j * np.arctan2(b, 1 + a)
