"""Several shuffled messages: enumeration, direct convolution, references, grids."""

import math

import numpy as np
import pytest
from scipy.stats import binom, multinomial

from csgm_cli.local import composition
from csgm_cli.local.composition import composed_delta, count_law, shuffle_loss
from csgm_cli.local.randomizer import optimal_randomizer


def exact_losses(m, randomizer):
    """Losses log((m + E N_0)/(m + E N_1)) and their masses under P, by enumeration."""
    q, odds = randomizer.cap_mass, randomizer.odds
    first, second = (grid.ravel() for grid in np.mgrid[: m + 1, : m + 1])
    inside = first + second <= m
    first, second = first[inside], second[inside]
    base = multinomial.pmf(np.stack([first, second, m - first - second], 1), m, [q, q, 1 - 2 * q])
    return np.log((m + odds * first) / (m + odds * second)), base * (m + odds * first) / (m * (1 + q * odds))


def hockey_stick(losses, masses, epsilon):
    """E_P (1 - e^(eps - loss))^+."""
    return float(masses @ np.maximum(0.0, -np.expm1(epsilon - losses)))


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize(("m", "local", "epsilon"), [(6, 1.5, 0.7), (4, 8.0, 6.0), (3, 15.0, 10.0)])
def test_enumerated_compositions(times, m, local, epsilon):
    """For few reports: slightly above the sum over all tuples of outcomes, never below."""
    randomizer = optimal_randomizer(local)
    losses, masses = exact_losses(m, randomizer)
    sums, products = losses, masses
    for _ in range(times - 1):
        sums = (sums[:, None] + losses).ravel()
        products = (products[:, None] * masses).ravel()
    wanted = hockey_stick(sums, products, epsilon)
    law = shuffle_loss(m, randomizer, 1e-15)
    composed, _ = composition._convolved(law, times, 1e-12)
    grid = composed.step * (composed.first + np.arange(composed.mass.size))
    found = hockey_stick(grid, composed.mass, epsilon)
    assert wanted * (1 - 1e-9) <= found <= wanted * (1 + 1e-3)


def test_reference_message_counts(reference):
    """Counts found on a coarser grid are feasible, and at most 7 % more messages are; several are exact."""
    exact = 0
    for row in reference["privunit"]["multi"]:
        n, epsilon, delta, count = row["n"], row["eps"], row["delta"], row["messages"]
        randomizer = optimal_randomizer(row["eps0"])
        assert composed_delta(n, randomizer, count, epsilon, delta) <= delta
        exact += composed_delta(n, randomizer, count + 1, epsilon, delta) > delta
        more = math.ceil(1.07 * count) + 1
        assert composed_delta(n, randomizer, more, epsilon, delta) > delta
        assert row["mse"] == pytest.approx(randomizer.mean_squared_error(10**6) / (n * count), rel=1e-6)
    assert exact >= 5


@pytest.mark.parametrize(("m", "local"), [(5, 0.5), (400, 1.0), (4000, 2.0)])
def test_rounded_law_is_a_pair_of_probability_laws(m, local):
    """P and Q = e^-loss P both have mass 1: the mean of the likelihood ratio is preserved."""
    law = shuffle_loss(m, optimal_randomizer(local), 1e-15)
    losses = law.step * (law.first + np.arange(law.mass.size))
    assert law.mass.min() >= 0.0
    assert law.mass.sum() == pytest.approx(1.0, abs=1e-11)
    assert law.mass @ np.exp(-losses) == pytest.approx(1.0, abs=1e-11)


@pytest.mark.parametrize("steps", [1, 4, 50])
def test_rounded_counts_keep_their_means(monkeypatch, steps):
    """The law of the counts is multinomial; rounding keeps means and adds variance, less on a finer grid."""
    monkeypatch.setattr(composition, "_COUNT_STEPS", steps)
    m, q = 3000, 0.2
    counts, law = count_law(m, q, 1e-15)
    k = counts[1] - counts[0]
    side = law.sum(axis=1)
    assert law == pytest.approx(law.T, abs=1e-15)
    assert side.sum() == pytest.approx(1.0, abs=1e-10)
    assert side @ counts == pytest.approx(m * q, rel=1e-9)
    assert counts @ law @ counts == pytest.approx(m * (m - 1) * q * q, rel=1e-9)
    variance = side @ (counts - m * q) ** 2
    assert m * q * (1 - q) * (1 - 1e-9) <= variance <= m * q * (1 - q) + k * k / 4
    assert (k > 1) == (steps < 34)


def test_coarser_counts_increase_delta(monkeypatch):
    """Every hockey-stick divergence grows by rounding, by little on the grid in use."""
    randomizer, deltas = optimal_randomizer(0.5), []
    for steps in (4000, 50, 5):
        monkeypatch.setattr(composition, "_COUNT_STEPS", steps)
        deltas.append(composed_delta(20_000, randomizer, 64, 0.1, 1e-4))
    assert deltas[0] <= deltas[1] * (1 + 1e-9) <= deltas[2]
    assert deltas[1] <= 1.01 * deltas[0]


def test_tiny_deltas_are_not_below_the_error_of_the_transform():
    """Where the true delta is far below float64's resolution, the answer is the error allowance."""
    for scale in (1e-20, 1e-300):
        assert 64e-15 <= composed_delta(1000, optimal_randomizer(0.5), 64, 5.0, scale) <= 65e-15


@pytest.mark.parametrize("messages", [36, 4096])
def test_error_of_the_transform(messages):
    """Beyond nine standard deviations, where the true mass is below 1e-18, the allowance covers the rest."""
    law = shuffle_loss(500, optimal_randomizer(1.0), 1e-22)
    composed, _ = composition._convolved(law, messages, 1e-22)
    losses = composed.step * (composed.first + np.arange(composed.mass.size))
    mean = composed.mass @ losses
    far = losses > mean + 9 * math.sqrt(composed.mass @ (losses - mean) ** 2)
    assert abs(composed.mass[far].sum()) <= messages * composition._FFT_ERROR / 3


@pytest.mark.parametrize(
    ("n", "share", "tail"), [(1, 0.5, 1e-9), (2, 0.9, 1e-9), (1000, 0.3, 1e-12), (10**6, 0.01, 1e-9)]
)
def test_least_samples(n, share, tail):
    """A quantile: below it the binomial has at most the tail, one higher it has more."""
    found = composition._least_samples(n, share, tail)
    assert binom.cdf(found - 1, n - 1, share) <= tail or found == 0
    assert binom.cdf(found, n - 1, share) > tail
