"""Bounds on client sampling against brute force: three coordinates, quadrature that shares no code."""

import math
import random

import numpy as np
import pytest
from scipy.special import ndtr

from csgm_cli.bounds.sampled import revealed_law
from csgm_cli.bounds.tight import bounds_by_grid, bounds_for_every_vector, direction_bound
from csgm_cli.bounds.worst_case import worst_case_law
from csgm_cli.model.certificate import Direction, Proof
from csgm_cli.model.geometry import Geometry
from csgm_cli.model.mechanism import Mechanism
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.profile.means import grid_of, upper_mean
from csgm_cli.renyi.law import Coordinates, Law, SampledRounds
from csgm_cli.renyi.sampled import dominating_variance

#: Coordinates and rounds of the brute force, and the step of the trapezoid rule in each coordinate.
STEPS = {(3, 1): 0.2, (2, 2): 0.25, (2, 3): 0.6, (3, 2): 0.6}
#: Its relative error, and the smallest delta for which it holds.
ERROR, LEAST = 2e-3, 1e-6


class Setting:
    """Clip norms for two or three coordinates, random gamma and noise, and a q for each round, maybe 1."""

    def __init__(self, rng, shape):
        self.dim, self.rounds = shape
        self.k = rng.uniform(1.0, self.dim - 0.05)
        self.gamma, self.s = rng.uniform(0.05, 0.95), rng.uniform(0.3, 1.0)
        rate = math.exp(rng.uniform(math.log(0.1), 0.0))
        self.rates = [rate, *(rng.choice([rate, 2 * rate / 3, 1.0]) for _ in range(self.rounds - 1))]
        step = STEPS[self.dim, self.rounds]
        self.x = np.arange(-5.0, 5.8, step)
        self.weight = step * np.exp(-(self.x**2) / 2) / math.sqrt(2 * math.pi)

    def __str__(self):
        return f"{self.dim}-{self.rounds}-{self.gamma:.2f}-{self.rates[0]:.2f}"

    @property
    def law(self):
        """The law at kappa* of all rounds."""
        geometry = Geometry(norm_ratio=math.sqrt(self.k))
        mechanisms = [Mechanism("l2-csgm", self.gamma, geometry, 1, sampling_rate=q) for q in self.rates]
        return worst_case_law([(each, geometry.linf_norm / self.s) for each in mechanisms])

    @property
    def worst(self):
        """t of the coordinates of kappa*."""
        whole = math.floor(self.k)
        return [*[self.s**2] * whole, (self.k - whole) * self.s**2, 0.0][: self.dim]

    def vectors(self, rng, count):
        """t of vectors within the clip norms: kappa*, an even one, and random ones of the same L2 norm."""
        yield self.worst
        yield [self.k / self.dim * self.s**2] * self.dim
        for _ in range(count):
            t = np.array([rng.expovariate(1.0) for _ in range(self.dim)])
            yield list(np.minimum(t * self.k / t.sum(), 1.0) * self.s**2)

    def products(self, ts):
        """Products of the likelihood ratios of coordinates at the nodes, and their weights."""
        y, weight = np.ones(1), np.ones(1)
        for t in ts:
            one = 1 - self.gamma + self.gamma * np.exp(math.sqrt(t) * self.x - t / 2)
            y, weight = np.outer(y, one).ravel(), np.outer(weight, self.weight).ravel()
        return y, weight

    def call(self, c, w, choices, rounds=None):
        """E(c u - w)_+ for an array c if the best of ``choices`` is sent in each round, given the past."""
        found, rounds = [], rounds or self.rounds
        rate = self.rates[-rounds]
        for ts in choices:
            if rounds == 1:
                found.append(self.call_of_round(c, w, ts, rate))
            else:
                y, weight = self.products(ts)
                after = np.outer(c, 1 - rate + rate * y)
                later = self.call(after.ravel(), w, choices, rounds - 1)
                found.append(later.reshape(after.shape) @ weight)
        return np.max(found, axis=0)

    def call_of_round(self, c, w, ts, rate):
        """E(c U - w)_+ of one round: the largest coordinate in closed form, others at nodes."""
        *rest, last = sorted(ts)
        y, weight = self.products(rest)
        slope = rate * np.outer(c, y)
        k = (w - (1 - rate) * c)[:, None] / slope
        return (slope * call_of_coordinate(last, self.gamma, k)) @ weight

    def delta(self, direction, epsilon, choices):
        """The hockey-stick divergence."""
        w = math.exp(epsilon if direction is Direction.ADD else -epsilon)
        call = float(self.call(np.ones(1), w, choices)[0])
        return call if direction is Direction.ADD else (call - 1 + w) / w


def call_of_coordinate(t, gamma, k):
    """E(Y - k)_+ of one coordinate: a Black-Scholes price."""
    k = (k - 1 + gamma) / gamma
    if t == 0.0:
        return gamma * np.maximum(1 - k, 0.0)
    d = -np.log(np.maximum(k, 1e-300)) / math.sqrt(t) + math.sqrt(t) / 2
    return gamma * np.where(k > 0.0, ndtr(d) - k * ndtr(d - math.sqrt(t)), 1 - k)


SHAPES = [*[(3, 1), (2, 2)] * 5, (2, 3), (3, 2)]
SETTINGS = [Setting(random.Random(seed), shape) for seed, shape in enumerate(SHAPES)]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_profile_at_the_worst_case_vector_by_brute_force(setting):
    """The certified grid of rounds, mixed with rounds without client sampling, in both directions."""
    law, choices = setting.law, [setting.worst]
    for direction in Direction:
        known = setting.delta(direction, 0.4, choices)
        upper = grid_of(law, direction, 0.4, math.inf).upper_mean(ConvexFunction(direction, 0.4))
        assert upper == pytest.approx(known, rel=2 * ERROR, abs=LEAST)
    known = setting.delta(Direction.ADD, 0.4, choices)
    lower = grid_of(law, Direction.ADD, 0.4, math.inf, upper=False).lower_hockey_stick(0.4)
    assert known * (1 - 0.02) - LEAST <= lower <= known * (1 + ERROR) + LEAST


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_vector_exceeds_the_bound(setting):
    """Random vectors, the same in every round."""
    rng = random.Random(setting.k)
    for direction, epsilon in ((Direction.ADD, 0.2), (Direction.ADD, 1.5), (Direction.REMOVE, 0.15)):
        bound = direction_bound(setting.law, direction, epsilon, None).delta
        for ts in setting.vectors(rng, 1 if setting.dim + setting.rounds > 4 else 4):
            assert setting.delta(direction, epsilon, [ts]) <= bound * (1 + ERROR) + LEAST


@pytest.mark.parametrize("setting", [each for each in SETTINGS if (each.dim, each.rounds) == (2, 2)], ids=str)
def test_no_adaptive_choice_of_vectors_exceeds_the_bound(setting):
    """The best of four vectors in each of two rounds, given the likelihood ratio of the first."""
    half = setting.s**2 * setting.k / 2
    choices = [setting.worst, [half, half], [setting.s**2, 0.0], [0.0, 0.0]]
    for direction, epsilon in ((Direction.ADD, 0.8), (Direction.REMOVE, 0.15)):
        bound = direction_bound(setting.law, direction, epsilon, None).delta
        assert setting.delta(direction, epsilon, choices) <= bound * (1 + ERROR) + LEAST


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_vector_exceeds_the_renyi_bounds(setting):
    """E[u^a] and E[u^(1-a)] are at most E[u^a] at kappa*, and E[u^-l] at most the remove bound."""
    rng, law = random.Random(setting.k), setting.law
    for ts in setting.vectors(rng, 6):
        y, weight = setting.products(ts)
        ratios = [1 - q + q * y for q in setting.rates]
        for order in (1.1, 1.7, 2.0, 3.4):
            most = law.log_moment(order).value
            for power in (order, 1 - order):
                assert sum(math.log(weight @ u**power) for u in ratios) <= most * (1 + 1e-6)
        for power in (0.3, 1.0, 4.0):
            most = power * (power + 1) / 2 * law.remove_variance
            assert sum(math.log(weight @ u**-power) for u in ratios) <= most * (1 + 1e-6)


def put(c, order, u):
    """The function with phi''(u) = (a-1) c^(1-a) u^(a-2) below c, and 0 above: extremal in F_a."""
    return np.where(u < c, c ** (1 - order) * u**order / order - u + c * (order - 1) / order, 0.0)


X = np.arange(-9.0, 12.0, 0.01)
WEIGHT = 0.01 * np.exp(-(X**2) / 2) / math.sqrt(2 * math.pi)


def lognormal(v):
    """G_v at the nodes."""
    return np.exp(math.sqrt(v) * X - v / 2)


@pytest.mark.parametrize("order", [1.2, 1.9, 2.0, 3.1, 9.0])
def test_subsampled_gaussian_dominates_every_function_of_the_class(order):
    """E phi(1 - q + q Y) <= E phi(1 - q + q G_v), where the last c spans all of F_a."""
    rng = random.Random(order)
    for _ in range(40):
        gamma, t, q = rng.uniform(0.02, 0.98), math.exp(rng.uniform(-3.0, 1.0)), rng.uniform(0.01, 1.0)
        v = dominating_variance(order, Law((Coordinates(1.0, gamma, t),)))
        y = 1 - gamma + gamma * lognormal(t)
        for c in 1 - q + q * np.exp(np.array([-1.5, -0.5, -0.1, 0.1, 0.5, 1.0, 3.0])):
            low, high = (WEIGHT @ put(c, order, 1 - q + q * each) for each in (y, lognormal(v)))
            assert low <= high * (1 + 1e-7) + 1e-12


@pytest.mark.parametrize("order", [1.1, 1.5, 1.9])
def test_matching_below_order_two_does_not_dominate_with_sampling(order):
    """At a small q means depend on the variance alone, and the matched Gaussian's is the smaller one."""
    gamma, t, q = 0.1, 1.0, 0.01
    moment = Law((Coordinates(1.0, gamma, t),)).log_moment(order).value
    v = 2 * moment / (order * (order - 1))
    y, matched = 1 - gamma + gamma * lognormal(t), lognormal(v)
    assert WEIGHT @ y**order == pytest.approx(WEIGHT @ matched**order, rel=1e-9)
    low, high = (WEIGHT @ ((1 - q + q * each) ** order - 1 - order * q * (each - 1)) for each in (y, matched))
    assert low > high * 1.01


MIXED = {
    "few": Law((), sampled=(SampledRounds(20.0, 0.1, Law((Coordinates(5.0, 0.2, 0.8),))),)),
    "many": Law((), sampled=(SampledRounds(300.0, 0.01, Law((Coordinates(4000.0, 0.05, 0.1),))),)),
    "with-unsampled": Law(
        (Coordinates(50.0, 0.1, 0.05),), 0.2, (SampledRounds(20.0, 0.1, Law((Coordinates(5.0, 0.2, 0.8),))),)
    ),
    "two-rates": Law(
        (Coordinates(10.0, 0.3, 0.4, is_largest=True),),
        sampled=(
            SampledRounds(20.0, 0.02, Law((Coordinates(9.0, 0.2, 0.8), Coordinates(1.0, 0.2, 0.1)))),
            SampledRounds(10.0, 0.2, Law((Coordinates(100.0, 0.5, 0.02),))),
        ),
    ),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("direction", Direction)
def test_every_bound_is_above_the_profile_of_the_worst_case_vector(name, direction):
    """Each method by itself, at epsilons on both sides of the remove direction's floor."""
    law = MIXED[name]
    for epsilon in (0.3, 1.0, 2.5):
        profile = grid_of(law, direction, epsilon, math.inf).upper_mean(ConvexFunction(direction, epsilon))
        for method in (*bounds_for_every_vector(law, direction), *bounds_by_grid(law, direction)):
            found = method(law, epsilon, None)
            if found is not None:
                assert found.delta >= profile * (1 - 0.01) - 1e-15, method


@pytest.mark.parametrize("name", MIXED)
def test_bounds_without_sampling_and_with_masks_revealed_are_larger_in_convex_order(name):
    """The law with every client in every round, and the one with every coordinate sent."""
    law = MIXED[name]
    for direction in Direction:
        function = ConvexFunction(direction, 0.7)
        least = upper_mean(law, function).log_value
        for larger in (law.without_sampling, revealed_law(law)):
            assert upper_mean(larger, function).log_value >= least - 1e-3


def test_remove_direction_vanishes_at_the_floor():
    """U > 1 - q in every round, so no loss exceeds -T log(1 - q); just below it some do."""
    law = MIXED["few"]
    floor = -20 * math.log1p(-0.1)
    found = [direction_bound(law, Direction.REMOVE, floor * (1 + x), None) for x in (1e-12, -0.05)]
    assert [each.log_delta == -math.inf for each in found] == [True, False]
    assert found[0].proof is Proof.PROFILE
    gaussian = Law((), 0.1, law.sampled)
    assert direction_bound(gaussian, Direction.REMOVE, floor + 1.0, None).log_delta > -math.inf
