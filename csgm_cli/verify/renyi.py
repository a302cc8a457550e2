"""Worst-case client vectors, their Renyi divergence and its conversion, and the Gaussian profile.

Symbols: a = order, g = gamma, D2 and Di = the clip norms, k = (D2/Di)^2, t = Di^2/sigma^2. ``releases`` are
(mechanism, sigma) pairs that one client takes part in; log-moments of independent releases add.
``digits`` and results are as in ``log_moment``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import mpmath

from csgm_cli.model.mechanism import Adjacency, Bound, Mechanism
from csgm_cli.verify.log_moment import SPARE_DIGITS, Number, log_moment, require

if TYPE_CHECKING:
    from collections.abc import Sequence

Release: TypeAlias = tuple[Mechanism, Number]

_SCANNED = 24  # values of t, a factor 2 apart, among which a supremum is sought
_SUPREMUM_WIDTH = mpmath.mpf(10) ** -7  # relative, in t: the supremum is flat, so 1e-14 of its value


class Coordinates(NamedTuple):
    """``number`` independent coordinates, each sent with probability ``gamma``, of squared size ``t``."""

    number: int
    gamma: Number
    t: Number


# ---------------------------------------------------------------- worst-case vectors


def worst_case(releases: Sequence[Release], digits: int = 50) -> tuple[tuple[Coordinates, ...], mpmath.mpf]:
    """The coordinates of kappa* in all releases together, and the squared mu of what is always sent.

    kappa* has as many coordinates as possible at the L-inf clip, the rest of the L2 norm in one more. For
    add/remove; equal coordinates are counted together.
    """
    found: dict[tuple[float, mpmath.mpf], int] = {}
    with mpmath.workdps(digits + SPARE_DIGITS):
        mu_squared = mpmath.mpf(0)
        for mechanism, sigma in releases:
            require(sigma > 0, "sigma", "above 0", sigma)
            if mechanism.is_gaussian:
                mu_squared += _mu(mechanism, sigma) ** 2
                continue
            if mechanism.sends_all:  # the whole vector is sent with probability q
                key = (mechanism.sampling_rate, _mu(replace(mechanism, rounds=1), sigma) ** 2)
                found[key] = found.get(key, 0) + mechanism.releases
                continue
            total, t = _coordinates(mechanism), (_linf_sensitivity(mechanism) / mpmath.mpf(sigma)) ** 2
            whole = int(mpmath.floor(total))
            for count, size in ((whole, t), (1, (total - whole) * t)):
                if size > 0:
                    key = (mechanism.gamma, size)
                    found[key] = found.get(key, 0) + count * mechanism.releases
        return tuple(Coordinates(n, gamma, t) for (gamma, t), n in found.items()), mu_squared


def is_largest(mechanism: Mechanism) -> bool:
    """Whether no client vector exceeds kappa* in any coordinate, so that kappa* is worst for all tests."""
    if mechanism.sends_all or not mechanism.kind.clips_l2:
        return True
    dim = mechanism.geometry.dim
    return dim is not None and mechanism.coordinates >= dim


def _linf_sensitivity(mechanism: Mechanism) -> mpmath.mpf:
    """How much one coordinate moves: its clip times the factor of C on one release."""
    return _linf_norm(mechanism) * mpmath.mpf(mechanism.column_norm)


def _linf_norm(mechanism: Mechanism) -> mpmath.mpf:
    return mpmath.mpf(mechanism.geometry.l2_norm) / mpmath.mpf(mechanism.geometry.norm_ratio)


def _coordinates(mechanism: Mechanism) -> mpmath.mpf:
    """How many coordinates are at the clip Di: d where that is elementwise largest, else k."""
    geometry = mechanism.geometry
    if geometry.dim is not None and is_largest(mechanism):
        return mpmath.mpf(geometry.dim)
    return mpmath.mpf(geometry.norm_ratio) ** 2


def _mu(mechanism: Mechanism, sigma: Number) -> mpmath.mpf:
    """Sensitivity over sigma of all rounds under add/remove when every mask is known."""
    l2_norm = mpmath.mpf(mechanism.geometry.l2_norm)
    if not mechanism.kind.clips_l2:
        l2_norm = mpmath.sqrt(_coordinates(mechanism)) * _linf_norm(mechanism)
    sensitivity = l2_norm * mpmath.mpf(mechanism.mean_column_norm)
    return sensitivity * mpmath.sqrt(mechanism.releases) / mpmath.mpf(sigma)


def total_mu(releases: Sequence[Release], digits: int = 50) -> mpmath.mpf:
    """Sensitivity over sigma of all releases when every mask is known; twice that under replace-one."""
    with mpmath.workdps(digits + SPARE_DIGITS):
        factors = [2 if m.adjacency is Adjacency.REPLACE_ONE else 1 for m, _ in releases]
        squares = [(f * _mu(m, sigma)) ** 2 for f, (m, sigma) in zip(factors, releases, strict=True)]
        return mpmath.sqrt(mpmath.fsum(squares))


# ---------------------------------------------------------------- Renyi divergence


def total_log_moment(
    coordinates: Sequence[tuple[int, Number, Number]], mu_squared: Number, order: Number, digits: int = 50
) -> mpmath.mpf:
    """Log E_Q[u^order] of the whole likelihood ratio u: the log-moments of all parts add."""
    with mpmath.workdps(digits + SPARE_DIGITS):
        a = mpmath.mpf(order)
        parts = [count * log_moment(a, gamma, t, digits + 2) for count, gamma, t in coordinates]
        return mpmath.fsum(parts) + a * (a - 1) * mpmath.mpf(mu_squared) / 2


def remove_log_moment(
    releases: Sequence[Release], order: Number, digits: int = 20, *, closed: bool = False
) -> mpmath.mpf:
    """Bound on log E_Q[u^(1 - order)] over all client vectors, ``order`` > 1, to 14 digits at most.

    (order - 1) times the Renyi divergence D_order(Q||P) of the remove direction. Where kappa* is not largest
    the log-moment at order 1 - a is at most sum(t) sup K(1-a; t')/t' over 0 < t' <= t. ``closed``: the
    larger (a(a-1)/2) (gamma^2 sum(t) (e^t - 1)/t + mu^2) instead.
    """
    require(order > 1, "order", "above 1", order)
    with mpmath.workdps(digits + SPARE_DIGITS):
        a, total = 1 - mpmath.mpf(order), mpmath.mpf(0)
        for mechanism, sigma in releases:
            coordinates, mu_squared = worst_case([(mechanism, sigma)], digits)
            if not coordinates or (is_largest(mechanism) and not closed):
                total += total_log_moment(coordinates, mu_squared, a, digits)
                continue
            gamma, top = mpmath.mpf(mechanism.gamma), max(t for *_, t in coordinates)
            growth = a * (a - 1) / 2 * gamma**2 * mpmath.expm1(top) / top
            rate = growth if closed else _largest_rate(a, gamma, top, digits)
            total += rate * mpmath.fsum([n * t for n, _, t in coordinates])
        return total


def _largest_rate(order: mpmath.mpf, gamma: Number, top: mpmath.mpf, digits: int) -> mpmath.mpf:
    """The supremum of K(order; gamma, t)/t over 0 < t <= top, for ``order`` < 0: a scan, and thirds."""

    def rate(t: mpmath.mpf) -> mpmath.mpf:
        return log_moment(order, gamma, t, digits) / t

    points = [top / 2**j for j in range(_SCANNED)]
    rates = [rate(t) for t in points]
    best = max(range(_SCANNED), key=lambda j: rates[j])
    slope_at_zero = order * (order - 1) / 2 * mpmath.mpf(gamma) ** 2
    low, high = points[min(best + 1, _SCANNED - 1)], points[max(best - 1, 0)]
    while high - low > _SUPREMUM_WIDTH * high:
        left, right = (2 * low + high) / 3, (low + 2 * high) / 3
        low, high = (low, right) if rate(left) > rate(right) else (left, high)
    return max(rates[best], rate(low), slope_at_zero)


def renyi_divergence(
    mechanism: Mechanism, sigma: Number, order: Number, bound: Bound, digits: int = 50
) -> mpmath.mpf:
    """The proven bound on the Renyi divergence of all rounds of one mechanism, at one order above 1.

    ``bound`` is ``Bound.RDP`` or ``Bound.PAPER``, which charges a non-integer k. Under replace-one the bound
    goes through the world without the client: (2a/(2a-1)) eps(2a-1) + eps(2a).
    """
    require(order > 1, "order", "above 1", order)
    require(bound in (Bound.RDP, Bound.PAPER), "bound", "rdp or paper", bound)
    # Where K rises steeply a relative error of t grows by about the order.
    spare = len(str(int(order))) + SPARE_DIGITS
    with mpmath.workdps(digits + spare):
        a = mpmath.mpf(order)
        if mechanism.is_gaussian:
            return a * total_mu([(mechanism, sigma)], digits + spare) ** 2 / 2

        def divergence(at: mpmath.mpf) -> mpmath.mpf:
            if bound is Bound.PAPER:
                t = (_linf_sensitivity(mechanism) / mpmath.mpf(sigma)) ** 2
                count = mechanism.releases * _coordinates(mechanism)
                return count * log_moment(at, mechanism.gamma, t, digits + 2) / (at - 1)
            worst = worst_case([(mechanism, sigma)], digits + spare)
            return total_log_moment(*worst, at, digits) / (at - 1)

        if mechanism.adjacency is Adjacency.ADD_REMOVE:
            return divergence(a)
        return 2 * a / (2 * a - 1) * divergence(2 * a - 1) + divergence(2 * a)


# ---------------------------------------------------------------- (epsilon, delta)


def epsilon(
    releases: Sequence[Release], delta: Number, order: Number | None, bound: Bound, digits: int = 50
) -> mpmath.mpf:
    """The epsilon >= 0 that ``bound`` proves at ``delta`` in (0, 1) for all releases together.

    ``order`` is the Renyi order to convert at (it is not optimised here); None for ``Bound.EXACT`` and
    ``Bound.MASK_REVEALED``. ``digits`` count relative to the Renyi divergence where epsilon is a small
    difference. Raises ``UsageError`` for arguments that do not fit.
    """
    require(0 < delta < 1, "delta", "in (0, 1)", delta)
    with mpmath.workdps(digits + SPARE_DIGITS):
        a = _renyi_order(releases, order, bound)
        if a is None:
            return gaussian_epsilon(total_mu(releases, digits), delta, digits)
        divergence = mpmath.fsum([renyi_divergence(m, sigma, a, bound, digits) for m, sigma in releases])
        cost = (mpmath.log(delta) + mpmath.log(a)) / (a - 1) - mpmath.log1p(-1 / a)
        return max(mpmath.mpf(0), divergence - cost)


def delta(
    releases: Sequence[Release], epsilon: Number, order: Number | None, bound: Bound, digits: int = 50
) -> mpmath.mpf:
    """The delta <= 1 that ``bound`` proves at ``epsilon`` >= 0; other arguments as in `epsilon`.

    The relative error is below 10^-digits, down to any delta.
    """
    require(epsilon >= 0, "epsilon", "at least 0", epsilon)
    with mpmath.workdps(digits + SPARE_DIGITS):
        a = _renyi_order(releases, order, bound)
        if a is None:
            return gaussian_delta(total_mu(releases, digits), epsilon, digits)
    # An absolute error in the exponent is a relative one in delta.
    more = digits + int(mpmath.ceil(mpmath.log10((1 + a) * (1 + epsilon))))
    with mpmath.workdps(more + SPARE_DIGITS):
        divergence = mpmath.fsum([renyi_divergence(m, sigma, a, bound, more) for m, sigma in releases])
        return converted_delta((a - 1) * divergence, a, epsilon)


def converted_delta(log_moment_sum: mpmath.mpf, a: mpmath.mpf, epsilon: Number) -> mpmath.mpf:
    """The delta <= 1 from (a-1) times a Renyi divergence of order a (Canonne, Kamath, Steinke 2020)."""
    exponent = log_moment_sum - (a - 1) * epsilon - mpmath.log(a - 1) + a * mpmath.log1p(-1 / a)
    return mpmath.exp(min(mpmath.mpf(0), exponent))


def _renyi_order(releases: Sequence[Release], order: Number | None, bound: Bound) -> mpmath.mpf | None:
    """The order, None where the bound is a Gaussian profile; refuse what does not fit."""
    if bound in (Bound.EXACT, Bound.MASK_REVEALED):
        require(order is None, "order", f"absent for {bound}", order)
        gammas = [mechanism.gamma for mechanism, _ in releases if not mechanism.is_gaussian]
        require(bound is not Bound.EXACT or not gammas, "gamma", "1 for exact", gammas)
        return None
    require(order is not None and order > 1, "order", "above 1", order)
    return mpmath.mpf(order)


def gaussian_delta(mu: Number, epsilon: Number, digits: int = 50) -> mpmath.mpf:
    """The exact delta of the Gaussian mechanism with sensitivity / sigma = ``mu`` > 0.

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
    """The least epsilon >= 0 at which the Gaussian mechanism has ``delta`` in (0, 1).

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
