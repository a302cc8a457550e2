"""Expectations of functions of the privacy loss in high precision, by a contour integral.

E_Q[phi(e^L)], for phi a mixture of (u - w)_+ or of (w - u)_+ over strikes w, is one contour integral
of E_Q[Y^a] over complex a, times a ``Kernel``. On the contour E_Q[Y^a] is E_Q[Y^(Re a)] times the
characteristic function of log Y under the law tilted by Y^(Re a): sums of positive weights times
exp(i y loss). That hardly decays where few coordinates are ever sent; ``split_oracle`` is for that.
As in ``oracle``, ``digits`` are the decimal digits that a
result has right, results are ``mpf``, and the global precision is left alone. Nothing of the
float64 path is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core.law_oracle import Direction, Kernel, Law
from csgm_cli.core.oracle import SPARE_DIGITS
from csgm_cli.core.split_oracle import SplitLaw, split_laws
from csgm_cli.core.tilt_oracle import Tilted, exponent_digits, not_converged
from csgm_cli.errors import NoAnswerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from csgm_cli.core.oracle import Number

_LEAST_FACTOR, _MOST_FACTOR = mpmath.mpf(1.3), mpmath.mpf(4)  # by which a window grows
_LOOKED_AT = 20  # points in the outer half of a window
_QUIET = mpmath.mpf(5) / 6  # of a window from which on at the latest an integrand must be negligible
_MANY_NODES = 1000  # in x, by which it must show whether a contour will end
_PER_VALUE = 100  # what a value on the contour costs, in turns
_ROUGH = 8  # digits of what only chooses a contour
_SPARE = 100  # errors are that much smaller than they need to be, if estimates are right
_FEWEST_DIGITS = 4
_SHIFT, _SHIFT_DEVIATIONS = mpmath.mpf(1) / 3, 3  # from the lowest spot to where contours pass, at most
_LEAST_SHARE = mpmath.mpf(1) / 8  # of the way from the poles to that spot is where aliases are bounded
_FINEST = 1000  # of the distance from the poles
_CLOSE = mpmath.mpf(1) / 4  # deviations, to which the lowest spot is found


@dataclass(frozen=True)
class _Effort:
    """How much a contour may take: decimal digits of the integrand, nodes in x, and turns.

    A turn is one or two microseconds.
    """

    digits: int
    nodes: int
    turns: int


#: Where there is another way, and where not.
_LITTLE, _MUCH = _Effort(100, 10_000, 1_200_000), _Effort(1000, 60_000, 6_000_000)

_MOST_PARTS, _ALL_TURNS = 16, 12_000_000  # of one integral


def contour_integral(law: Law, kernel: Kernel, digits: int = 20, least: Number = 0) -> mpmath.mpf:
    """(1/2 pi i) int E_Q[e^(a L)] kernel(z) dz over a vertical line, a = 1 + z (add) or -z (remove).

    The error is below 10^-digits of the value, or of ``least`` if that is more. Raises
    ``NoAnswerError`` (slug ``oracle-not-converged``) where that would take too long.
    """
    with mpmath.workdps(digits + len(str(law.count)) + 2 * SPARE_DIGITS):
        tolerance, lowest = mpmath.mpf(10) ** -digits, _lowest(law, kernel)
        if lowest.bound <= least * tolerance:
            return lowest.bound
        scale = mpmath.mpf(least) or lowest.estimate
        while True:
            value = _integral(law, lowest, tolerance * scale / _SPARE)
            smaller = max(value, least, scale * tolerance)
            if scale <= _SPARE * smaller:
                return value
            scale = smaller


def _integral(law: Law, lowest: _Spot, error: mpmath.mpf) -> mpmath.mpf:
    """The integral to an absolute ``error``: of all of the law, or where that is dear of what counts."""
    line = _line(lowest, error, _LITTLE)
    if line is not None:
        return line.integral()
    kernel = lowest.kernel
    if law.direction is Direction.ADD:
        return _in_parts(law, kernel, error)
    # phi minus a line, which is 0 where u is small
    return kernel.line + _in_parts(law.mirrored, kernel.mirrored, error)


def _in_parts(law: Law, kernel: Kernel, error: mpmath.mpf) -> mpmath.mpf:
    """The same of the parts of the law that count, each on its own line."""
    parts, kernel = split_laws(law, kernel, error / 2)
    every: list[Law | SplitLaw] = [*parts] or [law]
    if len(every) > _MOST_PARTS:
        raise not_converged(f"a contour for {law.count} coordinates", _ALL_TURNS)
    share, total, left = error / 2 / len(every), mpmath.mpf(0), _ALL_TURNS
    for part in every:
        line = _line(_lowest(part, kernel), share, replace(_MUCH, turns=min(_MUCH.turns, left)))
        if line is None:
            raise not_converged(f"a contour for {law.count} coordinates", _ALL_TURNS)
        total, left = total + line.integral(), left - line.cost(line.count)
    return total


# ---------------------------------------------------------------- where the contour passes


@dataclass(frozen=True)
class _Spot:
    """Where a contour may cross the real axis."""

    law: Law | SplitLaw
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

    @property
    def deviation(self) -> mpmath.mpf:
        """By how much the integrand's logarithm rises by a half, about, next to where it is lowest."""
        return 1 / mpmath.sqrt(self.curvature)

    @property
    def room(self) -> mpmath.mpf:
        """To the poles on the left."""
        return self.real - max(self.kernel.left)

    def moved(self, left: mpmath.mpf) -> _Spot:
        """By as much to the left."""
        return _spot(self.law, self.kernel, self.real - left)


def _spot(law: Law | SplitLaw, kernel: Kernel, real: mpmath.mpf) -> _Spot:
    point = law.point(real, _digits(law))
    return _Spot(law, kernel, real, point.value, point.curvature + kernel.curvature(real))


def _lowest(law: Law | SplitLaw, kernel: Kernel) -> _Spot:
    """About there."""
    return _spot(law, kernel, saddle(law, kernel))


def _digits(law: Law | SplitLaw) -> int:
    return _ROUGH + len(str(law.count))


def saddle(law: Law | SplitLaw, kernel: Kernel) -> mpmath.mpf:
    """Return about the lowest point of the integrand between the poles, where its slope is 0."""
    digits, low = _digits(law), max(kernel.left)
    room = min(kernel.right) - low if kernel.right else mpmath.inf

    def slope_at(distance: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpf]:
        point, z = law.point(low + distance, digits), low + distance
        return point.slope + kernel.slope(z), point.curvature + kernel.curvature(z)

    def rises(distance: mpmath.mpf) -> bool:
        return bool(slope_at(distance)[0] > 0)

    variance = law.sum([gamma**2 * mpmath.expm1(min(t, 1)) for _, gamma, t in law.kinds])
    below = (abs(kernel.strike) + mpmath.sqrt(variance)) / variance
    below = min(below, 1 + 1 / law.largest_t, room / 2)
    while rises(below):
        below /= 2
    above = 2 * below
    while above < room and not rises(above):
        below, above = above, 2 * above
    return low + _root(slope_at, below, min(above, room))


def _root(
    slope_at: Callable[[mpmath.mpf], tuple[mpmath.mpf, mpmath.mpf]], below: mpmath.mpf, above: mpmath.mpf
) -> mpmath.mpf:
    """Return about where an increasing slope is 0, by Newton's steps, or halves where these hardly help."""
    here, before = (below + above) / 2, mpmath.inf
    while True:
        slope, curvature = slope_at(here)
        below, above = (below, here) if slope > 0 else (here, above)
        newton = here - slope / curvature
        if abs(slope) < _CLOSE * mpmath.sqrt(curvature):
            return here
        if above - below < below / _FINEST:
            return below  # where it cannot be steep
        helps = below < newton < above and abs(slope) < before / 2
        here, before = (newton, abs(slope)) if helps else ((below + above) / 2, mpmath.inf)


# ---------------------------------------------------------------- the line


@dataclass(frozen=True)
class _Line:
    """The integrand through ``spot`` up to Im z = ``window``, in units of its value on the real axis.

    ``count`` nodes are enough.
    """

    spot: _Spot
    window: mpmath.mpf
    count: int
    coordinates: list[Tilted]  # of each kind
    digits: int

    @property
    def nodes(self) -> int:
        """In x."""
        return max(len(each.losses) for each in self.coordinates)

    def cost(self, count: int) -> int:
        """About how many turns ``count`` values take."""
        sums = sum(each.cost(count, self._wanted) for each in self.coordinates)
        return sums + _PER_VALUE * count

    @property
    def _wanted(self) -> int:
        """Digits of the moment of one coordinate."""
        return self.digits + len(str(self.spot.law.count)) + 2

    @property
    def working_digits(self) -> int:
        """With those that cancel in the exponents."""
        return self._wanted + exponent_digits(abs(self.spot.real) + 1, self.spot.law.largest_t) + SPARE_DIGITS

    def integrand(self, first: mpmath.mpf, step: mpmath.mpf, count: int) -> list[mpmath.mpc]:
        """Return the integrand at Im z = first + j step, j < count."""
        law, kernel, real = self.spot.law, self.spot.kernel, self.spot.real
        if self.cost(count) > _MUCH.turns:
            raise not_converged(f"a contour for {law.count} coordinates", self.cost(count))
        sign = law.direction.sign
        columns = [
            each.characteristic(sign * first, sign * step, count, self._wanted) for each in self.coordinates
        ]
        unit, values = kernel.at(real, mpmath.mpf(0)), []
        for j, moment in enumerate(law.moments(self.coordinates, columns)):
            z = mpmath.mpc(real, first + j * step)
            values.append(moment * kernel.at(z, mpmath.mpf(0)) / unit)
        return values

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
            kernel, log_moment = self.spot.kernel, self.spot.law.log_total(self.coordinates)
            unit = kernel.scale * kernel.at(self.spot.real, log_moment)
            return unit * (mpmath.fsum(terms) - terms[0] / 2) * step / mpmath.pi


def _line(lowest: _Spot, error: mpmath.mpf, most: _Effort) -> _Line | None:
    """A line on which the integrand is negligible in the outer part of a window, which grows until it is.

    It passes left of the ``lowest`` spot, which leaves room for aliases at higher strikes to vanish.
    None where that seems to take too many nodes in x or turns: as many as if it fell exponentially
    from here on.
    """
    spot, law = lowest.moved(min(_SHIFT * lowest.room, _SHIFT_DEVIATIONS * lowest.deviation)), lowest.law
    digits = max(_FEWEST_DIGITS, math.ceil(mpmath.log10(spot.estimate / error)))
    if digits > most.digits:
        return None
    step = _step(spot, lowest, error)
    window, factor = 12 / mpmath.sqrt(spot.curvature), mpmath.mpf(1)
    goal = mpmath.mpf(10) ** -digits / 2
    wanted = digits + len(str(law.count)) + 2
    with mpmath.workdps(wanted + exponent_digits(abs(spot.real) + 1, law.largest_t) + SPARE_DIGITS):
        while True:
            window, goal = factor * window, goal / factor
            tilted = _tilted(spot, window, wanted)
            if tilted is None:
                return None
            line = _Line(spot, window, math.ceil(window / step), tilted, digits)
            quiet, ratio = line.quiet_from(goal)
            if quiet <= _QUIET * window:
                line = line.up_to(quiet, step)
                return line if line.cost(line.count) <= most.turns else None
            nodes = line.nodes * (ratio if isinstance(law, Law) else 1)
            too_far = nodes > most.nodes or line.cost(line.count) * ratio > most.turns
            if line.nodes > _MANY_NODES and too_far:
                return None
            factor = min(max(1.2 * ratio**0.75, _LEAST_FACTOR), _MOST_FACTOR)


def _tilted(spot: _Spot, window: mpmath.mpf, digits: int) -> list[Tilted] | None:
    """Every kind of coordinate on the line, or None where that takes too many nodes."""
    try:
        return spot.law.along(spot.real, window, digits)
    except NoAnswerError:
        return None


def _step(spot: _Spot, lowest: _Spot, error: mpmath.mpf) -> mpmath.mpf:
    """The trapezoid rule's, for aliases at lower and at higher strikes that add up to less than ``error``.

    With the step h they are e^(2 pi m real/h) times the integral at strike + 2 pi m/h, which is at
    most e^(-2 pi m real'/h) times the bound at any other real'.
    """
    depth = mpmath.log(max(spot.value / error, 2))
    far = spot.room - _LEAST_SHARE * lowest.room
    near = spot.moved(min(far, mpmath.sqrt(2 * depth) * lowest.deviation))
    return min(
        2 * mpmath.pi * abs(other.real - spot.real) / mpmath.log(4 * max(other.bound / error, 1))
        for other in (near, lowest)
    )
