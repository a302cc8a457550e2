"""What far losses add to ``loss_grid``'s hockey-sticks and test functions, but for strays.

E_Q[Y - k; far] and E_Q[Y log(Y/v) - Y + v; far], each with a bound on its rounding. Probabilities and
means of far losses are many times larger than these where the strike is next to the losses: each such
sum is also taken coordinate by coordinate, where nothing cancels, and what is left of the
probabilities is of second order. With q and p = k q + d the Q- and P-mass of one coordinate's far losses,
r = -n log(1 - q) and -n log(1 - p) = k r + D,

    P(far) - k Q(far) = e^(-k r) (1 - e^-D) - (e^(-k r) - 1 + k r) + k (e^-r - 1 + r).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.core.loss_far import LIFT
from csgm_cli.core.sliced_law import excess

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from csgm_cli.core.loss_far import Far

    Array = NDArray[np.float64]

#: Far losses are next to the strike if less likely than the first, and the strike is below the second.
_SURE, _LOW = 0.99, 3.0
#: How many digits the loss of a coordinate has, and sums, and the mean loss of the other coordinates.
_LOSS, _SUM, _BESIDE = 1e-14, 1e-14, 3e-13
#: Up to this x the series of log(1 - x) is used.
_SMALL = 0.01
_LOWER = math.exp(-LIFT)


def linear(far: Far, strike: float) -> tuple[float, float]:
    """E_Q[Y - k; far], log k = ``strike``, and a bound on its rounding."""
    direct = far.p - math.exp(strike + far.log_q), far.error(strike)
    if not _is_next_to(far, strike):
        return direct
    return min(direct, _paired_linear(far, strike), key=lambda pair: pair[1])


def convex(far: Far, strike: float) -> tuple[float, float]:
    """E_Q[Y log(Y/v) - Y + v; far], log v = ``strike``, and a bound on its rounding."""
    mean = far.mean_loss
    value = mean - (1 + strike) * far.p + math.exp(strike + far.log_q)
    direct = value, far.error(strike) * (2 + abs(strike)) + 1e-12 * abs(mean)
    if not _is_next_to(far, strike):
        return direct
    return min(direct, _paired_convex(far, strike), key=lambda pair: pair[1])


def _is_next_to(far: Far, strike: float) -> bool:
    return 0.0 < far.p < _SURE and strike < _LOW


def _paired_linear(far: Far, strike: float) -> tuple[float, float]:
    lifted, off = _gained(far, strike)
    counts, q, k, gained = far.counts, far.qs, math.exp(strike), lifted * _LOWER
    kq = k * q
    more = gained * kq / (1 - kq) + _log_less(gained / (1 - kq)) + _log_less(kq)
    growth = _counted(counts, lifted) + float((counts * (more - k * _log_less(q))).sum())
    r = float((counts * -np.log1p(-q)).sum())
    value = -math.exp(-k * r) * math.expm1(-growth) - _excess(-k * r) + k * _excess(-r)
    second = float((counts * (np.abs(more) + k * _log_less(q))).sum()) + (1 + k) * k * r * r
    return value, _counted(counts, off) + _SUM * second + far.out_of_sight


def _paired_convex(far: Far, strike: float) -> tuple[float, float]:
    """Of the mean, (1 + strike) n p and v n q go to the coordinates: the rest has n p - P and n q - Q."""
    bent, off = np.zeros((2, len(far.parts)))
    for i, (nodes, mass) in enumerate(zip(far.above, far.lifted, strict=True)):
        above = nodes.loss - strike
        bent[i] = float((mass * excess(-above)).sum())
        off[i] = far.digits * bent[i] + _LOSS * float((mass * np.abs(above * nodes.loss)).sum())
    counts, q, v = far.counts, far.qs, math.exp(strike)
    lifted = _more_likely(far)  # p - q
    apart = lifted * _LOWER
    p = q + apart
    rate, r = (float((counts * -np.log1p(-x)).sum()) for x in (p, q))
    more = counts * (apart * q / (1 - q) + _log_less(apart / (1 - q)))
    growth = _counted(counts, lifted) + float(more.sum())
    less = _excess(-growth) + math.expm1(-r) * math.expm1(-growth) - float(more.sum())
    less_p = _excess(-rate) - float((counts * _log_less(p)).sum())
    value = _counted(counts, bent) + far.mean_beside + v * less - _excess(strike) * less_p
    second = v * (float(np.abs(more).sum()) + growth * (growth + r)) + _excess(strike) * rate * rate
    rounding = _counted(counts, off) + _BESIDE * abs(far.mean_beside) + _SUM * second
    return value, rounding + far.out_of_sight * (2 + abs(strike))


def _gained(far: Far, strike: float) -> tuple[Array, Array]:
    """E_Q[Y - k; above] of one coordinate of each part, and bounds on the rounding of these, both lifted."""
    values, errors = np.zeros((2, len(far.parts)))
    for i, (nodes, mass) in enumerate(zip(far.above, far.lifted, strict=True)):
        terms = mass * -np.expm1(strike - nodes.loss)
        values[i] = float(terms.sum())
        errors[i] = far.digits * float(np.abs(terms).sum()) + _LOSS * float((mass * np.abs(nodes.loss)).sum())
    return values, errors


@lru_cache(maxsize=8)
def _more_likely(far: Far) -> Array:
    return _gained(far, 0.0)[0]


def _counted(counts: Array, lifted: Array) -> float:
    """The sum over all coordinates of what is the same for those of a part."""
    return float((counts * lifted).sum()) * _LOWER


def _log_less(x: Array) -> Array:
    """-log(1 - x) - x."""
    small = np.clip(x, -_SMALL, _SMALL)
    series = np.zeros_like(small)
    for j in range(9, 1, -1):
        series = small * series + 1 / j
    return np.where(np.abs(x) < _SMALL, small * small * series, -np.log1p(-x) - x)


def _excess(w: float) -> float:
    """`excess` of one number."""
    if abs(w) >= 0.02:
        return math.expm1(w) - w
    return w * w / 2 * (1 + w / 3 * (1 + w / 4 * (1 + w / 5 * (1 + w / 6 * (1 + w / 7)))))
