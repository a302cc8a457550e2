"""Where ``loss_grid`` cuts the losses of single coordinates for the remove direction.

Nothing is rare there: only the top, which Y^-shift makes negligible, is cut off, for each part where
its own tail allows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_cuts import Cuts, saddle_of
from csgm_cli.core.loss_far import (
    DAMPED_OUT,
    FINEST,
    SHIFTS,
    SMALLEST,
    Chernoff,
    Parts,
    depth,
    negative_moment,
    negative_moments,
)
from csgm_cli.core.loss_window import Step, Window
from csgm_cli.core.sliced_law import Coordinates, log_upper_tail

Array = NDArray[np.float64]

#: What is cut off weighs this little at the shift, relative to all of the part.
_DROPPED = 1e-12
#: The lowest shift, times about how far the loss reaches, and the highest, times how far the lowest loss is
#: beyond the strike, so that there are some beyond the saddle.
_FLATTEST, _STEEPEST = 0.05, 20.0
#: How closely (x) the cuts are found.
_CLOSE = 1e-3


def remove_cuts(parts: Parts, strike: float) -> Cuts | Chernoff | None:
    """Cuts for the remove direction; None where no shift was found.

    Or the moments of the whole loss, where their bound makes cuts needless.
    """
    whole = negative_moments(parts)
    if whole.log_bound(strike) < math.log(SMALLEST):
        return whole
    shifts = _shifts(parts, strike)
    moments = [part.count * negative_moment(part, shifts) for part in parts]
    kept = Chernoff(shifts, np.sum(moments, axis=0))
    shift = saddle_of(kept, strike)
    if shift is None or not all(part.reached(shift) for part in parts):
        return None
    windows, log_peak, dropped = [], -shift * strike, 0.0
    for part in parts:
        log_moment = float(negative_moment(part, np.array([shift]))[0])
        cut = _cut(part, shift, math.log(_DROPPED / (len(parts) * part.count)) + log_moment)
        windows.append(Window(part, part.lowest(shift), None, Step(cut)))
        log_peak += part.count * log_moment
        dropped += part.count * math.exp(_log_above(part, shift, cut) - log_moment)
    dropped = math.expm1(dropped)
    return Cuts(-1, strike, tuple(windows), shift, shift, log_peak, log_peak, 1.0, dropped, kept, None)


def _shifts(parts: Parts, strike: float) -> Array:
    """Where to look for the saddle: 1/shift is between the size of the loss and what is beyond the strike."""
    divergence = sum(part.count * min(-part.floor, 2 * part.divergence) for part in parts)
    beyond = -strike - sum(part.count * part.floor for part in parts)
    finest = max(FINEST / depth(parts), _STEEPEST / max(beyond, 1e-15 * strike))
    return np.geomspace(_FLATTEST / (strike + divergence + math.sqrt(divergence)), finest, SHIFTS)


def _log_above(part: Coordinates, shift: float, x: float) -> float:
    """The logarithm of a bound on E_Q[Y^-shift; above x], where Y is above its value at x."""
    return log_upper_tail(x) - shift * float(part.loss(np.array(x)))


def _cut(part: Coordinates, shift: float, allowed: float) -> float:
    """About the lowest x above which that is at most exp(``allowed``).

    Losses that Y^-shift damps out would take as many nodes as those that matter, or far more.
    """
    low, high = part.lowest(shift), DAMPED_OUT
    while high - low > _CLOSE:
        middle = (low + high) / 2
        low, high = (low, middle) if _log_above(part, shift, middle) <= allowed else (middle, high)
    return high
