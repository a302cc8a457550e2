"""Convex test functions phi above the hockey-stick, whose means bound delta.

    add:     phi(y) >= (y - e^epsilon)_+,      remove:  phi(y) >= (1 - e^epsilon y)_+

``exponent`` B: phi''(y) y^(1 + B) is constant from y = v on, and 0 below; B infinite is the hockey-stick
itself, a kink at v = e^(+-epsilon). Of the add direction phi touches the line y - e^epsilon at y = r v
(docs/theory.md, "Concentrated vectors").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from csgm_cli.model.certificate import Direction

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]


@dataclass(frozen=True)
class Mean:
    """``log_lower`` <= log E phi(u) <= ``log_upper``."""

    log_lower: float
    log_upper: float


@dataclass(frozen=True)
class ConvexFunction:
    """One phi; ``exponent`` is above 1 where removing, or where r is infinite."""

    direction: Direction
    epsilon: float
    exponent: float = math.inf
    log_ratio: float = math.inf

    @property
    def is_hockey_stick(self) -> bool:
        """True for the hockey-stick itself."""
        return math.isinf(self.exponent)

    @cached_property
    def scale(self) -> float:
        """The c of phi'' = c (y/v)^-B/y (add); (B-1)/B where removing; 1 for the hockey-stick."""
        if self.is_hockey_stick:
            return 1.0
        if self.direction is Direction.REMOVE:
            return (self.exponent - 1) / self.exponent
        return 1 / _ratio_power(-self.exponent, self.log_ratio)

    @cached_property
    def log_strike(self) -> float:
        """Log v."""
        sign = 1.0 if self.direction is Direction.ADD else -1.0
        if self.is_hockey_stick:
            return sign * self.epsilon
        if self.direction is Direction.REMOVE:
            return math.log(self.scale) - self.epsilon
        return self.epsilon - math.log(self.scale * _ratio_power(1 - self.exponent, self.log_ratio))

    @property
    def pole(self) -> float:
        """The mean of phi is a contour integral left of this real part."""
        return math.inf if self.direction is Direction.ADD else self.exponent - 1

    @property
    def steepest(self) -> float:
        """The least m with phi(y) <= m y (add; infinite at B = 0), and 1 >= phi where removing."""
        if self.direction is Direction.REMOVE or self.is_hockey_stick:
            return 1.0
        return self.scale / self.exponent if self.exponent > 0.0 else math.inf

    def factor(self, z: ComplexArray) -> ComplexArray:
        """f(z) with E phi(u) = (1/2 pi i) int E[u^(1+z)] v^-z f(z)/(z (z+1)) dz (removing: E[u^-z] v^z)."""
        if self.is_hockey_stick:
            return np.ones_like(z)
        if self.direction is Direction.ADD:
            return np.asarray(self.scale / (self.exponent + z))
        return np.asarray(self.scale * self.exponent / (self.exponent - 1 - z))

    def __call__(self, log_y: Array) -> Array:
        """Phi at y = exp(log_y), for log_y below 700."""
        w, b = log_y - self.log_strike, self.exponent
        if self.direction is Direction.ADD:
            above = np.maximum(w, 0.0)
            if self.is_hockey_stick:
                return math.exp(self.epsilon) * np.expm1(above)
            grown = np.exp(above) * _power(-b, above) - _power(1 - b, above)
            return np.maximum(math.exp(self.log_strike) * self.scale * grown, 0.0)
        if self.is_hockey_stick:
            return -np.expm1(np.minimum(w, 0.0))
        line = -np.expm1(np.minimum(log_y + self.epsilon, 0.0))
        return np.where(w > 0.0, np.exp((1 - b) * np.maximum(w, 0.0)) / b, line)


def _ratio_power(p: float, log_ratio: float) -> float:
    """(r^p - 1)/p."""
    if math.isinf(log_ratio):
        return -1 / p  # for p < 0
    return log_ratio if p == 0.0 else math.expm1(p * log_ratio) / p


def _power(p: float, log_ratio: Array) -> Array:
    """The same for arrays."""
    return log_ratio if p == 0.0 else np.expm1(p * log_ratio) / p
