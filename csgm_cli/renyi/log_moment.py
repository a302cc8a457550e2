r"""The log-moment of one coordinate, in float64, with an estimate of its own error.

    Y = (1 - g) + g M,   M = exp(x sqrt(t) - t/2),   x ~ N(0, 1)
    K(a; g, t) = log E[Y^a]                      (docs/theory.md, "One coordinate")

Since ``E[Y] = 1``, with ``y = Y - 1`` this equals ``K = log1p(E[h(y)])`` where
``h(y) = (1+y)^a - 1 - a y >= 0``. K is often between 1e-22 and 1e-6 and is multiplied by 1e6 to 1e21
coordinates and rounds, so h must be computed without cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from csgm_cli.renyi.moment import INFINITE_MOMENT, LARGEST_EXPONENT, LogMoment, gaussian_moment
from csgm_cli.renyi.tilt import LOG_ACCURACY, STRIP, integration_interval, peak_intervals

Array = NDArray[np.float64]

_ULP = 2.0**-53
#: From this sqrt(t) on, the integrand has two separate peaks with closed forms, see `_separate_peaks`.
FAR = 24.0
#: h is a power series where |y| max(|a|, 4) is below this.
_SERIES_RADIUS = 0.5
#: Larger exponents are scaled before exp; this leaves room for factors of 1e40.
_LARGE = LARGEST_EXPONENT - 100.0
#: Grids with more nodes are first restricted to where the integrand is not negligible; beyond the second
#: number there is no result.
_LONG, _TOO_LONG = 3000, 4_000_000
#: Number of nodes up to which several grids are concatenated; larger arrays do not fit into caches.
_MOST_BATCHED = 10 * _LONG


def log_moment(order: float, gamma: float, t: float) -> LogMoment:
    """K(order; gamma, t) for gamma in (0, 1], t = kappa^2 / sigma^2 >= 0.

    ``order`` is above 1 (add direction) or below 0 (remove direction: the Renyi order of Q relative to P
    is then 1 - order). All fields are infinite if float64 cannot represent the value or the grid is too
    long.
    """
    return mixed_log_moments(order, [(gamma, t)])[0]


def mixed_log_moments(order: float, coordinates: Sequence[tuple[float, float]]) -> list[LogMoment]:
    """`log_moment` at several (gamma, t), in batches that cost little more than one call."""
    found = [_closed_form(order, gamma, t) for gamma, t in coordinates]
    left = [
        (gamma, math.sqrt(t)) for (gamma, t), known in zip(coordinates, found, strict=True) if known is None
    ]
    computed = chain.from_iterable(_quadrature(order, batch) for batch in _batches(order, left))
    return [known if known is not None else next(computed) for known in found]


#: gamma, s = sqrt(t), the interval where the integrand is not negligible, and the step of the trapezoid rule.
_Piece = tuple[float, float, tuple[float, float], float]


def _batches(order: float, coordinates: Sequence[tuple[float, float]]) -> Iterator[list[_Piece]]:
    """Split the coordinates into batches with a bounded total number of nodes."""
    batch: list[_Piece] = []
    nodes = 0.0
    for gamma, s in coordinates:
        span, step = integration_interval(order, gamma, s), _step(s)
        size = (span[1] - span[0]) / step
        if batch and nodes + size > _MOST_BATCHED:
            yield batch
            batch, nodes = [], 0.0
        batch.append((gamma, s, span, step))
        nodes += size
    if batch:
        yield batch


def _closed_form(order: float, gamma: float, t: float) -> LogMoment | None:
    """K in closed form; None if it needs quadrature."""
    if gamma == 1.0:
        return gaussian_moment(order, t)
    if t == 0.0:
        return LogMoment(0.0, 0.0, 0.0, 0.0)
    return _separate_peaks(order, gamma, t) if math.sqrt(t) >= FAR else None


def _separate_peaks(a: float, g: float, t: float) -> LogMoment:
    """K if the mask bit is almost revealed, so that the integrand of E[Y^a] has two separate peaks.

    One is at x = 0, where Y = 1 - g, and one at x = a sqrt(t), where Y = g M. The part between them is
    less than exp(-t/10) of the whole. E[Y^a] - 1 is computed without cancellation as a -> 1.
    """
    log_g, log_rest = math.log(g), math.log1p(-g)
    if a < 0.0:  # Y^a is largest where the coordinate is not sent, and there it is constant
        return LogMoment(a * log_rest, log_rest, 0.0, 16 * _ULP)
    exponent = (a - 1) * (log_g + a * t / 2)
    if not math.isfinite(exponent):
        return INFINITE_MOMENT
    if exponent < LARGEST_EXPONENT:
        value = math.log1p(g * math.expm1(exponent) + (1 - g) * math.expm1((a - 1) * log_rest))
    else:
        value = exponent + log_g
    high = math.exp(log_g + exponent - value)  # the share of the peak at a sqrt(t)
    slope = log_g + (a - 0.5) * t
    d_order = high * slope + (1 - high) * log_rest
    d2_order = high * (t + slope**2) + (1 - high) * log_rest**2 - d_order**2
    error = _ULP * (20.0 + 8.0 * exponent / max(1.0, value))
    return LogMoment(value, d_order, max(d2_order, high * t), error)


def _quadrature(a: float, pieces: Sequence[_Piece]) -> list[LogMoment]:
    """K of each piece by the trapezoid rule in x, which converges geometrically here.

    The grids are concatenated, because numpy's overhead per call dominates on short arrays.
    """
    grids = [_grid(a, *piece) for piece in pieces]
    laid = [
        (g, s, grid, step) for (g, s, _, step), grid in zip(pieces, grids, strict=True) if grid is not None
    ]
    if not laid:
        return [INFINITE_MOMENT] * len(grids)
    sizes = [x.size for _, _, x, _ in laid]
    starts = np.cumsum([0, *sizes[:-1]])
    nodes = np.concatenate([x for _, _, x, _ in laid])
    rates = [g for g, _, _, _ in laid]
    one_rate = len(set(rates)) == 1  # the usual case; a scalar is cheaper than an array
    f = _integrand(
        nodes,
        a,
        rates[0] if one_rate else np.repeat(rates, sizes),
        np.repeat([s for _, s, _, _ in laid], sizes),
        starts,
    )
    sums = np.add.reduceat(f.summed(), starts, axis=1).T
    uneven = np.abs(np.add.reduceat(f.h[::2] - f.h[1::2], starts // 2))  # grid sizes are even
    columns = zip(laid, f.shifts, sums.tolist(), uneven.tolist(), strict=True)
    computed = iter([_moment(step, shift, row, odd) for (_, _, _, step), shift, row, odd in columns])
    return [INFINITE_MOMENT if grid is None else next(computed) for grid in grids]


def _moment(step: float, shift: float, sums: Sequence[float], uneven: float) -> LogMoment:
    """K and its derivatives from the sums over one grid."""
    sum_h, sum_order, sum_order2, sum_exponents = sums
    if sum_h == 0.0:  # the order is 0 or 1 up to rounding
        return INFINITE_MOMENT
    excess = step / math.sqrt(2 * math.pi) * sum_h
    total = excess + math.exp(-shift)  # E[Y^a] exp(-shift)
    value = math.log1p(excess) if shift == 0.0 else shift + math.log(total)
    share = excess / total / sum_h
    d_order = share * sum_order
    d2_order = share * sum_order2 - d_order**2
    # Rounding of the exponents, and the error of the trapezoid rule: halving the step at least squares it,
    # and the difference of the two interlaced grids of twice the step estimates the error before that.
    halves = 2.0 * uneven / sum_h
    relative = _ULP * (60.0 + 2.0 * sum_exponents / sum_h) + 100.0 * halves * halves
    error = relative * min(1.0, 1.0 / value) + 8 * _ULP
    return LogMoment(value, d_order, max(d2_order, 0.0), error)


def _step(s: float) -> float:
    """Step h of the trapezoid rule.

    By the bound of `csgm_cli.renyi.tilt.STRIP`; without the zeros of Y, y = 2 pi/h would be optimal.
    """
    free = 2 * math.pi / math.sqrt(2 * 100.0)
    y = STRIP * math.pi / s
    if y >= 2 * math.pi / free:
        return free
    return min(free, 2 * math.pi * y / (LOG_ACCURACY + y * y / 2))


def _grid(a: float, g: float, s: float, span: tuple[float, float], step: float) -> Array | None:
    """An even number of equidistant nodes where the integrand is not negligible, within ``span``."""
    spans = [span]
    if (span[1] - span[0]) / step > _LONG:
        spans = peak_intervals(a, g, s) or _nonnegligible_span(a, g, s, *span)
    counts = [2 * math.ceil((high - low) / step / 2) for low, high in spans]  # even: see `_moment`
    if not 0 < sum(counts) <= _TOO_LONG:
        return None
    nodes = [low + step * np.arange(n, dtype=np.float64) for (low, _), n in zip(spans, counts, strict=True)]
    return nodes[0] if len(nodes) == 1 else np.concatenate(nodes)


def _nonnegligible_span(a: float, g: float, s: float, low: float, high: float) -> list[tuple[float, float]]:
    """The part of [low, high] where the integrand is not negligible, from a coarse scan."""
    if high - low > _TOO_LONG:
        return []
    coarse = np.arange(low, high, 1.0)  # no peak is narrower than the Gaussian's
    h = _integrand(coarse, a, g, np.full_like(coarse, s), np.array([0])).h
    alive = np.flatnonzero(h > 1e-19 * h.max())
    if not alive.size:  # it is out of float64's range everywhere
        return []
    return [(float(coarse[alive[0]]) - 2.0, float(coarse[alive[-1]]) + 2.0)]


@dataclass(frozen=True)
class _Integrand:
    """The integrands at the nodes; ``h`` and the following fields include the factor exp(-x^2/2 - shift)."""

    u: Array  # log Y
    exponents: Array  # magnitudes of the exponents, to bound their rounding errors
    h: Array  # Y^a - 1 - a (Y - 1)
    h_order: Array  # dh/da = Y^a log Y - (Y - 1)
    tilted: Array  # Y^a
    shifts: list[float]  # one for each grid

    def summed(self) -> Array:
        """The four quantities that `_moment` sums, one per row."""
        rows = np.empty((4, self.h.size))
        rows[0], rows[1] = self.h, self.h_order
        rows[2] = self.tilted * self.u * self.u
        rows[3] = self.h * self.exponents
        return rows


def _integrand(x: Array, a: float, g: float | Array, s: Array, starts: NDArray[np.int64]) -> _Integrand:
    """The integrands on grids that begin at ``starts``; ``s`` (and ``g`` if it varies) is given per node."""
    z = s * (x - s / 2)
    log_g = np.log(g) if isinstance(g, np.ndarray) else math.log(g)
    y = g * np.expm1(np.minimum(z, _LARGE))
    u = np.where(z < _LARGE, np.log1p(y), z + log_g)
    half_square = x * x / 2
    exponent = a * u - half_square
    peaks = np.maximum.reduceat(exponent, starts)
    shifts = np.where(peaks > _LARGE, peaks, 0.0)  # a small shift would lose digits of log1p
    if shifts.any():
        at_nodes = np.repeat(shifts, np.diff(np.append(starts, x.size)))
        half_square, exponent = half_square + at_nodes, exponent - at_nodes
    bell, tilted = np.exp(-half_square), np.exp(exponent)
    small = np.abs(y) * max(abs(a), 4.0) < _SERIES_RADIUS
    y_small, u_small = np.where(small, y, 0.0), np.where(small, u, 0.0)
    # Y^a - Y is computed as Y (Y^(a-1) - 1) to avoid cancellation as a -> 1.
    lift = (a - 1) * u
    above = np.where(
        lift < 1.0, (1.0 + y) * np.expm1(np.minimum(lift, 1.0)) * bell, tilted - (1.0 + y) * bell
    )
    h = np.where(small, _series(y_small, a) * bell, above - (a - 1) * y * bell)
    slope = u_small * np.expm1(a * u_small) - log_gap(y_small)
    h_order = np.where(small, slope * bell, tilted * u - y * bell)
    sent = np.exp(np.minimum(z + log_g - u, 0.0))
    exponents = abs(a) * (np.abs(u) + sent * s * (np.abs(x) + s / 2)) + x * x / 2
    return _Integrand(u, exponents, h, h_order, tilted, shifts.tolist())


def _series(y: Array, a: float) -> Array:
    """(1+y)^a - 1 - a y = sum_{j>=2} C(a, j) y^j for |y| max(|a|, 4) < 1/2."""
    scale = max(abs(a), 4.0)  # so that no coefficient overflows
    w = y * scale
    ratio = max(float(np.abs(w).max()), 1e-300)
    terms = min(19, 3 + math.ceil(40.0 / -math.log(ratio)))
    coefficients = [a * (a - 1) / 2 / scale**2]
    for j in range(3, terms + 1):
        coefficients.append(coefficients[-1] * (a - j + 1) / (j * scale))
    return _horner(coefficients, w) * w * w


def log_gap(y: Array, terms: int = 8) -> Array:
    """Y - log(1+y) = y^2/2 - y^3/3 + ... for |y| < 1/8, to 8^-terms (a derivative needs few terms)."""
    return _horner([(-1.0) ** j / j for j in range(2, terms + 2)], y) * y * y


def _horner(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial with these coefficients, lowest first; computed in place, since the arrays are short."""
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total
