"""The certified grid against closed forms, quadrature, a second library and the contour."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from csgm_cli.model.certificate import Direction
from csgm_cli.profile import factors
from csgm_cli.profile.contour import build_contour
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.profile.grid import grid_law, grid_step
from csgm_cli.profile.ratios import CoordinateRatio
from csgm_cli.renyi.law import Coordinates, Law, merged_law

STEP = 2.0**-11


def call(gamma, t, threshold):
    """E(Y - threshold)_+ of one factor, in closed form, for an array of thresholds."""
    threshold, s = np.maximum(threshold, 1e-300), math.sqrt(t)
    sent = np.maximum((threshold - 1 + gamma) / gamma, 1e-300)
    x = (np.log(sent) + t / 2) / s
    inside = gamma * ndtr(s - x) + (1 - gamma - threshold) * ndtr(-x)
    return np.where(threshold <= 1 - gamma, 1 - threshold, np.maximum(inside, 0.0))


def put(gamma, t, threshold):
    """E(threshold - Y)_+ of one factor."""
    threshold, s = np.maximum(threshold, 1e-300), math.sqrt(t)
    sent = np.maximum((threshold - 1 + gamma) / gamma, 1e-300)
    x = (np.log(sent) + t / 2) / s
    return np.where(threshold <= 1 - gamma, 0.0, (threshold - 1 + gamma) * ndtr(x) - gamma * ndtr(x - s))


def of_two(first, second, direction, epsilon):
    """The exact delta of two factors (gamma, t): the closed form of one under quadrature of the other."""
    (gamma, t), s = first, math.sqrt(first[1])
    x, width = np.linspace(-12.0, 12.0 + 2 * s, 200_001, retstep=True)
    y = 1 - gamma + gamma * np.exp(x * s - t / 2)
    weights = np.exp(-x * x / 2) * width / math.sqrt(2 * math.pi)
    if direction is Direction.ADD:
        return float((weights * y) @ call(*second, math.exp(epsilon) / y))
    return float((weights * y) @ put(*second, math.exp(-epsilon) / y)) * math.exp(epsilon)


def upper(law, function):
    """The upper side's mean at the step that is used."""
    found = grid_law(
        law,
        function.direction,
        function.epsilon,
        grid_step(law, function.epsilon, function.direction),
        function.pole,
    )
    return found.upper_mean(function)


def lower(law, epsilon):
    """The lower side's hockey-stick."""
    return grid_law(law, Direction.ADD, epsilon, grid_step(law, epsilon), upper=False).lower_hockey_stick(
        epsilon
    )


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("gamma", "t", "epsilon"),
    [
        (0.01, 1.0, 0.5),
        (0.01, 9.0, 2.0),
        (0.3, 4.0, 0.2),
        (0.9, 0.1, 0.3),
        (0.999, 2.0, 3.0),
    ],
)
def test_one_coordinate_is_enclosed_closely(gamma, t, epsilon):
    """The closed form of one coordinate in one round, in both directions."""
    law = Law((Coordinates(1.0, gamma, t),))
    exact = float(call(gamma, t, math.exp(epsilon)))
    assert exact * (1 - 1e-9) <= upper(law, ConvexFunction(Direction.ADD, epsilon)) <= exact * (1 + 1e-3)
    assert exact * (1 - 2e-3) <= lower(law, epsilon) <= exact * (1 + 1e-9)
    removed = float(put(gamma, t, math.exp(-epsilon))) * math.exp(epsilon)
    if removed > 0.0:
        found = upper(law, ConvexFunction(Direction.REMOVE, epsilon))
        assert removed * (1 - 1e-9) <= found <= removed * (1 + 1e-3)


@pytest.mark.parametrize(
    ("first", "second", "epsilon"),
    [
        ((0.1, 1.0), (0.1, 1.0), 0.5),
        ((0.02, 4.0), (0.02, 0.5), 1.0),
        ((0.6, 0.3), (0.2, 2.0), 0.4),
        ((0.01, 1.0), (1.0, 0.25), 1.0),
        ((0.3, 9.0), (1.0, 1.0), 3.0),
        ((0.9, 2.0), (1e-3, 6.0), 0.8),
    ],
)
def test_two_factors_are_enclosed_closely(first, second, epsilon):
    """Alike, of two sizes, of two gammas, and a Gaussian release (gamma 1) beside a coordinate."""
    law = merged_law(Coordinates(1.0, gamma, t) for gamma, t in (first, second))
    added = of_two(first, second, Direction.ADD, epsilon)
    found = upper(law, ConvexFunction(Direction.ADD, epsilon))
    assert added * (1 - 1e-7) <= found <= added * (1 + room(added))
    assert added * (1 - 5e-3) <= lower(law, epsilon) <= added * (1 + 1e-7)
    if epsilon + law.least_loss < 0.0:  # else delta is 0 in the remove direction, and no grid is used
        removed = of_two(first, second, Direction.REMOVE, epsilon)
        found = upper(law, ConvexFunction(Direction.REMOVE, epsilon))
        assert removed * (1 - 1e-7) <= found <= removed * (1 + room(removed))


def room(delta):
    """Relative error of an upper bound; at large deltas it includes Chernoff bounds on the mass outside."""
    return 1e-3 if delta < 0.1 else 1e-2


@pytest.mark.parametrize(
    ("gamma", "t", "rounds", "epsilon"),
    [(0.02, 0.64, 30, 0.5), (0.2, 0.05, 100, 1.0), (0.01, 1.0, 1000, 1.0)],
)
def test_dp_sgd_is_enclosed_as_by_dp_accounting(gamma, t, rounds, epsilon):
    """k = 1 is the Poisson-subsampled Gaussian of dp-accounting, whose estimates enclose it as well."""
    law = Law((Coordinates(float(rounds), gamma, t),))
    estimates = [
        privacy_loss_distribution.from_gaussian_mechanism(
            1 / math.sqrt(t),
            sampling_prob=gamma,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=2e-4,
        )
        .self_compose(rounds)
        .get_delta_for_epsilon(epsilon)
        for pessimistic in (False, True)
    ]
    found = upper(law, ConvexFunction(Direction.ADD, epsilon))
    assert estimates[0] <= found <= estimates[1] * (1 + 1e-3)
    below = lower(law, epsilon)
    assert found * (1 - 5e-3) <= below <= min(found, estimates[1])


@pytest.mark.parametrize("gamma", [1e-6, 1e-4, 0.01])
@pytest.mark.parametrize("t", [100.0, 900.0])
def test_visible_mask_bits_are_enclosed_closely(gamma, t):
    """Where a single bit is all but seen delta is about the chance that one is sent, 1 - (1 - gamma)^3."""
    law, epsilon = Law((Coordinates(3.0, gamma, t),)), 1.0
    found = upper(law, ConvexFunction(Direction.ADD, epsilon))
    below = lower(law, epsilon)
    sent = -math.expm1(3 * math.log1p(-gamma))
    assert below <= sent * (1 + 1e-12)
    assert sent * (1 - 1e-2) < found <= 3 * gamma * (1 + 1e-4)  # a union bound
    assert below > 0.96 * found


def test_half_visible_mask_bits_are_enclosed_closely():
    """Delta is mostly of losses far above the threshold, and the saddle point is next to 0."""
    exact = float(call(1e-4, 25.0, math.e))
    found = upper(Law((Coordinates(1.0, 1e-4, 25.0),)), ConvexFunction(Direction.ADD, 1.0))
    assert exact <= found <= exact * (1 + 1e-3)


@pytest.mark.parametrize("parts", [((3.0, 0.04), (1.0, 0.01)), ((2.0, 0.4),), ((5.0, 0.1),)])
@pytest.mark.parametrize("direction", Direction)
def test_factors_next_to_gaussian_have_its_profile(parts, direction):
    """gamma = 1 - 1e-13, where contours do not converge for few factors."""
    law = merged_law([Coordinates(count, 1 - 1e-13, t) for count, t in parts])
    mu = math.sqrt(sum(count * t for count, t in parts))
    exact = float(ndtr(mu / 2 - 1 / mu) - math.e * ndtr(-mu / 2 - 1 / mu))
    assert exact * (1 - 1e-9) <= upper(law, ConvexFunction(direction, 1.0)) <= exact * (1 + 1e-3)


# ---------------------------------------------------------------- beside the contour


@settings(max_examples=15)
@given(
    gamma=st.floats(math.log(1e-2), math.log(0.9)).map(math.exp),
    t=st.floats(math.log(0.02), math.log(4.0)).map(math.exp),
    count=st.integers(20, 5000),
    gaussian=st.sampled_from([0.0, 0.3]),
    deviations=st.floats(0.3, 4.5),
    direction=st.sampled_from(list(Direction)),
)
@example(gamma=0.02, t=0.5, count=400, gaussian=0.0, deviations=3.0, direction=Direction.REMOVE)
def test_grid_encloses_the_contour(gamma, t, count, gaussian, deviations, direction):
    """Two methods that share the log-moments' definition only, where both converge."""
    law = Law((Coordinates(float(count), gamma, t),), gaussian)
    epsilon = min(deviations * math.sqrt(law.variance), 30.0)
    function = ConvexFunction(direction, epsilon)
    built = build_contour(law, direction, epsilon)
    exact = None if built is None else built.mean(function)
    assume(exact is not None and 1e-30 < math.exp(exact.log_upper) < 0.5)
    found = grid_law(law, direction, epsilon, grid_step(law, epsilon, direction))
    assume(found is not None)
    above = found.upper_mean(function)
    assert math.exp(exact.log_lower) <= above <= math.exp(exact.log_upper) * (1 + 1e-2)
    if direction is Direction.ADD:
        assert (1 - 5e-3) * math.exp(exact.log_lower) <= lower(law, epsilon) <= math.exp(exact.log_upper)


@pytest.mark.parametrize(
    ("direction", "exponent", "log_ratio"),
    [
        ("add", 0.5, 0.4),
        ("add", 1.0, 1.0),
        ("add", 9.0, 0.2),
        ("add", 9.0, math.inf),
        ("remove", 25.0, math.inf),
    ],
)
def test_means_of_convex_functions_are_above_the_contour(direction, exponent, log_ratio):
    """The class C_B, at most 1e-3 above; the estimate is within 1 %."""
    law = Law((Coordinates(300.0, 0.05, 0.2),))
    function = ConvexFunction(Direction(direction), 1.5, exponent, log_ratio)
    exact = build_contour(law, function.direction, 1.5, function.pole).mean(function)
    found = grid_law(law, function.direction, 1.5, grid_step(law, 1.5, function.direction), function.pole)
    assert math.exp(exact.log_lower) <= found.upper_mean(function) <= math.exp(exact.log_upper) * (1 + 1e-3)
    assert found.estimated_mean(function) == pytest.approx(math.exp(exact.log_upper), rel=1e-2)


@pytest.mark.parametrize("direction", Direction)
def test_thresholds_far_from_all_losses_give_no_nan(direction):
    """Weights that undo the tilt may overflow there: the bound is infinite or far above, the lower one 0."""
    law = Law((Coordinates(37.0, 8.7e-6, 0.0018), Coordinates(2627.0, 8.7e-6, 0.022)))
    for epsilon in (0.003, 0.3, 30.0):
        assert not math.isnan(upper(law, ConvexFunction(direction, epsilon)))
        assert 0.0 <= lower(law, epsilon) < 1e-9


def test_functions_without_a_slope_at_infinity_have_no_bound():
    """B = 0: what is above the grid could count for any amount."""
    law = Law((Coordinates(300.0, 0.05, 0.2),))
    assert upper(law, ConvexFunction(Direction.ADD, 1.5, 0.0, 0.3)) == math.inf


# ---------------------------------------------------------------- rounding one factor


@settings(max_examples=60)
@given(
    gamma=st.floats(math.log(1e-6), math.log(0.999)).map(math.exp),
    t=st.floats(math.log(1e-4), math.log(50.0)).map(math.exp),
    step=st.sampled_from([2.0**-6, 2.0**-9, 2.0**-12]),
)
@example(gamma=1e-6, t=400.0, step=2.0**-9)
@example(gamma=0.5, t=1e-6, step=2.0**-9)
def test_rounded_factors_are_larger_and_smaller_in_convex_order(gamma, t, step):
    """(y - w)_+ at all w, which span the convex increasing functions; and the other convex ones above."""
    cut = 3.0
    ratio = CoordinateRatio(Coordinates(1.0, gamma, t))
    upper, lower = factors.upper_factor(ratio, cut, step), factors.lower_factor(ratio, cut, step)
    thresholds = np.exp(np.linspace(math.log1p(-gamma) - 2 * step, cut - 2 * step, 97))
    exact = call(gamma, t, thresholds)
    room = 1e-13
    for factor, sign in ((upper, 1.0), (lower, -1.0)):
        y = np.exp(factor.log_ratio)
        assert (factor.mass >= 0.0).all()
        assert factor.mass.sum() + factor.tail_mass == pytest.approx(1.0, abs=1e-12)
        beyond = factor.tail_mean - thresholds * factor.tail_mass
        rounded = np.maximum(y[None, :] - thresholds[:, None], 0.0) @ factor.mass + beyond
        assert (sign * (rounded - exact) >= -room).all()
        assert factor.mass @ y + factor.tail_mean <= 1.0 + room
    assert upper.mass @ np.exp(upper.log_ratio) + upper.tail_mean == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("gamma", "t"), [(0.1, 1.0), (0.5, 0.1), (0.9, 4.0)])
def test_rounding_errors_are_of_second_order_in_the_step(gamma, t):
    """Halving the step divides the excess of the upper side by four."""
    ratio = CoordinateRatio(Coordinates(1.0, gamma, t))
    thresholds = np.exp(np.linspace(-0.3 * gamma, 1.0, 50))
    exact, excesses = call(gamma, t, thresholds), []
    for step in (2.0**-11, 2.0**-12):
        factor = factors.upper_factor(ratio, 4.0, step)
        calls = np.maximum(np.exp(factor.log_ratio)[None, :] - thresholds[:, None], 0.0)
        excesses.append(
            (calls @ factor.mass + factor.tail_mean - thresholds * factor.tail_mass - exact).mean()
        )
    assert excesses[1] == pytest.approx(excesses[0] / 4, rel=0.3)


@pytest.mark.parametrize("t", [4.0, 900.0, 1e4])
@pytest.mark.parametrize("gamma", [1e-6, 0.3, 0.999])
def test_ratios_to_the_opposite_vector_give_no_nan(gamma, t):
    """Also where they are so small that float64 does not hold them."""
    ratio = CoordinateRatio(Coordinates(1.0, gamma, t), opposite=True)
    for rounded in (factors.upper_factor, factors.lower_factor):
        factor = rounded(ratio, 3.0, 2.0**-8)
        assert (factor.mass >= 0.0).all()
        assert factor.mass.sum() + factor.tail_mass <= 1.0 + 1e-12
        assert math.isfinite(factor.log_moment(0.5))


# ---------------------------------------------------------------- composition


@pytest.mark.parametrize("direction", Direction)
def test_noise_bounds_the_error_of_the_transform(direction):
    """Each entry of the tilted law against a direct convolution, with what lies outside wrapped around."""
    law, epsilon = Law((Coordinates(4.0, 0.1, 0.5), Coordinates(2.0, 0.1, 0.2))), 0.4
    found = grid_law(law, direction, epsilon, STEP)
    direct, first = np.ones(1), 0
    for factor in found.factors:
        weights = np.exp(found.tilt * factor.log_ratio + factor.log_mass - factor.log_moment(found.tilt))
        for _ in range(int(factor.count)):
            direct, first = np.convolve(direct, weights), first + factor.first
    n = found.tilted.size
    start = round(found.log_ratio[0] / STEP)
    wrapped = np.bincount((first - start + np.arange(direct.size)) % n, direct, minlength=n)
    assert 0.0 < found.noise < 1e-10
    assert np.abs(found.tilted - wrapped).max() <= found.noise
    outside = np.abs(np.arange(direct.size) + first - start - n / 2) > n / 2
    assert direct[outside].sum() < math.exp(-20.0) * 2
    assert found.log_mass == pytest.approx(law.log_moment(found.tilt).value, rel=1e-3)


def test_steps_move_smoothly_and_fall_with_the_number_of_coordinates():
    """So that delta does not jump along a path of sigma or epsilon."""
    law = lambda count, t=0.5: Law((Coordinates(float(count), 0.1, t),))
    steps = [grid_step(law(count), 1.0) for count in (1, 30, 1e3, 1e5, 1e9)]
    assert steps == sorted(steps, reverse=True)
    for t in (1e-4, 1e-2):
        step = grid_step(law(30, t), 1.0)
        assert grid_step(law(30, t * (1 + 1e-6)), 1.0 + 1e-6) == pytest.approx(step, rel=1e-4)


def test_steps_fit_small_losses():
    """A sum of deviation 0.016 is rounded finely enough: two thirds of a percent of delta, not 16."""
    law, function = Law((Coordinates(6.0, 0.03, 0.06),)), ConvexFunction(Direction.ADD, 0.08)
    found = grid_law(law, Direction.ADD, 0.08, grid_step(law, 0.08)).upper_mean(function)
    finer = grid_law(law, Direction.ADD, 0.08, grid_step(law, 0.08) / 8).upper_mean(function)
    assert finer <= found <= finer * 1.007


def test_laws_that_take_too_many_points_are_refused():
    """A Gaussian of mu 1000 spans 500,000 units of log u."""
    assert grid_law(Law((), 1e6), Direction.ADD, 1.0, STEP) is None
    assert grid_law(Law((Coordinates(1e12, 0.5, 1.0),)), Direction.ADD, 50.0, 2.0**-15) is None


@pytest.mark.parametrize("epsilon", [20.0, 34.0, 36.0, 40.0, 60.0])
def test_a_gaussian_part_far_below_likelihood_ratio_1_is_kept(epsilon):
    """One coordinate beside it hardly matters: delta is close to the Gaussian's, in closed form."""
    law = Law((Coordinates(1.0, 1e-3, 625.0),), 60.0)
    found = upper(law, ConvexFunction(Direction.REMOVE, epsilon))
    s = math.sqrt(60.0)
    exact = ndtr(s / 2 - epsilon / s) - math.exp(epsilon) * ndtr(-s / 2 - epsilon / s)
    assert (1 - 1e-3) * exact <= found <= exact * 1.001


@pytest.mark.parametrize("t", [1.0, 60.0, 300.0])
def test_cells_of_a_gaussian_keep_their_digits(t):
    """P(Y in cell) and E[Y; Y in cell] beside mpmath, far below and above Y = 1."""
    edges = np.array([-t / 2 - 6 * math.sqrt(t), -t / 2, 0.0, t / 2, t / 2 + 6 * math.sqrt(t)])
    mass, mean, beyond, above = CoordinateRatio(Coordinates(1.0, 1.0, t)).cells(edges)
    s = mpmath.sqrt(t)
    z = [(mpmath.mpf(edge) + mpmath.mpf(t) / 2) / s for edge in edges]
    for i, (low, high) in enumerate(itertools.pairwise(z)):
        assert mass[i] == pytest.approx(float(mpmath.ncdf(high) - mpmath.ncdf(low)), rel=1e-11)
        assert mean[i] == pytest.approx(float(mpmath.ncdf(high - s) - mpmath.ncdf(low - s)), rel=1e-11)
    assert beyond == pytest.approx(float(mpmath.ncdf(-z[-1])), rel=1e-11)
    assert above == pytest.approx(float(mpmath.ncdf(s - z[-1])), rel=1e-11)
