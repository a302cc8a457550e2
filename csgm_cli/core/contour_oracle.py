"""Expectations of functions of the privacy loss in high precision, by a contour integral.

E_Q[phi(e^L)], for phi a mixture of (u - w)_+ or of (w - u)_+ over strikes w, is one contour integral
of E_Q[Y^a] over complex a, times a ``Kernel``. On the contour E_Q[Y^a] is E_Q[Y^(Re a)] times the
characteristic function of log Y under the law tilted by Y^(Re a): sums of positive weights times
exp(i y loss). That hardly decays where few coordinates are ever sent, since most of the law is
next to an atom. There, coordinates are marked with a chance that rises with their loss: if none is,
phi is next to nothing, and what outcomes with some mark contribute, with E[Y^a]^n - E[Y^a; no
mark]^n in place of E[Y^a]^n, decays. As in ``oracle``, ``digits`` are the decimal digits that a
result has right, results are ``mpf``, and the global precision is left alone. Nothing of the
float64 path is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core.fourier_oracle import cost
from csgm_cli.core.law_oracle import Counted, Direction, Kernel, Law, Share
from csgm_cli.core.tilt_oracle import SPARE_DIGITS, Tilted, exponent_digits, not_converged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from csgm_cli.core.oracle import Number

_LEAST_FACTOR, _MOST_FACTOR = mpmath.mpf(1.3), mpmath.mpf(4)  # by which a window grows
_LOOKED_AT = 20  # points in the outer half of a window
_QUIET = mpmath.mpf(5) / 6  # of a window from which on at the latest an integrand must be negligible
_MANY_NODES = 1000  # in x, by which it must show whether a contour will end
_FEW_NODES, _MOST_NODES = 24_000, 60_000  # that a contour may need where there is another way, and where not
_FEW_TURNS, _MOST_TURNS = 3_000_000, 6_000_000  # the same of turns: of one or two microseconds
_PER_VALUE = 100  # what a value on the contour costs, in turns
_ROUGH = 8  # digits of what only chooses a contour
_SPARE = 100  # errors are that much smaller than they need to be, if estimates are right
_FEWEST_DIGITS = 4
_SHIFT = mpmath.mpf(2) / 3  # of the way from the poles to the lowest spot is where contours pass
_NEAR = mpmath.mpf(1) / 8  # of that way is where aliases at lower strikes are bounded
_MOST_TRIES = 24  # to find the loss from which on coordinates are marked, each 1/sqrt(2) of the last


def contour_integral(law: Law, kernel: Kernel, digits: int = 20, least: Number = 0) -> mpmath.mpf:
    """(1/2 pi i) int E_Q[e^(a L)] kernel(z) dz over a vertical line, a = 1 + z (add) or -z (remove).

    The error is below 10^-digits of the value, or of ``least`` if that is more. Raises
    ``NoAnswerError`` (slug ``oracle-not-converged``) where that would take too long.
    """
    with mpmath.workdps(digits + len(str(law.count)) + 2 * SPARE_DIGITS):
        tolerance, lowest = mpmath.mpf(10) ** -digits, _lowest(Share(law), kernel)
        if lowest.bound <= least * tolerance:
            return lowest.bound
        scale = mpmath.mpf(least) or lowest.estimate
        while True:
            value = _integral(lowest, tolerance * scale / _SPARE)
            smaller = max(value, least, scale * tolerance)
            if scale <= _SPARE * smaller:
                return value
            scale = smaller


def _integral(lowest: _Spot, error: mpmath.mpf) -> mpmath.mpf:
    """The integral to an absolute ``error``, without marks or with them."""
    line = _line(lowest, error, _FEW_NODES, _FEW_TURNS)
    if line is None:
        marked = _by_marks(lowest.share.law, lowest.kernel, error)
        if marked is not None:
            return marked
        line = _line(lowest, error, _MOST_NODES, _MOST_TURNS)
    if line is None:
        raise not_converged(f"a contour for {lowest.share.law.count} coordinates", _MOST_NODES)
    return line.integral()


def _by_marks(law: Law, kernel: Kernel, error: mpmath.mpf) -> mpmath.mpf | None:
    """The same, of outcomes with a mark, and a bound on the others; None where marks do not help.

    In the remove direction of phi minus a line, which is 0 where u is small: see `Kernel.mirrored`.
    """
    straight = mpmath.mpf(0)
    if law.direction is Direction.REMOVE:
        straight, kernel, law = kernel.line, kernel.mirrored, replace(law, direction=Direction.ADD)
    found = _marked(law, kernel, error)
    if found is None:
        return None
    lowest, rest = found
    line = _line(lowest, error, _MOST_NODES, _MOST_TURNS)
    if line is None:
        return None
    with mpmath.workdps(line.working_digits):
        return straight + line.integral() + rest


# ---------------------------------------------------------------- where the contour passes


@dataclass(frozen=True)
class _Spot:
    """Where a contour may cross the real axis."""

    share: Share
    kernel: Kernel
    real: mpmath.mpf
    log_moment: mpmath.mpf
    curvature: mpmath.mpf

    @property
    def value(self) -> mpmath.mpf:
        """Of the integrand there."""
        return self.kernel.scale * self.kernel.at(self.real, self.log_moment)

    @property
    def estimate(self) -> mpmath.mpf:
        """About the integral, by Laplace's method, if the integrand is lowest here."""
        return self.value / mpmath.sqrt(2 * mpmath.pi * self.curvature)

    @property
    def bound(self) -> mpmath.mpf:
        """The integral is less: |z (z+1)|^-1 integrates to at most pi/sqrt(real (real + 1))."""
        return self.value * mpmath.sqrt(self.real * (self.real + 1)) / 2

    def moved(self, share: Number) -> _Spot:
        """At that share of the distance to the poles on the left."""
        low = max(self.kernel.left)
        return _spot(self.share, self.kernel, low + share * (self.real - low))


def _spot(share: Share, kernel: Kernel, real: mpmath.mpf) -> _Spot:
    point = share.point(real, _digits(share))
    return _Spot(share, kernel, real, point.value, point.curvature + kernel.curvature(real))


def _lowest(share: Share, kernel: Kernel, near: mpmath.mpf | None = None) -> _Spot:
    """About there; the rougher, the sooner with a guess ``near`` it."""
    return _spot(share, kernel, _saddle(share, kernel, near))


def _digits(share: Share) -> int:
    return _ROUGH + len(str(share.law.count))


def saddle(law: Law, kernel: Kernel) -> mpmath.mpf:
    """Return about the lowest point of the integrand between the poles, by bisection of its slope."""
    return _saddle(Share(law), kernel)


def _saddle(share: Share, kernel: Kernel, near: mpmath.mpf | None = None) -> mpmath.mpf:
    law, digits = share.law, _digits(share)
    low = max(kernel.left)
    room = min(kernel.right) - low if kernel.right else mpmath.inf

    def rises(distance: mpmath.mpf) -> bool:
        return bool(share.point(low + distance, digits).slope + kernel.slope(low + distance) > 0)

    variance = law.sum([gamma**2 * mpmath.expm1(min(t, 1)) for _, gamma, t in law.kinds])
    below = (abs(kernel.strike) + mpmath.sqrt(variance)) / variance
    below = near - low if near else min(below, 1 + 1 / law.largest_t, room / 2)
    while rises(below):
        below /= 2
    above = 2 * below
    while above < room and not rises(above):
        below, above = above, 2 * above
    above = min(above, room)
    while above - below > min(below, room - below) / (2 if near else 16):
        middle = (below + above) / 2
        below, above = (below, middle) if rises(middle) else (middle, above)
    return low + below


def _marked(law: Law, kernel: Kernel, negligible: mpmath.mpf) -> tuple[_Spot, mpmath.mpf] | None:
    """Marks from the largest losses on without which phi is ``negligible``, and a bound on that.

    The losses without any mark must not reach phi's knee: each lifts L by log(1 + odds) at most from where
    nothing is sent.
    """
    lift = kernel.strike - law.sum(
        [mpmath.log1p(-gamma) if gamma < 1 else mpmath.mpf(0) for _, gamma, _ in law.kinds]
    )
    if lift <= 0:
        return None
    near = None
    for tries in range(2, _MOST_TRIES):
        odds = mpmath.expm1(lift / mpmath.sqrt(2) ** tries)
        with mpmath.workdps(2 * _ROUGH):
            bare = _lowest(Share(law, Counted.NO_MARK, odds), kernel, near)
        if bare.bound <= negligible * _SPARE / 10:
            return _lowest(Share(law, Counted.SOME_MARK, odds), kernel), bare.bound
        near = bare.real
    return None


# ---------------------------------------------------------------- the line


@dataclass(frozen=True)
class _Line:
    """The integrand through ``spot`` up to Im z = ``window``, in units of its value on the real axis.

    ``count`` nodes are enough.
    """

    spot: _Spot
    window: mpmath.mpf
    count: int
    every: list[Tilted]
    marked: list[Tilted | None]
    shares: list[mpmath.mpf]  # of marks, in one coordinate
    digits: int

    @property
    def _kinds(self) -> Iterator[Tilted]:
        return (each for each in (*self.every, *self.marked) if each)

    @property
    def nodes(self) -> int:
        """In x."""
        return max(len(each.losses) for each in self._kinds)

    def cost(self, count: int) -> int:
        """About how many turns ``count`` values take."""
        return sum(cost(len(each.losses), count, self._wanted) for each in self._kinds) + _PER_VALUE * count

    @property
    def _wanted(self) -> int:
        """Digits of the moment of one coordinate."""
        return self.digits + len(str(self.spot.share.law.count)) + 2

    @property
    def working_digits(self) -> int:
        """With those that cancel in the exponents, and in outcomes with a mark against all of them."""
        share = self.spot.share
        lost = exponent_digits(abs(self.spot.real) + 1, share.law.largest_t)
        rare = self._log_moment() - self.spot.log_moment
        return self._wanted + lost + max(0, math.ceil(float(rare) / math.log(10))) + SPARE_DIGITS

    def _log_moment(self) -> mpmath.mpf:
        """Of all outcomes, on the real axis."""
        return self.spot.share.law.sum([each.log_moment for each in self.every])

    def integrand(self, first: mpmath.mpf, step: mpmath.mpf, count: int) -> list[mpmath.mpc]:
        """Return the integrand at Im z = first + j step, j < count."""
        spot, sign = self.spot, self.spot.share.law.direction.sign
        if self.cost(count) > _MOST_TURNS:
            raise not_converged(f"a contour for {spot.share.law.count} coordinates", self.cost(count))
        columns = [
            each.characteristic(sign * first, sign * step, count, self._wanted) if each else None
            for each in (*self.every, *self.marked)
        ]
        every, marked, unit = columns[: len(self.every)], columns[len(self.every) :], self._unit()
        values = []
        for j in range(count):
            z = mpmath.mpc(spot.real, first + j * step)
            moment = self._moment([each[j] for each in every if each], [each and each[j] for each in marked])
            values.append(moment * spot.kernel.at(z, mpmath.mpf(0)) / unit)
        return values

    def _unit(self) -> mpmath.mpf:
        ones = [mpmath.mpf(1)] * len(self.every)
        return self._moment(ones, ones) * self.spot.kernel.at(self.spot.real, mpmath.mpf(0))

    def _moment(self, every: Sequence[mpmath.mpc], marked: Sequence[mpmath.mpc | None]) -> mpmath.mpc:
        """E[e^(aL); what is counted], over that of all outcomes on the real axis."""
        counts = [n for n, _, _ in self.spot.share.law.kinds]
        total = mpmath.fprod(each**n for n, each in zip(counts, every, strict=True))
        if self.spot.share.counted is not Counted.SOME_MARK:
            return total
        bare = [
            each - share * (mark or 0) for each, share, mark in zip(every, self.shares, marked, strict=True)
        ]
        return total - mpmath.fprod(each**n for n, each in zip(counts, bare, strict=True))

    def quiet_from(self, goal: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        """From where on the integrand is below ``goal``; how many falls like that to the end this takes."""
        spacing = self.window / 2 / _LOOKED_AT
        with mpmath.workdps(self.working_digits):
            sizes = [abs(term) for term in self.integrand(self.window / 2 + spacing, spacing, _LOOKED_AT)]
        loud = max((j for j, size in enumerate(sizes) if size >= goal), default=-1)
        ratio = mpmath.log(goal) / min(mpmath.log(max(sizes[_LOOKED_AT // 2 :])), -1)
        return self.window / 2 + (loud + 2) * spacing, ratio

    def up_to(self, window: mpmath.mpf, step: mpmath.mpf) -> _Line:
        """Not as far."""
        return replace(self, window=window, count=math.ceil(window / step))

    def integral(self) -> mpmath.mpf:
        """By the trapezoid rule."""
        with mpmath.workdps(self.working_digits):
            step = self.window / self.count
            terms = [term.real for term in self.integrand(mpmath.mpf(0), step, self.count)]
            unit = self.spot.kernel.scale * self._unit() * mpmath.exp(self._log_moment())
            return unit * (mpmath.fsum(terms) - terms[0] / 2) * step / mpmath.pi


def _line(lowest: _Spot, error: mpmath.mpf, most_nodes: int, most_turns: int) -> _Line | None:
    """A line on which the integrand is negligible in the outer part of a window, which grows until it is.

    It passes left of the ``lowest`` spot, which leaves room for aliases at higher strikes to vanish.
    None where that seems to take too many nodes in x or turns: as many as if it fell exponentially
    from here on.
    """
    spot = lowest.moved(_SHIFT)
    share = spot.share
    digits = max(_FEWEST_DIGITS, math.ceil(mpmath.log10(spot.estimate / error)))
    step = _step(spot, lowest, error)
    window, factor = 12 / mpmath.sqrt(spot.curvature), mpmath.mpf(1)
    goal = mpmath.mpf(10) ** -digits / 2
    wanted = digits + len(str(share.law.count)) + 2
    with mpmath.workdps(wanted + exponent_digits(abs(spot.real) + 1, share.law.largest_t) + SPARE_DIGITS):
        while True:
            window, goal = factor * window, goal / factor
            every = share.tilt(spot.real, window, wanted)
            marked = share.tilt_marked(spot.real, window, wanted)
            shares = [
                mpmath.exp(mark.log_moment - each.log_moment) if mark else mpmath.mpf(0)
                for each, mark in zip(every, marked, strict=True)
            ]
            line = _Line(spot, window, math.ceil(window / step), every, marked, shares, digits)
            quiet, ratio = line.quiet_from(goal)
            if quiet <= _QUIET * window:
                line = line.up_to(quiet, step)
                return line if line.cost(line.count) <= most_turns else None
            too_far = line.nodes * ratio > most_nodes or line.cost(line.count) * ratio > most_turns
            if line.nodes > _MANY_NODES and too_far:
                return None
            factor = min(max(1.2 * ratio**0.75, _LEAST_FACTOR), _MOST_FACTOR)


def _step(spot: _Spot, lowest: _Spot, error: mpmath.mpf) -> mpmath.mpf:
    """The trapezoid rule's, for aliases at lower and at higher strikes that add up to less than ``error``.

    With the step h they are e^(2 pi m real/h) times the integral at strike + 2 pi m/h, which is at
    most e^(-2 pi m real'/h) times the bound at any other real'.
    """
    near = spot.moved(_NEAR)
    return min(
        2 * mpmath.pi * abs(other.real - spot.real) / mpmath.log(4 * max(other.bound / error, 1))
        for other in (near, lowest)
    )
