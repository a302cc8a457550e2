"""A proven bound on the decay of |E[Y^(a + iy)]| in y, which determines where contour integrals may end.

Let Y = 1 - g + g exp(x s - s^2/2) with its law tilted by Y^a (docs/theory.md, "Numerics"). The loss
u = log Y has a density f, which is a mixture of uniform laws: one for each level h of f, on {f > h}. If
{f > h} is an interval of width w(h), the uniform law has the characteristic function sinc(y w/2). So

    |E[Y^(a + iy)]| / E[Y^a]  <=  1 - int w(h) (1 - |sinc(y w(h)/2)|) dh.

Replacing the integral by a lower sum over levels and intervals between nodes only increases the right side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from csgm_cli.renyi.tilt import tilt

Array = NDArray[np.float64]

#: Minimal number of nodes in x; how far they extend beyond the means of the plain and tilted Gaussians.
_NODES, _REACH = 320, 10.0
#: Bound on s |x| (1 - R), the curvature that Y^a adds at a peak (x = a s R), for every gamma in range.
_STEEPEST = 45.0
#: The nodes extend this much further than the tilt; any choice is valid.
_WIDENING = math.sqrt(2.0)
#: Upper bound on the side lobes of |sinc|.
_SIDE_LOBE = 0.2173


@dataclass(frozen=True)
class Decay:
    """The tilted law of one coordinate as a mixture: ``masses`` on uniform laws of ``widths``, and a rest."""

    masses: Array
    widths: Array

    def log_bound(self, height: float) -> float:
        """Log of a bound on |E[Y^(a + iy)]| / E[Y^a] for all y >= ``height``."""
        drop = float(self.masses @ missing(self.widths * (height / 2)))
        return math.log1p(-min(drop, 1 - 1e-9))


def decay(order: float, gamma: float, t: float, log_moment: float) -> Decay:
    """The bound for one coordinate; ``log_moment`` is K at the order.

    With R the posterior probability that the coordinate was sent, log f = a u - x^2/2 - log R + const
    has the slope (a+1) s R - x - s in x. This slope can increase only where R (1-R) > 1/((a+1) t), which is
    an interval of x. So f has either a single peak, or one peak on each side of a dip in that interval.
    """
    s = math.sqrt(t)
    moved = _WIDENING * tilt(order, gamma, s)
    moved = math.copysign(min(abs(moved), abs(order) * s), moved)
    per_unit = math.sqrt(1.0 + min(s * abs(moved), _STEEPEST))  # resolves the width of a peak
    nodes = max(_NODES, math.ceil((abs(moved) + 2 * _REACH) * per_unit))
    x = np.linspace(min(moved, 0.0) - _REACH, max(moved, 0.0) + _REACH, nodes)
    z = s * (x - s / 2)
    u = np.where(z < 1.0, np.log1p(gamma * np.expm1(np.minimum(z, 1.0))), _log_ratio(gamma, z))
    log_bell = -x * x / 2 - 0.5 * math.log(2 * math.pi) - log_moment
    density = np.exp(order * u + log_bell - math.log(gamma * s) - z + u)
    between = dip_between_peaks(order, gamma, s)
    sides = [np.ones(x.size, dtype=bool)] if between is None else [x <= between[0], x >= between[1]]
    peaks = [_one_peak(u[side], density[side]) for side in sides if side.any()]
    masses, widths = (np.concatenate(column) for column in zip(*peaks, strict=True))
    return Decay(masses, widths)


def _log_ratio(gamma: float, z: Array) -> Array:
    log_rest = math.log1p(-gamma) if gamma < 1.0 else -math.inf
    return np.asarray(np.logaddexp(log_rest, math.log(gamma) + z))


def dip_between_peaks(order: float, gamma: float, s: float) -> tuple[float, float] | None:
    """The ends in x of the dip between two peaks of the density; None if it has a single peak."""
    steepness = (order + 1) * s * s
    if steepness <= 4.0 or gamma == 1.0:
        return None
    high = 0.5 + math.sqrt(0.25 - 1 / steepness)
    low = 1 / (steepness * high)  # 1 - high, without cancellation
    ends = []
    for sent, odds in ((low, low / high), (high, high / low)):
        x = (math.log(odds) - math.log(gamma) + math.log1p(-gamma)) / s + s / 2
        slope = (order + 1) * s * sent - x - s
        ends.append((x, slope))
    (left, falling), (right, rising) = ends
    return (left, right) if falling < 0.0 < rising else None


def _one_peak(u: Array, density: Array) -> tuple[Array, Array]:
    """(masses, widths) of the uniform laws of a density with a single peak; widths are rounded down."""
    downwards = np.argsort(-density)
    heights, places = density[downwards], u[downwards]
    widths = np.maximum.accumulate(places) - np.minimum.accumulate(places)
    return np.diff(heights, append=0.0) * -widths, widths


def missing(x: Array) -> Array:
    """A lower bound on 1 - |sin x'/x'| for all x' >= x."""
    small = x * x / 6 * (1 - x * x / 20)
    place = np.minimum(np.maximum(x, 1e-3), math.pi)
    beyond = np.minimum(_SIDE_LOBE, 1 / np.maximum(x, 1e-3))
    return np.where(x < 0.01, small, 1 - np.maximum(np.sin(place) / place, beyond))
