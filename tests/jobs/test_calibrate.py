"""Calibration: printed values, certified on both sides, limits and symmetries."""

import dataclasses
import math

import pytest

from csgm_cli.bounds.worst_case import paper_law
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.jobs.account import account_epsilon
from csgm_cli.jobs.calibrate import calibrate, gaussian_sigma
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry

L2 = "l2-csgm"


def epsilon_of(mechanism, sigma, delta, accountant):
    """The epsilon that ``account`` gives."""
    return account_epsilon(mechanism, sigma, [delta], accountant).guarantees[0].epsilon


def of_row(row, adjacency=Adjacency.ADD_REMOVE):
    """The mechanism and target of a reference row."""
    mechanism = Mechanism(L2, row["gamma"], Geometry(math.sqrt(row["k"])), row["rounds"], adjacency)
    return mechanism, Target(row["epsilon"], row["delta"])


# ---------------------------------------------------------------- printed values


@pytest.mark.parametrize("accountant", [Accountant.PAPER, Accountant.RDP])
def test_reference_noise_multipliers(reference, accountant):
    """Every printed row to 1e-8 (11 digits are reached), with its order."""
    for row in reference["accounting"][accountant.value]:
        mechanism, target = of_row(row)
        found = calibrate(mechanism, target, accountant)
        assert found.noise_multiplier == pytest.approx(row["noise_multiplier"], rel=1e-11), row
        assert found.effective_noise_multiplier == pytest.approx(row["effective"], rel=1e-11), row
        assert found.guarantee.order == pytest.approx(row["order"], rel=1e-6), row
        assert found.guarantee.bound is Bound(accountant.value)
        assert found.accountant is accountant


@pytest.mark.parametrize(
    ("mechanism", "target"),
    [
        (Mechanism(L2, 5.1813471502590675e-8, Geometry(400.0)), Target(1e-6, 1e-300)),
        (Mechanism(L2, 1e-9, Geometry(166.02409463689298, dim=27564)), Target(1e4, 5e-67)),
        (Mechanism("linf-csgm", 1e-9, Geometry(500.0, dim=10**12), 856), Target(4.0, 1e-300)),
        (Mechanism(L2, 0.01, Geometry(1.0)), Target(10**-1.1, 1e-27)),
        (Mechanism(L2, 1e-3, Geometry(1.0)), Target(1.0, 1e-59)),
        (
            Mechanism("linf-csgm", 4.532074044094202e-08, Geometry(2.720635923664821, dim=130), 858892),
            Target(0.00017981393506075316, 1.1761480241623305e-12),
        ),
        (Mechanism(L2, 1.511706439222781e-06, Geometry(22**0.5), 552965), Target(1.1e-6, 3.88e-5)),
        (Mechanism(L2, 2.2e-8, Geometry(457981.0), 3), Target(6e-5, 7.8e-11)),
        (Mechanism(L2, 0.00345, Geometry(800.0)), Target(0.004, 0.852)),
        (Mechanism(L2, 0.03, Geometry(128376.0), 1, "replace-one"), Target(5e-6, 9e-5)),
    ],
)
def test_account_confirms_answers_to_small_deltas_and_gammas(mechanism, target):
    """Account gives at most the target at the sigma found, and more with 1e-5 less noise."""
    sigma = calibrate(mechanism, target).sigma
    assert epsilon_of(mechanism, sigma, target.delta, Accountant.AUTO) <= target.epsilon
    assert epsilon_of(mechanism, sigma * (1 - 1e-5), target.delta, Accountant.AUTO) > target.epsilon


def test_figure_one_of_the_paper(reference):
    """The fourteen points of the effective noise multiplier."""
    for row in reference["accounting"]["figure1"]:
        mechanism = Mechanism(L2, row["gamma"], Geometry(row["norm_ratio"]))
        found = calibrate(mechanism, Target(row["epsilon"], row["delta"]), Accountant.PAPER)
        assert found.effective_noise_multiplier == pytest.approx(row["effective"], rel=1e-11), row
        assert found.guarantee.order == row["order"], row


def test_reference_replace_one(reference):
    """The printed rows of the bound through the absent world."""
    for row in reference["accounting"]["replace_one"]:
        mechanism, target = of_row(row, Adjacency.REPLACE_ONE)
        found = calibrate(mechanism, target, Accountant.RDP)
        assert found.effective_noise_multiplier == pytest.approx(row["effective"], rel=1e-11), row


def test_reference_gaussian(reference):
    """The exact Gaussian to 1e-9, by auto and by exact, under any mechanism name at gamma 1."""
    for row in reference["accounting"]["gaussian"]:
        target = Target(row["epsilon"], row["delta"])
        for name in ("gaussian", L2):
            for accountant in (Accountant.EXACT, Accountant.AUTO):
                found = calibrate(Mechanism(name, rounds=row["rounds"]), target, accountant)
                assert found.noise_multiplier == pytest.approx(float(row["noise_multiplier"]), rel=1e-12)
                assert found.accountant is Accountant.EXACT
                assert found.guarantee.order is None
                assert found.guarantee.conversion is None


# ---------------------------------------------------------------- the promise

CASES = [
    (Mechanism("gaussian", 1.0, Geometry(1.0, 3.7), 9), Target(1.0, 1e-5), Accountant.EXACT),
    (Mechanism("gaussian", 1.0, Geometry(1.0, 0.3)), Target(1e-6, 1e-300), Accountant.EXACT),
    (Mechanism("gaussian"), Target(1e4, 0.999), Accountant.EXACT),
    (Mechanism("gaussian"), Target(3.0, 1e-9), Accountant.RDP),
    (Mechanism("gaussian"), Target(3.0, 1e-9), Accountant.PAPER),
    (Mechanism(L2, 0.01, Geometry(1000.0)), Target(5.0, 1e-8), Accountant.RDP),
    (Mechanism(L2, 0.01, Geometry(1000.0)), Target(5.0, 1e-8), Accountant.PAPER),
    (Mechanism(L2, 0.01, Geometry(1000.0)), Target(5.0, 1e-8), Accountant.AUTO),
    (Mechanism(L2, 0.97, Geometry(1.0)), Target(5.0, 1e-8), Accountant.AUTO),
    (Mechanism(L2, 0.37, Geometry(7.7, 1e-3), 10**9), Target(1e-6, 1e-12), Accountant.RDP),
    (Mechanism(L2, 1e-9, Geometry(1e6, 1e5)), Target(1e4, 1e-300), Accountant.RDP),
    (Mechanism(L2, 1e-9, Geometry(1.0)), Target(1e4, 1e-2), Accountant.RDP),
    (Mechanism(L2, 0.2, Geometry(3.3)), Target(0.5, 1 - 1e-12), Accountant.RDP),
    (Mechanism(L2, 0.2, Geometry(3.3)), Target(0.5, 1 - 1e-12), Accountant.PAPER),
    (Mechanism(L2, 0.05, Geometry(20.5), 3, "replace-one"), Target(2.0, 1e-6), Accountant.RDP),
    (Mechanism(L2, 0.05, Geometry(20.5), 3, "replace-one"), Target(2.0, 1e-6), Accountant.PAPER),
    (Mechanism(L2, 0.9, Geometry(1.5), 3, "replace-one"), Target(2.0, 1e-6), Accountant.AUTO),
    (Mechanism("linf-csgm", 0.05, Geometry(20.5, dim=10**6), 3), Target(2.0, 1e-6), Accountant.RDP),
    (Mechanism("linf-csgm", 1e-5, Geometry(1.0, dim=10**12), 3), Target(2.0, 1e-6), Accountant.AUTO),
]


@pytest.mark.parametrize(("mechanism", "target", "accountant"), CASES)
def test_the_answer_meets_the_target_and_less_noise_does_not(mechanism, target, accountant):
    """account(sigma) <= epsilon < account(sigma (1 - 1e-8)); the guarantee is the target."""
    found = calibrate(mechanism, target, accountant)
    assert epsilon_of(mechanism, found.sigma, target.delta, accountant) <= target.epsilon
    assert found.guarantee.epsilon == target.epsilon
    assert found.guarantee.delta == target.delta
    assert epsilon_of(mechanism, found.sigma * (1 - 1e-8), target.delta, accountant) > target.epsilon
    assert math.isfinite(found.sigma)
    assert found.sigma > 0


@pytest.mark.parametrize(("mechanism", "target", "accountant"), CASES)
def test_every_printed_number_meets_the_target(mechanism, target, accountant):
    """sigma rebuilt from the noise multiplier or the effective one, in either order of factors, is enough."""
    found = calibrate(mechanism, target, accountant)
    l2_norm, gamma = mechanism.geometry.l2_norm, mechanism.gamma
    rebuilt = (
        found.sigma,
        found.noise_multiplier * l2_norm,
        found.effective_noise_multiplier * gamma * l2_norm,
        found.effective_noise_multiplier * (gamma * l2_norm),
    )
    for sigma in rebuilt:
        assert epsilon_of(mechanism, sigma, target.delta, accountant) <= target.epsilon


@pytest.mark.parametrize(("mechanism", "target", "accountant"), CASES)
def test_the_resolved_accountant_alone_gives_the_same_answer(mechanism, target, accountant):
    """What auto says it used reproduces the number."""
    found = calibrate(mechanism, target, accountant)
    assert calibrate(mechanism, target, found.accountant).sigma == found.sigma


# ---------------------------------------------------------------- symmetries and limits


@pytest.mark.parametrize("accountant", [Accountant.RDP, Accountant.PAPER, Accountant.AUTO])
@pytest.mark.parametrize("factor", [10.0, 1e-7, 12345.678])
def test_scaling_both_norms_scales_sigma(accountant, factor):
    """Delta_2 and Delta_inf times c: sigma times c, the noise multipliers stay."""
    target = Target(1.0, 1e-6)
    one, other = (
        calibrate(Mechanism(L2, 0.05, Geometry(31.3, l2_norm)), target, accountant)
        for l2_norm in (1.0, factor)
    )
    assert other.sigma == pytest.approx(factor * one.sigma, rel=1e-12)
    assert other.noise_multiplier == pytest.approx(one.noise_multiplier, rel=1e-12)
    assert other.effective_noise_multiplier == pytest.approx(one.effective_noise_multiplier, rel=1e-12)


@pytest.mark.parametrize("accountant", [Accountant.EXACT, Accountant.RDP, Accountant.PAPER, Accountant.AUTO])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_gamma_one_is_the_gaussian_mechanism_exactly(accountant, adjacency):
    """Bit for bit, whatever the ratio; L-inf-CSGM too where every coordinate fits under Delta_2."""
    target = Target(5.0, 1e-8)
    gaussian = calibrate(Mechanism("gaussian", rounds=7, adjacency=adjacency), target, accountant)
    for ratio in (1.0, 12.34, 1e6):
        found = calibrate(Mechanism(L2, 1.0, Geometry(ratio), 7, adjacency), target, accountant)
        assert found.sigma == gaussian.sigma
    full = calibrate(Mechanism("linf-csgm", 1.0, Geometry(5.0, dim=25), 7, adjacency), target, accountant)
    assert full.sigma == pytest.approx(gaussian.sigma, rel=1e-15)


@pytest.mark.parametrize("accountant", [Accountant.RDP, Accountant.PAPER])
@pytest.mark.parametrize("gamma", [0.01, 0.3])
def test_a_growing_ratio_tends_to_the_gaussian_by_renyi_orders(accountant, gamma):
    """The effective noise multiplier falls to the Gaussian's with an excess of order 1/k."""
    target = Target(5.0, 1e-8)
    limit = calibrate(Mechanism("gaussian"), target, accountant).effective_noise_multiplier
    excess = [
        calibrate(Mechanism(L2, gamma, Geometry(ratio)), target, accountant).effective_noise_multiplier
        / limit
        - 1
        for ratio in (1e2, 1e3, 1e4, 1e5, 1e6)
    ]
    assert excess == sorted(excess, reverse=True)
    assert 0 <= excess[-1] < 1e-8
    assert excess[-3] == pytest.approx(100 * excess[-2], rel=1e-3)


def test_replace_one_doubles_the_gaussian():
    """Sensitivity 2 Delta_2: twice the noise, by every accountant of the Gaussian."""
    target = Target(1.0, 1e-6)
    for accountant in (Accountant.EXACT, Accountant.RDP, Accountant.PAPER):
        one, other = (
            calibrate(Mechanism("gaussian", adjacency=adjacency), target, accountant).sigma
            for adjacency in Adjacency
        )
        assert other == pytest.approx(2 * one, rel=1e-12)


def test_replace_one_at_sigma_one():
    """A published case: sigma 1, delta 1e-6 costs 4.88655 under add-remove and 10.99715 under replace-one."""
    for adjacency, epsilon in ((Adjacency.ADD_REMOVE, 4.88655), (Adjacency.REPLACE_ONE, 10.99715)):
        mechanism = Mechanism("gaussian", adjacency=adjacency)
        assert epsilon_of(mechanism, 1.0, 1e-6, Accountant.AUTO) == pytest.approx(epsilon, rel=2e-6)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("name", [L2, "linf-csgm"])
def test_exact_is_refused_below_gamma_one(name):
    """There is no exact formula for sparsified mechanisms here."""
    with pytest.raises(UsageError) as caught:
        calibrate(Mechanism(name, 1 - 1e-12, Geometry(3.0, dim=9)), Target(1.0, 1e-6), Accountant.EXACT)
    assert caught.value.slug == "no-exact-accountant"
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("name", [L2, "linf-csgm"])
def test_a_delta_that_alone_covers_the_target_has_no_least_noise(name, adjacency):
    """Where nothing of a client is sent but with probability delta, every epsilon holds without noise."""
    dim, gamma, rounds = 5, 0.01, 2
    mechanism = Mechanism(name, gamma, Geometry(2.0, dim=dim), rounds, adjacency)
    revealed = 1 - (1 - gamma) ** (dim * rounds)
    with pytest.raises(NoAnswerError) as caught:
        calibrate(mechanism, Target(1.0, revealed * (1 + 1e-12)))
    assert caught.value.slug == "delta-covers-target"
    assert caught.value.exit_status == 3
    quick = Accountant.RDP if adjacency is Adjacency.REPLACE_ONE else Accountant.AUTO
    assert calibrate(mechanism, Target(1.0, revealed * (1 - 1e-9)), quick).sigma > 0


def test_without_a_dimension_some_noise_is_always_asked_for():
    """k coordinates can hide in any number of them, so delta covers nothing on its own."""
    assert calibrate(Mechanism(L2, 0.01, Geometry(2.0)), Target(1.0, 0.9)).sigma > 0


def test_noise_out_of_range_is_no_answer():
    """A target that would need more noise than the product admits says so."""
    mechanism = Mechanism("linf-csgm", 1.0, Geometry(1.0, dim=10**12), 10**9, "replace-one")
    with pytest.raises(NoAnswerError) as caught:
        calibrate(mechanism, Target(1e-6, 1e-300))
    assert caught.value.slug == "no-noise-in-range"
    assert caught.value.exit_status == 3


@pytest.mark.parametrize("value_bits", [0, 65, 1.5, math.nan])
def test_value_bits_out_of_range(value_bits):
    """Bits of a value are an integer in [1, 64]."""
    with pytest.raises(UsageError):
        calibrate(Mechanism("gaussian"), Target(1.0, 1e-6), value_bits=value_bits)


# ---------------------------------------------------------------- what comes with it


def test_the_gaussian_beside_it_uses_the_same_kind_of_bound():
    """Renyi rows are compared with a Renyi Gaussian, others with the exact one."""
    gaussian, target = Mechanism("gaussian", 1.0, Geometry(5.0, 2.0), 4), Target(1.0, 1e-6)
    for accountant, same in (
        (Accountant.RDP, Accountant.RDP),
        (Accountant.PAPER, Accountant.PAPER),
        (Accountant.EXACT, Accountant.EXACT),
        (Accountant.AUTO, Accountant.EXACT),
        (Accountant.TIGHT, Accountant.EXACT),
    ):
        assert gaussian_sigma(gaussian, accountant, target) == calibrate(gaussian, target, same).sigma


def test_costs_are_reported_where_they_are_known():
    """Noise on the mean needs n, bits need d, the MSE needs both."""
    target = Target(1.0, 1e-6)
    for dim, cohort in ((None, None), (100, None), (None, 50), (100, 50)):
        mechanism = Mechanism(L2, 0.1, Geometry(5.0, 2.0, dim, cohort))
        found = calibrate(mechanism, target, value_bits=16)
        assert found.bits_per_client == (None if dim is None else pytest.approx(0.1 * 100 * 16))
        expected = None if cohort is None else pytest.approx(found.sigma / (50 * 0.1))
        assert found.mean_noise_std == expected
        assert (found.mse is None) == (dim is None or cohort is None)


def test_the_statement_names_what_matters():
    """One paragraph with the mechanism, the guarantee, the composition, the adjacency and the assumptions."""
    found = calibrate(Mechanism(L2, 0.1, Geometry(5.0), 7, "replace-one"), Target(1.0, 1e-6), "rdp")
    for part in ("L2 coordinate-subsampled", "(1, 1e-6)", "7 releases", "replacing", "Renyi", "clipped"):
        assert part in found.statement, found.statement


def test_results_are_frozen():
    """A result cannot be changed after the fact."""
    found = calibrate(Mechanism("gaussian"), Target(1.0, 1e-6))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.sigma = 0.0


def test_least_sigma_by_an_independent_bisection():
    """Plain bisection on the curve at the integers, to 1e-10: a second method for the search."""
    mechanism, target = Mechanism(L2, 0.02, Geometry(40.0), 5), Target(0.8, 1e-7)

    def epsilon(sigma):
        law = paper_law([(mechanism, sigma)])
        return min(
            (law.log_moment(order).value - math.log(1e-7 * order)) / (order - 1) + math.log1p(-1 / order)
            for order in map(float, range(2, 80))
        )

    low, high = 1e-3, 1e3
    while high / low - 1 > 1e-11:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if epsilon(middle) <= 0.8 else (middle, high)
    assert calibrate(mechanism, target, Accountant.PAPER).sigma == pytest.approx(high, rel=1e-10)


def test_an_accountant_may_be_named_in_plain_text():
    """A string serves as well as the enum, and a wrong one is refused like any other choice."""
    mechanism, target = Mechanism(L2, 0.1, Geometry(5.0)), Target(1.0, 1e-6)
    assert calibrate(mechanism, target, "rdp") == calibrate(mechanism, target, Accountant.RDP)
    with pytest.raises(UsageError) as caught:
        calibrate(mechanism, target, "rpd")
    assert caught.value.slug == "unknown-choice"


def test_noise_does_not_grow_with_deltas_next_to_one():
    """Along deltas up to the largest float below 1."""
    mechanism = Mechanism("linf-csgm", 0.2, Geometry(1.0, 1.0, 100_000))
    sigmas = [calibrate(mechanism, Target(1e4, delta)).sigma for delta in (1 - 1e-4, 1 - 1e-5, 1 - 2**-53)]
    assert sigmas == sorted(sigmas, reverse=True)


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "accountant"),
    [
        (Mechanism(L2, 0.005, Geometry(8e5), 637, "replace-one"), 1.0, Accountant.AUTO),
        (Mechanism(L2, 1 / 3, Geometry(1.0016649728198028), 257), 1.0, Accountant.AUTO),
        (Mechanism(L2, 1e-9, Geometry(1.0), 10**9), 1e-6, Accountant.AUTO),
        (Mechanism("gaussian"), 1e4, Accountant.RDP),
        (Mechanism("gaussian"), 1e4, Accountant.EXACT),
    ],
)
def test_account_confirms_answers_at_the_largest_delta(mechanism, epsilon, accountant):
    delta = 1 - 2**-53
    found = calibrate(mechanism, Target(epsilon, delta), accountant)
    assert epsilon_of(mechanism, found.sigma, delta, accountant) <= epsilon
    if accountant is Accountant.AUTO:
        assert found.guarantee.lower_bound is None
