"""Convex test functions phi above the hockey-stick, whose means bound delta.

    add:     phi(y) >= (y - e^epsilon)_+,      remove:  phi(y) >= (1 - e^epsilon y)_+

``exponent`` B: phi''(y) y^(1 + B) is constant for y >= v, the threshold, and 0 below v. If B is infinite, phi
is the hockey-stick itself, with its kink at v = e^(+-epsilon). In the add direction phi touches the line
y - e^epsilon at y = r v (docs/theory.md, "Concentrated vectors").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from csgm_cli.model.certificate import Direction
from csgm_cli.renyi.conversion import log_shrink

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]


@dataclass(frozen=True)
class Mean:
    """``log_lower`` <= log E phi(u) <= ``log_upper``."""

    log_lower: float
    log_upper: float


@dataclass(frozen=True)
class ConvexFunction:
    """A test function phi; ``exponent`` must be above 1 in the remove direction and for infinite r."""

    direction: Direction
    epsilon: float
    exponent: float = math.inf
    log_ratio: float = math.inf

    @property
    def is_hockey_stick(self) -> bool:
        """Whether phi is the hockey-stick itself."""
        return math.isinf(self.exponent)

    @cached_property
    def scale(self) -> float:
        """The c in phi'' = c (y/v)^-B/y (add); (B-1)/B (remove); 1 for the hockey-stick."""
        if self.is_hockey_stick:
            return 1.0
        if self.direction is Direction.REMOVE:
            return (self.exponent - 1) / self.exponent
        return 1 / _ratio_power(-self.exponent, self.log_ratio)

    @cached_property
    def log_threshold(self) -> float:
        """Log v."""
        sign = 1.0 if self.direction is Direction.ADD else -1.0
        if self.is_hockey_stick:
            return sign * self.epsilon
        if self.direction is Direction.REMOVE:
            return math.log(self.scale) - self.epsilon
        return self.epsilon - math.log(self.scale * _ratio_power(1 - self.exponent, self.log_ratio))

    @property
    def log_support(self) -> float:
        """In the add direction, phi is 0 up to e^``log_support``."""
        return self.log_threshold

    @property
    def pole(self) -> float:
        """The upper limit of Re z in the contour integral for the mean of phi."""
        return math.inf if self.direction is Direction.ADD else self.exponent - 1

    @property
    def steepest(self) -> float:
        """The smallest m with phi(y) <= m y (add; infinite at B = 0), or phi(y) <= m (remove)."""
        if self.direction is Direction.REMOVE or self.is_hockey_stick:
            return 1.0
        return self.scale / self.exponent if self.exponent > 0.0 else math.inf

    def factor(self, z: ComplexArray) -> ComplexArray:
        """f(z) with E phi(u) = (1/2 pi i) int E[u^(1+z)] v^-z f(z)/(z (z+1)) dz (remove: E[u^-z] v^z)."""
        if self.is_hockey_stick:
            return np.ones_like(z)
        if self.direction is Direction.ADD:
            return np.asarray(self.scale / (self.exponent + z))
        return np.asarray(self.scale * self.exponent / (self.exponent - 1 - z))

    def __call__(self, log_y: Array) -> Array:
        """Phi at y = exp(log_y), for log_y below 700."""
        w, b = log_y - self.log_threshold, self.exponent
        if self.direction is Direction.ADD:
            above = np.maximum(w, 0.0)
            if self.is_hockey_stick:
                return math.exp(self.epsilon) * np.expm1(above)
            grown = np.exp(above) * _power(-b, above) - _power(1 - b, above)
            return np.maximum(math.exp(self.log_threshold) * self.scale * grown, 0.0)
        if self.is_hockey_stick:
            return -np.expm1(np.minimum(w, 0.0))
        line = -np.expm1(np.minimum(log_y + self.epsilon, 0.0))
        return np.where(w > 0.0, np.exp((1 - b) * np.maximum(w, 0.0)) / b, line)


@dataclass(frozen=True)
class MatchedFunction:
    """The function of the class F_a above the hockey-stick at ``epsilon``, for the ``order`` a > 1.

    With K = e^(+-epsilon) and c = K a/(a-1) it is c^(1-a) y^a/a for y < c and y - K above (add), and
    e^epsilon (K - y + c^(1-a) y^a/a) for y < c and 0 above (remove). It has what a `ConvexFunction` has. See
    docs/theory.md, "Gaussian-matched conversion".
    """

    direction: Direction
    epsilon: float
    order: float

    log_support = -math.inf
    steepest = 1.0

    @cached_property
    def log_threshold(self) -> float:
        """Log c."""
        return (self.epsilon if self.direction is Direction.ADD else -self.epsilon) - log_shrink(self.order)

    @property
    def pole(self) -> float:
        """The upper limit of Re z in the contour integral for the mean."""
        return self.order - 1 if self.direction is Direction.ADD else math.inf

    def factor(self, z: ComplexArray) -> ComplexArray:
        """As `ConvexFunction.factor`."""
        if self.direction is Direction.ADD:
            return np.asarray((self.order - 1) / (self.order - 1 - z))
        return np.asarray(self.order / (self.order + z))

    def __call__(self, log_y: Array) -> Array:
        """The function at y = exp(log_y), for log_y below 700."""
        w, a = log_y - self.log_threshold, self.order
        power = np.exp(a * np.minimum(w, 0.0)) / a  # (y/c)^a/a
        if self.direction is Direction.ADD:
            line = np.exp(self.log_threshold) * (np.expm1(np.maximum(w, 0.0)) + 1 / a)
            return np.where(w > 0.0, line, math.exp(self.log_threshold) * power)
        # a/(a-1) ((a-1)/a - x + x^a/a), x = y/c
        line = -np.expm1(np.minimum(w, 0.0)) - (-np.expm1(a * np.minimum(w, 0.0))) / a
        return np.maximum(line * a / (a - 1), 0.0)


#: The functions whose means are computed.
TestFunction: TypeAlias = ConvexFunction | MatchedFunction


def _ratio_power(p: float, log_ratio: float) -> float:
    """(r^p - 1)/p."""
    if math.isinf(log_ratio):
        return -1 / p  # for p < 0
    return log_ratio if p == 0.0 else math.expm1(p * log_ratio) / p


def _power(p: float, log_ratio: Array) -> Array:
    """`_ratio_power` for arrays."""
    return log_ratio if p == 0.0 else np.expm1(p * log_ratio) / p
