"""The factors of a contour integral in high precision: the law of the privacy loss, and a kernel.

The privacy loss L is a sum over ``parts`` ((count, t), ...), ``count`` integers, of independent
copies of log Y_t, where Y_t = 1 - g + g exp(x sqrt(t) - t/2) with x standard normal is the
likelihood ratio of one coordinate. Coordinates may be marked with a chance that rises with x, and
outcomes be counted only if some coordinate is marked, or if none is: ``Share``. As in ``oracle``,
results are ``mpf``. Nothing of the float64 path is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import mpmath

from csgm_cli.core.oracle import Number
from csgm_cli.core.tilt_oracle import Mark, Tilted, require, tilt

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How many coordinate-rounds (integers, possibly as floats) there are at which t = (clip / sigma)^2 > 0.
Parts: TypeAlias = tuple[tuple[float, Number], ...]

_MARK_WIDTH = mpmath.mpf("0.1")  # in log-odds: less makes marks sharp, more makes them too soft to tell


class Direction(Enum):
    """Which world the output comes from when a test tells "present" from "absent"."""

    ADD = "add"
    REMOVE = "remove"

    @property
    def sign(self) -> int:
        """The loss that counts is +L or -L."""
        return 1 if self is Direction.ADD else -1

    def order(self, z: mpmath.mpf) -> mpmath.mpf:
        """Return the order of the log-moment at the point ``z`` of the contour."""
        return 1 + z if self is Direction.ADD else -z


# ---------------------------------------------------------------- the integrand's factors


@dataclass(frozen=True)
class Law:
    """The privacy loss at one vector, seen in one direction, and beside it those of other releases."""

    gamma: Number
    parts: Parts
    direction: Direction
    others: tuple[Law, ...] = ()

    def __post_init__(self) -> None:
        """Raise ``UsageError`` unless every number is in range."""
        require(0 < self.gamma <= 1, "gamma", "in (0, 1]", self.gamma)
        require(len(self.parts) > 0, "parts", "given", self.parts)
        for count, t in self.parts:
            require(count == int(count) and count >= 1, "count", "a positive integer", count)
            require(0 < t < math.inf, "t", "above 0 and finite", t)

    @property
    def kinds(self) -> list[tuple[int, mpmath.mpf, mpmath.mpf]]:
        """(how many, gamma, t) of every kind of coordinate, the other releases' among them."""
        own = [(int(count), mpmath.mpf(self.gamma), mpmath.mpf(t)) for count, t in self.parts]
        return own + [kind for law in self.others for kind in law.kinds]

    @property
    def count(self) -> int:
        """How many coordinates there are, all rounds together."""
        return sum(count for count, _, _ in self.kinds)

    @property
    def largest_t(self) -> mpmath.mpf:
        """The t of the largest coordinate."""
        return max(t for _, _, t in self.kinds)

    def sum(self, of_each_kind: Sequence[mpmath.mpf]) -> mpmath.mpf:
        """Add up what one coordinate of each kind contributes."""
        return mpmath.fsum(n * each for (n, _, _), each in zip(self.kinds, of_each_kind, strict=True))


@dataclass(frozen=True)
class Kernel:
    """z -> scale exp(-z strike + z (z+1) blur/2) / product of |z - pole|.

    The contour passes between the poles. A ``blur`` > 0 is that of E_R[phi(e^L / R) R], R lognormal of
    that log-variance and mean 1, which is at least phi(e^L) as phi is convex.
    """

    scale: mpmath.mpf
    strike: mpmath.mpf
    left: tuple[mpmath.mpf, ...]
    right: tuple[mpmath.mpf, ...] = ()
    blur: Number = 0

    def at(self, z: mpmath.mpc, exponent: mpmath.mpc) -> mpmath.mpc:
        """Return the kernel at ``z``, without its scale, times e^exponent."""
        poles = mpmath.mpf(1)
        for pole in self.left:
            poles *= z - pole
        for pole in self.right:
            poles *= pole - z
        return mpmath.exp(exponent - z * (self.strike - (z + 1) * mpmath.mpf(self.blur) / 2)) / poles

    def slope(self, z: mpmath.mpf) -> mpmath.mpf:
        """Return the slope of the logarithm on the real axis."""
        poles = mpmath.fsum(1 / (z - pole) for pole in (*self.left, *self.right))
        return -self.strike + (2 * z + 1) * self.blur / 2 - poles

    def curvature(self, z: mpmath.mpf) -> mpmath.mpf:
        """Return the second derivative of the logarithm on the real axis."""
        return self.blur + mpmath.fsum(1 / (z - pole) ** 2 for pole in (*self.left, *self.right))

    @property
    def line(self) -> mpmath.mpf:
        """E of the line that phi is up to its knee, for poles 0 and -1 on the left: their residues."""
        at_zero, at_one = (mpmath.fprod(pole - z for pole in self.right) for z in (0, -1))
        return self.scale * (1 / at_zero - mpmath.exp(self.strike) / at_one)

    @property
    def mirrored(self) -> Kernel:
        """Of phi minus that line, which is 0 up to the knee, in the other direction: z becomes -1-z."""
        poles = tuple(-1 - pole for pole in (*self.left, *self.right))
        return Kernel(self.scale * mpmath.exp(self.strike), -self.strike, poles, (), self.blur)


def hockey_stick(epsilon: Number, blur: Number = 0) -> Kernel:
    """Return the kernel of (u - e^eps)_+ (add) and of (1 - e^eps u)_+ (remove)."""
    return Kernel(mpmath.mpf(1), mpmath.mpf(epsilon), (mpmath.mpf(0), mpmath.mpf(-1)), blur=mpmath.mpf(blur))


# ---------------------------------------------------------------- what is counted of the law


class Counted(Enum):
    """Which outcomes are."""

    ALL = "all"
    SOME_MARK = "some-mark"
    NO_MARK = "no-mark"


@dataclass(frozen=True)
class Point:
    """A logarithm on the real axis and its first two derivatives."""

    value: mpmath.mpf
    slope: mpmath.mpf
    curvature: mpmath.mpf


@dataclass(frozen=True)
class Share:
    """E[e^(aL); what is counted]; coordinates are marked about from ``odds`` of having been sent on."""

    law: Law
    counted: Counted = Counted.ALL
    odds: mpmath.mpf = mpmath.inf

    def tilt(self, z: mpmath.mpf, height: mpmath.mpf, digits: int) -> list[Tilted]:
        """Every kind of coordinate at the real point ``z`` of the contour, or as far as it has no mark."""
        order = self.law.direction.order(z)
        bare = self.counted is Counted.NO_MARK
        return [
            tilt(order, gamma, t, height, digits, self._mark(gamma, t, is_there=False) if bare else None)
            for _, gamma, t in self.law.kinds
        ]

    def tilt_marked(self, z: mpmath.mpf, height: mpmath.mpf, digits: int) -> list[Tilted | None]:
        """The same as far as it has the mark; None where marks do not count, and for what is always sent."""
        if self.counted is not Counted.SOME_MARK:
            return [None] * len(self.law.kinds)
        order = self.law.direction.order(z)
        marks = [self._mark(gamma, t, is_there=True) for _, gamma, t in self.law.kinds]
        return [
            tilt(order, gamma, t, height, digits, mark) if mark else None
            for mark, (_, gamma, t) in zip(marks, self.law.kinds, strict=True)
        ]

    def _mark(self, gamma: mpmath.mpf, t: mpmath.mpf, *, is_there: bool) -> Mark | None:
        if gamma == 1:
            return None
        root = mpmath.sqrt(t)
        edge = (mpmath.log(self.odds * (1 - gamma) / gamma) + t / 2) / root
        return Mark(edge, min(mpmath.mpf(1), _MARK_WIDTH / root), is_there)

    def point(self, z: mpmath.mpf, digits: int) -> Point:
        """The logarithm at the real point ``z``."""
        law, sign = self.law, self.law.direction.sign
        every = self.tilt(z, mpmath.mpf(0), digits)
        value = law.sum([each.log_moment for each in every])
        slope, curvature = law.sum([each.mean for each in every]), law.sum([each.variance for each in every])
        if self.counted is Counted.SOME_MARK:
            share = self._log_share(every, self.tilt_marked(z, mpmath.mpf(0), digits))
            value, slope, curvature = value + share.value, slope + share.slope, curvature + share.curvature
        return Point(value, sign * slope, curvature)

    def _log_share(self, every: list[Tilted], marked: list[Tilted | None]) -> Point:
        """log(1 - product of (1 - r)^n), r the share of marks in one coordinate, over the order."""
        sums = [mpmath.mpf(0)] * 3
        for (n, _, _), each, mark in zip(self.law.kinds, every, marked, strict=True):
            if mark is None:
                continue
            r = min(mpmath.exp(mark.log_moment - each.log_moment), 1 - mpmath.eps)
            shift = mark.mean - each.mean
            first, second = r * shift, r * (shift**2 + mark.variance - each.variance)
            found = mpmath.log1p(-r), -first / (1 - r), -second / (1 - r) - (first / (1 - r)) ** 2
            sums = [total + n * term for total, term in zip(sums, found, strict=True)]
        log_none, slope, curvature = sums
        some, none = -mpmath.expm1(log_none), mpmath.exp(log_none)
        steep = -slope * none / some
        return Point(mpmath.log(some), steep, -(curvature + slope**2) * none / some - steep**2)
