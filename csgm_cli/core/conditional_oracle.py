"""The privacy profile of a few coordinates in high precision, by conditioning on all but one of them.

A second method beside the contour of ``profile_oracle``, and the one for one or two coordinates, of
which the law is next to an atom. As there, ``digits`` are the decimal digits that a result has right,
and results are ``mpf``. Nothing of the float64 path is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core.contour_oracle import saddle
from csgm_cli.core.law_oracle import Direction, Law, Parts, hockey_stick
from csgm_cli.core.oracle import SPARE_DIGITS, require
from csgm_cli.core.tilt_oracle import log_ratio, not_converged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from csgm_cli.core.oracle import Number

_MOST_CLOSED_FORMS = 100_000  # some twenty seconds


def beyond_any_loss(law: Law, epsilon: Number) -> bool:
    """Whether -L, which is below -count log(1 - g), never reaches ``epsilon``."""
    with mpmath.workdps(50):
        if law.direction is Direction.ADD or law.gamma == 1:
            return False
        return bool(epsilon >= -law.count * mpmath.log1p(-mpmath.mpf(law.gamma)))


def conditional_delta(
    gamma: Number, parts: Parts, direction: Direction | str, epsilon: Number, digits: int = 20
) -> mpmath.mpf:
    """The same as `profile_delta`, but for blur, for at most three coordinates.

    One coordinate is a closed form given the others, over which the trapezoid rule goes; its step
    is halved until two sums agree. Three coordinates take minutes at 20 digits.
    """
    law = Law(gamma, parts, Direction(direction))
    require(law.count <= 3, "parts", "at most three coordinates", parts)
    require(epsilon >= 0, "epsilon", "at least 0", epsilon)
    if beyond_any_loss(law, epsilon):
        return mpmath.mpf(0)
    with mpmath.workdps(2 * (digits + SPARE_DIGITS)):
        times = [mpmath.mpf(t) for count, t in law.parts for _ in range(int(count))]
        if gamma == 1:  # then the loss is one Gaussian
            times = [mpmath.fsum(times)]
        order = law.direction.order(saddle(law, hockey_stick(epsilon))) if len(times) > 1 else mpmath.mpf(1)
        strike = law.direction.sign * mpmath.mpf(epsilon)
        rule, value = _Conditional(law, order, digits + SPARE_DIGITS, mpmath.mpf(1)), mpmath.mpf(-1)
        while True:
            before, value = value, rule.expectation(times, strike)
            if abs(value - before) <= value * mpmath.mpf(10) ** -digits or len(times) == 1:
                return value if law.direction is Direction.ADD else value * mpmath.exp(epsilon)
            rule = replace(rule, step=rule.step / 2)


@dataclass(frozen=True)
class _Conditional:
    """E[(e^L - e^strike)_+] (add) or E[(e^strike - e^L)_+] (remove), coordinate by coordinate.

    ``order`` is that of the tilt under which the integrand lives.
    """

    law: Law
    order: mpmath.mpf
    digits: int
    step: mpmath.mpf

    def expectation(self, times: Sequence[mpmath.mpf], strike: mpmath.mpf) -> mpmath.mpf:
        """Return the expectation over coordinates at ``times``.

        Beyond an edge in x the first coordinate decides alone: the others cannot take the loss
        below the strike again. Up to there the integrand is smooth in log(edge - x).
        """
        (t, *others), gamma = times, mpmath.mpf(self.law.gamma)
        root, floor = mpmath.sqrt(t), (1 - gamma) ** len(others)
        odds = (mpmath.exp(strike) / floor - 1 + gamma) / gamma
        edge = (mpmath.log(odds) + t / 2) / root
        add = self.law.direction is Direction.ADD
        alone = mpmath.mpf(0)
        if add or not others:
            side = 1 if add else -1
            sent, never = mpmath.ncdf(side * (root - edge)), mpmath.ncdf(-side * edge)
            alone = side * (gamma * sent + (1 - gamma - mpmath.exp(strike)) * never)
        if not others:
            return alone
        terms = []
        for x, width in self._nodes(root, edge):
            loss = log_ratio(gamma, t, x)
            rest = self.expectation(others, strike - loss)
            terms.append(width * mpmath.npdf(x) * mpmath.exp(loss) * rest)
        return alone + mpmath.fsum(terms)

    def _nodes(self, root: mpmath.mpf, edge: mpmath.mpf) -> Iterator[tuple[mpmath.mpf, mpmath.mpf]]:
        """Yield x = edge - log(1 + e^y), which is dense at the edge, and the width of its cell."""
        depth = self.digits * mpmath.log(10)
        low, high = (end * root for end in (min(self.order, 0), max(self.order, 0)))
        far, near = edge - low + mpmath.sqrt(2 * depth), edge - high - mpmath.sqrt(2 * depth)
        start = near if near > 1 else -depth
        if (far - start) / self.step > _MOST_CLOSED_FORMS:
            raise not_converged(f"the law of {self.law.count} coordinates", int((far - start) / self.step))
        for j in range(math.floor(start / self.step), math.ceil(far / self.step)):
            y = j * self.step
            yield edge - mpmath.log1p(mpmath.exp(y)), self.step / (1 + mpmath.exp(-y))
