"""``csgm inspect`` of true files, of every form, and of arrays made elsewhere."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.inspections import PREFIX, T, failed, inspected, sealed


@pytest.mark.parametrize(
    "strategy", ["optimal", "streaming:3", "toeplitz-sqrt", "tree", "honaker-full", "output"]
)
@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json", "csv"])
def test_what_factorize_writes(csgm, place, strategy, suffix):
    """Every strategy in every format: all claims hold, and the numbers are those that were printed."""
    words = f"--strategy {strategy} --output f.{suffix} --format json"
    printed = csgm(f"factorize --T {T} {words}").document["result"]
    status, document = inspected(csgm, f"f.{suffix}")
    assert (status, failed(document)) == (0, set())
    for key in ("sensitivity", "mean_squared_error", "rmse", "max_squared_error"):
        assert document["result"][key] == pytest.approx(printed[key], rel=1e-12)
    assert document["result"]["strategy"] == strategy
    # Without a dual the solver finds the bound, so that it is not below the claimed one.
    assert document["result"]["lower_bound"] >= printed["lower_bound"] * (1 - 1e-12)


@pytest.mark.parametrize("objective", ["mean", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "words",
    [
        "--T 9 --arrays B",
        "--T 9 --arrays C",
        "--T 9 --arrays C_inv",
        "--T 9 --arrays v",
        "--T 9 --arrays v --tolerance 1e-2",
        "--T 9 --workload momentum=0.9",
        "--T 9 --strategy streaming:2 --arrays generators",
        "--T 9 --strategy streaming:2 --arrays B,C,generators,v",
        "--workload A.npy",
        "--workload rates.npy --strategy streaming:2",
        "--workload momentum=0.5,rates.npy",
        "--T 9 --strategy tree",
    ],
)
def test_parts_and_workloads(csgm, place, words, objective, dtype):
    """Whatever part of a factorization a file has, and of whatever workload, it is measured again."""
    np.save("A.npy", np.tril(np.ones((9, 9))) + np.eye(9))
    np.save("rates.npy", np.linspace(1.0, 0.2, 9))
    written = csgm(f"factorize {words} --objective {objective} --dtype {dtype} --output f.npz")
    assert written.status == 0, written.stderr
    status, document = inspected(csgm, "f.npz")
    assert (status, failed(document)) == (0, set())


def test_text(csgm, made):
    """The claims as a table, then the numbers, then the verdict; the timing is on stderr."""
    outcome = csgm("inspect f.npz")
    assert outcome.status == 0
    assert outcome.stdout.startswith("claim ")
    assert outcome.stdout.endswith("all 13 claims hold\n")
    assert outcome.stderr.startswith("inspected in ")


@pytest.mark.parametrize("form", ["npz", "folder", "C alone", "B alone"])
def test_arrays_made_elsewhere(csgm, place, form):
    """Plain B and C: A = B C for prefix sums is the claim; errors, bound and gap are reported."""
    root = np.cumprod(np.concatenate([[1.0], (2 * np.arange(1, T) - 1) / (2 * np.arange(1, T))]))
    square = np.array([[root[i - j] if i >= j else 0.0 for j in range(T)] for i in range(T)])
    Path("folder").mkdir()
    if form == "npz":
        np.savez_compressed("f.npz", b=square, c=square)
    elif form == "folder":
        np.save("folder/B.npy", square)
        np.save("folder/C.npy", square)
    else:
        np.save(f"{form[0]}.npy", square)
    path = {"npz": "f.npz", "folder": "folder"}.get(form, f"{form[0]}.npy")
    status, document = inspected(csgm, path)
    assert status == 0
    result = document["result"]
    both = {"product", "causal"} if form in ("npz", "folder") else {"causal"}
    assert {claim["name"] for claim in result["claims"]} == both
    sensitivity_squared = (root**2).sum()
    mean = sensitivity_squared * np.cumsum(root**2).mean()
    assert result["sensitivity_squared"] == pytest.approx(sensitivity_squared, rel=1e-12)
    assert result["mean_squared_error"] == pytest.approx(mean, rel=1e-12)
    optimum = csgm(f"factorize --T {T} --format json").document["result"]["lower_bound"]
    assert result["gap"] == pytest.approx(mean / optimum - 1, rel=1e-8)
    assert result["strategy"] is None


def test_another_workload(csgm, place):
    """Arrays of momentum are no factorization of prefix sums, and of momentum they are."""
    momentum = np.array(
        [[(1 - 0.5 ** (i - j + 1)) / 0.5 if i >= j else 0.0 for j in range(T)] for i in range(T)]
    )
    np.savez("f.npz", B=momentum, C=np.eye(T))
    status, document = inspected(csgm, "f.npz")
    assert (status, failed(document)) == (1, {"product"})
    assert inspected(csgm, "f.npz --workload momentum=0.5")[0] == 0
    np.save("A.npy", momentum)
    assert inspected(csgm, "f.npz --workload A.npy --objective max")[0] == 0
    np.save("small.npy", momentum[:3, :3])
    status, document = inspected(csgm, "f.npz --workload small.npy")
    assert (status, document["error"]["slug"]) == (2, "conflicting-options")


def test_a_workload_in_the_file(csgm, place):
    """A beside B and C is what B C should be, unless --workload says otherwise; so are learning rates."""
    a = PREFIX + np.eye(T)
    np.savez("f.npz", A=a, B=a, C=np.eye(T))
    status, document = inspected(csgm, "f.npz")
    assert (status, document["result"]["workload"]) == (0, "matrix")
    assert document["inputs"]["workload"] == "matrix"
    assert inspected(csgm, "f.npz --workload prefix-sum")[0] == 1
    rates = np.linspace(1.0, 0.5, T)
    np.savez("g.npz", learning_rates=rates, B=PREFIX * rates, C=np.eye(T))
    status, document = inspected(csgm, "g.npz")
    assert (status, document["result"]["workload"]) == (0, "learning-rates")
    for name, said in (("f.npz", "matrix"), ("g.npz", "learning-rates")):
        words = "account --noise-multiplier 3 --mechanism gaussian --delta 1e-8"
        outcome = csgm(f"{words} --factorization {name} --format json")
        assert f"for the workload {said}" in outcome.document["result"]["statement"]


def test_arrays_without_use(csgm, made):
    """Arrays of another workload in a file that names its own: nothing would check them."""
    for name, array in (("A", PREFIX), ("learning_rates", np.ones(T)), ("series", np.ones((2, T)))):
        sealed(made.arrays | {name: array}, made.metadata)
        status, document = inspected(csgm, "f.npz")
        assert (status, document["error"]["slug"]) == (2, "unknown-array")


def test_not_causal(csgm, place):
    """B C = A is not enough: a row of B that uses what is known later only is a claim that fails."""
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(T, T)))[0]
    np.savez("f.npz", B=PREFIX @ turn.T, C=turn)
    status, document = inspected(csgm, "f.npz")
    assert (status, failed(document)) == (1, {"causal"})
    # The same rows in another order are as causal as before.
    order = np.arange(T)[::-1]
    np.savez("f.npz", B=PREFIX[:, order], C=np.eye(T)[order])
    assert inspected(csgm, "f.npz")[0] == 0


def test_a_file_that_names_its_workload(csgm, made):
    """Options for arrays made elsewhere are refused beside a file that says so itself, unless configured."""
    for words in ("--workload prefix-sum", "--objective max"):
        status, document = inspected(csgm, f"f.npz {words}")
        assert (status, document["error"]["slug"]) == (2, "conflicting-options")
    Path("csgm.toml").write_text("[tool.csgm]\nobjective = 'max'\nworkload = 'momentum=0.5'\n")
    assert inspected(csgm, "f.npz")[0] == 0
    Path("csgm.toml").write_text("[tool.csgm]\nworkload = 'garbage'\n")
    status, document = inspected(csgm, "f.npz")
    assert (status, document["error"]["slug"]) == (2, "unknown-workload")
