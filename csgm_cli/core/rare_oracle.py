"""Expectations of functions of the privacy loss in high precision, where few coordinates are ever sent.

The characteristic function of the loss then falls too slowly for an integral in equidistant steps:
losses of all sizes down to gamma are about as likely. But for the same reason it is smooth on a
logarithmic scale, which a double exponential rule needs that puts its nodes next to the zeros of the
oscillating factor (Ooura and Mori 1999, "A robust double exponential formula for Fourier-type
integrals"). And E[Y^a] at a far a is no harder than at a near one along x + i b, where Y^a falls as
soon as it begins to turn. As in ``oracle``, results are ``mpf``. Nothing of the float64 path is used
here.
"""

from __future__ import annotations

import math
from bisect import bisect
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING

import mpmath
from mpmath.calculus.quadrature import GaussLegendre

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from csgm_cli.core.law_oracle import Kernel, Law

_FINENESS = (0.08, 0.06, 0.045, 0.033, 0.024, 0.018)  # of the rules, one after the other until two agree
_PLACES = [mpmath.mpf(2) ** -k for k in range(6)]  # where the line may pass: the saddle weighs large losses
_NEAR = 4  # times that is how far the integrand has fine structure of its own, and is integrated by itself
_PANELS = 0.25  # there, times 1/fineness, of that degree of mpmath's Gauss-Legendre rules:
_DEGREE = 4
_ROUGH, _SPARE_DIGITS = 8, 10
_LOOKS, _TURNS = 3, 4  # for where most losses are: how often, and at how many radians from the strike
_MOST_DIGITS = 45  # that may cancel and be left: beyond, a minute is not enough
_ONE_BY_ONE = mpmath.mpf(1) / 2  # from this |a log Y| on powers are not summed as a series
_BETA = mpmath.mpf(1) / 4  # Ooura and Mori's choice


def rare_integral(law: Law, kernel: Kernel, error: mpmath.mpf) -> mpmath.mpf | None:
    """(1/2 pi i) int E_Q[e^((1 + z) L)] kernel(z) dz over a vertical line, for poles on the left alone.

    To an absolute ``error``. None where rules do not agree, or where that is far below the integrand.
    """
    always = [t for _, gamma, t in law.kinds if gamma == 1]
    kernel = replace(kernel, blur=mpmath.mpf(kernel.blur) + mpmath.fsum(always))
    kinds = [kind for kind in law.kinds if kind[1] < 1]
    if not kinds:
        return None
    with mpmath.workdps(_ROUGH + _SPARE_DIGITS):
        rough = min(
            (_Line(kinds, kernel, place, _ROUGH) for place in _PLACES), key=lambda line: line.size_of_sent
        )
        away = _Line(kinds, kernel, mpmath.mpf(-1), _ROUGH).away()  # where large losses do not count more
    digits = max(_ROUGH, math.ceil(mpmath.log10(rough.size * kernel.scale / error)))
    if digits > _MOST_DIGITS or away == 0:
        return None
    with mpmath.workdps(digits + _SPARE_DIGITS):
        line = _Line(kinds, kernel, rough.real, digits)
        values = (line.integral(away, h) for h in _FINENESS)
        for coarse, fine in pairwise(values):
            if abs(fine - coarse) * kernel.scale <= error * mpmath.pi:
                return kernel.scale * fine / mpmath.pi
    return None


class _Line:
    """The integrand on Re z = ``real``, with an error below 10^-digits of its size on the real axis."""

    def __init__(
        self, kinds: list[tuple[int, mpmath.mpf, mpmath.mpf]], kernel: Kernel, real: mpmath.mpf, digits: int
    ) -> None:
        self.real, self._digits = real, digits
        self._floor = mpmath.fsum(n * mpmath.log1p(-gamma) for n, gamma, _ in kinds)  # with nothing sent
        self._beyond = kernel.strike - self._floor
        self._kernel = replace(kernel, strike=mpmath.mpf(0))
        wanted = digits + len(str(sum(n for n, _, _ in kinds)))
        self._columns = [(n, Moments.of(gamma, t, 1 + real, wanted)) for n, gamma, t in kinds]

    @property
    def size(self) -> mpmath.mpf:
        """Of the integrand of all outcomes on the real axis."""
        front, log = self._factors(mpmath.mpf(0), mpmath.mpf(0))
        return abs(front * mpmath.exp(log))

    @property
    def size_of_sent(self) -> mpmath.mpf:
        """Of those with something sent, which tell far lines from good ones: the other one falls with z."""
        front, log = self._factors(mpmath.mpf(0), mpmath.mpf(0))
        return abs(front * mpmath.expm1(log))

    def away(self) -> mpmath.mpf:
        """About how far the strike is from where most of the loss is: by how E[Y^a] turns up to some y.

        That is the loss with nothing sent, or away from it where many small losses add up.
        """
        away = self._beyond
        for _ in range(_LOOKS):
            if away == 0:
                break
            y = _TURNS / abs(away)
            away = self._beyond - self._log_moment(y).imag / y
        return away

    def integral(self, away: mpmath.mpf, fineness: float) -> mpmath.mpf:
        """Of the real part over y = Im z > 0, at the zeros of exp(-i y ``away``)."""

        def slow(y: mpmath.mpf) -> mpmath.mpc:
            value = self._slow(y, away)
            return value if away > 0 else mpmath.conj(value)

        return _half_line(slow, abs(away), _NEAR * self.real, fineness, self._digits)

    def _slow(self, y: mpmath.mpf, away: mpmath.mpf) -> mpmath.mpc:
        """Return it at Im z = ``y`` without a factor exp(-i y ``away``)."""
        front, log = self._factors(y, away)
        return front * mpmath.exp(log)

    def _factors(self, y: mpmath.mpf, away: mpmath.mpf) -> tuple[mpmath.mpc, mpmath.mpc]:
        """Return its factor with nothing sent, and the logarithm of the other."""
        exponent = self._floor - self.real * self._beyond - 1j * y * (self._beyond - away)
        return self._kernel.at(mpmath.mpc(self.real, y), exponent), self._log_moment(y)

    def _log_moment(self, y: mpmath.mpf) -> mpmath.mpc:
        """Of the loss beyond the one with nothing sent."""
        order = mpmath.mpc(1 + self.real, y)
        return mpmath.fsum(n * mpmath.log1p(each.less_one(order)) for n, each in self._columns)


@dataclass(frozen=True)
class Moments:
    """E[(Y/(1 - gamma))^a] - 1 of one coordinate along x + i b, for a with one real part >= 0.

    There |Y^a| <= Y(x)^(Re a) exp(-Im a arg Y) for Im a >= 0, and arg Y, from 0 to b sqrt(t) <= pi/2,
    rises with x as |log Y| does. The trapezoid rule has b to either side, where |exp(-x^2/2)| grows
    by exp((2 b)^2/2) at most.
    """

    logs: list[mpmath.mpc]
    weights: list[mpmath.mpc]
    sizes: list[float]
    turns: list[float]
    powers: list[list[mpmath.mpc]]  # sums of weight log^k / k! up to each node
    depth: mpmath.mpf

    @classmethod
    def of(cls, gamma: mpmath.mpf, t: mpmath.mpf, order: mpmath.mpf, digits: int) -> Moments:
        """Moments with an error below 10^-digits of E[Y^order], ``order`` >= 0 the real part."""
        root, depth = mpmath.sqrt(t), digits * mpmath.log(10) + 2
        b = min(mpmath.pi / (2 * root), mpmath.sqrt(depth / 2))
        step, reach = 2 * mpmath.pi * b / (depth + 2 * b * b), mpmath.sqrt(2 * depth + b * b)
        first, last = math.floor(-reach / step), math.ceil((order * root + reach) / step)
        nodes = [mpmath.mpc(j * step, b) for j in range(first, last + 1)]
        odds = gamma / (1 - gamma)
        logs = [mpmath.log1p(odds * mpmath.exp(root * x - t / 2)) for x in nodes]
        weights = [step * mpmath.npdf(x) for x in nodes]
        terms = next(k for k in count(2) if _ONE_BY_ONE**k / mpmath.factorial(k) < mpmath.exp(-depth))
        rows = [[mpmath.mpc(0)] * terms]
        for log, weight in zip(logs, weights, strict=True):
            term, row = weight, [rows[-1][0] + weight]
            for k in range(1, terms):
                term *= log / k
                row.append(rows[-1][k] + term)
            rows.append(row)
        sizes, turns = [float(abs(log)) for log in logs], [float(log.imag) for log in logs]
        return cls(logs, weights, sizes, turns, rows, depth)

    def less_one(self, a: mpmath.mpc) -> mpmath.mpc:
        """At one such ``a``, Im a >= 0: a series where Y^a is next to 1, and 0 where it has fallen."""
        series_end = bisect(self.sizes, float(_ONE_BY_ONE / abs(a)))
        end = bisect(self.turns, float(self.depth / a.imag)) if a.imag > 0 else len(self.logs)
        end = max(series_end, end)
        near, every = self.powers[series_end], self.powers[-1][0]
        total = mpmath.mpc(0)
        for power in reversed(near[1:]):
            total = (total + power) * a
        for log, weight in zip(self.logs[series_end:end], self.weights[series_end:end], strict=True):
            total += weight * mpmath.exp(a * log)
        return total - (every - near[0])


def _half_line(
    f: Callable[[mpmath.mpf], mpmath.mpc],
    frequency: mpmath.mpf,
    near: mpmath.mpf,
    fineness: float,
    digits: int,
) -> mpmath.mpf:
    """Int_0^inf Re(f(y) exp(-i y frequency)) dy, of which up to ``near`` by itself."""
    panels, total = math.ceil(_PANELS / fineness), mpmath.mpf(0)
    half, legendre = near / panels / 2, GaussLegendre(mpmath.mp).calc_nodes(_DEGREE, mpmath.mp.prec)
    for panel in range(panels):
        for x, weight in legendre:
            y = half * (2 * panel + 1 + x)
            total += half * weight * (f(y) * mpmath.expj(-y * frequency)).real
    turn = mpmath.expj(-near * frequency)
    for y, cos_weight, sin_weight in _nodes(frequency, near, mpmath.mpf(fineness), digits):
        value = turn * f(near + y)
        total += cos_weight * value.real + sin_weight * value.imag
    return total


def _nodes(
    frequency: mpmath.mpf, near: mpmath.mpf, fineness: mpmath.mpf, digits: int
) -> Iterator[tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]]:
    """Yield y, and its weight in the integrals of f cos(y frequency) and of f sin(y frequency).

    y = scale t/(1 - e^-u), u = 2 t + alpha (1 - e^-t) + beta (e^t - 1), at the multiples of the
    fineness (sin) and half way between them (cos): for large t these are next to the zeros, and what is
    left is doubly exponentially small, as y is for t < 0.
    """
    phase = mpmath.pi / fineness
    scale, alpha = phase / frequency, _BETA / mpmath.sqrt(1 + phase * mpmath.log1p(phase) / (4 * mpmath.pi))
    beyond = digits * mpmath.log(10) + mpmath.log(phase) + max(0, mpmath.log(scale / near))

    def place(t: mpmath.mpf) -> mpmath.mpf:
        """Return u."""
        return 2 * t - alpha * mpmath.expm1(-t) + _BETA * mpmath.expm1(t)

    for side in (1, -1):
        for half_steps in count(0 if side > 0 else 1):
            t = side * half_steps * fineness / 2
            u, slope = place(t), 2 + alpha * mpmath.exp(-t) + _BETA * mpmath.exp(t)
            if abs(u) > beyond:
                break
            rest = -mpmath.expm1(-u)
            if t == 0:
                ratio, growth = 1 / slope, (1 - (_BETA - alpha) / slope**2) / 2
            else:
                ratio, growth = t / rest, (rest - t * slope * (1 - rest)) / rest**2
            weight = scale * growth * fineness
            # phase t is a multiple of pi/2, at which one of the two is 0
            angle = phase * ratio
            if half_steps % 2:
                yield scale * ratio, weight * mpmath.cos(angle), mpmath.mpf(0)
            else:
                yield scale * ratio, mpmath.mpf(0), weight * mpmath.sin(angle)
