"""The high-precision oracle against printed values, theorems and second methods."""

import math

import mpmath
import pytest

from csgm_cli.core import oracle
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.model.mechanism import Adjacency, Bound, Geometry, Mechanism, MechanismName

PRINTED_DIGITS = 1e-15  # the reference values are printed with 16 to 17 digits
DOUBLE = 1e-13  # where the reference inputs are themselves doubles that solved an equation


def relative(value, expected):
    """Relative difference, computed with more digits than any of the two has."""
    with mpmath.workdps(100):
        return float(abs(mpmath.mpf(value) / mpmath.mpf(expected) - 1))


def l2_csgm(row, adjacency=Adjacency.ADD_REMOVE):
    """The L2-CSGM of a reference row that gives k, gamma and rounds."""
    return Mechanism(
        MechanismName.L2_CSGM, row["gamma"], Geometry(math.sqrt(row["k"])), row["rounds"], adjacency
    )


# ---------------------------------------------------------------- log-moment


def test_log_moment_gives_the_printed_values(reference):
    """Each printed log-moment is met in every printed digit."""
    for row in reference["accounting"]["log_moment"]:
        value = oracle.log_moment(row["alpha"], row["gamma"], row["t"])
        assert relative(value, row["K"]) < PRINTED_DIGITS, row


def test_order_two_is_the_hand_worked_closed_form():
    """E[Y^2] = 1 + g^2 (e^t - 1), down to K = 1e-48."""
    for gamma, t in ((0.01, 1e-6), (1e-9, 1e-30), (0.3, 2.5), (0.999, 700.0)):
        with mpmath.workdps(80):
            exact = mpmath.log1p(mpmath.mpf(gamma) ** 2 * mpmath.expm1(t))
        assert relative(oracle.log_moment(2, gamma, t), exact) < 1e-50
        assert relative(oracle.integrated_log_moment(2, gamma, t), exact) < 1e-50


@pytest.mark.parametrize("gamma", [1e-9, 0.004, 0.5, 1 - 1e-12])
@pytest.mark.parametrize("t", [1e-30, 1e-6, 0.01, 1.0, 36.0, 144.0, 1e6])
@pytest.mark.parametrize("order", [2, 3, 17, 300])
def test_sum_and_quadrature_agree(order, gamma, t):
    """Two methods that share no step give the same 50 digits at integer orders."""
    exact = oracle.summed_log_moment(order, gamma, t, 55)
    assert relative(oracle.integrated_log_moment(order, gamma, t), exact) < 1e-50


@pytest.mark.parametrize(
    ("order", "gamma", "t"), [(1.5, 0.01, 1.0), (7.25, 0.2, 0.3), (1.0001, 0.4, 30.0), (30.5, 1e-4, 1.2)]
)
def test_quadrature_agrees_with_the_definition(order, gamma, t):
    """A library quadrature of the plain definition over many short pieces gives 25 digits of it."""
    with mpmath.workdps(40):
        a, g, root = mpmath.mpf(order), mpmath.mpf(gamma), mpmath.sqrt(t)

        def weighted(x):
            return (1 - g + g * mpmath.exp(x * root - root**2 / 2)) ** a * mpmath.npdf(x)

        last = math.ceil(order * float(root)) + 14
        moment = mpmath.quad(weighted, [mpmath.mpf(x) / 2 for x in range(-28, 2 * last)], maxdegree=5)
        assert relative(oracle.log_moment(order, gamma, t), mpmath.log(moment)) < 1e-25


def test_more_digits_confirm_the_digits_of_fewer():
    """At the corners of the domain 50 digits are the first 50 of 70."""
    corners = [
        (1 + 1e-9, 1e-9, 1e-30),
        (1e9, 1e-9, 1e-18),
        (1e9, 0.3, 1e-10),
        (1e8, 0.5, 1e-8),
        (1.3, 1e-9, 225.0),  # the zeros of Y matter most about here
        (1.0001, 0.01, 100.0),
        (7.5, 1e-9, 1e6),
        (2000.5, 0.02, 25.0),
    ]
    for corner in corners:
        assert relative(oracle.log_moment(*corner), oracle.log_moment(*corner, digits=70)) < 1e-50, corner


@pytest.mark.parametrize(
    ("order", "gamma", "t"),
    [(1e9, 1e-9, 1e-18), (1e9, 0.7, 1e-12), (123456.789, 1e-3, 1e-6), (1.5, 0.2, 9.0)],
)
def test_log_moment_lies_between_its_proven_bounds(order, gamma, t):
    """Convexity in t gives a(a-1) g^2 t/2 <= K, and forgetting the mask K <= a(a-1) t/2."""
    gaussian = order * (order - 1) * t / 2
    value = oracle.log_moment(order, gamma, t)
    assert gaussian * gamma**2 * (1 - 1e-12) <= value <= gaussian * (1 + 1e-12)


def test_far_apart_bumps_leave_the_sent_coordinate_alone():
    """At sqrt(t) = 1000 only g^a exp(a(a-1) t/2) is left of the moment, to a thousand digits."""
    order, gamma, t = 2.5, 0.001, 1e6
    with mpmath.workdps(80):
        expected = order * mpmath.log(gamma) + mpmath.mpf(order) * (order - 1) * t / 2
    assert relative(oracle.log_moment(order, gamma, t), expected) < 1e-50


def test_both_bumps_count_where_the_moment_is_their_sum():
    """Just above order 1 the moment at sqrt(t) = 1000 is (1-g)^a + g^a exp(a(a-1) t/2)."""
    order, gamma, t = 1 + 2.0**-16, 1e-4, 1e6
    with mpmath.workdps(80):
        a, g = mpmath.mpf(order), mpmath.mpf(gamma)
        expected = mpmath.log((1 - g) ** a + g**a * mpmath.exp(a * (a - 1) * t / 2))
    assert relative(oracle.log_moment(order, gamma, t), expected) < 1e-50


def test_gamma_one_is_the_gaussian_and_the_limit():
    """K = a(a-1) t/2 at gamma = 1, and gamma -> 1 tends to it."""
    assert oracle.log_moment(3.5, 1.0, 0.25) == 3.5 * 2.5 * 0.25 / 2
    near = oracle.log_moment(3.5, 1 - 2.0**-52, 0.25)
    assert 0 < 3.5 * 2.5 * 0.25 / 2 - near < 1e-14


def test_no_signal_gives_zero():
    """At t = 0 the two worlds coincide."""
    assert oracle.log_moment(7.5, 0.1, 0.0) == 0


def test_the_sum_as_the_paper_prints_it_does_not_vanish_without_signal():
    """From l = 1 beside its prefix the sum counts l = 1 twice: a finite loss for infinite noise."""

    def printed(order, gamma, t):
        head = (1 - gamma) ** (order - 1) * (gamma * (order - 1) + 1)
        terms = (
            math.comb(order, level)
            * (1 - gamma) ** (order - level)
            * gamma**level
            * math.exp(level * (level - 1) * t / 2)
            for level in range(1, order + 1)
        )
        return math.log(head + math.fsum(terms))

    assert printed(8, 0.01, 1e-20) > 0.07
    assert oracle.log_moment(8, 0.01, 1e-20) < 1e-22


@pytest.mark.parametrize(
    "arguments", [(1.0, 0.1, 1.0), (2, 0.0, 1.0), (2, 1.5, 1.0), (2, 0.1, -1.0), (math.nan, 0.1, 1.0)]
)
def test_log_moment_refuses_what_it_is_not_defined_for(arguments):
    """Orders up to 1, gamma outside (0, 1], negative t and NaN are usage errors."""
    with pytest.raises(UsageError):
        oracle.log_moment(*arguments)


def test_a_quadrature_that_does_not_converge_is_no_answer(monkeypatch):
    """Running out of nodes raises instead of returning the digits so far."""
    monkeypatch.setattr(oracle, "_MOST_NODES", 1000)
    with pytest.raises(NoAnswerError) as caught:
        oracle.log_moment(1.0001, 0.01, 100.0)
    assert caught.value.slug == "oracle-not-converged"


def test_the_global_precision_is_left_alone():
    """No call changes the precision that its caller works with, or depends on it."""
    expected = oracle.log_moment(2.5, 0.01, 0.5)
    with mpmath.workdps(7):
        assert oracle.log_moment(2.5, 0.01, 0.5) == expected
        assert oracle.gaussian_epsilon(1.0, 1e-5) == oracle.gaussian_epsilon(mpmath.mpf(1), 1e-5)
        assert mpmath.mp.dps == 7


# ---------------------------------------------------------------- mechanisms


@pytest.mark.parametrize("bound", [Bound.PAPER, Bound.RDP])
def test_renyi_rows_meet_their_targets(reference, bound):
    """At the printed noise and order the target epsilon and delta come back."""
    for row in reference["accounting"][bound.value]:
        mechanism, sigma, order = l2_csgm(row), row["noise_multiplier"], row["order"]
        found = oracle.epsilon(mechanism, sigma, row["delta"], order, bound)
        assert relative(found, row["epsilon"]) < DOUBLE, row
        assert relative(oracle.delta(mechanism, sigma, found, order, bound), row["delta"]) < 1e-45, row


def test_figure_one_of_the_paper(reference):
    """The curve of the paper's Figure 1 is the paper bound at norm_ratio^2 coordinates."""
    for row in reference["accounting"]["figure1"]:
        assert row["accountant"] == "paper"
        mechanism = Mechanism(MechanismName.L2_CSGM, row["gamma"], Geometry(row["norm_ratio"]))
        found = oracle.epsilon(
            mechanism, row["effective"] * row["gamma"], row["delta"], row["order"], Bound.PAPER
        )
        assert relative(found, row["epsilon"]) < DOUBLE, row


def test_replace_one_rows_meet_their_targets(reference):
    """The least epsilon over orders is the target; the printed rows give no order."""
    for row in reference["accounting"]["replace_one"]:
        mechanism = l2_csgm(row, Adjacency.REPLACE_ONE)
        sigma = row["effective"] * row["gamma"]

        def cost(order, mechanism=mechanism, sigma=sigma, delta=row["delta"]):
            return oracle.epsilon(mechanism, sigma, delta, order, Bound.RDP, digits=20)

        low, high = 2.0, 40.0
        while high - low > 1e-6:  # at a minimum this leaves 1e-12 of epsilon
            left, right = low + 0.4 * (high - low), low + 0.6 * (high - low)
            low, high = (low, right) if cost(left) < cost(right) else (left, high)
        assert relative(cost(low), row["epsilon"]) < 1e-11, row


@pytest.mark.parametrize(("norm_ratio", "gamma", "close"), [(3.0, 1.0, 1e-14), (1e6, 0.01, 1e-6)])
def test_replace_one_is_four_times_add_remove_for_gaussian_curves(norm_ratio, gamma, close):
    """A curve linear in the order (gamma = 1, or k -> infinity) costs 2^2 under replace-one, no more."""
    one, other = (Mechanism("l2-csgm", gamma, Geometry(norm_ratio), 4, adjacency) for adjacency in Adjacency)
    ratio = oracle.renyi_divergence(other, 0.5, 6.0, Bound.RDP) / oracle.renyi_divergence(
        one, 0.5, 6.0, Bound.RDP
    )
    assert relative(ratio, 4) < close


def test_rdp_splits_k_into_whole_coordinates_and_a_rest():
    """For k = 10.3 the bound is 10 K(t) + K(0.3 t), below the paper's 10.3 K(t)."""
    mechanism = Mechanism("l2-csgm", 0.1, Geometry(math.sqrt(10.3)), 3)
    with mpmath.workdps(70):
        k = mpmath.mpf(math.sqrt(10.3)) ** 2
        t = 1 / (k * mpmath.mpf(0.25) ** 2)
        whole, rest = (oracle.log_moment(2.5, 0.1, time, 60) for time in (t, (k - 10) * t))
        split, real = 3 * (10 * whole + rest) / 1.5, 3 * k * whole / 1.5
    assert relative(oracle.renyi_divergence(mechanism, 0.25, 2.5, Bound.RDP), split) < 1e-50
    assert relative(oracle.renyi_divergence(mechanism, 0.25, 2.5, Bound.PAPER), real) < 1e-50
    assert split < real


def test_linf_csgm_charges_every_dimension():
    """L-inf-CSGM costs d coordinates at Delta_inf: d/k of the L2 form where k is whole."""
    few, all_of_them = (Mechanism(name, 0.05, Geometry(4.0, dim=100)) for name in ("l2-csgm", "linf-csgm"))
    ratio = oracle.renyi_divergence(all_of_them, 0.7, 3.5, Bound.RDP) / oracle.renyi_divergence(
        few, 0.7, 3.5, Bound.RDP
    )
    assert relative(ratio, 6.25) < 1e-14


def test_dim_caps_k():
    """One coordinate cannot hold more than one clipped coordinate, whatever the rounding of the ratio."""
    capped = Mechanism("l2-csgm", 0.05, Geometry(1 + 1e-10, dim=1))
    with mpmath.workdps(60):
        t = (1 / (mpmath.mpf(1 + 1e-10) * mpmath.mpf(0.7))) ** 2
        expected = oracle.log_moment(3.5, 0.05, t) / mpmath.mpf(2.5)
    assert relative(oracle.renyi_divergence(capped, 0.7, 3.5, Bound.RDP), expected) < 1e-45


def test_scaling_the_norms_scales_sigma():
    """Only the ratios of sigma and the clip norms matter (powers of two scale floats exactly)."""
    small, large = (Mechanism("l2-csgm", 0.05, Geometry(7.0, l2)) for l2 in (1.0, 1024.0))
    assert (
        relative(
            oracle.epsilon(large, 204.8, 1e-6, 5.5, Bound.RDP),
            oracle.epsilon(small, 0.2, 1e-6, 5.5, Bound.RDP),
        )
        < 1e-45
    )


def test_gaussian_renyi_curve():
    """The Gaussian mechanism has the curve a D^2 T/(2 sigma^2), and so has any mechanism at gamma = 1."""
    expected = 3.5 * 2.0**2 * 5 / (2 * 8.0**2)
    for name in MechanismName:
        mechanism = Mechanism(name, 1.0, Geometry(2.0, 2.0, dim=4), 5)
        assert relative(oracle.renyi_divergence(mechanism, 8.0, 3.5, Bound.RDP), expected) < 1e-50


def test_epsilon_is_never_negative_and_delta_never_above_one():
    """Where the conversion proves nothing the answers are clipped to what is always true."""
    mechanism = Mechanism("l2-csgm", 0.01, Geometry(10.0))
    assert oracle.epsilon(mechanism, 100.0, 0.5, 2.0, Bound.RDP) == 0
    assert oracle.delta(mechanism, 1e-3, 0.0, 50.0, Bound.RDP) == 1


@pytest.mark.parametrize(
    ("order", "bound", "gamma"),
    [
        (None, Bound.RDP, 0.1),
        (1.0, Bound.PAPER, 0.1),
        (2.0, Bound.MASK_REVEALED, 0.1),
        (None, Bound.EXACT, 0.1),
    ],
)
def test_orders_and_bounds_that_do_not_fit_are_refused(order, bound, gamma):
    """A Renyi bound needs an order above 1, a profile none, and the exact one gamma = 1."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(10.0))
    with pytest.raises(UsageError):
        oracle.epsilon(mechanism, 1.0, 1e-6, order, bound)
    with pytest.raises(UsageError):
        oracle.delta(mechanism, 1.0, 1.0, order, bound)


# ---------------------------------------------------------------- Gaussian profile


def test_gaussian_rows_meet_their_targets(reference):
    """The printed noise multipliers of the exact Gaussian mechanism give epsilon and delta back."""
    for row in reference["accounting"]["gaussian"]:
        mechanism = Mechanism(MechanismName.GAUSSIAN, rounds=row["rounds"])
        sigma = mpmath.mpf(row["noise_multiplier"])
        found = oracle.delta(mechanism, sigma, row["epsilon"], None, Bound.EXACT)
        assert relative(found, row["delta"]) < 1e-14, row
        found = oracle.epsilon(mechanism, sigma, row["delta"], None, Bound.EXACT)
        assert relative(found, row["epsilon"]) < PRINTED_DIGITS, row


def test_gaussian_delta_is_the_hockey_stick_integral():
    """Integrating max(0, p - e^eps q) of the two densities gives 30 digits of delta."""
    for mu, epsilon in ((0.3, 0.7), (1.0, 3.0), (5.0, 0.0)):
        with mpmath.workdps(40):
            start = mpmath.mpf(epsilon) / mpmath.mpf(mu) + mpmath.mpf(mu) / 2

            def excess(x, mu=mu, epsilon=epsilon):
                return mpmath.npdf(x, mpmath.mpf(mu)) - mpmath.exp(epsilon) * mpmath.npdf(x)

            integral = mpmath.quad(excess, [start + step for step in range(30)])
            assert relative(oracle.gaussian_delta(mu, epsilon), integral) < 1e-30


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [(1e-12, 0.0), (1e-12, 3e-11), (1e-6, 2e-5), (0.2, 7.0), (1e3, 5e5), (1e6, 5.00002e11), (2.0, 1e6)],
)
def test_gaussian_delta_survives_cancellation(mu, epsilon):
    """The plain formula with 400 digits agrees, from delta = 1 down to 1e-100000000000."""
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        plain = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
    assert relative(oracle.gaussian_delta(mu, epsilon), plain) < 1e-50


def test_gaussian_delta_without_epsilon_is_the_total_variation():
    """At epsilon = 0 delta is erf(mu / sqrt(8)), about mu / sqrt(2 pi)."""
    for mu in (1e-12, 0.5, 9.0):
        with mpmath.workdps(70):
            expected = mpmath.erf(mpmath.mpf(mu) / mpmath.sqrt(8))
        assert relative(oracle.gaussian_delta(mu, 0.0), expected) < 1e-50


@pytest.mark.parametrize("mu", [1e-12, 1e-3, 0.7, 40.0, 1e6])
@pytest.mark.parametrize("share", [1e-280, 1e-9, 0.3, 1 - 1e-9])
def test_gaussian_epsilon_inverts_delta(mu, share):
    """The epsilon found has the delta asked for, for any share of the largest delta."""
    with mpmath.workdps(80):
        delta = share * oracle.gaussian_delta(mu, 0.0, 70)
        epsilon = oracle.gaussian_epsilon(mu, delta)
        assert relative(oracle.gaussian_delta(mu, epsilon, 70), delta) < 1e-40
        assert relative(epsilon, oracle.gaussian_epsilon(mu, delta, 65)) < 1e-50


def test_gaussian_epsilon_is_zero_where_delta_alone_covers():
    """A delta of at least the total variation needs no epsilon."""
    assert oracle.gaussian_epsilon(0.1, 0.04) == 0
    assert oracle.gaussian_epsilon(0.1, 0.039) > 0


def test_mask_revealed_is_the_gaussian_of_the_whole_vector():
    """Knowing the masks, gamma is irrelevant; L-inf-CSGM's vector may fill every dimension."""
    expected = oracle.gaussian_epsilon(mpmath.mpf(2) * 3 / 4, 1e-6)
    l2 = Mechanism("l2-csgm", 0.3, Geometry(5.0, 2.0, dim=400), 9)
    assert relative(oracle.epsilon(l2, 4.0, 1e-6, None, Bound.MASK_REVEALED), expected) < 1e-50
    linf = Mechanism("linf-csgm", 0.3, Geometry(5.0, 2.0, dim=400), 9)
    expected = oracle.gaussian_epsilon(mpmath.mpf(8) * 3 / 4, 1e-6)
    with mpmath.workdps(20):  # 2/5 is not a binary fraction, but the norms are divided in full precision
        assert relative(oracle.epsilon(linf, 4.0, 1e-6, None, Bound.MASK_REVEALED), expected) < 1e-50


def test_replace_one_doubles_the_gaussian_sensitivity():
    """Replacing a vector by its opposite moves the sum by twice the clip norm."""
    for name, gamma, bound in (("gaussian", 1.0, Bound.EXACT), ("l2-csgm", 0.2, Bound.MASK_REVEALED)):
        mechanism = Mechanism(name, gamma, Geometry(2.0), 1, Adjacency.REPLACE_ONE)
        found = oracle.delta(mechanism, 4.0, 1.0, None, bound)
        assert relative(found, oracle.gaussian_delta(0.5, 1.0)) < 1e-50
