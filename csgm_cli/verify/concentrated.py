"""Means of convex functions at the worst-case vector kappa*, and the exponents for which they are bounds.

C_B is the class of convex phi with phi''(u) u^(1+B) nondecreasing (docs/theory.md, "Concentrated vectors"):
kappa* maximises E_Q[phi(u)] where the exponent B is admissible. ``digits`` and results are as in
``log_moment``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import mpmath

from csgm_cli.model.certificate import Direction
from csgm_cli.verify.contour import Kernel, TiltedNodes, contour_mean
from csgm_cli.verify.log_moment import SPARE_DIGITS, Number, require
from csgm_cli.verify.renyi import Coordinates, gaussian_delta

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST_PROVEN_T, _LEAST_ODDS = 8.65, 6.31e-5  # one of the two must hold for B > 0
_TESTED_TIMES, _TEST_DIGITS = 16, 15  # in (0, t]; digits of the test at each


@dataclass(frozen=True)
class ConvexFunction:
    """A convex function of the likelihood ratio u that dominates the hockey-stick at ``epsilon``.

    Add: phi''(u) u = scale (u/knee)^-B for u >= knee, touching u - e^epsilon at e^log_ratio knee.
    Remove: 1 - e^epsilon u up to the knee and (1/B) (u/knee)^(1-B) above, B > 1. With B infinite both are the
    hockey-stick, (u - e^epsilon)_+ or (1 - e^epsilon u)_+.
    """

    direction: Direction
    epsilon: Number
    exponent: Number = math.inf
    log_ratio: Number = math.inf

    def __post_init__(self) -> None:
        """Raise ``UsageError`` for parameters without such a function."""
        object.__setattr__(self, "direction", Direction(self.direction))
        require(self.epsilon >= 0, "epsilon", "at least 0", self.epsilon)
        require(self.exponent >= 0, "exponent", "at least 0", self.exponent)
        require(self.log_ratio > 0, "log_ratio", "above 0", self.log_ratio)
        decays = self.direction is Direction.ADD and math.isfinite(self.log_ratio)
        require(decays or self.exponent > 1, "exponent", "above 1", self.exponent)

    @property
    def is_hockey_stick(self) -> bool:
        """Whether there is no exponent."""
        return math.isinf(self.exponent)

    @property
    def pole(self) -> float:
        """The upper limit of Re z in the contour integral."""
        return math.inf if self.direction is Direction.ADD else float(self.exponent) - 1

    def shape(self) -> tuple[mpmath.mpf, mpmath.mpf]:
        """(scale, log knee) in working precision."""
        epsilon = mpmath.mpf(self.epsilon)
        if self.is_hockey_stick:
            return mpmath.mpf(1), epsilon if self.direction is Direction.ADD else -epsilon
        power = mpmath.mpf(self.exponent)
        if self.direction is Direction.REMOVE:
            return power * mpmath.exp(epsilon), mpmath.log1p(-1 / power) - epsilon
        if math.isinf(self.log_ratio):
            return power, epsilon + mpmath.log1p(-1 / power)
        ratio = mpmath.mpf(self.log_ratio)
        scale = 1 / _power_integral(-power, ratio)
        return scale, epsilon - mpmath.log(scale * _power_integral(1 - power, ratio))

    def kernel(self) -> Kernel:
        """The kernel of its contour integral, in working precision."""
        (scale, log_knee), zero, one = self.shape(), mpmath.mpf(0), mpmath.mpf(1)
        if self.is_hockey_stick:
            return Kernel(one, mpmath.mpf(self.epsilon), (zero, -one))
        power = mpmath.mpf(self.exponent)
        if self.direction is Direction.ADD:
            return Kernel(scale, log_knee, (zero, -one, -power))
        return Kernel(power - 1, -log_knee, (zero, -one), (power - 1,))


@dataclass(frozen=True)
class MatchedFunction:
    """The function of the class F_a above the hockey-stick (docs/theory.md, "Gaussian-matched conversion").

    With c = e^(+-epsilon) a/(a-1) it is c^(1-a) u^a/a up to c and u - e^epsilon above (add), and for remove
    1 - e^epsilon u + e^epsilon c^(1-a) u^a/a up to c and 0 above; ``order`` a > 1.
    """

    direction: Direction
    epsilon: Number
    order: Number

    is_hockey_stick = False

    @property
    def pole(self) -> float:
        """The upper limit of Re z in the contour integral."""
        return float(self.order) - 1 if self.direction is Direction.ADD else math.inf

    def shape(self) -> tuple[mpmath.mpf, mpmath.mpf]:
        """(1, log c) in working precision."""
        sign, a = 1 if self.direction is Direction.ADD else -1, mpmath.mpf(self.order)
        return mpmath.mpf(1), sign * mpmath.mpf(self.epsilon) + mpmath.log(a / (a - 1))

    def kernel(self) -> Kernel:
        """The kernel of its contour integral, in working precision."""
        (_, log_c), a, zero, one = self.shape(), mpmath.mpf(self.order), mpmath.mpf(0), mpmath.mpf(1)
        if self.direction is Direction.ADD:
            return Kernel(a - 1, log_c, (zero, -one), (a - 1,))
        return Kernel(a, -log_c, (zero, -one, -a))


TestFunction: TypeAlias = ConvexFunction | MatchedFunction


def _power_integral(power: mpmath.mpf, log_end: mpmath.mpf) -> mpmath.mpf:
    """The integral of w^(power - 1) from 1 to e^log_end."""
    return log_end if power == 0 else mpmath.expm1(power * log_end) / power


def mean_at_worst_case(
    coordinates: Sequence[Coordinates],
    mu_squared: Number,
    function: TestFunction,
    digits: int = 20,
) -> mpmath.mpf:
    """E_Q[phi(u)] for the coordinates of kappa*, as (number, gamma, t), and a Gaussian of squared mu.

    Closed forms for the hockey-stick of one coordinate or of a Gaussian alone, else a contour integral, which
    raises ``NoAnswerError`` (slug ``oracle-not-converged``) where few mask bits keep it from decaying.
    """
    with mpmath.workdps(digits + 2 * SPARE_DIGITS):
        parts = [Coordinates(int(n), mpmath.mpf(g), mpmath.mpf(t)) for n, g, t in coordinates if t > 0]
        if isinstance(function, ConvexFunction) and function.is_hockey_stick:
            if not parts:
                return gaussian_delta(mpmath.sqrt(mu_squared), function.epsilon, digits)
            if mu_squared == 0 and function.direction is Direction.REMOVE:
                least = mpmath.fsum(n * mpmath.log1p(-gamma) for n, gamma, _ in parts)
                if least >= -function.epsilon:  # no loss is beyond epsilon
                    return mpmath.mpf(0)
            if mu_squared == 0 and [n for n, _, _ in parts] == [1]:
                return single_delta(*parts[0][1:], function.epsilon, function.direction, digits)
        kernel = function.kernel()
    return contour_mean(parts, mu_squared, function.direction, kernel, digits)


def single_delta(
    gamma: Number, t: Number, epsilon: Number, direction: Direction | str, digits: int = 20
) -> mpmath.mpf:
    """The exact delta of one coordinate in one round, in closed form."""
    sign, lost = 1 if Direction(direction) is Direction.ADD else -1, mpmath.mpf(SPARE_DIGITS)
    while True:
        spare = int(lost) + SPARE_DIGITS
        with mpmath.workdps(digits + spare):
            g, s, grown = mpmath.mpf(gamma), mpmath.sqrt(t), mpmath.exp(epsilon)
            odds = (grown**sign - 1 + g) / g
            if odds <= 0:
                return mpmath.mpf(0)
            x = (mpmath.log(odds) + s * s / 2) / s
            if sign > 0:
                present, absent = g * mpmath.ncdf(s - x), (1 - g - grown) * mpmath.ncdf(-x)
            else:
                present, absent = -grown * g * mpmath.ncdf(x - s), (1 - grown * (1 - g)) * mpmath.ncdf(x)
            value = present + absent
            lost = mpmath.log10(abs(present / value) * (2 + x * x)) if value > 0 else mpmath.mpf(2 * spare)
        if lost + SPARE_DIGITS / 2 <= spare:
            return value


# ---------------------------------------------------------------- admissible exponents


def is_admissible(exponent: Number, gamma: Number, t: Number) -> bool:
    """Whether kappa* is worst for all of C_B with B = ``exponent``, for coordinates of squared size up to t.

    rho_B(t') = E_Q[Y^(1-B) R^2]/E_Q[Y^(1-B)], R = g M/Y, must be nondecreasing on (0, t]. Its derivative is
    tested at several t' and in the limit 0: with E_* tilted by Y^(1-B),
    E_*[R^2 (2 - 4(1+B) R + (1+B)(2+B) R^2)] >= B(B-1) (E_*[R^2])^2.
    """
    require(exponent >= 0, "exponent", "at least 0", exponent)
    if exponent == 0:
        return True
    if gamma == 1 or (t > _LARGEST_PROVEN_T and gamma / (1 - mpmath.mpf(gamma)) <= _LEAST_ODDS):
        return False
    with mpmath.workdps(_TEST_DIGITS + SPARE_DIGITS):
        g = mpmath.mpf(gamma)
        if mpmath.mpf(exponent) > (1 - g) / (2 * g):
            return False
        times = [mpmath.mpf(t) * j / _TESTED_TIMES for j in range(1, _TESTED_TIMES + 1)]
        return all(_posterior_grows(mpmath.mpf(exponent), g, time) for time in times)


def _posterior_grows(b: mpmath.mpf, gamma: mpmath.mpf, t: mpmath.mpf) -> bool:
    """The test of `is_admissible` at one ``t``."""
    nodes = TiltedNodes.at(1 - b, gamma, t, mpmath.mpf(0), _TEST_DIGITS)
    posteriors = [1 - (1 - gamma) * mpmath.exp(-loss) for loss in nodes.losses]
    squares = [r * r for r in posteriors]
    slopes = [2 - 4 * (1 + b) * r + (1 + b) * (2 + b) * r * r for r in posteriors]
    left = mpmath.fsum(w * r * s for w, r, s in zip(nodes.weights, squares, slopes, strict=True))
    return bool(left >= b * (b - 1) * mpmath.fdot(nodes.weights, squares) ** 2)
