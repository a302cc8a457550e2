"""The privacy loss in high precision where few coordinates are ever sent: without what does not count.

The characteristic function of the loss then hardly falls, because the outcome with next to nothing sent
is next to an atom, and tilting hardly helps, because a far larger loss than the one in question weighs
more at the orders at which that outcome weighs nothing. Both are left out: each coordinate's law is
split smoothly into low, middle and far losses, and the measure of all outcomes with none far and not all
low has a characteristic function that falls as fast as the middle is smooth. What is left out is bounded
as the tail of any law is, by its moments. As in ``oracle``, results are ``mpf``. Nothing of the float64
path is used here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core.cut_oracle import Cut, Kind, log_far, log_near, remembered, split
from csgm_cli.core.law_oracle import Direction, Point
from csgm_cli.core.oracle import SPARE_DIGITS
from csgm_cli.core.tilt_oracle import Tilted, not_converged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from csgm_cli.core.law_oracle import Kernel, Law

_ROUGH = 4  # digits of what only bounds
_SHARE = 32  # of the error is what is left out on either side
_RESOLUTION = mpmath.mpf(1) / 4  # in x, of the cuts
_FURTHEST = 300  # deviations
_LEAST_RATIO = mpmath.mpf(1.3)  # of points at which a bound is looked for
_OCTAVE = 2  # the logarithm of a ratio of losses in one part


# ---------------------------------------------------------------- the measure


@dataclass(frozen=True)
class SplitLaw:
    """``law``, of the add direction, restricted to no coordinate beyond ``far`` and one beyond ``low``."""

    law: Law
    low: Cut
    far: Cut

    @property
    def direction(self) -> Direction:
        """Add."""
        return self.law.direction

    @property
    def kinds(self) -> list[Kind]:
        """As of the law."""
        return self.law.kinds

    @property
    def count(self) -> int:
        """As of the law."""
        return self.law.count

    @property
    def largest_t(self) -> mpmath.mpf:
        """As of the law."""
        return self.law.largest_t

    def sum(self, of_each_kind: Sequence[mpmath.mpf]) -> mpmath.mpf:
        """As of the law."""
        return self.law.sum(of_each_kind)

    def tilt(self, z: mpmath.mpf, digits: int) -> list[Tilted]:
        """The low and the middle part of every kind of coordinate, in turn."""
        return self._parts(split, z, digits)

    def along(self, z: mpmath.mpf, _height: mpmath.mpf, digits: int) -> list[Tilted]:
        """The same for a line through ``z``."""
        return self._parts(remembered, z, digits)

    def _parts(self, of_one: Callable[..., list[Tilted]], z: mpmath.mpf, digits: int) -> list[Tilted]:
        order, parts = self.direction.order(z), []
        for kind in self.kinds:
            parts += of_one(order, kind, self.low.edge(kind), self.far.edge(kind), digits)
        return parts

    def _pairs(self, parts: Sequence[Tilted]) -> list[tuple[int, Tilted, Tilted]]:
        return [
            (n, low, middle)
            for (n, _, _), low, middle in zip(self.kinds, parts[::2], parts[1::2], strict=True)
        ]

    def log_total(self, parts: Sequence[Tilted]) -> mpmath.mpf:
        """Return the logarithm of the moment on the real axis."""
        every = self._pairs(parts)
        lows = mpmath.fsum(n * low.log_moment for n, low, _ in every)
        return lows + mpmath.log(mpmath.expm1(_gain(every)))

    def moments(self, parts: Sequence[Tilted], columns: Sequence[Sequence[mpmath.mpc]]) -> list[mpmath.mpc]:
        """Return the characteristic function from those of the parts."""
        every = self._pairs(parts)
        ratios = [mpmath.exp(middle.log_moment - low.log_moment) for _, low, middle in every]
        gain = _gain(every)
        full, only_low = -mpmath.expm1(-gain), mpmath.expm1(gain)
        found = []
        for values in zip(*columns, strict=True):
            pairs = list(zip((n for n, _, _ in every), values[::2], values[1::2], ratios, strict=True))
            lows = mpmath.fprod(low**n for n, low, _, _ in pairs)
            if all(n * r * abs(middle) < abs(low) / 2 for n, low, middle, r in pairs):
                more = mpmath.fsum(n * mpmath.log1p(r * middle / low) for n, low, middle, r in pairs)
                found.append(lows * mpmath.expm1(more) / only_low)
            else:
                whole = mpmath.fprod(((low + r * middle) / (1 + r)) ** n for n, low, middle, r in pairs)
                found.append(whole / full - lows / only_low)
        return found

    def point(self, z: mpmath.mpf, digits: int) -> Point:
        """The logarithm of the moment at the real point ``z``, and its derivatives."""
        parts = self.tilt(z, digits)
        every, slope, curvature = self._pairs(parts), mpmath.mpf(0), mpmath.mpf(0)
        gain, rise, bend = _gain(every), mpmath.mpf(0), mpmath.mpf(0)
        for n, low, middle in every:
            share = mpmath.exp(middle.log_moment - low.log_moment)
            share /= 1 + share
            apart, mean, variance = middle.mean - low.mean, low.mean, low.variance
            slope += n * mean
            curvature += n * variance
            rise += n * share * apart
            bend += n * share * ((1 - share) * apart**2 + middle.variance - variance)
        factor = -1 / mpmath.expm1(-gain)
        return Point(
            self.log_total(parts),
            slope + rise * factor,
            curvature + bend * factor - rise**2 * mpmath.exp(-gain) * factor**2,
        )


def _gain(every: Sequence[tuple[int, Tilted, Tilted]]) -> mpmath.mpf:
    """Return the logarithm of what the middle parts multiply the moment of the low ones by."""
    return mpmath.fsum(
        n * mpmath.log1p(mpmath.exp(middle.log_moment - low.log_moment)) for n, low, middle in every
    )


# ---------------------------------------------------------------- where to cut


def split_laws(law: Law, kernel: Kernel, error: mpmath.mpf) -> tuple[list[SplitLaw], Kernel]:
    """The parts of ``law``, of the add direction, that count to an absolute ``error``, and their kernel.

    What is always sent blurs the kernel. Losses in one part are of about one size. None where nothing
    else is sent.
    """
    always = mpmath.fsum(n * t for n, gamma, t in law.kinds if gamma == 1)
    sparse = law.sparse
    if sparse is None:
        return [], kernel
    kernel = replace(kernel, blur=mpmath.mpf(kernel.blur) + always)
    digits = _ROUGH + len(str(law.count))
    with mpmath.workdps(digits + SPARE_DIGITS):
        search = _Search(sparse, kernel, error / _SHARE, digits)
        low = search.low()
        far = search.far(low)
        count = max(1, int(mpmath.log(far.excess / low.excess) / _OCTAVE))
        ratio = mpmath.root(far.excess / low.excess, count)
        cuts = [Cut(low.excess * ratio**j) for j in range(count + 1)]
        return [SplitLaw(sparse, *pair) for pair in pairwise(cuts)], kernel


@dataclass(frozen=True)
class _Search:
    """For the cuts beyond which no more than ``error`` is left out."""

    law: Law
    kernel: Kernel
    error: mpmath.mpf
    digits: int

    @property
    def _main(self) -> Kind:
        return max(self.law.kinds, key=lambda kind: kind[2])

    @property
    def _room(self) -> mpmath.mpf:
        """From the loss with nothing sent up to the strike."""
        floor = mpmath.fsum(n * mpmath.log1p(-gamma) for n, gamma, _ in self.law.kinds)
        return max(self.kernel.strike - floor, mpmath.mpf(10) ** -self.digits)

    @property
    def _last(self) -> mpmath.mpf:
        """About the x beyond which hardly any coordinate is."""
        sent = mpmath.fsum(n * gamma for n, gamma, _ in self.law.kinds) * self.kernel.scale
        return mpmath.sqrt(self.law.largest_t) + mpmath.sqrt(2 * mpmath.log(max(sent / self.error, 2)))

    def low(self) -> Cut:
        """The highest, to a resolution."""
        bottom, z = -mpmath.sqrt(2 * self.digits * mpmath.log(10)), 16 / self._room
        high = max(min(Cut(self._room).edge(self._main).x, self._last), bottom)

        def is_negligible(x: mpmath.mpf) -> bool:
            nonlocal z
            found, z = self._is_negligible(partial(self._log_low, Cut.at(x, self._main)), z)
            return found

        low = high - 1
        while low > bottom and not is_negligible(low):
            high, low = low, low - 2 * (high - low)
        while high - low > _RESOLUTION:
            middle = (low + high) / 2
            low, high = (middle, high) if is_negligible(middle) else (low, middle)
        return Cut.at(low, self._main)

    def far(self, low: Cut) -> Cut:
        """The lowest, in whole deviations from where few are sent."""
        x, found = max(self._last, low.edge(self._main).x + 1) - 1, False
        z = x / mpmath.sqrt(self.law.largest_t)
        while not found:
            x += 1
            if x > _FURTHEST:
                raise not_converged("the tail of a loss", _FURTHEST)
            cut = Cut.at(x, self._main)
            found, z = self._is_negligible(partial(self._log_far, cut), z)
        return cut

    def _log_low(self, cut: Cut, z: mpmath.mpf) -> mpmath.mpf:
        """Return log E[e^((1+z) L); all low]."""
        return mpmath.fsum(
            kind[0] * log_near(1 + z, kind, cut.edge(kind), self.digits) for kind in self.law.kinds
        )

    def _log_far(self, cut: Cut, z: mpmath.mpf) -> mpmath.mpf:
        """Return log E[e^((1+z) L); some far]."""
        gain = mpmath.mpf(0)
        for kind in self.law.kinds:
            far = cut.edge(kind)
            ratio = log_far(1 + z, kind, far, self.digits) - log_near(1 + z, kind, far, self.digits)
            gain += kind[0] * mpmath.log1p(mpmath.exp(ratio))
        return self._log_low(cut, z) + mpmath.log(mpmath.expm1(gain))

    def _is_negligible(
        self, log_moment: Callable[[mpmath.mpf], mpmath.mpf], z: mpmath.mpf
    ) -> tuple[bool, mpmath.mpf]:
        """Whether the bound, of which the logarithm is convex, is below the error, and where: near ``z``."""
        goal = mpmath.log(self.error)

        def bound(z: mpmath.mpf) -> mpmath.mpf:
            size = mpmath.log(self.kernel.scale * self.kernel.at(z, 0) * mpmath.sqrt(z * (z + 1)) / 2)
            return size + log_moment(z)

        here, ratio = bound(z), mpmath.mpf(4)
        while here > goal and ratio > _LEAST_RATIO:
            for at in (z * ratio, z / ratio):
                if (there := bound(at)) < here:
                    here, z = there, at
                    break
            else:
                ratio = mpmath.sqrt(ratio)
        return bool(here <= goal), z
