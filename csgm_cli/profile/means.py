"""Means of convex test functions under one law: by a contour integral, or on a grid if that fails."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from csgm_cli.model.certificate import Direction
from csgm_cli.profile.contour import Contour, build_contour
from csgm_cli.profile.convex import ConvexFunction, TestFunction

if TYPE_CHECKING:
    from csgm_cli.profile.grid import GridLaw
    from csgm_cli.renyi.law import Law

#: The gammas and epsilons for which contours and grids are supported; otherwise closed forms are used.
LEAST_GAMMA, LEAST_EPSILON, LARGEST_EPSILON = 1e-6, 1e-3, 100.0
#: With more kinds of coordinates (large budgets), the closed forms are close enough.
_MOST_KINDS = 64
#: With more coordinates, the Gaussian limit is close enough for (kappa*, -kappa*).
_MOST_OPPOSITE = 1e4


@dataclass(frozen=True)
class UpperMean:
    """log E phi(u) <= ``log_value``; ``step``: the step of the grid, None for a contour."""

    log_value: float
    step: float | None


def profile_supported(law: Law, epsilon: float) -> bool:
    """Whether contours and grids are supported for this law at ``epsilon``."""
    return (
        len(law.all_coordinates) <= _MOST_KINDS
        and LEAST_EPSILON <= epsilon <= LARGEST_EPSILON
        and all(c.gamma >= LEAST_GAMMA for c in law.all_coordinates)
        and all(rounds.rate >= LEAST_GAMMA for rounds in law.sampled)
    )


@lru_cache(maxsize=16)
def contour_of(law: Law, direction: Direction, epsilon: float, pole: float) -> Contour | None:
    """Cached `build_contour`."""
    return build_contour(law, direction, epsilon, pole)


def upper_mean(law: Law, function: TestFunction) -> UpperMean | None:
    """An upper bound on E phi(u); None if not computable."""
    return upper_mean_by_contour(law, function) or upper_mean_on_grid(law, function)


def upper_mean_by_contour(law: Law, function: TestFunction) -> UpperMean | None:
    """`upper_mean` by a contour integral, which takes a few milliseconds."""
    contour = contour_of(law, function.direction, function.epsilon, function.pole)
    found = None if contour is None else contour.mean(function)
    return None if found is None else UpperMean(found.log_upper, None)


def upper_mean_on_grid(law: Law, function: TestFunction) -> UpperMean | None:
    """`upper_mean` on a certified grid."""
    grid = grid_of(law, function.direction, function.epsilon, function.pole)
    return None if grid is None else UpperMean(_log(grid.upper_mean(function)), grid.step)


def log_lower_hockey_stick(law: Law, epsilon: float, *, by_grid: bool = True) -> float:
    """Log of a lower bound on E(u - e^epsilon)_+; -infinity if not computable (without a grid)."""
    contour = contour_of(law, Direction.ADD, epsilon, math.inf)
    found = None if contour is None else contour.mean(ConvexFunction(Direction.ADD, epsilon))
    if found is not None:
        return found.log_lower
    if not by_grid:
        return -math.inf
    grid = grid_of(law, Direction.ADD, epsilon, math.inf, upper=False)
    return -math.inf if grid is None else _log(max(0.0, grid.lower_hockey_stick(epsilon)))


def log_lower_opposite(law: Law, epsilon: float) -> float:
    """Log of a lower bound on the hockey-stick divergence of kappa* and -kappa*; -infinity if none."""
    from csgm_cli.profile.grid import grid_law, grid_step

    if math.fsum(c.count for c in law.coordinates) > _MOST_OPPOSITE:
        return -math.inf
    step = grid_step(law, epsilon)
    grid = grid_law(law, Direction.ADD, epsilon, step, upper=False, opposite=True)
    return -math.inf if grid is None else _log(max(0.0, grid.lower_hockey_stick(epsilon)))


def _log(x: float) -> float:
    """The log of a bound >= 0; infinity if the bound is not a number."""
    if x > 0.0:
        return math.log(x)
    return -math.inf if x == 0.0 else math.inf


def grid_of(
    law: Law, direction: Direction, epsilon: float, pole: float, *, upper: bool = True
) -> GridLaw | None:
    """The certified grid with the default step for ``law``. Imports SciPy lazily."""
    from csgm_cli.profile.grid import grid_law, grid_step

    step = grid_step(law, epsilon, direction, pole)
    return grid_law(law, direction, epsilon, step, pole, upper=upper)
