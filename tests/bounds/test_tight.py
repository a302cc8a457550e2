"""The tight bound against profiles of legal vectors, exact profiles and an adaptive adversary."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from csgm_cli.bounds.by_order import RENYI
from csgm_cli.bounds.lower import lower_log_delta
from csgm_cli.bounds.tight import direction_bound, tight
from csgm_cli.bounds.worst_case import is_elementwise_largest, worst_case_law
from csgm_cli.model.certificate import Direction, Proof
from csgm_cli.model.mechanism import Mechanism
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.profile.contour import build_contour
from csgm_cli.profile.convex import ConvexFunction
from csgm_cli.profile.means import grid_of
from csgm_cli.renyi.law import Coordinates, merged_law

#: Rounding of a bound and of the profile beside it, in log delta.
ROUNDING = 1e-9


def profile(law, direction, epsilon):
    """Log of a lower bound on the exact delta of one vector; None where no method reaches."""
    function = ConvexFunction(direction, epsilon)
    built = build_contour(law, direction, epsilon)
    found = None if built is None else built.mean(function)
    if found is not None:
        return found.log_lower if found.log_lower > -math.inf else None
    if direction is Direction.REMOVE:
        return None
    grid = grid_of(law, direction, epsilon, math.inf, upper=False)
    value = 0.0 if grid is None else grid.lower_hockey_stick(epsilon)
    return math.log(value) if value > 0.0 else None


def call(gamma, t, threshold):
    """E(Y - threshold)_+ of one coordinate, in closed form."""
    threshold, s = np.maximum(threshold, 1e-300), math.sqrt(t)
    x = (np.log(np.maximum((threshold - 1 + gamma) / gamma, 1e-300)) + t / 2) / s
    inside = gamma * ndtr(s - x) + (1 - gamma - threshold) * ndtr(-x)
    return np.where(threshold <= 1 - gamma, 1 - threshold, np.maximum(inside, 0.0))


def nodes(gamma, t):
    """Values of Y with their weights under Q."""
    s = math.sqrt(t)
    x, width = np.linspace(-9.0, 9.0 + 2 * s, 2001, retstep=True)
    return 1 - gamma + gamma * np.exp(x * s - t / 2), np.exp(-x * x / 2) * width / math.sqrt(2 * math.pi)


SETTINGS = {
    "gamma": st.floats(math.log(1e-5), math.log(0.95)).map(math.exp),
    "s": st.floats(math.log(0.02), math.log(4.0)).map(math.exp),
    "k": st.floats(0.0, math.log(3000.0)).map(math.exp),
    "rounds": st.sampled_from([1, 2, 7, 100]),
    "deviations": st.floats(0.2, 6.0),
}


@settings(max_examples=40)
@given(**SETTINGS, share=st.floats(0.0, 1.0), size=st.floats(0.05, 1.0))
@example(gamma=0.05, s=1 / 0.3, k=4.0, rounds=1, deviations=0.5, share=0.0, size=0.8)
@example(gamma=0.11806, s=1.5463, k=1.0818, rounds=2, deviations=4.0, share=1.0, size=0.5)
def test_profiles_of_legal_vectors_are_below_the_bound(gamma, s, k, rounds, deviations, share, size):
    """kappa*, and vectors of two levels, of which ``share`` of the squared norm is at the clip."""
    mechanism, sigma = Mechanism("l2-csgm", gamma, Geometry(math.sqrt(k)), rounds), 1 / (s * math.sqrt(k))
    law = worst_case_law([(mechanism, sigma)])
    epsilon = min(max(deviations * math.sqrt(law.variance), 2e-3), 50.0)
    bound = tight(law, epsilon)
    total, t = mechanism.coordinates * s * s, s * s * (1 - 1e-12)
    full = math.floor(share * total / t)
    lesser = math.ceil((total - full * t) / (size * t))
    vectors = [law]
    if lesser:
        left = (total - full * t) / lesser * (1 - 1e-12)
        levels = [Coordinates(float(rounds * n), gamma, u) for n, u in ((full, t), (lesser, left)) if n]
        vectors.append(merged_law(levels))
    for direction in Direction:
        for vector in vectors:
            exact = profile(vector, direction, epsilon)
            if exact is not None and exact > -600.0:
                assert exact <= bound[direction].log_delta + ROUNDING, (direction, epsilon, vector)


@settings(max_examples=40)
@given(**SETTINGS, room=st.none() | st.floats(1.0, 50.0))
def test_lower_bound_is_below_the_bound(gamma, s, k, rounds, deviations, room):
    """Also where the dimension is known, and where the profile is exact."""
    dim = None if room is None else math.ceil(room * k)
    mechanism, sigma = (
        Mechanism("l2-csgm", gamma, Geometry(math.sqrt(k), dim=dim), rounds),
        1 / (s * math.sqrt(k)),
    )
    releases = [(mechanism, sigma)]
    law = worst_case_law(releases)
    epsilon = min(max(deviations * math.sqrt(law.variance), 2e-3), 50.0)
    bound = tight(law, epsilon)
    upper = max(certificate.log_delta for certificate in bound.values())
    assert lower_log_delta(releases, epsilon) <= upper + ROUNDING


def test_an_adaptive_adversary_stays_below_the_bound():
    """Two rounds, the second vector chosen by the first one's loss: 9.14e-5; kappa* twice: 9.07e-5."""
    gamma, s, k, epsilon = 0.11806, 1.5463, 1.0818, 4.0
    t, rest = s * s, (k - 1) * s * s
    (first, w_first), (second, w_second) = nodes(gamma, t), nodes(gamma, rest)
    u = (first[:, None] * second[None, ::10]).ravel()
    weights = (w_first[:, None] * (10 * w_second[None, ::10])).ravel()
    log_thresholds = np.linspace(-3.0, epsilon + 1.0, 1500)
    values = []
    for large in np.linspace(t, k * t / 2, 9):
        y, w = nodes(gamma, k * t - large)
        values.append([float((w * y) @ call(gamma, large, math.exp(x) / y)) for x in log_thresholds])
    v = gamma**2 * k * t  # spread over infinitely many coordinates, a Gaussian
    far = (log_thresholds + v / 2) / math.sqrt(v)
    values.append(ndtr(math.sqrt(v) - far) - np.exp(log_thresholds) * ndtr(-far))
    log_values = np.log(np.maximum(values, 1e-300))
    thresholds = np.clip(epsilon - np.log(u), log_thresholds[0], log_thresholds[-1])
    each = [
        float((weights * u) @ np.exp(np.interp(thresholds, log_thresholds, column))) for column in log_values
    ]
    best = float((weights * u) @ np.exp(np.interp(thresholds, log_thresholds, log_values.max(axis=0))))
    mechanism = Mechanism("l2-csgm", gamma, Geometry(math.sqrt(k)), 2)
    law = worst_case_law([(mechanism, 1 / (s * math.sqrt(k)))])
    assert each[0] == pytest.approx(math.exp(profile(law, Direction.ADD, epsilon)), rel=2e-3)
    assert each[0] == pytest.approx(9.068e-5, rel=2e-3)
    assert best == pytest.approx(9.141e-5, rel=1e-3)
    assert best < tight(law, epsilon)[Direction.ADD].delta < 1.3 * best


@pytest.mark.parametrize(
    "mechanism",
    [
        Mechanism("linf-csgm", 0.05, Geometry(20.0, dim=500), 2),
        Mechanism("l2-csgm", 0.3, Geometry(4.0, dim=16), 3),
        Mechanism("l2-csgm", 0.01, Geometry(30.0, dim=900)),
    ],
)
def test_bound_is_the_exact_profile_where_kappa_star_is_elementwise_largest(mechanism):
    """Both directions, to the error of the contour; there the lower bound meets the upper one."""
    releases = [(mechanism, 0.4 if mechanism.gamma > 0.02 else 0.05)]
    law = worst_case_law(releases)
    assert is_elementwise_largest(releases)
    for epsilon in (0.5, 2.0):
        bound = tight(law, epsilon)
        larger = max(bound.values(), key=lambda certificate: certificate.log_delta)
        assert larger.proof is Proof.PROFILE
        assert larger.log_delta == pytest.approx(profile(law, larger.direction, epsilon), abs=1e-8)
        assert lower_log_delta(releases, epsilon) == pytest.approx(larger.log_delta, abs=1e-8)


def test_remove_direction_without_losses_has_delta_zero():
    """No output makes "absent" more likely than (1 - gamma)^-count: the exact profile is 0 there."""
    law = merged_law([Coordinates(4.0, 0.3, 1.0, is_largest=True)])
    found = direction_bound(law, Direction.REMOVE, 1.5, None)
    assert found.proof is Proof.PROFILE
    assert found.log_delta == -math.inf


def test_bound_is_at_most_the_renyi_bound():
    """One direction at a time, for deltas that are not far below the least that is reported, 1e-300."""
    rng = random.Random(3)
    for _ in range(25):
        gamma, count, t = (
            10 ** rng.uniform(-4, -0.1),
            round(10 ** rng.uniform(0, 5)),
            10 ** rng.uniform(-4, 0.5),
        )
        law = merged_law([Coordinates(float(count), gamma, t)])
        epsilon = 10 ** rng.uniform(-2, 1)
        renyi = RENYI(law, epsilon).log_delta
        if renyi < -2000.0:
            continue
        for certificate in tight(law, epsilon).values():
            assert certificate.log_delta <= min(renyi, 0.0) + 1e-9 + 1e-10 * abs(renyi)


@pytest.mark.parametrize(
    ("gamma", "ratio", "noise"),
    [(0.01, 100.0, 0.0143), (0.1, 5.0, 0.35), (0.3, 2.0, 0.8), (1e-3, 30.0, 0.02)],
)
def test_bound_falls_with_epsilon_and_sigma_and_rises_with_rounds(gamma, ratio, noise):
    """The larger of the two directions, along each of the three."""

    def at(epsilon=1.0, more_noise=1.0, rounds=2):
        mechanism = Mechanism("l2-csgm", gamma, Geometry(ratio), rounds)
        bound = tight(worst_case_law([(mechanism, noise * more_noise)]), epsilon)
        return max(bound.values(), key=lambda certificate: certificate.log_delta)

    for values in (
        [at(epsilon=epsilon) for epsilon in (0.5, 0.8, 1.0, 1.01, 2.0)],
        [at(more_noise=factor) for factor in (0.9, 1.0, 1.001, 1.3, 2.0)],
        [at(rounds=rounds) for rounds in (9, 4, 3, 2, 1)],
    ):
        for earlier, later in itertools.pairwise(values):
            on_grid = earlier.step is not None or later.step is not None
            assert earlier.log_delta >= later.log_delta - (1e-4 if on_grid else 1e-9)
        assert values[0].log_delta > values[-1].log_delta


def test_settings_without_a_profile_still_have_a_bound():
    """Where the profile methods do not reach the closed forms are the answer."""
    law = merged_law([Coordinates(1e9, 1e-9, 0.01)])
    for certificate in tight(law, 0.01).values():
        assert certificate.proof in (Proof.GAUSSIAN_MATCHED, Proof.RENYI, Proof.RENYI_REMOVE)
        assert certificate.log_delta < 0.0
