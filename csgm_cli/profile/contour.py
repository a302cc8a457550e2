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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from csgm_cli.errors import NoAnswerError
from csgm_cli.profile.crossing import Moments, crossing, slope_of
from csgm_cli.profile.decay import Decay, decay
from csgm_cli.renyi.log_moment import Array, ComplexArray, complex_log_moment, log_moment
from csgm_cli.renyi.moment import OUT_OF_REACH, LogMoment, combine
from csgm_cli.renyi.tilt import tilt
from csgm_cli.roots import Slope, increasing_root

if TYPE_CHECKING:
    from typing import Protocol

    class LogBound(Protocol):
        """How fast one characteristic function falls."""

        def log_bound(self, height: float) -> float:
            """Log of a bound on |E[Y^(a + iy)]| / E[Y^a] for all y >= ``height``."""

    class AnyLaw(Protocol):
        """A privacy loss whose log-moment is known: a `Law`, or several that add."""

        @property
        def largest_t(self) -> float:
            """The t of the largest coordinate."""

        @property
        def variance(self) -> float:
            """About the variance of e^L."""

        def real(self, order: float) -> LogMoment:
            """S at a real order above 1 or below 0; infinite where that is out of reach."""

        def complex(self, orders: ComplexArray) -> ComplexArray | None:
            """S at complex orders of one real part; None where it would take too long."""

        def decays(self, order: float) -> Sequence[tuple[float, LogBound]]:
            """(how many, how fast E[Y^(order + iy)] falls) of each kind of coordinate."""


_Place = TypeVar("_Place", float, ComplexArray)

#: Size of what may be left out at the ends of the contour, relative to the answer.
_LEFT_OUT = 1e-12
_MOST_NODES = 1 << 14
#: Rounding of a term, and of as many of them as there may be, in two sums of the root of that many.
_SUMMED = 4e-14
#: How far beyond its end a contour may go, relative.
_END_WIDTH = 1.05
#: Up to as many coordinates the bounds on the decay for few of them are looked at.
_FEW = 64.0
#: Orders that move the Gaussian further than this make grids too long to be worth it, and no delta needs
#: them: exp(-x^2/2) is far below all of them there.
_REACH = 300.0
#: No bound is less than 1 where it has the exponential of this.
_LARGEST = 700.0


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
    def sent(self) -> float:
        """How many coordinates are sent on average."""
        return self.gamma * math.fsum(count for count, _ in self.parts)

    @property
    def floor(self) -> float:
        """The loss when nothing is sent and nothing looks sent: no loss is below."""
        return math.fsum(count for count, _ in self.parts) * math.log1p(-self.gamma)

    def scaled(self, noise: float, rounds: float) -> Law:
        """With the noise's variance and the rounds changed by these factors."""
        return replace(
            self, parts=tuple((float(round(count * rounds)), t / noise) for count, t in self.parts)
        )

    @property
    def variance(self) -> float:
        """About the variance of e^L."""
        return self.gamma**2 * math.fsum(count * math.expm1(min(t, 50.0)) for count, t in self.parts)

    @property
    def growth(self) -> float:
        """V with E_Q[prod Y^-l] <= exp(l (l+1) V/2) for all vectors and l > 0, that of a Gaussian.

        V = gamma^2 total_t (e^t - 1)/t for the largest t, whose rounding e^t multiplies by t: rounded up.
        """
        t = self.largest_t
        rounding = 2.0**-52 * (4 * t + 20)
        return self.gamma**2 * self.total_t * math.expm1(min(t, _LARGEST)) / t * (1 + rounding)

    def reaches(self, order: float) -> bool:
        """False for orders that are too far out."""
        return abs(tilt(order, self.gamma, math.sqrt(self.largest_t))) <= _REACH

    def real(self, order: float) -> LogMoment:
        """S at a real order above 1 or below 0; infinite where that is out of reach."""
        if not self.reaches(order):
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

    def decays(self, order: float) -> list[tuple[float, Decay]]:
        """(how many, how fast E[Y^(order + iy)] falls) of each kind of coordinate."""
        few = math.fsum(count for count, _ in self.parts) <= _FEW
        return [
            (count, decay(order, self.gamma, t, log_moment(order, self.gamma, t).value, few=few))
            for count, t in self.parts
        ]


@dataclass(frozen=True)
class Contour:
    """S along Re z = ``shift`` at Im z = 0, step, 2 step, ...

    ``log_tail``: log of a bound on |e^S| beyond, relative to e^S at the shift, over pi times the last
    Im z. ``aliases`` bounds by how much the hockey-stick it was built for comes out too large. They are
    as small for factors with a pole at ``least_pole`` or further right.
    """

    direction: Direction
    z: ComplexArray
    exponent: ComplexArray
    step: float
    log_tail: float
    aliases: float
    least_pole: float

    @property
    def shift(self) -> float:
        """Re z of the contour."""
        return float(self.z[0].real)

    def of(self, law: AnyLaw) -> Contour:
        """The same line for another law, which must be close: the bounds on errors are not made anew."""
        exponent = law.complex(_order_of(self.direction, self.z))
        return self if exponent is None else replace(self, exponent=exponent)

    def integral(self, tilt: float, factor: ComplexArray) -> tuple[float, float]:
        """(1/2 pi i) int exp(S + z tilt) factor(z)/(z (z+1)) dz, and a bound on its error.

        Besides the aliases, which are at least 0. |factor| must be largest at the shift.
        """
        exponent = self.exponent + self.z * tilt
        peak = float(exponent[0].real)
        poles = self.z * (self.z + 1) / self.step  # of the size of the step, so that no term underflows
        terms = np.exp(exponent - peak) * factor / poles
        sums = float(terms.real.sum()) - float(terms[0].real) / 2
        size = float((np.abs(terms) * (1 + np.abs(exponent))).sum())
        tail = math.exp(peak + self.log_tail) * float(abs(factor[0]))
        scale = float(np.exp(peak)) / math.pi
        return scale * sums, scale * 1e-14 * size + tail

    def mixtures(self, tilts: Array, weights: Array, exponent: float) -> Array:
        """Upper bounds on the add integral with factor weight/(exponent + z), for many (tilt, weight).

        Powers of exp(i step tilt) are products of two short tables, and so are the sums over them.
        """
        peak = float(self.exponent[0].real)
        terms = np.exp(self.exponent - peak) / (self.z * (self.z + 1) * (exponent + self.z))
        rows = math.isqrt(terms.size - 1) + 1
        table = np.zeros(rows * rows, dtype=np.complex128)
        table[: terms.size] = terms
        turns = 1j * self.step * tilts
        within = np.exp(turns[:, None] * np.arange(rows))
        across = np.exp(turns[:, None] * (rows * np.arange(rows)))
        sums = ((across @ table.reshape(rows, rows)) * within).sum(axis=1).real - terms[0].real / 2
        rounding = _SUMMED * float((np.abs(terms) * (1 + np.abs(self.exponent))).sum())
        tail = math.exp(self.log_tail) / (exponent + self.shift)
        front = weights * np.exp(tilts * self.shift + peak)
        return np.asarray(front * (self.step / math.pi * (sums + rounding) + tail))


def _order_of(direction: Direction, z: _Place) -> _Place:
    """The order of the log-moment at z, Re z > 0."""
    return 1.0 + z if direction is Direction.ADD else -z


def build_contour(
    law: AnyLaw, direction: Direction, epsilon: float, pole: float = math.inf
) -> Contour | None:
    """A contour through the saddle point for the hockey-stick at ``epsilon``, well left of ``pole``.

    It serves factors with a pole there or further right as well. None where the integrand hardly decays,
    which happens when few coordinates are ever sent.
    """

    @cache
    def moment(z: float) -> LogMoment:
        return law.real(_order_of(direction, z))

    sign = 1.0 if direction is Direction.ADD else -1.0
    saddle = _saddle(law, sign, epsilon, moment)
    across = None if saddle is None else crossing(moment, sign, epsilon, saddle, pole)
    if across is None:
        return None
    shift, step = _exact(across.shift) if direction is Direction.ADD else across.shift, across.step
    at_shift = moment(shift)
    log_tail = math.log(_LEFT_OUT) + across.log_size - at_shift.value + shift * epsilon
    end = _end(law, _order_of(direction, shift), at_shift, log_tail, step)
    if end is None:
        return None
    z = (shift + 1j * step * np.arange(math.ceil(end / step) + 1)).astype(np.complex128)
    exponent = law.complex(_order_of(direction, z))
    if exponent is None:
        return None
    return Contour(direction, z, exponent, step, log_tail, across.aliases, 2 * across.further - shift)


def _exact(shift: float) -> float:
    """About that, with 1 + z free of rounding, which counts where z is small and epsilon large."""
    return (1.0 + shift) - 1.0 or shift


def _saddle(law: AnyLaw, sign: float, epsilon: float, moments: Moments) -> float | None:
    """Where the integrand is smallest on the real axis; None where that is out of reach."""

    def slope(log_z: float) -> Slope:
        z = math.exp(log_z)
        moment = moments(z)
        if math.isinf(moment.value):
            return math.inf, math.inf
        value, rise = slope_of(moment, sign, epsilon, z)
        return value, z * rise

    variance = law.variance
    start = (epsilon + math.sqrt(epsilon**2 + 4 * variance)) / (2 * variance)
    ceiling = min(1.0 + 8.0 / law.largest_t, 0.5 * _REACH / math.sqrt(law.largest_t))
    start = math.log(min(max(start, 1e-3), ceiling))

    def _near_enough(log_z: float, value: float, step: float) -> bool:
        return abs(value * step) * math.exp(log_z) < 0.1  # what a better saddle would still gain

    try:
        return math.exp(increasing_root(slope, start, settled=_near_enough))
    except NoAnswerError:
        return None


def _end(law: AnyLaw, order: float, at_shift: LogMoment, log_tail: float, step: float) -> float | None:
    """The Im z from which on |e^S| is proven to be as small as ``log_tail`` (of a `Contour`) asks.

    None where that takes too many steps.
    """
    parts = law.decays(order)

    def ends(height: float) -> bool:
        return _log_modulus(parts, height) - math.log(math.pi * height) <= log_tail

    furthest = _MOST_NODES * step
    high = min(math.sqrt(2 * max(-log_tail, 1.0) / max(at_shift.d2_order, 1e-300)), furthest)
    factor, low = _END_WIDTH, 0.0
    if not ends(high) and not ends(furthest):
        return None
    while not ends(high):
        high, low, factor = min(high * factor, furthest), high, factor**2
    while low == 0.0 and ends(high / factor):
        high, factor = high / factor, factor**2
    low = max(low, high / factor)
    while high > _END_WIDTH * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if ends(middle) else (middle, high)
    return high


def _log_modulus(parts: Sequence[tuple[float, LogBound]], height: float) -> float:
    """Log of a bound on |e^S| at all Im z >= ``height``, relative to e^S at the shift."""
    return sum(count * part.log_bound(height) for count, part in parts)
