"""Contours of the oracle by marks and without them, at other places, and against closed forms."""

from dataclasses import replace

import mpmath
import pytest

from csgm_cli.core import contour_oracle, oracle, profile_oracle
from csgm_cli.core.contour_oracle import contour_integral
from csgm_cli.core.law_oracle import Counted, Direction, Law, Share, hockey_stick
from csgm_cli.core.tilt_oracle import Mark, tilt
from csgm_cli.errors import NoAnswerError

DIGITS = 10


def relative(value, expected):
    with mpmath.workdps(50):
        return float(abs(mpmath.mpf(value) / mpmath.mpf(expected) - 1))


def by_marks(law, kernel, scale):
    """The integral of outcomes with a mark only."""
    with mpmath.workdps(40):
        return contour_oracle._by_marks(law, kernel, mpmath.mpf(10) ** -DIGITS * scale / 100)


# ---------------------------------------------------------------- marks

LAWS = [(0.02, ((300, 1.0),), 0.7), (0.3, ((12, 1.0),), 2.0), (0.2, ((20, 2.0), (3, 0.5)), 2.5)]


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(("gamma", "parts", "epsilon"), LAWS)
def test_marks_leave_the_value_as_it_is(gamma, parts, epsilon, direction):
    """Outcomes without a mark do not count, and in the remove direction phi without its line does."""
    law, kernel = Law(gamma, parts, direction), hockey_stick(epsilon)
    plain = contour_integral(law, kernel, 14)
    assert relative(by_marks(law, kernel, plain), plain) < 10.0**-DIGITS


def test_marks_serve_test_functions_and_releases_beside():
    """The remove function of exponent 9, with a Gaussian release that is never marked."""
    gaussian = Law(1, ((1, 0.01),), Direction.REMOVE)
    law = Law(0.02, ((300, 0.3),), Direction.REMOVE, (gaussian,))
    kernel = profile_oracle.remove_kernel(0.3, 9, 20)
    plain = contour_integral(law, kernel, 14)
    assert relative(by_marks(law, kernel, plain), plain) < 10.0**-DIGITS


@pytest.mark.parametrize(
    ("gamma", "t", "direction", "epsilon"),
    [(1e-3, 2.0, "add", 1.5), (0.01, 9.0, "add", 4.0), (0.3, 3.0, "remove", 0.4)],
)
def test_two_coordinates_by_marks(gamma, t, direction, epsilon):
    """The atom of two rarely sent coordinates needs marks; conditioning on one of them needs no contour."""
    parts = ((2, t),)
    expected = profile_oracle.conditional_delta(gamma, parts, direction, epsilon, 11)
    found = by_marks(Law(gamma, parts, Direction(direction)), hockey_stick(epsilon), expected)
    assert relative(found, expected) < 10.0**-DIGITS


def test_marked_and_bare_outcomes_add_up():
    """E[Y^a] is that of marked coordinates and of bare ones; of any mark among 7, 1 - (1 - r)^7."""
    order, gamma, t = mpmath.mpf("3.5"), mpmath.mpf("0.05"), mpmath.mpf("1.5")
    with mpmath.workdps(30):
        mark = Mark(mpmath.mpf(2), mpmath.mpf("0.3"))
        every, marked, bare = (
            mpmath.exp(tilt(order, gamma, t, mpmath.mpf(0), 20, each).log_moment)
            for each in (None, mark, replace(mark, is_there=False))
        )
        assert relative(marked + bare, every) < 1e-19
        law = Law(gamma, ((7, t),), Direction.ADD)
        odds = mpmath.mpf("0.4")
        some, none = (
            mpmath.exp(Share(law, counted, odds).point(order - 1, 20).value)
            for counted in (Counted.SOME_MARK, Counted.NO_MARK)
        )
        assert relative(some + none, every**7) < 1e-18


@pytest.mark.parametrize("counted", list(Counted))
def test_slopes_are_those_of_the_values(counted):
    """First and second derivatives of the log-moment by central differences."""
    law = Law(0.05, ((7, 1.5), (2, 0.3)), Direction.ADD)
    with mpmath.workdps(40):
        share, step = Share(law, counted, mpmath.mpf("0.4")), mpmath.mpf(10) ** -8
        low, here, high = (share.point(2 + k * step, 30) for k in (-1, 0, 1))
        assert relative((high.value - low.value) / (2 * step), here.slope) < 1e-12
        assert relative((high.slope - low.slope) / (2 * step), here.curvature) < 1e-12


def test_no_marks_where_losses_without_them_pass_the_strike():
    """Never sent, many coordinates are beyond a remove strike near the lowest loss."""
    law = Law(0.3, ((12, 1.0),), Direction.REMOVE)
    assert by_marks(law, hockey_stick(4.4), mpmath.mpf(1)) is None


# ---------------------------------------------------------------- aliases and digits


def test_a_far_bump_of_the_loss_makes_no_alias():
    """At the saddle losses near 8, of a chance of 1e-200, weigh as much as the others.

    Steps 2 pi/8, 2 pi/4, ... of a contour there agree with each other, and are wrong by 1 %.
    """
    parts = ((106_860, 0.350811743),)
    values = [
        profile_oracle.profile_delta(1.3735950807e-4, parts, "add", 0.1483645, digits) for digits in (8, 18)
    ]
    assert relative(*values) < 1e-8


@pytest.mark.parametrize(("direction", "epsilon"), [(Direction.ADD, 20.0), (Direction.REMOVE, 6.0)])
def test_no_more_digits_are_found_than_are_asked_for(direction, epsilon):
    """Errors may be as large as ``least`` allows, which is an upper bound in the end."""
    law, kernel = Law(0.1, ((100, 1.0),), direction), hockey_stick(epsilon)
    value = contour_integral(law, kernel, 16)
    assert relative(contour_integral(law, kernel, 8, least=100 * value), value) < 1e-6
    bound = contour_integral(law, kernel, 8, least=1e-3)
    assert 2 * value < bound < 1e-11


def test_gamma_one_is_right_at_any_place():
    """The Gaussian profile, far out and near 1."""
    for t, epsilon in ((0.1, 3.0), (25.0, 0.5), (1e-4, 0.2)):
        with mpmath.workdps(40):
            expected = oracle.gaussian_delta(mpmath.sqrt(mpmath.mpf(t)), epsilon, 30)
        for direction in Direction:
            found = contour_integral(Law(1, ((1, t),), direction), hockey_stick(epsilon), 16)
            assert relative(found, expected) < 1e-16


def test_an_endless_contour_is_refused(monkeypatch):
    """Without marks few coordinates have no end."""
    monkeypatch.setattr(contour_oracle, "_by_marks", lambda *arguments: None)
    with pytest.raises(NoAnswerError) as caught:
        contour_integral(Law(1e-4, ((5, 1.0),), Direction.ADD), hockey_stick(0.5), 10)
    assert caught.value.slug == "oracle-not-converged"
