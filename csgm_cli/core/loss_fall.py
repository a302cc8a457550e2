"""How fast the transform of an event falls along the contour, proven for all y beyond a height at once.

For one coordinate-round seen through a window W (docs/theory.md, "The privacy profile": rare mask bits):

* The integral over x moved up by q, 0 < q < pi/s. With |Phi(z + i h)| <= e^(h^2/2) Phi(z), from
  integrating the normal density along Im = h, and Y(x + iq) = Y (1 + R (e^(iqs) - 1)),

      |E[Y^(a + iy) W]|  <=  e^(q^2 (1 + sum 1/w^2)/2) E[|Y(x + iq)|^a exp(-y arg Y(x + iq)) W],

  over the widths w of the window's steps; 0 <= arg Y(x + iq) < q s.

* Where all is bulk there are many coordinates, and none need fall far: the law of the loss under
  W Y^a has a density that is at least a stack of uniform laws (as in ``decay``), so

      |E[Y^(a + iy) W]| / E[Y^a W]  <=  1 - int w(h) (1 - |sinc(y w(h)/2)|) dh.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.profile.decay import log_moved_up, missing, valley

if TYPE_CHECKING:
    from csgm_cli.core.loss_nodes import Nodes
    from csgm_cli.core.loss_window import Window

Array = NDArray[np.float64]

#: Shifts q that are tried: these times the narrowest step, up to this share of pi/s.
_SHIFTS = np.geomspace(0.2, 12.0, 12)
_STRIP = 0.9
#: Log of a bound on what is not there.
_NEVER = -1e300
#: Nodes in x for the stack.
_NODES, _REACH = 320, 10.0
#: For what the nodes do not see of either integral, relative.
_ROOM = 0.01
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Fall:
    """Of one part at one real order: |E[Y^(a + iy) W]| relative to E[Y^a; not far], in one of two ways.

    Rows for each q: log of the terms of the first bound, and arg Y there. ``masses`` and ``widths``
    of the uniform laws.
    """

    log_sizes: Array
    arguments: Array
    masses: Array
    widths: Array

    def log_bound(self, height: float) -> float:
        """For all y >= ``height``."""
        best = log_moved_up(self.log_sizes, self.arguments, height) + _ROOM
        if self.masses.size:
            drop = float(self.masses @ missing(self.widths * (height / 2)))
            best = min(best, math.log1p(-min(drop * (1 - _ROOM), 1 - 1e-9)))
        return best


def log_fall(windows: Sequence[Window], falls: Sequence[Fall], height: float) -> float:
    """Log of a bound on the event's transform for all y >= ``height``, relative to E[Y^a; none far].

    |b + j|^n - |b|^n is at most n |j| (b + j)^(n-1) where all is at real orders but for |j|.
    """
    if windows[0].split is None:
        return sum(
            window.part.count * min(0.0, fall.log_bound(height))
            for window, fall in zip(windows, falls, strict=True)
        )
    each = [
        math.log(window.part.count) + fall.log_bound(height)
        for window, fall in zip(windows, falls, strict=True)
    ]
    return min(0.0, float(np.logaddexp.reduce(each)))


def fall_of(window: Window, order: float, log_moment: float, whole: Nodes) -> Fall:
    """Both bounds for jumps, or for the ``whole`` that is not far; ``log_moment`` is log E[Y^a; not far]."""
    nodes, nothing = window.jumps(order), np.empty(0)
    if nodes is None and window.split is not None:  # no jump is in reach
        return Fall(np.full((1, 1), _NEVER), np.zeros((1, 1)), nothing, nothing)
    if nodes is not None:
        return Fall(*_shifted(window, order, log_moment, nodes), nothing, nothing)
    return Fall(*_shifted(window, order, log_moment, whole), *_stack(window, order, log_moment))


def _shifted(window: Window, order: float, log_moment: float, nodes: Nodes) -> tuple[Array, Array]:
    part = window.part
    steps = [step for step in (window.split, window.top) if step is not None and step.width > 0.0]
    narrowest = min([1.0, *(step.width for step in steps)])
    q = np.minimum(_SHIFTS * narrowest, _STRIP * math.pi / part.s)[:, None]
    sent = np.exp(math.log(part.gamma) + part.s * (nodes.x - part.s / 2) - nodes.loss)
    ratio = 1.0 + np.minimum(sent, 1.0) * np.expm1(1j * q * part.s)
    growth = q * q / 2 * (1.0 + sum(step.width**-2 for step in steps))
    log_sizes = order * (nodes.loss + np.log(np.abs(ratio))) + nodes.log_mass + growth - log_moment
    return log_sizes, np.angle(ratio)


def _stack(window: Window, order: float, log_moment: float) -> tuple[Array, Array]:
    """Masses and widths of uniform laws below the density of the loss under W Y^a."""
    part = window.part
    s, gamma = part.s, part.gamma
    high = min(max(order * s, 0.0) + _REACH, window.end)
    x = np.linspace(min(order * s, 0.0) - _REACH, high, _NODES)
    u, z = part.loss(x), s * (x - s / 2)
    log_density = order * u - x * x / 2 - _LOG_SQRT_TWO_PI - log_moment - math.log(gamma * s) - z + u
    density = np.exp(np.minimum(log_density, 700.0))  # what is larger, the window leaves out
    # The density has one peak on each side of the valley; the window only falls.
    cells = np.minimum(density[:-1], density[1:]) * window.top.below(x[1:])
    between = valley(order, gamma, s)
    middle = (x[:-1] + x[1:]) / 2
    sides = [np.ones(middle.size, dtype=bool)]
    if between is not None:
        sides = [x[1:] <= between[0], x[:-1] >= between[1]]
    stacks = [_one_stack(np.diff(u)[side], cells[side]) for side in sides if side.any()]
    masses, widths = (np.concatenate(column) for column in zip(*stacks, strict=True))
    return masses, widths


def _one_stack(widths: Array, heights: Array) -> tuple[Array, Array]:
    """Slices of the largest step function with one peak below cells of these widths and heights."""
    peak = int(np.argmax(heights))
    left = np.minimum.accumulate(heights[: peak + 1][::-1])[::-1]
    right = np.minimum.accumulate(heights[peak:])[1:]
    single = np.concatenate([left, right])
    downwards = np.argsort(-single, kind="stable")
    levels, spans = single[downwards], np.cumsum(widths[downwards])
    return np.diff(levels, append=0.0) * -spans, spans
