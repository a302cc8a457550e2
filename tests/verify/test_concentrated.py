"""Means of convex functions at the worst-case vector, and the exponents for which they are bounds."""

import math

import mpmath
import pytest

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.verify.concentrated import ConvexFunction, is_admissible, mean_at_worst_case, single_delta
from csgm_cli.verify.contour import contour_mean
from csgm_cli.verify.matched import matched_delta
from csgm_cli.verify.plain_grid import plain_mean
from csgm_cli.verify.renyi import gaussian_delta

HOCKEY_STICKS = [ConvexFunction(direction, 0.3) for direction in ("add", "remove")]
FUNCTIONS = [
    ConvexFunction("add", 0.3, 0, 1.5),
    ConvexFunction("add", 0.3, 1, 0.7),
    ConvexFunction("add", 0.3, 0.4, 2.0),
    ConvexFunction("add", 0.3, 6.5),
    ConvexFunction("add", 0.3, 6.5, 1.0),
    ConvexFunction("remove", 0.3, 12.5),
]


def relative(value, expected):
    """Relative difference."""
    return float(abs(mpmath.mpf(value) / mpmath.mpf(expected) - 1))


def kappa_star(row):
    """The worst-case coordinates of a row of profile.json."""
    with mpmath.workdps(40):
        t, k, rounds = mpmath.mpf(row["sigma_over_dinf"]) ** -2, row["k"], row["rounds"]
        rest = [(rounds, row["gamma"], t * (k - int(k)))] if k > int(k) else []
        return [(rounds * int(k), row["gamma"], t), *rest]


def phi(function, u):
    """The convex function itself, by quadrature of its second derivative."""
    scale, log_knee = function.shape()
    knee, grown = mpmath.exp(log_knee), mpmath.exp(function.epsilon)
    curve = lambda w: scale * (w / knee) ** -function.exponent / w
    if function.direction == "add":
        return mpmath.quad(lambda w: (u - w) * curve(w), [knee, u]) if u > knee else mpmath.mpf(0)
    excess = mpmath.quad(lambda w: (u - w) * curve(w), [knee, u]) if u > knee else 0
    return 1 - grown * u + excess


# ---------------------------------------------------------------- means


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_profiles_give_the_printed_values(reference, direction):
    """Every row of profile.json is met to the digits that are printed."""
    for row in reference["profile"]:
        found = mean_at_worst_case(kappa_star(row), 0, ConvexFunction(direction, row["epsilon"]), 12)
        assert relative(found, row[f"delta_{direction}"]) < 1e-9, row


@pytest.mark.parametrize("function", HOCKEY_STICKS)
def test_contour_of_a_gaussian_is_its_profile(function):
    """A Gaussian release, as squared mu or as a coordinate that is always sent, has the closed form."""
    for coordinates, mu_squared in (([], 0.49), ([(1, 1, 0.49)], 0), ([(2, 1, 0.2)], 0.09)):
        found = contour_mean(coordinates, mu_squared, function.direction, function.kernel(), 15)
        assert relative(found, gaussian_delta(mpmath.sqrt(mpmath.mpf(0.49)), 0.3)) < 1e-14
    assert relative(mean_at_worst_case([], 0.49, function), gaussian_delta(0.7, 0.3)) < 1e-14


@pytest.mark.parametrize(("gamma", "t", "epsilon"), [(0.3, 1.0, 0.25), (0.9, 0.04, 0.7), (0.01, 2.0, 0.005)])
@pytest.mark.parametrize("sign", [1, -1])
def test_single_coordinate_is_a_plain_integral(gamma, t, epsilon, sign):
    """The closed form of one coordinate in one round is the hockey-stick integral, down to small deltas."""
    with mpmath.workdps(30):
        s, grown = mpmath.sqrt(t), mpmath.exp(epsilon)

        def excess(x):
            y = 1 - gamma + gamma * mpmath.exp(x * s - mpmath.mpf(t) / 2)
            return (y - grown if sign > 0 else 1 - grown * y) * mpmath.npdf(x)

        kink = (mpmath.log((grown**sign - 1 + gamma) / mpmath.mpf(gamma)) + mpmath.mpf(t) / 2) / s
        exact = sign * mpmath.quad(excess, [kink + sign * j for j in range(25)])
    found = single_delta(gamma, t, epsilon, "add" if sign > 0 else "remove", 20)
    assert relative(found, exact) < 1e-12


def test_remove_is_zero_beyond_the_largest_loss():
    """No output makes "absent" more likely than 1/(1-gamma) per mask bit."""
    assert mean_at_worst_case([(1, 0.3, 1.0)], 0, ConvexFunction("remove", 0.4)) == 0
    assert mean_at_worst_case([(4, 0.3, 1.0)], 0, ConvexFunction("remove", 1.5)) == 0
    assert mean_at_worst_case([(60, 0.3, 1.0)], 0, ConvexFunction("remove", 10), 8) > 0


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_dominate_the_hockey_stick_and_touch_it(function):
    """Phi is at least the hockey-stick everywhere and meets it where the docstring says."""
    grown = mpmath.exp(function.epsilon)
    stick = lambda u: max(0, u - grown) if function.direction == "add" else max(0, 1 - grown * u)
    for u in map(mpmath.mpf, (0.05, 0.5, 0.9, 1.1, 1.5, 2.5, 7)):
        assert phi(function, u) >= stick(u) - 1e-12
    _, log_knee = function.shape()
    if math.isfinite(function.log_ratio):
        at = mpmath.exp(log_knee + function.log_ratio)
        assert abs(phi(function, at) - stick(at)) < 1e-12


@pytest.mark.parametrize("function", [FUNCTIONS[0], FUNCTIONS[4], FUNCTIONS[5]])
def test_contour_is_the_mean_of_the_function(function):
    """Integrating phi over the law of three always-sent coordinates gives the contour's value."""
    with mpmath.workdps(20):
        s = mpmath.mpf("0.6")
        law = lambda x: phi(function, mpmath.exp(x * s - s * s / 2)) * mpmath.npdf(x)
        _, log_knee = function.shape()
        kink = (log_knee + s * s / 2) / s
        exact = mpmath.quad(law, [kink + 2 * j for j in range(6)], method="gauss-legendre", maxdegree=4)
        if function.direction == "remove":
            exact += mpmath.quad(
                law, [kink - 2 * j for j in range(5, -1, -1)], method="gauss-legendre", maxdegree=4
            )
    found = mean_at_worst_case([(3, 1, s * s / 3)], 0, function, 15)
    assert relative(found, exact) < 1e-8


def test_bounds_close_in_on_the_profile():
    """With growing exponents the means fall towards the hockey-stick's, never below it."""
    law = [(400, 0.02, 0.5)]
    for direction in ("add", "remove"):
        exact = mean_at_worst_case(law, 0, ConvexFunction(direction, 1.0), 12)
        found = [mean_at_worst_case(law, 0, ConvexFunction(direction, 1.0, b), 12) for b in (30, 300, 3000)]
        assert found[0] > found[1] > found[2] > exact
        assert relative(found[2], exact) < 0.02


def test_more_digits_confirm_the_digits_of_fewer():
    """The error is what was asked for."""
    for function in (HOCKEY_STICKS[0], FUNCTIONS[3]):
        few, many = (mean_at_worst_case([(500, 0.05, 0.1)], 0.02, function, digits) for digits in (8, 20))
        assert relative(few, many) < 1e-8


def test_few_mask_bits_do_not_converge():
    """Where the integrand hardly decays there is no value."""
    with pytest.raises(NoAnswerError) as caught:
        mean_at_worst_case([(3, 0.01, 1.0)], 0, ConvexFunction("add", 1.0))
    assert caught.value.slug == "oracle-not-converged"


@pytest.mark.parametrize(
    "arguments",
    [("add", -1), ("add", 1, -0.5, 1), ("add", 1, 1), ("add", 1, 5, 0), ("remove", 1, 1)],
)
def test_parameters_without_a_function_are_refused(arguments):
    """An infinite ratio and the remove direction need an exponent above 1."""
    with pytest.raises(UsageError):
        ConvexFunction(*arguments)


# ---------------------------------------------------------------- the plain grid


@pytest.mark.parametrize("function", [*HOCKEY_STICKS, *FUNCTIONS])
@pytest.mark.parametrize(
    ("coordinates", "mu_squared"),
    [([(2000, 0.02, 0.1), (20, 0.02, 0.03)], 0), ([(60, 0.1, 0.5)], 0.04), ([(10**7, 0.01, 1e-5)], 0)],
)
def test_grid_agrees_with_the_contour(coordinates, mu_squared, function):
    """Two methods that share no step agree to 1e-4."""
    exact = mean_at_worst_case(coordinates, mu_squared, function, 8)
    mean, step = plain_mean(coordinates, mu_squared, function)
    assert relative(mean, exact) < 1e-4
    assert 0 < step < 0.1


@pytest.mark.parametrize("function", HOCKEY_STICKS)
def test_grid_of_a_single_coordinate_is_its_closed_form(function):
    """One coordinate in one round, where no contour converges."""
    mean, _ = plain_mean([(1, 0.4, 2.0)], 0, function)
    assert relative(mean, single_delta(0.4, 2.0, 0.3, function.direction)) < 1e-4


def test_grid_reaches_small_deltas():
    """The tilt keeps the relative accuracy of a Gaussian's far tail."""
    for direction in ("add", "remove"):
        mean, _ = plain_mean([(4, 1, 0.01)], 0.05, ConvexFunction(direction, 3.0))
        assert relative(mean, gaussian_delta(0.3, 3.0)) < 1e-4


def test_grids_that_do_not_agree_are_no_answer():
    """Counts that floating point cannot raise a transform to raise instead of returning zero."""
    with pytest.raises(NoAnswerError) as caught:
        plain_mean([(10**21, 1e-9, 1e-10)], 0, ConvexFunction("add", 1e-3, 100, 0.1))
    assert caught.value.slug == "oracle-not-converged"


def test_grid_agrees_with_dp_accounting():
    """A few rounds of DP-SGD, which are as many mask bits."""
    from dp_accounting.pld import privacy_loss_distribution

    pld = privacy_loss_distribution.from_gaussian_mechanism(
        1.0, sampling_prob=0.01, value_discretization_interval=1e-4, use_connect_dots=True
    ).self_compose(100)
    both = [plain_mean([(100, 0.01, 1.0)], 0, ConvexFunction(side, 0.4))[0] for side in ("add", "remove")]
    assert relative(max(both), pld.get_delta_for_epsilon(0.4)) < 1e-3


# ---------------------------------------------------------------- admissible exponents


def test_largest_exponents_are_the_printed_ones(reference):
    """Just below the printed exponent is admissible, just above is not."""
    for row in reference["exponent"]["rows"]:
        t = row["s"] ** 2
        assert is_admissible(row["exponent"] * 0.9999, row["gamma"], t), row
        assert not is_admissible(row["exponent"] * 1.0001, row["gamma"], t), row


def test_exponents_by_the_closed_form_are_admissible():
    """B = ((1-g)/(2g)) e^(-3t/2) is proven where it is at least 1, and B = 0 everywhere."""
    for gamma, t in ((0.01, 0.5), (0.001, 1.5), (0.1, 0.3)):
        assert is_admissible((1 - gamma) / (2 * gamma) * math.exp(-1.5 * t), gamma, t)
    assert is_admissible(0, 0.5, 100.0)


def test_exponents_without_a_proof_are_not_admissible():
    """Beyond t = 8.65 the proof needs odds above 6.31e-5; a coordinate always sent admits no exponent."""
    assert not is_admissible(0.1, 6e-5, 8.7)
    assert is_admissible(0.1, 6e-5, 8.6)
    assert is_admissible(0.1, 7e-5, 8.7)
    assert not is_admissible(0.1, 1, 1.0)


def test_admissible_exponents_bound_a_spread_vector():
    """The mean at kappa* is at least that of two smaller coordinates with the same total."""
    gamma, t, rounds = 0.1, 0.25, 60
    function = ConvexFunction("add", 0.5, 3.63, 2.0)
    assert is_admissible(3.63, gamma, t)
    worst = mean_at_worst_case([(rounds, gamma, t)], 0, function, 12)
    for share in (0.5, 0.7, 0.95):
        spread = [(rounds, gamma, share * t), (rounds, gamma, (1 - share) * t)]
        assert mean_at_worst_case(spread, 0, function, 12) < worst


def test_matched_bound_is_above_the_profile():
    """The Gaussian-matched conversion at the best of a few orders stays above the profile at kappa*."""
    law = [(20_000, 0.05, 0.005)]
    for direction in ("add", "remove"):
        exact = mean_at_worst_case(law, 0, ConvexFunction(direction, 2.0), 12)
        found = min(matched_delta(law, 0, 2.0, order, direction, 15) for order in (10, 20, 40, 80.5))
        assert exact < found < 1.2 * exact
