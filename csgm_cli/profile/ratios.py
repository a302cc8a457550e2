"""The laws of the likelihood ratio Y of one coordinate, and of one round with client sampling, in cells.

They are discretised by `csgm_cli.profile.factors`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from csgm_cli.profile.factors import Cells
from csgm_cli.renyi.law import Coordinates
from csgm_cli.renyi.moment import LARGEST_EXPONENT

if TYPE_CHECKING:
    from csgm_cli.renyi.law import Law

Array = NDArray[np.float64]

#: A factor's grid ends at most this far above the threshold; beyond, the function is bounded by its slope.
ABOVE = 10.0


@dataclass(frozen=True)
class CoordinateRatio:
    """Y of ``coordinates``: with a coordinate x over without it; if ``opposite``, over with -x."""

    coordinates: Coordinates
    opposite: bool = False

    @property
    def count(self) -> float:
        """The number of coordinates."""
        return self.coordinates.count

    @cached_property
    def bottom(self) -> float:
        """The lower end of the grid; if ``opposite`` (for lower bounds), what is below is omitted."""
        c, s = self.coordinates, math.sqrt(self.coordinates.t)
        if self.opposite:
            return -self._log_ratio_at(8.0 + s)
        return math.log1p(-c.gamma) if c.gamma < 1.0 else -c.t / 2 - 13.5 * s

    def cut(self, threshold: float, tilt: float) -> float:
        """The upper end of the grid: at most e^-30 of the tilted law, or e^-98 of the law, lies above."""
        c, s = self.coordinates, math.sqrt(self.coordinates.t)
        shift = min(max(tilt, 1.0) * s, 6.0 + s)
        return min(
            ABOVE + threshold, self._log_ratio_at(8.0 + shift * (1.0 + c.gamma if self.opposite else 1.0))
        )

    def cells(self, edges: Array) -> Cells:
        """The masses of the cells between ``edges`` of log Y."""
        s, g = math.sqrt(self.coordinates.t), self.coordinates.gamma
        z = self._crossing(edges)
        # under the law with the client a coordinate that is sent has mean s, under the base law -s or 0
        rest, sent, base = _between(z), _between(z - s), _between(z + s) if self.opposite else _between(z)
        last = float(z[-1])
        rest_tail, sent_tail = ndtr(-last), ndtr(s - last)
        base_tail = ndtr(-last - s if self.opposite else -last)
        mass = (1 - g) * rest + g * base if self.opposite else rest
        tail_mass, tail_mean = (1 - g) * rest_tail + g * base_tail, (1 - g) * rest_tail + g * sent_tail
        return Cells(mass, (1 - g) * rest + g * sent, float(tail_mass), float(tail_mean))

    def _crossing(self, edges: Array) -> Array:
        """The standardised noise at which log Y crosses each edge; -infinity if log Y is always above it."""
        t, g = self.coordinates.t, self.coordinates.gamma
        s = math.sqrt(t)
        with np.errstate(all="ignore"):
            if not self.opposite:
                return np.asarray((_log_sent(edges, g) + t / 2) / s)
            # With X = e^(s z): (1-g + h X)/(1-g + h/X) = e^edge, h = g e^(-t/2), a quadratic equation for X
            log_h, size = math.log(g) - t / 2, np.abs(edges)
            log_half, log_product = np.log((1 - g) * np.expm1(size) / 2), log_h + size / 2
            top = np.maximum(log_half, log_product)
            half = np.exp(log_half - top)
            root = top - log_h + np.log(half + np.hypot(half, np.exp(log_product - top)))
            return np.asarray(np.where(edges >= 0.0, root, -root) / s)  # Y at -z is 1/Y at z

    def _log_ratio_at(self, z: float) -> float:
        """Log Y at the standardised noise z; at most `LARGEST_EXPONENT`."""
        c, s = self.coordinates, math.sqrt(self.coordinates.t)
        log_rest = math.log1p(-c.gamma) if c.gamma < 1.0 else -math.inf
        log_sent = math.log(c.gamma) - c.t / 2
        above = float(np.logaddexp(log_rest, log_sent + s * z))
        below = float(np.logaddexp(log_rest, log_sent - s * z)) if self.opposite else 0.0
        return min(above - below, LARGEST_EXPONENT)


def coordinate_ratios(law: Law, *, opposite: bool = False) -> list[CoordinateRatio]:
    """The ratios of the coordinates and of the Gaussian part of ``law``."""
    kinds = [*law.coordinates, *([Coordinates(1.0, 1.0, law.gaussian)] if law.gaussian > 0.0 else [])]
    return [CoordinateRatio(c, opposite) for c in kinds]


def _between(z: Array) -> Array:
    """The standard normal probabilities between neighbouring ``z``, from the tail that is more accurate."""
    return np.asarray(np.where(z[1:] < 0.0, np.diff(ndtr(z)), -np.diff(ndtr(-z))))


def _log_sent(edges: Array, g: float) -> Array:
    """Log of the M at which Y = 1 - g + g M is e^edge; -infinity if there is none.

    Each form avoids cancellation for its range of g.
    """
    if g == 1.0:
        return edges
    sent = np.expm1(edges) + g if g < 0.5 else np.exp(edges) - (1.0 - g)
    return np.asarray(np.log(np.maximum(sent / g, 0.0)))
