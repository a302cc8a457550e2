"""The tight accountant's bounds recomputed in high precision from their certificates.

Independent of the float64 path: it takes only the mechanism and the parameters of the proof, checks
that they are admissible, and evaluates the test function's expectation by the oracle's own contour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mpmath

from csgm_cli.core import oracle, profile_oracle
from csgm_cli.core.certificate import Certificate, Proof
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.mechanism import Bound, Mechanism

if TYPE_CHECKING:
    from csgm_cli.core.law_oracle import Direction

Parts = tuple[tuple[int, mpmath.mpf], ...]


def kappa_parts(mechanism: Mechanism, sigma: float) -> Parts:
    """(how many coordinate-rounds, t) at kappa*: full coordinates, and the rest in one."""
    geometry = mechanism.geometry
    ratio = mpmath.mpf(geometry.norm_ratio)
    count = mpmath.mpf(mechanism.coordinates) if geometry.dim is not None else ratio**2
    clip = mpmath.mpf(geometry.l2_norm) / ratio * mpmath.mpf(mechanism.column_norm)
    t = (clip / mpmath.mpf(sigma)) ** 2
    whole = int(mpmath.floor(count))
    full = (mechanism.releases * whole, t)
    return (full,) if whole == count else (full, (mechanism.releases, t * (count - whole)))


def certified_delta(
    mechanism: Mechanism,
    sigma: float,
    epsilon: float,
    direction: Direction,
    certificate: Certificate,
    digits: int = 30,
    least: float = 0.0,
) -> mpmath.mpf:
    """The bound that ``certificate`` stands for, on the delta of one direction over all vectors.

    Its error is below 10^-digits of the larger of itself and ``least``.

    Raises:
        NoAnswerError: an exponent is not admissible for its good set (slug ``verification-failed``).
    """
    with mpmath.workdps(digits + 10):
        parts = kappa_parts(mechanism, sigma)
        if certificate.proof is Proof.PROFILE:
            every = ((mechanism.releases * int(mechanism.geometry.dim or 0), parts[0][1]),)
            blur = certificate.blur
            return profile_oracle.profile_delta(
                mechanism.gamma, every, direction, epsilon, digits, blur, least
            )
        if certificate.proof is Proof.RDP:
            return oracle.delta(mechanism, sigma, epsilon, certificate.order, Bound.RDP, digits)
        if certificate.proof is Proof.RENYI_REMOVE:
            return renyi_remove(growth(mechanism.gamma, parts), epsilon, certificate)
        return _test_function(mechanism.gamma, parts, epsilon, certificate, digits, least)


def growth(gamma: float, parts: Parts) -> mpmath.mpf:
    """V such that D_a(Q||P) <= (a/2) V for all vectors, V = gamma^2 total_t (e^t - 1)/t."""
    t = parts[0][1]
    return mpmath.mpf(gamma) ** 2 * total_t(parts) * mpmath.expm1(t) / t


def renyi_remove(growth: mpmath.mpf, epsilon: float, certificate: Certificate) -> mpmath.mpf:
    """The conversion of D_a(Q||P) <= (a/2) ``growth`` at the certificate's order."""
    a = mpmath.mpf(certificate.order or 0)
    exponent = (a - 1) * (a * growth / 2 - epsilon) - mpmath.log(a - 1) + a * mpmath.log1p(-1 / a)
    return min(mpmath.mpf(1), mpmath.exp(exponent))


def total_t(parts: Parts) -> mpmath.mpf:
    """Sum of t over all coordinates."""
    return mpmath.fsum(count * t for count, t in parts)


def _test_function(
    gamma: float, parts: Parts, epsilon: float, certificate: Certificate, digits: int, least: float
) -> mpmath.mpf:
    power, z = mpmath.mpf(certificate.exponent or 0), certificate.z
    r = mpmath.exp(certificate.spread) if certificate.spread is not None else mpmath.inf
    s, total = mpmath.sqrt(parts[0][1]), total_t(parts)
    slack = 1 + mpmath.mpf(10) ** -12  # the exponent was rounded to a float
    if certificate.proof is Proof.CONCAVE:
        require(z is not None and power * slack >= profile_oracle.concave_exponent(gamma, z, digits))
        value = profile_oracle.concave_remove(gamma, total, epsilon, power, r, digits, least)
        return value + profile_oracle.err_concave(z, s, total, gamma, epsilon, power, r, digits)
    if power > 0:
        require(z is not None and power <= profile_oracle.admissible_exponent(gamma, z, digits) * slack)
    if certificate.proof is Proof.ADD_CONE:
        value = profile_oracle.cone_add(gamma, parts, epsilon, power, r, digits, certificate.blur, least)
        return value + (profile_oracle.err_add(z, s, total, power, r, digits) if power > 0 else 0)
    value = profile_oracle.cone_remove(gamma, parts, epsilon, power, digits, least)
    return value + profile_oracle.err_remove(z, s, total, epsilon, power, digits)


def require(holds: bool) -> None:  # noqa: FBT001 - an assertion
    """Refuse a certificate whose exponent does not fit."""
    if not holds:
        raise NoAnswerError(
            "verification-failed", "the exponent of the test function does not fit its good set"
        )
