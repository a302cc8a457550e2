"""K(a; g, t) = log E[Y^a], the log-moment of one coordinate, in high precision at any real order.

Y = 1 - g + g exp(x sqrt(t) - t/2) with x standard normal is the likelihood ratio of one coordinate that is
sent with probability g = gamma and moves by sqrt(t) noise standard deviations.

Every function of this package takes ``digits``, the decimal digits that the result has right, works at
whatever precision that needs, leaves the global precision alone and returns an ``mpf``: compare results
inside ``mpmath.workdps(digits)``. Floats are taken as the exact binary numbers that they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import mpmath

from csgm_cli.errors import NoAnswerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

Number: TypeAlias = float | mpmath.mpf

SPARE_DIGITS = 10  # beyond those that an analysis of the rounding errors asks for
_LARGEST_SUMMED_ORDER = 2000  # integer orders up to here take the finite sum, the others quadrature
_MOST_NODES = 300_000  # of one quadrature: about half a minute


def require(holds: bool, name: str, allowed: str, value: object) -> None:  # noqa: FBT001 - an assertion
    """Raise ``UsageError`` (slug ``out-of-range``) unless ``holds``."""
    if not holds:
        raise UsageError("out-of-range", f"{name} must be {allowed}, got {value}")


def not_converged(what: str) -> NoAnswerError:
    """The error for a computation that would take too long in high precision."""
    return NoAnswerError(
        "oracle-not-converged",
        f"this answer cannot be verified: {what} takes too many steps in high precision",
        "leave `verify` out, or use `accountant` rdp",
    )


def log_moment(order: Number, gamma: Number, t: Number, digits: int = 50) -> mpmath.mpf:
    """Log E[Y^order] for a real ``order`` above 1 or below 0, gamma in (0, 1] and t >= 0.

    The relative error is below 10^-digits however small or large the value is. Raises ``UsageError`` outside
    these ranges and ``NoAnswerError`` (slug ``oracle-not-converged``) where the quadrature would take too
    long, which does not happen for orders up to 1e9 with order * sqrt(t) <= 1e4.
    """
    require(order > 1 or order < 0, "order", "above 1 or below 0", order)
    require(0 < gamma <= 1, "gamma", "in (0, 1]", gamma)
    require(t >= 0, "t", "at least 0", t)
    if gamma == 1 or t == 0:
        with mpmath.workdps(digits + SPARE_DIGITS):
            return mpmath.mpf(order) * (mpmath.mpf(order) - 1) * mpmath.mpf(t) / 2
    if 1 < order <= _LARGEST_SUMMED_ORDER and order == int(order):
        return summed_log_moment(int(order), gamma, t, digits)
    return integrated_log_moment(order, gamma, t, digits)


def summed_log_moment(order: int, gamma: Number, t: Number, digits: int = 50) -> mpmath.mpf:
    """Log E[Y^order] for an integer ``order`` >= 2 and ``gamma`` < 1, by the binomial sum.

    K = log1p( sum_{l=2}^{a} C(a,l) (1-g)^(a-l) g^l expm1(l(l-1) t/2) ): the terms are positive, and the
    terms 0 and 1 cancel because the binomial weights add up to 1.
    """
    with mpmath.workdps(digits + SPARE_DIGITS + len(str(order))):
        g, t = mpmath.mpf(gamma), mpmath.mpf(t)
        weight = (1 - g) ** order
        total = mpmath.mpf(0)
        for level in range(1, order + 1):
            weight *= g / (1 - g) * (order - level + 1) / level
            total += weight * mpmath.expm1(level * (level - 1) * t / 2)
        return mpmath.log1p(total)


def integrated_log_moment(order: Number, gamma: Number, t: Number, digits: int = 50) -> mpmath.mpf:
    """Log E[Y^order] for ``gamma`` < 1 and ``t`` > 0, by quadrature of Y^a exp(-x^2/2) over x.

    log E[Y^a] loses digits where E[Y^a] is close to 1; K is about a(a-1) g^2 t/2 there. The quadrature is
    repeated with more digits where the loss was larger than that.
    """
    a, g = mpmath.mpf(order), mpmath.mpf(gamma)
    size = mpmath.log10(abs(a)) + mpmath.log10(abs(a - 1)) + 2 * mpmath.log10(g) + mpmath.log10(t / 2)
    lost = max(0, -int(mpmath.floor(size)))
    # Exponents reach (a sqrt t)^2, and the a-th power multiplies a relative error by a.
    scale = max(0, int(mpmath.ceil(mpmath.log10(abs(a)) + mpmath.log10(1 + a**2 * mpmath.mpf(t)))))
    while True:
        wanted = digits + lost
        with mpmath.workdps(wanted + scale + SPARE_DIGITS):
            integrand = _Integrand(mpmath.mpf(order), mpmath.mpf(gamma), mpmath.mpf(t))
            value = mpmath.log(_trapezoid(integrand, wanted + 2) / mpmath.sqrt(2 * mpmath.pi))
            found = wanted if value == 0 else max(0, -int(mpmath.floor(mpmath.log10(abs(value)))))
        if found <= lost:
            return value
        lost = found + 1


@dataclass(frozen=True)
class _Integrand:
    """Y(x)^a exp(-x^2/2) and where on the line it is not negligible.

    With the posterior R = g M/Y, M = exp(x sqrt(t) - t/2), the slope of the logarithm is a sqrt(t) R - x.
    R increases from 0 to 1, so for a < 0 the slope decreases and has one root in [a sqrt(t), 0]; for a > 1 it
    is positive at x <= 0, negative at x >= a sqrt(t), and has at most three roots.
    """

    a: mpmath.mpf
    g: mpmath.mpf
    t: mpmath.mpf

    @property
    def far_peak(self) -> mpmath.mpf:
        """Where the peak would be if the coordinate were always sent."""
        return self.a * mpmath.sqrt(self.t)

    def log(self, x: mpmath.mpf) -> mpmath.mpf:
        """The logarithm of the integrand at ``x``."""
        ratio = mpmath.exp(x * mpmath.sqrt(self.t) - self.t / 2)
        return self.a * mpmath.log(1 - self.g + self.g * ratio) - x * x / 2

    def rises(self, x: mpmath.mpf) -> bool:
        """Whether the slope at ``x`` is positive."""
        odds = self.g / (1 - self.g) * mpmath.exp(x * mpmath.sqrt(self.t) - self.t / 2)
        return bool(self.far_peak * odds > x * (1 + odds))

    def windows(self, depth: mpmath.mpf) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
        """Disjoint intervals outside which the integrand is below exp(-depth) of its maximum."""
        basins = self._basins(mpmath.sqrt(2 * depth))
        floor = max(self.log(peak) for _, peak, _ in basins) - depth

        def counts(x: mpmath.mpf) -> bool:
            return bool(self.log(x) > floor)

        return [
            tuple(end if counts(end) else _bisect(counts, peak, end) for end in (left, right))
            for left, peak, right in basins
            if counts(peak)
        ]

    def _basins(self, reach: mpmath.mpf) -> list[tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]]:
        """Each (left, peak, right): the integrand rises up to the peak and falls from there.

        Outside the interval from 0 to ``far_peak`` it falls at least as fast as a standard normal density,
        so that ``reach`` standard deviations outwards are enough.
        """
        zero = mpmath.mpf(0)
        left, right = min(zero, self.far_peak) - reach, max(zero, self.far_peak) + reach
        if self.a < 0:
            return [(left, _bisect(self.rises, self.far_peak - 1, zero), right)]
        low, high = self._steep_stretch()
        if low >= high or self.rises(low):  # the slope has one root, beyond the steep stretch
            return [(left, _bisect(self.rises, max(zero, high), self.far_peak), right)]
        near = _bisect(self.rises, zero, low)
        if not self.rises(high):
            return [(left, near, right)]
        valley = _bisect(self.rises, high, low)
        return [(left, near, valley), (valley, _bisect(self.rises, high, self.far_peak), right)]

    def _steep_stretch(self) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Where the logistic R is steep enough for the slope to increase: a t R(1-R) > 1."""
        spread = 1 - 4 / (self.a * self.t)
        if spread <= 0:
            return mpmath.mpf(0), mpmath.mpf(0)
        root = mpmath.sqrt(spread)
        middle = mpmath.log((1 - self.g) / self.g) + self.t / 2
        width = mpmath.log((1 + root) / (1 - root))
        return (middle - width) / mpmath.sqrt(self.t), (middle + width) / mpmath.sqrt(self.t)


def _bisect(claim: Callable[[mpmath.mpf], bool], yes: mpmath.mpf, no: mpmath.mpf) -> mpmath.mpf:
    """A point within 1/64 of where ``claim``, true at ``yes``, becomes false on the way to ``no``."""
    while abs(no - yes) > mpmath.mpf(1) / 64:
        middle = (yes + no) / 2
        if claim(middle):
            yes = middle
        else:
            no = middle
    return no


def _trapezoid(integrand: _Integrand, digits: int) -> mpmath.mpf:
    """The integral over the real line to a relative error of 10^-digits.

    Off the axis |Y(x+iy)| <= Y(x), so that for a > 0, as long as Y has no zero within a height y of the axis
    (they lie at height pi/sqrt(t)), the rule with step h errs by at most a relative
    2 exp(y^2/2)/(exp(2 pi y/h) - 1). The first step suits an integrand without zeros (they often
    lie where nothing counts); it is halved until two interleaved grids agree.
    """
    log_error = mpmath.log(10) * (digits + 2)
    windows = integrand.windows(log_error + mpmath.log(1 + abs(integrand.far_peak)))
    step = mpmath.sqrt(2 / log_error) * mpmath.pi

    def grid(offset: mpmath.mpf) -> mpmath.mpf:
        total = mpmath.mpf(0)
        for left, right in windows:
            first, end = (int(mpmath.ceil(side / step - offset)) for side in (left, right))
            for node in range(first, end):
                total += mpmath.exp(integrand.log((node + offset) * step))
        return total

    nodes = grid(mpmath.mpf(0))
    while sum(right - left for left, right in windows) / step < _MOST_NODES:
        between = grid(mpmath.mpf(1) / 2)
        step, nodes, change = step / 2, nodes + between, abs(nodes - between)
        if change <= nodes * mpmath.mpf(10) ** -digits:
            return nodes * step
    at = ", ".join(mpmath.nstr(value, 17) for value in (integrand.a, integrand.g, integrand.t))
    raise not_converged(f"the {digits}-digit quadrature at order, gamma, t = {at}")
