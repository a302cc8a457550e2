"""The oracle where few coordinates are ever sent: against equal steps, conditioning and closed forms."""

import math

import mpmath
import pytest

from csgm_cli.core import contour_oracle, profile_oracle, rare_oracle
from csgm_cli.core.account import account_delta
from csgm_cli.core.calibrate import calibrate
from csgm_cli.core.contour_oracle import contour_integral
from csgm_cli.core.law_oracle import Direction, Kernel, Law, hockey_stick
from csgm_cli.core.rare_oracle import Moments, rare_integral
from csgm_cli.errors import NoAnswerError
from csgm_cli.model import Bound, Geometry, Mechanism, Target

DIGITS = 10


def relative(value, expected):
    with mpmath.workdps(50):
        return float(abs(mpmath.mpf(value) / mpmath.mpf(expected) - 1))


def as_rare(law, kernel, scale):
    """The integral of outcomes with something sent, whether or not equal steps would do."""
    with mpmath.workdps(40):
        return contour_oracle._rare(law, kernel, mpmath.mpf(10) ** -DIGITS * scale / 100)


# ---------------------------------------------------------------- the integral

LAWS = [(0.02, ((300, 1.0),), 0.7), (0.3, ((12, 1.0),), 2.0), (0.2, ((20, 2.0), (3, 0.5)), 2.5)]


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(("gamma", "parts", "epsilon"), LAWS)
def test_equal_steps_find_the_same(gamma, parts, epsilon, direction):
    """In the remove direction of phi without its line."""
    law, kernel = Law(gamma, parts, direction), hockey_stick(epsilon)
    plain = contour_integral(law, kernel, 14)
    assert relative(as_rare(law, kernel, plain), plain) < 10.0**-DIGITS


def test_test_functions_and_releases_beside():
    """The remove function of exponent 9, with a Gaussian release, which is as good as a blur."""
    gaussian = Law(1, ((1, 1e-4),), Direction.REMOVE)
    law = Law(0.02, ((300, 0.3),), Direction.REMOVE, (gaussian,))
    kernel = profile_oracle.remove_kernel(0.3, 9, 20)
    plain = contour_integral(law, kernel, 14)
    assert relative(as_rare(law, kernel, plain), plain) < 10.0**-DIGITS


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
    assert relative(as_rare(law, hockey_stick(epsilon), expected), expected) < 10.0**-DIGITS


@pytest.mark.parametrize(
    ("gamma", "t", "direction", "epsilon"),
    [(1e-3, 2.0, "add", 1.5), (0.01, 9.0, "add", 4.0), (0.3, 3.0, "remove", 0.4), (2e-5, 4.0, "add", 0.01)],
)
def test_two_coordinates_by_conditioning(gamma, t, direction, epsilon):
    """Which needs no contour."""
    parts = ((2, t),)
    expected = profile_oracle.conditional_delta(gamma, parts, direction, epsilon, 11)
    found = as_rare(Law(gamma, parts, Direction(direction)), hockey_stick(epsilon), expected)
    assert relative(found, expected) < 10.0**-DIGITS


@pytest.mark.parametrize(("gamma", "count", "epsilon", "blur"), [(0.01, 5, 0.3, 0.01), (0.3, 12, 0.3, 0.1)])
def test_blur_may_reach_the_strike(gamma, count, epsilon, blur):
    """Even from the outcome with nothing sent: equal steps find the same."""
    law, kernel = Law(gamma, ((count, 1.0),), Direction.ADD), hockey_stick(epsilon, blur)
    plain = contour_integral(law, kernel, 14)
    assert relative(as_rare(law, kernel, plain), plain) < 10.0**-DIGITS


def test_a_strike_below_every_loss_leaves_a_line():
    """E_Q[e^L - 1/e] = 1 - 1/e: losses are above 5 log(0.99)."""
    law, strike = Law(0.01, ((5, 1.0),), Direction.ADD), mpmath.mpf(-1)
    kernel = Kernel(mpmath.mpf(1), strike, (mpmath.mpf(0), mpmath.mpf(-1)))
    found = rare_integral(law, kernel, mpmath.mpf(10) ** -15)
    assert relative(found, -mpmath.expm1(strike)) < 1e-13


@pytest.mark.parametrize(("gamma", "count"), [(2e-6, 500_000), (2e-5, 150_000)])
def test_many_small_losses_are_away_from_nothing_sent(gamma, count):
    """One to three of the mask bits are sent: no coordinate decides, and the loss is nearly Gaussian."""
    law, kernel = Law(gamma, ((count, 0.1),), Direction.ADD), hockey_stick(4.5 * gamma * math.sqrt(count) / 3)
    plain = contour_integral(law, kernel, 14)
    assert relative(as_rare(law, kernel, plain), plain) < 10.0**-DIGITS


def test_rules_that_differ_are_no_answer(monkeypatch):
    """Two of them must agree to the error that is asked for."""
    off = iter(range(1, 100))
    right = rare_oracle._half_line
    monkeypatch.setattr(rare_oracle, "_half_line", lambda *given: right(*given) * (1 + 1e-6 * next(off)))
    law = Law(0.01, ((2, 1.0),), Direction.ADD)
    assert rare_integral(law, hockey_stick(0.3), mpmath.mpf(10) ** -15) is None


# ---------------------------------------------------------------- its parts


@pytest.mark.parametrize("order", [2.0, 2.5 + 3j, 1.5 + 400j, 2 + 1e5j])
@pytest.mark.parametrize(("gamma", "t"), [(1e-3, 4.0), (0.2, 0.1), (1e-6, 25.0)])
def test_far_orders_are_moments_too(order, gamma, t):
    """By adaptive quadrature on the real line, in pieces each of which turns little, or by the definition."""
    with mpmath.workdps(30):
        a, root = mpmath.mpmathify(order), mpmath.sqrt(t)
        found = Moments.of(mpmath.mpf(gamma), mpmath.mpf(t), a.real, 18).less_one(a)
        lift = mpmath.mpf(gamma) / (1 - mpmath.mpf(gamma))

        def term(x):  # on a line of another height
            log = mpmath.log1p(lift * mpmath.exp(root * x - mpmath.mpf(t) / 2))
            return mpmath.expm1(a * log) * mpmath.npdf(x)

        height = 1j / root
        expected = mpmath.quad(lambda x: term(x + height), mpmath.linspace(-14, 14 + 3 * root, 90))
        assert abs(found - expected) < 1e-14 * abs(expected) + 1e-16


@pytest.mark.parametrize("place", [1e-4, 0.1, 3.0])
def test_a_half_line_inverts_known_transforms(place):
    """The exponential law, and the gamma law of shape 1/2, whose transforms fall slowly."""
    with mpmath.workdps(30):
        w = mpmath.mpf(place)
        exponential = rare_oracle._half_line(lambda y: 1 / mpmath.mpc(1, -y), w, mpmath.mpf(4), 0.05, 16)
        assert relative(exponential / mpmath.pi, mpmath.exp(-w)) < 1e-10
        root = rare_oracle._half_line(
            lambda y: 1 / mpmath.sqrt(mpmath.mpc(1, -y)), w, mpmath.mpf(4), 0.05, 16
        )
        assert relative(root / mpmath.pi, mpmath.exp(-w) / mpmath.sqrt(mpmath.pi * w)) < 1e-10


# ---------------------------------------------------------------- answers

L2, LINF = "l2-csgm", "linf-csgm"
#: (mechanism, epsilon, delta): rates and strikes at which equal steps have no end.
RARE = [
    (Mechanism(L2, 2.8738e-4, Geometry(1.0), 22), 0.1094978, 2.6957e-4),
    (Mechanism(L2, 2.0208725898759e-05, Geometry(1.4260537691565882), 6), 0.14228378248472184, 3.894e-05),
    (Mechanism(L2, 1.331780978e-7, Geometry(1.0), 38), 0.0046402394, 3.40503e-12),
    (Mechanism(L2, 9.15e-9, Geometry(8.717), 12), 0.0126, 7.46e-7),
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
    right = rare_oracle.rare_integral
    monkeypatch.setattr(contour_oracle, "rare_integral", lambda *given: right(*given) / factor)
    mechanism, epsilon, delta = RARE[0]
    sigma = calibrate(mechanism, Target(epsilon, delta)).sigma
    with pytest.raises(NoAnswerError) as caught:
        account_delta(mechanism, sigma, epsilon, verify=True)
    assert caught.value.slug == "verification-failed"
