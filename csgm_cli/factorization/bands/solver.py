"""The banded C with the smallest error: L-BFGS on normalised columns, until the gap is certified.

The problem is convex in X = C^T C, and C is a smooth function of X: every stationary point is the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import NoAnswerError
from csgm_cli.factorization.bands.blocks import Evaluation, bands_from, dual_blocks, evaluate
from csgm_cli.factorization.bands.certificate import lower_bound
from csgm_cli.factorization.bands.descent import Point, descent

Array = NDArray[np.float64]
#: The value to minimise; its gradient is that of the evaluation's weighted error.
Value: TypeAlias = Callable[[Evaluation], float]
Weights: TypeAlias = Array | Callable[[Array], Array]

#: Pairs of L-BFGS, and fewer for bands with many numbers, to save memory.
_PAIRS, _FEW_PAIRS, _MANY_NUMBERS = 20, 6, 1_000_000
#: Steps between two certificates, and in total.
_CERTIFIED, _MOST_STEPS = 25, 5000
#: Safety factor: the gap is measured again after the column norms are rounded.
_INSIDE = 0.99


def normalised(bands: Array, norms: Array) -> Array:
    """The columns scaled to these norms."""
    return np.asarray(bands * (norms / np.sqrt(np.einsum("lj,lj->j", bands, bands))))


def solve_bands(
    start: Array,
    norms: Array,
    weights: Array,
    tolerance: float,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[Array, int]:
    """The C with columns of these ``norms`` and least weighted error for prefix sums, and the steps taken.

    From the bands ``start``, to a certified relative gap below ``tolerance``. ``NoAnswerError`` (slug
    ``not-certified``) if that is not reached.
    """
    least, step = np.inf, 0
    for step, bands in _at_intervals(descend(start, norms, weights)):
        found = evaluate(bands, weights)
        gap = found.value / lower_bound(found, norms, len(bands)) - 1.0
        least = min(least, gap)
        if progress is not None:
            progress(step, gap)
        if gap <= tolerance * _INSIDE:
            return bands, step
    raise NoAnswerError(
        "not-certified",
        f"the gap did not reach {tolerance:g} with {len(start)} bands at T = {len(norms)}:"
        f" {least:.2g} was certified in {step} steps",
        "use a larger `tolerance`",
    )


def _at_intervals(found: Iterator[Array]) -> Iterator[tuple[int, Array]]:
    """Every 25th item and the last one, with its index."""
    step, bands = -1, None
    for step, bands in enumerate(found):
        if step % _CERTIFIED == 0:
            yield step, bands
    if bands is not None and step % _CERTIFIED:
        yield step, bands


def descend(
    start: Array, norms: Array, weights: Weights, value: Value = lambda found: found.value
) -> Iterator[Array]:
    """The bands of each step, of at most 5000, with columns of these ``norms``."""
    bands = normalised(start, norms)
    scale = 1.0 if callable(weights) else _scale(bands, weights)
    pairs = _FEW_PAIRS if bands.size > _MANY_NUMBERS else _PAIRS
    points = descent(partial(_error, norms, weights, value), bands.T.reshape(-1), pairs, scale)
    for point in islice(points, _MOST_STEPS + 1):
        yield normalised(_columns(point.x, norms), norms)


def _scale(bands: Array, weights: Array) -> Array:
    """Approximate inverse second derivatives: 1/D_jj for column j, which varies by orders of magnitude."""
    lower, _ = dual_blocks(evaluate(bands, weights))
    return np.repeat(1.0 / np.einsum("kii->ki", lower).reshape(-1)[: bands.shape[1]], len(bands))


def _error(norms: Array, weights: Weights, value: Value, x: Array) -> Point:
    """The error of the C whose columns are those of ``x``, one after the other, scaled to ``norms``."""
    columns = _columns(x, norms)
    if not (columns[0] > 0.0).all():
        return Point(x, np.inf, x)
    lengths = np.sqrt(np.einsum("lj,lj->j", columns, columns))
    bands = columns * (norms / lengths)
    with np.errstate(all="ignore"):  # a step may leave the stable filters
        found = evaluate(bands, weights)
        gradient = -2.0 * bands_from(found.lower, found.left, bands.shape)
        along = np.einsum("lj,lj->j", bands, gradient) / norms**2
        gradient -= bands * along
        gradient *= norms / lengths
        error = value(found)
    finite = np.isfinite(error) and np.isfinite(gradient).all()
    return Point(x, error if finite else np.inf, gradient.T.reshape(-1))


def _columns(x: Array, norms: Array) -> Array:
    """The bands (p, T) whose columns are stored one after the other in ``x``."""
    return x.reshape(len(norms), -1).T
