"""The float64 contour integrals against printed values, closed forms and high precision."""

import math

import mpmath
import numpy as np
import pytest

from csgm_cli.core import profile_oracle
from csgm_cli.gaussian import log_delta
from csgm_cli.profile import contour
from csgm_cli.profile.contour import Direction, Law, build_contour


def delta(law, direction, epsilon):
    """Delta by the contour integral, and the bound on its error."""
    built = build_contour(law, direction, epsilon)
    assert built is not None
    value, error = built.integral(-epsilon, np.ones_like(built.z))
    return value, error + built.aliases


def gaussian(mu, epsilon):
    """The exact delta of the Gaussian mechanism, in 40 digits."""
    with mpmath.workdps(40):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first = mpmath.ncdf(mu / 2 - epsilon / mu)
        return float(first - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu))


def kappa_star(row):
    """The loss at kappa* for one row of the reference file."""
    t, whole, rounds = row["sigma_over_dinf"] ** -2.0, math.floor(row["k"]), row["rounds"]
    parts = [(float(rounds * whole), t)]
    if row["k"] > whole:
        parts.append((float(rounds), (row["k"] - whole) * t))
    return Law(row["gamma"], tuple(parts))


@pytest.mark.parametrize("direction", Direction)
def test_reference_profiles(reference, direction):
    """Delta at kappa* agrees with every recorded value to 1e-8, or to what the record itself has."""
    for row in reference["profile"]:
        value, error = delta(kappa_star(row), direction, row["epsilon"])
        recorded = row[f"delta_{direction.value}"]
        assert value == pytest.approx(recorded, rel=1e-8)
        assert error < 1e-10 * value


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("gamma", [1.0, 1 - 1e-13])
@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        (((3.0, 0.04), (1.0, 0.01)), 2.0),
        (((2.0, 0.4),), 1.0),
        (((1e6, 1e-6),), 0.0),
        (((100.0, 0.3),), 20.0),
        (((5.0, 1e-4),), 0.1),
    ],
)
def test_gamma_one_is_the_gaussian_mechanism(direction, gamma, parts, epsilon):
    """With every coordinate sent, delta is the analytic Gaussian's to 1e-10, down to 1e-80."""
    law = Law(gamma, parts)
    value, error = delta(law, direction, epsilon)
    exact = gaussian(math.sqrt(law.total_t), epsilon)
    assert value == pytest.approx(exact, rel=1e-10)
    if gamma == 1.0:
        assert value - error <= exact <= value + error


_CASES = [
    (0.1, ((12.0, 0.3),), 1.0),
    (0.3, ((9.0, 2.0), (2.0, 0.5)), 2.0),
    (0.02, ((5000.0, 1e-3),), 0.05),
    (0.9, ((20.0, 0.5),), 8.0),
    (0.05, ((1e7, 1e-6), (10.0, 5e-7)), 0.5),
    (1e-4, ((1e9, 1e-3),), 2.0),
    (0.999, ((10.0, 1e-2),), 3.0),
    (0.2, ((200.0, 0.05),), 12.0),
    (1e-3, ((1e12, 1e-12),), 1e-5),
    (0.01, ((1e12, 1e-10),), 2.0),
    (0.01, ((2441400.0, 1 / 23.3**2),), 12.0),
    (0.5, ((1000.0, 4.0),), 300.0),
    (1 - 1e-9, ((50.0, 0.01),), 5.0),
    (0.1, ((100.0, 1.0),), 0.0),
    (0.01, ((1e6, 0.01),), 36.0),
]


@pytest.mark.parametrize(("gamma", "parts", "epsilon"), _CASES)
@pytest.mark.parametrize("direction", Direction)
def test_high_precision_lies_within_the_error(gamma, parts, epsilon, direction):
    """The mpmath value lies within the bound on the error, which is small."""
    value, error = delta(Law(gamma, parts), direction, epsilon)
    exact = float(profile_oracle.profile_delta(gamma, parts, direction.value, epsilon, 11))
    assert abs(value - exact) <= error
    assert error < 1e-9 * exact


@pytest.mark.parametrize(
    ("gamma", "parts", "epsilon"),
    [
        (2.2e-8, ((3.0 * 209746596361, 8.2696e-4**2),), 6e-5),  # order times s is over 270
        (2.2e-8, ((3.0 * 209746596361, 2e-4**2),), 6e-5),
        (1.511706439222781e-06, ((12165230.0, 0.00024693934850074356),), 1e-5),
    ],
)
def test_orders_far_out_have_a_contour(gamma, parts, epsilon):
    """Orders of 1000/s and more move a coordinate that is hardly ever sent by next to nothing."""
    built = build_contour(Law(gamma, parts), Direction.REMOVE, epsilon)
    assert built is not None
    assert len(built.z) < 100
    value, error = delta(Law(gamma, parts), Direction.REMOVE, epsilon)
    exact = float(profile_oracle.profile_delta(gamma, parts, "remove", epsilon, 11))
    assert abs(value - exact) <= error < 1e-9 * exact


def test_too_few_nodes_are_refused(monkeypatch):
    """Where 40 nodes do not carry the integrand there is no contour, rather than a wrong one."""
    law = Law(0.01, ((300.0, 1.0),))
    monkeypatch.setattr(contour, "_MOST_NODES", 40)
    assert build_contour(law, Direction.ADD, 1.0) is None


def test_both_directions_agree_at_epsilon_zero():
    """At epsilon 0 delta is the total variation distance, which has no direction."""
    law = Law(0.1, ((40.0, 0.2), (2.0, 0.1)))
    add, _ = delta(law, Direction.ADD, 0.0)
    remove, _ = delta(law, Direction.REMOVE, 0.0)
    assert add == pytest.approx(remove, rel=1e-11)


def test_mixtures_are_the_integrals_one_by_one():
    """Many test functions at once cost no accuracy: each is the integral with its own factor."""
    law, epsilon, exponent = Law(0.1, ((40.0, 0.2),)), 1.0, 2.5
    built = build_contour(law, Direction.ADD, epsilon)
    tilts, weights = np.array([-1.0, -0.8, -1.3]), np.array([0.5, 2.0, 7.0])
    for tilt, weight, value in zip(tilts, weights, built.mixtures(tilts, weights, exponent), strict=True):
        single, error = built.integral(tilt, weight / (exponent + built.z))
        assert single <= value <= single + 10 * error


def test_the_floor_is_the_loss_when_nothing_is_sent():
    """Seven coordinates that are surely absent: 7 log(1 - gamma)."""
    assert Law(0.3, ((5.0, 1.0), (2.0, 0.1))).floor == pytest.approx(7 * math.log(0.7), rel=1e-14)


@pytest.mark.parametrize("law", [Law(0.01, ((10.0, 0.25),)), Law(0.05, ((1e4, 0.01),))])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 7.5])
def test_mixtures_are_the_sums_over_the_contour(law, exponent):
    """Each is above the sum of its terms taken one by one, and by no more than the errors that are added."""
    built = build_contour(law, Direction.ADD, 2.0)
    assert built is not None
    tilts, weights = np.array([-3.0, -2.0, -1.7]), np.array([0.5, 1.0, 2.0])
    for tilt, weight, found in zip(tilts, weights, built.mixtures(tilts, weights, exponent), strict=True):
        terms = np.exp(built.exponent + tilt * built.z) / (built.z * (built.z + 1) * (exponent + built.z))
        direct = weight * built.step / math.pi * (math.fsum(terms.real) - terms[0].real / 2)
        assert direct <= found <= direct * (1 + 1e-6)


#: E[Y^a] explodes from about a = 81 on, where Y^a is made by single losses that hardly ever occur.
_WALL = Law(1e-9, ((8778290000000000.0, 0.4995582652851448), (1e9, 0.2503406371515683)))


@pytest.mark.parametrize("epsilon", [0.37, 0.373, 0.42, 0.48, 0.6])
def test_rare_large_losses_leave_contours_a_way(epsilon):
    """Where the saddle is next to such a wall, a contour on its left has few points and all digits."""
    value, error = delta(_WALL, Direction.ADD, epsilon)
    parts = tuple((int(count), mpmath.mpf(t)) for count, t in _WALL.parts)
    exact = profile_oracle.profile_delta(_WALL.gamma, parts, "add", epsilon, 20)
    assert abs(value - exact) <= error < 1e-9 * value
    built = build_contour(_WALL, Direction.ADD, epsilon)
    assert built is not None
    assert built.z.size < 1000
    assert built.aliases < 1e-11 * value


def test_terms_do_not_underflow_at_huge_orders():
    """z near 5e18 and delta 1e-300: exp(S - z eps)/(z (z+1)) is 1e-317, of which floats keep seven digits."""
    law = Law(0.7899534677763107, ((127433.0, 7.847260913578115e-40),))
    contour = build_contour(law, Direction.ADD, 2.833532928130587e-16)
    value, error = contour.integral(-2.833532928130587e-16, np.ones_like(contour.z))
    mu = law.gamma * math.sqrt(law.total_t)  # so little noise is seen that the loss is a Gaussian's
    assert math.log(value) == pytest.approx(log_delta(mu, 2.833532928130587e-16), rel=1e-13)
    assert error < 1e-10 * value
