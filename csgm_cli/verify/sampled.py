"""Rounds with client sampling in high precision (docs/theory.md, "Client sampling").

In each of ``number`` rounds the client takes part with probability ``rate``; the likelihood ratio of a round
is U = 1 - rate + rate y, y that of its ``coordinates`` if the client takes part. ``digits`` and results are
as in ``log_moment``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import mpmath

from csgm_cli.model.mechanism import Adjacency
from csgm_cli.verify import renyi
from csgm_cli.verify.contour import TiltedNodes, characteristic
from csgm_cli.verify.log_moment import SPARE_DIGITS, Number, log_moment
from csgm_cli.verify.renyi import (
    Coordinates,
    converted_delta,
    is_largest,
    total_log_moment,
    worst_case,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from csgm_cli.model.mechanism import Mechanism
    from csgm_cli.verify.renyi import Release

# The bound is exact between these orders. Below, K is convex and 0 at order 1, and at most its value for a
# convex combination of the powers of 1 and y; above, U is dominated by the subsampled Gaussian with the same
# log-moment of y.
_LEAST_ORDER, _LARGEST_ORDER = 1.2, 64
_LOST_DIGITS = 25  # of E[U^a] - 1, which may be small


class Rounds(NamedTuple):
    """``number`` rounds with the sampling rate ``rate``, and the ``coordinates`` of kappa* in one of them."""

    number: int
    rate: float
    coordinates: tuple[Coordinates, ...]


def sampled_log_moment(order: Number, rounds: Rounds, digits: int = 15) -> mpmath.mpf:
    """The bound on log E[U^order] of one round, for a real ``order`` above 1, to a relative 10^-digits."""
    with mpmath.workdps(digits + SPARE_DIGITS):
        a = mpmath.mpf(order)
        if a < _LEAST_ORDER:
            least = mpmath.mpf(_LEAST_ORDER)
            chord = (a - 1) / (least - 1) * sampled_log_moment(least, rounds, digits)
            inner = total_log_moment(rounds.coordinates, 0, a, digits)
            return min(chord, mpmath.log1p(rounds.rate * mpmath.expm1(inner)))
        if a > _LARGEST_ORDER:
            return log_moment(a, rounds.rate, dominating_variance(a, rounds, digits), digits)
    with mpmath.workdps(digits + _LOST_DIGITS + SPARE_DIGITS):
        if a == int(a):
            return mpmath.log1p(_sum(a, [mpmath.mpf(j) for j in range(2, int(a) + 1)], rounds))
        real = _real_part(a)
        low = [mpmath.mpf(j) for j in range(2, int(mpmath.ceil(real)))]
        high = [a - j for j in range(int(mpmath.ceil(a - real)))]
        return mpmath.log1p(_sum(a, low + high, rounds) + _integral(a, real, rounds, digits))


def dominating_variance(order: Number, rounds: Rounds, digits: int = 15) -> mpmath.mpf:
    """The log-variance of the Gaussian with the same log-moment as y at order max(order, 2)."""
    with mpmath.workdps(digits + SPARE_DIGITS):
        a = max(mpmath.mpf(order), mpmath.mpf(2))
        return 2 * total_log_moment(rounds.coordinates, 0, a, digits) / (a * (a - 1))


def _sum(a: mpmath.mpf, powers: Sequence[mpmath.mpf], rounds: Rounds) -> mpmath.mpf:
    """The sum of C(a, w) (1-q)^(a-w) q^w (E[y^w] - 1) over the powers w."""
    q = mpmath.mpf(rounds.rate)
    return mpmath.fsum(
        mpmath.binomial(a, w)
        * (1 - q) ** (a - w)
        * q**w
        * mpmath.expm1(total_log_moment(rounds.coordinates, 0, w, mpmath.mp.dps))
        for w in powers
    )


def _real_part(a: mpmath.mpf) -> mpmath.mpf:
    """A number near a/2 far from the integers and from a minus integers, where the integrand has poles."""
    fraction = a - mpmath.floor(a)
    middle = (1 + fraction) / 2 if fraction < 0.5 else fraction / 2
    if a < 2:
        return 1 + fraction / 2
    return mpmath.floor(a / 2) + middle


def _integral(a: mpmath.mpf, real: mpmath.mpf, rounds: Rounds, digits: int) -> mpmath.mpf:
    """(1/2 pi i) times the integral of Gamma(-w) Gamma(w-a)/Gamma(-a) (1-q)^(a-w) q^w (E[y^w] - 1)."""
    q, distance = mpmath.mpf(rounds.rate), mpmath.mpf(1) / 5
    # the kernel falls like exp(-pi |Im w|); poles at the distance make the error of the rule exp(-2 pi/ratio)
    height = (digits + 6) * mpmath.log(10) / mpmath.pi
    step = 2 * mpmath.pi * distance / ((digits + 6) * mpmath.log(10))
    count = int(mpmath.ceil(height / step)) + 1
    moments = [mpmath.mpc(1)] * count
    for number, gamma, t in rounds.coordinates:
        nodes = TiltedNodes.at(real, gamma, t, height, digits + _LOST_DIGITS)
        column = characteristic(nodes, mpmath.mpf(0), step, count, digits + _LOST_DIGITS)
        at_real = mpmath.exp(number * nodes.log_moment)
        moments = [each * at_real * value**number for each, value in zip(moments, column, strict=True)]
    total = mpmath.mpf(0)
    for j, moment in enumerate(moments):
        w = mpmath.mpc(real, j * step)
        kernel = mpmath.gamma(-w) * mpmath.gamma(w - a) / mpmath.gamma(-a)
        term = kernel * (1 - q) ** (a - w) * q**w * (moment - 1)
        total += term.real / (2 if j == 0 else 1)
    return total * step / mpmath.pi


# ---------------------------------------------------------------- laws of releases


def without_sampling(mechanism: Mechanism) -> Mechanism:
    """The mechanism if every client took part in every round."""
    return replace(mechanism, sampling_rate=1.0)


def has_sampled_masks(releases: Sequence[Release]) -> bool:
    """Whether a round has both client sampling and masks."""
    return any(mechanism.sampling_rate < 1 and not mechanism.sends_all for mechanism, _ in releases)


def split(
    releases: Sequence[Release], digits: int = 50
) -> tuple[tuple[Coordinates, ...], mpmath.mpf, list[Rounds]]:
    """The coordinates and squared mu of releases that `worst_case` covers, and rounds with client sampling.

    Rounds in which every coordinate is sent are a coordinate that is sent with probability q.
    """
    sampled = [(m, sigma) for m, sigma in releases if m.sampling_rate < 1 and not m.sends_all]
    coordinates, mu_squared = worst_case([each for each in releases if each not in sampled], digits)
    rounds = []
    for mechanism, sigma in sampled:
        one, _ = worst_case([(replace(without_sampling(mechanism), rounds=1), sigma)], digits)
        rounds.append(Rounds(mechanism.releases, mechanism.sampling_rate, one))
    return coordinates, mu_squared, rounds


def renyi_delta(releases: Sequence[Release], epsilon: Number, order: Number, digits: int = 15) -> mpmath.mpf:
    """The delta <= 1 of the Renyi bound at ``epsilon`` >= 0, at one order; also under replace-one."""
    coordinates, mu_squared, rounds = split(releases, digits + SPARE_DIGITS)
    more = digits + SPARE_DIGITS

    def total(at: mpmath.mpf) -> mpmath.mpf:
        sampled = mpmath.fsum(r.number * sampled_log_moment(at, r, more) for r in rounds)
        return total_log_moment(coordinates, mu_squared, at, more) + sampled

    with mpmath.workdps(more):
        a = mpmath.mpf(order)
        moment = (
            total(a)
            if releases[0][0].adjacency is Adjacency.ADD_REMOVE
            else (a / (2 * a - 1) * total(2 * a - 1) + (a - 1) / (2 * a - 1) * total(2 * a))
        )
        return converted_delta(moment, a, epsilon)


def remove_log_moment(
    releases: Sequence[Release], order: Number, digits: int = 20, *, closed: bool = False
) -> mpmath.mpf:
    """`renyi.remove_log_moment` with client sampling.

    For each round a(a-1)/2 times q^2 (E[y^2] - 1), or what it is without sampling if that is smaller.
    """
    sampled = [(m, sigma) for m, sigma in releases if m.sampling_rate < 1 and not m.sends_all]
    total = renyi.remove_log_moment(
        [each for each in releases if each not in sampled], order, digits, closed=closed
    )
    with mpmath.workdps(digits + SPARE_DIGITS):
        a = mpmath.mpf(order)
        for rounds in split(sampled, digits)[2]:
            top = max(t for *_, t in rounds.coordinates)
            rates = [n * t * mpmath.mpf(g) ** 2 * mpmath.expm1(top) / top for n, g, t in rounds.coordinates]
            second = total_log_moment(rounds.coordinates, 0, mpmath.mpf(2), digits)
            each = min(mpmath.mpf(rounds.rate) ** 2 * mpmath.expm1(second), mpmath.fsum(rates))
            total += a * (a - 1) / 2 * rounds.number * each
        return total


def is_above_floor(releases: Sequence[Release], epsilon: Number) -> bool:
    """Whether no loss of the remove direction exceeds ``epsilon``: in every round U > 1 - q."""
    if any(mechanism.sampling_rate == 1 for mechanism, _ in releases):
        return False
    lowest = mpmath.fsum(m.releases * mpmath.log1p(-mpmath.mpf(m.sampling_rate)) for m, _ in releases)
    return bool(epsilon >= -lowest)


def dominating_law(
    releases: Sequence[Release], order: Number, digits: int
) -> tuple[tuple[Coordinates, ...], mpmath.mpf]:
    """The subsampled Gaussians, as coordinates, and the squared mu that dominate all releases at ``order``.

    Releases at which kappa* is elementwise largest are kept, unless their rounds are sampled.
    """
    kept = [(m, s) for m, s in releases if is_largest(m) and (m.sampling_rate == 1 or m.sends_all)]
    coordinates, mu_squared = worst_case(kept, digits)
    spread, _, rounds = split([each for each in releases if each not in kept], digits)
    with mpmath.workdps(digits + SPARE_DIGITS):
        a = mpmath.mpf(order)
        if spread:
            mu_squared += 2 * total_log_moment(spread, 0, a, digits) / (a * (a - 1))
        kinds = [Coordinates(r.number, r.rate, dominating_variance(a, r, digits)) for r in rounds]
        return (*coordinates, *kinds), mu_squared


def revealed_law(releases: Sequence[Release], digits: int) -> tuple[tuple[Coordinates, ...], mpmath.mpf]:
    """The coordinates and squared mu with every coordinate sent by the clients that take part."""
    sent = [(m if is_largest(m) and m.sampling_rate == 1 else replace(m, gamma=1.0), s) for m, s in releases]
    return worst_case(sent, digits)
