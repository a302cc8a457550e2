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
#: The bound needs weight on every row: this share is spread over all of them. It costs up to half of it, with
#: few bands too much; a smaller one takes more steps, and needs the C of a larger one to begin with.
_SPREADS = (0.02, 0.01, 0.005)
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
    best, proof, least = bands, rows, np.inf
    for share in _SPREADS:
        weights = _spread(_weigh(_EXPONENTS[-1])(rows), share)
        for at in islice(descend(best, norms, weights), 0, _BOUND_STEPS, _EVALUATED):
            gap = float(rows.max()) / lower_bound(evaluate(at, weights), norms, len(at)) - 1.0
            if progress is not None:
                progress(steps, gap)
            if gap < least:
                best, proof, least = at, weights, gap
            if gap <= _ENOUGH * tolerance:
                break
            steps += _EVALUATED
        if least <= tolerance:
            break
    return MaxError(bands, proof, best, steps)


def _spread(weights: Array, share: float) -> Array:
    """The weights with sum 1 and a ``share`` of it on all rows alike."""
    return np.asarray((1.0 - share) * weights / weights.sum() + share / len(weights))


def _weigh(exponent: int) -> Callable[[Array], Array]:
    return lambda rows: (rows / _norm_of(rows, exponent)) ** exponent


def _norm(exponent: int) -> Callable[[Evaluation], float]:
    return lambda found: _norm_of(found.rows, exponent)


def _norm_of(rows: Array, exponent: int) -> float:
    """(sum rows^(q+1))^(1/(q+1)) for the exponent q."""
    most = float(rows.max())
    return most * float(((rows / most) ** (exponent + 1)).sum() ** (1.0 / (exponent + 1)))
