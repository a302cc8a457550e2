"""How fast E[Y^(a + iy)] falls with y, proven for all y at once: where contour integrals may end.

For Y = 1 - g + g exp(x s - s^2/2) under its law tilted by Y^a (docs/theory.md,
"Numerics"): the loss u = log Y has a density f there. What is above each of its levels,
where that is an interval of width w, is a uniform law with the characteristic function
sinc(y w/2). So with the levels h,

    |E[Y^(a + iy)]| / E[Y^a]  <=  1 - int w(h) (1 - |sinc(y w(h)/2)|) dh.

Sums over levels from above, of intervals between nodes, only make the right side larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from csgm_cli.renyi.tilt import tilt

Array = NDArray[np.float64]

#: The fewest nodes in x, and how far they go beyond where the tilt moves the Gaussian.
_NODES, _REACH = 320, 10.0
#: Where peaks matter (x = a s R), s |x| (1 - R), by which log Y^a bends them, is less for any rate in range.
_STEEPEST = 45.0
#: By how much more it does so up in the strip, where |d log Y/dx| is at most this times s R.
_TURNED = math.sqrt(2.0)
#: No side lobe of |sinc| is higher than this.
_SIDE_LOBE = 0.2173


@dataclass(frozen=True)
class Decay:
    """One coordinate at one real order a: uniform laws of ``widths`` make up ``masses`` of its law."""

    masses: Array
    widths: Array

    def log_bound(self, height: float) -> float:
        """Log of a bound on |E[Y^(a + iy)]| / E[Y^a] for all y >= ``height``."""
        drop = float(self.masses @ missing(self.widths * (height / 2)))
        return math.log1p(-min(drop, 1 - 1e-9))


def decay(order: float, gamma: float, t: float, log_moment: float) -> Decay:
    """The bound for one coordinate; ``log_moment`` is K at the order.

    With R the posterior probability that the coordinate was sent, log f = a u - x^2/2 - log R + const
    has the slope (a+1) s R - x - s in x: that falls at both ends, and in between it can only rise
    where R (1-R) > 1/((a+1) t). So f has one peak on each side of that, if it is not one in all.
    """
    s = math.sqrt(t)
    moved = _TURNED * tilt(order, gamma, s)
    moved = math.copysign(min(abs(moved), abs(order) * s), moved)
    per_unit = math.sqrt(1.0 + min(s * abs(moved), _STEEPEST))  # no step exceeds the deviation of a peak
    nodes = max(_NODES, math.ceil((abs(moved) + 2 * _REACH) * per_unit))
    x = np.linspace(min(moved, 0.0) - _REACH, max(moved, 0.0) + _REACH, nodes)
    z = s * (x - s / 2)
    u = np.where(z < 1.0, np.log1p(gamma * np.expm1(np.minimum(z, 1.0))), _log_ratio(gamma, z))
    log_bell = -x * x / 2 - 0.5 * math.log(2 * math.pi) - log_moment
    density = np.exp(order * u + log_bell - math.log(gamma * s) - z + u)
    between = valley(order, gamma, s)
    sides = [np.ones(x.size, dtype=bool)] if between is None else [x <= between[0], x >= between[1]]
    peaks = [_one_peak(u[side], density[side]) for side in sides if side.any()]
    masses, widths = (np.concatenate(column) for column in zip(*peaks, strict=True))
    return Decay(masses, widths)


def _log_ratio(gamma: float, z: Array) -> Array:
    log_rest = math.log1p(-gamma) if gamma < 1.0 else -math.inf
    return np.asarray(np.logaddexp(log_rest, math.log(gamma) + z))


def valley(order: float, gamma: float, s: float) -> tuple[float, float] | None:
    """The x between which the density may rise again; None where it has a single peak."""
    steepness = (order + 1) * s * s
    if steepness <= 4.0 or gamma == 1.0:
        return None
    high = 0.5 + math.sqrt(0.25 - 1 / steepness)
    low = 1 / (steepness * high)  # 1 - high, whose digits that would lose
    ends = []
    for sent, odds in ((low, low / high), (high, high / low)):
        x = (math.log(odds) - math.log(gamma) + math.log1p(-gamma)) / s + s / 2
        slope = (order + 1) * s * sent - x - s
        ends.append((x, slope))
    (left, falling), (right, rising) = ends
    return (left, right) if falling < 0.0 < rising else None


def _one_peak(u: Array, density: Array) -> tuple[Array, Array]:
    """(mass, width) of the slices between the levels of a density with one peak, each a bit too narrow."""
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
