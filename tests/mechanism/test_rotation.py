"""Rotations: the matrix by another method, orthonormality, inverse, spread, and Kashin representations."""

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dct, next_fast_len

from csgm_cli import Geometry, Mechanism
from csgm_cli.errors import UsageError
from csgm_cli.mechanism import rotation as module
from csgm_cli.mechanism.plan import Plan, Rotation, rotated_length
from csgm_cli.mechanism.rotation import rotate, rotate_back

LINEAR = [Rotation.HADAMARD, Rotation.DCT, Rotation.NONE]


def plan_for(dim, rotation, seed=0):
    mechanism = Mechanism("gaussian", geometry=Geometry(dim=dim, cohort_size=10), rounds=1)
    return Plan(mechanism, 1.0, rotation, rotation_seed=seed)


def matrix_of(plan):
    return np.array([rotate(plan, unit) for unit in np.eye(plan.dim)]).T


def signs_of(dim, seed=0):
    """Of the stream, from OpenSSL: openssl dgst -shake128 -xoflen 4 -binary."""
    stream = {0: "2eb4206b", 7: "3f94f917"}[seed]
    bits = [byte >> place & 1 for byte in bytes.fromhex(stream) for place in range(8)]
    return np.array([1 - 2 * bit for bit in bits[:dim]])


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 31, 32])
@pytest.mark.parametrize("seed", [0, 7])
def test_hadamard_is_that_of_scipy_times_golden_signs(dim, seed):
    plan = plan_for(dim, Rotation.HADAMARD, seed)
    expected = scipy.linalg.hadamard(plan.length)[:, :dim] * signs_of(dim, seed) / math.sqrt(plan.length)
    np.testing.assert_allclose(matrix_of(plan), expected, atol=1e-15)


def test_dct_is_the_cosine_matrix_times_golden_signs():
    plan = plan_for(11, Rotation.DCT)
    assert plan.length == 12
    row, column = np.mgrid[:12, :11]
    cosines = np.cos(math.pi * (2 * column + 1) * row / 24) * np.where(row == 0, 1, math.sqrt(2))
    np.testing.assert_allclose(matrix_of(plan), cosines * signs_of(11) / math.sqrt(12), atol=1e-15)


@pytest.mark.parametrize("rotation", LINEAR)
@pytest.mark.parametrize("dim", [1, 5, 64, 100])
def test_rotations_are_orthonormal(rotation, dim):
    matrix = matrix_of(plan_for(dim, rotation))
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(dim), atol=1e-14)


@pytest.mark.parametrize("rotation", Rotation)
@given(dim=st.integers(1, 3000), seed=st.integers(0, 2**53))
@settings(max_examples=25)
def test_rotate_back_inverts_rotate(rotation, dim, seed):
    plan = plan_for(dim, rotation, seed)
    vector = np.random.default_rng(dim).normal(size=dim)
    rotated = rotate(plan, vector)
    assert rotated.shape == (plan.length,)
    assert rotated.dtype == np.float64
    np.testing.assert_allclose(rotate_back(plan, rotated), vector, atol=1e-11)


@pytest.mark.parametrize("rotation", Rotation)
def test_rotate_back_is_the_transpose_of_an_orthonormal_frame(rotation):
    """So that noise of variance s^2 on each coordinate has variance s^2 on each coordinate of the result."""
    plan = plan_for(48, rotation)
    back = np.array([rotate_back(plan, unit) for unit in np.eye(plan.length)]).T
    np.testing.assert_allclose(back @ back.T, np.eye(48), atol=1e-14)


@pytest.mark.parametrize("rotation", Rotation)
def test_arguments_are_left_alone(rotation):
    plan = plan_for(64, rotation)
    vector, rotated = np.ones(64), np.ones(plan.length)
    rotate(plan, vector)
    rotate_back(plan, rotated)
    assert (vector == 1).all()
    assert (rotated == 1).all()


@pytest.mark.parametrize("length", [2, 16, 32, 512, 2**13])
def test_block_products_agree_with_scipy(length):
    """One block, full blocks and a remainder."""
    vector = np.random.default_rng(length).normal(size=length)
    expected = scipy.linalg.hadamard(length) @ vector / math.sqrt(length)
    np.testing.assert_allclose(module._hadamard_by_blocks(vector), expected, atol=1e-12)


def test_compiled_transform_agrees_with_the_blocks():
    transform = module._compiled_hadamard()
    if transform is None:
        pytest.skip("fht-cpu is not installed")
    vector = np.random.default_rng(3).normal(size=2**12)
    expected = module._hadamard_by_blocks(vector)
    np.testing.assert_allclose(transform(vector.copy()) / 2**6, expected, atol=1e-12)


def test_a_compiled_transform_is_used_and_normalised(monkeypatch):
    """A stand-in for fht-cpu that works in place, as that does."""

    def in_place(values):
        values[:] = scipy.linalg.hadamard(len(values)) @ values
        return values

    plan, vector = plan_for(50, Rotation.HADAMARD), np.random.default_rng(4).normal(size=50)
    expected = rotate(plan, vector)
    monkeypatch.setattr(module, "_compiled_hadamard", lambda: in_place)
    np.testing.assert_allclose(rotate(plan, vector), expected, atol=1e-13)


@given(st.integers(1, 10**6))
def test_lengths_are_the_least_that_the_transforms_take(dim):
    assert rotated_length(Rotation.DCT, dim) == next_fast_len(dim, real=True)
    assert rotated_length(Rotation.NONE, dim) == dim
    power = rotated_length(Rotation.HADAMARD, dim)
    assert power.bit_count() == 1
    assert power // 2 < dim <= power


@pytest.mark.parametrize("rotation", [Rotation.HADAMARD, Rotation.DCT])
@pytest.mark.parametrize("kind", ["spike", "constant", "alternating", "cosine"])
def test_coordinates_are_spread(rotation, kind):
    """All 2^12 are below sqrt(2 ln(2 2^12 1e9)) times their root mean square, times sqrt(2) for the DCT.

    By Hoeffding's inequality over the signs (the spike: for all signs), with probability 1 - 1e-9.
    """
    dim = 2**12
    vector = {
        "spike": np.eye(1, dim, 77)[0],
        "constant": np.ones(dim),
        "alternating": np.resize([1.0, -1.0], dim),
        "cosine": dct(np.eye(1, dim, 300)[0], norm="ortho"),
    }[kind]
    vector = vector / np.linalg.norm(vector)
    largest = np.abs(rotate(plan_for(dim, rotation), vector)).max() * math.sqrt(dim)
    assert largest < math.sqrt(2 * math.log(2 * dim * 1e9)) * (math.sqrt(2) if rotation == "dct" else 1)


def test_plans_in_turn_have_their_own_signs():
    """One of another length and one of another seed come between two uses of the first."""
    for dim, seed in ((32, 0), (32, 7), (8, 0), (32, 0)):
        expected = scipy.linalg.hadamard(dim) * signs_of(dim, seed) / math.sqrt(dim)
        np.testing.assert_allclose(matrix_of(plan_for(dim, Rotation.HADAMARD, seed)), expected, atol=1e-15)


def test_another_seed_is_another_rotation():
    vector = np.random.default_rng(5).normal(size=256)
    one, other = (rotate(plan_for(256, Rotation.HADAMARD, seed), vector) for seed in (0, 1))
    assert abs(one @ other) / (vector @ vector) < 6 / math.sqrt(256)  # six deviations: 2e-9


@pytest.mark.parametrize("dim", [100, 850, 1024, 5000, 8192])
@pytest.mark.parametrize("kind", ["normal", "heavy", "sign", "spike", "constant"])
def test_kashin_coefficients_are_small_whatever_the_vector(dim, kind):
    """At most 3.6 |x| / sqrt(length), also where the vector fills half of the length: its zeros are apart."""
    draw = np.random.default_rng(dim)
    vector = {
        "normal": draw.normal(size=dim),
        "heavy": draw.standard_cauchy(size=dim),
        "sign": draw.choice([-1.0, 1.0], dim),
        "spike": np.eye(1, dim, 3)[0],
        "constant": np.ones(dim),
    }[kind]
    plan = plan_for(dim, Rotation.KASHIN)
    assert plan.dim <= 0.85 * plan.length
    found = rotate(plan, vector)
    assert np.abs(found).max() <= 3.6 * np.linalg.norm(vector) / math.sqrt(plan.length)
    assert np.linalg.norm(found) <= 1.04 * np.linalg.norm(vector)


def test_kashin_representation_of_zero_is_zero():
    assert not rotate(plan_for(10, Rotation.KASHIN), np.zeros(10)).any()


@pytest.mark.parametrize("shape", [(), (63,), (65,), (1, 64), (64, 1)])
@pytest.mark.parametrize("function", [rotate, rotate_back])
def test_other_shapes_are_refused(function, shape):
    with pytest.raises(UsageError) as error:
        function(plan_for(64, Rotation.HADAMARD), np.zeros(shape))
    assert error.value.slug == "wrong-shape"


def test_only_the_dct_imports_scipy():
    code = """
import sys
import numpy as np
from csgm_cli import Geometry, Mechanism
from csgm_cli.mechanism.plan import Plan
from csgm_cli.mechanism.client import encode
plan = Plan(Mechanism("l2-csgm", 0.1, Geometry(dim=8, cohort_size=2), rounds=1), 1.0)
encode(plan, np.ones(8), bytes(16))
assert "scipy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rotation_seed_is_part_of_the_plan():
    plan = plan_for(8, Rotation.HADAMARD)
    assert dataclasses.replace(plan, rotation_seed=3) != plan
