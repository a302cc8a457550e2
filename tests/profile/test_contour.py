"""The float64 contour integrals against printed values, closed forms and high precision."""

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from csgm_cli.model.certificate import Direction
from csgm_cli.profile import contour
from csgm_cli.profile.contour import build_contour
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.renyi.law import Coordinates, merged_law
from csgm_cli.verify import concentrated as precise
from csgm_cli.verify.renyi import gaussian_delta


def law_of(gamma, parts, gaussian=0.0):
    """The law of (count, t) parts of one gamma; gamma 1 is Gaussian."""
    return merged_law([Coordinates(count, gamma, t) for count, t in parts], gaussian)


def delta(law, direction, epsilon):
    """The interval that a contour integral gives for delta."""
    built = build_contour(law, direction, epsilon)
    assert built is not None
    found = built.mean(ConvexFunction(direction, epsilon))
    assert found is not None
    return found


def precise_delta(gamma, parts, direction, epsilon, digits=11, gaussian=0.0):
    """The same in high precision."""
    kinds = [(int(count), mpmath.mpf(gamma), mpmath.mpf(t)) for count, t in parts]
    return precise.mean_at_worst_case(
        kinds, gaussian, precise.ConvexFunction(direction, mpmath.mpf(epsilon)), digits
    )


def kappa_star(row):
    """The law at kappa* for one row of the reference file."""
    t, whole, rounds = row["sigma_over_dinf"] ** -2.0, math.floor(row["k"]), row["rounds"]
    parts = [(float(rounds * whole), t)]
    if row["k"] > whole:
        parts.append((float(rounds), (row["k"] - whole) * t))
    return law_of(row["gamma"], parts)


@pytest.mark.parametrize("direction", Direction)
def test_reference_profiles(reference, direction):
    """Delta at kappa* agrees with every recorded value to 1e-8, or to what the record itself has."""
    for row in reference["profile"]:
        found = delta(kappa_star(row), direction, row["epsilon"])
        assert math.exp(found.log_upper) == pytest.approx(row[f"delta_{direction}"], rel=1e-8)
        assert (1 - 2e-10) * math.exp(found.log_upper) < math.exp(found.log_lower) < math.exp(found.log_upper)


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("gamma", [1.0, 1 - 1e-13])
@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        (((80.0, 0.04), (1.0, 0.01)), 5.0),
        (((20.0, 0.4),), 4.0),
        (((1e6, 1e-6),), 0.0),
        (((100.0, 0.3),), 20.0),
        (((50.0, 1e-4),), 0.1),
    ],
)
def test_gamma_one_is_the_gaussian_mechanism(direction, gamma, parts, epsilon):
    """With every coordinate sent, delta is the analytic Gaussian's to 1e-10, down to 1e-80."""
    found = delta(law_of(gamma, parts), direction, epsilon)
    exact = float(gaussian_delta(mpmath.sqrt(mpmath.fsum(n * mpmath.mpf(t) for n, t in parts)), epsilon, 20))
    assert math.exp(found.log_upper) == pytest.approx(exact, rel=1e-10)
    if gamma == 1.0:
        assert math.exp(found.log_lower) <= exact <= math.exp(found.log_upper)


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
def test_high_precision_lies_within_the_interval(gamma, parts, epsilon, direction):
    """The mpmath value lies within the interval, which is narrow."""
    found = delta(law_of(gamma, parts), direction, epsilon)
    exact = precise_delta(gamma, parts, direction, epsilon)
    assert math.exp(found.log_lower) <= exact <= math.exp(found.log_upper)
    assert math.exp(found.log_upper) - math.exp(found.log_lower) < 2e-9 * exact


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("gamma", "parts", "gaussian", "epsilon"),
    [
        (0.1, ((12.0, 0.3),), 0.5, 1.0),
        (0.01, ((3.0, 2.0), (1.0, 0.5)), 0.04, 0.5),
        (1e-6, ((9.0, 1.0),), 1.0, 5.0),
    ],
)
def test_releases_with_a_gaussian_part(gamma, parts, gaussian, epsilon, direction):
    """Few mask bits converge as well: the Gaussian ends the contour."""
    found = delta(law_of(gamma, parts, gaussian), direction, epsilon)
    exact = precise_delta(gamma, parts, direction, epsilon, 13, gaussian)
    assert math.exp(found.log_lower) <= exact <= math.exp(found.log_upper)
    assert math.exp(found.log_upper) - math.exp(found.log_lower) < 2e-9 * exact


@pytest.mark.parametrize(
    ("direction", "exponent", "log_ratio"),
    [
        ("add", 0.0, 0.3),
        ("add", 0.0, 2.0),  # the threshold is far below epsilon: only the upper end is asked for
        ("add", 0.7, 0.5),
        ("add", 1.0, 0.1),
        ("add", 6.0, 1.5),
        ("add", 6.0, math.inf),
        ("add", 40.0, 0.2),
        ("remove", 20.0, math.inf),
        ("remove", 300.0, math.inf),
    ],
)
def test_means_of_convex_functions_in_high_precision(direction, exponent, log_ratio):
    """The functions of the class C_B for two gammas at once, beside a Gaussian part."""
    kinds, gaussian = [(2000, 0.02, 0.04), (30, 0.3, 0.01)], 0.01
    law = merged_law([Coordinates(*kind) for kind in kinds], gaussian)
    function = ConvexFunction(Direction(direction), 1.5, exponent, log_ratio)
    found = build_contour(law, function.direction, 1.5, function.pole).mean(function)
    shape = precise.ConvexFunction(direction, 1.5, exponent, log_ratio)
    exact = precise.mean_at_worst_case(kinds, mpmath.mpf(gaussian), shape, 13)
    assert exact <= math.exp(found.log_upper)
    if (exponent, log_ratio) == (0.0, 2.0):
        return
    assert math.exp(found.log_lower) <= exact
    assert math.exp(found.log_upper) - math.exp(found.log_lower) < 2e-9 * exact


@pytest.mark.parametrize(
    ("gamma", "parts", "epsilon", "exact"),
    [  # exact values: 20 digits, by mpmath
        (2.2e-8, ((3.0 * 209746596361, 8.2696e-4**2),), 6e-5, 5.071560087352294e-11),  # order s over 270
        (2.2e-8, ((3.0 * 209746596361, 2e-4**2),), 6e-5, 3.150404616184784e-73),
        (1.511706439222781e-06, ((12165230.0, 0.00024693934850074356),), 1e-5, 2.829728274827888e-5),
    ],
)
def test_orders_far_out_have_a_contour(gamma, parts, epsilon, exact):
    """Orders of 1000/s and more move a coordinate that is hardly ever sent by next to nothing."""
    built = build_contour(law_of(gamma, parts), Direction.REMOVE, epsilon)
    assert built is not None
    assert len(built.z) < 100
    found = delta(law_of(gamma, parts), Direction.REMOVE, epsilon)
    assert math.exp(found.log_lower) <= exact <= math.exp(found.log_upper)
    assert math.exp(found.log_upper) - math.exp(found.log_lower) < 2e-9 * exact


def test_too_few_nodes_are_refused(monkeypatch):
    """Where 40 nodes do not carry the integrand there is no contour, rather than a wrong one."""
    law = law_of(0.01, ((300.0, 1.0),))
    assert build_contour(law, Direction.ADD, 1.0) is not None
    monkeypatch.setattr(contour, "_MOST_NODES", 40)
    assert build_contour(law, Direction.ADD, 1.0) is None


def test_both_directions_agree_at_epsilon_zero():
    """At epsilon 0 delta is the total variation distance, which has no direction."""
    law = law_of(0.1, ((40.0, 0.2), (2.0, 0.1)))
    add, remove = delta(law, Direction.ADD, 0.0), delta(law, Direction.REMOVE, 0.0)
    assert math.exp(add.log_upper) == pytest.approx(math.exp(remove.log_upper), rel=1e-11)


def test_integrals_that_did_not_converge_have_no_mean():
    """Where half of the nodes are left out the error exceeds what is promised, and there is no value."""
    built = build_contour(law_of(0.01, ((300.0, 1.0),)), Direction.ADD, 1.0)
    assert built.mean(ConvexFunction(Direction.ADD, 1.0)) is not None
    rough = dataclasses.replace(built, log_tail=built.log_tail + 20.0)
    assert rough.mean(ConvexFunction(Direction.ADD, 1.0)) is None
    assert (
        dataclasses.replace(built, log_aliases=math.log(1e-3)).mean(ConvexFunction(Direction.ADD, 1.0))
        is None
    )


def test_thresholds_too_far_from_that_of_the_contour_have_no_mean():
    """The integrand is beyond float64 there."""
    law = law_of(0.07476883171002402, ((67.0, 1.376851537378644e-07), (1474.0, 4.228640145723341e-07)))
    built = build_contour(law, Direction.ADD, 0.01447336090965057)
    assert built.mean(ConvexFunction(Direction.ADD, 0.01447336090965057)) is not None
    assert built.mean(ConvexFunction(Direction.ADD, 0.01447336090965057, 5.5)) is None


@settings(max_examples=60)
@given(
    gamma=st.floats(math.log(1e-6), math.log(0.95)).map(math.exp),
    t=st.floats(math.log(1e-4), math.log(10.0)).map(math.exp),
    count=st.integers(1, 300_000),
    epsilon=st.floats(math.log(1e-3), math.log(30.0)).map(math.exp),
    direction=st.sampled_from(list(Direction)),
)
@example(gamma=0.01, t=1.0, count=300, epsilon=1.0, direction=Direction.ADD)
@example(gamma=0.01, t=1.0, count=1, epsilon=0.5, direction=Direction.ADD)
@example(gamma=0.9, t=9.0, count=1, epsilon=1.0, direction=Direction.REMOVE)
@example(gamma=math.exp(-6.375), t=math.exp(-0.09375), count=270, epsilon=1.0, direction=Direction.ADD)
def test_a_finer_and_longer_contour_gives_the_same_mean(gamma, t, count, epsilon, direction):
    """Where there is a contour at all: half the step, twice as far, and elsewhere on the real axis."""
    law, function = law_of(gamma, ((float(count), t),)), ConvexFunction(direction, epsilon)
    built = build_contour(law, direction, epsilon)
    found = None if built is None else built.mean(function)
    assume(found is not None and math.exp(found.log_upper) > 1e-200)
    assume(found.log_upper - found.log_lower < 1e-7)  # not at the limit of convergence, 2e-7
    z = 0.99 * built.shift + 1j * built.step / 2 * np.arange(4 * built.z.size)
    exponent = law.complex_log_moment(1.0 + z if direction is Direction.ADD else -z)
    assume(exponent is not None)
    finer = dataclasses.replace(built, z=z, step=built.step / 2, exponent=exponent).mean(function)
    assert finer is not None
    assert math.exp(finer.log_lower) <= math.exp(found.log_upper)
    assert math.exp(found.log_lower) <= math.exp(finer.log_upper)


@pytest.mark.parametrize("t", [1e-3, 1.0, 1700.0])
@pytest.mark.parametrize("gamma", [1e-6, 2.6e-3])
def test_losses_below_epsilon_have_no_contour(gamma, t):
    """The loss of removing a client is at most -3 log(1 - gamma) < epsilon: the integrand has no minimum."""
    law = merged_law([Coordinates(3.0, gamma, t, is_largest=True)])
    assert -law.least_loss < 4.1
    assert build_contour(law, Direction.REMOVE, 4.1) is None
