"""One round of shuffled reports: brute force, the sum over the number of reference samples, references."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from csgm_cli.errors import NoAnswerError
from csgm_cli.local.blanket import TRUNCATION, shuffled_delta, window
from csgm_cli.local.randomizer import optimal_randomizer


def direct_delta(n, q, odds, epsilon):
    """E_C delta_{C+1} with delta_m = E (W_1 + ... + W_m)^+ / (m (1 + q E)), every term written out."""
    share, total = 1 / (1 + q * odds), 0.0
    for others in range(n):
        m, mean = others + 1, 0.0
        for first in range(m + 1):
            second = np.arange(m - first + 1)
            mass = binom.pmf(first, m, q) * binom.pmf(second, m - first, q / (1 - q))
            sums = m * -math.expm1(epsilon) + odds * (first - math.exp(epsilon) * second)
            mean += float(mass @ np.maximum(sums, 0))
        total += binom.pmf(others, n - 1, share) * mean / (m * (1 + q * odds))
    return total


def randomized_response_delta(n, local, epsilon):
    """The largest delta of n shuffled bits over the other clients' bits and both victims, by enumeration."""
    keep = math.exp(local) / (1 + math.exp(local))
    worst = 0.0
    for bits in itertools.product([0, 1], repeat=n - 1):
        laws = []
        for victim in (0, 1):
            law = np.ones(1)
            for bit in (victim, *bits):
                law = np.convolve(law, [keep, 1 - keep] if bit == 0 else [1 - keep, keep])
            laws.append(law)
        for p, q in (laws, laws[::-1]):
            worst = max(worst, float(np.maximum(p - math.exp(epsilon) * q, 0).sum()))
    return worst


def test_brute_force_on_a_circle(reference):
    """Three clients: the blanket bound and the bound for any randomizer, and never below the truth."""
    for row in reference["privunit"]["brute"]:
        odds, epsilon = math.expm1(row["eps0"]), row["eps"]
        found = shuffled_delta(3, row["cap"] / row["arcs"], odds, epsilon, 1e-3)
        assert found == pytest.approx(row["blanket"], rel=1e-9)
        assert found >= row["brute"] * (1 - 1e-12)
        assert shuffled_delta(3, 0.5, odds, epsilon, 1e-3) == pytest.approx(row["clones"], rel=1e-9)


@pytest.mark.parametrize(
    ("n", "local", "epsilon"), [(1, 2.0, 0.5), (2, 1.0, 0.3), (6, 2.0, 0.5), (9, 1.5, 0.2)]
)
def test_randomized_response_is_within_the_bound(n, local, epsilon):
    """Bits are the randomizer with caps of mass 1/2; without other clients the bound is attained."""
    truth = randomized_response_delta(n, local, epsilon)
    bound = shuffled_delta(n, 0.5, math.expm1(local), epsilon, 1e-3)
    assert truth <= bound * (1 + 1e-12)
    assert n > 1 or bound == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("q", [0.5, 0.2, 0.01])
@pytest.mark.parametrize(
    ("n", "local", "epsilon"),
    [
        (2, 1.0, 0.3),
        (12, 2.0, 0.5),
        (40, 3.0, 1.0),
        (40, 0.5, 0.1),
        (2, 25.0, 9.0),
        (5, 20.0, 8.0),
        (12, 15.0, 3.0),
    ],
)
def test_sum_over_reference_samples(q, n, local, epsilon):
    """The single expectation equals the sum over how many other reports are reference samples."""
    odds = math.expm1(local)
    wanted = direct_delta(n, q, odds, epsilon)
    found = shuffled_delta(n, q, odds, epsilon, wanted)
    assert wanted * (1 - 1e-12) <= found <= wanted * (1 + 2e-8)


def test_staircases_are_upper_bounds(reference):
    """At the local epsilons found by staircases over the number of reference samples, delta is met."""
    for row in reference["privunit"]["shuffle"]:
        n, epsilon, delta = row["n"], row["eps"], row["delta"]
        own = optimal_randomizer(row["eps0_blanket"])
        assert 0.8 * delta < shuffled_delta(n, own.cap_mass, own.odds, epsilon, delta) < delta
        assert 0.8 * delta < shuffled_delta(n, 0.5, math.expm1(row["eps0_clones"]), epsilon, delta) < delta


def test_delta_decreases_with_n_and_epsilon_and_increases_with_local_epsilon():
    """More clients hide more; truncation and rounding do not reverse that."""

    def delta(n, local, epsilon):
        own = optimal_randomizer(local)
        return shuffled_delta(n, own.cap_mass, own.odds, epsilon, 1e-8)

    for values in (
        [delta(n, 3.0, 1.0) for n in (10, 30, 100, 300, 1000)],
        [delta(500, 3.0, epsilon) for epsilon in (0.3, 0.5, 0.9, 1.3)],
        [delta(500, local, 1.0) for local in (5.0, 4.0, 3.0, 2.5)],
    ):
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("n", "p"), [(1, 0.4), (50, 0.01), (10**6, 0.3), (10**9, 1e-8)])
def test_windows_hold_all_but_the_tail(n, p):
    """Binomial distribution functions confirm Bernstein's inequality, whatever the client's own report is."""
    counts = window(n, p, 1e-12)
    for own in (0, 1):
        assert binom.cdf(counts[0] - own - 1, n - 1, p) <= 1e-12
        assert binom.sf(counts[-1] - own, n - 1, p) <= 1e-12


@pytest.mark.parametrize("local", [1.0, 5.0, 15.0, 25.0])
def test_omitted_terms_are_below_the_allowance(local):
    """With a thousandth of the allowance for truncation, the bound decreases by at most that allowance."""
    own = optimal_randomizer(local)
    for n, epsilon, scale in ((3, 1.0, 1e-4), (50, 0.5, 1e-6), (400, 3.0, 1e-8)):
        found, finer = (shuffled_delta(n, own.cap_mass, own.odds, epsilon, x) for x in (scale, scale / 1e3))
        assert 0.0 <= found - finer <= 5 * TRUNCATION * scale + 1e-12 * found


def test_too_many_cells_are_refused():
    """At a tiny epsilon with many clients the sum would not fit."""
    with pytest.raises(NoAnswerError) as caught:
        shuffled_delta(10**9, 0.4, math.expm1(0.5), 0.001, 1e-8)
    assert caught.value.slug == "shuffle-too-large"
