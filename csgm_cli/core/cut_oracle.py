"""One coordinate's loss in high precision, cut smoothly into parts that are low, in the middle, and far.

As in ``oracle``, results are ``mpf``. Nothing of the float64 path is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core.fourier_oracle import falling_sums
from csgm_cli.core.tilt_oracle import Tilted, log_ratio, not_converged, tilted

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDEST = mpmath.mpf(1) / 2  # of the edges, in x
_SHARPER, _LOSSES = 3, mpmath.mpf(1) / 4  # in x, within a factor's change of densities, and of losses
_DESCENTS = 6  # of a right end
_MOST_NODES = 60_000
_BELOW, _ABOVE = 1, -1  # the sides of an edge
_LARGE = 300.0  # exponents of floats
_TAIL = 10  # nodes count up to exp(-_TAIL) of the error

#: How many coordinates, their gamma and t.
Kind = tuple[int, mpmath.mpf, mpmath.mpf]


@dataclass(frozen=True)
class Cut:
    """A loss of one coordinate beyond its loss with nothing sent, at which x of each kind is an edge."""

    excess: mpmath.mpf

    @classmethod
    def at(cls, x: mpmath.mpf, kind: Kind) -> Cut:
        """Return the cut which for that kind is at ``x``."""
        _, gamma, t = kind
        return cls(mpmath.log1p(gamma / (1 - gamma) * mpmath.exp(x * mpmath.sqrt(t) - t / 2)))

    def edge(self, kind: Kind) -> Edge:
        """Return the edge there, no wider than the density and the loss allow, which change by factors."""
        _, gamma, t = kind
        sent, root = mpmath.expm1(self.excess), mpmath.sqrt(t)
        x = (mpmath.log(sent * (1 - gamma) / gamma) + t / 2) / root
        posterior = sent / (1 + sent)
        growth = root * posterior / self.excess  # of the logarithm of the loss
        steep = max(abs(x - posterior * root), 1)  # of the logarithm of the density
        return Edge(x, min(_WIDEST, _SHARPER / steep, _LOSSES / growth), growth)


@dataclass(frozen=True)
class Edge:
    """A smooth step of a ``width`` at ``x``.

    Beyond it what is left falls as exp(-c loss^2), which outweighs what any order makes of it: from
    factor to factor of the loss, which grows by exp(``growth`` x) there.
    """

    x: mpmath.mpf
    width: mpmath.mpf
    growth: mpmath.mpf

    def place(self, x: mpmath.mpc) -> mpmath.mpc:
        """Return how far ``x`` is in widths."""
        return (x - self.x + mpmath.expm1(self.growth * (x - self.x)) / self.growth) / (2 * self.width)


@dataclass(frozen=True)
class Lifted(Tilted):
    """Part of a tilted law on nodes at one height above the real axis, E[Y^order] its mass."""

    def characteristic(
        self, first: mpmath.mpf, step: mpmath.mpf, count: int, digits: int
    ) -> list[mpmath.mpc]:
        """Return E[exp(i y log Y)] at y = first + j step >= 0, j < count, to about 10^-digits."""
        return falling_sums(self.losses, self.weights, first, step, count, digits)

    def cost(self, count: int, _digits: int) -> int:
        """About how many elementary steps that takes."""
        return len(self.losses) * count


def split(order: mpmath.mpf, kind: Kind, low: Edge, far: Edge, digits: int) -> list[Tilted]:
    """Tilt the parts up to ``low``, and from there to ``far``, by Y^order, order >= 0.

    Their errors are below 10^-digits. At height q < pi/sqrt(t) above the axis |Y| is no larger than below,
    and an edge of width w grows by exp(q^2/w^2) at most.
    """
    depth, bend = (digits + 1) * mpmath.log(10), _bend(low, far)
    q = min(mpmath.sqrt(depth / bend), _strip(kind, low, far, depth))
    step = _rounded(2 * mpmath.pi * q / (depth + q * q * bend))
    ends, found = _ends(order, kind, low, far, depth), []
    for shares in _parts(low, far, depth):
        xs = _nodes(order, kind, shares, *ends, step, depth)
        losses, sizes, peak = _sizes(order, kind, shares, xs)
        found.append(tilted(losses, sizes, peak, step, depth))
    return found


def lifted(order: mpmath.mpf, kind: Kind, low: Edge, far: Edge, digits: int) -> list[Tilted]:
    """The same parts for E[Y^(order + i y); part] at any y >= 0, on x + i b.

    There |Y^(i y)| <= 1, as from 0 up to 2 b, which is as far as the trapezoid rule looks. What cancels
    is a factor exp(b^2 bend).
    """
    depth, bend = (digits + 1) * mpmath.log(10), _bend(low, far)
    b = min(mpmath.sqrt(depth / bend), _strip(kind, low, far, depth)) / 2
    step, lost = 2 * mpmath.pi * b / (depth + 4 * b * b * bend), b * b * bend
    with mpmath.workdps(mpmath.mp.dps + int(mpmath.ceil(lost / mpmath.log(10)))):
        deep = depth + lost
        ends, found = _ends(order, kind, low, far, deep), list[Tilted]()
        for shares in _parts(low, far, deep):
            xs = [mpmath.mpc(x, b) for x in _nodes(order, kind, shares, *ends, step, deep)]
            losses, every, peak = _sizes(order, kind, shares, xs)
            total = mpmath.fsum(every).real
            least = total * mpmath.exp(-depth - _TAIL)
            alive = [(u, size / total) for u, size in zip(losses, every, strict=True) if abs(size) > least]
            log_moment = peak + mpmath.log(total * step / mpmath.sqrt(2 * mpmath.pi))
            found.append(Lifted(log_moment, [u for u, _ in alive], [size for _, size in alive]))
    return found


def remembered(order: mpmath.mpf, kind: Kind, low: Edge, far: Edge, digits: int) -> list[Tilted]:
    """`lifted`, of which the last few are kept: nodes suit any height."""
    return _lifted(order, kind, low, far, digits, mpmath.mp.prec)


@lru_cache(maxsize=4)
def _lifted(order: mpmath.mpf, kind: Kind, low: Edge, far: Edge, digits: int, _prec: int) -> list[Tilted]:
    return lifted(order, kind, low, far, digits)


@dataclass(frozen=True)
class Share:
    """How much counts as below an edge, or as above, all to exp(-depth) without looking."""

    edge: Edge
    side: int
    depth: mpmath.mpf

    def __call__(self, x: mpmath.mpc) -> mpmath.mpc:
        """Return it at ``x``."""
        return _share(self.edge, self.side, self.depth, x, mpmath.mp.prec)


@lru_cache(maxsize=1 << 15)
def _share(edge: Edge, side: int, depth: mpmath.mpf, x: mpmath.mpc, _prec: int) -> mpmath.mpc:
    place = edge.place(x) * side
    if place.real < 0 and (place * place).real > depth:
        return mpmath.mpf(1)
    return mpmath.erfc(place) / 2


def _parts(low: Edge, far: Edge, depth: mpmath.mpf) -> list[list[Share]]:
    """The low part and the middle one."""
    inside = Share(far, _BELOW, depth)
    return [[inside, Share(low, _BELOW, depth)], [inside, Share(low, _ABOVE, depth)]]


def _rounded(step: mpmath.mpf) -> mpmath.mpf:
    """Return a power of two below: nodes are the same for edges in many places, and their losses known."""
    return mpmath.ldexp(1, int(mpmath.floor(mpmath.log(step, 2))))


def _strip(kind: Kind, low: Edge, far: Edge, depth: mpmath.mpf) -> mpmath.mpf:
    """How far up edges are edges, and Y has no zero, unless where its zeros are nothing else counts."""
    _, gamma, t = kind
    root, edges = mpmath.sqrt(t), mpmath.pi / max(low.growth, far.growth) / 4
    zero = (mpmath.log((1 - gamma) / gamma) + t / 2) / root
    if zero > 0 and root - zero > 0 and min(zero, root - zero) ** 2 > 3 * depth:
        return edges
    return min(edges, mpmath.mpf("0.9") * mpmath.pi / root)


def _bend(low: Edge, far: Edge) -> mpmath.mpf:
    return mpmath.mpf(1) / 2 + low.width**-2 + far.width**-2


def _ends(
    order: mpmath.mpf, kind: Kind, low: Edge, far: Edge, depth: mpmath.mpf
) -> tuple[mpmath.mpf, mpmath.mpf]:
    return min(low.x, 0) - mpmath.sqrt(2 * depth), _right_end(order, kind, far, depth)


def _right_end(order: mpmath.mpf, kind: Kind, far: Edge, depth: mpmath.mpf) -> mpmath.mpf:
    """Return where the edge at ``far`` has won."""
    _, gamma, t = kind
    here, x = log_ratio(gamma, t, far.x), far.x
    while True:
        x += far.width / 2
        if far.place(x) ** 2 > depth + order * (log_ratio(gamma, t, x) - here):
            return x


def _pull(order: mpmath.mpf, kind: Kind, x: mpmath.mpf) -> mpmath.mpf:
    """Return the slope of log Y^order at ``x``, which rises with x."""
    _, gamma, t = kind
    rest = (1 - gamma) / gamma * mpmath.exp(t / 2 - x * mpmath.sqrt(t))
    return order * mpmath.sqrt(t) / (1 + rest)


def _nodes(
    order: mpmath.mpf,
    kind: Kind,
    shares: Sequence[Share],
    left: mpmath.mpf,
    right: mpmath.mpf,
    step: mpmath.mpf,
    depth: mpmath.mpf,
) -> list[mpmath.mpf]:
    """Return the multiples of ``step`` that count: by floats, which are good enough to tell."""
    first, last = int(mpmath.floor(left / step)), int(mpmath.ceil(right / step))
    if last - first > _MOST_NODES:
        raise not_converged("part of a loss", last - first)
    width, power = float(step), float(order)
    rate, root = float(kind[1]), math.sqrt(kind[2])
    edges = [(float(s.edge.x), float(s.edge.growth), s.side / (2 * float(s.edge.width))) for s in shares]

    def log_size(j: int) -> float:
        x = j * width
        moved = root * (x - root / 2)
        loss = math.log(rate) + moved if moved > _LARGE else math.log1p(rate * math.expm1(moved))
        log = power * loss - x * x / 2
        for at, growth, sharp in edges:
            grown = math.expm1(min(growth * (x - at), _LARGE)) / growth
            log -= max((x - at + grown) * sharp, 0) ** 2
        return log

    logs = [log_size(j) for j in range(first, last + 1)]
    least = max(logs) - float(depth) - 1000 * _TAIL
    return [j * step for j, log in enumerate(logs, first) if log > least]


def _sizes(
    order: mpmath.mpf, kind: Kind, shares: Sequence[Share], xs: Sequence[mpmath.mpc]
) -> tuple[list[mpmath.mpc], list[mpmath.mpc], mpmath.mpf]:
    """Return log Y, what the shares are of Y^order exp(-x^2/2), and the logarithm of its unit."""
    prec = mpmath.mp.prec
    losses = [_loss(kind[1], kind[2], x, prec) for x in xs]
    logs = [order * u - x * x / 2 for u, x in zip(losses, xs, strict=True)]
    peak = max(log.real for log in logs)
    sizes = [mpmath.exp(log - peak) for log in logs]
    for share in shares:
        sizes = [size * share(x) for size, x in zip(sizes, xs, strict=True)]
    return losses, sizes, peak


@lru_cache(maxsize=1 << 15)
def _loss(gamma: mpmath.mpf, t: mpmath.mpf, x: mpmath.mpc, _prec: int) -> mpmath.mpc:
    """Return log Y, above its zeros, too, that of the nearer end of the line."""
    moved = x * mpmath.sqrt(t) - t / 2
    odds = gamma / (1 - gamma) * mpmath.exp(moved)
    if abs(odds) < 1:
        return mpmath.log1p(-gamma) + mpmath.log1p(odds)
    return mpmath.log(gamma) + moved + mpmath.log1p(1 / odds)


def log_near(order: mpmath.mpf, kind: Kind, edge: Edge, digits: int) -> mpmath.mpf:
    """Return log E[Y^order; below the edge], order >= 0."""
    return _log_part(order, kind, edge, _BELOW, digits)


def log_far(order: mpmath.mpf, kind: Kind, edge: Edge, digits: int) -> mpmath.mpf:
    """Return log E[Y^order; above the edge], order >= 0."""
    return _log_part(order, kind, edge, _ABOVE, digits)


def _log_part(order: mpmath.mpf, kind: Kind, edge: Edge, side: int, digits: int) -> mpmath.mpf:
    depth, bend = (digits + 1) * mpmath.log(10), _bend(edge, edge)
    q = min(mpmath.sqrt(depth / bend), _strip(kind, edge, edge, depth))
    step = _rounded(2 * mpmath.pi * q / (depth + q * q * bend))
    if side == _BELOW:
        left, right = _ends(order, kind, edge, edge, depth)
    else:
        reach, right = mpmath.sqrt(2 * depth), mpmath.inf
        for _ in range(_DESCENTS):
            right = max(_pull(order, kind, right), edge.x) + reach
        left = edge.x - 2 * edge.width * (mpmath.sqrt(depth) + edge.width * abs(edge.x))
    shares = [Share(edge, side, depth)]
    _, sizes, peak = _sizes(order, kind, shares, _nodes(order, kind, shares, left, right, step, depth))
    return peak + mpmath.log(mpmath.fsum(sizes) * step / mpmath.sqrt(2 * mpmath.pi))
