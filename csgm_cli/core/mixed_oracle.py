"""The tight accountant's bounds on mixed releases in high precision, from their certificates.

Independent of the float64 path, as ``tight_oracle`` is: the releases are gathered anew, and good sets
are found for the certificate's exponent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core import profile_oracle
from csgm_cli.core.certificate import Certificate, Proof
from csgm_cli.core.contour_oracle import contour_integral
from csgm_cli.core.law_oracle import Direction, Law, hockey_stick
from csgm_cli.core.oracle import Number, total_mu
from csgm_cli.core.tight_oracle import Parts, growth, kappa_parts, renyi_remove, require, total_t

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Mechanism

#: Good sets are found to this relative width.
_WIDTH = mpmath.mpf(10) ** -15


@dataclass(frozen=True)
class _Release:
    """Equal releases with gamma < 1 at their kappa*; ``is_free`` where all coordinates are at the clip."""

    gamma: float
    parts: Parts
    is_free: bool

    @property
    def root(self) -> mpmath.mpf:
        """S = clip / sigma."""
        return mpmath.sqrt(self.parts[0][1])

    def outside(self, z: mpmath.mpf) -> mpmath.mpf:
        """What pairs outside of the good set |Z| <= z contribute per weight."""
        return 2 * total_t(self.parts) * mpmath.ncdf(self.root / 2 - z / self.root)

    def posterior(self, z: mpmath.mpf) -> mpmath.mpf:
        """Of having been sent, at Z = z."""
        sent = mpmath.mpf(self.gamma) * mpmath.exp(z)
        return sent / (1 - mpmath.mpf(self.gamma) + sent)


def certified_delta(
    releases: Sequence[tuple[Mechanism, float]],
    epsilon: float,
    direction: Direction,
    certificate: Certificate,
    digits: int = 15,
    least: float = 0.0,
) -> mpmath.mpf:
    """The bound that ``certificate`` stands for, on the delta of one direction over all vectors.

    Its error is below 10^-digits of the larger of itself and ``least``.

    Raises:
        NoAnswerError: an exponent that no good set admits, or a contour that would take too long.
    """
    with mpmath.workdps(digits + 10):
        sparse = _gathered(releases)
        squares = [total_mu(m, sigma) ** 2 for m, sigma in releases if m.is_gaussian]
        gaussian = mpmath.fsum(squares)
        if certificate.proof is Proof.RENYI_REMOVE:
            total = mpmath.fsum([growth(r.gamma, r.parts) for r in sparse]) + gaussian
            return renyi_remove(total, epsilon, certificate)
        power = mpmath.mpf(certificate.exponent or 0)
        if certificate.proof is Proof.CONCAVE:
            return _concave(sparse, gaussian, epsilon, certificate, digits, least)
        if certificate.proof is Proof.PROFILE:
            require(all(release.is_free for release in sparse))
            if gaussian == 0 and direction is Direction.REMOVE and epsilon >= -_floor(sparse):
                return mpmath.mpf(0)
            kernel = hockey_stick(epsilon, certificate.blur)
            return contour_integral(_law(sparse, gaussian, direction), kernel, digits, least)
        if certificate.proof is Proof.ADD_CONE:
            r = mpmath.exp(certificate.spread)
            most, _ = profile_oracle.add_shape(epsilon, power, r, digits)
            kernel = profile_oracle.add_kernel(epsilon, power, r, digits, certificate.blur)
        else:
            most, _ = profile_oracle.remove_shape(epsilon, power, digits)
            kernel = profile_oracle.remove_kernel(epsilon, power, digits, certificate.blur)
        capped = [b for b in sparse if not b.is_free and not _admits(b, power, 0)]
        error = mpmath.mpf(0)
        if power > 0:
            bound = [b for b in sparse if not b.is_free and b not in capped]
            error = most * mpmath.fsum([b.outside(_widest(b, power)) for b in bound])
        if capped:
            require(certificate.z is not None)
            heights = [b.root * certificate.z + b.root**2 / 2 for b in capped]
            error += most * mpmath.fsum([b.outside(z) / 4 for b, z in zip(capped, heights, strict=True)])
            gaussian += mpmath.fsum(
                [b.posterior(z) ** 2 * total_t(b.parts) for b, z in zip(capped, heights, strict=True)]
            )
        rest = [b for b in sparse if b not in capped]
        return contour_integral(_law(rest, gaussian, direction), kernel, digits, least) + error


def _gathered(releases: Sequence[tuple[Mechanism, float]]) -> list[_Release]:
    """The releases that send only at times; equal ones together, with as many coordinates."""
    found: dict[tuple[float, tuple[mpmath.mpf, ...], bool], list[int]] = {}
    for mechanism, sigma in releases:
        if mechanism.is_gaussian:
            continue
        parts, dim = kappa_parts(mechanism, sigma), mechanism.geometry.dim
        is_free = dim is not None and mechanism.coordinates >= dim  # and no rest in one coordinate
        key = (mechanism.gamma, tuple(t for _, t in parts), is_free)
        before = found.get(key, [0] * len(parts))
        found[key] = [n + count for n, (count, _) in zip(before, parts, strict=True)]
    return [
        _Release(gamma, tuple(zip(counts, times, strict=True)), is_free)
        for (gamma, times, is_free), counts in found.items()
    ]


def _law(sparse: Sequence[_Release], gaussian: mpmath.mpf, direction: Direction) -> Law:
    laws = [Law(release.gamma, release.parts, direction) for release in sparse]
    if gaussian > 0:
        laws.append(Law(1, ((1, gaussian),), direction))
    return Law(laws[0].gamma, laws[0].parts, direction, tuple(laws[1:]))


def _floor(sparse: Sequence[_Release]) -> mpmath.mpf:
    """No loss is below."""
    return mpmath.fsum(sum(n for n, _ in b.parts) * mpmath.log1p(-mpmath.mpf(b.gamma)) for b in sparse)


def _admits(release: _Release, power: mpmath.mpf, z: Number) -> bool:
    """Whether the good set |Z| <= z admits the exponent."""
    return bool(profile_oracle.admissible_exponent(release.gamma, z) >= power)


def _widest(release: _Release, power: mpmath.mpf) -> mpmath.mpf:
    """The half width of the largest good set that admits the exponent, rounded down."""
    low, high = mpmath.mpf(0), mpmath.mpf(1)
    while _admits(release, power, high):
        low, high = high, 2 * high
    while high - low > high * _WIDTH:
        middle = (low + high) / 2
        low, high = (middle, high) if _admits(release, power, middle) else (low, middle)
    return low


def _concave(
    sparse: Sequence[_Release],
    gaussian: mpmath.mpf,
    epsilon: float,
    certificate: Certificate,
    digits: int,
    least: float,
) -> mpmath.mpf:
    """The lognormal limit of everything, and for each release its own bad pairs among all the others."""
    power, r = mpmath.mpf(certificate.exponent or 0), mpmath.exp(certificate.spread)
    variance = mpmath.fsum([mpmath.mpf(b.gamma) ** 2 * total_t(b.parts) for b in sparse]) + gaussian
    value = profile_oracle.concave_remove(1, variance, epsilon, power, r, digits, least)
    everything = mpmath.fsum([growth(b.gamma, b.parts) for b in sparse]) + gaussian
    for b in sparse:
        g, total = mpmath.mpf(b.gamma), total_t(b.parts)
        z = mpmath.log(2 * power) + mpmath.log(g / (1 - g))
        others = max(0, power * (power - 1) / 2) * (everything - growth(b.gamma, b.parts))
        own = profile_oracle.err_concave(z, b.root, total, b.gamma, epsilon, power, r, digits)
        value += own * mpmath.exp(others)
    return value
