"""The privacy loss of releases of different mechanisms, each at its worst vector kappa*.

docs/theory.md, "Mixed releases". Losses of independent noise add, and so do their log-moments at
complex orders. All Gaussian releases are one, whose squared mu is the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from csgm_cli.renyi.log_moment import ComplexArray, mixed_log_moments
from csgm_cli.renyi.moment import OUT_OF_REACH, LogMoment, gaussian_moment, summed

if TYPE_CHECKING:
    from csgm_cli.profile.contour import Law, LogBound

#: How many of the laws are asked how fast they fall; the rest only falls faster.
_MOST_DECAYS = 6
#: A Gaussian loss alone sets searches no limits.
_NEXT_TO_NOTHING = 1e-6


@dataclass(frozen=True)
class GaussianDecay:
    """The modulus exp(-t y^2/2) of a Gaussian loss."""

    t: float

    def log_bound(self, height: float) -> float:
        """Log of |E[Y^(a + iy)]| / E[Y^a] at y = ``height``, at all orders a."""
        return -self.t * height * height / 2


@dataclass(frozen=True)
class MixedLaw:
    """The sum of the ``sparse`` losses and of a Gaussian one with mu^2 = ``gaussian_t`` > 0, if blurred."""

    sparse: tuple[Law, ...]
    gaussian_t: float

    def blurred(self, variance: float) -> MixedLaw:
        """With a further Gaussian release: every convex function of e^L only gains, by Jensen."""
        return replace(self, gaussian_t=self.gaussian_t + variance)

    @property
    def largest_t(self) -> float:
        """The t of the largest coordinate that is sent only at times, or next to nothing."""
        return max((law.largest_t for law in self.sparse), default=_NEXT_TO_NOTHING)

    @property
    def variance(self) -> float:
        """About the variance of e^L."""
        return math.fsum([law.variance for law in self.sparse]) + math.expm1(min(self.gaussian_t, 50.0))

    @property
    def floor(self) -> float:
        """The loss of the sparse ones when nothing is sent and nothing looks sent."""
        return math.fsum([law.floor for law in self.sparse])

    def real(self, order: float) -> LogMoment:
        """S at a real order above 1 or below 0; infinite where that is out of reach."""
        if not all(law.reaches(order) for law in self.sparse):
            return OUT_OF_REACH
        coordinates = [(law.gamma, t) for law in self.sparse for _, t in law.parts]
        counts = [count for law in self.sparse for count, _ in law.parts]
        moments = mixed_log_moments(order, coordinates)
        return summed([*zip(counts, moments, strict=True), (1.0, gaussian_moment(order, self.gaussian_t))])

    def complex(self, orders: ComplexArray) -> ComplexArray | None:
        """S at complex orders of one real part; None where it would take too long."""
        total = orders * (orders - 1) * (self.gaussian_t / 2)
        for law in self.sparse:
            moment = law.complex(orders)
            if moment is None:
                return None
            total = total + moment
        return total

    def decays(self, order: float) -> Sequence[tuple[float, LogBound]]:
        """How fast E[e^((order + iy) L)] falls, as far as the heaviest laws and the Gaussian make it."""
        heavy = sorted(self.sparse, key=lambda law: -law.variance)[:_MOST_DECAYS]
        found: list[tuple[float, LogBound]] = [(1.0, GaussianDecay(self.gaussian_t))]
        return found + [pair for law in heavy for pair in law.decays(order)]
