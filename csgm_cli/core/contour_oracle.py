"""Expectations of functions of the privacy loss in high precision, by a contour integral.

The privacy loss L is a sum over ``parts`` ((count, t), ...), ``count`` integers, of independent
copies of log Y_t, where Y_t = 1 - g + g exp(x sqrt(t) - t/2) with x standard normal is the
likelihood ratio of one coordinate. As in ``oracle``, ``digits`` are the decimal digits that a
result has right, results are ``mpf``, and the global precision is left alone.

E_Q[phi(e^L)], for phi a mixture of (u - w)_+ or of (w - u)_+ over strikes w, is one contour integral
of E_Q[Y^a] over complex a, times a ``Kernel``. On the contour E_Q[Y^a] is E_Q[Y^(Re a)] times the
characteristic function of log Y under the law tilted by Y^(Re a): sums of positive weights times
exp(i y loss). A blurred kernel is that of E_R[phi(e^L / R)] R with R lognormal of mean 1, which is
at least phi(e^L) for convex phi and ends the integral. Nothing of the float64 path is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import mpmath

from csgm_cli.core.fourier_oracle import cost, exponential_sums
from csgm_cli.core.oracle import Number
from csgm_cli.errors import NoAnswerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: How many coordinate-rounds (integers, possibly as floats) there are at which t = (clip / sigma)^2 > 0.
Parts: TypeAlias = tuple[tuple[float, Number], ...]

SPARE_DIGITS = 10
_COARSE = 64  # nodes of the first, too coarse, rule along the contour
_MOST_NODES = 60_000  # of one quadrature in x
_MOST_TURNS = 10_000_000  # some ten seconds
_PER_VALUE = 100  # what a value on the contour costs, in turns
_MANY_NODES = 1500  # in x, by which it must show whether a contour will end


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


# ---------------------------------------------------------------- one coordinate


@dataclass(frozen=True)
class _Tilted:
    """The law of log Y tilted by Y^order / E[Y^order], ``order`` real, on nodes in x."""

    log_moment: mpmath.mpf
    losses: list[mpmath.mpf]
    weights: list[mpmath.mpf]

    @property
    def mean(self) -> mpmath.mpf:
        return mpmath.fdot(self.weights, self.losses)

    @property
    def variance(self) -> mpmath.mpf:
        return mpmath.fdot(self.weights, [u * u for u in self.losses]) - self.mean**2

    def characteristic(
        self, first: mpmath.mpf, step: mpmath.mpf, count: int, digits: int
    ) -> list[mpmath.mpc]:
        """Return E[exp(i y log Y)] at y = first + j step, j < count, to about 10^-digits."""
        return exponential_sums(self.losses, self.weights, first, step, count, digits)


def log_ratio(gamma: mpmath.mpf, t: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
    """Return log Y at ``x``."""
    return mpmath.log(1 - gamma + gamma * mpmath.exp(x * mpmath.sqrt(t) - t / 2))


def _tilt(order: mpmath.mpf, gamma: mpmath.mpf, t: mpmath.mpf, height: mpmath.mpf, digits: int) -> _Tilted:
    """Tilt by Y^order on a grid that is fine enough for exp(i y log Y), |y| <= height.

    The error of each E[Y^(order + i y)] is below 10^-digits E[Y^order]. The integrand falls at
    least as fast as a Gaussian outside of [min(order, 0), max(order, 0)] sqrt(t). At height q above
    the axis, b = q sqrt(t) < pi, it is at most exp(q^2/2 + |y| b) times its value below, if
    order >= 0, and cos(b/2)^order times that otherwise, because |Y(x+iq)| >= cos(b/2) Y(x); the
    trapezoid rule turns a factor B at height q into a relative error of 2 B/(exp(2 pi q/step) - 1).
    """
    root, depth = mpmath.sqrt(t), (digits + 1) * mpmath.log(10)
    reach = mpmath.sqrt(2 * depth)
    q = min(reach, mpmath.mpf("0.9") * mpmath.pi / root)
    growth = q * q / 2 + height * q * root + min(order, 0) * mpmath.log(mpmath.cos(q * root / 2))
    step = 2 * mpmath.pi * q / (depth + growth)
    first = math.floor((min(order, 0) * root - reach) / step)
    last = math.ceil((max(order, 0) * root + reach) / step)
    if last - first > _MOST_NODES:
        raise not_converged(f"order {mpmath.nstr(order, 5)} and t {mpmath.nstr(t, 5)}", last - first)
    nodes = [j * step for j in range(first, last + 1)]
    losses = [log_ratio(gamma, t, x) for x in nodes]
    logs = [order * u - x * x / 2 for u, x in zip(losses, nodes, strict=True)]
    peak = max(logs)
    alive = [
        (u, mpmath.exp(log - peak)) for u, log in zip(losses, logs, strict=True) if log > peak - 2 * depth
    ]
    total = mpmath.fsum(weight for _, weight in alive)
    log_moment = peak + mpmath.log(total * step / mpmath.sqrt(2 * mpmath.pi))
    return _Tilted(log_moment, [u for u, _ in alive], [weight / total for _, weight in alive])


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
        with mpmath.workdps(wanted + _exponent_digits(abs(order), t) + SPARE_DIGITS):
            a = mpmath.mpc(order)
            law = _tilt(a.real, mpmath.mpf(gamma), mpmath.mpf(t), abs(a.imag), wanted)
            [rest] = law.characteristic(a.imag, mpmath.mpf(0), 1, mpmath.mp.dps)
            if rest != 0:
                value = law.log_moment + mpmath.log(rest)
                value -= 2j * mpmath.pi * mpmath.nint(value.imag / (2 * mpmath.pi))
            kept = min(abs(rest), 1) * min(abs(value), 1) if rest != 0 else mpmath.mpf(0)
            lost_now = math.ceil(-mpmath.log10(max(kept, mpmath.mpf(10) ** -wanted)))
        if lost_now <= lost:
            return value
        lost = lost_now + 1


def _exponent_digits(order: Number, t: Number) -> int:
    """Digits that rounding errors lose in Y^order exp(-x^2/2) where it matters."""
    size = mpmath.mpf(order)
    return int(mpmath.ceil(mpmath.log10((1 + size) * (10 + size * mpmath.mpf(t)) + 1000)))


# ---------------------------------------------------------------- many coordinates


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

    def tilt(self, z: mpmath.mpf, height: mpmath.mpf, digits: int) -> list[_Tilted]:
        """Tilt every kind of coordinate to the real point ``z`` of the contour."""
        order = self.direction.order(z)
        return [_tilt(order, gamma, t, height, digits) for _, gamma, t in self.kinds]

    def sum(self, of_each_kind: Sequence[mpmath.mpf]) -> mpmath.mpf:
        """Add up what one coordinate of each kind contributes."""
        return mpmath.fsum(n * each for (n, _, _), each in zip(self.kinds, of_each_kind, strict=True))


@dataclass(frozen=True)
class Kernel:
    """z -> scale exp(-z strike + z (z+1) blur/2) / product of |z - pole|.

    The contour passes between the poles. ``blur`` is the log-variance of R.
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
        poles = sum(1 / (z - pole) for pole in (*self.left, *self.right))
        return -self.strike + (2 * z + 1) * self.blur / 2 - poles

    def curvature(self, z: mpmath.mpf) -> mpmath.mpf:
        """Return the second derivative of the logarithm on the real axis."""
        return self.blur + sum(1 / (z - pole) ** 2 for pole in (*self.left, *self.right))


def hockey_stick(epsilon: Number, blur: Number = 0) -> Kernel:
    """Return the kernel of (u - e^eps)_+ (add) and of (1 - e^eps u)_+ (remove)."""
    return Kernel(mpmath.mpf(1), mpmath.mpf(epsilon), (mpmath.mpf(0), mpmath.mpf(-1)), blur=mpmath.mpf(blur))


def saddle(law: Law, kernel: Kernel) -> mpmath.mpf:
    """Return about the lowest point of the integrand between the poles, by bisection of its slope."""
    digits = 12 + len(str(law.count))
    low = max(kernel.left)
    room = min(kernel.right) - low if kernel.right else mpmath.inf

    def rises(distance: mpmath.mpf) -> bool:
        means = [each.mean for each in law.tilt(low + distance, mpmath.mpf(0), digits)]
        return bool(law.direction.sign * law.sum(means) + kernel.slope(low + distance) > 0)

    variance = law.sum([gamma**2 * mpmath.expm1(min(t, 1)) for _, gamma, t in law.kinds])
    below = (abs(kernel.strike) + mpmath.sqrt(variance)) / variance
    below = min(below, 1 + 1 / law.largest_t, room / 2)
    while rises(below):
        below /= 2
    above = 2 * below
    while above < room and not rises(above):
        below, above = above, 2 * above
    above = min(above, room)
    while above - below > min(below, room - below) / 16:
        middle = (below + above) / 2
        below, above = (below, middle) if rises(middle) else (middle, above)
    return low + below


@dataclass(frozen=True)
class _Line:
    """The integrand on Re z = ``real``, in units of its value on the real axis."""

    law: Law
    kernel: Kernel
    real: mpmath.mpf
    tilted: list[_Tilted]
    digits: int

    def integrand(self, first: mpmath.mpf, step: mpmath.mpf, count: int) -> list[mpmath.mpc]:
        """Return the integrand at Im z = first + j step, j < count."""
        self.check(count)
        sign, unit = self.law.direction.sign, self.kernel.at(self.real, mpmath.mpf(0))
        columns = [each.characteristic(sign * first, sign * step, count, self.digits) for each in self.tilted]
        values = []
        for j, moments in enumerate(zip(*columns, strict=True)):
            if 0 in moments:  # rounded
                values.append(mpmath.mpc(0))
                continue
            exponent = self.law.sum([mpmath.log(moment) for moment in moments])
            z = mpmath.mpc(self.real, first + j * step)
            values.append(self.kernel.at(z, exponent) / unit)
        return values

    def check(self, count: int) -> None:
        """Refuse ``count`` values on the contour where they would take too long."""
        steps = sum(cost(len(each.losses), count, self.digits) for each in self.tilted) + _PER_VALUE * count
        if steps > _MOST_TURNS:
            raise not_converged(f"a contour for {self.law.count} coordinates", steps)

    def unit(self) -> mpmath.mpf:
        """Return the integrand on the real axis."""
        log_moment = self.law.sum([each.log_moment for each in self.tilted])
        return self.kernel.scale * self.kernel.at(self.real, log_moment)


def contour_integral(law: Law, kernel: Kernel, digits: int = 20) -> mpmath.mpf:
    """(1/2 pi i) int E_Q[e^(a L)] kernel(z) dz over a vertical line, a = 1 + z (add) or -z (remove).

    The window ends where the blur does, or is doubled until the integrand is negligible in its outer
    half. Then the step is halved until two trapezoid sums agree: each halving about squares the
    error, so that the last sum is far better than that. Raises ``NoAnswerError`` (slug
    ``oracle-not-converged``).
    """
    wanted = digits + len(str(law.count)) + 2
    with mpmath.workdps(wanted + SPARE_DIGITS):
        real = saddle(law, kernel)
        variances = [each.variance for each in law.tilt(real, mpmath.mpf(0), wanted)]
        window = 6 / mpmath.sqrt(law.sum(variances) + kernel.curvature(real))
    largest = law.largest_t
    with mpmath.workdps(wanted + _exponent_digits(abs(real) + 1, largest) + SPARE_DIGITS):
        tolerance = mpmath.mpf(10) ** -digits
        if kernel.blur > 0:
            line, window, count, agreement = _blurred_line(law, kernel, real, tolerance, wanted)
        else:
            line, window, count = _line(law, kernel, real, window, tolerance, wanted)
            agreement = tolerance
        step = window / count
        terms = [term.real for term in line.integrand(mpmath.mpf(0), step, count)]
        total, before = mpmath.fsum(terms) - terms[0] / 2, mpmath.fsum(terms[::2]) - terms[0] / 2
        while abs(total - 2 * before) > total * agreement:
            between = line.integrand(step / 2, step, count)
            before, total = total, total + mpmath.fsum(term.real for term in between)
            step, count = step / 2, 2 * count
        return line.unit() * total * step / mpmath.pi


def _line(
    law: Law, kernel: Kernel, real: mpmath.mpf, window: mpmath.mpf, tolerance: mpmath.mpf, digits: int
) -> tuple[_Line, mpmath.mpf, int]:
    """A line on which the integrand is negligible in the outer half of the window, and nodes to begin with.

    Given up where even an exponential fall from here on would need too many nodes in x.
    """
    while True:
        window = 2 * window
        line = _Line(law, kernel, real, law.tilt(real, window, digits), digits)
        terms = line.integrand(mpmath.mpf(0), window / _COARSE, _COARSE)
        outer = max(abs(term) for term in terms[_COARSE // 2 :])
        total = abs(mpmath.fsum(term.real for term in terms) - terms[0].real / 2)
        goal = tolerance / 100 / _COARSE * max(total, 1)
        if outer < goal:
            return line, window, _COARSE
        nodes = max(len(each.losses) for each in line.tilted)
        needed = int(nodes * mpmath.log(goal) / min(mpmath.log(outer), -1))
        if nodes > _MANY_NODES and needed > _MOST_NODES:
            raise not_converged(f"a contour for {law.count} coordinates", needed)


def _blurred_line(
    law: Law, kernel: Kernel, real: mpmath.mpf, tolerance: mpmath.mpf, digits: int
) -> tuple[_Line, mpmath.mpf, int, mpmath.mpf]:
    """A line up to where exp(-y^2 blur/2) is the tolerance: all else is largest on the real axis.

    With an even number of nodes that makes an alias at a lower strike that small, next to an answer
    of about the integrand's size; and how far half of the nodes may be off by such aliases.
    """
    window = mpmath.sqrt(-2 * mpmath.log(tolerance) / kernel.blur)
    line = _Line(law, kernel, real, law.tilt(real, window, digits), digits)
    distance = real - max(kernel.left)
    size = min(distance * line.unit() / kernel.scale, mpmath.mpf(1))
    count = 2 * math.ceil(-mpmath.log(tolerance * size) * window / (4 * mpmath.pi * distance))
    line.check(count)
    return line, window, count, min(2 * mpmath.sqrt(tolerance / size), mpmath.mpf("0.01"))


# ---------------------------------------------------------------- refusals


def require(holds: bool, name: str, allowed: str, value: object) -> None:  # noqa: FBT001 - an assertion
    """Raise ``UsageError`` (slug ``out-of-range``) unless ``holds``."""
    if not holds:
        raise UsageError("out-of-range", f"{name} must be {allowed}, got {value}")


def not_converged(what: str, steps: int) -> NoAnswerError:
    """Return the error that says that ``what`` would take too many ``steps``."""
    said = f"this answer cannot be verified: {what} would take {steps} steps in high precision"
    return NoAnswerError("oracle-not-converged", said, "leave --verify out, or use --accountant rdp")
