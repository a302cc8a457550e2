"""Lower bounds from legal pairs of neighbouring data sets, and the laws that they are at."""

import math
import random

import pytest
from scipy.special import ndtr

from csgm_cli import gaussian
from csgm_cli.bounds.lower import lower_log_delta, spread_law
from csgm_cli.bounds.tight import tight
from csgm_cli.bounds.triangle import triangle
from csgm_cli.bounds.worst_case import is_elementwise_largest, paper_law, worst_case_law
from csgm_cli.model.mechanism import Adjacency, Mechanism
from csgm_cli.model.mechanism_table import Geometry


def random_releases(count, seed, adjacency):
    """(releases, epsilon) with coordinates of all sizes, with or without a dimension and a Gaussian."""
    rng = random.Random(seed)
    for _ in range(count):
        gamma, ratio, rounds = 10 ** rng.uniform(-4, -0.05), 10 ** rng.uniform(0, 1.7), rng.choice([1, 3, 40])
        dim = rng.choice([None, math.ceil(ratio**2 * 10 ** rng.uniform(0, 1))])
        mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio, dim=dim), rounds, adjacency)
        epsilon = 10 ** rng.uniform(-1, 1)
        sigma = gamma * math.sqrt(rounds) / gaussian.mu_for(epsilon, 10 ** rng.uniform(-9, -1))
        releases = [(mechanism, sigma * 10 ** rng.uniform(0, 0.7))]
        if rng.random() < 0.3:
            releases.append((Mechanism("gaussian", adjacency=adjacency), 30 / epsilon))
        yield releases, epsilon


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_lower_bound_is_below_the_upper_one(adjacency):
    """Random releases under both neighbouring relations; somewhere the two are close."""
    gaps = []
    for releases, epsilon in random_releases(10 if adjacency is Adjacency.ADD_REMOVE else 4, 4, adjacency):
        law = worst_case_law(releases)
        if adjacency is Adjacency.REPLACE_ONE:
            upper = triangle(law, epsilon).log_delta
        else:
            upper = max(c.log_delta for c in tight(law, epsilon).values())
        lower = lower_log_delta(releases, epsilon)
        assert lower <= upper + 1e-9, (releases, epsilon)
        gaps.append(upper - lower)
    assert min(gaps) < 0.3


def test_one_coordinate_has_its_closed_form():
    """k = 1, one round: the profile at kappa* is a normal integral, found on the grid to 2e-3."""
    gamma, s, epsilon = 0.1, 1.0, 0.5
    x = (math.log((math.exp(epsilon) - 1 + gamma) / gamma) + s * s / 2) / s
    exact = gamma * ndtr(s - x) + (1 - gamma - math.exp(epsilon)) * ndtr(-x)
    for geometry in (Geometry(1.0, dim=1), Geometry(1.0)):
        found = math.exp(lower_log_delta([(Mechanism("l2-csgm", gamma, geometry), 1 / s)], epsilon))
        assert exact * (1 - 2e-3) <= found <= exact * (1 + 1e-9)


def test_spread_vectors_win_where_delta_is_large():
    """gamma 0.05, k = 4, sigma 0.3 Di, epsilon 0.5: 0.1307 at kappa*, 0.1353 for five equal coordinates."""
    sigma = 0.3 / 2.0
    concentrated = math.exp(lower_log_delta([(Mechanism("l2-csgm", 0.05, Geometry(2.0, dim=4)), sigma)], 0.5))
    spread = math.exp(lower_log_delta([(Mechanism("l2-csgm", 0.05, Geometry(2.0, dim=5)), sigma)], 0.5))
    assert concentrated == pytest.approx(0.1307, abs=2e-4)
    assert spread == pytest.approx(0.1353, abs=2e-4)


def test_spread_law_has_all_coordinates_alike():
    """dim coordinates of the same t per round, and their Gaussian limit where dim is not known."""
    mechanism = Mechanism("l2-csgm", 0.2, Geometry(3.0, l2_norm=2.0, dim=36), 5)
    [alike] = spread_law([(mechanism, 4.0)]).coordinates
    assert (alike.count, alike.gamma) == (180.0, 0.2)
    assert alike.t == pytest.approx((2.0 / 4.0) ** 2 / 36, rel=1e-14)
    unknown = Mechanism("l2-csgm", 0.2, Geometry(3.0, l2_norm=2.0), 5)
    limit = spread_law([(unknown, 4.0)])
    assert limit.coordinates == ()
    assert limit.gaussian == pytest.approx(5 * (0.2 * 2.0 / 4.0) ** 2, rel=1e-14)


def test_lower_bound_tends_to_the_gaussian_limit_with_the_dimension():
    """Large dimensions are next to the limit of log-variance gamma^2 mu^2."""
    gamma, sigma, epsilon = 0.1, 0.05, 3.0
    limit = gaussian.log_delta(gamma / sigma, epsilon)
    for dim in (10**6, 10**9, None):
        mechanism = Mechanism("l2-csgm", gamma, Geometry(300.0, dim=dim))
        assert lower_log_delta([(mechanism, sigma)], epsilon) >= limit - 1e-3
    mechanism = Mechanism("l2-csgm", gamma, Geometry(1e6))
    assert lower_log_delta([(mechanism, sigma)], epsilon) == pytest.approx(limit, abs=1e-3)


def test_replace_one_of_spread_vectors_is_a_gaussian_of_twice_the_mu():
    """The pair (x, -x), in the limit of many coordinates."""
    mechanism = Mechanism("l2-csgm", 0.1, Geometry(300.0), adjacency="replace-one")
    found = lower_log_delta([(mechanism, 0.1)], 3.0)
    assert found == pytest.approx(gaussian.log_delta(2.0, 3.0), abs=1e-8)


# ---------------------------------------------------------------- the worst-case law


def test_worst_case_law_fills_coordinates_up_to_the_clip():
    """floor(k) at the clip and the remainder, both times rounds; equal ones of several releases together."""
    mechanism, other = (
        Mechanism("l2-csgm", 0.1, Geometry(1.5), 4),
        Mechanism("l2-csgm", 0.1, Geometry(1.5), 3),
    )
    law = worst_case_law([(mechanism, 0.5), (other, 0.5), (Mechanism("gaussian", rounds=2), 10.0)])
    rest, full = sorted(law.coordinates, key=lambda c: c.t)
    assert (full.count, rest.count) == (14.0, 7.0)
    t = (1 / 1.5 / 0.5) ** 2
    assert full.t == pytest.approx(t, rel=1e-14)
    assert rest.t == pytest.approx(0.25 * t, rel=1e-13)
    assert law.gaussian == pytest.approx(0.02, rel=1e-14)


def test_paper_law_counts_a_real_number_of_coordinates():
    [found] = paper_law([(Mechanism("l2-csgm", 0.1, Geometry(1.5), 4), 0.5)]).coordinates
    assert found.count == pytest.approx(9.0, rel=1e-15)


@pytest.mark.parametrize(
    ("mechanism", "largest"),
    [
        (Mechanism("l2-csgm", 0.1, Geometry(3.0)), False),
        (Mechanism("l2-csgm", 0.1, Geometry(3.0, dim=10)), False),
        (Mechanism("l2-csgm", 0.1, Geometry(3.0, dim=9)), True),
        (Mechanism("linf-csgm", 0.1, Geometry(3.0, dim=100)), True),
        (Mechanism("gaussian"), True),
    ],
)
def test_kappa_star_is_elementwise_largest_where_it_fills_the_dimension(mechanism, largest):
    """One release for which it is not spoils that for all."""
    assert is_elementwise_largest([(mechanism, 1.0)]) is largest
    assert not is_elementwise_largest([(mechanism, 1.0), (Mechanism("l2-csgm", 0.1, Geometry(3.0)), 1.0)])
