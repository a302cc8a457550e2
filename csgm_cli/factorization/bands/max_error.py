"""The banded C with the smallest max error, and a lower bound by fixed weights.

The largest row error e_t is the limit of the norm (sum e_t^(q+1))^(1/(q+1)), whose gradient is that of the
sum with weights (e_t/norm)^q. For any weights u of sum 1, the max error of any C is at least min sum u_t e_t.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from csgm_cli.factorization.bands.blocks import blocks_of, evaluate
from csgm_cli.factorization.bands.certificate import lower_bound
from csgm_cli.factorization.bands.solver import descend

if TYPE_CHECKING:
    from csgm_cli.factorization.bands.blocks import Evaluation

Array = NDArray[np.float64]

#: Exponents q in turn, each starting from the C of the previous one, and the steps for each.
_EXPONENTS, _STEPS = (4, 16, 64, 256, 1024, 4096), 100
#: The bound needs positive weights: this fraction is spread over all rows.
_SPREAD = 0.02
#: Steps towards the C of the bound, and between two evaluations of it.
_BOUND_STEPS, _EVALUATED = 600, 25
#: The search for the bound ends at this fraction of the tolerance.
_ENOUGH = 0.6


class MaxError(NamedTuple):
    """The bands of C; the row weights and the bands of the C that prove the lower bound; number of steps."""

    bands: Array
    weights: Array
    bound_bands: Array
    iterations: int


def solve_max_error(
    start: Array, norms: Array, tolerance: float, progress: Callable[[int, float], None] | None = None
) -> MaxError:
    """A C with columns of these ``norms`` and a small max error for prefix sums, with a lower bound.

    The certified gap is 0.002 to 0.003; the search for the bound ends well below ``tolerance``.
    """
    bands, steps = start, 0
    for exponent in _EXPONENTS:
        for at in islice(descend(bands, norms, _weigh(exponent), _norm(exponent)), _STEPS):
            bands, steps = at, steps + 1
    rows = blocks_of(bands).row_errors()
    weights = _spread(_weigh(_EXPONENTS[-1])(rows))
    best, least = bands, np.inf
    for step, at in enumerate(islice(descend(bands, norms, weights), _BOUND_STEPS)):
        if step % _EVALUATED:
            continue
        gap = float(rows.max()) / lower_bound(evaluate(at, weights), norms, len(at)) - 1.0
        if progress is not None:
            progress(steps + step, gap)
        if gap < least:
            best, least = at, gap
        if gap <= _ENOUGH * tolerance:
            break
    return MaxError(bands, weights, best, steps + step)


def _spread(weights: Array) -> Array:
    """The weights scaled to sum 1, with the fraction _SPREAD spread equally over all rows."""
    return np.asarray((1.0 - _SPREAD) * weights / weights.sum() + _SPREAD / len(weights))


def _weigh(exponent: int) -> Callable[[Array], Array]:
    return lambda rows: (rows / _norm_of(rows, exponent)) ** exponent


def _norm(exponent: int) -> Callable[[Evaluation], float]:
    return lambda found: _norm_of(found.rows, exponent)


def _norm_of(rows: Array, exponent: int) -> float:
    """(sum rows^(q+1))^(1/(q+1)) for the exponent q."""
    most = float(rows.max())
    return most * float(((rows / most) ** (exponent + 1)).sum() ** (1.0 / (exponent + 1)))
