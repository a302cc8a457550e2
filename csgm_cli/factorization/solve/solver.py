"""The optimal factorization, by its dual: v <- phi(v), accelerated, with a certificate at every step.

With h the nuclear norm of D_u^(1/2) A D_v^(1/2), any positive weights prove (docs/factorize.md)

    h^2 / (sum v sum u)  <=  best product of the largest squared row and column norms of B and C,

and C^T C = D_v^(-1/2) (W^T W)^(1/2) D_v^(-1/2) attains max(phi_v/v) max(phi_u/u). For the mean error u is
fixed at 1, and the sum of the squared row norms takes the place of their maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.factorization.solve.curvature import MOST_ROWS
from csgm_cli.factorization.solve.fixed_point import fixed_point, keeps_pace
from csgm_cli.factorization.solve.interior_point import interior
from csgm_cli.factorization.solve.oracle import oracle_for
from csgm_cli.factorization.solve.problem import Point, Problem
from csgm_cli.model.factorization import Dual, Objective, Workload
from csgm_cli.ranges import check_range

Array = NDArray[np.float64]
#: Step, gap, and the weights from which the solver can go on, where it has some.
Progress = Callable[[int, float, Dual | None], None]

#: Step limits of the fixed point, and of Newton's method, which needs at most about fifty.
_MOST_STEPS, _MOST_NEWTON_STEPS = 1000, 120
#: The rounding part of the gap may grow by this factor from the first weights.
_SPARE = 3.0
#: Start weights with one below this share of the largest come from Newton's method.
_VANISHING = 1e-5


@dataclass(frozen=True, eq=False)
class Solution:
    """Weights with what they prove.

    No factorization has less error (||B||_F^2 sensitivity^2 / T, or the worst row's) than ``lower``; the
    one that belongs to ``dual`` has at most ``upper``. ``column_scale``: the largest diagonal entry
    of C^T C before it is scaled to 1. ``iterations``: evaluations of phi.
    """

    dual: Dual
    lower: float
    upper: float
    column_scale: float
    iterations: int

    @property
    def gap(self) -> float:
        """How far ``upper`` is above ``lower``, relatively."""
        return self.upper / self.lower - 1.0


def solve(
    workload: Workload,
    objective: Objective,
    tolerance: float = 1e-9,
    *,
    start: Dual | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Weights whose certified relative gap is at most ``tolerance`` (in [1e-13, 1]).

    ``start``: weights to resume from. ``progress(iteration, gap, dual)`` is called after every step.
    ``NoAnswerError`` (slug ``not-certified``) where rounding keeps the gap above the tolerance.
    """
    check_range("tolerance", tolerance)
    problem = Problem(workload, objective, oracle_for(workload), max(1e-15, 1e-5 * tolerance))
    x = problem.pack(start) if start is not None else problem.first()
    least, why, hint = float("inf"), "", "use a larger `tolerance`"
    for iteration, point in enumerate(_points(problem, x, tolerance), 1):
        if progress is not None:
            progress(iteration, point.gap, point.dual)
        if point.gap <= tolerance:
            return Solution(point.dual, point.lower, point.upper, point.column_scale, iteration)
        least = min(least, point.gap)
        if point.gap_floor > tolerance:
            why = f"; rounding alone may be {point.gap_floor:.2g}"
            hint = f"`tolerance` {10.0 ** math.ceil(math.log10(_SPARE * point.gap_floor)):g} can be reached"
            break
    raise NoAnswerError(
        "not-certified",
        f"the gap could not be brought to {tolerance:g} at T = {workload.T}: {least:.2g} was certified{why}",
        hint,
    )


def _points(problem: Problem, x: Array, tolerance: float) -> Iterator[Point]:
    """The fixed point while it keeps pace, then Newton's method from the best of its points."""
    first = best = None
    for step, point in enumerate(islice(fixed_point(problem, x), _MOST_STEPS), 1):
        yield point
        first = first or point
        best = point if best is None or point.gap < best.gap else best
        vanishing = step == 1 and float(np.exp(x - x.max()).min()) < _VANISHING
        slow = vanishing or not keeps_pace(step, first.gap, best.gap)
        if slow and problem.workload.T <= MOST_ROWS:
            yield from islice(interior(problem, best, tolerance), _MOST_NEWTON_STEPS)
            return


def certificate(workload: Workload, objective: Objective, dual: Dual) -> Solution:
    """What given weights prove, and what belongs to them, without a step of the solver.

    ``UsageError`` (slug ``bad-dual``) unless the weights are positive, of comparable size (at least 1e-50 of
    the largest), and as many as the workload has rows.
    """
    problem = Problem(workload, objective, oracle_for(workload), 1e-14)
    with np.errstate(all="ignore"):  # the result is checked
        point = problem.at(problem.pack(dual))
    if not (0.0 < point.lower <= point.upper < np.inf and np.isfinite(point.column_scale)):
        raise UsageError("bad-dual", "the weights are too far apart to be computed with")
    return Solution(point.dual, point.lower, point.upper, point.column_scale, 0)


def column_norms(workload: Workload, objective: Objective, dual: Dual) -> Array:
    """The column norms of the C that belongs to ``dual``, the largest 1.

    Longer columns take nothing from the mean error, so that all have norm 1 there. The max error may have
    columns without influence on the worst rows: to lengthen them would make these worse.
    """
    if objective is Objective.MEAN:
        return np.ones(workload.T)
    columns = oracle_for(workload).diagonals(dual, 1e-14, rows=False).columns / dual.columns
    return np.asarray(np.sqrt(columns / columns.max()))


def lower_bound(workload: Workload, objective: Objective) -> float:
    """A proven bound without solving: that of equal weights, (nuclear norm of A / T)^2."""
    problem = Problem(workload, objective, oracle_for(workload), 1e-13)
    return problem.at(problem.equal()).lower
