"""The factors of a contour integral in high precision: the law of the privacy loss, and a kernel.

The privacy loss L is a sum over ``parts`` ((count, t), ...), ``count`` integers, of independent
copies of log Y_t, where Y_t = 1 - g + g exp(x sqrt(t) - t/2) with x standard normal is the
likelihood ratio of one coordinate. As in ``oracle``, results are ``mpf``. Nothing of the float64 path
is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import mpmath

from csgm_cli.core.oracle import Number, require
from csgm_cli.core.tilt_oracle import Tilted, tilt

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How many coordinate-rounds (integers, possibly as floats) there are at which t = (clip / sigma)^2 > 0.
Parts: TypeAlias = tuple[tuple[float, Number], ...]


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
class Point:
    """A logarithm on the real axis and its first two derivatives."""

    value: mpmath.mpf
    slope: mpmath.mpf
    curvature: mpmath.mpf


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

    def tilt(self, z: mpmath.mpf, height: mpmath.mpf, digits: int) -> list[Tilted]:
        """Every kind of coordinate at the real point ``z`` of the contour."""
        order = self.direction.order(z)
        return [tilt(order, gamma, t, height, digits) for _, gamma, t in self.kinds]

    def along(self, z: mpmath.mpf, height: mpmath.mpf, digits: int) -> list[Tilted]:
        """The same for a line through ``z`` up to a ``height``."""
        return self.tilt(z, height, digits)

    def log_total(self, tilted: Sequence[Tilted]) -> mpmath.mpf:
        """Return log E[e^(aL)] on the real axis."""
        return self.sum([each.log_moment for each in tilted])

    def moments(self, _tilted: Sequence[Tilted], columns: Sequence[Sequence[mpmath.mpc]]) -> list[mpmath.mpc]:
        """Return the characteristic function of L from those of every kind of coordinate."""
        counts = [n for n, _, _ in self.kinds]
        return [
            mpmath.fprod(value**n for n, value in zip(counts, values, strict=True))
            for values in zip(*columns, strict=True)
        ]

    @property
    def mirrored(self) -> Law:
        """The same losses seen in the other direction."""
        other = Direction.REMOVE if self.direction is Direction.ADD else Direction.ADD
        return replace(self, direction=other, others=tuple(law.mirrored for law in self.others))

    @property
    def sparse(self) -> Law | None:
        """Without what is always sent."""
        laws = [law for law in (replace(self, others=()), *self.others) if law.gamma < 1]
        return replace(laws[0], others=tuple(laws[1:])) if laws else None

    def point(self, z: mpmath.mpf, digits: int) -> Point:
        """Log E[e^(aL)] at the real point ``z``."""
        every = self.tilt(z, mpmath.mpf(0), digits)
        slope, curvature = (
            self.sum([each.mean for each in every]),
            self.sum([each.variance for each in every]),
        )
        return Point(self.log_total(every), self.direction.sign * slope, curvature)


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
