"""PrivUnit: local randomizers of a unit vector, and their mean squared errors.

A report is a sample of a rotation-invariant reference law, conditioned on the cap around the client's vector
with probability p and on its complement otherwise, divided by the mean m of its component along that vector.
With E = e^eps0 - 1 and the mass q <= 1/2 of the cap, p = q (E + 1)/(1 + q E) makes it eps0-LDP: relative to
the reference law, a report has density (E + 1)/(1 + q E) in the cap and 1/(1 + q E) outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from csgm_cli.roots import Slope, increasing_root

#: From these thresholds on, a continued fraction replaces erfc, and an asymptotic series the fraction.
_USE_FRACTION, _USE_SERIES = 5.0, 30.0


@dataclass(frozen=True)
class Randomizer:
    """The optimal PrivUnitG at ``local_epsilon``, whose reference law is N(0, I/d).

    ``threshold`` is sqrt(d) times the distance of the cap from the origin; ``cap_mass`` is q.
    """

    local_epsilon: float
    threshold: float
    cap_mass: float

    @property
    def odds(self) -> float:
        """Return E = e^local_epsilon - 1."""
        return math.expm1(self.local_epsilon)

    @property
    def reference_share(self) -> float:
        """Return 1/(1 + q E): the least density of a report relative to the reference law."""
        return 1.0 / (1.0 + self.cap_mass * self.odds)

    def mean_squared_error(self, dim: int) -> float:
        """E ||report - v||^2 = d/threshold^2 for a unit vector v of ``dim`` coordinates."""
        return dim / self.threshold**2


def optimal_randomizer(local_epsilon: float) -> Randomizer:
    """PrivUnitG with the least error at ``local_epsilon`` > 0.

    The threshold a solves eps0 = log(1 + a/L(a)), which increases in a, with the unit loss
    L(a) = phi(a) - a Phi(-a) (docs/local-privacy.md).
    """

    def excess(log_a: float) -> Slope:
        a = math.exp(log_a)
        loss, tail = _unit_loss(a), 0.5 * math.erfc(a / math.sqrt(2.0))
        slope = (1.0 + a * tail / loss) / (loss / a + 1.0)
        return math.log1p(a / loss) - local_epsilon, slope

    start = math.log(min(local_epsilon / math.sqrt(2 * math.pi), math.sqrt(2 * local_epsilon)))
    threshold = math.exp(increasing_root(excess, start, tolerance=1e-14))
    return Randomizer(local_epsilon, threshold, 0.5 * math.erfc(threshold / math.sqrt(2.0)))


def sphere_error(dim: int, local_epsilon: float, cap_mass: float) -> float:
    """E ||report - v||^2 of PrivUnit, whose reference law is uniform on the sphere; ``dim`` >= 2.

    It is 1/m^2 - 1, with m = c_d/(d - 1) (1 - gamma^2)^((d - 1)/2) E/(1 + q E), where the cap begins at gamma
    and c_d = Gamma(d/2)/(sqrt(pi) Gamma((d - 1)/2)).
    """
    from scipy import special

    half = (dim - 1) / 2
    odds = math.expm1(local_epsilon)
    squared = float(special.betaincinv(0.5, half, 1.0 - 2.0 * cap_mass))
    log_mean = math.log(special.poch(half, 0.5) / (math.sqrt(math.pi) * (dim - 1)))
    log_mean += half * math.log1p(-squared) + math.log(odds / (1.0 + cap_mass * odds))
    return math.expm1(-2.0 * log_mean)


def _unit_loss(a: float) -> float:
    """L(a) = phi(a) - a Phi(-a) = E (Z - a)^+ for a > 0."""
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    if a < _USE_FRACTION:
        return density - a * 0.5 * math.erfc(a / math.sqrt(2.0))
    if a < _USE_SERIES:
        return density * _mills_complement(a)
    return density / a**2 * (1 - 3 / a**2 + 15 / a**4 - 105 / a**6)


def _mills_complement(a: float) -> float:
    """1 - a Phi(-a)/phi(a) by Laplace's continued fraction, without cancellation."""
    tail = a
    for j in range(80, 1, -1):
        tail = a + j / tail
    return 1.0 / (a * tail + 1.0)
