"""What ``csgm factorize`` writes is a file that csgm itself takes, or it writes nothing."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csgm_cli.storage.arrays import read_arrays

STRATEGIES = (
    "optimal",
    "toeplitz-sqrt",
    "toeplitz-sqrt-normalized",
    "toeplitz-optimal",
    "tree",
    "honaker-online",
    "honaker-full",
    "identity",
    "output",
    "streaming:3",
)
CALIBRATE = ("calibrate", "--epsilon", "2", "--delta", "1e-6", "--norm-ratio", "10", "--gamma", "0.1")


def triangular(T, seed):
    """Random numbers on and below the diagonal: the condition doubles with each row."""
    a = np.tril(np.random.default_rng(seed).normal(size=(T, T)))
    np.fill_diagonal(a, np.abs(a.diagonal()) + 0.1)
    return a


def saved_workload(kind, T, seed):
    """The words that ask for a workload of this kind."""
    random = np.random.default_rng(seed)
    rates = random.uniform(0.1, 1.0, T)
    even = triangular(T, seed) / T + np.eye(T)
    files = {
        "rates": rates,
        "rates apart": 10.0 ** random.uniform(-10, 10, T),
        "small rates": 1e-48 * rates,
        "large rates": 1e48 * rates,
        "rates out of range": 1e100 * rates,
        "even": even,
        "ill": triangular(T, seed),
        "ill, rows apart": triangular(T, seed) * 10.0 ** random.uniform(-5, 5, T)[:, None],
        "ill, columns apart": triangular(T, seed) * 10.0 ** random.uniform(-5, 5, T),
        "rows far apart": even * 10.0 ** random.uniform(-40, 40, T)[:, None],
        "columns far apart": even * 10.0 ** random.uniform(-15, 15, T),
        "small": 1e-45 * even,
        "large": 1e45 * even,
        "out of range": 1e-100 * even,
    }
    if kind not in files:
        return ["--T", str(T), "--workload", kind]
    np.save("workload.npy", files[kind])
    momentum = "momentum=0.9," if "rates" in kind and seed % 2 else ""
    return ["--workload", f"{momentum}workload.npy"]


KINDS = ("prefix-sum", "momentum=0.9", "momentum=0.999", "rates", "rates apart", "small rates", "large rates")
KINDS += ("rates out of range", "even", "ill", "ill, rows apart", "ill, columns apart", "rows far apart")
KINDS += ("columns far apart", "small", "large", "out of range")


def arrays_of(strategy):
    """Parts that a file may have."""
    if strategy in ("tree", "honaker-online"):
        return st.none()
    parts = ["B", "C", "C_inv", "B,C", "B,C_inv", "C,C_inv"]
    parts += {"optimal": ["v", "C_inv,v"], "streaming:3": ["generators", "C,generators,v"]}.get(strategy, [])
    return st.none() | st.sampled_from(parts)


def check(csgm, words, name, dtype):
    """Factorize into the file ``name``; return the exit status and the result."""
    made = csgm("factorize", *words, "--dtype", dtype, "--output", name, "--force", "--format", "json")
    if made.status:
        assert made.status in (2, 3), made.stderr
        assert not Path(name).exists()
        return made.status, made.document["error"]
    inspected = csgm("inspect", name)
    assert inspected.status == 0, inspected.stderr
    taken = csgm(*CALIBRATE, "--factorization", name)
    assert taken.status == 0, taken.stderr
    result = made.document["result"]
    assert read_arrays(name).metadata["gap"] == result["gap"]
    if result["strategy"] == "optimal":
        # float32 leaves the errors 1e-6 above what was certified, no more.
        assert result["gap"] <= (1e-9 if dtype == "float64" else 1.01e-6)
    if result["strategy"] in ("optimal", "streaming:3", "identity", "toeplitz-sqrt-normalized"):
        assert result["sensitivity"] <= 1.0
    return 0, result


def test_a_start_whose_slopes_agree_to_all_their_digits_is_improved(csgm, place):
    """Two rows 1e10 apart: the gap of the start is 3e-8 all the same."""
    assert check(csgm, saved_workload("ill, rows apart", 2, 65), "f.npz", "float64")[0] == 0


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_every_file_is_taken(csgm, place, data):
    """Any strategy of any workload in any form: the claims hold, and privacy can be computed with it."""
    strategy = data.draw(st.sampled_from(STRATEGIES), "strategy")
    toeplitz = strategy.startswith(("toeplitz", "tree", "honaker"))
    kind = data.draw(st.sampled_from(KINDS[:2] if toeplitz else KINDS), "workload")
    T, seed = data.draw(st.sampled_from([1, 2, 3, 5, 17, 33]), "T"), data.draw(st.integers(0, 99), "seed")
    objective = data.draw(st.sampled_from(["mean", "max"]), "objective")
    dtype = data.draw(st.sampled_from(["float64", "float32"]), "dtype")
    suffix = data.draw(st.sampled_from(["npz", "json", "csv", "safetensors"]), "suffix")
    arrays = data.draw(arrays_of(strategy), "arrays")
    words = [*saved_workload(kind, T, seed), "--objective", objective, "--strategy", strategy]
    words += ["--arrays", arrays] if arrays else []
    number = 0
    while Path(f"f{number}.{suffix}").exists():
        number += 1
    check(csgm, words, f"f{number}.{suffix}", dtype)


@pytest.mark.parametrize("objective", ["mean", "max"])
@pytest.mark.parametrize("kind", ["ill", "ill, rows apart", "ill, columns apart", "rates apart"])
def test_ill_conditioned_workloads_are_written_to_the_tolerance(csgm, place, kind, objective):
    """Conditions up to 1e30 leave C and its inverse as good as was certified."""
    words = [*saved_workload(kind, 100, 1), "--objective", objective]
    assert kind == "rates apart" or np.linalg.cond(np.load("workload.npy")) > 1e10
    assert check(csgm, [*words, "--arrays", "C,C_inv,v"], "f.npz", "float64")[0] == 0


def test_float32_has_too_few_digits_for_it(csgm, place):
    """B of this C, rounded, is that of another C: no file rather than one that needs a larger sensitivity."""
    words = saved_workload("ill", 60, 0)
    status, error = check(csgm, words, "f.npz", "float32")
    assert (status, error["slug"], error["hint"]) == (3, "not-certified", "--dtype float64")
    assert "too ill-conditioned for float32" in error["message"]


@pytest.mark.parametrize(
    ("kind", "strategy", "dtype", "said"),
    [
        ("small", "optimal", "float32", "a row of B is too large or too small for float32"),
        ("large", "identity", "float32", "a row of B is too large or too small for float32"),
        ("large", "output", "float64", "sensitivity must be a number in [1e-15, 1e+15]"),
        ("out of range", "optimal", "float64", "the largest entries of each row of a workload must be in"),
    ],
)
def test_numbers_out_of_range(csgm, place, kind, strategy, dtype, said):
    """What a precision cannot hold, or nobody could calibrate, is refused with its reason."""
    status, error = check(csgm, [*saved_workload(kind, 8, 0), "--strategy", strategy], "f.npz", dtype)
    assert status == 2
    assert said in error["message"]


@pytest.mark.parametrize("objective", ["mean", "max"])
def test_columns_that_are_nothing_beside_others(csgm, place, objective):
    """By sizes alone the weight of the second would be 1e-60, with which no reader could compute."""
    np.save("workload.npy", np.array([[1e30, 0.0], [1e-30, 1e-30]]))
    status, result = check(csgm, ["--workload", "workload.npy", "--objective", objective], "f.npz", "float64")
    # The best that the first column allows: B = diag(1e30, tiny), and C within its norms.
    error = result["mean_squared_error"] if objective == "mean" else result["max_squared_error"] / 2
    assert status == 0
    assert error == pytest.approx(1e60 / 2, rel=1e-8)
