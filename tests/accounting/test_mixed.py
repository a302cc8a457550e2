"""Several releases together: laws of composition, and values by hand and by independent code."""

import math
from dataclasses import replace

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.accounting.accountants import bounds_of, resolved, spent_delta, spent_epsilon
from csgm_cli.accounting.headroom import shares
from csgm_cli.bounds.worst_case import total_mu
from csgm_cli.errors import UsageError
from csgm_cli.jobs.account import account_delta, account_epsilon
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.verify import renyi

DELTA = 1e-6
GAUSSIAN = (Mechanism("gaussian", rounds=30), 12.5)
SPARSE = (Mechanism("l2-csgm", 0.05, Geometry(10.5), 100), 0.9)
DENSE = (Mechanism("l2-csgm", 0.99, Geometry(5.0), 10), 20.0)
WIDE = (Mechanism("linf-csgm", 0.1, Geometry(10.0, dim=100), 10), 2.0)
ACCOUNTANTS = [Accountant.AUTO, Accountant.RDP, Accountant.PAPER]


def under(adjacency, *releases):
    """The releases under another neighbouring relation."""
    return [(replace(mechanism, adjacency=adjacency), sigma) for mechanism, sigma in releases]


@st.composite
def noisy(draw, least=1):
    """A release of at least so many rounds that spends neither nothing nor everything."""
    n = draw(st.integers(least, 1000))
    noise = draw(st.floats(1.0, 20.0)) * math.sqrt(n)
    if draw(st.booleans()):
        return Mechanism("gaussian", rounds=n), noise
    gamma, ratio = draw(st.floats(0.01, 0.95)), draw(st.floats(1.0, 40.0))
    return Mechanism("l2-csgm", gamma, Geometry(ratio), n), max(gamma, 1 / ratio) * noise


populations = st.lists(noisy(), min_size=1, max_size=4)
accountants = st.sampled_from(ACCOUNTANTS)
twelve = settings(max_examples=12, deadline=None, derandomize=True, database=None)


def spent(releases, accountant=Accountant.AUTO, delta=DELTA):
    return spent_epsilon(releases, accountant, delta, needs_lower=False).value


# ---------------------------------------------------------------- the table of accountants


@pytest.mark.parametrize(
    ("release", "accountant", "expected"),
    [
        (GAUSSIAN, Accountant.AUTO, (Bound.EXACT,)),
        (GAUSSIAN, Accountant.EXACT, (Bound.EXACT,)),
        (GAUSSIAN, Accountant.RDP, (Bound.RDP,)),
        (GAUSSIAN, Accountant.PAPER, (Bound.PAPER,)),
        ((Mechanism("l2-csgm", 1.0, Geometry(3.0)), 1.0), Accountant.AUTO, (Bound.EXACT,)),
        ((Mechanism("l2-csgm", 1.0, Geometry(3.0)), 1.0), Accountant.EXACT, (Bound.EXACT,)),
        (SPARSE, Accountant.RDP, (Bound.RDP,)),
        (SPARSE, Accountant.PAPER, (Bound.PAPER,)),
    ],
)
def test_the_table_of_accountants(release, accountant, expected):
    """The closed forms of each accountant."""
    assert bounds_of([release], accountant) == expected


def test_exact_is_refused_where_a_release_is_sparse():
    """Alone or beside a Gaussian mechanism."""
    for releases in ([SPARSE], [GAUSSIAN, SPARSE]):
        with pytest.raises(UsageError) as caught:
            spent(releases, Accountant.EXACT)
        assert caught.value.slug == "no-exact-accountant"


def test_resolved_names_an_accountant_that_gives_the_same_answer():
    """Auto resolves to exact or tight; revealed masks are auto's alone."""
    assert resolved(Accountant.AUTO, Bound.EXACT) is Accountant.EXACT
    assert resolved(Accountant.RDP, Bound.RDP) is Accountant.RDP
    assert resolved(Accountant.AUTO, Bound.MASK_REVEALED) is Accountant.AUTO
    assert resolved(Accountant.PAPER, Bound.PAPER) is Accountant.PAPER
    for bound in (Bound.RDP, Bound.TIGHT_ADD, Bound.TIGHT_REMOVE, Bound.PROFILE, Bound.REPLACE_ONE):
        assert resolved(Accountant.AUTO, bound) is Accountant.TIGHT


def test_total_mu_by_hand():
    """Sensitivity sqrt(rounds) / sigma, twice that under replace-one, sqrt(d) Delta_inf for L-inf-CSGM."""
    geometry = Geometry(4.0, 2.0, dim=64)
    assert total_mu([(Mechanism("l2-csgm", 0.1, geometry, 9), 3.0)]) == 2.0
    assert total_mu([(Mechanism("l2-csgm", 0.1, geometry, 9, "replace-one"), 3.0)]) == 4.0
    assert total_mu([(Mechanism("linf-csgm", 0.1, geometry, 9), 3.0)]) == 4.0


# ---------------------------------------------------------------- values from elsewhere


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("accountant", [Accountant.RDP, Accountant.PAPER])
@pytest.mark.parametrize("releases", [[SPARSE], [GAUSSIAN, SPARSE, DENSE]])
def test_renyi_bounds_agree_with_independent_code(releases, adjacency, accountant):
    """In high precision at the same order, and never below it: epsilon and delta."""
    releases = under(adjacency, *releases)
    found = spent_epsilon(releases, accountant, DELTA)
    truth = renyi.epsilon(releases, DELTA, found.order, found.bound, 30)
    assert 0 <= found.value / truth - 1 < 1e-11
    found = spent_delta(releases, accountant, 3.0)
    truth = renyi.delta(releases, 3.0, found.order, found.bound, 30)
    assert 0 <= found.value / truth - 1 < 1e-9


def by_integer_orders(delta):
    """The corrected Theorem 4.1 for both releases and a Gaussian, summed at each integer order, by hand."""

    def log_moment(order):
        g, t, count = 0.05, (1 / 10.5 / 0.9) ** 2, 10.5**2 * 100
        terms = (
            math.comb(order, j) * (1 - g) ** (order - j) * g**j * math.exp(j * (j - 1) * t / 2)
            for j in range(order + 1)
        )
        return count * math.log(math.fsum(terms)) + order * (order - 1) / 2 * 30 / 12.5**2

    return min(
        log_moment(a) / (a - 1) + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)
        for a in range(2, 200)
    )


def test_hand_worked_population():
    """A Gaussian and an L2-CSGM together: the value by hand, below the sum of the separate epsilons."""
    releases = [GAUSSIAN, SPARSE]
    assert spent(releases, Accountant.PAPER) == pytest.approx(by_integer_orders(DELTA), rel=1e-9)
    for accountant in ACCOUNTANTS:
        apart = sum(spent([release], accountant) for release in releases)
        assert max(spent([r], accountant) for r in releases) < spent(releases, accountant) < 0.9 * apart


def test_gaussians_compose_exactly():
    """Squared mus add: 9 rounds at noise 3 and 16 at noise 4 are one round with mu = sqrt(2)."""
    releases = [(Mechanism("gaussian", rounds=9), 3.0), (Mechanism("gaussian", rounds=16), 4.0)]
    found = spent_epsilon(releases, Accountant.AUTO, DELTA)
    assert found.bound is Bound.EXACT
    with mpmath.workdps(30):
        mu, eps = mpmath.sqrt(2), mpmath.mpf(found.value)
        delta = mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)
    assert float(delta) == pytest.approx(DELTA, rel=1e-9)


def test_gamma_one_is_exact_beside_a_gaussian():
    """An L2-CSGM that sends everything is a Gaussian mechanism, also in company."""
    full = (Mechanism("l2-csgm", 1.0, Geometry(7.0), 5), 9.0)
    same = (Mechanism("gaussian", rounds=5), 9.0)
    assert spent([full, GAUSSIAN]) == spent([same, GAUSSIAN])


# ---------------------------------------------------------------- laws


@twelve
@given(noisy(), st.sampled_from([*ACCOUNTANTS, Accountant.TIGHT]))
def test_one_release_is_account(release, accountant):
    """A population of one release spends what `csgm account` says, to the last digit."""
    mechanism, sigma = release
    (guarantee,) = account_epsilon(mechanism, sigma, [DELTA], accountant).guarantees
    found = spent_epsilon([release], accountant, DELTA)
    assert (found.value, found.order, found.bound) == (guarantee.epsilon, guarantee.order, guarantee.bound)
    assert found.lower == guarantee.lower_bound


@twelve
@given(populations, noisy(), accountants)
def test_a_further_release_never_costs_less_than_nothing(releases, more, accountant):
    """What is spent does not fall when something is added."""
    assert spent([*releases, more], accountant) >= spent(releases, accountant) * (1 - 1e-9)


@twelve
@given(populations.flatmap(lambda p: st.tuples(st.just(p), st.permutations(p))), accountants)
def test_order_does_not_matter(both, accountant):
    """Any order of the releases gives the same number, to the last digit."""
    assert spent(both[0], accountant) == spent(both[1], accountant)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_order_does_not_matter_to_any_mechanism(adjacency):
    """Nor under either neighbouring relation."""
    releases = under(adjacency, GAUSSIAN, SPARSE, WIDE)
    by = Accountant.RDP if adjacency is Adjacency.REPLACE_ONE else Accountant.AUTO  # the triangle is slow
    assert spent(releases, by) == spent(releases[::-1], by)


@twelve
@given(populations, noisy(least=2), st.data(), accountants)
def test_rounds_may_be_split(releases, release, data, accountant):
    """T rounds are T1 rounds and T2 rounds of the same, to the last digit."""
    mechanism, sigma = release
    first = data.draw(st.integers(1, mechanism.rounds - 1))
    parts = [(replace(mechanism, rounds=n), sigma) for n in (first, mechanism.rounds - first)]
    assert spent([*releases, *parts], accountant) == spent([*releases, release], accountant)


@pytest.mark.parametrize("release", [GAUSSIAN, SPARSE, WIDE, DENSE])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_two_equal_releases_are_one_of_twice_the_rounds(release, adjacency):
    """By every accountant."""
    [(mechanism, sigma)] = under(adjacency, release)
    twice = [(replace(mechanism, rounds=2 * mechanism.rounds), sigma)]
    slow = adjacency is Adjacency.REPLACE_ONE and release is not DENSE
    for accountant in ACCOUNTANTS[1:] if slow else ACCOUNTANTS:
        assert spent([(mechanism, sigma)] * 2, accountant) == spent(twice, accountant)


@twelve
@given(populations, st.sampled_from([Accountant.RDP, Accountant.PAPER]))
def test_together_is_at_most_the_sum(releases, accountant):
    """By one Renyi bound delta is paid once: never more than the separate epsilons, which all pay for it."""
    assert spent(releases, accountant) <= sum(spent([r], accountant) for r in releases) * (1 + 1e-12)


def test_a_dominant_gaussian_keeps_its_exact_analysis():
    """Its Renyi curve with little beside it costs more than all apart; by the profile the whole is less."""
    releases = [(Mechanism("gaussian"), 1.0), (Mechanism("l2-csgm", 1 / 16, Geometry(1.0)), 3.0)]
    apart = sum(spent([release]) for release in releases)
    assert spent(releases) < apart < spent(releases, Accountant.RDP)


@pytest.mark.parametrize(("accountant", "delta", "many"), [("exact", 0.16, 2), ("rdp", 0.5, 40)])
def test_what_delta_covers_alone_still_adds(accountant, delta, many):
    """A release so quiet that it spends nothing by itself is charged in company: the sum is no bound then."""
    quiet = (Mechanism("gaussian"), 2.5)  # its exact delta at epsilon 0 is 0.1585
    found = [spent([quiet] * n, Accountant(accountant), delta) for n in (1, many)]
    assert found[0] == 0.0 < found[1]


@pytest.mark.parametrize("release", [SPARSE, WIDE, (Mechanism("l2-csgm", 0.01, Geometry(1.0), 100), 0.7)])
@pytest.mark.parametrize(
    "further",
    [
        (Mechanism("gaussian"), 1e4),
        (Mechanism("l2-csgm", 0.01, Geometry(10.0)), 1e3),
        (Mechanism("linf-csgm", 0.3, Geometry(1.0, dim=1)), 1e4),
    ],
)
def test_what_hardly_matters_costs_hardly_anything(release, further):
    """Next to nothing beside a release is no gain, and costs at most a per cent."""
    alone, together = spent([release]), spent([release, further])
    assert alone * (1 - 1e-5) <= together <= alone * 1.01


# ---------------------------------------------------------------- shares


@twelve
@given(populations, accountants)
def test_shares_add_up(releases, accountant):
    """Shares are fractions of the whole, and equal parts of a split release have equal shares."""
    found = spent_epsilon(releases, accountant, DELTA, needs_lower=False)
    parts = shares([*releases, releases[0]], found.order, Target(max(found.value, 1e-6), DELTA))
    assert math.fsum(parts) == pytest.approx(1.0, abs=1e-12)
    assert min(parts) >= 0.0
    assert parts[0] == parts[-1]


def test_share_of_gaussians_is_that_of_squared_mu():
    """Worked by hand: mu^2 of 1 and 3 are a quarter and three quarters, by any accountant."""
    releases = [(Mechanism("gaussian", rounds=1), 1.0), (Mechanism("gaussian", rounds=3), 1.0)]
    for accountant in (Accountant.EXACT, Accountant.RDP, Accountant.PAPER):
        found = spent_epsilon(releases, accountant, DELTA)
        parts = shares(releases, found.order, Target(found.value, DELTA))
        assert parts == pytest.approx([0.25, 0.75], rel=1e-12)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("gamma", "sparse", "plain"), [(1e-3, 0.04, 0.13), (1e-4, 0.03, 0.12)])
@pytest.mark.parametrize("epsilon", [20.0, 99.0])
def test_a_mixture_spends_at_least_what_its_gaussian_part_does(adjacency, gamma, sparse, plain, epsilon):
    """With a visible mask bit and little noise, where only a certified grid has an answer."""
    releases = under(
        adjacency,
        (Mechanism("l2-csgm", gamma, Geometry(1.0, dim=1)), sparse),
        (Mechanism("gaussian"), plain),
    )
    found = spent_delta(releases, Accountant.AUTO, epsilon).value
    [alone] = account_delta(releases[1][0], plain, epsilon).guarantees
    assert found >= alone.delta * (1 - 1e-9)


def test_delta_decreases_with_epsilon_where_profiles_end():
    """At delta 1e-30 closed forms take over, which are looser."""
    release = (Mechanism("l2-csgm", 0.01, Geometry(10.0)), 0.25)
    deltas = [spent_delta([release], Accountant.AUTO, x).value for x in (1.2, 1.2014613, 1.2014637, 1.3)]
    assert deltas == sorted(deltas, reverse=True)


def test_epsilon_is_found_where_outcomes_are_left_out_of_the_grid():
    """Account confirms calibrate at a large delta, where test functions begin among the omitted outcomes."""
    release = (Mechanism("l2-csgm", 1e-4, Geometry(10**0.5)), 0.09595747208989361)
    assert spent_epsilon([release], Accountant.AUTO, 10**-1.5).value <= 0.01
