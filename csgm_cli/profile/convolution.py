"""Products of independent discretised likelihood ratios: an FFT of their masses, tilted by a power of u."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

if TYPE_CHECKING:
    from csgm_cli.profile.factors import Factor

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: At most e^-`OUTSIDE` of the tilted law lies outside the window.
OUTSIDE = 20.0
_NOTHING: ComplexArray = np.zeros(1, dtype=np.complex128)


class Product(NamedTuple):
    """The tilted masses of log u at the points ``log_ratio``; ``noise`` bounds the error of each mass."""

    log_ratio: Array
    tilted: Array
    noise: float


def product(
    factors: Sequence[Factor],
    tilt: float,
    step: float,
    window: tuple[float, float],
    left_out: float = -math.inf,
) -> Product:
    """The law of u = the product of all factors, tilted by u^``tilt``; mass outside the window wraps around.

    Outcomes with every factor at most e^(``left_out``/N), N the number of factors, are omitted.
    """
    low, high = window
    n = next_fast_len(math.ceil((high - low) / step) + 1, real=True)
    count = total_count(factors)
    found = _Split(_NOTHING, 1.0 + _NOTHING)
    size = 0.0
    for f in factors:
        places, weights = (f.first + np.arange(f.mass.size)) % n, f.tilted(tilt)
        far = np.where(f.log_ratio * count > left_out, weights, 0.0)
        near = np.bincount(places, weights - far, minlength=n)
        split = _Split(rfft(np.bincount(places, far, minlength=n)), rfft(near) if near.any() else _NOTHING)
        size += _rms(split.far)
        found = found.times(split.power(int(f.count)))
    # The relative error of a factor's transform enters once per factor. Errors at different frequencies are
    # independent, except for a part proportional to the law itself, which `upper_mean` adds (``exact``).
    size += _rms(found.far) + float(abs(found.far[0]))
    noise = rounding(n, count) * size * n**-0.5
    offset = math.fsum(f.count * f.offset for f in factors)
    first = math.floor((low - offset) / step)
    tilted = np.maximum(np.roll(irfft(found.far, n), -(first % n)), 0.0)
    log_ratio = offset + step * (first + np.arange(n, dtype=np.float64))
    return Product(log_ratio, tilted, noise)


@dataclass(frozen=True)
class _Split:
    """The transform of a law in two parts: outcomes with at least one ``far`` factor, and all others."""

    far: ComplexArray
    near: ComplexArray

    def times(self, other: _Split) -> _Split:
        """The transform of the product of independent outcomes."""
        if self.near is _NOTHING and other.near is _NOTHING:
            return _Split(self.far * other.far, _NOTHING)
        return _Split(self.far * (other.far + other.near) + self.near * other.far, self.near * other.near)

    def power(self, exponent: int) -> _Split:
        """The transform of the product of ``exponent`` factors, by squaring (faster than logarithms)."""
        if exponent < 2:
            return self
        half = self.power(exponent // 2)
        square = half.times(half)
        return square.times(self) if exponent % 2 else square


def rounding(n: int, count: float) -> float:
    """Bound on the relative error of a product of transforms; about 100 times the typical error."""
    return 2.0**-49 * math.log2(n) * (1.0 + count)


def _rms(transform: ComplexArray) -> float:
    return math.sqrt(float((transform.real**2 + transform.imag**2).mean()))


def total_count(factors: Sequence[Factor]) -> float:
    """The number of factors of all kinds together."""
    return math.fsum(f.count for f in factors)


def log_moment(factors: Sequence[Factor], order: float) -> float:
    """Log E[u^order] of the discretised laws."""
    return math.fsum(f.count * f.log_moment(order) for f in factors)


def window_around(
    factors: Sequence[Factor], tilt: float, threshold: float, outside: float
) -> tuple[float, float]:
    """An interval around the threshold that contains all but e^-``outside`` of the tilted law (Chernoff)."""
    at, etas = log_moment(factors, tilt), etas_around(factors, tilt)
    high = min((log_moment(factors, tilt + eta) - at + outside) / eta for eta in etas)
    low = max((at - log_moment(factors, tilt - eta) - outside) / eta for eta in etas)
    around = 1 / max(etas)
    return min(low, threshold - around), max(high, threshold + around)


def etas_around(factors: Sequence[Factor], tilt: float) -> Array:
    """Distances from the tilt of the orders for Chernoff bounds, up to about the best for a normal law."""
    variance = math.fsum(f.count * f.tilted_variance(tilt) for f in factors)
    return np.geomspace(0.2, max(20.0, 2 * math.sqrt(2 * OUTSIDE / (variance + 1e-18))), 14)
