"""Expectations of convex functions of the privacy loss, by a contour integral without a loss grid.

L = sum_j log Y_{t_j} is the privacy loss of all coordinates and rounds at one vector. With S(a) the
sum of the complex-order log-moments K(a; g, t_j),

    E_Q[(e^L - e^eps)_+]   = (1/2 pi i) int exp(S(1+z) - z eps) / (z (z+1)) dz      (add)
    E_Q[(1 - e^(eps+L))_+] = (1/2 pi i) int exp(S(-z)  - z eps) / (z (z+1)) dz      (remove)

over Re z = lambda > 0, and mixtures of such functions over strikes put another factor in front
(docs/theory.md, "The privacy profile"). The integrand at conjugate points is conjugate, the
trapezoid rule in Im z errs by the same expectations at strikes shifted by 2 pi m/step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from csgm_cli.core.log_moment import Array, ComplexArray, complex_log_moment, log_moment
from csgm_cli.core.moment import OUT_OF_REACH, LogMoment, combine
from csgm_cli.core.search import Slope, increasing_root
from csgm_cli.errors import NoAnswerError

#: Relative size of what may be left out at either end of the contour, and of the aliases.
_NEGLIGIBLE = 1e-13
_MOST_NODES = 1 << 12
#: Orders further out than this (times sqrt(t)) make grids too long to be worth it.
_REACH = 300.0


class Direction(Enum):
    """Which of the two worlds the outputs come from when a test tells them apart."""

    ADD = "add"
    REMOVE = "remove"


@dataclass(frozen=True)
class Law:
    """The privacy loss at one vector: ``parts`` are (how many coordinate-rounds, t) with integer counts."""

    gamma: float
    parts: tuple[tuple[float, float], ...]

    @property
    def largest_t(self) -> float:
        """The t of the largest coordinate."""
        return max(t for _, t in self.parts)

    @property
    def total_t(self) -> float:
        """Sum of t over all coordinates and rounds."""
        return math.fsum(count * t for count, t in self.parts)

    @property
    def floor(self) -> float:
        """The loss when nothing is sent and nothing looks sent: no loss is below."""
        return math.fsum(count for count, _ in self.parts) * math.log1p(-self.gamma)

    def real(self, order: float) -> LogMoment:
        """S at a real order above 1 or below 0; infinite where that is out of reach."""
        if abs(order) * math.sqrt(self.largest_t) > _REACH:
            return OUT_OF_REACH
        moments = [(count, log_moment(order, self.gamma, t)) for count, t in self.parts]
        return OUT_OF_REACH if any(math.isinf(m.value) for _, m in moments) else combine(moments)

    def complex(self, orders: ComplexArray) -> ComplexArray | None:
        """S at complex orders of one real part; None where it would take too long."""
        total = np.zeros_like(orders)
        for count, t in self.parts:
            moment = complex_log_moment(orders, self.gamma, t)
            if moment is None:
                return None
            total += count * moment
        return total


@dataclass(frozen=True)
class Contour:
    """S along Re z = ``shift`` at Im z = 0, step, 2 step, ...; ``tail`` bounds what lies beyond.

    ``alias`` bounds the relative error of the trapezoid rule, ``tail`` that of the end of the
    contour, both for the hockey-stick at the epsilon it was built for.
    """

    z: ComplexArray
    exponent: ComplexArray
    step: float
    error: float

    @property
    def shift(self) -> float:
        """Re z of the contour."""
        return float(self.z[0].real)

    def integral(self, tilt: float, factor: ComplexArray) -> tuple[float, float]:
        """(1/2 pi i) int exp(S + z tilt) factor(z)/(z (z+1)) dz, and a bound on its error."""
        exponent = self.exponent + self.z * tilt
        terms = np.exp(exponent) * factor / (self.z * (self.z + 1))
        value = self.step / math.pi * (float(terms.real.sum()) - float(terms[0].real) / 2)
        size = self.step / math.pi * float((np.abs(terms) * (1 + np.abs(exponent))).sum())
        return value, self.error * abs(value) + 1e-14 * size

    def mixtures(self, tilts: Array, weights: Array, exponent: float) -> Array:
        """Upper bounds on the add integral with factor weight/(exponent + z), for many (tilt, weight)."""
        base = 1 / (self.z * (self.z + 1) * (exponent + self.z))
        terms = np.exp(self.exponent[None, :] + tilts[:, None] * self.z[None, :]) * base[None, :]
        sums = terms.real.sum(axis=1) - terms[:, 0].real / 2
        rounding = 1e-14 * (np.abs(terms) * (1 + np.abs(self.exponent))[None, :]).sum(axis=1)
        return np.asarray(self.step / math.pi * weights * (sums * (1 + self.error) + rounding))


def order_of(direction: Direction, z: float) -> float:
    """The order of the log-moment at a real z > 0."""
    return 1.0 + z if direction is Direction.ADD else -z


def build_contour(law: Law, direction: Direction, epsilon: float, high: float = math.inf) -> Contour | None:
    """A contour through the saddle point for the hockey-stick at ``epsilon``, left of ``high``.

    None where the integrand hardly decays, which happens when few coordinates are ever sent.
    """
    saddle = _saddle(law, direction, epsilon)
    if saddle is None:
        return None
    shift = min(saddle, high)
    at_saddle = law.real(order_of(direction, shift))
    log_peak = at_saddle.value - shift * epsilon - math.log(shift * (shift + 1))
    if not math.isfinite(log_peak):
        return None
    # Aliases at lower strikes are expectations of at most 1, seen through exp(-2 pi shift/step).
    curvature = at_saddle.d2_order + 1 / shift**2 + 1 / (shift + 1) ** 2
    log_size = log_peak - 0.5 * math.log(2 * math.pi * curvature)
    step = 2 * math.pi * shift / (-math.log(_NEGLIGIBLE) + max(0.0, -log_size))
    step = min(step, _alias_free(law, direction, epsilon, shift, log_size))
    if step <= 0.0:
        return None
    block = max(8, math.ceil(9.0 / math.sqrt(curvature) / step))
    return _walk(law, direction, epsilon, shift, step, log_peak, block)


def _saddle(law: Law, direction: Direction, epsilon: float) -> float | None:
    """Where the integrand is smallest on the real axis; None where that is out of reach."""
    sign = 1.0 if direction is Direction.ADD else -1.0

    def slope(log_z: float) -> Slope:
        z = math.exp(log_z)
        moment = law.real(order_of(direction, z))
        if math.isinf(moment.value):
            return math.inf, math.inf
        value = sign * moment.d_order - epsilon - 1 / z - 1 / (z + 1)
        return value, z * (moment.d2_order + 1 / z**2 + 1 / (z + 1) ** 2)

    variance = law.gamma**2 * math.fsum(count * math.expm1(min(t, 50.0)) for count, t in law.parts)
    start = (epsilon + math.sqrt(epsilon**2 + 4 * variance)) / (2 * variance)
    ceiling = min(1.0 + 8.0 / law.largest_t, 0.5 * _REACH / math.sqrt(law.largest_t))
    start = math.log(min(max(start, 1e-3), ceiling))

    def _near_enough(log_z: float, value: float, step: float) -> bool:
        return abs(value * step) * math.exp(log_z) < 0.1  # what a better saddle would still gain

    try:
        return math.exp(increasing_root(slope, start, settled=_near_enough))
    except NoAnswerError:
        return None


def _alias_free(law: Law, direction: Direction, epsilon: float, shift: float, log_size: float) -> float:
    """A step at which the aliases at higher strikes are negligible, by Chernoff bounds further right.

    exp(2 pi m shift/step) delta(eps + 2 pi m/step) <= exp(S - further eps - 2 pi m (further - shift)/step).
    """
    best = 0.0
    for further in (1.15 * shift, 1.4 * shift, 2.0 * shift, 4.0 * shift):
        moment = law.real(order_of(direction, further))
        if math.isinf(moment.value):
            continue
        log_chernoff = moment.value - further * epsilon
        needed = log_chernoff - log_size - math.log(_NEGLIGIBLE)
        best = max(best, 2 * math.pi * (further - shift) / max(needed, 1.0))
    return best


def _walk(
    law: Law, direction: Direction, epsilon: float, shift: float, step: float, log_peak: float, block: int
) -> Contour | None:
    """Evaluate S block by block until the integrand stays negligible over a quarter of a block."""
    zs: list[ComplexArray] = []
    exponents: list[ComplexArray] = []
    size, first = min(block, _MOST_NODES), 0
    while first < _MOST_NODES:
        z = (shift + 1j * step * np.arange(first, first + size)).astype(np.complex128)
        exponent = law.complex(1.0 + z if direction is Direction.ADD else -z)
        if exponent is None:
            return None
        zs.append(z)
        exponents.append(exponent)
        first += size
        level = exponent.real - shift * epsilon - np.log(np.abs(z * (z + 1))) - log_peak
        if float(level[-(size // 4) :].max()) < math.log(_NEGLIGIBLE):
            tail = _tail(law, direction, shift, shift * epsilon + log_peak, step * first)
            if tail is not None and tail * step * first < 1e-11:
                return Contour(np.concatenate(zs), np.concatenate(exponents), step, 1e-11)
        size = max(8, first // 3)
    return None


def _tail(law: Law, direction: Direction, shift: float, level: float, end: float) -> float | None:
    """The largest sampled size of the integrand beyond ``end``, relative to its peak, times end/|z|."""
    z = (shift + 1j * end * np.linspace(1.0, 3.0, 9)).astype(np.complex128)
    exponent = law.complex(1.0 + z if direction is Direction.ADD else -z)
    if exponent is None:
        return None
    return float(np.exp(exponent.real - level - np.log(np.abs(z * (z + 1)))).max())
