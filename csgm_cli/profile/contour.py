"""Means of convex test functions of the likelihood ratio u, by a contour integral.

With S(a) = log E[u^a] at complex orders, v and f of a `ConvexFunction`,

    E phi(u) = (1/2 pi i) int exp(S(1+z) - z log v) f(z)/(z (z+1)) dz      (add)
    E phi(u) = (1/2 pi i) int exp(S(-z)  + z log v) f(z)/(z (z+1)) dz      (remove)

over Re z = shift > 0 (docs/theory.md, "The privacy profile"). Conjugate points have conjugate
integrands. The error of the trapezoid rule in Im z is a sum of aliases: means of phi at thresholds shifted by
2 pi m/step. Aliases are never negative, so values that include them are upper bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import NoAnswerError
from csgm_cli.model.certificate import Direction
from csgm_cli.profile.convex import Mean, TestFunction
from csgm_cli.profile.crossing import LEFT_OF_POLE, crossing, slope_of
from csgm_cli.profile.decay import decay
from csgm_cli.renyi.log_moment import log_moment
from csgm_cli.renyi.moment import INFINITE_MOMENT, LARGEST_EXPONENT, LogMoment
from csgm_cli.renyi.tilt import tilt
from csgm_cli.roots import Slope, increasing_root, smallest_nonpositive

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

ComplexArray = NDArray[np.complex128]
#: height -> log of a bound on |E[Y^(a+iy)]|/E[Y^a] for all y >= height.
LogBound = Callable[[float], float]

#: Truncation error at the ends of the contour, relative to the answer.
_LEFT_OUT = 1e-12
#: Maximal number of nodes; with more, the grid is faster.
_MOST_NODES = 1 << 12
#: Tolerance of the logarithm of the end of the contour.
_END_WIDTH = 0.05
#: Orders that shift the peak of a coordinate's Gaussian further than this need grids that are too long.
_REACH = 300.0
#: Largest relative error at which an integral counts as converged.
_CONVERGED = 1e-7


@dataclass(frozen=True)
class Contour:
    """S along Re z = shift at Im z = 0, step, 2 step, ...

    ``log_tail``: log of a bound on |e^S| beyond the last node, relative to e^S at the shift, over pi times
    the last Im z. ``log_aliases``: log of a bound on the aliasing error of the hockey-stick's mean.
    """

    direction: Direction
    z: ComplexArray
    exponent: ComplexArray
    step: float
    log_tail: float
    log_aliases: float

    @property
    def shift(self) -> float:
        """Re z."""
        return float(self.z[0].real)

    def mean(self, function: TestFunction) -> Mean | None:
        """Bounds on the mean of ``function``, whose pole is right of the contour; None if not converged."""
        sign = -1.0 if self.direction is Direction.ADD else 1.0
        exponent = self.exponent + self.z * (sign * function.log_threshold)
        factor = function.factor(self.z)
        peak = float(exponent[0].real)
        if not peak < LARGEST_EXPONENT:  # the threshold is too far from that of the contour
            return None
        poles = self.z * (self.z + 1) / self.step  # scaled by the step, so that no term underflows
        with np.errstate(all="ignore"):
            terms = np.exp(exponent - peak) * factor / poles
            size = float((np.abs(terms) * (1 + np.abs(exponent))).sum())
        value = float(terms.real.sum()) - float(terms[0].real) / 2
        error = 1e-14 * size + math.pi * math.exp(self.log_tail) * float(abs(factor[0]))
        aliases = math.exp(min(self.log_aliases - peak, LARGEST_EXPONENT)) * math.pi
        if not error + aliases < _CONVERGED * value:
            return None
        scale = peak - math.log(math.pi)
        return Mean(scale + math.log(value - error - aliases), scale + math.log(value + error))


def build_contour(law: Law, direction: Direction, epsilon: float, pole: float = math.inf) -> Contour | None:
    """A contour through the saddle point for the hockey-stick at ``epsilon``, well left of ``pole``.

    It can also be used for test functions whose pole is at ``pole`` or further right. None if the integrand
    decays too slowly, which happens if few coordinates are ever sent, and for rounds with client sampling.
    """
    if law.sampled:
        return None
    with np.errstate(all="ignore"):  # after an overflow there is no contour
        return _build(law, direction, epsilon, pole)


def _build(law: Law, direction: Direction, epsilon: float, pole: float) -> Contour | None:
    @cache
    def moment(z: float) -> LogMoment:
        return _moment(law, 1.0 + z if direction is Direction.ADD else -z)

    sign = 1.0 if direction is Direction.ADD else -1.0
    saddle: float | None = pole
    if not _decreases_up_to(pole, sign, epsilon, moment):
        saddle = _saddle(law, sign, epsilon, moment)
    if saddle is None:
        return None
    across = crossing(moment, sign, epsilon, saddle, pole)
    if across is None:
        return None
    # choose z so that 1 + z is exact, which matters if z is small and epsilon large
    shift = (1.0 + across.shift) - 1.0 or across.shift
    at_shift = moment(shift)
    log_tail = math.log(_LEFT_OUT) + across.log_size - at_shift.value + shift * epsilon
    order = 1.0 + shift if direction is Direction.ADD else -shift
    end = _end(law, order, at_shift, log_tail, across.step)
    if end is None:
        return None
    z = (shift + 1j * across.step * np.arange(math.ceil(end / across.step) + 1)).astype(np.complex128)
    exponent = law.complex_log_moment(1.0 + z if direction is Direction.ADD else -z)
    if exponent is None:
        return None
    return Contour(direction, z, exponent, across.step, log_tail, across.log_aliases)


def _moment(law: Law, order: float) -> LogMoment:
    """S at a real order; infinite if the order needs a grid that is too long."""
    if any(abs(tilt(order, c.gamma, math.sqrt(c.t))) > _REACH for c in law.coordinates):
        return INFINITE_MOMENT
    return law.log_moment(order)


def _decreases_up_to(pole: float, sign: float, epsilon: float, moment: Callable[[float], LogMoment]) -> bool:
    """Whether the integrand decreases on the real axis up to the rightmost place for the contour."""
    if math.isinf(pole):
        return False
    last = moment(LEFT_OF_POLE * pole)
    return math.isfinite(last.value) and slope_of(last, sign, epsilon, LEFT_OF_POLE * pole)[0] < 0.0


def _saddle(law: Law, sign: float, epsilon: float, moment: Callable[[float], LogMoment]) -> float | None:
    """The saddle point: the minimum of the integrand on the real axis; None if not computable."""

    def slope(log_z: float) -> Slope:
        z = math.exp(log_z)
        there = moment(z)
        if math.isinf(there.value):
            return math.inf, math.inf
        value, rise = slope_of(there, sign, epsilon, z)
        return value, z * rise

    variance = max(law.variance, 1e-300)
    start = (epsilon + math.sqrt(epsilon**2 + 4 * variance)) / (2 * variance)
    if law.coordinates:
        start = min(start, 1.0 + 8.0 / law.largest_t, 0.5 * _REACH / math.sqrt(law.largest_t))

    def near_enough(log_z: float, value: float, step: float) -> bool:
        return abs(value * step) * math.exp(log_z) < 0.1  # possible gain in the exponent

    try:
        return math.exp(increasing_root(slope, math.log(max(start, 1e-3)), settled=near_enough))
    except (NoAnswerError, ArithmeticError):  # z has no limit if the integrand decreases everywhere
        return None


def _end(law: Law, order: float, at_shift: LogMoment, log_tail: float, step: float) -> float | None:
    """The Im z beyond which |e^S| is proven to meet ``log_tail`` (of a `Contour`).

    None if that takes too many steps.
    """
    parts = _decays(law, order)

    def excess(log_height: float) -> float:
        falls = math.fsum(count * log_bound(math.exp(log_height)) for count, log_bound in parts)
        return falls - math.log(math.pi) - log_height - log_tail

    gaussian = math.log(2 * max(-log_tail, 1.0) / max(at_shift.d2_order, 1e-300)) / 2
    furthest, slope = math.log(_MOST_NODES * step), 2 * max(-log_tail, 1.0)
    try:
        return math.exp(
            smallest_nonpositive(excess, gaussian, slope=slope, width=_END_WIDTH, ceiling=furthest)
        )
    except NoAnswerError:
        return None


def _decays(law: Law, order: float) -> Sequence[tuple[float, LogBound]]:
    """(count, bound on the decay of the characteristic function) for each kind of factor."""
    parts: list[tuple[float, LogBound]] = []
    if law.gaussian > 0.0:
        parts.append((1.0, lambda height: -height * height * law.gaussian / 2))
    for c in law.coordinates:
        at_order = log_moment(order, c.gamma, c.t).value
        parts.append((c.count, decay(order, c.gamma, c.t, at_order).log_bound))
    return parts
