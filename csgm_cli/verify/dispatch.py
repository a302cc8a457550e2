"""Recompute the claims of certificates and compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import mpmath

from csgm_cli.errors import NoAnswerError, VerificationError
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.model.mechanism import Adjacency, Bound
from csgm_cli.model.result import Verification
from csgm_cli.verify import renyi, sampled
from csgm_cli.verify.concentrated import (
    ConvexFunction,
    MatchedFunction,
    TestFunction,
    is_admissible,
    mean_at_worst_case,
)
from csgm_cli.verify.matched import matched_delta
from csgm_cli.verify.triangle import replace_one_delta

if TYPE_CHECKING:
    from csgm_cli.verify.log_moment import Number
    from csgm_cli.verify.renyi import Release

#: A delta this much smaller than the other direction's decides nothing, and need not be close to the truth.
NEGLIGIBLE = 1e-12
#: Where one direction's bound comes from a certified grid, noise is rounded up by 5e-6 after the bound of the
#: other direction was computed, which may then be above its recomputation by this, relative.
GRID_ROOM = 1e-2
#: The smallest delta that answers have; by a mean of a convex function.
DELTA_FLOOR, MEAN_FLOOR = 1e-300, 1e-30

_CLOSED = {Proof.EXACT: Bound.EXACT, Proof.MASK_REVEALED: Bound.MASK_REVEALED, Proof.RENYI: Bound.RDP}


@dataclass(frozen=True)
class Method:
    """How delta is recomputed.

    ``agreement``: the largest relative difference that counts as agreement; below delta = e^-100 it grows
    with log delta, and above epsilon = 1000 with epsilon. ``rounding``: how far, relative, an answer may be
    below its recomputation.
    """

    digits: int
    agreement: float
    rounding: float


CLOSED_FORM = Method(digits=50, agreement=1e-9, rounding=1e-13)
CONTOUR = Method(digits=15, agreement=1e-9, rounding=1e-13)
#: The maximum of a contour integral over client vectors.
MAXIMUM = Method(digits=15, agreement=1e-9, rounding=1e-12)
LOSS_GRID = Method(digits=4, agreement=1e-3, rounding=1e-3)
#: The certified grid of rounds with client sampling is discretised twice, and less tight.
ROUNDS_GRID = Method(digits=4, agreement=5e-3, rounding=1e-3)


@dataclass(frozen=True)
class _Recomputed:
    """A recomputed delta; an answer up to ``highest`` agrees as well."""

    value: mpmath.mpf
    method: Method = CLOSED_FORM
    highest: Number = 0.0


def verify_certificate(releases: Sequence[Release], certificate: Certificate) -> mpmath.mpf:
    """The delta that ``certificate`` proves at its epsilon for all (mechanism, sigma) together.

    To 50 digits if there is a closed form, 15 by a contour integral, 4 on a loss grid, which is used if the
    certificate has a step or the contour does not converge.

    Raises:
        VerificationError: the proof does not hold for these releases.
        NoAnswerError: the computation would take too long (slug ``oracle-not-converged``).
    """
    return _recomputed(releases, certificate).value


def verify(
    releases: Sequence[Release],
    certificates: Sequence[Certificate],
    delta: float,
    epsilon: float,
    *,
    paper: bool = False,
) -> Verification:
    """Compare ``delta`` and what the ``certificates`` of both directions claim with their recomputations.

    ``epsilon``: the answer's, beyond which no certificate may be. ``paper``: the Renyi curve is the paper's
    form, with a real number of coordinates. Each certificate's delta must agree to 1e-9
    relative, or to 1e-3 where it was recomputed on a loss grid, unless both are negligible beside the other
    direction's; and no recomputed delta may exceed its certificate's or ``delta`` by more than the error of
    the recomputation.

    Raises:
        VerificationError: something does not agree, or a direction is missing.
        NoAnswerError: the computation would take too long (slug ``oracle-not-converged``).
    """
    directions = {direction for certificate in certificates for direction in _directions(certificate)}
    if len(directions) < 2:
        raise _refused("the certificates do not cover both directions")
    if any(certificate.epsilon > epsilon for certificate in certificates):
        raise _refused("a certificate's epsilon exceeds the reported one")
    if paper:
        [certificate] = certificates
        value = renyi.delta(releases, certificate.epsilon, certificate.order, Bound.PAPER, CLOSED_FORM.digits)
        found = [(_Recomputed(value), certificate)]
    else:
        found = [(_recomputed(releases, certificate), certificate) for certificate in certificates]
    negligible = NEGLIGIBLE * max(certificate.delta for certificate in certificates)
    on_grid = any(certificate.step is not None for certificate in certificates)
    for recomputed, certificate in found:
        room = GRID_ROOM if on_grid and certificate.step is None else 0.0
        _compare(certificate, recomputed, negligible, room)
        if delta < _capped(recomputed.value) * (1 - recomputed.method.rounding):
            raise _disagreement(delta, recomputed)
    decisive, certificate = max(found, key=lambda pair: pair[0].value)
    truth = _capped(decisive.value)
    return Verification(decisive.method.digits, float(abs(_capped(certificate.delta) - truth) / truth))


def _compare(certificate: Certificate, found: _Recomputed, negligible: float, room: float) -> None:
    truth, answer = _capped(found.value), _capped(certificate.delta)
    size = max(1.0, abs(float(mpmath.log(truth))) / 100, certificate.epsilon / 1000)
    agreement = found.method.agreement * size + room
    highest = max(max(truth, _capped(found.highest)) * (1 + mpmath.mpf(agreement)), negligible)
    if not truth * (1 - mpmath.mpf(found.method.rounding)) <= answer <= highest:
        raise _disagreement(certificate.delta, found)


def _capped(delta: Number) -> mpmath.mpf:
    """In the range of answers."""
    return min(mpmath.mpf(1), max(mpmath.mpf(delta), mpmath.mpf(DELTA_FLOOR)))


def _disagreement(claimed: float, found: _Recomputed) -> VerificationError:
    value = mpmath.nstr(found.value, 17)
    return _refused(
        f"delta {claimed!r} does not agree with {value} in {found.method.digits}-digit arithmetic"
    )


def _refused(why: str) -> VerificationError:
    hint = "run csgm selftest and report this as a bug"
    return VerificationError("verification-failed", why, hint)


# ---------------------------------------------------------------- one certificate


def _directions(certificate: Certificate) -> tuple[Direction, ...]:
    return tuple(Direction) if certificate.direction is None else (certificate.direction,)


def _recomputed(
    releases: Sequence[Release],
    certificate: Certificate,
    epsilon: Number | None = None,
) -> _Recomputed:
    """The delta that a certificate proves at ``epsilon``, by default its own."""
    at = certificate.epsilon if epsilon is None else epsilon
    if certificate.proof is not Proof.TRIANGLE and sampled.has_sampled_masks(releases):
        return _with_sampling(releases, certificate, at)
    if certificate.proof in _CLOSED:
        bound = _CLOSED[certificate.proof]
        return _Recomputed(renyi.delta(releases, at, certificate.order, bound, CLOSED_FORM.digits))
    replaces = {mechanism.adjacency is Adjacency.REPLACE_ONE for mechanism, _ in releases}
    if replaces != {certificate.proof is Proof.TRIANGLE}:
        raise _refused(f"proof {certificate.proof} does not apply to this neighbouring relation")
    if certificate.proof is Proof.TRIANGLE:
        return _triangle(releases, certificate)
    if certificate.proof is Proof.RENYI_REMOVE:
        return _renyi_remove(releases, certificate, at)
    if certificate.proof is Proof.GAUSSIAN_MATCHED:
        digits, order = CLOSED_FORM.digits, certificate.order or 0
        worst = renyi.worst_case(releases, digits)
        return _Recomputed(
            max(matched_delta(*worst, at, order, side, digits) for side in _directions(certificate))
        )
    _check_worst_case(releases, certificate)
    means = [_mean(releases, certificate, side, at) for side in _directions(certificate)]
    return max(means, key=lambda mean: mean.value)


def _with_sampling(releases: Sequence[Release], certificate: Certificate, epsilon: Number) -> _Recomputed:
    """`_recomputed` for releases with client sampling."""
    proof, side = certificate.proof, certificate.direction
    if proof is Proof.RENYI:
        value = sampled.renyi_delta(releases, epsilon, certificate.order or 0, CONTOUR.digits)
        return _Recomputed(value, CONTOUR)
    if proof is Proof.RENYI_REMOVE:
        return _renyi_remove(releases, certificate, epsilon)
    if side is None:
        raise _refused(f"proof {proof} is for one direction with client sampling")
    if proof is Proof.GAUSSIAN_MATCHED:
        return _sampled_matched(releases, certificate, epsilon, side)
    if proof is Proof.MASK_REVEALED:
        law = sampled.revealed_law(releases, CONTOUR.digits)
        return _mean_of(*law, [], ConvexFunction(side, epsilon), certificate.step)
    if side is Direction.REMOVE and sampled.is_above_floor(releases, epsilon):
        return _Recomputed(mpmath.mpf(0))
    _check_worst_case(releases, certificate)
    return _mean(releases, certificate, side, epsilon)


def _sampled_matched(
    releases: Sequence[Release], certificate: Certificate, epsilon: Number, side: Direction
) -> _Recomputed:
    """The matched bound of subsampled Gaussians, or without client sampling, whichever is claimed."""
    order = certificate.order or 0
    law = sampled.dominating_law(releases, order, CONTOUR.digits)
    function = MatchedFunction(side, epsilon, order)
    found = [_mean_of(*law, [], function, certificate.step)]
    if certificate.step is None:
        plain = [(sampled.without_sampling(mechanism), sigma) for mechanism, sigma in releases]
        worst = renyi.worst_case(plain, CLOSED_FORM.digits)
        found.append(_Recomputed(matched_delta(*worst, epsilon, order, side, CLOSED_FORM.digits)))
    return min(found, key=lambda each: abs(mpmath.log(_capped(each.value)) - certificate.log_delta))


def _triangle(releases: Sequence[Release], certificate: Certificate) -> _Recomputed:
    """Both parts recomputed for add/remove, the second at exactly what the first leaves of epsilon.

    Answers by the closed bounds of the parts agree as well.
    """
    add_remove = [(replace(m, adjacency=Adjacency.ADD_REMOVE), sigma) for m, sigma in releases]
    found: list[_Recomputed] = []

    def part(index: int, epsilon: mpmath.mpf) -> mpmath.mpf:
        found.append(_recomputed(add_remove, certificate.parts[index], epsilon))
        return found[-1].value

    sides = [part.direction or side for part, side in zip(certificate.parts, Direction, strict=False)]
    if sides != list(Direction):
        raise _refused("the parts of a triangle are not a bound for add and one for remove")
    first, second = (part.epsilon for part in certificate.parts)
    if abs(first + second - certificate.epsilon) > CLOSED_FORM.agreement * certificate.epsilon:
        raise _refused("the parts of a triangle do not add up to its epsilon")
    value = replace_one_delta(
        lambda e1: part(0, e1), lambda e2: part(1, e2), certificate.epsilon, first, CLOSED_FORM.digits
    )
    add, remove = (max(each.value, each.highest) for each in found)
    highest = replace_one_delta(
        lambda _: add, lambda _: remove, certificate.epsilon, first, CLOSED_FORM.digits
    )
    least = min((each.method for each in found), key=lambda method: (method.digits, -method.rounding))
    return _Recomputed(value, least, highest)


def _renyi_remove(releases: Sequence[Release], certificate: Certificate, epsilon: Number) -> _Recomputed:
    """The supremum over client vectors; answers by its closed bound agree as well."""
    if certificate.direction is not Direction.REMOVE or certificate.order is None:
        raise _refused("proof renyi-remove is for the remove direction only")
    order, digits = mpmath.mpf(certificate.order), MAXIMUM.digits
    value, highest = (
        renyi.converted_delta(
            sampled.remove_log_moment(releases, order, digits, closed=closed), order, epsilon
        )
        for closed in (False, True)
    )
    return _Recomputed(value, MAXIMUM, highest)


def _check_worst_case(releases: Sequence[Release], certificate: Certificate) -> None:
    """Refuse a convex function for which kappa* is not proven to be the worst case."""
    for mechanism, sigma in releases:
        if renyi.is_largest(mechanism):
            continue
        exponent = certificate.exponent
        if certificate.proof is Proof.PROFILE or exponent is None:
            raise _refused("the profile is no bound where a client can choose its coordinates")
        plain = [(sampled.without_sampling(mechanism), sigma)]
        (number, gamma, t), *_ = renyi.worst_case(plain)[0]
        if not is_admissible(exponent, gamma, t):
            raise _refused(f"exponent {exponent!r} is not admissible for {number} coordinates")


def _mean(
    releases: Sequence[Release],
    certificate: Certificate,
    direction: Direction,
    epsilon: Number,
) -> _Recomputed:
    """The mean of one direction's convex function at kappa*, by a contour or on the plain grid."""
    shape = {"exponent": certificate.exponent, "log_ratio": certificate.log_ratio}
    given = {name: value for name, value in shape.items() if value is not None}
    function = ConvexFunction(direction, epsilon, **given)
    return _mean_of(*sampled.split(releases), function, certificate.step)


def _mean_of(
    coordinates: Sequence[renyi.Coordinates],
    mu_squared: Number,
    rounds: Sequence[sampled.Rounds],
    function: TestFunction,
    step: float | None,
) -> _Recomputed:
    """The mean of a function under a law, by a contour or, where ``step`` is given, on the plain grid."""
    if step is None and not rounds:
        try:
            value = mean_at_worst_case(coordinates, mu_squared, function, CONTOUR.digits)
            return _Recomputed(value, CONTOUR, MEAN_FLOOR)
        except NoAnswerError as error:
            if error.slug != "oracle-not-converged":
                raise
    from csgm_cli.verify.plain_grid import plain_mean

    mean, _ = plain_mean(coordinates, float(mu_squared), function, rounds)
    return _Recomputed(mpmath.mpf(mean), ROUNDS_GRID if rounds else LOSS_GRID, MEAN_FLOOR)
