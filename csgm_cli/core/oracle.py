"""The same numbers in high precision: slow, obvious, and independent of the float64 path.

Nothing of the package is used here but its words (``model``) and its errors, so that an agreement
with the float64 path is evidence. Every function takes ``digits``, the decimal digits that the
result has right, works at whatever precision that needs, leaves the global precision alone and
returns an ``mpf``: compare results inside ``mpmath.workdps(digits)``.

Symbols: a = order, g = gamma, D2 and Di = the clip norms, k = (D2/Di)^2, t = Di^2/sigma^2, and
Y = 1 - g + g exp(x sqrt(t) - t/2) with x standard normal, the likelihood ratio of one coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import mpmath

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.model.mechanism import Adjacency, Bound, Mechanism, MechanismName

if TYPE_CHECKING:
    from collections.abc import Callable

#: A float is taken as the exact binary number that it is.
Number: TypeAlias = float | mpmath.mpf

_LARGEST_SUMMED_ORDER = 2000  # integer orders up to here take the finite sum, the others quadrature
_MOST_NODES = 300_000  # of one quadrature: about half a minute
SPARE_DIGITS = 10  # beyond those that an analysis of the rounding errors asks for


# ---------------------------------------------------------------- one coordinate


def log_moment(order: Number, gamma: Number, t: Number, digits: int = 50) -> mpmath.mpf:
    """K(a; g, t) = log E[Y^a], the log-moment of one coordinate.

    ``order`` > 1 (real), ``gamma`` in (0, 1], ``t`` = (clip / sigma)^2 >= 0. The relative error is
    below 10^-digits however small or large K is. Raises ``UsageError`` outside these ranges and
    ``NoAnswerError`` (slug ``oracle-not-converged``) where the quadrature would take too long,
    which orders up to 1e9 do not see while order * sqrt(t) <= 1e4.
    """
    require(order > 1, "order", "above 1", order)
    require(0 < gamma <= 1, "gamma", "in (0, 1]", gamma)
    require(t >= 0, "t", "at least 0", t)
    if gamma == 1 or t == 0:
        with mpmath.workdps(digits + SPARE_DIGITS):
            return _gaussian_log_moment(mpmath.mpf(order), mpmath.mpf(t))
    if order <= _LARGEST_SUMMED_ORDER and order == int(order):
        return summed_log_moment(int(order), gamma, t, digits)
    return integrated_log_moment(order, gamma, t, digits)


def _gaussian_log_moment(a: mpmath.mpf, t: mpmath.mpf) -> mpmath.mpf:
    """K at gamma = 1, where Y is lognormal."""
    return a * (a - 1) * t / 2


def summed_log_moment(order: int, gamma: Number, t: Number, digits: int = 50) -> mpmath.mpf:
    """K for an integer ``order`` >= 2 and ``gamma`` < 1, by the binomial sum (``order`` terms).

    K = log1p( sum_{l=2}^{a} C(a,l) (1-g)^(a-l) g^l expm1(l(l-1) t/2) ): the terms are positive, and
    l = 0, 1 have dropped out because the binomial weights add up to 1, so nothing cancels.
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
    """K for a real ``order`` > 1, ``gamma`` < 1 and ``t`` > 0, by quadrature of Y^a over x.

    K is convex in t with slope a(a-1) g^2/2 at 0, hence at least that slope times t: this bounds
    the digits that log E[Y^a] loses when E[Y^a] is close to 1, and they are added beforehand.
    """
    size = mpmath.log10(order) + mpmath.log10(order - 1) + 2 * mpmath.log10(gamma) + mpmath.log10(t / 2)
    wanted = digits + max(0, -int(mpmath.floor(size)))
    # Exponents reach (a sqrt t)^2, and the a-th power multiplies a relative error by a.
    scale = int(mpmath.ceil(mpmath.log10(order) + mpmath.log10(1 + order**2 * mpmath.mpf(t))))
    with mpmath.workdps(wanted + scale + SPARE_DIGITS):
        integrand = _Integrand(mpmath.mpf(order), mpmath.mpf(gamma), mpmath.mpf(t))
        return mpmath.log(_trapezoid(integrand, wanted + 2) / mpmath.sqrt(2 * mpmath.pi))


@dataclass(frozen=True)
class _Integrand:
    """Y(x)^a exp(-x^2/2) and where on the line it is not negligible.

    With R = g M/Y the logistic posterior, M = exp(x sqrt(t) - t/2), the slope of the logarithm is
    a sqrt(t) R - x: positive at x <= 0, negative at x >= a sqrt(t), with at most three roots.
    """

    a: mpmath.mpf
    g: mpmath.mpf
    t: mpmath.mpf

    @property
    def far_peak(self) -> mpmath.mpf:
        """Where the peak would be if the coordinate were always sent."""
        return self.a * mpmath.sqrt(self.t)

    def log(self, x: mpmath.mpf) -> mpmath.mpf:
        """Return the logarithm of the integrand at ``x``."""
        likelihood = mpmath.exp(x * mpmath.sqrt(self.t) - self.t / 2)
        return self.a * mpmath.log(1 - self.g + self.g * likelihood) - x * x / 2

    def rises(self, x: mpmath.mpf) -> bool:
        """Tell whether the slope at ``x`` is positive."""
        odds = self.g / (1 - self.g) * mpmath.exp(x * mpmath.sqrt(self.t) - self.t / 2)
        return bool(self.far_peak * odds > x * (1 + odds))

    def windows(self, depth: mpmath.mpf) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
        """Return disjoint intervals outside which the integrand is below exp(-depth) of its maximum."""
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
        """Return each (left, peak, right): the integrand rises up to the peak and falls from there.

        Below 0 and above ``far_peak`` it falls at least as fast as a standard normal density, so
        that ``reach`` standard deviations outwards are enough.
        """
        zero = mpmath.mpf(0)
        left, right = -reach, self.far_peak + reach
        low, high = self._steep_stretch()
        if low >= high or self.rises(low):  # the slope has one root, beyond the steep stretch
            return [(left, _bisect(self.rises, max(zero, high), self.far_peak), right)]
        near = _bisect(self.rises, zero, low)
        if not self.rises(high):
            return [(left, near, right)]
        valley = _bisect(self.rises, high, low)
        return [(left, near, valley), (valley, _bisect(self.rises, high, self.far_peak), right)]

    def _steep_stretch(self) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Return where the logistic R is steep enough for the slope to increase: a t R(1-R) > 1."""
        spread = 1 - 4 / (self.a * self.t)
        if spread <= 0:
            return mpmath.mpf(0), mpmath.mpf(0)
        root = mpmath.sqrt(spread)
        middle = mpmath.log((1 - self.g) / self.g) + self.t / 2
        width = mpmath.log((1 + root) / (1 - root))
        return (middle - width) / mpmath.sqrt(self.t), (middle + width) / mpmath.sqrt(self.t)


def _bisect(claim: Callable[[mpmath.mpf], bool], yes: mpmath.mpf, no: mpmath.mpf) -> mpmath.mpf:
    """Return a point within 1/64 of where ``claim``, true at ``yes``, becomes false on the way to ``no``."""
    while abs(no - yes) > mpmath.mpf(1) / 64:
        middle = (yes + no) / 2
        if claim(middle):
            yes = middle
        else:
            no = middle
    return no


def _trapezoid(integrand: _Integrand, digits: int) -> mpmath.mpf:
    """Integrate over the real line to a relative error of 10^-digits.

    Off the axis |Y(x+iy)| <= Y(x), so that as long as Y has no zero within a height y of the axis
    (they lie at height pi/sqrt(t)) the rule with step h errs by at most a relative
    2 exp(y^2/2)/(exp(2 pi y/h) - 1). The first step suits an integrand without zeros (they often
    lie where nothing counts); it is halved until two interleaved grids agree.
    """
    log_error = mpmath.log(10) * (digits + 2)
    windows = integrand.windows(log_error + mpmath.log(1 + integrand.far_peak))
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
    raise NoAnswerError(
        "oracle-not-converged",
        f"the {digits}-digit quadrature at order {mpmath.nstr(integrand.a, 17)}, gamma "
        f"{mpmath.nstr(integrand.g, 17)}, t {mpmath.nstr(integrand.t, 17)} needs over {_MOST_NODES} nodes",
    )


# ---------------------------------------------------------------- mechanisms


def renyi_divergence(
    mechanism: Mechanism, sigma: Number, order: Number, bound: Bound, digits: int = 50
) -> mpmath.mpf:
    """Return the proven bound on the Renyi divergence of all rounds, at one order.

    ``sigma`` > 0, ``order`` > 1, ``bound`` is ``Bound.RDP`` or ``Bound.PAPER``. Under replace-one the
    bound goes through the world where the client is absent: (2a/(2a-1)) eps(2a-1) + eps(2a).
    Raises ``UsageError`` for other arguments, and what ``log_moment`` raises.
    """
    require(order > 1, "order", "above 1", order)
    require(sigma > 0, "sigma", "above 0", sigma)
    require(bound in (Bound.RDP, Bound.PAPER), "bound", "rdp or paper", bound)
    # Where K rises steeply a relative error of t grows by about the order.
    with mpmath.workdps(digits + len(str(int(order))) + SPARE_DIGITS):
        a = mpmath.mpf(order)
        if mechanism.is_gaussian:
            return a * total_mu(mechanism, sigma) ** 2 / 2
        if mechanism.adjacency is Adjacency.ADD_REMOVE:
            return mechanism.releases * _one_round(mechanism, sigma, a, bound, digits)
        there = _one_round(mechanism, sigma, 2 * a - 1, bound, digits)
        back = _one_round(mechanism, sigma, 2 * a, bound, digits)
        return mechanism.releases * (2 * a / (2 * a - 1) * there + back)


def _one_round(mechanism: Mechanism, sigma: Number, a: mpmath.mpf, bound: Bound, digits: int) -> mpmath.mpf:
    """Return the add-remove Renyi bound of one round for gamma < 1."""
    coordinates = _coordinates(mechanism)
    t = (_linf_sensitivity(mechanism) / mpmath.mpf(sigma)) ** 2
    # The paper multiplies by a real k; the worst vector has floor(k) full coordinates and a rest.
    full = coordinates if bound is Bound.PAPER else mpmath.floor(coordinates)
    whole = full * log_moment(a, mechanism.gamma, t, digits + 2)
    rest = log_moment(a, mechanism.gamma, (coordinates - full) * t, digits + 2)
    return (whole + rest) / (a - 1)


def _linf_sensitivity(mechanism: Mechanism) -> mpmath.mpf:
    """Return how much one coordinate moves: its clip times the largest column norm of C."""
    clip = mpmath.mpf(mechanism.geometry.l2_norm) / mpmath.mpf(mechanism.geometry.norm_ratio)
    return clip * mpmath.mpf(mechanism.column_norm)


def _coordinates(mechanism: Mechanism) -> mpmath.mpf:
    """Count the coordinates charged at the clip Di: d for L-inf-CSGM, else k <= d."""
    geometry = mechanism.geometry
    k = mpmath.mpf(geometry.norm_ratio) ** 2
    if geometry.dim is None:
        return k
    dim = mpmath.mpf(geometry.dim)
    return dim if mechanism.name is MechanismName.LINF_CSGM else min(k, dim)


def total_mu(mechanism: Mechanism, sigma: Number) -> mpmath.mpf:
    """Return the distance, in noise standard deviations, between the two worlds when every mask is known."""
    sensitivity = mpmath.mpf(mechanism.geometry.l2_norm) * mpmath.mpf(mechanism.column_norm)
    if mechanism.name is MechanismName.LINF_CSGM:
        sensitivity = mpmath.sqrt(_coordinates(mechanism)) * _linf_sensitivity(mechanism)
    if mechanism.adjacency is Adjacency.REPLACE_ONE:
        sensitivity *= 2
    return sensitivity * mpmath.sqrt(mechanism.releases) / mpmath.mpf(sigma)


# ---------------------------------------------------------------- (epsilon, delta)


def epsilon(
    mechanism: Mechanism,
    sigma: Number,
    delta: Number,
    order: Number | None,
    bound: Bound,
    digits: int = 50,
) -> mpmath.mpf:
    """Return the epsilon >= 0 that ``bound`` proves at ``delta`` in (0, 1).

    ``order`` is the Renyi order to convert at (it is not optimised here); None for ``Bound.EXACT``
    and ``Bound.MASK_REVEALED``, which need none. ``digits`` count relative to the Renyi divergence
    where epsilon is a small difference. Raises ``UsageError`` for arguments that do not fit.
    """
    require(0 < delta < 1, "delta", "in (0, 1)", delta)
    with mpmath.workdps(digits + SPARE_DIGITS):
        a = _renyi_order(mechanism, order, bound)
        if a is None:
            return gaussian_epsilon(total_mu(mechanism, sigma), delta, digits)
        return converted(renyi_divergence(mechanism, sigma, a, bound, digits), a, delta)


def converted(divergence: mpmath.mpf, a: mpmath.mpf, delta: Number) -> mpmath.mpf:
    """Return the epsilon >= 0 that a Renyi divergence of order ``a`` proves at ``delta``."""
    cost = (mpmath.log(delta) + mpmath.log(a)) / (a - 1) - mpmath.log1p(-1 / a)
    return max(mpmath.mpf(0), divergence - cost)


def delta(
    mechanism: Mechanism,
    sigma: Number,
    epsilon: Number,
    order: Number | None,
    bound: Bound,
    digits: int = 50,
) -> mpmath.mpf:
    """Return the delta <= 1 that ``bound`` proves at ``epsilon`` >= 0; other arguments as there.

    The relative error is below 10^-digits, down to any delta.
    """
    require(epsilon >= 0, "epsilon", "at least 0", epsilon)
    with mpmath.workdps(digits + SPARE_DIGITS):
        a = _renyi_order(mechanism, order, bound)
        if a is None:
            return gaussian_delta(total_mu(mechanism, sigma), epsilon, digits)
    # An absolute error in the exponent is a relative one in delta.
    exponent_digits = int(mpmath.ceil(mpmath.log10((1 + a) * (1 + epsilon))))
    with mpmath.workdps(digits + exponent_digits + SPARE_DIGITS):
        divergence = renyi_divergence(mechanism, sigma, a, bound, digits + exponent_digits)
        exponent = (a - 1) * (divergence - epsilon) - mpmath.log(a - 1) + a * mpmath.log1p(-1 / a)
        return mpmath.exp(min(mpmath.mpf(0), exponent))


def _renyi_order(mechanism: Mechanism, order: Number | None, bound: Bound) -> mpmath.mpf | None:
    """Return the order, None where the bound is a Gaussian profile; refuse what does not fit."""
    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        require(order is None, "order", f"absent for {bound}", order)
        require(bound is not Bound.EXACT or mechanism.is_gaussian, "gamma", "1 for exact", mechanism.gamma)
        return None
    require(order is not None and order > 1, "order", "above 1", order)
    return mpmath.mpf(order)


def gaussian_delta(mu: Number, epsilon: Number, digits: int = 50) -> mpmath.mpf:
    """Return the exact delta of the Gaussian mechanism with sensitivity / sigma = ``mu`` > 0.

    delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (Balle and Wang 2018), ``epsilon`` >= 0.
    """
    require(mu > 0, "mu", "above 0", mu)
    require(epsilon >= 0, "epsilon", "at least 0", epsilon)
    # The tail's exponent is far^2/2, and the two terms agree to about mu/(1+far) of their size.
    far = mpmath.mpf(mu) / 2 + mpmath.mpf(epsilon) / mpmath.mpf(mu)
    lost = 3 * mpmath.log10(1 + far) + mpmath.log10(1 + 1 / mpmath.mpf(mu))
    with mpmath.workdps(digits + int(mpmath.ceil(lost)) + SPARE_DIGITS):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        sent = mpmath.ncdf(mu / 2 - epsilon / mu)
        return sent - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def gaussian_epsilon(mu: Number, delta: Number, digits: int = 50) -> mpmath.mpf:
    """Return the least epsilon >= 0 at which the Gaussian mechanism has ``delta`` in (0, 1).

    ``mu`` > 0 as in ``gaussian_delta``. Newton's method on log delta, which is concave in epsilon (a
    convolution of the log-concave loss density with the log-concave 1 - e^-y): from above the root
    it descends and never passes it. It starts where exp(-x^2/2) >= Phi(-x) >= delta(eps) is small
    enough, x = eps/mu - mu/2.
    """
    require(mu > 0, "mu", "above 0", mu)
    require(0 < delta < 1, "delta", "in (0, 1)", delta)
    working = digits + 2 * SPARE_DIGITS
    with mpmath.workdps(working + SPARE_DIGITS):
        mu, delta = mpmath.mpf(mu), mpmath.mpf(delta)
        if gaussian_delta(mu, 0, working) <= delta:
            return mpmath.mpf(0)
        guess = mu**2 / 2 + mu * mpmath.sqrt(-2 * mpmath.log(delta))
        while True:
            value = gaussian_delta(mu, guess, working)
            slope = mpmath.exp(guess) * mpmath.ncdf(-mu / 2 - guess / mu)
            step = value / slope * mpmath.log(value / delta)
            guess = max(mpmath.mpf(0), guess + step)
            if -step <= guess * mpmath.mpf(10) ** -(digits + 2):  # or upwards: only rounding is left
                return guess


def require(holds: bool, name: str, allowed: str, value: object) -> None:  # noqa: FBT001 - an assertion
    """Raise ``UsageError`` (slug ``out-of-range``) unless ``holds``."""
    if not holds:
        raise UsageError("out-of-range", f"{name} must be {allowed}, got {value}")
