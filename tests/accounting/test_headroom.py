"""Rounds that still fit and noise that would: checked by asking again with them, and with a little more."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from csgm_cli.accounting import headroom as module
from csgm_cli.accounting.accountants import spent_epsilon
from csgm_cli.accounting.headroom import FEW_RELEASES, Headroom
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.ranges import RANGES

DELTA = 1e-6
ACCOUNTANTS = [Accountant.AUTO, Accountant.RDP, Accountant.PAPER]
GAUSSIAN = (Mechanism("gaussian", rounds=30), 12.5)
SPARSE = (Mechanism("l2-csgm", 0.05, Geometry(100.0), 400), 0.9)
NEARLY_ALL = (Mechanism("l2-csgm", 0.99, Geometry(5.0), 10), 20.0)


def under(adjacency, *releases):
    """The releases under another neighbouring relation."""
    return [(replace(mechanism, adjacency=adjacency), sigma) for mechanism, sigma in releases]


@st.composite
def noisy(draw):
    """A release that spends neither nothing nor everything."""
    n = draw(st.integers(1, 1000))
    noise = draw(st.floats(1.0, 20.0)) * math.sqrt(n)
    if draw(st.booleans()):
        return Mechanism("gaussian", rounds=n), noise
    gamma, ratio = draw(st.floats(0.01, 0.95)), draw(st.floats(1.0, 40.0))
    return Mechanism("l2-csgm", gamma, Geometry(ratio), n), max(gamma, 1 / ratio) * noise


def spent(releases, accountant):
    return spent_epsilon(releases, accountant, DELTA, needs_lower=False).value


def limits(factors, accountant):
    """All of them, or one where the privacy profile is looked at, which takes its time."""
    return factors[:1] if accountant is Accountant.AUTO else factors


def with_more(releases, index, rounds):
    """The releases with further rounds of one of them."""
    mechanism, sigma = releases[index]
    changed = list(releases)
    changed[index] = (replace(mechanism, rounds=mechanism.rounds + rounds), sigma)
    return changed


def with_noise(releases, index, noise_multiplier):
    """The releases with other noise on one of them."""
    mechanism, _ = releases[index]
    changed = list(releases)
    changed[index] = (mechanism, noise_multiplier * mechanism.geometry.l2_norm)
    return changed


def check_rounds(releases, limit, accountant):
    """As many rounds as said fit, and one more does not."""
    headroom = Headroom(tuple(releases), accountant, Target(limit, DELTA))
    for index, (mechanism, _) in enumerate(releases):
        more = headroom.more_rounds(index)
        assert spent(with_more(releases, index, more), accountant) <= limit
        if mechanism.rounds + more < RANGES["rounds"].high:
            assert spent(with_more(releases, index, more + 1), accountant) > limit


def check_noise(releases, limit, accountant):
    """The noise said to be needed is enough, and 1e-8 less is not; where none is said, none is enough."""
    headroom = Headroom(tuple(releases), accountant, Target(limit, DELTA))
    for index in range(len(releases)):
        needed = headroom.needed_noise_multiplier(index)
        if needed is None:
            assert spent(with_noise(releases, index, 1e12), accountant) > limit * (1 - 1e-9)
            continue
        assert spent(with_noise(releases, index, needed), accountant) <= limit
        assert spent(with_noise(releases, index, needed * (1 - 1e-8)), accountant) > limit


CASES = [
    [GAUSSIAN],
    [SPARSE],
    [NEARLY_ALL],
    [GAUSSIAN, GAUSSIAN],
    [SPARSE, GAUSSIAN],
    [NEARLY_ALL, GAUSSIAN],
    [NEARLY_ALL, SPARSE, GAUSSIAN],
    [SPARSE, (replace(SPARSE[0], rounds=3), SPARSE[1])],
]


#: Cases by accountant and neighbouring relation: where the profile is looked at they take seconds each.
ASKED = [
    *((case, by, adjacency) for case in CASES for by in ACCOUNTANTS[1:] for adjacency in Adjacency),
    *((case, Accountant.AUTO, Adjacency.ADD_REMOVE) for case in ([GAUSSIAN, GAUSSIAN], CASES[1], CASES[5])),
    ([NEARLY_ALL], Accountant.AUTO, Adjacency.REPLACE_ONE),
]


@pytest.mark.parametrize(("releases", "accountant", "adjacency"), ASKED)
def test_more_rounds(releases, accountant, adjacency):
    """Exactly as many rounds as fit, far below the limit and close to it."""
    releases = under(adjacency, *releases)
    now = spent(releases, accountant)
    for factor in limits((1.3, 1.0, 1.001, 3.0), accountant):
        check_rounds(releases, factor * now, accountant)


@pytest.mark.parametrize(("releases", "accountant", "adjacency"), ASKED)
def test_needed_noise(releases, accountant, adjacency):
    """The least noise that brings the population within its limit."""
    releases = under(adjacency, *releases)
    now = spent(releases, accountant)
    for factor in limits((0.8, 0.999, 0.2), accountant):
        check_noise(releases, factor * now, accountant)


@settings(max_examples=15, deadline=None)
@given(st.lists(noisy(), min_size=1, max_size=3), st.floats(1.0, 5.0), st.sampled_from(ACCOUNTANTS[1:]))
def test_more_rounds_of_anything(releases, factor, accountant):
    """The same for random populations."""
    limit = spent(releases, accountant) * factor
    assume(1e-6 <= limit <= 1e4)
    check_rounds(releases, limit, accountant)


@settings(max_examples=15, deadline=None)
@given(st.lists(noisy(), min_size=1, max_size=3), st.floats(0.1, 0.99), st.sampled_from(ACCOUNTANTS[1:]))
def test_needed_noise_of_anything(releases, factor, accountant):
    """The same for random populations."""
    limit = spent(releases, accountant) * factor
    assume(1e-6 <= limit <= 1e4)
    check_noise(releases, limit, accountant)


def test_rounds_of_gaussians_by_hand():
    """With mu^2 = 1/100 a round, as many rounds fit as the exact Gaussian's largest mu^2 has hundredths."""
    release = (Mechanism("gaussian", rounds=1), 10.0)
    limit = spent_epsilon([(Mechanism("gaussian"), 1 / math.sqrt(2.0049))], Accountant.EXACT, DELTA).value
    assert Headroom((release,), Accountant.EXACT, Target(limit, DELTA)).more_rounds(0) == 199


def test_hardly_any_loss_fits_a_billion_times():
    """The answer ends where csgm's range of rounds does."""
    quiet = (Mechanism("l2-csgm", 1e-6, Geometry(1e3)), 1e3)
    assert Headroom((quiet,), Accountant.AUTO, Target(1.0, DELTA)).more_rounds(0) == 10**9 - 1


@pytest.mark.parametrize(
    ("factor", "accountant", "adjacency"),
    [
        *((f, by, adjacency) for f in (0.5, 1.02, 4.0) for by in ACCOUNTANTS[1:] for adjacency in Adjacency),
        *((f, Accountant.AUTO, Adjacency.ADD_REMOVE) for f in (0.5, 4.0)),
    ],
)
def test_room_of_many_releases_holds_and_is_most_of_what_there_is(factor, accountant, adjacency):
    """What closed forms allow beside twelve releases meets the limit, and twice as many rounds do not."""
    releases = under(adjacency, SPARSE, *[(GAUSSIAN[0], GAUSSIAN[1] + i) for i in range(11)])
    assert len(releases) > FEW_RELEASES
    limit = factor * spent(releases, accountant)
    headroom = Headroom(tuple(releases), accountant, Target(limit, DELTA))
    for index in (0, 5):
        mechanism = releases[index][0]
        if factor > 1.0:
            more = headroom.more_rounds(index)
            assert spent(with_more(releases, index, more), accountant) <= limit
            twice = 2 * more + mechanism.rounds // 10
            assert spent(with_more(releases, index, twice), accountant) > limit
        elif (needed := headroom.needed_noise_multiplier(index)) is not None:
            assert spent(with_noise(releases, index, needed), accountant) <= limit
            assert spent(with_noise(releases, index, needed / 1.5), accountant) > limit


def test_equal_releases_are_computed_once(monkeypatch):
    """Many equal releases take as many log-moments as one of each kind, and have equal room."""
    batches = []
    cache = module.cache_log_moments

    def counted(laws, orders):
        batches.append(len(laws))
        cache(laws, orders)

    monkeypatch.setattr(module, "cache_log_moments", counted)
    kinds = [
        (Mechanism("l2-csgm", 0.1, Geometry(norm_ratio=10.0), rounds=3), 9.0),
        (Mechanism("l2-csgm", 0.2, Geometry(norm_ratio=20.0), rounds=3), 12.0),
    ]
    headroom = Headroom((kinds[0], kinds[1]) * 50, Accountant.RDP, Target(5.0, 1e-6))
    assert len({headroom.more_rounds(index) for index in range(0, 100, 2)}) == 1
    assert batches
    assert set(batches) == {2}
