"""Means of convex functions of the likelihood ratio in high precision, by a contour integral.

The mean of phi(u), phi a mixture of hockey-sticks, is (1/2 pi i) int E_Q[u^a] kernel(z) dz over a vertical
line, a = 1 + z (add) or -z (remove). On the line through a real point, E_Q[Y^a] of one coordinate is
its value there times the characteristic function of log Y under the law tilted by Y^(Re a). ``digits`` and
results are as in ``log_moment``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.model.certificate import Direction
from csgm_cli.verify.log_moment import SPARE_DIGITS, Number, not_converged, quadrature_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from csgm_cli.verify.renyi import Coordinates

_MAX_ITERATIONS = 3_000_000  # about three seconds; an iteration is one node in x at one node on the line
_MOST_NODES = 12_000  # in x
_ITERATIONS_PER_NODE = 20  # what it costs to set up a node in x
_FIRST_NODES = 24  # on the line
_BISECTIONS = 12  # of the saddle point, which may be off by a percent of its distance from the poles
_LARGEST_SADDLE = mpmath.mpf(10) ** 9
_FAR, _FAR_POINTS = 8, 24  # times the window; how many points are looked at beyond it


@dataclass(frozen=True)
class Kernel:
    """z -> scale exp(-z log_threshold) / product of |z - pole|; the line passes between the poles."""

    scale: mpmath.mpf
    log_threshold: mpmath.mpf
    left: tuple[mpmath.mpf, ...]
    right: tuple[mpmath.mpf, ...] = ()

    def at(self, z: mpmath.mpc) -> mpmath.mpc:
        """The kernel at ``z``, without its scale."""
        poles = mpmath.fprod([z - pole for pole in self.left] + [pole - z for pole in self.right])
        return mpmath.exp(-z * self.log_threshold) / poles

    def slope(self, z: mpmath.mpf) -> mpmath.mpf:
        """The slope of the logarithm on the real axis."""
        return -self.log_threshold - mpmath.fsum(1 / (z - pole) for pole in (*self.left, *self.right))

    def curvature(self, z: mpmath.mpf) -> mpmath.mpf:
        """The second derivative of the logarithm on the real axis."""
        return mpmath.fsum(1 / (z - pole) ** 2 for pole in (*self.left, *self.right))


def contour_mean(
    coordinates: Sequence[Coordinates],
    mu_squared: Number,
    direction: Direction,
    kernel: Kernel,
    digits: int = 20,
) -> mpmath.mpf:
    """The integral of ``kernel``, for independent coordinates and a Gaussian release of squared mu.

    The window grows until the integrand is negligible in its last third and far beyond it; the step of the
    trapezoid rule is halved until two interleaved grids agree. Raises ``NoAnswerError`` (slug
    ``oracle-not-converged``) where that takes too long: with few mask bits the integrand decays slowly.
    """
    most = max([number for number, _, _ in coordinates], default=1)
    wanted = digits + len(str(most)) + 4
    with mpmath.workdps(wanted + SPARE_DIGITS):
        law = _Law(tuple(coordinates), mpmath.mpf(mu_squared), direction, kernel)
        real = law.saddle()
        spare = max([_exponent_digits(1 + real, t) for _, _, t in coordinates], default=0)
    with mpmath.workdps(wanted + spare + SPARE_DIGITS):
        tolerance, window = mpmath.mpf(10) ** -(digits + 1), law.first_window(real, digits)
        line = _Line(law, real, wanted)
        while True:
            terms = line.terms(window, mpmath.mpf(0), window / _FIRST_NODES, _FIRST_NODES + 1)
            if max(abs(term) for term in terms[2 * _FIRST_NODES // 3 :]) < tolerance:
                break
            window *= mpmath.mpf(3) / 2
        far = line.terms(_FAR * window, window, (_FAR - 1) * window / _FAR_POINTS, _FAR_POINTS)
        if max(abs(term) for term in far) > tolerance:
            raise not_converged("the contour integrand does not decay")
        step, total = window / _FIRST_NODES, mpmath.fsum(terms) - terms[0] / 2
        while True:
            between = mpmath.fsum(line.terms(window, step / 2, step, math.ceil(window / step)))
            step, total, change = step / 2, total + between, abs(total - between)
            if change <= abs(total) * mpmath.mpf(10) ** -digits:
                unit = kernel.scale * kernel.at(real) * mpmath.exp(law.log_moment(real, line.log_moments))
                return +(unit * total * step / mpmath.pi)


def _exponent_digits(order: Number, t: Number) -> int:
    """Digits that rounding errors lose in Y^order exp(-x^2/2) where it matters."""
    size = abs(mpmath.mpf(order))
    return int(mpmath.ceil(mpmath.log10((1 + size) * (10 + size * mpmath.mpf(t)) + 1000)))


# ---------------------------------------------------------------- the real axis


@dataclass(frozen=True)
class _Law:
    """What is integrated: independent coordinates, a Gaussian release, and a kernel."""

    coordinates: tuple[Coordinates, ...]
    mu_squared: mpmath.mpf
    direction: Direction
    kernel: Kernel

    @property
    def sign(self) -> int:
        """Of z in the order of the log-moment."""
        return 1 if self.direction is Direction.ADD else -1

    def order(self, z: mpmath.mpc) -> mpmath.mpc:
        """The order of the log-moment at ``z``."""
        return 1 + z if self.direction is Direction.ADD else -z

    def log_moment(self, z: mpmath.mpc, each: Sequence[mpmath.mpf]) -> mpmath.mpc:
        """The log-moment of everything from that of ``each`` kind of coordinate."""
        total = mpmath.fsum(c[0] * value for c, value in zip(self.coordinates, each, strict=True))
        return total + self.gaussian(z)

    def gaussian(self, z: mpmath.mpc) -> mpmath.mpc:
        """The log-moment of the Gaussian release."""
        a = self.order(z)
        return a * (a - 1) * self.mu_squared / 2

    def slope(self, z: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        """The slope of the integrand's logarithm at a real ``z``, and its second derivative."""
        slope = self.kernel.slope(z) + self.sign * (2 * self.order(z) - 1) * self.mu_squared / 2
        curvature = self.kernel.curvature(z) + self.mu_squared
        for number, gamma, t in self.coordinates:
            nodes = TiltedNodes.at(self.order(z), gamma, t, mpmath.mpf(0), 8)
            mean = mpmath.fdot(nodes.weights, nodes.losses)
            square = mpmath.fdot(nodes.weights, [(u - mean) ** 2 for u in nodes.losses])
            slope, curvature = slope + self.sign * number * mean, curvature + number * square
        return slope, curvature

    def saddle(self) -> mpmath.mpf:
        """Approximately the minimum of the integrand between the poles."""
        right = min(self.kernel.right, default=mpmath.inf)
        with mpmath.workdps(15 + len(str(max([n for n, _, _ in self.coordinates], default=1)))):
            low = high = min(mpmath.mpf(1), right / 2)
            while self.slope(low)[0] > 0:
                low, high = low / 2, low
            while high == low or self.slope(high)[0] < 0:
                if high > _LARGEST_SADDLE or right - high < right / 2**40:
                    raise not_converged("no saddle point found")
                low, high = high, min(2 * high, (high + right) / 2)
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                low, high = (low, middle) if self.slope(middle)[0] > 0 else (middle, high)
            return low

    def first_window(self, real: mpmath.mpf, digits: int) -> mpmath.mpf:
        """Where the integrand would be negligible if it were a Gaussian."""
        _, curvature = self.slope(real)
        return mpmath.mpf(3) / 2 * mpmath.sqrt(2 * mpmath.log(10) * (digits + 2) / curvature)


@dataclass(frozen=True)
class TiltedNodes:
    """The law of log Y tilted by Y^order, ``order`` real, on nodes in x; log E[Y^order]."""

    log_moment: mpmath.mpf
    losses: list[mpmath.mpf]
    weights: list[mpmath.mpf]

    @classmethod
    def at(cls, order: mpmath.mpf, gamma: Number, t: Number, height: mpmath.mpf, digits: int) -> TiltedNodes:
        """Nodes that are fine enough for E[Y^(order + i y)], |y| <= height, to 10^-digits of E[Y^order].

        At height q above the axis, b = q sqrt(t) < pi, the integrand is at most exp(q^2/2 + |y| b) times its
        value below, if order >= 0, and cos(b/2)^order times that otherwise, because
        |Y(x+iq)| >= cos(b/2) Y(x); the trapezoid rule turns a factor B at height q into a relative error of
        2 B/(exp(2 pi q/step) - 1).
        """
        gamma, t = mpmath.mpf(gamma), mpmath.mpf(t)
        root, depth = mpmath.sqrt(t), (digits + 1) * mpmath.log(10)
        reach = mpmath.sqrt(2 * depth)
        falling = min(order, mpmath.mpf(0))
        q = min(reach / mpmath.sqrt(1 - falling * t / 4), mpmath.mpf("0.9") * mpmath.pi / root)
        growth = q * q / 2 + height * q * root + falling * mpmath.log(mpmath.cos(q * root / 2))
        step = 2 * mpmath.pi * q / (depth + growth)
        xs = quadrature_nodes(order, gamma, t, depth, step)
        if len(xs) > _MOST_NODES:
            raise not_converged(f"a quadrature needs {len(xs)} nodes")
        losses = [mpmath.log1p(gamma * mpmath.expm1(x * root - t / 2)) for x in xs]
        logs = [order * u - x * x / 2 for u, x in zip(losses, xs, strict=True)]
        peak = max(logs)
        sizes = [mpmath.exp(log - peak) for log in logs]
        total = mpmath.fsum(sizes)
        log_moment = peak + mpmath.log(total * step / mpmath.sqrt(2 * mpmath.pi))
        return cls(log_moment, losses, [size / total for size in sizes])


# ---------------------------------------------------------------- the line


class _Line:
    """The integrand on the line through the real point ``real``, in units of its value there."""

    def __init__(self, law: _Law, real: mpmath.mpf, digits: int) -> None:
        self._law, self._real, self._digits = law, real, digits
        self._height = mpmath.mpf(-1)
        self._nodes: list[TiltedNodes] = []
        self._iterations = 0

    @property
    def log_moments(self) -> list[mpmath.mpf]:
        """Of each kind of coordinate at the real point."""
        return [nodes.log_moment for nodes in self._nodes]

    def terms(self, height: mpmath.mpf, first: mpmath.mpf, step: mpmath.mpf, count: int) -> list[mpmath.mpf]:
        """The real part of the integrand at Im z = first + j step up to ``height``, j < count."""
        law, sign, real = self._law, self._law.sign, self._real
        if height != self._height:
            self._height, order = height, law.order(real)
            self._nodes = [TiltedNodes.at(order, g, t, height, self._digits) for _, g, t in law.coordinates]
            self._iterations += _ITERATIONS_PER_NODE * sum(len(each.losses) for each in self._nodes)
        self._iterations += count * sum(len(each.losses) for each in self._nodes)
        if self._iterations > _MAX_ITERATIONS:
            raise not_converged("the contour integrand decays too slowly")
        columns = [
            characteristic(each, sign * first, sign * step, count, self._digits) for each in self._nodes
        ]
        at_real, gaussian = law.kernel.at(real), law.gaussian(real)
        values = []
        for j in range(count):
            z = mpmath.mpc(real, first + j * step)
            value = law.kernel.at(z) / at_real * mpmath.exp(law.gaussian(z) - gaussian)
            for (number, _, _), column in zip(law.coordinates, columns, strict=True):
                value *= next(column) ** number
            values.append(value.real)
        return values


def characteristic(
    nodes: TiltedNodes, first: mpmath.mpf, step: mpmath.mpf, count: int, digits: int
) -> Iterator[mpmath.mpc]:
    """sum_p weights_p exp(i y losses_p) at y = first + j step, j < count, to about 10^-digits.

    In integers of 2^-bits: from one y to the next each term turns by its own angle.
    """
    bits = math.ceil((digits + 3) * math.log2(10)) + count.bit_length() + 10

    def fixed(factor: mpmath.mpf, angle: mpmath.mpf) -> tuple[int, int]:
        value = factor * mpmath.expj(angle)
        return int(mpmath.ldexp(value.real, bits)), int(mpmath.ldexp(value.imag, bits))

    turns = [fixed(mpmath.mpf(1), step * u) for u in nodes.losses]
    terms = [fixed(w, first * u) for u, w in zip(nodes.losses, nodes.weights, strict=True)]
    for _ in range(count):
        real, imag = sum(x for x, _ in terms), sum(y for _, y in terms)
        yield mpmath.mpc(mpmath.ldexp(real, -bits), mpmath.ldexp(imag, -bits))
        terms = [
            ((x * c - y * s) >> bits, (x * s + y * c) >> bits)
            for (x, y), (c, s) in zip(terms, turns, strict=True)
        ]
