"""Contours of the oracle at other places and against closed forms."""

import mpmath
import pytest

from csgm_cli.core import contour_oracle, oracle, profile_oracle
from csgm_cli.core.contour_oracle import contour_integral
from csgm_cli.core.law_oracle import Direction, Law, hockey_stick
from csgm_cli.errors import NoAnswerError


def relative(value, expected):
    with mpmath.workdps(50):
        return float(abs(mpmath.mpf(value) / mpmath.mpf(expected) - 1))


def test_slopes_are_those_of_the_values():
    """First and second derivatives of the log-moment by central differences."""
    law = Law(0.05, ((7, 1.5), (2, 0.3)), Direction.ADD)
    with mpmath.workdps(40):
        step = mpmath.mpf(10) ** -8
        low, here, high = (law.point(2 + k * step, 30) for k in (-1, 0, 1))
        assert relative((high.value - low.value) / (2 * step), here.slope) < 1e-12
        assert relative((high.slope - low.slope) / (2 * step), here.curvature) < 1e-12


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
    """In equal steps few coordinates have no end."""
    monkeypatch.setattr(contour_oracle, "split_laws", lambda law, kernel, error: ([], kernel))
    with pytest.raises(NoAnswerError) as caught:
        contour_integral(Law(1e-4, ((5, 1.0),), Direction.ADD), hockey_stick(0.5), 10)
    assert caught.value.slug == "oracle-not-converged"
