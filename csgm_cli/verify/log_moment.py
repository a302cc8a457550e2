"""K(a; g, t) = log E[Y^a], the log-moment of one coordinate, in high precision at any real order.

Y = 1 - g + g exp(x sqrt(t) - t/2) with x standard normal is the likelihood ratio of one coordinate that is
sent with probability g = gamma and moves by sqrt(t) noise standard deviations.

Every function of this package takes ``digits``, the decimal digits that the result has right, works at
whatever precision that needs, leaves the global precision alone and returns an ``mpf``: compare results
inside ``mpmath.workdps(digits)``. Floats are taken as the exact binary numbers that they are.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import mpmath

from csgm_cli.errors import NoAnswerError, UsageError

Number: TypeAlias = float | mpmath.mpf

SPARE_DIGITS = 10  # beyond those that an analysis of the rounding errors asks for
_LARGEST_SUMMED_ORDER = 2000  # integer orders up to here take the finite sum, the others quadrature
_MOST_NODES, _MOST_KEPT = 3_000_000, 100_000  # of one quadrature: looked at, and evaluated in ten seconds
_LARGE = 700.0  # where exp overflows and 1 - gamma no longer counts


def require(holds: bool, name: str, allowed: str, value: object) -> None:  # noqa: FBT001 - an assertion
    """Raise ``UsageError`` (slug ``out-of-range``) unless ``holds``."""
    if not holds:
        raise UsageError("out-of-range", f"{name} must be {allowed}, got {value}")


def not_converged(reason: str) -> NoAnswerError:
    """The error for a recomputation that does not converge, or would take too long."""
    return NoAnswerError(
        "oracle-not-converged",
        f"verification did not converge: {reason}",
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
            moment = _trapezoid(mpmath.mpf(order), mpmath.mpf(gamma), mpmath.mpf(t), wanted + 2)
            value = mpmath.log(moment / mpmath.sqrt(2 * mpmath.pi))
            found = wanted if value == 0 else max(0, -int(mpmath.floor(mpmath.log10(abs(value)))))
        if found <= lost:
            return value
        lost = found + 1


def _trapezoid(a: mpmath.mpf, g: mpmath.mpf, t: mpmath.mpf, digits: int) -> mpmath.mpf:
    """The integral of Y^a exp(-x^2/2) over the real line to a relative error of 10^-digits.

    Off the axis |Y(x+iy)| <= Y(x), so that for a > 0, as long as Y has no zero within a height y of the axis
    (they lie at height pi/sqrt(t)), the rule with step h errs by at most a relative
    2 exp(y^2/2)/(exp(2 pi y/h) - 1). The first step suits an integrand without zeros (they often
    lie where nothing counts); it is halved until two interleaved grids agree.
    """
    log_error = mpmath.log(10) * (digits + 2)
    depth = log_error + mpmath.log(1 + abs(a) * mpmath.sqrt(t))
    step, root = mpmath.sqrt(2 / log_error) * mpmath.pi, mpmath.sqrt(t)

    def grid(offset: mpmath.mpf) -> mpmath.mpf:
        total = mpmath.mpf(0)
        for x in quadrature_nodes(a, g, t, depth, step, offset):
            total += mpmath.exp(a * mpmath.log(1 - g + g * mpmath.exp(x * root - t / 2)) - x * x / 2)
        return total

    nodes = grid(mpmath.mpf(0))
    while True:
        between = grid(mpmath.mpf(1) / 2)
        step, nodes, change = step / 2, nodes + between, abs(nodes - between)
        if change <= nodes * mpmath.mpf(10) ** -digits:
            return nodes * step


def quadrature_nodes(
    a: mpmath.mpf, g: mpmath.mpf, t: mpmath.mpf, depth: mpmath.mpf, step: mpmath.mpf, offset: Number = 0
) -> list[mpmath.mpf]:
    """The (j + offset) step where Y^a exp(-x^2/2) is above exp(-depth) of its largest value, about.

    The logarithm has slope a sqrt(t) R - x with the posterior R = g M/Y in (0, 1), so that it falls at least
    as fast as that of a normal density outside the interval from 0 to a sqrt(t). Inside, floats decide.
    """
    far, reach = a * mpmath.sqrt(t), mpmath.sqrt(2 * depth)
    low, high = (end / step for end in (min(far, mpmath.mpf(0)) - reach, max(far, mpmath.mpf(0)) + reach))
    if high - low > _MOST_NODES:
        raise not_converged(f"a quadrature needs {mpmath.nstr(high - low, 3)} nodes")
    power, gamma, size, root = float(a), float(g), float(t), math.sqrt(t)

    def log_integrand(x: float) -> float:
        y = x * root - size / 2
        loss = y + math.log(gamma) if y > _LARGE else math.log1p(gamma * math.expm1(y))
        return power * loss - x * x / 2

    indices = range(math.floor(low), math.ceil(high) + 1)
    shift, width = float(offset), float(step)
    logs = [log_integrand((j + shift) * width) for j in indices]
    floor = max(logs) - float(depth) - 1
    kept = [j for j, log in zip(indices, logs, strict=True) if log > floor]
    if len(kept) > _MOST_KEPT:
        raise not_converged(f"a quadrature needs {len(kept)} nodes")
    return [(j + offset) * step for j in kept]
