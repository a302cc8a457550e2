"""From how many clients cohorts are drawn, and which of them are eligible."""

import warnings

import pytest

import csgm_cli as csgm
from csgm_cli.errors import UsageError
from csgm_cli.flower.cohorts import check_addressed, eligible, planned_population
from csgm_cli.mechanism.server import Server
from tests.mechanism.plans import plan_with


@pytest.fixture(scope="module")
def stream():
    """The factors of four rounds, and a plan of two epochs of cohorts of 4."""
    factors = csgm.factorize(4)
    return factors, plan_with(factorization=csgm.factor_norms(factors), epochs=2)


def test_population_of_each_kind_of_plan(stream):
    """n/q, T n, or as given; none where the inner strategy chooses."""
    assert planned_population(plan_with(sampling_rate=0.1), None) == 40
    assert planned_population(plan_with(sampling_rate=0.3), None) == 13
    assert planned_population(plan_with(sampling_rate=0.3), 14) == 14
    assert planned_population(plan_with(disjoint_cohorts=True), 10) == 10
    assert planned_population(stream[1], None) == 16
    assert planned_population(stream[1], 20) == 20
    assert planned_population(plan_with(), None) is None


@pytest.mark.parametrize("size", [0, -1, 2.5, "10", True, 3])
def test_wrong_population_sizes_are_refused(stream, size):
    for plan in (plan_with(sampling_rate=0.1), plan_with(disjoint_cohorts=True), stream[1]):
        with pytest.raises(UsageError, match="population_size"):
            planned_population(plan, size)


def test_a_population_size_that_is_missing_or_not_used_is_refused(stream):
    """Disjoint cohorts need it; an epoch needs T n; a plan without either has no use for it."""
    for plan, size in ((plan_with(disjoint_cohorts=True), None), (stream[1], 15), (plan_with(), 10)):
        with pytest.raises(UsageError, match="population_size"):
            planned_population(plan, size)


def test_a_strategy_that_samples_is_refused():
    """All reachable clients must be addressed, others may be."""
    check_addressed([1, 2, 3], [1, 3])
    with pytest.raises(UsageError, match="leaves out connected nodes") as raised:
        check_addressed([1, 2], [1, 3])
    assert "fraction_train=1.0" in raised.value.hint


def test_each_row_of_an_epoch_has_its_own_cohort(stream):
    """Clients 0 to 3 take part in the first row of both epochs, 16 to 19 in none."""
    factors, plan = stream
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NOT PRIVATE
        server, seen = Server(plan, seed=1, factors=factors), []
        while server.remaining:
            seen.append(list(eligible(server, range(20))))
            server.draw(seen[-1]).release()
    assert seen == 2 * [list(range(first, first + 4)) for first in (0, 4, 8, 12)]


def test_other_plans_draw_from_everyone():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert eligible(Server(plan_with(sampling_rate=0.1), seed=1), range(40)) == range(40)
