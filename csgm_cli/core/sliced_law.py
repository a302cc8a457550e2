"""The privacy loss of one coordinate-round, cut into slices of the loss.

Y = 1 - g + g exp(x s - s^2/2), x ~ N(0, 1) under Q, loss u = log Y, density Y under P. A slice is
low < u <= high; its moments E_Q[Y^a; slice] are what sums of many coordinates are made of. Most
of the mass has a loss near 0, so that moments are computed as E[Y^a; u <= level] - 1 from

    E[Y^a - 1 - a log Y; u <= level] - a E[Y - 1 - log Y; u <= level] - a E[Y - 1; u > level] - Q(u > level)

(E[Y - 1] = 0), where nothing large cancels: they may be raised to the power 1e12.
Quadrature is Gauss-Legendre on panels over which no exponent changes by more than a `Rule` says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from csgm_cli.core.loss_nodes import (
    LONG,
    SHORT,
    Nodes,
    Outside,
    Pieces,
    log_pieces,
    log_sums_around,
    panel_ends,
    sums_before,
)
from csgm_cli.renyi.exponential_sums import NEAR, excess_series, exponential_sums, power_series, sum_errors

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: x below which nothing is looked at (but for large negative orders), P(x < -13.5) = 8e-42.
LOWEST = -13.5
#: How much further down negative orders make the integrand reach, at most.
_DEEPER = 40.0
#: Normal tails beyond this x are zero in float64.
HIGHEST = 38.0
#: Moments with an integrand above e^30 are not computed as 1 and what differs from it.
_LARGE = 30.0
#: e^w is not taken by itself beyond this.
_OVERFLOWING = 600.0
_UNSEEN = 46.0  # all terms below exp(-46) of the largest are less than the errors of their sum
_BEND = 13.0  # widths from a step on which it is resolved
#: Distances from what bends the integrand, in units of its width, at which panels are laid out.
_SCALES = np.array([-13.0, -9.0, -6.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 6.0, 9.0, 13.0])
#: From 0 to 1, without the ends.
_EVENLY = np.arange(1, 299) / 299
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Line:
    """Equidistant orders: 1 + z (``sign`` 1, add) or -z (``sign`` -1), z = shift + i j step, j < count."""

    sign: int
    shift: float
    step: float
    count: int

    @property
    def z(self) -> ComplexArray:
        """The points of the contour."""
        return np.asarray(self.shift + 1j * self.step * np.arange(self.count, dtype=np.float64))

    @property
    def orders(self) -> ComplexArray:
        """The orders a."""
        return np.asarray(1.0 + self.z if self.sign > 0 else -self.z)

    @property
    def real_order(self) -> float:
        """The common real part of the orders."""
        return 1.0 + self.shift if self.sign > 0 else -self.shift

    @property
    def period(self) -> float:
        """The period in the loss of what the orders can tell."""
        return 2 * math.pi / self.step

    @property
    def size(self) -> float:
        """The largest modulus of an order."""
        return math.hypot(self.real_order, self.step * self.count)


@dataclass(frozen=True)
class Coordinates:
    """``count`` independent coordinate-rounds of rate ``gamma`` and s = sqrt(t)."""

    count: float
    gamma: float
    s: float

    @property
    def floor(self) -> float:
        """The loss is above this, log(1 - gamma)."""
        return math.log1p(-self.gamma) if self.gamma < 1.0 else -math.inf

    @property
    def divergence(self) -> float:
        """An upper bound on E_P[loss]: log E_P[Y], and the Gaussian's with a mask that is known."""
        t = self.s**2
        return min(self.gamma * t / 2, math.log1p(self.gamma**2 * math.expm1(min(t, 50.0))))

    def loss(self, x: Array) -> Array:
        """Log Y."""
        z = self.s * (x - self.s / 2)  # in this order a z near 0 keeps its digits
        y = self.gamma * np.expm1(np.minimum(z, _OVERFLOWING))
        far = (y <= -0.5) | (z > _OVERFLOWING)
        if not far.any():
            return np.asarray(np.log1p(y))
        return np.where(far, self._far_loss(z), np.log1p(np.maximum(y, -0.5)))

    def _far_loss(self, z: Array) -> Array:
        """Log((1 - gamma) + gamma e^z): what NumPy's logaddexp does, out of vectorised functions."""
        log_sent = math.log(self.gamma) + z
        return np.maximum(self.floor, log_sent) + np.log1p(np.exp(-np.abs(self.floor - log_sent)))

    def place(self, loss: float) -> float:
        """The x of a loss; -inf at and below the floor."""
        if loss > 30.0:
            log_m = loss + math.log1p(-(1 - self.gamma) * math.exp(-loss)) - math.log(self.gamma)
        else:
            m = math.expm1(loss) / self.gamma
            if m <= -1.0:
                return -math.inf
            log_m = math.log1p(m)
        return (log_m + self.s**2 / 2) / self.s

    def excess_above(self, x: float, spread: float = 1.0) -> float:
        """E_Q[Y - 1; above x] = gamma P(x - s < N(0, 1) <= x); all in units of ``spread``."""
        s = self.s / spread
        if s > 0.5 and x > s / 2:
            return self.gamma * (upper_tail(x - s) - upper_tail(x))
        if s > 0.5:
            return self.gamma * (upper_tail(-x) - upper_tail(s - x))
        return float(self._excess_between(np.array(x), s))

    def _excess_above_each(self, x: Array) -> Array:
        """The same for each x."""
        if self.s > 0.5:
            return np.array([self.excess_above(x_i) for x_i in x.tolist()])
        return self._excess_between(x[:, None], self.s)

    def _excess_between(self, x: Array, s: float) -> Array:
        """By quadrature along the last axis, where the tails are too close to each other."""
        away = x - s / 2 * (1 - SHORT.points)
        return np.asarray(self.gamma * s / math.sqrt(8 * math.pi) * (np.exp(away**2 / -2) @ SHORT.weights))

    def lowest(self, shift: float) -> float:
        """Where to start for orders down to -``shift``: E[Y^-shift] has its peak above -shift s."""
        return LOWEST - min(shift * self.s, _DEEPER)

    def reached(self, shift: float) -> bool:
        """True if all but exp(-100) of E[Y^-shift] is above ``lowest(shift)``.

        Namely if Y^-shift exp(-x^2/2) still rises by exp(10) for each unit of x, ten units above.
        """
        x = self.lowest(shift) + 10.0
        log_odds = math.log(self.gamma) - self.floor + x * self.s - self.s**2 / 2
        sent = 1 / (1 + math.exp(min(700.0, -log_odds)))
        return shift * self.s * sent <= -x - 10.0 or shift * self.s <= _DEEPER

    def nodes(
        self,
        low: float,
        high: float,
        rate: float,
        cuts: Array | None = None,
        *,
        damped: float = 0.0,
        bends: Sequence[tuple[float, float]] = (),
    ) -> Nodes:
        """Nodes on [low, high] that resolve Y^a for |a| up to ``rate``; panels end at the ``cuts``.

        And steps at the ``bends``, pairs of a place and a width.

        ``damped`` > 0: only real orders between -``rate`` and -``damped`` will be asked for; where they
        make the integrand negligible it need not be resolved.

        Raises `TooManyNodesError` where it would take more than `MOST_NODES`.
        """
        rule = LONG if cuts is None else SHORT
        zero_of_y = (math.log(max(1 - self.gamma, 1e-300) / self.gamma) + self.s**2 / 2) / self.s
        beside = np.concatenate(
            [place + width * _SCALES for place, width in ((zero_of_y, 1 / self.s), *bends)]
        )
        beside = beside[(beside > low) & (beside < high)]
        x = np.sort(np.concatenate([[low, high], low + (high - low) * _EVENLY, beside]))
        loss = self.loss(x)
        rise = rate * (loss - loss[0])
        if damped > 0.0:  # by more than the Gaussian can make up for on the way up from ``low``
            alive = 50.0 + low * low / 2
            folded = np.minimum(np.maximum(rise, alive) / alive, rate / damped)
            rise = np.minimum(rise, alive) + alive * np.log(folded)
        panels = (rise + x * np.abs(x) / 2) / rule.swing + x / rule.width
        panels += rule.singular * np.arcsinh((x - zero_of_y) * (self.s / 3))  # log Y is, pi/s from there
        for place, width in bends:
            panels += np.minimum(np.maximum((x - place) / width, -_BEND), _BEND) / rule.width
        edges = panel_ends(x, panels, rule)
        if cuts is not None:
            edges = np.union1d(edges, cuts[(cuts > low) & (cuts < high)])
        half = (edges[1:] - edges[:-1])[:, None] / 2
        at = (edges[:-1, None] + half + half * rule.points).ravel()
        weights = (half * rule.weights).ravel()
        return Nodes(at, self.loss(at), np.log(weights) - at * at / 2 - _LOG_SQRT_TWO_PI)

    def table(self, nodes: Nodes, levels: Array, orders: Array) -> tuple[Array, Array]:
        """(log E_Q[Y^a; x <= level], E_Q[Y^a; x > level, up to the last node] / E_Q[Y^a; x <= level]).

        For real orders a: one row for each order, one column for each level (in x). Infinite or NaN
        where out of reach.
        """
        pieces = Pieces.of(np.searchsorted(nodes.x, levels), nodes.x.size)
        flat = sums_before(_weighted_excess(nodes.loss, nodes)[None, :], pieces)
        flat += self._excess_above_each(levels)
        gone = np.array([upper_tail(x) for x in levels.tolist()])
        with np.errstate(all="ignore"):
            rows = [_rows(nodes, pieces, flat, gone, block) for block in nodes.blocks(orders)]
        log_below, beyond = zip(*rows, strict=True)
        return np.concatenate(log_below), np.concatenate(beyond)

    def between(self, nodes: Nodes, levels: Array, orders: Array) -> Array:
        """The logarithms of E_Q[Y^a; between one of ascending ``levels`` and the next], for real orders a.

        The first is of what is below all levels. One row for each order.
        """
        at = np.searchsorted(nodes.x, levels)
        result = np.full((orders.size, levels.size), -np.inf)
        some = np.flatnonzero(np.diff(at, prepend=0))
        exponents = nodes.exponents(orders)[:, : at[-1]]
        result[:, some] = log_pieces(exponents, np.concatenate([[0], at[some[:-1]]]))
        return result

    def real_moments(self, nodes: Nodes, outside: Outside, orders: Array) -> Array:
        """Log E_Q[Y^a] over the nodes at real orders a."""
        flat, gone = float(_weighted_excess(nodes.loss, nodes).sum()) + outside.excess, outside.mass
        with np.errstate(all="ignore"):
            return np.concatenate([_real_moments(nodes, flat, gone, block) for block in nodes.blocks(orders)])

    def log_moment(self, line: Line, nodes: Nodes, outside: Outside) -> tuple[ComplexArray, Array]:
        """Log E_Q[Y^a] over the nodes at the orders of ``line``, and the relative errors of the moment."""
        if float((line.real_order * nodes.loss + nodes.log_mass).max()) <= _LARGE:
            less_one, error = _less_one(line, nodes, outside)
            return complex_log1p(less_one), error / np.maximum(np.abs(1.0 + less_one), 1e-300)
        origin = self.floor if line.sign < 0 and self.gamma < 1.0 else 0.0
        sums, error, log_scale = _sums(line, nodes, origin)
        size = np.maximum(np.abs(sums), 1e-300)
        return np.log(size) + 1j * np.angle(sums) + log_scale + line.orders * origin, error / size


def log_more(
    line: Line, nodes: Nodes, log_below: ComplexArray, below_error: Array
) -> tuple[ComplexArray, Array, Array]:
    """Log of (1 + E_Q[Y^a] over the nodes / e^log_below), and errors relative to what is in ().

    ``below_error`` are the relative errors of e^log_below. First of this alone, then of its product with
    e^log_below, which is a mere sum.
    """
    sums, error, log_scale = _sums(line, nodes, 0.0)
    size = np.maximum(np.abs(sums), 1e-300)
    log_ratio = np.log(size) + 1j * np.angle(sums) + log_scale - log_below
    large = log_ratio.real > 300.0
    ratio = np.exp(np.where(large, 0.0, log_ratio))
    whole = np.maximum(np.abs(1.0 + ratio), 1e-300)
    share, rest = np.where(large, 1.0, np.abs(ratio) / whole), np.where(large, 0.0, below_error / whole)
    off = error / size
    return np.where(large, log_ratio, complex_log1p(ratio)), share * (off + below_error), share * off + rest


def _rows(nodes: Nodes, pieces: Pieces, flat: Array, gone: Array, orders: Array) -> tuple[Array, Array]:
    """`Coordinates.table` for some of the orders.

    ``flat`` is E[Y - 1 - log Y; below each level] + E[Y - 1; above], and ``gone`` the mass above.
    """
    exponents = nodes.exponents(orders)
    peaks = exponents.max(axis=1)
    near_one = peaks <= _LARGE
    a = orders[near_one, None]
    gained = sums_before(_weighted_excess(a * nodes.loss, nodes), pieces)
    log_near_one = np.log1p(gained - a * flat - gone)
    if pieces.all_before and near_one.all():
        return log_near_one, np.zeros_like(log_near_one)
    log_below, log_beyond = log_sums_around(exponents, peaks, pieces)
    log_below[near_one] = log_near_one
    return log_below, np.exp(log_beyond - log_below)


def _real_moments(nodes: Nodes, flat: float, gone: float, orders: Array) -> Array:
    """`Coordinates.real_moments` for some of the orders; what no node covers counts as if a were 1."""
    exponents = nodes.exponents(orders)
    result = exponents.max(axis=1)
    near_one = result <= _LARGE
    if not near_one.all():
        large = exponents[~near_one] - result[~near_one, None]
        result[~near_one] += np.log(np.exp(large, out=large).sum(axis=1))
    if near_one.any():
        result[near_one] = np.log1p(_real_gain(orders[near_one], nodes) - orders[near_one] * flat - gone)
    return np.asarray(result)


def _real_gain(orders: Array, nodes: Nodes) -> Array:
    """E_Q[Y^a - 1 - a log Y] over the nodes at real orders."""
    largest = float(np.abs(orders).max())
    near = np.abs(nodes.loss) * largest <= NEAR
    gained = power_series(orders / largest, excess_series(largest * nodes.loss[near], nodes.mass[near])[0])
    if not near.all():
        far = nodes.some(~near)
        gained += _weighted_excess(orders[:, None] * far.loss, far).sum(axis=1)
    return gained


def _less_one(line: Line, nodes: Nodes, outside: Outside) -> tuple[ComplexArray, Array]:
    """E_Q[Y^a] over the nodes - 1 and its errors; what is below the nodes counts as if a were 1."""
    orders = line.orders
    near = np.abs(nodes.loss) * line.size <= NEAR
    flat, gone = float(_weighted_excess(nodes.loss, nodes).sum()) + outside.excess, outside.mass
    signed, sizes = excess_series(line.size * nodes.loss[near], nodes.mass[near])
    total = power_series(orders / line.size, signed) - orders * flat - gone
    error = 4e-15 * (power_series(np.abs(orders) / line.size, sizes) + np.abs(orders) * abs(flat) + gone)
    if not near.all():
        loss, weight = nodes.loss[~near], nodes.mass[~near]
        tilted = np.exp(line.real_order * loss + nodes.log_mass[~near])
        total += exponential_sums(line.sign * loss, tilted, line.step, line.count)
        total -= float(weight.sum()) + orders * float((weight * loss).sum())
        error += sum_errors(loss, tilted, line.step, line.count)
        error += 1e-15 * (float(weight.sum()) + np.abs(orders) * float((weight * np.abs(loss)).sum()))
    return total, error


def _sums(line: Line, nodes: Nodes, origin: float) -> tuple[ComplexArray, Array, float]:
    """Sums of (Y e^-origin)^a and their errors, both over e^scale, and that scale."""
    loss = nodes.loss - origin
    exponents = line.real_order * loss + nodes.log_mass
    log_scale = float(exponents.max())
    seen = exponents > log_scale - _UNSEEN
    loss, tilted = loss[seen], np.exp(exponents[seen] - log_scale)
    sums = exponential_sums(line.sign * loss, tilted, line.step, line.count)
    return sums, sum_errors(loss, tilted, line.step, line.count), log_scale


def excess(w: Array) -> Array:
    """e^w - 1 - w."""
    result = np.expm1(w)
    result -= w
    small = np.abs(w) < 0.02
    v = w[small]
    series = v / 5040
    for term in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2):  # in place: memory takes the time
        series += term
        series *= v
    result[small] = series * v
    return result


def _weighted_excess(w: Array, nodes: Nodes) -> Array:
    """(e^w - 1 - w) times the masses, also where e^w alone would overflow."""
    if w.size and w.max() > _OVERFLOWING:
        large = np.exp(w + nodes.log_mass) - (1.0 + w) * nodes.mass
        return np.where(w > _OVERFLOWING, large, excess(np.minimum(w, _OVERFLOWING)) * nodes.mass)
    result = excess(w)
    result *= nodes.mass
    return result


def complex_log1p(z: ComplexArray) -> ComplexArray:
    """log(1 + z) without losing the digits of a small z, or of a small 1 + z; finite also at -1."""
    a, b = z.real, z.imag
    near = np.abs(z) < 0.5
    x, y = np.where(near, a, 0.0), np.where(near, b, 0.0)
    far = np.log(np.maximum(np.abs(1.0 + z), 1e-300))
    return np.asarray(np.where(near, 0.5 * np.log1p(x * (2 + x) + y * y), far) + 1j * np.arctan2(b, 1 + a))


def upper_tail(x: float) -> float:
    """P(N(0, 1) > x)."""
    return 0.5 * math.erfc(x / math.sqrt(2))


def log_upper_tail(x: float) -> float:
    """The logarithm of that, also where it underflows."""
    if x < 35.0:
        return math.log(upper_tail(x))
    v = 1 / (x * x)
    series = -v * (1 - 3 * v * (1 - 5 * v * (1 - 7 * v)))  # asymptotic, good to 1e-12 from 35 on
    return -x * x / 2 - math.log(x) - _LOG_SQRT_TWO_PI + math.log1p(series)
