"""The loss of one coordinate in high precision, tilted to an order: on nodes in x, and its transform.

Y = 1 - g + g M, M = exp(x sqrt(t) - t/2) with x standard normal, is the likelihood ratio of one
coordinate. As in ``oracle``, ``digits`` are the decimal digits that a result has right, results are
``mpf`` or ``mpc``, and the global precision is left alone. Nothing of the float64 path is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core.fourier_oracle import cost, exponential_sums
from csgm_cli.core.oracle import SPARE_DIGITS, require
from csgm_cli.errors import NoAnswerError

if TYPE_CHECKING:
    from csgm_cli.core.oracle import Number

_MOST_NODES = 60_000  # of one quadrature in x
_DESCENTS = 4  # of an end of the integrand
_TAIL = 10  # nodes count up to exp(-_TAIL) of the error


@dataclass(frozen=True)
class Tilted:
    """The law of log Y tilted by Y^order, ``order`` real, on nodes in x; E[Y^order] is its mass."""

    log_moment: mpmath.mpf
    losses: list[mpmath.mpf]
    weights: list[mpmath.mpf]

    @property
    def mean(self) -> mpmath.mpf:
        """Of log Y."""
        return mpmath.fdot(self.weights, self.losses)

    @property
    def variance(self) -> mpmath.mpf:
        """Of log Y."""
        return mpmath.fdot(self.weights, [u * u for u in self.losses]) - self.mean**2

    def characteristic(
        self, first: mpmath.mpf, step: mpmath.mpf, count: int, digits: int
    ) -> list[mpmath.mpc]:
        """Return E[exp(i y log Y)] at y = first + j step, j < count, to about 10^-digits."""
        return exponential_sums(self.losses, self.weights, first, step, count, digits)

    def cost(self, count: int, digits: int) -> int:
        """About how many elementary steps that takes."""
        return cost(len(self.losses), count, digits)


def log_ratio(gamma: mpmath.mpf, t: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
    """Return log Y at ``x``."""
    return mpmath.log(1 - gamma + gamma * mpmath.exp(x * mpmath.sqrt(t) - t / 2))


def tilt(order: mpmath.mpf, gamma: mpmath.mpf, t: mpmath.mpf, height: mpmath.mpf, digits: int) -> Tilted:
    """Tilt by Y^order on a grid that is fine enough for exp(i y log Y), |y| <= height.

    The error of each E[Y^(order + i y)] is below 10^-digits E[Y^order]. At height q above the axis,
    b = q sqrt(t) < pi, the integrand is at most exp(q^2/2 + |y| b) times its value below, if
    order >= 0, and cos(b/2)^order times that otherwise, because |Y(x+iq)| >= cos(b/2) Y(x); the
    trapezoid rule turns a factor B at height q into a relative error of 2 B/(exp(2 pi q/step) - 1).
    """
    root, depth = mpmath.sqrt(t), (digits + 1) * mpmath.log(10)
    reach = mpmath.sqrt(2 * depth)
    steep = 1 - min(order, 0) * t / 4  # of the growth with q
    q = min(reach / mpmath.sqrt(steep), mpmath.mpf("0.9") * mpmath.pi / root)
    lifted = min(order, 0) * mpmath.log(mpmath.cos(q * root / 2))
    growth = q * q / 2 + height * q * root + lifted
    step = 2 * mpmath.pi * q / (depth + growth)
    low, high = _ends(order, gamma, t, reach)
    first, last = math.floor(low / step), math.ceil(high / step)
    if last - first > _MOST_NODES:
        raise not_converged(f"order {mpmath.nstr(order, 5)} and t {mpmath.nstr(t, 5)}", last - first)
    nodes = [j * step for j in range(first, last + 1)]
    sent, ratio, losses = gamma * mpmath.exp(nodes[0] * root - t / 2), mpmath.exp(step * root), []
    for _ in nodes:
        losses.append(mpmath.log(1 - gamma + sent))
        sent *= ratio
    logs = [order * u - x * x / 2 for u, x in zip(losses, nodes, strict=True)]
    peak = max(logs)
    return tilted(losses, [mpmath.exp(log - peak) for log in logs], peak, step, depth)


def tilted(
    losses: list[mpmath.mpf],
    sizes: list[mpmath.mpf],
    log_unit: mpmath.mpf,
    step: mpmath.mpf,
    depth: mpmath.mpf,
) -> Tilted:
    """The law of the ``sizes`` at ``losses``, in steps of x, without what is exp(-depth) of the largest."""
    least = max(sizes) * mpmath.exp(-depth - _TAIL)
    alive = [(u, size) for u, size in zip(losses, sizes, strict=True) if size > least]
    total = mpmath.fsum(size for _, size in alive)
    log_moment = log_unit + mpmath.log(total * step / mpmath.sqrt(2 * mpmath.pi))
    return Tilted(log_moment, [u for u, _ in alive], [size / total for _, size in alive])


def _ends(
    order: mpmath.mpf, gamma: mpmath.mpf, t: mpmath.mpf, reach: mpmath.mpf
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Return ends beyond which Y^order exp(-x^2/2) is below exp(-reach^2/2) of its peak, and falls.

    The slope of its logarithm is p(x) - x, p = order sqrt(t) R, R the chance of having been sent given
    x, which rises with x from 0 to 1. For a negative order it is below -x for x > 0, and above p(0) - x
    for x < 0. For a positive one it is above -x for x < 0, and below order sqrt(t) - x everywhere: an
    end follows, up to which it is below p(end) - x, and a nearer end follows, and so on.
    """

    def moved(x: mpmath.mpf) -> mpmath.mpf:
        """Return p."""
        sent = gamma * mpmath.exp(x * mpmath.sqrt(t) - t / 2)
        return order * mpmath.sqrt(t) * sent / (1 - gamma + sent)

    if order < 0:
        return moved(mpmath.mpf(0)) - reach, reach
    end = order * mpmath.sqrt(t) + reach
    for _ in range(_DESCENTS):
        end = min(end, moved(end) + reach)
    return -reach, end


def complex_log_moment(order: mpmath.mpc | complex, gamma: Number, t: Number, digits: int = 20) -> mpmath.mpc:
    """K(a; g, t) = log E[Y^a], principal branch, at a complex or real order a.

    ``gamma`` in (0, 1], ``t`` >= 0. The relative error is about 10^-digits, however small K or
    E[Y^a] are: what cancels is measured and the precision raised by as much. Raises ``UsageError``
    outside these ranges and ``NoAnswerError`` (slug ``oracle-not-converged``) past 60,000 nodes.
    """
    require(0 < gamma <= 1, "gamma", "in (0, 1]", gamma)
    require(t >= 0, "t", "at least 0", t)
    if t == 0 or order in (0, 1):
        return mpmath.mpc(0)
    lost = 0
    while True:
        wanted = digits + lost
        with mpmath.workdps(wanted + exponent_digits(abs(order), t) + SPARE_DIGITS):
            a = mpmath.mpc(order)
            law = tilt(a.real, mpmath.mpf(gamma), mpmath.mpf(t), abs(a.imag), wanted)
            [rest] = law.characteristic(a.imag, mpmath.mpf(0), 1, mpmath.mp.dps)
            if rest != 0:
                value = law.log_moment + mpmath.log(rest)
                value -= 2j * mpmath.pi * mpmath.nint(value.imag / (2 * mpmath.pi))
            kept = min(abs(rest), 1) * min(abs(value), 1) if rest != 0 else mpmath.mpf(0)
            lost_now = math.ceil(-mpmath.log10(max(kept, mpmath.mpf(10) ** -wanted)))
        if lost_now <= lost:
            return value
        lost = lost_now + 1


def exponent_digits(order: Number, t: Number) -> int:
    """Digits that rounding errors lose in Y^order exp(-x^2/2) where it matters."""
    size = mpmath.mpf(order)
    return int(mpmath.ceil(mpmath.log10((1 + size) * (10 + size * mpmath.mpf(t)) + 1000)))


# ---------------------------------------------------------------- refusals


def not_converged(what: str, steps: int) -> NoAnswerError:
    """Return the error that says that ``what`` would take too many ``steps``."""
    said = f"this answer cannot be verified: {what} would take {steps} steps in high precision"
    return NoAnswerError("oracle-not-converged", said, "leave `verify` out, or use `accountant` rdp")
