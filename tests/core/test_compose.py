"""Mixed releases: against the oracle, against a second method, and the laws that composition obeys."""

import math
from dataclasses import replace

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.core import compose_oracle
from csgm_cli.core.compose import composed_epsilon, shares, spent_by
from csgm_cli.errors import UsageError
from csgm_cli.jobs.account import account_epsilon
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Geometry, Mechanism

DELTA = 1e-6
GAUSSIAN = (Mechanism("gaussian", rounds=30), 12.5)
SPARSE = (Mechanism("l2-csgm", 0.05, Geometry(10.5), 100), 0.9)
DENSE = (Mechanism("linf-csgm", 0.4, Geometry(3.0, dim=40), 3), 20.0)


def under(adjacency, *releases):
    """The releases under another adjacency."""
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
ACCOUNTANTS = [Accountant.AUTO, Accountant.RDP, Accountant.PAPER]
accountants = st.sampled_from(ACCOUNTANTS)


def spent(releases, accountant=Accountant.AUTO):
    return composed_epsilon(releases, accountant, DELTA, with_lower=False).value


# ---------------------------------------------------------------- values from elsewhere


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("bound", [Bound.RDP, Bound.PAPER, Bound.MASK_REVEALED])
def test_agrees_with_the_oracle(adjacency, bound):
    """Each bound is what independent code finds in high precision, and never below it."""
    releases = under(adjacency, GAUSSIAN, SPARSE, DENSE)
    found = spent_by(releases, bound, DELTA)
    truth = compose_oracle.epsilon(releases, DELTA, found.order, bound, 30)
    assert 0 <= found.value / truth - 1 < 1e-11


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
    for accountant in (Accountant.PAPER, Accountant.RDP, Accountant.AUTO):
        apart = sum(spent([release], accountant) for release in releases)
        assert max(spent([r], accountant) for r in releases) < spent(releases, accountant) < 0.9 * apart


def test_gaussians_compose_exactly():
    """Squared mus add: 9 rounds at noise 3 and 16 at noise 4 are one round with mu = sqrt(2)."""
    releases = [(Mechanism("gaussian", rounds=9), 3.0), (Mechanism("gaussian", rounds=16), 4.0)]
    found = composed_epsilon(releases, Accountant.AUTO, DELTA)
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


def test_masks_revealed_wins_where_most_is_sent():
    """Near gamma 1 the Gaussian bound on the whole is below the Renyi bound."""
    nearly = (Mechanism("l2-csgm", 0.99, Geometry(5.0), 10), 20.0)
    assert composed_epsilon([nearly, GAUSSIAN], Accountant.AUTO, DELTA).bound is Bound.MASK_REVEALED


def test_small_difference_of_large_numbers_goes_to_high_precision():
    """Where the terms of epsilon all but cancel, mpmath gives it, and says so."""

    def releases(sigma):
        return [(Mechanism("l2-csgm", 0.3, Geometry(3.0)), 5.0), (Mechanism("gaussian"), sigma)]

    low, high = 0.1, 100.0  # the noise at which the Renyi bound meets epsilon 0
    while high > low * (1 + 1e-8):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent_by(releases(middle), Bound.RDP, 0.3).value > 0 else (low, middle)
    found = spent_by(releases(low), Bound.RDP, 0.3)
    truth = compose_oracle.epsilon(releases(low), 0.3, found.order, Bound.RDP, 30)
    assert 0 < found.value < 1e-6
    assert found.high_precision
    assert 0 <= found.value / truth - 1 < 1e-15


# ---------------------------------------------------------------- laws


@settings(max_examples=12, deadline=None)
@given(noisy(), st.sampled_from([*ACCOUNTANTS, Accountant.TIGHT]))
def test_one_release_is_account(release, accountant):
    """A population of one release spends what `csgm account` says, to the last digit."""
    mechanism, sigma = release
    (guarantee,) = account_epsilon(mechanism, sigma, [DELTA], accountant).guarantees
    found = composed_epsilon([release], accountant, DELTA)
    assert (found.value, found.order, found.bound) == (guarantee.epsilon, guarantee.order, guarantee.bound)
    assert found.lower == guarantee.lower_bound


@settings(max_examples=12, deadline=None)
@given(populations, noisy(), accountants)
def test_a_further_release_never_costs_less_than_nothing(releases, more, accountant):
    """What is spent does not fall when something is added."""
    assert spent([*releases, more], accountant) >= spent(releases, accountant) * (1 - 1e-12)


@settings(max_examples=12, deadline=None)
@given(populations.flatmap(lambda p: st.tuples(st.just(p), st.permutations(p))), accountants)
def test_order_does_not_matter(both, accountant):
    """Any order of the releases gives the same number, to the last digit."""
    assert spent(both[0], accountant) == spent(both[1], accountant)


@settings(max_examples=12, deadline=None)
@given(populations, noisy(least=2), st.data(), accountants)
def test_rounds_may_be_split(releases, release, data, accountant):
    """T rounds are T1 rounds and T2 rounds of the same, to the last digit."""
    mechanism, sigma = release
    first = data.draw(st.integers(1, mechanism.rounds - 1))
    parts = [(replace(mechanism, rounds=n), sigma) for n in (first, mechanism.rounds - first)]
    assert spent([*releases, *parts], accountant) == spent([*releases, release], accountant)


@settings(max_examples=12, deadline=None)
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
    found = [composed_epsilon([quiet] * n, Accountant(accountant), delta).value for n in (1, many)]
    assert found[0] == 0.0 < found[1]


@settings(max_examples=12, deadline=None)
@given(populations, accountants)
def test_shares_add_up(releases, accountant):
    """Shares are fractions of the whole, and equal parts of a split release have equal shares."""
    found = shares([*releases, releases[0]], composed_epsilon(releases, accountant, DELTA), DELTA)
    assert math.fsum(found) == pytest.approx(1.0, abs=1e-12)
    assert min(found) >= 0.0
    assert found[0] == found[-1]


def test_share_of_gaussians_is_that_of_squared_mu():
    """Worked by hand: mu^2 of 1 and 3 are a quarter and three quarters, by any accountant."""
    releases = [(Mechanism("gaussian", rounds=1), 1.0), (Mechanism("gaussian", rounds=3), 1.0)]
    for accountant in (Accountant.EXACT, Accountant.RDP, Accountant.PAPER):
        found = shares(releases, composed_epsilon(releases, accountant, DELTA), DELTA)
        assert found == pytest.approx([0.25, 0.75], rel=1e-12)


def test_accountants_that_do_not_apply():
    """Exact needs Gaussians alone."""
    with pytest.raises(UsageError, match="gaussian releases alone"):
        spent([GAUSSIAN, SPARSE], Accountant.EXACT)
