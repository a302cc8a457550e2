"""Tight bounds on releases of different mechanisms: by quadrature, by random vectors, by their own laws."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from csgm_cli.core.certificate import Certificate, Proof
from csgm_cli.core.compose import composed_epsilon
from csgm_cli.core.composition import composition_of
from csgm_cli.core.law_oracle import Direction as OracleDirection
from csgm_cli.core.mixed_law import MixedLaw
from csgm_cli.core.mixed_oracle import certified_delta
from csgm_cli.core.mixed_tight import kappa_delta, mixed_delta
from csgm_cli.core.tight import kappa_delta as single_kappa_delta
from csgm_cli.core.tight import tight_delta
from csgm_cli.core.verify import verify_composed_epsilon
from csgm_cli.errors import NoAnswerError
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Geometry, Mechanism
from csgm_cli.profile.contour import Direction, Law, build_contour

DELTA = 1e-6
X = np.linspace(-14.0, 14.0, 40_001)
ROUNDED = 1e-15
BELL = np.exp(-X * X / 2) / math.sqrt(2 * math.pi) * (X[1] - X[0])


def gaussian(rounds, sigma):
    return Mechanism("gaussian", rounds=rounds), sigma


def one_coordinate(gamma, s, rounds=1):
    """The subsampled Gaussian, of which everything is known, at s = clip / sigma."""
    return Mechanism("linf-csgm", gamma, Geometry(1.0, dim=1), rounds), 1 / s


def sparse(gamma, k, rounds, sigma, dim=None):
    return Mechanism("l2-csgm", gamma, Geometry(math.sqrt(k), dim=dim), rounds), sigma


COMPRESSED = sparse(0.05, 1e4, 400, 0.9)
MIXTURES = {
    "cones": [COMPRESSED, gaussian(365, 40.0)],
    "two-gammas": [COMPRESSED, sparse(0.01, 1e6, 100, 0.03), gaussian(3, 10.0)],
    "capped": [sparse(0.05, 1e4, 400, 0.7), gaussian(365, 40.0), sparse(0.1, 100.0, 20, 1.5)],
    "visible": [sparse(0.01, 1.0, 100, 0.7), gaussian(1, 10.0)],
    "concave": [sparse(0.5, 110.25, 10, 2.0), gaussian(3, 10.0)],
    "exact": [(Mechanism("linf-csgm", 0.1, Geometry(10.0, dim=100), 10), 2.0), gaussian(1, 10.0)],
    "free-and-bound": [one_coordinate(0.1, 0.5, 20), sparse(0.02, 400.0, 50, 0.4)],
}


def spent(releases, accountant=Accountant.AUTO):
    return composed_epsilon(releases, accountant, DELTA)


# ---------------------------------------------------------------- two losses, integrated


def likelihood_ratios(gamma, s):
    """Y at the nodes X of the law without the client."""
    return 1 - gamma + gamma * np.exp(s * X - s * s / 2)


def gaussian_call(mu, y, c):
    """E[(y G - c)_+] for a lognormal G of mean 1 and log-variance mu^2, by Black and Scholes."""
    d = np.log(y / c) / mu + mu / 2
    return y * ndtr(d) - c * ndtr(d - mu)


def subsampled_call(gamma, s, y, c):
    """E[(y Y - c)_+] for one coordinate: it is linear beyond the x at which y Y = c."""
    odds = (c / y - 1 + gamma) / gamma
    x = np.where(odds > 0, (np.log(np.maximum(odds, 1e-300)) + s * s / 2) / s, -np.inf)
    return y * (gamma * ndtr(s - x) + (1 - gamma) * ndtr(-x)) - c * ndtr(-x)


def deltas(first, call, epsilon):
    """Both directions, with the second loss integrated in closed form and the first numerically."""
    c = math.exp(epsilon)
    add = float((BELL * call(first, c)).sum())
    remove = c * float((BELL * (call(first, 1 / c) - first + 1 / c)).sum())  # put-call parity
    return {Direction.ADD: add, Direction.REMOVE: remove}


def check_profile(releases, truth, epsilon):
    """Both directions' bounds enclose the truth, closely; the profile is exact here."""
    together = composition_of(releases)
    found = mixed_delta(together, epsilon, max(truth.values()))
    upper = {Direction.ADD: found.add, Direction.REMOVE: found.remove}
    assert found.bound is Bound.PROFILE
    assert found.upper == pytest.approx(max(truth.values()), rel=3e-5)
    for direction, value in truth.items():
        lower = kappa_delta(together, direction, epsilon, max(truth.values()))
        assert value * (1 - 3e-4) - ROUNDED < lower <= value * (1 + 1e-9) + ROUNDED
        assert value <= upper[direction].value * (1 + 1e-9) + ROUNDED


@pytest.mark.parametrize(
    ("gamma", "s", "mu", "epsilon"),
    [(0.1, 1.0, 0.3, 1.0), (0.01, 2.0, 0.5, 1.5), (0.5, 0.5, 0.05, 0.5), (0.9, 1.0, 1.0, 2.0)],
)
def test_a_gaussian_and_one_coordinate(gamma, s, mu, epsilon):
    """One integral over the coordinate's noise."""
    truth = deltas(likelihood_ratios(gamma, s), lambda y, c: gaussian_call(mu, y, c), epsilon)
    check_profile([gaussian(1, 1 / mu), one_coordinate(gamma, s)], truth, epsilon)


@pytest.mark.parametrize(
    ("first", "second", "epsilon"),
    [((0.1, 1.0), (0.02, 1.5), 0.7), ((0.5, 0.7), (0.3, 0.4), 0.4), ((0.2, 2.0), (0.6, 1.0), 2.0)],
)
def test_two_coordinates_sent_at_different_rates(first, second, epsilon):
    """No Gaussian is there to make the integrand fall: the blur alone ends the contour."""
    truth = deltas(likelihood_ratios(*first), lambda y, c: subsampled_call(*second, y, c), epsilon)
    check_profile([one_coordinate(*first), one_coordinate(*second)], truth, epsilon)


# ---------------------------------------------------------------- all vectors


def delta_at(releases, vectors, direction, epsilon):
    """Delta where the sparse releases use these t's in each round, by a contour of its own."""
    laws = tuple(
        Law(mechanism.gamma, tuple((float(mechanism.rounds), t) for t in ts if t > 0))
        for (mechanism, _), ts in zip(releases[:-1], vectors, strict=True)
    )
    mu = releases[-1][0].rounds / releases[-1][1] ** 2
    contour = build_contour(MixedLaw(laws, mu), direction, epsilon)
    value, error = contour.integral(-epsilon, np.ones_like(contour.z))
    return value - error - contour.aliases


def feasible(generator, k, t, dim):
    """The t's of a random vector: under both clips, with the largest L2 norm that these allow."""
    shape = generator.choice([0.02, 0.2, 1.0, 50.0])
    ts = generator.gamma(shape, size=dim) + 1e-12
    scale = 1.0
    for _ in range(60):
        scale *= k * t / np.minimum(ts * scale, t).sum()
    return np.minimum(ts * scale, t) * (1 - 1e-12)


FEW = [sparse(0.3, 3.5, 1, 0.7), sparse(0.05, 6.0, 1, 0.3)]
MANY = [sparse(0.3, 3.5, 100, 5.3), sparse(0.02, 6.0, 200_000, 4.1)]


@pytest.mark.parametrize(
    ("releases", "epsilon", "mu"), [(FEW, 0.3, 0.2), (FEW, 1.0, 0.5), (FEW, 2.0, 0.5), (MANY, 7.0, 0.2)]
)
def test_no_vector_exceeds_the_bound(releases, epsilon, mu):
    """Random vectors of two CSGM releases beside a Gaussian, kappa* and even spreads among them."""
    generator = np.random.default_rng(1)
    sizes = [(m.coordinates, (m.geometry.linf_norm / sigma) ** 2) for m, sigma in releases]
    vectors = [[feasible(generator, k, t, 12) for k, t in sizes] for _ in range(12)]
    vectors += [[[k * t / m] * m for k, t in sizes] for m in (6, 8, 12)]
    vectors.append([[t] * int(k) + [(k % 1) * t] for k, t in sizes])
    releases = [*releases, gaussian(1, 1 / mu)]
    found = mixed_delta(composition_of(releases), epsilon, 1e-3)
    for direction, proof in zip(Direction, (found.add, found.remove), strict=True):
        reached = max(delta_at(releases, ts, direction, epsilon) for ts in vectors)
        assert reached <= found.upper
        assert reached <= proof.value or found.add.value > found.remove.value  # dear proofs are left out
    assert max(delta_at(releases, ts, d, epsilon) for ts in vectors for d in Direction) > found.upper / 3


def test_capped_posteriors_bound_every_vector():
    """The remove direction's own bound, of a release that the test function does not suit."""
    found = mixed_delta(composition_of([*MANY, gaussian(1, 5.0)]), 7.0, 1e-3)
    assert found.remove.proof is Proof.REMOVE_CONE
    assert found.remove.z is not None


# ---------------------------------------------------------------- the oracle


@pytest.mark.parametrize("name", MIXTURES)
def test_agrees_with_the_oracle(name):
    """Each kind of proof is what independent code finds; the answer is between the lower bound and rdp."""
    found = spent(MIXTURES[name])
    assert verify_composed_epsilon(MIXTURES[name], DELTA, found).relative_difference < 1e-4
    assert found.lower <= found.value < spent(MIXTURES[name], Accountant.RDP).value


def test_the_proofs_are_of_every_kind():
    """So that the test above is one of all of them."""
    proofs = set()
    for releases in MIXTURES.values():
        found = mixed_delta(composition_of(releases), spent(releases).value, DELTA)
        proofs |= {found.add.proof, found.remove.proof}
    assert proofs == set(Proof) - {Proof.RDP}


@pytest.mark.parametrize(
    ("proof", "exponent", "spread"),
    [(Proof.ADD_CONE, 9.6, 0.3), (Proof.REMOVE_CONE, 9.6, None), (Proof.PROFILE, None, None)],
)
def test_the_oracle_refuses_what_is_not_proven(proof, exponent, spread):
    """Exponents above (1-g)/(2g) = 9.5 fit no good set; the profile proves nothing of spread vectors."""
    bad = Certificate(proof, 1.0, exponent, spread)
    with pytest.raises(NoAnswerError, match="does not fit"):
        certified_delta(MIXTURES["cones"], 6.0, OracleDirection.ADD, bad)


@pytest.mark.parametrize(
    ("releases", "delta"),
    [
        ([sparse(6.233e-4, 3660.0, 9, 0.01285), sparse(0.7159, 92964.8, 96, 337.7)], 1.378e-10),
        ([sparse(0.0028935, 23.914, 7, 0.26848), sparse(1.6693e-4, 9082.0, 4, 0.0060495)], 3.056e-7),
    ],
)
def test_few_mask_bits_of_several_releases_are_verified(releases, delta):
    """Where a blur alone would end the contour late."""
    found = composed_epsilon(releases, Accountant.AUTO, delta, with_lower=False)
    assert found.bound is Bound.TIGHT_ADD
    assert verify_composed_epsilon(releases, delta, found).relative_difference < 1e-3


@pytest.mark.parametrize("k", [10.5, 10.999])
def test_a_rest_in_one_coordinate_leaves_room_for_other_vectors(k):
    """Eleven coordinates that cannot all be at the clip prove no more than any number of them."""
    bad_pairs = Certificate(Proof.REMOVE_CONE, 1.0, exponent=8.0)
    one, other = (
        certified_delta(
            [sparse(0.05, k, 20, 0.9, dim), gaussian(1, 10.0)], 1.0, OracleDirection.REMOVE, bad_pairs
        )
        for dim in (11, None)
    )
    assert abs(one - other) < 1e-12 * other


def test_a_dimension_next_to_k_is_verified():
    """There the float64 path counts what the oracle counts."""
    releases = [sparse(0.00495, 41622.654, 8, 0.025925, 41623), one_coordinate(0.2755, 0.01908, 28)]
    found = composed_epsilon(releases, Accountant.AUTO, 6.2e-10, with_lower=False)
    assert found.bound in (Bound.TIGHT_ADD, Bound.TIGHT_REMOVE)
    assert verify_composed_epsilon(releases, 6.2e-10, found).relative_difference < 1e-3


# ---------------------------------------------------------------- laws


def test_less_than_the_sum_of_the_parts():
    """README's population: together 6.14, by Renyi 6.48, apart 5.57 + 2.61."""
    releases = MIXTURES["cones"]
    together = spent(releases)
    apart = [spent([release]).value for release in releases]
    assert max(apart) < together.value < 0.95 * spent(releases, Accountant.RDP).value < 0.8 * sum(apart)
    assert together.bound is Bound.TIGHT_REMOVE
    assert spent(releases, Accountant.TIGHT) == together


@pytest.mark.parametrize("release", [COMPRESSED, MIXTURES["visible"][0], MIXTURES["exact"][0]])
@pytest.mark.parametrize(
    "further", [gaussian(1, 1e4), sparse(0.01, 100.0, 1, 1e3), one_coordinate(0.3, 1e-4)]
)
def test_what_hardly_matters_never_helps(release, further):
    """A population of one kind is bounded in its own ways, and with next to nothing beside it no lower."""
    alone = composed_epsilon([release], Accountant.AUTO, DELTA, with_lower=False).value
    together = composed_epsilon([release, further], Accountant.AUTO, DELTA, with_lower=False).value
    assert alone <= together <= alone * 1.01


@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(sorted(MIXTURES)),
    st.sampled_from([gaussian(7, 30.0), sparse(0.1, 900.0, 5, 0.5), sparse(0.01, 20.0, 3, 0.4)]),
    st.integers(1, 40),
)
def test_a_further_release_adds(name, further, rounds):
    """Nor does one beside several; and more rounds of it cost more."""
    mechanism, sigma = further
    chain = [replace(mechanism, rounds=n) for n in (rounds, 2 * rounds)]
    populations = [MIXTURES[name], *([*MIXTURES[name], (more, sigma)] for more in chain)]
    found = [composed_epsilon(p, Accountant.AUTO, DELTA, with_lower=False).value for p in populations]
    assert found == sorted(found)


# ---------------------------------------------------------------- out of reach


def test_where_the_contour_is_out_of_reach():
    """A mask bit in plain sight gives the loss an atom: Renyi's bound is there, and tight says so."""
    plain = [sparse(0.001, 1.0, 1, 1 / 40), gaussian(1, 5.0)]
    found = spent(plain, Accountant.TIGHT)
    assert found.bound in (Bound.RDP, Bound.MASK_REVEALED)
    assert "out of reach" in found.fell_back


def test_under_replace_one():
    """Tight is not proven there: auto does not mind, and who asked by name is told."""
    releases = [(replace(m, adjacency=Adjacency.REPLACE_ONE), sigma) for m, sigma in MIXTURES["cones"]]
    assert "replace-one" in spent(releases, Accountant.TIGHT).fell_back
    assert spent(releases).fell_back == ""
    assert spent(releases).value == spent(releases, Accountant.TIGHT).value


@pytest.mark.parametrize("sigma", [1.2, 1.26, 1.3])
def test_the_concave_twin_is_found_at_large_epsilons(sigma):
    """With next to nothing beside it a release has what it has alone; Renyi's bound is 4.6 times that."""
    mechanism = Mechanism("l2-csgm", 0.8, Geometry(10.0), 100)
    alone = tight_delta(mechanism, sigma, 50.0)
    together = mixed_delta(composition_of([(mechanism, sigma), gaussian(1, 100.0)]), 50.0, alone.upper)
    assert alone.remove.proof is together.remove.proof is Proof.CONCAVE
    assert alone.upper <= together.upper <= alone.upper * (1 + 1e-3)
    shown = single_kappa_delta(mechanism, sigma, 50.0)
    assert shown <= alone.upper <= 2 * shown
