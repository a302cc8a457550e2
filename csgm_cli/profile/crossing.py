"""Where a contour crosses the real axis, and the step between its nodes.

The error of the trapezoid rule in Im z is a sum of aliases, which are expectations at other thresholds (see
docs/theory.md, "Numerics"). Chernoff bounds at a real z right of the contour bound them. Rare large losses
that contribute little to the answer can make E[Y^a] grow steeply just right of the saddle point, where the
Chernoff bounds are too weak; so the contour crosses somewhat left of the saddle point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.renyi.moment import LogMoment

if TYPE_CHECKING:
    from csgm_cli.roots import Slope

#: S at a real z.
Moments = Callable[[float], LogMoment]

#: Size of the aliases relative to the answer.
_NEGLIGIBLE = 1e-13
#: The rightmost crossing, relative to the pole. Chernoff bounds go up to half-way from there to the pole.
LEFT_OF_POLE = 7 / 9
#: The crossing relative to the saddle point: the integrand is less than twice as large, for delta >= 1e-30.
_LEFT_OF_SADDLE = 0.93
#: Places for Chernoff bounds on the aliases, relative to the shift, if the first guess allows only a step
#: below `_GOOD_STEP`, relative to the largest possible step.
_FURTHER, _GOOD_STEP = (1.03, 1.07, 1.15, 1.4, 2.0, 4.0), 0.3


@dataclass(frozen=True)
class Crossing:
    """Where a contour crosses the real axis (``shift``), its ``step``, and bounds on its aliases.

    ``log_size``: approximate logarithm of the answer. ``chernoff`` and ``further``: see `_chernoff` and
    `_alias_free`.
    """

    shift: float
    log_size: float
    chernoff: Sequence[tuple[float, float]]
    step: float
    further: float

    @property
    def log_aliases(self) -> float:
        """Log of a bound on the sum over m != 0 of exp(2 pi m shift/step) delta(epsilon + 2 pi m/step).

        For m > 0 by Chernoff bounds at z = further: exp(S - further eps - 2 pi m (further - shift)/step).
        """
        lower = 2 * math.pi * self.shift / self.step
        log_lower, higher = -lower - math.log(-math.expm1(-lower)), math.inf
        for log_chernoff, further in self.chernoff:
            gap = 2 * math.pi * (further - self.shift) / self.step
            higher = min(higher, log_chernoff - gap - math.log(-math.expm1(-gap)))
        return max(log_lower, higher) + math.log(2.0)


def slope_of(moment: LogMoment, sign: float, epsilon: float, z: float) -> Slope:
    """The first two derivatives of the integrand's logarithm at a real z; ``sign`` is 1 for add, else -1."""
    value = sign * moment.d_order - epsilon - 1 / z - 1 / (z + 1)
    return value, moment.d2_order + 1 / z**2 + 1 / (z + 1) ** 2


def crossing(moments: Moments, sign: float, epsilon: float, saddle: float, pole: float) -> Crossing | None:
    """The crossing left of the ``saddle`` and the ``pole``; None if no step bounds the aliases."""
    shift = min(_LEFT_OF_SADDLE * saddle, LEFT_OF_POLE * pole)
    moment = moments(shift)
    slope, curvature = slope_of(moment, sign, epsilon, shift)
    log_peak = moment.value - shift * epsilon - math.log(shift * (shift + 1))
    # Saddle-point approximation, at the minimum of the local parabola.
    log_size = log_peak - 0.5 * math.log(2 * math.pi * curvature)
    if shift < LEFT_OF_POLE * pole:
        log_size -= slope**2 / (2 * curvature)
    if not math.isfinite(log_size):
        return None
    chernoff = _chernoff(moments, epsilon, shift, (shift + pole) / 2, log_size)
    step, further = _alias_free(chernoff, shift, log_size)
    return Crossing(shift, log_size, chernoff, step, further) if step > 0.0 else None


def _alias_free(
    chernoff: Sequence[tuple[float, float]], shift: float, log_size: float
) -> tuple[float, float]:
    """A step at which aliases are negligible relative to an answer of about exp(``log_size``), and a real z.

    Aliases at lower thresholds are expectations of at most 1, times exp(-2 pi shift/step); the others are
    bounded at the returned z right of the shift, see `Crossing.log_aliases`. The factor of a test function
    whose pole is twice as far right of the shift at most doubles there.
    """
    best, at = 0.0, shift
    for log_chernoff, further in chernoff:
        needed = log_chernoff - log_size - math.log(_NEGLIGIBLE)
        step = 2 * math.pi * (further - shift) / max(needed, 1.0)
        best, at = max((best, at), (step, further))
    return min(best, _largest_step(shift, log_size)), at


def _largest_step(shift: float, log_size: float) -> float:
    return 2 * math.pi * shift / (-math.log(_NEGLIGIBLE) + max(0.0, -log_size))


def _chernoff(
    moments: Moments, epsilon: float, shift: float, last: float, log_size: float
) -> list[tuple[float, float]]:
    """Pairs (log of a Chernoff bound on delta(epsilon), its real z), z right of the shift, at most ``last``.

    The first z tried would allow the largest step if the exponent were a parabola.
    """

    def bounds(places: Iterable[float]) -> list[tuple[float, float]]:
        found = [(moments(z).value - z * epsilon, z) for z in dict.fromkeys(min(z, last) for z in places)]
        return [(bound, z) for bound, z in found if math.isfinite(bound)]

    curvature = max(moments(shift).d2_order, 1e-300)  # 0 if the privacy loss is negligible
    parabola = math.sqrt(-2 * math.log(_NEGLIGIBLE) / curvature)
    first = bounds([shift + min(max(parabola, 0.15 * shift), 3 * shift)])
    if _alias_free(first, shift, log_size)[0] >= _GOOD_STEP * _largest_step(shift, log_size):
        return first
    return bounds(factor * shift for factor in _FURTHER)
