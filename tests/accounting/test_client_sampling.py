"""Noise, epsilon and delta with client sampling: published values, laws, and agreement with each other."""

import itertools
import math
from dataclasses import replace
from functools import cache

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant

import csgm_cli as csgm
from csgm_cli import gaussian
from csgm_cli.accounting.accountants import spent_delta, spent_epsilon
from csgm_cli.accounting.calibration import least_sigma
from csgm_cli.model.geometry import Geometry
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism

#: The width of brackets, and of the rounding of an answer from a grid; sigma less this misses the target.
BRACKET, LESS = 2e-5, 1e-5


def mechanism(q, gamma, k, rounds, **options):
    """L2-CSGM with client sampling."""
    return Mechanism(
        "l2-csgm", gamma, Geometry(norm_ratio=math.sqrt(k)), int(rounds), sampling_rate=q, **options
    )


def effective(mechanism, epsilon, delta, accountant=Accountant.AUTO):
    """The answer of calibrate in units of gamma Delta_2: the noise and its lower bound."""
    found = least_sigma(mechanism, accountant, epsilon, delta)
    return found.value / mechanism.gamma, found.lower and found.lower / mechanism.gamma


# ---------------------------------------------------------------- published values


@pytest.mark.parametrize("place", [0, 2, 3])
def test_reference_noise_multipliers(reference, place):
    """rdp by integer orders, the tight bound and the profile of kappa*, each by other code."""
    row = reference["client_sampling"]["noise_multipliers"][place]
    asked = mechanism(row["q"], row["g"], row["k"], row["T"])
    rdp, _ = effective(asked, row["eps"], row["delta"], Accountant.RDP)
    assert row["rdp"] * (1 - 0.01) <= rdp <= row["rdp"] * (1 + 1e-9)
    auto, lower = effective(asked, row["eps"], row["delta"])
    assert row["kappa_star"] * (1 - 2e-4) <= lower <= row["kappa_star"] * (1 + 1e-6)
    assert row["kappa_star"] * (1 - 1e-6) <= auto <= row["tight"] * (1 + 1e-6)


@pytest.mark.parametrize(("gamma", "most"), [(0.1, 0.4535), (0.01, 0.616)])
def test_a_thousand_of_a_million_clients(gamma, most):
    """2000 rounds at epsilon 8: within 1.3 % of the Gaussian mechanism without compression (0.44778)."""
    asked = Mechanism("l2-csgm", gamma, Geometry(norm_ratio=155.33), 2000, sampling_rate=1e-3)
    assert effective(asked, 8.0, 1e-7)[0] <= most


def test_reference_epsilons_by_integer_orders(reference):
    """At these noises the best order is near 2 to 6: real orders give less, and never more."""
    for row in reference["client_sampling"]["eps_rdp"]:
        asked = mechanism(row["q"], row["gamma"], row["k"], row["T"])
        found = spent_epsilon([(asked, row["sigma_over_D2"])], Accountant.RDP, row["delta"])
        assert found.value <= row["epsilon"] * (1 + 1e-9)
        assert found.order == pytest.approx(row["order"], abs=1.0)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_reference_noise_by_integer_orders(reference, adjacency):
    """Under both neighbouring relations the noise is at most 1 % less than by integer orders."""
    key = "poisson_add_remove_rdp" if adjacency is Adjacency.ADD_REMOVE else "poisson_replace_one_rdp"
    for row in reference["client_sampling"]["without_replacement"][1::3]:
        asked = mechanism(row["q"], row["gamma"], 24127.471216847323, row["T"], adjacency=adjacency)
        found, _ = effective(asked, row["epsilon"], row["delta"], Accountant.RDP)
        assert row[key] * (1 - 0.01) <= found <= row[key] * (1 + 1e-9)


@pytest.mark.parametrize("case", [(1e-3, 0.6, 2000, 4.0), (0.02, 1.2, 100, 1.0), (0.3, 6.0, 30, 0.5)])
def test_limits_agree_with_the_pld_of_dp_accounting(case):
    """gamma = 1, and one coordinate with rate q gamma: the exact profile of the subsampled Gaussian."""
    q, noise, rounds, epsilon = case
    pld = PLDAccountant(value_discretization_interval=1e-4)
    pld.compose(PoissonSampledDpEvent(q, GaussianDpEvent(noise)), rounds)
    known = pld.get_delta(epsilon)
    one = Geometry(norm_ratio=1.0, dim=1)
    for asked in (mechanism(q, 1.0, 1.0, rounds), replace(mechanism(2 * q, 0.5, 1.0, rounds), geometry=one)):
        found = spent_delta([(asked, noise)], Accountant.AUTO, epsilon)
        assert found.value == pytest.approx(known, rel=2e-3)
        assert known * (1 - 0.06) <= found.lower <= found.value


def test_many_coordinates_tend_to_the_subsampled_gaussian():
    """k = 1e12 at the effective noise x, against gamma = 1 at noise x."""
    limit = spent_delta([(mechanism(0.01, 1.0, 1.0, 500), 1.1)], Accountant.AUTO, 1.0)
    many = spent_delta([(mechanism(0.01, 0.1, 1e12, 500), 0.11)], Accountant.AUTO, 1.0)
    assert many.value == pytest.approx(limit.value, rel=2e-3)
    assert many.lower == pytest.approx(limit.value, rel=2e-3)


@pytest.mark.parametrize("q", [0.5, 0.02])
def test_one_round_amplifies_the_unsampled_profile(q):
    """delta(eps) = q delta_add(log(1 + (e^eps - 1)/q)): its bounds contain that of kappa*."""
    plain = Mechanism("l2-csgm", 0.2, Geometry(norm_ratio=5.0), 1)
    for epsilon in (0.2, 1.0):
        inner = spent_delta([(plain, 0.3)], Accountant.AUTO, math.log1p(math.expm1(epsilon) / q))
        found = spent_delta([(replace(plain, sampling_rate=q), 0.3)], Accountant.AUTO, epsilon)
        assert found.lower <= q * inner.value
        assert q * inner.lower <= found.value
        assert found.lower == pytest.approx(q * inner.lower, rel=0.02)


# ---------------------------------------------------------------- monotonicity


@cache
def least(accountant, q, gamma, k, rounds, epsilon, delta):
    """The smallest sigma."""
    return least_sigma(mechanism(q, gamma, k, rounds), accountant, epsilon, delta).value


def solved(case, accountant=Accountant.AUTO, **changes):
    """The smallest sigma of a case with some changes."""
    return least(accountant, **{**case, **changes})


#: Many coordinates, and few.
CASES = [
    {"q": 0.06, "gamma": 0.3, "k": 1500.0, "rounds": 1000, "epsilon": 3.0, "delta": 1e-5},
    {"q": 0.6, "gamma": 0.5, "k": 14.4, "rounds": 100, "epsilon": 1.5, "delta": 1e-6},
]
ABRUPT = {"q": 1e-3, "gamma": 0.1, "k": 10.0, "rounds": 50, "epsilon": 1.0, "delta": 1e-8}


@pytest.mark.parametrize("case", CASES)
def test_rdp_noise_is_monotone(case):
    """In q, gamma, rounds, epsilon and delta; and never above that without client sampling."""
    sigma = solved(case, Accountant.RDP)
    more = {"q": 1.3 * case["q"], "gamma": 1.05 * case["gamma"], "rounds": case["rounds"] + 1}
    more |= {"epsilon": case["epsilon"] / 1.1, "delta": case["delta"] / 2, "k": case["k"] / 1.2}
    for name, value in more.items():
        if name != "k" or value >= 1.0:
            assert sigma <= solved(case, Accountant.RDP, **{name: value}) * (1 + 1e-8), name
    assert sigma <= solved(case, Accountant.RDP, q=1.0) * (1 + 1e-8)


@pytest.mark.parametrize("case", CASES)
def test_auto_noise_is_monotone(case):
    """As above up to the brackets, in the direction in which each costs noise."""
    sigma = solved(case)
    for name, value in (("q", 1.3 * case["q"]), ("rounds", case["rounds"] + 1), ("delta", case["delta"] / 2)):
        assert sigma <= solved(case, **{name: value}) * (1 + BRACKET), name


@pytest.mark.parametrize("case", CASES)
def test_auto_is_at_most_rdp_and_the_noise_without_sampling(case):
    sigma = solved(case)
    assert sigma <= solved(case, Accountant.RDP) * (1 + BRACKET)
    assert sigma <= solved(case, q=1.0) * (1 + BRACKET)


@pytest.mark.parametrize("accountant", [Accountant.AUTO, Accountant.RDP])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_rate_one_is_no_sampling(accountant, adjacency):
    """Bit for bit, in every question."""
    plain = Mechanism("l2-csgm", 0.1, Geometry(norm_ratio=9.7), 5, adjacency)
    sampled = replace(plain, sampling_rate=1.0)
    assert least_sigma(plain, accountant, 2.0, 1e-6) == least_sigma(sampled, accountant, 2.0, 1e-6)
    assert spent_epsilon([(plain, 0.5)], accountant, 1e-6) == spent_epsilon(
        [(sampled, 0.5)], accountant, 1e-6
    )
    assert spent_delta([(plain, 0.5)], accountant, 2.0) == spent_delta([(sampled, 0.5)], accountant, 2.0)


# ---------------------------------------------------------------- calibrate and account


@pytest.mark.parametrize("case", CASES)
def test_account_confirms_the_answer_of_auto(case):
    """At calibrate's noise account gives at most epsilon and little less; with less noise, more."""
    check_confirmed(case, Accountant.AUTO, LESS, 1e-3)


@pytest.mark.parametrize("case", [*CASES, ABRUPT])
def test_account_confirms_the_answer_of_rdp(case):
    """The same, to the digits of a closed form; also where one mask bit makes the best order move fast."""
    check_confirmed(case, Accountant.RDP, 1e-7, 1e-6)


def check_confirmed(case, accountant, less, near):
    """Account at the noise of calibrate, and at slightly less."""
    asked = mechanism(*(case[name] for name in ("q", "gamma", "k", "rounds")))
    sigma = solved(case, accountant)
    at = spent_epsilon([(asked, sigma)], accountant, case["delta"], needs_lower=False).value
    below = spent_epsilon([(asked, sigma * (1 - less))], accountant, case["delta"], needs_lower=False).value
    assert case["epsilon"] * (1 - near) <= at <= case["epsilon"] < below


def test_replace_one_costs_more_than_add_remove():
    """delta at the same noise: one vector present and absent is a replacement by zero."""
    for asked in (mechanism(0.02, 0.1, 100.0, 50), mechanism(0.3, 1.0, 1.0, 20)):
        for accountant in (Accountant.RDP, *([] if asked.gamma < 1.0 else [Accountant.AUTO])):
            deltas = [
                spent_delta([(replace(asked, adjacency=adjacency), 0.5)], accountant, 2.0).value
                for adjacency in Adjacency
            ]
            assert deltas[0] < deltas[1]


# ---------------------------------------------------------------- mixtures and limits of delta

SAMPLED = (mechanism(0.01, 0.1, 200.0, 300), 0.09)
PLAIN = (Mechanism("l2-csgm", 0.2, Geometry(norm_ratio=12.0), 2), 0.9)
DENSE = (Mechanism("gaussian", rounds=3), 6.0)


@pytest.mark.parametrize("accountant", [Accountant.AUTO, Accountant.RDP])
@pytest.mark.parametrize("others", [[PLAIN], [DENSE]])
def test_mixture_spends_between_the_largest_and_the_sum(accountant, others):
    """At least what each release spends, and less than basic composition with half of delta each."""

    def spent(releases, delta):
        return spent_epsilon(releases, accountant, delta, needs_lower=False).value

    together = spent([SAMPLED, *others], 1e-6)
    for alone in ([SAMPLED], others):
        assert spent(alone, 1e-6) <= together * (1 + BRACKET)
    assert together < spent([SAMPLED], 5e-7) + spent(others, 5e-7)


def test_mixture_of_equal_rounds_is_their_sum():
    """Rounds of one kind in two releases count as one release of all."""
    asked, sigma = SAMPLED
    parts = [(replace(asked, rounds=n), sigma) for n in (100, 200)]
    for accountant in (Accountant.RDP, Accountant.AUTO):
        one, two = (spent_delta(releases, accountant, 1.0) for releases in ([SAMPLED], parts))
        assert one == two


def test_noise_next_to_another_release_meets_the_target():
    """calibrate next to a release at fixed noise, confirmed by account of both."""
    asked, _ = SAMPLED
    sigma = least_sigma(asked, Accountant.RDP, 3.0, 1e-6, [PLAIN]).value
    assert spent_epsilon([(asked, sigma), PLAIN], Accountant.RDP, 1e-6).value <= 3.0
    assert spent_epsilon([(asked, sigma * (1 - LESS)), PLAIN], Accountant.RDP, 1e-6).value > 3.0


def test_delta_decreases_in_epsilon_and_noise():
    """Across the change from the remove direction to the add direction alone."""
    asked, sigma = SAMPLED
    deltas = [spent_delta([SAMPLED], Accountant.AUTO, epsilon).value for epsilon in (0.0, 0.3, 2.0)]
    assert all(a > b for a, b in itertools.pairwise(deltas))
    noises = [spent_delta([(asked, sigma * x)], Accountant.AUTO, 1.0).value for x in (0.9, 1.1)]
    assert all(a > b for a, b in itertools.pairwise(noises))


def test_far_more_rounds_never_look_private():
    """With q T large, sampling tends to a Gaussian of mu = q sqrt(T (e^(1/x^2) - 1))."""
    q, rounds, x = 0.01, 10**6, 5.0
    mu = q * math.sqrt(rounds * math.expm1(x**-2))
    found = spent_epsilon([(mechanism(q, 1.0, 1.0, rounds), x)], Accountant.AUTO, 1e-5).value
    assert found == pytest.approx(gaussian.epsilon_for(mu, 1e-5), rel=5e-3)


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.9])
def test_account_meets_the_target_at_high_rates(rate):
    """Its search for the best order may stop elsewhere than that of calibrate."""
    geometry, _ = csgm.resolve_geometry(dim=10**4, cohort_size=1000)
    mechanism = csgm.Mechanism("l2-csgm", 0.1, geometry, rounds=2000, sampling_rate=rate)
    found = csgm.calibrate(mechanism, csgm.Target(8.0, 1e-7))
    [account] = csgm.account_epsilon(mechanism, found.sigma, [1e-7]).guarantees
    assert 8.0 * (1 - 1e-3) < account.epsilon <= 8.0


def test_large_targets_have_an_answer():
    """Where the order that a search starts from rounds to 1."""
    sigma = least_sigma(mechanism(0.4, 0.5, 5.0, 6), Accountant.RDP, 1000.0, 1e-5).value
    assert spent_epsilon([(mechanism(0.4, 0.5, 5.0, 6), sigma)], Accountant.RDP, 1e-5).value <= 1000.0
