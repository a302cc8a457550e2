"""Replace-one from add and remove bounds, against the Gaussian, the Renyi triangle and brute force."""

import math

import numpy as np
import pytest

from csgm_cli import gaussian
from csgm_cli.bounds.triangle import triangle
from csgm_cli.bounds.worst_case import worst_case_law
from csgm_cli.model.certificate import Direction, Proof
from csgm_cli.model.mechanism import Mechanism
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.renyi.conversion import best_log_delta, renyi_log_delta
from csgm_cli.renyi.law import Coordinates, Law, merged_law
from csgm_cli.renyi.orders import RenyiCurve


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(0.02, 0.05), (0.1, 0.5), (0.3, 1.0), (0.7, 3.0), (1.5, 8.0), (0.1, 4.0)]
)
def test_bound_of_a_gaussian_is_that_of_twice_its_sensitivity(mu, epsilon):
    """Nothing is lost at gamma 1, at e1 = epsilon/2 - mu^2/2; and from below nothing is given away."""
    found = triangle(Law((), mu * mu), epsilon)
    exact = gaussian.log_delta(2 * mu, epsilon)
    assert exact - 1e-11 <= found.log_delta <= exact + 1e-8
    assert found.parts[0].epsilon == pytest.approx(epsilon / 2 - mu * mu / 2, rel=1e-3)


def test_bound_tends_to_that_of_the_gaussian_as_gamma_tends_to_one():
    """From below twice the sensitivity of all coordinates sent, where the profile is exact."""
    limit, gaps = gaussian.log_delta(2 * math.sqrt(0.5), 2.0), []
    for missing in (0.1, 1e-2, 1e-4):
        law = merged_law([Coordinates(50.0, 1 - missing, 0.01, is_largest=True)])
        gaps.append(limit - triangle(law, 2.0).log_delta)
    assert gaps[0] > gaps[1] > gaps[2] > 0.0
    assert gaps[2] < 1e-2


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("gamma", "count", "t", "epsilon"),
    [(0.01, 1e6, 5e-5, 2.0), (0.1, 24414.0, 2e-4, 3.0), (0.5, 1e4, 1e-5, 0.7), (1e-3, 1e7, 1e-3, 1.0)],
)
def test_bound_is_below_the_renyi_triangle_where_coordinates_are_small(gamma, count, t, epsilon, exact):
    """By a factor in delta that is worth 4 to 8.5 % of noise."""
    law = merged_law([Coordinates(count, gamma, t, exact)])
    renyi, _ = best_log_delta(RenyiCurve(law, replace_one=True), renyi_log_delta, epsilon)
    found = triangle(law, epsilon).log_delta
    assert found < renyi - 0.5
    limit = gaussian.log_delta(2 * math.sqrt(law.spread_variance), epsilon)
    assert found < limit + 0.3
    assert exact or found >= limit - 1e-9  # spread vectors (x, -x) are legal in the limit


@pytest.mark.parametrize("gamma", [0.01, 0.5])
@pytest.mark.parametrize(("s", "epsilon"), [(0.3, 0.05), (1.0, 1.0), (6.0, 3.0)])
def test_divergence_between_a_vector_and_its_negative_is_below_the_bound(gamma, s, epsilon):
    """One coordinate in one round, by direct quadrature of the two mixtures of normal densities."""
    x, width = np.linspace(-s - 12.0, s + 12.0, 400_001, retstep=True)
    bell = lambda mean: np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi)
    with_x, with_minus_x = ((1 - gamma) * bell(0.0) + gamma * bell(mean) for mean in (s, -s))
    true = float(np.maximum(with_x - math.exp(epsilon) * with_minus_x, 0.0).sum() * width)
    for is_largest in (False, True):
        law = merged_law([Coordinates(1.0, gamma, s * s, is_largest)])
        assert true <= triangle(law, epsilon).delta * (1 + 1e-9)


@pytest.mark.parametrize("exact", [False, True])
def test_parts_prove_the_bound(exact):
    """Add at e1, remove at e2, e1 + e2 = epsilon: delta_add + e^e1 delta_remove."""
    law = merged_law([Coordinates(300.0, 0.1, 0.05, exact), Coordinates(1.0, 0.1, 0.01, exact)])
    found = triangle(law, 2.5)
    add, remove = found.parts
    assert (found.proof, found.direction) == (Proof.TRIANGLE, None)
    assert (add.direction, remove.direction) == (Direction.ADD, Direction.REMOVE)
    assert add.epsilon + remove.epsilon == pytest.approx(2.5, rel=1e-15)
    total = math.exp(add.log_delta) + math.exp(add.epsilon + remove.log_delta)
    assert math.log(total) - 1e-15 <= found.log_delta <= math.log(total) + 1e-14
    assert 0.0 < found.hint < 1.0


def test_no_other_share_of_epsilon_has_a_smaller_bound():
    """The share that is found, from any other, to 1e-6 of log delta."""
    law = merged_law([Coordinates(300.0, 0.1, 0.05)])
    cold = triangle(law, 2.5)
    for share in (1e-3, 0.3, cold.hint, 0.7, 0.999):
        assert triangle(law, 2.5, share).log_delta == pytest.approx(cold.log_delta, abs=1e-6)


def test_epsilon_zero_is_the_sum_of_both_directions():
    """There is nothing to share."""
    law = merged_law([Coordinates(300.0, 0.1, 0.05)])
    found = triangle(law, 0.0)
    assert [part.epsilon for part in found.parts] == [0.0, 0.0]
    assert found.log_delta == pytest.approx(
        np.logaddexp(*(part.log_delta for part in found.parts)), abs=1e-12
    )


def test_bound_falls_with_epsilon_and_with_sigma():
    mechanism = Mechanism("l2-csgm", 0.05, Geometry(7.3), 4, "replace-one")
    by_epsilon = [triangle(worst_case_law([(mechanism, 0.3)]), e).log_delta for e in (0.5, 1, 2, 4)]
    by_sigma = [triangle(worst_case_law([(mechanism, s)]), 1.0).log_delta for s in (0.2, 0.3, 0.31, 0.6)]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    assert by_sigma == sorted(by_sigma, reverse=True)
