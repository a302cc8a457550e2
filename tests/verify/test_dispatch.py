"""Certificates recomputed and compared."""

import math
from dataclasses import replace

import mpmath
import pytest

from csgm_cli.errors import UsageError, VerificationError
from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.model.mechanism import Adjacency, Bound, Mechanism
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.verify import plain_grid, renyi
from csgm_cli.verify.concentrated import ConvexFunction, mean_at_worst_case
from csgm_cli.verify.dispatch import verify, verify_certificate
from csgm_cli.verify.matched import matched_delta
from csgm_cli.verify.plain_grid import plain_mean
from csgm_cli.verify.triangle import replace_one_delta

SPARSE = (Mechanism("l2-csgm", 0.05, Geometry(30.5), 2), 0.15)
LARGEST = (Mechanism("linf-csgm", 0.05, Geometry(20, dim=500), 2), 0.3)
GAUSSIAN = (Mechanism("gaussian", rounds=3), 4.0)
FEW_BITS = (Mechanism("l2-csgm", 0.01, Geometry(1.5)), 1.0)


def upper(certificate, releases, above=1e-12):
    """The certificate with a delta just above what it proves."""
    return with_delta(certificate, verify_certificate(releases, certificate) * (1 + mpmath.mpf(above)))


def with_delta(certificate, delta):
    """The certificate with another delta."""
    return replace(certificate, log_delta=float(mpmath.log(delta)))


def claim(proof, direction, epsilon=2.0, **parameters):
    """A certificate whose delta is still to be filled in."""
    direction = None if direction is None else Direction(direction)
    return Certificate(Proof(proof), direction, epsilon, 0.0, **parameters)


@pytest.mark.parametrize(
    ("certificate", "releases", "expected"),
    [
        (claim("exact", None), [GAUSSIAN], renyi.delta([GAUSSIAN], 2, None, Bound.EXACT)),
        (claim("mask-revealed", None), [SPARSE], renyi.delta([SPARSE], 2, None, Bound.MASK_REVEALED)),
        (claim("renyi", None, order=9), [SPARSE], renyi.delta([SPARSE], 2, 9, Bound.RDP)),
        (
            claim("renyi-remove", "remove", order=9),
            [SPARSE],
            renyi.converted_delta(renyi.remove_log_moment([SPARSE], 9, 15), mpmath.mpf(9), 2),
        ),
        (
            claim("gaussian-matched", "add", order=9.5),
            [SPARSE, GAUSSIAN],
            matched_delta(*renyi.worst_case([SPARSE, GAUSSIAN]), 2, 9.5, "add"),
        ),
        (
            claim("concentrated", "add", exponent=5, log_ratio=1.5),
            [SPARSE, GAUSSIAN],
            mean_at_worst_case(*renyi.worst_case([SPARSE, GAUSSIAN]), ConvexFunction("add", 2, 5, 1.5), 15),
        ),
        (
            claim("profile", "remove"),
            [LARGEST],
            mean_at_worst_case(*renyi.worst_case([LARGEST]), ConvexFunction("remove", 2), 15),
        ),
        (
            claim("concentrated", "add", exponent=0, log_ratio=1.5, step=1e-3),
            [FEW_BITS],
            plain_mean(*renyi.worst_case([FEW_BITS]), ConvexFunction("add", 2, 0, 1.5))[0],
        ),
    ],
    ids=lambda value: f"{value.proof}-{value.direction}" if isinstance(value, Certificate) else "",
)
def test_each_proof_has_its_own_recomputation(certificate, releases, expected):
    """The dispatcher hands the parameters of a certificate to the method that they belong to."""
    assert verify_certificate(releases, certificate) == expected


def test_both_directions_take_the_larger():
    """A certificate of both directions is worth the worse one."""
    one, other, both = (
        verify_certificate([LARGEST], claim("profile", direction)) for direction in ("add", "remove", None)
    )
    assert both == max(one, other)
    assert one != other


def test_answers_that_agree_are_verified():
    """Two certificates that cover both directions, at or below the answer's delta."""
    add = upper(claim("gaussian-matched", "add", order=10), [SPARSE])
    remove = upper(claim("gaussian-matched", "remove", order=14), [SPARSE])
    found = verify([SPARSE], [add, remove], max(add.delta, remove.delta), epsilon=2.0)
    assert found.digits == 50
    assert found.relative_difference < 2e-12


@pytest.mark.parametrize("factor", [1 - 1e-11, 1 + 2e-9, 0.5])
def test_deltas_that_do_not_agree_are_refused(factor):
    """Too low by more than rounding, or off by more than 1e-9."""
    certificate = upper(claim("renyi", None, order=12.5), [SPARSE], 1e-14)
    assert verify([SPARSE], [certificate], 1.0, 2.0).relative_difference < 1e-12
    with pytest.raises(VerificationError) as caught:
        verify([SPARSE], [with_delta(certificate, certificate.delta * factor)], 1.0, 2.0)
    assert caught.value.slug == "verification-failed"


def test_answers_below_their_certificates_are_refused():
    """The delta that was answered must be at least what the certificates prove."""
    certificate = upper(claim("mask-revealed", None), [SPARSE])
    assert verify([SPARSE], [certificate], certificate.delta, 2.0).digits == 50
    with pytest.raises(VerificationError):
        verify([SPARSE], [certificate], certificate.delta * (1 - 1e-9), 2.0)
    with pytest.raises(VerificationError):
        verify([SPARSE], [certificate], certificate.delta, epsilon=1.9)


def test_a_direction_must_not_be_missing():
    """Two add certificates say nothing of remove."""
    add = upper(claim("gaussian-matched", "add", order=10), [SPARSE])
    with pytest.raises(VerificationError):
        verify([SPARSE], [add, add], 1.0, 2.0)


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_few_mask_bits_are_compared_on_the_grid(monkeypatch, direction):
    """Where the contour does not converge, and where the answer has a step, agreement is to 1e-3."""
    release = (Mechanism("linf-csgm", 0.05, Geometry(2, dim=5)), 0.5)
    certificate = replace(upper(claim("profile", direction, 0.2), [release]), step=1e-4)
    other = upper(claim("mask-revealed", None, 0.2), [release])
    assert verify([release], [certificate, other], 1.0, 0.2).digits == 50  # the other one decides
    mean = float(verify_certificate([release], certificate))
    monkeypatch.setattr(plain_grid, "plain_mean", lambda *_: (mean, 1e-4))  # takes a second each time
    for factor in (1 - 9e-4, 1 + 9e-4):
        verify([release], [with_delta(certificate, certificate.delta * factor), other], 1.0, 0.2)
    for factor in (1 - 2e-3, 1 + 2e-3):
        with pytest.raises(VerificationError):
            verify([release], [with_delta(certificate, certificate.delta * factor), other], 1.0, 0.2)


def test_renyi_remove_may_be_as_loose_as_its_closed_form():
    """Any answer from the supremum over vectors up to the closed bound above it agrees."""
    certificate = claim("renyi-remove", "remove", order=12)
    other = upper(claim("renyi", None, order=12), [SPARSE])
    low = verify_certificate([SPARSE], certificate)
    closed = renyi.remove_log_moment([SPARSE], 12, closed=True)
    high = renyi.converted_delta(closed, mpmath.mpf(12), 2.0)
    assert low < high
    for delta in (low, (low + high) / 2, high):
        verify([SPARSE], [with_delta(certificate, delta), other], 1.0, 2.0)
    for delta in (low * 0.999, high * 1.001):
        with pytest.raises(VerificationError):
            verify([SPARSE], [with_delta(certificate, delta), other], 1.0, 2.0)


@pytest.mark.parametrize(
    ("certificate", "releases"),
    [
        (claim("concentrated", "add", exponent=20, log_ratio=1), [SPARSE]),
        (claim("profile", None), [SPARSE]),
        (claim("renyi-remove", "add", order=5), [SPARSE]),
        (claim("profile", None), [(replace(LARGEST[0], adjacency=Adjacency.REPLACE_ONE), 0.3)]),
    ],
)
def test_proofs_that_do_not_hold_are_refused(certificate, releases):
    """An exponent that is too large, a profile that is no bound, a direction or relation without proof."""
    with pytest.raises(VerificationError):
        verify_certificate(releases, certificate)


def test_exact_needs_every_coordinate_sent():
    """The Gaussian profile is refused for a sparse release."""
    with pytest.raises(UsageError):
        verify_certificate([SPARSE], claim("exact", None))


@pytest.mark.parametrize(
    ("certificate", "release"),
    [
        (claim("renyi", None), SPARSE),
        (claim("renyi", None, order=1.0), SPARSE),
        (claim("exact", None, order=2.0), GAUSSIAN),
        (claim("gaussian-matched", "add"), SPARSE),
        (claim("concentrated", "add", exponent=-1.0, log_ratio=1.0), SPARSE),
        (claim("concentrated", "remove", exponent=1.0), SPARSE),
    ],
)
def test_certificates_without_what_their_proof_needs_are_refused(certificate, release):
    """An order above 1, an exponent for which there is a function."""
    with pytest.raises(UsageError):
        verify_certificate([release], certificate)


def test_hockey_stick_needs_no_ratio():
    """An infinite exponent is the profile itself, allowed where kappa* is largest."""
    certificate = claim("concentrated", "add", exponent=math.inf)
    assert verify_certificate([LARGEST], certificate) == verify_certificate(
        [LARGEST], claim("profile", "add")
    )
    with pytest.raises(VerificationError):
        verify_certificate([SPARSE], certificate)


# ---------------------------------------------------------------- replace-one


def test_triangle_of_a_gaussian_is_close_to_twice_the_sensitivity():
    """Over e1 the bound comes down to within a factor of the exact profile at 2 mu, and never below it."""
    mu = mpmath.mpf("0.1")
    single = lambda epsilon: renyi.gaussian_delta(mu, epsilon, 20)
    found = min(replace_one_delta(single, single, 1.0, first / 64, 20) for first in range(65))
    exact = renyi.gaussian_delta(2 * mu, 1.0, 20)
    assert exact < found < 4 * exact


def test_triangle_recomputes_both_parts():
    """The parts hold for add/remove, and the second at what the first leaves of epsilon."""
    release = (replace(SPARSE[0], adjacency=Adjacency.REPLACE_ONE), SPARSE[1])
    parts = (
        upper(claim("gaussian-matched", "add", 1.1, order=9), [SPARSE]),
        upper(claim("gaussian-matched", "remove", 3.0 - 1.1, order=9), [SPARSE]),
    )
    certificate = upper(claim("triangle", None, 3.0, parts=parts), [release])
    assert abs(certificate.delta - parts[0].delta - math.exp(1.1) * parts[1].delta) < 1e-9 * certificate.delta
    assert verify([release], [certificate], certificate.delta, 3.0).digits == 50
    with pytest.raises(VerificationError):
        verify_certificate([SPARSE], certificate)
    with pytest.raises(VerificationError):
        verify_certificate([release], replace(certificate, epsilon=2.9))


def test_triangle_with_parts_of_the_wrong_directions_is_refused():
    """The first part must hold for add, the second for remove; a bound for both serves as either."""
    release = (replace(SPARSE[0], adjacency=Adjacency.REPLACE_ONE), SPARSE[1])
    add, remove = (claim("gaussian-matched", side, 1.5, order=9) for side in ("add", "remove"))
    both = claim("renyi", None, 1.5, order=9)
    for parts in ((remove, remove), (add, add), (remove, add), (add,), ()):
        with pytest.raises(VerificationError):
            verify_certificate([release], claim("triangle", None, 3.0, parts=parts))
    for parts in ((add, remove), (both, remove), (add, both)):
        assert verify_certificate([release], claim("triangle", None, 3.0, parts=parts)) > 0
