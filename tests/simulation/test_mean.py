"""Simulated errors of the mean against the formulas, and formulas that are wrong on purpose.

Seeds are fixed; over other seeds each prediction would fail with probability 0.1 %.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.errors import UsageError
from csgm_cli.mechanism.client import encode
from csgm_cli.mechanism.plan import FLOAT16, Rotation, WireFormat
from csgm_cli.mechanism.rotation import rotate_back
from csgm_cli.simulation import mean as simulation
from csgm_cli.simulation.mean import simulate_mean
from tests.mechanism.plans import plan_with

CASES = {
    "gaussian": plan_with(0.5, dim=40, cohort_size=5),
    "l2-csgm": plan_with(0.05, "l2-csgm", 0.2, dim=64, cohort_size=5, ratio=2.0, rotation=Rotation.HADAMARD),
    "linf-csgm": plan_with(0.05, "linf-csgm", 0.2, dim=64, ratio=4.0, rotation=Rotation.HADAMARD),
    "padded hadamard": plan_with(0.01, "l2-csgm", 0.2, dim=40, ratio=3.0, rotation=Rotation.HADAMARD),
    "padded dct": plan_with(0.01, "l2-csgm", 0.2, dim=41, ratio=3.0, rotation=Rotation.DCT),
    "kashin": plan_with(0.01, "l2-csgm", 0.2, dim=60, ratio=3.0, rotation=Rotation.KASHIN),
    "sampled": plan_with(0.05, "l2-csgm", 0.3, dim=32, ratio=3.0, rounds=9, sampling_rate=0.25),
    "sampled gaussian": plan_with(0.05, dim=32, rounds=9, sampling_rate=0.25),
    "in turn": plan_with(0.05, "l2-csgm", 0.3, dim=32, rounds=2, disjoint_cohorts=True),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wire", [None, FLOAT16, WireFormat(4)], ids=str)
def test_formulas_hold(case, wire):
    """MSE and bias of each mechanism, rotation and wire format."""
    plan = CASES[case] if wire is None else replace(CASES[case], wire=wire)
    found = simulate_mean(plan, trials=100)
    assert found.holds, found.predictions


@pytest.fixture(scope="module")
def solved():
    """Prefix sums of three steps."""
    return csgm.factorize(3)


@pytest.mark.parametrize(("name", "gamma"), [("gaussian", 1.0), ("l2-csgm", 0.4), ("linf-csgm", 0.4)])
@pytest.mark.parametrize("given", ["factorization", "array"])
def test_formulas_hold_for_streams(solved, name, gamma, given):
    """With the row norms of the factorization, whether they are known or found from the array B."""
    norms = csgm.factor_norms(solved)
    plan = plan_with(0.1, name, gamma, dim=16, ratio=2.0, factorization=replace(norms, rows=None), epochs=1)
    found = simulate_mean(
        plan, trials=60, factors=solved if given == "factorization" else csgm.dense_factors(solved).B
    )
    assert found.holds, found.predictions
    assert found.worst_case_mse is not None


def test_unclipped_vectors_of_full_norm_have_the_error_of_calibrations():
    """d sigma^2/(n gamma)^2 + (1 - gamma) l2_norm^2/(n gamma), which `calibrate` reports as the MSE."""
    plan = plan_with(0.05, "l2-csgm", 0.25, dim=64, cohort_size=5, ratio=1.0)
    found = simulate_mean(plan, trials=20)
    expected = 64 * 0.05**2 / (5 * 0.25) ** 2 + 0.75 / (5 * 0.25)
    assert found.worst_case_mse == pytest.approx(expected, rel=1e-12)
    assert found.predictions[0].predicted == pytest.approx(expected, rel=1e-6)
    assert found.encoding_error < 1e-6


def test_given_vectors_are_those_that_are_averaged():
    """Zero vectors leave the noise alone, and small ones little more."""
    plan = plan_with(1.0, "l2-csgm", 0.5, dim=16, ratio=2.0)
    found = simulate_mean(plan, np.zeros((4, 16)), trials=50)
    assert found.holds
    assert found.predictions[0].predicted == pytest.approx(16 / (4 * 0.5) ** 2, rel=1e-12)
    assert found.encoding_error == 0.0


def test_clipping_is_reported_as_encoding_error():
    """Vectors twice as long as the clip lose half of their mean, which is no bias of the estimate."""
    plan = plan_with(0.1, "l2-csgm", 0.5, dim=16, ratio=1.0)
    found = simulate_mean(plan, np.full((4, 16), 0.5), trials=50)
    assert found.holds
    assert found.encoding_error == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("broken", "quantity"),
    [
        ("no noise", "mse"),
        ("scaled values", "relative_bias"),
        ("shifted values", "squared_bias"),
    ],
)
def test_errors_are_noticed(monkeypatch, broken, quantity):
    """Less noise than planned, payloads that shrink, and a constant that is added."""
    plan = plan_with(0.2, "l2-csgm", 0.5, dim=16, ratio=1.0)

    def other(used, vector, seed):
        if used.gamma == 1.0 or broken == "no noise":
            return encode(used, vector, seed)
        return encode(used, vector * 0.8 if broken == "scaled values" else vector[::-1].copy(), seed)

    monkeypatch.setattr(simulation, "encode", other)
    if broken == "no noise":
        monkeypatch.setattr(
            simulation, "Server", lambda used, **rest: _Server(replace(used, sigma=0.1), **rest)
        )
    found = simulate_mean(plan, trials=100)
    assert not {p.quantity: p.holds for p in found.predictions}[quantity]
    assert not found.holds


_Server = simulation.Server


@pytest.mark.parametrize("rotation", Rotation)
@pytest.mark.parametrize("dim", [1, 2, 7, 11, 16])
def test_shares_of_coordinates_that_are_left_without_padding(rotation, dim):
    """Against rotating each unit vector back."""
    plan = plan_with(dim=dim, rotation=rotation)
    brute = [float((rotate_back(plan, unit) ** 2).sum()) for unit in np.eye(plan.length)]
    assert simulation._kept_shares(plan) == pytest.approx(brute, abs=1e-12)


def test_the_same_seed_gives_the_same():
    """And another one something else."""
    plan = CASES["l2-csgm"]
    first, again, other = (simulate_mean(plan, trials=10, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("vectors", "slug"),
    [
        (np.zeros((3, 8)), "wrong-shape"),
        (np.zeros(8), "wrong-shape"),
        ([[1.0], []], "wrong-shape"),
        (np.full((4, 8), np.nan), "not-finite"),
    ],
)
def test_wrong_vectors_are_refused(vectors, slug):
    """One row for each planned client, of finite numbers."""
    with pytest.raises(UsageError) as caught:
        simulate_mean(plan_with(1.0), vectors)
    assert caught.value.slug == slug
