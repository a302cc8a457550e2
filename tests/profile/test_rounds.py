"""The law of one round with client sampling on a grid, and profiles of several rounds."""

import math

import numpy as np
import pytest

from csgm_cli.bounds.worst_case import worst_case_law
from csgm_cli.gaussian import log_delta
from csgm_cli.model.certificate import Direction
from csgm_cli.model.geometry import Geometry
from csgm_cli.model.mechanism import Mechanism
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.profile.means import grid_of
from csgm_cli.profile.rounds import sampled_ratio
from csgm_cli.renyi.law import Coordinates, Law, SampledRounds

#: Relative distance of the grid's bounds from the profile.
ABOVE, BELOW = 4e-3, 2e-2


def law_of(row):
    """The law at kappa* for a row of the reference values."""
    geometry = Geometry(norm_ratio=math.sqrt(row["k"]))
    mechanism = Mechanism("l2-csgm", row["gamma"], geometry, row["T"], sampling_rate=row["q"])
    return worst_case_law([(mechanism, row["sigma_over_D2"])])


def upper_profile(law, direction, epsilon):
    """An upper bound on the hockey-stick divergence on a grid."""
    return grid_of(law, direction, epsilon, math.inf).upper_mean(ConvexFunction(direction, epsilon))


def lower_profile(law, epsilon):
    """A lower bound in the add direction on a grid."""
    return grid_of(law, Direction.ADD, epsilon, math.inf, upper=False).lower_hockey_stick(epsilon)


def sampled(rate, inner, rounds=1.0):
    """The law of rounds with client sampling."""
    return Law((), sampled=(SampledRounds(rounds, rate, inner),))


@pytest.mark.parametrize("place", range(3))
def test_profile_of_reference_values(reference, place):
    row = reference["client_sampling"]["profile"][place]
    law, epsilon = law_of(row), row["epsilon"]
    for direction in Direction:
        known = row[f"delta_{direction}_kappa_star"]
        assert known * (1 - 1e-6) <= upper_profile(law, direction, epsilon) <= known * (1 + ABOVE)
    known = row["delta_add_kappa_star"]
    assert known * (1 - BELOW) <= lower_profile(law, epsilon) <= known * (1 + 1e-6)


@pytest.mark.parametrize("rest", [1e-15, 1e-9, 1e-4, 0.5, 1 - 1e-9])
def test_small_remainder_does_not_refine_the_grid(rest):
    """A coordinate with hardly any signal changes neither the bounds nor whether there are any."""
    t = 1.15
    whole = sampled(0.01, Law((Coordinates(400.0, 0.05, t),)), 100.0)
    more = sampled(0.01, Law((Coordinates(1.0, 0.05, rest * t), Coordinates(400.0, 0.05, t))), 100.0)
    one_more = sampled(0.01, Law((Coordinates(401.0, 0.05, t),)), 100.0)
    least, most = lower_profile(whole, 2.0), upper_profile(one_more, Direction.ADD, 2.0)
    for value in (lower_profile(more, 2.0), upper_profile(more, Direction.ADD, 2.0)):
        assert least * (1 - BELOW) <= value <= most * (1 + ABOVE)


ROUND = Law((Coordinates(30.0, 0.1, 0.6), Coordinates(1.0, 0.1, 0.3)))


#: In the second one large ratios are likely, and left out where the grid ends.
INNER = [ROUND, Law((Coordinates(3.0, 0.3, 50.0),))]


@pytest.mark.parametrize("inner", INNER, ids=["light", "heavy"])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("rate", [0.9, 0.1, 1e-3])
def test_mass_and_mean_of_one_round(rate, upper, inner):
    """P = 1 and E[U] = 1, all that is left out included; never less for upper, or more for lower bounds."""
    ratio = sampled_ratio(SampledRounds(1.0, rate, inner), 5.0, upper=upper)
    cells = ratio.cells(np.linspace(ratio.bottom - 0.1, ratio.cut(5.0, 1.0), 1000))
    mass, mean = math.fsum(cells.mass) + cells.tail_mass, math.fsum(cells.mean) + cells.tail_mean
    near = 1e-6 if inner is ROUND else 1.0
    for total in (mass, mean):
        assert (1 - 1e-12 <= total <= 1 + near) if upper else (1 - near <= total <= 1 + 1e-12)


@pytest.mark.parametrize("rate", [0.7, 0.1, 0.01])
def test_one_round_add_is_the_unsampled_profile(rate):
    """delta_q(eps) = q delta(log(1 + (e^eps - 1)/q)) for every vector."""
    for epsilon in (0.1, 0.5, 1.5):
        inner = math.log1p(math.expm1(epsilon) / rate)
        low, high = lower_profile(ROUND, inner), upper_profile(ROUND, Direction.ADD, inner)
        law = sampled(rate, ROUND)
        assert (
            rate * low * (1 - ABOVE)
            <= upper_profile(law, Direction.ADD, epsilon)
            <= rate * high * (1 + ABOVE)
        )
        assert rate * low * (1 - BELOW) <= lower_profile(law, epsilon) <= rate * high * (1 + 1e-6)


@pytest.mark.parametrize("rate", [0.7, 0.3])
def test_one_round_remove_is_the_unsampled_profile(rate):
    """delta_q(eps) = (1 - e^eps (1 - q)) delta(-log((e^-eps - 1 + q)/q)), 0 from -log(1 - q) on."""
    floor = -math.log1p(-rate)
    for share in (0.1, 0.3, 0.6):
        epsilon = share * floor
        inner = -math.log((math.exp(-epsilon) - 1 + rate) / rate)
        known = (1 - math.exp(epsilon) * (1 - rate)) * upper_profile(ROUND, Direction.REMOVE, inner)
        found = upper_profile(sampled(rate, ROUND), Direction.REMOVE, epsilon)
        assert found == pytest.approx(known, rel=ABOVE)
    assert upper_profile(sampled(rate, ROUND), Direction.REMOVE, 1.01 * floor) < 1e-15


@pytest.mark.parametrize("rate", [0.5, 0.05, 1e-3])
def test_one_round_of_a_gaussian_is_the_analytic_gaussian(rate):
    """As above with the closed form of the Gaussian mechanism: all coordinates are sent."""
    mu = 1.3
    law = Law((Coordinates(1.0, rate, mu**2, is_largest=True),))
    for epsilon in (0.05, 0.5, 2.0):
        known = rate * math.exp(log_delta(mu, math.log1p(math.expm1(epsilon) / rate)))
        assert known * (1 - 1e-6) <= upper_profile(law, Direction.ADD, epsilon) <= known * (1 + ABOVE)
        assert known * (1 - BELOW) <= lower_profile(law, epsilon) <= known * (1 + 1e-6)


def test_a_round_that_sends_all_is_a_coordinate():
    """gamma = 1 inside a round and the coordinate that is sent with probability q have one law."""
    for direction in Direction:
        two = [
            upper_profile(law, direction, 1.0)
            for law in (sampled(0.1, Law((), 1.5), 20.0), Law((Coordinates(20.0, 0.1, 1.5),)))
        ]
        assert two[0] == pytest.approx(two[1], rel=ABOVE)


@pytest.mark.parametrize(("rate", "gamma", "noise"), [(0.06, 0.02, 0.75), (0.5, 0.1, 4.0), (0.01, 0.05, 0.5)])
def test_one_coordinate_is_sent_with_the_product_of_the_rates(rate, gamma, noise):
    """1 - q + q (1 - g + g M): the step fits also where a mask bit, not the spread of y, decides."""
    both = sampled(rate, Law((Coordinates(1.0, gamma, noise**-2),)), 700.0)
    plain = Law((Coordinates(700.0, rate * gamma, noise**-2),))
    known = upper_profile(plain, Direction.ADD, 0.4)
    assert upper_profile(both, Direction.ADD, 0.4) == pytest.approx(known, rel=0.01)
    assert known * (1 - 2 * BELOW) <= lower_profile(both, 0.4) <= known
