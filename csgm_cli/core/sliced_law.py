"""The privacy loss of one coordinate-round, cut into slices of the loss.

Y = 1 - g + g exp(x s - s^2/2), x ~ N(0, 1) under Q, loss u = log Y, density Y under P. A slice is
low < u <= high; its moments E_Q[Y^a; slice] are what sums of many coordinates are made of. Most
of the mass has a loss near 0, so that moments are computed as E[Y^a; u <= level] - 1 from

    E[Y^a - 1 - a log Y; u <= level] - a E[Y - 1 - log Y; u <= level] - a E[Y - 1; u > level] - Q(u > level)

(E[Y - 1] = 0), where nothing large cancels: they may be raised to the power 1e12.
Quadrature is Gauss-Legendre on panels over which no exponent changes by more than about 14.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.exponential_sums import exponential_sums

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: x below which nothing is looked at (but for large negative orders), P(x < -13.5) = 8e-42.
LOWEST = -13.5
#: How much further down negative orders make the integrand reach, at most.
_DEEPER = 40.0
#: Normal tails beyond this x are zero in float64.
HIGHEST = 38.0
_SWING = 14.0  # of an exponent, over one panel of 16 nodes: exact to 1e-16
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Nodes:
    """Quadrature nodes in x, their losses, and the logarithms of their Q-masses."""

    x: Array
    loss: Array
    log_mass: Array


@dataclass(frozen=True)
class Line:
    """Equidistant orders: 1 + z (``sign`` 1, add) or -z (``sign`` -1), z = shift + i j step, j < count."""

    sign: int
    shift: float
    step: float
    count: int

    @property
    def z(self) -> ComplexArray:
        """The points of the contour."""
        return self.shift + 1j * self.step * np.arange(self.count, dtype=np.float64)

    @property
    def real_order(self) -> float:
        """The common real part of the orders."""
        return 1.0 + self.shift if self.sign > 0 else -self.shift

    @property
    def size(self) -> float:
        """The largest modulus of an order."""
        return math.hypot(self.real_order, self.step * self.count)


@dataclass(frozen=True)
class Coordinates:
    """``count`` independent coordinate-rounds of rate ``gamma`` and s = sqrt(t)."""

    count: float
    gamma: float
    s: float

    @property
    def floor(self) -> float:
        """The loss is above this, log(1 - gamma)."""
        return math.log1p(-self.gamma) if self.gamma < 1.0 else -math.inf

    @property
    def divergence(self) -> float:
        """An upper bound on E_P[loss]: log E_P[Y], and the Gaussian's with a mask that is known."""
        t = self.s**2
        return min(self.gamma * t / 2, math.log1p(self.gamma**2 * math.expm1(min(t, 50.0))))

    def loss(self, x: Array) -> Array:
        """Log Y."""
        z = x * self.s - self.s**2 / 2
        y = self.gamma * np.expm1(np.minimum(z, 1.0))
        near = (y > -0.5) & (z < 1.0)
        far = np.logaddexp(self.floor, math.log(self.gamma) + z)
        return np.where(near, np.log1p(np.maximum(y, -0.5)), far)

    def place(self, loss: float) -> float:
        """The x of a loss; -inf at and below the floor."""
        if loss > 30.0:
            log_m = loss + math.log1p(-(1 - self.gamma) * math.exp(-loss)) - math.log(self.gamma)
        else:
            m = math.expm1(loss) / self.gamma
            if m <= -1.0:
                return -math.inf
            log_m = math.log1p(m)
        return (log_m + self.s**2 / 2) / self.s

    def q_above(self, x: float) -> float:
        """Q-mass above x."""
        return upper_tail(x)

    def p_above(self, x: float) -> float:
        """P-mass above x."""
        return (1 - self.gamma) * upper_tail(x) + self.gamma * upper_tail(x - self.s)

    def excess_above(self, x: float) -> float:
        """E_Q[Y - 1; above x]."""
        return self.gamma * (upper_tail(x - self.s) - upper_tail(x))

    def lowest(self, shift: float) -> float:
        """Where to start for orders down to -``shift``: E[Y^-shift] has its peak above -shift s."""
        return LOWEST - min(shift * self.s, _DEEPER)

    def nodes(self, low: float, high: float, rate: float, cuts: tuple[float, ...] = ()) -> Nodes:
        """Nodes on [low, high] that resolve Y^a for |a| up to ``rate``; panels end at the ``cuts``.

        Y^-a is not resolved where it is below exp(-50).
        """
        x = np.linspace(low, high, 4000)
        rise = rate * (self.loss(x) - self.loss(x[:1]))
        ...
        raise NotImplementedError


def upper_tail(x: float) -> float:
    """P(N(0, 1) > x)."""
    return 0.5 * math.erfc(x / math.sqrt(2))
