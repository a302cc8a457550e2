"""The tight accountant against printed values, high precision, exact adversaries and at its extremes."""

import itertools
import math
from types import SimpleNamespace

import mpmath
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.adversary import World, best_response, constant, fitting_grid, gaussian_spectrum, spectrum
from benchmarks.attack import run
from csgm_cli.core import oracle, profile_oracle, tight_oracle
from csgm_cli.core.certificate import Proof
from csgm_cli.core.tight import kappa_delta, remove_renyi, single_delta, tight_delta, worst_law
from csgm_cli.core.tight_oracle import growth, kappa_parts, renyi_remove
from csgm_cli.jobs.account import account_delta, account_epsilon
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.mechanism import Accountant, Bound, Geometry, Mechanism, Target
from csgm_cli.profile import contour
from tests.core.mechanisms import csgm


def found(gamma, k, s, rounds, epsilon):
    """What is known of delta at s = Delta_inf / sigma."""
    mechanism, sigma = csgm(gamma, k, rounds), 1 / math.sqrt(k) / s
    proven = tight_delta(mechanism, sigma, epsilon)
    lower = kappa_delta(mechanism, sigma, epsilon)
    return SimpleNamespace(lower=lower, upper=proven.upper, remove=proven.remove, bound=proven.bound)


def one_coordinate(gamma, rounds=1):
    """The Poisson-subsampled Gaussian of DP-SGD."""
    return csgm(gamma, 1.0, rounds, dim=1)


# ---------------------------------------------------------------- printed values


@pytest.mark.parametrize(
    ("gamma", "k", "epsilon", "printed", "digits"),
    [(0.01, 300, 1.0, 1.971908e-5, 3e-7), (0.05, 8, 1.0, 1.9413e-4, 1e-4)],
)
def test_few_rare_coordinates(gamma, k, epsilon, printed, digits):
    """Where a contour hardly decays the lower bound is still the true profile, or is not claimed."""
    result = found(gamma, k, 1.0, 1, epsilon)
    assert result.lower == pytest.approx(printed, rel=digits)
    assert result.lower <= printed * (1 + digits) <= result.upper


@pytest.mark.parametrize(
    ("gamma", "sigma", "rounds", "delta", "printed", "half_unit"),
    [
        (1024 / 50000, 1.54, 1464, 1e-5, 2.38630, 5e-6),
        (0.01, 1.0, 100, 1e-5, 0.71804, 5e-6),
        (0.08, 1.0, 100, 1e-5, 5.61342, 5e-6),
        (0.2, 3.0, 50, 1 / 48000, 1.9608, 5e-5),
    ],
)
def test_epsilons_of_loss_grids(gamma, sigma, rounds, delta, printed, half_unit):
    """dp-accounting's PLD epsilons (grid 1e-4, pessimistic) lie just above ours."""
    [guarantee] = account_epsilon(one_coordinate(gamma, rounds), sigma, [delta], Accountant.TIGHT).guarantees
    assert guarantee.bound is Bound.PROFILE
    assert printed * (1 - 2e-4) - half_unit < guarantee.epsilon < printed + half_unit


def test_sigma_of_loss_grids():
    """q = .01, T = 1000, (3, 1e-6): PLD needs 0.865219, PRV with error 0.01 finds 0.865938."""
    found = calibrate(one_coordinate(0.01, 1000), Target(3.0, 1e-6), Accountant.TIGHT)
    assert found.sigma == pytest.approx(0.865219, abs=2e-6)
    assert found.guarantee.lower_bound == pytest.approx(found.noise_multiplier, rel=1e-8)


@pytest.mark.parametrize(
    ("gamma", "sigma", "rounds", "epsilon"),
    [
        (0.01, 1.0, 100, 1.0),
        (0.1, 2.0, 50, 1.0),
        (0.3, 1.0, 3, 2.0),
        (0.5, 4.0, 20, 0.5),
        (0.9, 3.0, 7, 1.5),
        (0.002, 0.6, 1000, 0.7),
        (0.05, 0.7, 4, 3.0),
        (0.01, 0.5, 2, 4.0),
        (0.2, 1.5, 1, 0.3),
        (0.001, 0.4, 30, 2.0),
    ],
)
def test_one_coordinate_lies_between_the_loss_grids(gamma, sigma, rounds, epsilon):
    """Pessimistic and optimistic privacy-loss distributions enclose the profile."""
    ends = []
    for pessimistic in (False, True):
        grid = from_gaussian_mechanism(
            sigma,
            sampling_prob=gamma,
            value_discretization_interval=1e-4,
            pessimistic_estimate=pessimistic,
        )
        ends.append(grid.self_compose(rounds).get_delta_for_epsilon(epsilon))
    result = tight_delta(one_coordinate(gamma, rounds), sigma, epsilon)
    lower = kappa_delta(one_coordinate(gamma, rounds), sigma, epsilon)
    # the loss grids themselves cut tails of 1e-15 off
    assert ends[0] - 1e-14 <= result.upper
    assert lower <= ends[1] + 1e-14
    assert result.upper <= lower * (1 + 2.5e-5)
    assert result.add.proof is Proof.PROFILE


# ---------------------------------------------------------------- high precision


@pytest.mark.parametrize(
    ("gamma", "k", "s", "rounds", "epsilon"),
    [
        (0.01, 24414, 1 / 1.57, 1, 5.0),
        (0.1, 400, 1 / 8.6, 1, 1.0),
        (0.3, 20.5, 0.7, 3, 6.0),
        (0.01, 300, 1.0, 1, 1.0),
    ],
)
@pytest.mark.parametrize("nodes", [40, None])
def test_bounds_hold_with_few_nodes_too(monkeypatch, gamma, k, s, rounds, epsilon, nodes):
    """With 40 nodes at most, as with all, the bounds enclose the high-precision profile of kappa*."""
    if nodes is not None:
        monkeypatch.setattr(contour, "_MOST_NODES", nodes)
    result = found(gamma, k, s, rounds, epsilon)
    law = worst_law(csgm(gamma, k, rounds), 1 / math.sqrt(k) / s)
    exact = float(profile_oracle.profile_delta(gamma, law.parts, "add", epsilon, 10))
    assert result.lower <= exact * (1 + 1e-9)
    assert result.upper >= exact * (1 - 1e-9)


@pytest.mark.parametrize(
    ("gamma", "k", "s", "epsilon"), [(0.5, 1, 3.0, 1.0), (0.9, 1, 1.5, 2.5), (0.05, 4, 1.0, 0.3)]
)
def test_remove_is_not_nothing_where_spread_vectors_show_it(gamma, k, s, epsilon):
    """No loss of kappa* is below -eps, but that of eight times as many coordinates is."""
    result = found(gamma, k, s, 1, epsilon)
    spread = float(profile_oracle.profile_delta(gamma, ((8 * k, s * s / 8),), "remove", epsilon, 8))
    assert 0.0 < spread <= result.remove.value


def test_remove_is_nothing_beyond_any_loss():
    """Four coordinates that all are at the clip: exactly 0 from eps = -4 log(1-g) on, and not before."""
    mechanism, sigma = Mechanism("linf-csgm", 0.1, Geometry(2.0, 1.0, 4)), 0.5
    assert tight_delta(mechanism, sigma, -4 * math.log1p(-0.1) * (1 + 1e-12)).remove.value == 0.0
    assert tight_delta(mechanism, sigma, -4 * math.log1p(-0.1)).remove.value < 1e-12  # for lack of digits
    before = [tight_delta(mechanism, sigma, epsilon).remove.value for epsilon in (0.0, 0.3, 0.4, 0.42)]
    assert before == sorted(before, reverse=True)
    assert before[-1] > 0.0


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "sigma", "epsilon"),
    [
        (1.36e-8, 3.28, 7, 0.0523, 22.3),
        (2.4e-9, 3.42, 4, 0.04929, 3.46),
        (3.79e-9, 3.71, 17, 0.04771, 2.51),
        (4.79e-7, 1.13, 6, 0.1682, 7.27),
        (6.08e-7, 1.06, 5, 0.1825, 32.9),
    ],
)
def test_the_rounding_of_visible_mask_bits_is_bounded(gamma, ratio, rounds, sigma, epsilon):
    """What the remove direction's Renyi bound makes of e^t, t = 20 to 30, was up to 2e-12 too low."""
    check_remove_renyi(gamma, ratio, rounds, sigma, epsilon)


@given(
    st.floats(-9.0, -0.01),
    st.floats(1.0, 1e3),
    st.integers(1, 10**6),
    st.floats(0.05, 12.0),
    st.floats(-4.0, 2.0),
)
def test_the_renyi_bound_of_the_remove_direction_is_one(log_gamma, ratio, rounds, s, log_epsilon):
    """It is not below its formula in high precision."""
    check_remove_renyi(10.0**log_gamma, ratio, rounds, 1.0 / ratio / s, 10.0**log_epsilon)


def check_remove_renyi(gamma, ratio, rounds, sigma, epsilon):
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
    proof = remove_renyi(worst_law(mechanism, sigma), epsilon)
    if proof.order is None or not 1e-300 < proof.value < 1.0:
        return
    with mpmath.workdps(40):
        exact = renyi_remove(growth(gamma, kappa_parts(mechanism, sigma)), epsilon, proof)
        assert exact <= proof.value <= exact * (1 + 1e-9)


# ---------------------------------------------------------------- adversaries


def test_the_adaptive_adversary_beats_kappa_star_but_not_the_bound():
    """Both values of the printed counter-example, and the bound above them."""
    gamma, s, k, rounds, epsilon = 0.11806, 1.5463, 1.0818, 2, 4.0
    kappa = ((1, s * s), (1, (k - 1) * s * s))
    menu = [
        kappa,
        *(((m, k * s * s / m),) for m in (2, 3, 4, 8)),
        ((1, s * s),),
        ((1, 0.9 * s * s), (2, 0.09 * s * s)),
    ]
    world = World(gamma, 1, epsilon, 2.5)
    grid = fitting_grid(world, menu, rounds, refine=3.0)
    laws = [
        *(spectrum(world, grid, v) for v in menu),
        gaussian_spectrum(world, grid, gamma * s * math.sqrt(k)),
    ]
    constants = [constant(world, grid, law, rounds) for law in laws]
    adaptive = best_response(world, grid, laws, rounds)
    assert max(constants) == constants[0] == pytest.approx(9.0679e-5, rel=1e-3)  # inputs have five digits
    assert adaptive > constants[0] * 9.1331e-5 / 9.0679e-5
    result = found(gamma, k, s, rounds, epsilon)
    assert result.lower < adaptive < result.upper
    assert result.lower <= constants[0]  # which the grid moves up by less than 2e-4


def test_no_adversary_breaks_a_bound():
    """Random settings, vectors and adaptive strategies, both directions (docs/attack.md has more)."""
    record = run(40, seed=3)
    assert record.attacked == 40
    assert record.violations == 0
    assert record.disagreement < 3e-3


# ---------------------------------------------------------------- extremes


@pytest.mark.parametrize(
    ("gamma", "k", "s", "rounds", "epsilon"),
    [
        (1e-9, 1.0, 1e-6, 1, 0.0),
        (1e-9, 1e12, 1e-6, 1, 0.1),
        (0.5, 1e12, 1e-6, 10**9, 1e3),
        (0.00219, 1_800_769.08, 33.2, 63, 0.115),
        (1 - 1e-14, 23.56, 4.89, 9, 0.0224),
        (1 - 1e-10, 1.0, 1e-2, 1, 0.3),
        (0.3, 2.0, 50.0, 1, 5.0),
        (0.3, 1e6, 1e-3, 1, 1e3),
        (0.01, 3.0, 3e-6, 1, 1e-6),
        (0.9, 5.5, 20.0, 4, 1e3),
    ],
)
def test_extremes_have_an_answer(gamma, k, s, rounds, epsilon):
    """Out of reach means a wide answer: never an exception, a NaN, or bounds in the wrong order."""
    result = found(gamma, k, s, rounds, epsilon)
    assert 0.0 <= result.lower <= result.upper
    assert result.upper < math.inf
    assert isinstance(result.bound, Bound)


@pytest.mark.parametrize(
    ("gamma", "k", "rounds", "sigma", "epsilon"),
    [
        (0.3, 5.29, 4, 6.4, 0.3815),  # the concave twin decides between them
        (0.045, 135.0, 1, 0.45, 0.4),
        (0.094, 9.7, 100, 9.5, 0.45),
        (0.27, 3.0, 2, 0.4, 1.0),
        (0.02, 30.0, 1, 0.2, 2.0),  # where contours take over
    ],
)
@pytest.mark.parametrize(
    ("name", "sign"), [("gamma", 1), ("k", -1), ("sigma", -1), ("epsilon", -1), ("rounds", 1)]
)
def test_delta_moves_one_way(gamma, k, rounds, sigma, epsilon, name, sign):
    """A dense walk in one parameter, through all changes of the deciding proof."""
    case = {"gamma": gamma, "k": k, "rounds": rounds, "sigma": sigma, "epsilon": epsilon}
    uppers = []
    for step in range(12):
        value = case[name] + step if name == "rounds" else case[name] * 1.025**step
        here = case | {name: value}
        mechanism = csgm(here["gamma"], here["k"], here["rounds"])
        uppers.append(tight_delta(mechanism, here["sigma"], here["epsilon"]).upper)
    assert 0.0 < min(uppers) < max(uppers) < 1.0
    for before, after in itertools.pairwise(uppers):
        assert sign * (after - before) >= -1e-10 * before


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "sigma", "epsilon"),
    [
        (2.2e-8, 457981.0, 3, 0.0026, 6e-5),  # delta at 1.05 sigma was three times that at 1.03 sigma
        (1.511706439222781e-06, 22**0.5, 552965, 13.5, 9e-6),
        (0.6413371525588533, 15.45312114006501, 1087, 3.05, 46.501922917163576),  # no twin was found
    ],
)
def test_more_noise_never_raises_delta_where_orders_are_huge(gamma, ratio, rounds, sigma, epsilon):
    """The remove direction had no contour beyond some noise or epsilon, and a bound as coarse as Renyi's."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
    steps = [1.01**step for step in range(10)]
    for uppers in (
        [tight_delta(mechanism, sigma * step, epsilon).upper for step in steps],
        [tight_delta(mechanism, sigma, epsilon * step).upper for step in steps],
    ):
        assert all(after < before for before, after in itertools.pairwise(uppers))


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "sigma", "epsilon", "missed"),
    [
        (0.2508757302453281, 166.77473852427758, 100, 0.235, 50.759, 0.97),  # a dip between 32 and epsilon
        (0.2508757302453281, 166.77473852427758, 100, 0.23147764600507917, 50.759, 0.99),  # two dips
        (0.0405, 87.27, 3, 0.02620396632793865, 0.2488, 0.9721),  # that at 0
        (0.07221563866319852, 417.7345800226791, 1, 0.012346507263860784, 18.86913097008829, 0.72),
    ],
)
def test_proofs_at_smaller_epsilons_hold_there_and_where_they_serve(
    gamma, ratio, rounds, sigma, epsilon, missed
):
    """High precision finds the cone where it was looked at; kappa* and its spread limit show less at both."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
    proof = tight_delta(mechanism, sigma, epsilon).decisive
    assert proof.proof is Proof.REMOVE_CONE
    assert 0.0 <= proof.epsilon < epsilon
    assert proof.value < missed
    cone = tight_oracle.certified_delta(mechanism, sigma, proof.epsilon, "remove", proof, 10)
    assert cone <= proof.value <= cone * (1 + 1e-9)
    parts = tight_oracle.kappa_parts(mechanism, sigma)
    spread = gamma * float(tight_oracle.total_t(parts)) ** 0.5
    for place in (proof.epsilon, epsilon):
        assert oracle.gaussian_delta(spread, place, 15) <= proof.value
        for direction in ("add", "remove"):
            assert profile_oracle.profile_delta(gamma, parts, direction, place, 10) <= proof.value


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "sigma", "epsilons"),
    [
        (0.02427132881058414, 35.91727650562862, 523, 0.09178643617207881, (17.0, 18.0, 18.7, 19.5, 20.5)),
        (0.008347048534443976, 318.7504138057022, 12, 0.007098959262494408, (13.6, 13.75, 14.1, 14.44, 14.7)),
        (0.08164205076787485, 49.393559445209746, 42, 0.11742946765923253, (14.0, 14.12, 14.4, 14.9, 15.1)),
        (0.045532149913226655, 83.0490015423322, 29, 0.07000584514001192, (18.0, 18.06, 18.1, 18.17, 18.3)),
    ],
)
def test_a_larger_epsilon_never_raises_delta_in_the_dips(gamma, ratio, rounds, sigma, epsilons):
    """The cone's error grows with epsilon: deltas of 0.66, 0.2, 0.29 and 8e-4 rose by up to 25 %."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
    found = [tight_delta(mechanism, sigma, epsilon) for epsilon in epsilons]
    assert any(each.decisive.epsilon is not None for each in found)
    for before, after in itertools.pairwise(found):
        assert after.upper <= before.upper * (1 + 1e-12)


@pytest.mark.parametrize("k", [10.5, 10.99])
def test_every_coordinate_at_its_clip_bounds_the_rest(k):
    """With dim known the profile of all coordinates serves where it is smaller, and is not called exact."""
    mechanism, sigma = csgm(0.1, k, dim=11), 0.3
    result = tight_delta(mechanism, sigma, 1.0)
    every = tight_delta(Mechanism("linf-csgm", 0.1, Geometry(math.sqrt(k), 1.0, 11)), sigma, 1.0)
    assert result.upper <= min(every.upper, tight_delta(csgm(0.1, k), sigma, 1.0).upper)
    assert kappa_delta(mechanism, sigma, 1.0) < result.upper


def test_deltas_below_all_that_count_are_bounded_by_those_at_smaller_epsilons():
    """Between 2e-5 and 4.4e-5 the bracket was not known, and account settled on the far side of that."""
    mechanism, sigma = Mechanism("linf-csgm", 1e-9, Geometry(1.0, 1.0, 2)), 3.623508264721212
    epsilons = [2e-5 * 1.1**step for step in range(10)]
    found = [tight_delta(mechanism, sigma, epsilon) for epsilon in epsilons]
    assert all(each.is_known and each.upper < 1e-270 for each in found)
    for epsilon, each in zip(epsilons, found, strict=True):  # one of the two coordinates alone shows less
        assert each.upper >= single_delta(mechanism, sigma, epsilon)


def test_falling_back_is_said():
    """Where no method reaches the profile the answer is Renyi's, with a warning."""
    mechanism = Mechanism("linf-csgm", 0.3, Geometry(2.0, 1.0, 4), 3)
    [guarantee] = account_delta(mechanism, 1e-6, 1.0, Accountant.TIGHT).guarantees
    assert "tight-fell-back" in [notice.slug for notice in guarantee.notices]
    [near] = account_delta(mechanism, 0.5, 1.0, Accountant.TIGHT).guarantees
    assert near.notices == ()


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_smallest_delta_is_told_from_smaller_ones(rounds):
    """At delta 1e-300 as elsewhere: the closed form in mpmath meets it, and with less noise does not."""
    mechanism = Mechanism("linf-csgm", 1e-3, Geometry(1.0, 1.0, 1), rounds)
    sigma = calibrate(mechanism, Target(1.0, 1e-300)).sigma
    at, below = (
        profile_oracle.conditional_delta(1e-3, ((rounds, less / sigma**2),), "add", 1.0, 15)
        for less in (1.0, (1 - 1e-6) ** -2)
    )
    assert 1e-300 * (1 - 2e-5) <= at <= 1e-300 < below  # brackets are 1e-5 above the profile


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "epsilon", "delta", "slack"),
    [
        (3.16e-4, 1.0, 1, 0.00487, 1e-11, 0.012),
        (1e-4, 1.0, 10, 0.0251, 1e-6, 0.05),
        (1e-3, 2.0, 10, 3e-3, 1e-8, 0.05),
    ],
)
def test_small_epsilons_have_test_functions_of_their_size(gamma, ratio, rounds, epsilon, delta, slack):
    """The noise is close to what kappa* needs: functions that touch over 0.01 cost up to 8 times that."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
    found = calibrate(mechanism, Target(epsilon, delta))
    assert 1.0 <= found.noise_multiplier / found.guarantee.lower_bound <= 1.0 + slack


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "epsilon", "delta"),
    [(10**-2.814945736824557, 10**1.5284978078678084, 10, 1.0000000000000213, 1e-60),
     (1e-9, 14.285714285714285, 1, 0.1, 1e-300), (8.429e-4, 1.055, 1000, 0.2506, 5.183e-10)],
)  # fmt: skip
def test_extreme_deltas_are_met_sharply(gamma, ratio, rounds, epsilon, delta):
    """Account confirms the noise, and a hundred-millionth less is not enough."""
    mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
    sigma = calibrate(mechanism, Target(epsilon, delta)).sigma
    assert account_epsilon(mechanism, sigma, [delta]).guarantees[0].epsilon <= epsilon
    assert account_epsilon(mechanism, sigma * (1 - 1e-8), [delta]).guarantees[0].epsilon > epsilon


@pytest.mark.parametrize(
    ("gamma", "ratio", "rounds", "epsilon"),
    [
        (1.4285714285714285e-7, 1.0, 9599, 2e-5),
        (5.1813471502590675e-8, 400.0, 1, 1e-6),
        (1.0197478644487863e-9, 3000.0, 1, 1e-6),
        (1e-6, 30.0, 1000, 1e-6),
    ],
)
def test_the_least_delta_is_met_close_to_the_lower_bound_at_small_epsilons(gamma, ratio, rounds, epsilon):
    """Means are multiplied by 1/epsilon there: what is not told from 0 was worth up to 40 times the noise."""
    found = calibrate(Mechanism("l2-csgm", gamma, Geometry(ratio), rounds), Target(epsilon, 1e-300))
    assert 1.0 <= found.noise_multiplier / found.guarantee.lower_bound <= 1.01
