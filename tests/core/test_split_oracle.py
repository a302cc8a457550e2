"""The oracle where few coordinates are ever sent: against equal steps, conditioning and closed forms."""

import mpmath
import pytest

from csgm_cli.core import contour_oracle, profile_oracle
from csgm_cli.core.contour_oracle import contour_integral
from csgm_cli.core.law_oracle import Direction, Law, hockey_stick
from csgm_cli.errors import NoAnswerError
from csgm_cli.jobs.account import account_delta, account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Bound, Geometry, Mechanism, Target

DIGITS = 8


def relative(value, expected):
    with mpmath.workdps(50):
        return float(abs(mpmath.mpf(value) / mpmath.mpf(expected) - 1))


def in_parts(law, kernel, scale):
    """The integral over the parts of the law that count, whether or not all of it would do."""
    with mpmath.workdps(40):
        error = mpmath.mpf(10) ** -DIGITS * scale / 100
        if law.direction is Direction.ADD:
            return contour_oracle._in_parts(law, kernel, error)
        return kernel.line + contour_oracle._in_parts(law.mirrored, kernel.mirrored, error)


# ---------------------------------------------------------------- the integral

LAWS = [(0.02, ((300, 1.0),), 0.7), (0.3, ((12, 1.0),), 2.0), (0.2, ((20, 2.0), (3, 0.5)), 2.5)]


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(("gamma", "parts", "epsilon"), LAWS)
def test_equal_steps_find_the_same(gamma, parts, epsilon, direction):
    """In the remove direction of phi without its line."""
    law, kernel = Law(gamma, parts, direction), hockey_stick(epsilon)
    plain = contour_integral(law, kernel, 11)
    assert relative(in_parts(law, kernel, plain), plain) < 10.0**-DIGITS


def test_test_functions_and_releases_beside():
    """The remove function of exponent 9, with a Gaussian release, which is as good as a blur."""
    gaussian = Law(1, ((1, 1e-4),), Direction.REMOVE)
    law = Law(0.02, ((300, 0.3),), Direction.REMOVE, (gaussian,))
    kernel = profile_oracle.remove_kernel(0.3, 9, 20)
    plain = contour_integral(law, kernel, 11)
    assert relative(in_parts(law, kernel, plain), plain) < 10.0**-DIGITS


@pytest.mark.parametrize(
    ("gamma", "t", "epsilon"),
    [
        (1e-9, 3.0, 1e-4),
        (1e-9, 9.0, 1.0),
        (1e-6, 9.0, 1.0),
        (1e-3, 0.3, 0.01),
        (0.3, 0.3, 0.01),
        (0.3, 9.0, 1.0),
    ],
)
def test_one_coordinate_is_a_closed_form(gamma, t, epsilon):
    """Down to rates at which the loss has all sizes between 1e-9 and 10."""
    law = Law(gamma, ((1, t),), Direction.ADD)
    expected = profile_oracle.conditional_delta(gamma, law.parts, Direction.ADD, epsilon, 20)
    assert relative(in_parts(law, hockey_stick(epsilon), expected), expected) < 10.0**-DIGITS


@pytest.mark.parametrize(
    ("gamma", "t", "direction", "epsilon"),
    [(1e-3, 2.0, "add", 1.5), (0.01, 9.0, "add", 4.0), (0.3, 3.0, "remove", 0.4), (2e-5, 4.0, "add", 0.01)],
)
def test_two_coordinates_by_conditioning(gamma, t, direction, epsilon):
    """Which needs no contour."""
    parts = ((2, t),)
    expected = profile_oracle.conditional_delta(gamma, parts, direction, epsilon, 9)
    found = in_parts(Law(gamma, parts, Direction(direction)), hockey_stick(epsilon), expected)
    assert relative(found, expected) < 10.0**-DIGITS


@pytest.mark.parametrize(("gamma", "count", "epsilon", "blur"), [(0.01, 5, 0.3, 0.01), (0.3, 12, 0.3, 0.1)])
def test_blur_may_reach_the_strike(gamma, count, epsilon, blur):
    """Even from the outcome with nothing sent: equal steps find the same."""
    law, kernel = Law(gamma, ((count, 1.0),), Direction.ADD), hockey_stick(epsilon, blur)
    plain = contour_integral(law, kernel, 11)
    assert relative(in_parts(law, kernel, plain), plain) < 10.0**-DIGITS


# ---------------------------------------------------------------- answers

L2, LINF = "l2-csgm", "linf-csgm"
#: (mechanism, epsilon, delta): rates and strikes at which equal steps have no end.
RARE = [
    (Mechanism(L2, 2.8738e-4, Geometry(1.0), 22), 0.1094978, 2.6957e-4),
    (Mechanism(L2, 1.331780978e-7, Geometry(1.0), 38), 0.0046402394, 3.40503e-12),
    (Mechanism(L2, 2.14e-7, Geometry(7.069, dim=122), 5), 0.00981, 1.5e-11),
    (Mechanism(L2, 1.1e-7, Geometry(659.6), 2), 0.01, 1e-9),
    (Mechanism(LINF, 1.55e-5, Geometry(1.814, dim=23), 16), 0.535, 2.47e-9),
]


@pytest.mark.parametrize(("mechanism", "epsilon", "delta"), RARE)
def test_rare_losses_are_verified(mechanism, epsilon, delta):
    """What float64 proves is above the oracle's number by less than its bracket is wide."""
    guarantee = calibrate(mechanism, Target(epsilon, delta), verify=True).guarantee
    assert guarantee.bound in (Bound.TIGHT_ADD, Bound.PROFILE)
    assert 0 < guarantee.verified.relative_difference < 2e-5


#: Where one coordinate's tail is far heavier than any tilt, where the losses with a bit sent are far from
#: those with none, and where fifteen bits of 1407 are sent in the end.
HEAVY = [
    (Mechanism(L2, 2.992766187034506e-05, Geometry(27.53986629488217), 4), 0.47899127, 7.6314226e-56),
    (Mechanism(LINF, 1.11246e-6, Geometry(3.79547, dim=2106)), 0.001508978520674981, 2.413831e-75),
    (Mechanism(LINF, 2.5e-5, Geometry(1.78537, dim=76), 2), 0.34049, 1.67166e-100),
    (Mechanism(LINF, 1 / 676.67, Geometry(37.5, dim=1407)), 1732.48, 1.087e-9),
]


@pytest.mark.parametrize(("mechanism", "epsilon", "delta"), HEAVY)
def test_heavy_tails_are_verified(mechanism, epsilon, delta):
    """The float64 bracket and the sum over parts of the law agree to the bracket's width."""
    guarantee = calibrate(mechanism, Target(epsilon, delta), Accountant.TIGHT, verify=True).guarantee
    assert 0 < guarantee.verified.relative_difference < 2e-5


def test_much_weight_in_few_coordinates_is_verified():
    """Four coordinates of 25 deviations each: two of them are sent."""
    mechanism = Mechanism(LINF, 1e-3, Geometry(2.0, dim=4))
    guarantee = account_epsilon(mechanism, 0.02, [1e-6], verify=True).guarantees[0]
    assert 0 < guarantee.verified.relative_difference < 2e-5


#: Three mask bits of 20 million are sent; or hardly any, and large losses are far out.
BESIDE = [
    (Mechanism(L2, 1.39e-7, Geometry(260.4), 318), 1.91e-3, 1.27e-12),
    (Mechanism(L2, 2.29e-8, Geometry(2.405), 2), 4.16, 2.83e-6),
]


@pytest.mark.parametrize(("mechanism", "epsilon", "delta"), BESIDE)
def test_a_direction_that_does_not_decide_is_recomputed_as_well(mechanism, epsilon, delta):
    """Remove decides; add is less, and a rare loss."""
    guarantee = calibrate(mechanism, Target(epsilon, delta), verify=True).guarantee
    assert guarantee.bound is Bound.TIGHT_REMOVE
    assert guarantee.verified.relative_difference < 1e-9


@pytest.mark.parametrize("factor", [1 - 3e-5, 1 + 2e-4])
def test_rare_losses_that_are_off_are_caught(monkeypatch, factor):
    """Both ways by little more than the bracket is wide."""
    right = contour_oracle._in_parts
    monkeypatch.setattr(contour_oracle, "_in_parts", lambda *given: right(*given) / factor)
    mechanism, epsilon, delta = RARE[0]
    sigma = calibrate(mechanism, Target(epsilon, delta)).sigma
    with pytest.raises(NoAnswerError) as caught:
        account_delta(mechanism, sigma, epsilon, verify=True)
    assert caught.value.slug == "verification-failed"
