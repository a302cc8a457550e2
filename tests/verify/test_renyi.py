"""Renyi bounds and the Gaussian profile in high precision against printed values and theorems."""

import math

import mpmath
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism import Adjacency, Bound, Mechanism
from csgm_cli.model.mechanism_table import Geometry, MechanismName
from csgm_cli.verify import renyi
from csgm_cli.verify.log_moment import log_moment

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


def test_the_global_precision_is_left_alone():
    """No call changes the precision that its caller works with, or depends on it."""
    expected = log_moment(2.5, 0.01, 0.5)
    with mpmath.workdps(7):
        assert log_moment(2.5, 0.01, 0.5) == expected
        assert renyi.gaussian_epsilon(1.0, 1e-5) == renyi.gaussian_epsilon(mpmath.mpf(1), 1e-5)
        assert mpmath.mp.dps == 7


# ---------------------------------------------------------------- mechanisms


@pytest.mark.parametrize("bound", [Bound.PAPER, Bound.RDP])
def test_renyi_rows_meet_their_targets(reference, bound):
    """At the printed noise and order the target epsilon and delta come back."""
    for row in reference["accounting"][bound.value]:
        mechanism, sigma, order = l2_csgm(row), row["noise_multiplier"], row["order"]
        found = renyi.epsilon([(mechanism, sigma)], row["delta"], order, bound)
        assert relative(found, row["epsilon"]) < DOUBLE, row
        assert relative(renyi.delta([(mechanism, sigma)], found, order, bound), row["delta"]) < 1e-45, row


def test_figure_one_of_the_paper(reference):
    """The curve of the paper's Figure 1 is the paper bound at norm_ratio^2 coordinates."""
    for row in reference["accounting"]["figure1"]:
        assert row["accountant"] == "paper"
        mechanism = Mechanism(MechanismName.L2_CSGM, row["gamma"], Geometry(row["norm_ratio"]))
        found = renyi.epsilon(
            [(mechanism, row["effective"] * row["gamma"])], row["delta"], row["order"], Bound.PAPER
        )
        assert relative(found, row["epsilon"]) < DOUBLE, row


def test_replace_one_rows_meet_their_targets(reference):
    """The least epsilon over orders is the target; the printed rows give no order."""
    for row in reference["accounting"]["replace_one"]:
        mechanism = l2_csgm(row, Adjacency.REPLACE_ONE)
        sigma = row["effective"] * row["gamma"]

        def cost(order, mechanism=mechanism, sigma=sigma, delta=row["delta"]):
            return renyi.epsilon([(mechanism, sigma)], delta, order, Bound.RDP, digits=20)

        low, high = 2.0, 40.0
        while high - low > 1e-4:  # at a minimum this leaves 1e-8 of epsilon
            left, right = low + 0.4 * (high - low), low + 0.6 * (high - low)
            low, high = (low, right) if cost(left) < cost(right) else (left, high)
        assert relative(cost(low), row["epsilon"]) < 1e-7, row


@pytest.mark.parametrize(("norm_ratio", "gamma", "close"), [(3.0, 1.0, 1e-14), (1e6, 0.01, 1e-6)])
def test_replace_one_is_four_times_add_remove_for_gaussian_curves(norm_ratio, gamma, close):
    """A curve linear in the order (gamma = 1, or k -> infinity) costs 2^2 under replace-one, no more."""
    one, other = (Mechanism("l2-csgm", gamma, Geometry(norm_ratio), 4, adjacency) for adjacency in Adjacency)
    ratio = renyi.renyi_divergence(other, 0.5, 6.0, Bound.RDP) / renyi.renyi_divergence(
        one, 0.5, 6.0, Bound.RDP
    )
    assert relative(ratio, 4) < close


def test_rdp_splits_k_into_whole_coordinates_and_a_rest():
    """For k = 10.3 the bound is 10 K(t) + K(0.3 t), below the paper's 10.3 K(t)."""
    mechanism = Mechanism("l2-csgm", 0.1, Geometry(math.sqrt(10.3)), 3)
    with mpmath.workdps(70):
        k = mpmath.mpf(math.sqrt(10.3)) ** 2
        t = 1 / (k * mpmath.mpf(0.25) ** 2)
        whole, rest = (log_moment(2.5, 0.1, time, 60) for time in (t, (k - 10) * t))
        split, real = 3 * (10 * whole + rest) / 1.5, 3 * k * whole / 1.5
    assert relative(renyi.renyi_divergence(mechanism, 0.25, 2.5, Bound.RDP), split) < 1e-50
    assert relative(renyi.renyi_divergence(mechanism, 0.25, 2.5, Bound.PAPER), real) < 1e-50
    assert split < real


def test_linf_csgm_charges_every_dimension():
    """L-inf-CSGM costs d coordinates at Delta_inf: d/k of the L2 form where k is whole."""
    few, all_of_them = (Mechanism(name, 0.05, Geometry(4.0, dim=100)) for name in ("l2-csgm", "linf-csgm"))
    ratio = renyi.renyi_divergence(all_of_them, 0.7, 3.5, Bound.RDP) / renyi.renyi_divergence(
        few, 0.7, 3.5, Bound.RDP
    )
    assert relative(ratio, 6.25) < 1e-14


def test_dim_caps_k():
    """One coordinate cannot hold more than one clipped coordinate, whatever the rounding of the ratio."""
    capped = Mechanism("l2-csgm", 0.05, Geometry(1 + 1e-10, dim=1))
    with mpmath.workdps(60):
        t = (1 / (mpmath.mpf(1 + 1e-10) * mpmath.mpf(0.7))) ** 2
        expected = log_moment(3.5, 0.05, t) / mpmath.mpf(2.5)
    assert relative(renyi.renyi_divergence(capped, 0.7, 3.5, Bound.RDP), expected) < 1e-45


def test_scaling_the_norms_scales_sigma():
    """Only the ratios of sigma and the clip norms matter (powers of two scale floats exactly)."""
    small, large = (Mechanism("l2-csgm", 0.05, Geometry(7.0, l2)) for l2 in (1.0, 1024.0))
    assert (
        relative(
            renyi.epsilon([(large, 204.8)], 1e-6, 5.5, Bound.RDP),
            renyi.epsilon([(small, 0.2)], 1e-6, 5.5, Bound.RDP),
        )
        < 1e-45
    )


def test_gaussian_renyi_curve():
    """The Gaussian mechanism has the curve a D^2 T/(2 sigma^2), and so has any mechanism at gamma = 1."""
    expected = 3.5 * 2.0**2 * 5 / (2 * 8.0**2)
    for name in MechanismName:
        mechanism = Mechanism(name, 1.0, Geometry(2.0, 2.0, dim=4), 5)
        assert relative(renyi.renyi_divergence(mechanism, 8.0, 3.5, Bound.RDP), expected) < 1e-50


def test_epsilon_is_never_negative_and_delta_never_above_one():
    """Where the conversion proves nothing the answers are clipped to what is always true."""
    mechanism = Mechanism("l2-csgm", 0.01, Geometry(10.0))
    assert renyi.epsilon([(mechanism, 100.0)], 0.5, 2.0, Bound.RDP) == 0
    assert renyi.delta([(mechanism, 1e-3)], 0.0, 50.0, Bound.RDP) == 1


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
        renyi.epsilon([(mechanism, 1.0)], 1e-6, order, bound)
    with pytest.raises(UsageError):
        renyi.delta([(mechanism, 1.0)], 1.0, order, bound)


# ---------------------------------------------------------------- Gaussian profile


def test_gaussian_rows_meet_their_targets(reference):
    """The printed noise multipliers of the exact Gaussian mechanism give epsilon and delta back."""
    for row in reference["accounting"]["gaussian"]:
        mechanism = Mechanism(MechanismName.GAUSSIAN, rounds=row["rounds"])
        sigma = mpmath.mpf(row["noise_multiplier"])
        found = renyi.delta([(mechanism, sigma)], row["epsilon"], None, Bound.EXACT)
        assert relative(found, row["delta"]) < 1e-14, row
        found = renyi.epsilon([(mechanism, sigma)], row["delta"], None, Bound.EXACT)
        assert relative(found, row["epsilon"]) < PRINTED_DIGITS, row


def test_gaussian_delta_is_the_hockey_stick_integral():
    """Integrating max(0, p - e^eps q) of the two densities gives 30 digits of delta."""
    for mu, epsilon in ((0.3, 0.7), (1.0, 3.0), (5.0, 0.0)):
        with mpmath.workdps(40):
            start = mpmath.mpf(epsilon) / mpmath.mpf(mu) + mpmath.mpf(mu) / 2

            def excess(x, mu=mu, epsilon=epsilon):
                return mpmath.npdf(x, mpmath.mpf(mu)) - mpmath.exp(epsilon) * mpmath.npdf(x)

            integral = mpmath.quad(excess, [start + step for step in range(30)])
            assert relative(renyi.gaussian_delta(mu, epsilon), integral) < 1e-30


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [(1e-12, 0.0), (1e-12, 3e-11), (1e-6, 2e-5), (0.2, 7.0), (1e3, 5e5), (1e6, 5.00002e11), (2.0, 1e6)],
)
def test_gaussian_delta_survives_cancellation(mu, epsilon):
    """The plain formula with 400 digits agrees, from delta = 1 down to 1e-100000000000."""
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        plain = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
    assert relative(renyi.gaussian_delta(mu, epsilon), plain) < 1e-50


def test_gaussian_delta_without_epsilon_is_the_total_variation():
    """At epsilon = 0 delta is erf(mu / sqrt(8)), about mu / sqrt(2 pi)."""
    for mu in (1e-12, 0.5, 9.0):
        with mpmath.workdps(70):
            expected = mpmath.erf(mpmath.mpf(mu) / mpmath.sqrt(8))
        assert relative(renyi.gaussian_delta(mu, 0.0), expected) < 1e-50


@pytest.mark.parametrize("mu", [1e-12, 1e-3, 0.7, 40.0, 1e6])
@pytest.mark.parametrize("share", [1e-280, 1e-9, 0.3, 1 - 1e-9])
def test_gaussian_epsilon_inverts_delta(mu, share):
    """The epsilon found has the delta asked for, for any share of the largest delta."""
    with mpmath.workdps(80):
        delta = share * renyi.gaussian_delta(mu, 0.0, 70)
        epsilon = renyi.gaussian_epsilon(mu, delta)
        assert relative(renyi.gaussian_delta(mu, epsilon, 70), delta) < 1e-40
        assert relative(epsilon, renyi.gaussian_epsilon(mu, delta, 65)) < 1e-50


def test_gaussian_epsilon_is_zero_where_delta_alone_covers():
    """A delta of at least the total variation needs no epsilon."""
    assert renyi.gaussian_epsilon(0.1, 0.04) == 0
    assert renyi.gaussian_epsilon(0.1, 0.039) > 0


def test_mask_revealed_is_the_gaussian_of_the_whole_vector():
    """Knowing the masks, gamma is irrelevant; L-inf-CSGM's vector may fill every dimension."""
    expected = renyi.gaussian_epsilon(mpmath.mpf(2) * 3 / 4, 1e-6)
    l2 = Mechanism("l2-csgm", 0.3, Geometry(5.0, 2.0, dim=400), 9)
    assert relative(renyi.epsilon([(l2, 4.0)], 1e-6, None, Bound.MASK_REVEALED), expected) < 1e-50
    linf = Mechanism("linf-csgm", 0.3, Geometry(5.0, 2.0, dim=400), 9)
    expected = renyi.gaussian_epsilon(mpmath.mpf(8) * 3 / 4, 1e-6)
    with mpmath.workdps(20):  # 2/5 is not a binary fraction, but the norms are divided in full precision
        assert relative(renyi.epsilon([(linf, 4.0)], 1e-6, None, Bound.MASK_REVEALED), expected) < 1e-50


def test_replace_one_doubles_the_gaussian_sensitivity():
    """Replacing a vector by its opposite moves the sum by twice the clip norm."""
    for name, gamma, bound in (("gaussian", 1.0, Bound.EXACT), ("l2-csgm", 0.2, Bound.MASK_REVEALED)):
        mechanism = Mechanism(name, gamma, Geometry(2.0), 1, Adjacency.REPLACE_ONE)
        found = renyi.delta([(mechanism, 4.0)], 1.0, None, bound)
        assert relative(found, renyi.gaussian_delta(0.5, 1.0)) < 1e-50


# ---------------------------------------------------------------- worst-case vectors and the remove direction


def test_equal_coordinates_are_counted_together():
    """Two releases of one mechanism are twice as many coordinates; what is always sent adds squared mus."""
    one = Mechanism("l2-csgm", 0.1, Geometry(math.sqrt(10.5)), 3)
    always = Mechanism("gaussian", rounds=4)
    coordinates, mu_squared = renyi.worst_case([(one, 0.25), (always, 2.0), (one, 0.25)])
    assert [(count, gamma) for count, gamma, _ in coordinates] == [(60, 0.1), (6, 0.1)]
    assert relative(coordinates[0].t, 1 / (10.5 * 0.0625)) < 1e-14
    assert relative(coordinates[1].t, 0.5 / (10.5 * 0.0625)) < 1e-14
    assert mu_squared == 1


def test_remove_log_moment_is_between_the_worst_case_vector_and_its_closed_bound():
    """Coordinates of any size are covered, and the bound is below gamma^2 (e^t - 1)/t per unit of t."""
    for gamma, ratio, sigma, order in ((0.1, 10, 0.15, 9), (0.3, 3, 0.2, 4.5), (0.01, 40, 0.01, 30)):
        release = (Mechanism("l2-csgm", gamma, Geometry(ratio), 2), sigma)
        found = renyi.remove_log_moment([release], order)
        assert found >= renyi.total_log_moment(*renyi.worst_case([release]), 1 - order, 20)
        t = (ratio * sigma) ** -2.0
        assert found <= 2 * ratio**2 * order * (order - 1) / 2 * gamma**2 * math.expm1(t) * (1 + 1e-12)
        for smaller in (1, t / 2, t / 7):  # spread over more coordinates
            if smaller < t:
                count = 2 * ratio**2 * t / smaller
                assert found >= count * log_moment(1 - order, gamma, smaller, 15)


def test_remove_log_moment_of_every_coordinate_is_that_of_the_vector():
    """Where every coordinate is at its clip no vector is worse, so nothing is lost."""
    release = (Mechanism("linf-csgm", 0.1, Geometry(4, dim=50)), 0.3)
    exact = renyi.total_log_moment(*renyi.worst_case([release]), -7, 30)
    assert relative(renyi.remove_log_moment([release], 8, 30), exact) < 1e-29
    assert renyi.converted_delta(renyi.remove_log_moment([release], 8), mpmath.mpf(8), 3.0) <= renyi.delta(
        [release], 3.0, 8, Bound.RDP
    )


def test_composed_releases_add():
    """Two releases cost what one of twice the rounds costs; the Gaussian part adds its curve."""
    one, two = (Mechanism("l2-csgm", 0.1, Geometry(5), rounds) for rounds in (3, 6))
    for function, at in ((renyi.epsilon, 1e-6), (renyi.delta, 2.0)):
        together = function([(one, 0.4), (one, 0.4)], at, 7.5, Bound.RDP)
        assert relative(together, function([(two, 0.4)], at, 7.5, Bound.RDP)) < 1e-45
    gaussian = Mechanism("gaussian")
    mixed = renyi.epsilon([(gaussian, 3.0), (gaussian, 4.0)], 1e-6, None, Bound.EXACT)
    assert relative(mixed, renyi.gaussian_epsilon(mpmath.mpf(5) / 12, 1e-6)) < 1e-15
