"""The largest local epsilon: both sides of the root, pure local privacy, references, limits."""

import math

import pytest

from csgm_cli.errors import NoAnswerError
from csgm_cli.local.blanket import shuffled_delta
from csgm_cli.local.calibration import clones_epsilon, privunit_epsilon
from csgm_cli.local.composition import composed_delta
from csgm_cli.local.randomizer import optimal_randomizer


@pytest.mark.parametrize(("n", "epsilon", "delta"), [(1000, 1.0, 1e-6), (10**5, 5.0, 1e-10), (50, 0.2, 1e-3)])
def test_one_message(n, epsilon, delta):
    """The printed local epsilon meets the target; a slightly larger one does not."""
    local = privunit_epsilon(n, 1, epsilon, delta)
    for factor, holds in ((1.0, True), (1 + 1e-7, False)):
        own = optimal_randomizer(local * factor)
        assert (shuffled_delta(n, own.cap_mass, own.odds, epsilon, delta) <= delta) == holds
    local = clones_epsilon(n, epsilon, delta)
    for factor, holds in ((1.0, True), (1 + 1e-7, False)):
        odds = math.expm1(local * factor)
        assert (shuffled_delta(n, 0.5, odds, epsilon, delta) <= delta) == holds


@pytest.mark.parametrize("messages", [8, 512])
def test_several_messages(messages):
    """The same for composed messages."""
    n, epsilon, delta = 1000, 1.0, 1e-6
    local = privunit_epsilon(n, messages, epsilon, delta)
    deltas = [
        composed_delta(n, optimal_randomizer(local * factor), messages, epsilon, delta)
        for factor in (1.0, 1 + 1e-5)
    ]
    assert deltas[0] <= delta < deltas[1]


def test_reference_local_epsilons(reference):
    """Between the staircases' local epsilons and 0.6 % above, and PrivUnit's own bound is the better one."""
    for row in reference["privunit"]["shuffle"]:
        n, epsilon, delta = row["n"], row["eps"], row["delta"]
        own, any_randomizer = privunit_epsilon(n, 1, epsilon, delta), clones_epsilon(n, epsilon, delta)
        assert row["eps0_blanket"] <= own <= 1.006 * row["eps0_blanket"]
        assert row["eps0_clones"] <= any_randomizer <= 1.006 * row["eps0_clones"]
        assert row["eps0_closed"] < any_randomizer < own


@pytest.mark.parametrize("messages", [1, 8])
def test_pure_local_privacy_is_enough(messages):
    """Without other clients, and for a negligible delta, each message has its share of epsilon."""
    assert privunit_epsilon(1, messages, 2.0, 1e-12) == pytest.approx(2.0 / messages, rel=1e-9)
    assert privunit_epsilon(100, messages, 2.0, 1e-300) >= 2.0 / messages * (1 - 1e-12)


def test_error_decreases_with_messages():
    """MSE times n over d, at equal bits of error budget, along the ladder of messages."""
    errors = []
    for messages in (1, 8, 64):
        local = privunit_epsilon(2000, messages, 1.0, 1e-6)
        errors.append(optimal_randomizer(local).mean_squared_error(1) / messages)
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize(("epsilon", "delta"), [(10.1, 1e-6), (50.0, 1e-12), (1.0, 0.11), (1.0, 0.999999999)])
def test_targets_beyond_the_accuracy_of_the_bound_are_refused(epsilon, delta):
    """One report of a large local epsilon has a delta far above the truncated sums."""
    for answer in (
        lambda: privunit_epsilon(10, 1, epsilon, delta),
        lambda: clones_epsilon(1, epsilon, delta),
    ):
        with pytest.raises(NoAnswerError) as caught:
            answer()
        assert caught.value.slug == "shuffle-out-of-range"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_one_client_has_the_exact_delta_of_the_clones(epsilon, delta):
    """With q = 1/2 and E = e^local - 1 it is (E + 1 - e^epsilon) q/(1 + q E), at most delta."""
    local = clones_epsilon(1, epsilon, delta)
    grown = math.expm1(local)
    assert (grown + 1 - math.exp(epsilon)) / 2 / (1 + grown / 2) <= delta * (1 + 1e-9) + 1e-15
