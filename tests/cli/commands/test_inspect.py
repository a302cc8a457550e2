"""``csgm inspect`` of true files, of every form, and of arrays made elsewhere."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.inspections import PREFIX, T, failed, inspected, sealed


@pytest.mark.parametrize(
    "strategy",
    [
        "optimal",
        "streaming:3",
        "blt:2",
        "blt-normalized:3",
        "toeplitz-sqrt",
        "tree",
        "honaker-full",
        "output",
    ],
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
    assert outcome.stdout.endswith("all 12 claims hold\n")
    assert outcome.stderr == ""


@pytest.mark.parametrize("form", ["npz", "folder", "C alone", "B alone"])
def test_arrays_made_elsewhere(csgm, place, form):
    """Plain B and C claim nothing: A = B C for prefix sums is checked; errors, bound and gap are reported."""
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
    checks = [(claim["name"], claim["claimed"]) for claim in result["claims"]]
    assert checks == ([("product", None)] if form in ("npz", "folder") else [])
    assert csgm(f"inspect {path}").stdout.endswith(
        "the file claims nothing: every number was computed from its arrays\n"
    )
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


def tall(kind):
    """C with more rows than columns, or a turned square, and B = A C^+; nothing is triangular."""
    rng = np.random.default_rng(1)
    C = {
        "tall": np.vstack([np.eye(T), rng.normal(size=(5, T))]),
        "turned": np.linalg.qr(rng.normal(size=(T, T)))[0],
        "reordered": np.eye(T)[::-1],
    }[kind]
    return {"B": PREFIX @ np.linalg.pinv(C), "C": C, "C_inv": np.linalg.pinv(C)}


@pytest.mark.parametrize("kind", ["tall", "turned", "reordered"])
@pytest.mark.parametrize("names", ["B C", "B C C_inv", "C", "C C_inv"])
def test_factors_of_any_shape(csgm, place, kind, names):
    """B C = A is enough: errors are those of B = A C^+, the sensitivity that of C, for the noise too."""
    arrays = tall(kind)
    np.savez("f.npz", **{name: arrays[name] for name in names.split()})
    status, document = inspected(csgm, "f.npz")
    squared = (arrays["C"] ** 2).sum(axis=0).max()
    assert status == 0
    assert document["result"]["sensitivity_squared"] == pytest.approx(squared, rel=1e-12)
    mean = squared * (arrays["B"] ** 2).sum() / T
    assert document["result"]["mean_squared_error"] == pytest.approx(mean, rel=1e-10)
    account = "account --noise-multiplier 3 --mechanism gaussian --delta 1e-8 --factorization f.npz --value"
    # One Gaussian release with noise 3 / colmax(C).
    plain = csgm(f"account --noise-multiplier {3 / squared**0.5} --mechanism gaussian --delta 1e-8 --value")
    assert float(csgm(account).stdout) == pytest.approx(float(plain.stdout), rel=1e-9)


@pytest.mark.parametrize("name", ["B", "C_inv"])
@pytest.mark.parametrize("kind", ["tall", "turned"])
def test_noise_alone_determines_its_sensitivity(csgm, place, name, kind):
    """B alone has the least sensitivity of any C with B C = A: the columns of B^+ A."""
    noise = tall(kind)[name]
    np.savez("f.npz", **{name: noise})
    status, document = inspected(csgm, "f.npz")
    least = np.linalg.pinv(noise) @ (PREFIX if name == "B" else np.eye(T))
    assert status == 0
    assert document["result"]["sensitivity_squared"] == pytest.approx((least**2).sum(axis=0).max(), rel=1e-10)


@pytest.mark.parametrize("array", [np.ones((T + 3, T)), np.vander(np.linspace(0, 1, T + 2), T)])
def test_columns_that_depend_on_each_other(csgm, place, array):
    """Of low rank, exactly or to rounding: no B has B C = A."""
    np.savez("f.npz", C=array)
    status, document = inspected(csgm, "f.npz")
    assert (status, document["error"]["slug"]) == (2, "incomplete-arrays")
    assert "the columns of C are linearly dependent" in document["error"]["message"]


def test_a_file_that_names_its_workload(csgm, made, configured):
    """Options for arrays made elsewhere are refused beside a file that says so itself, unless configured."""
    for words in ("--workload prefix-sum", "--objective max"):
        status, document = inspected(csgm, f"f.npz {words}")
        assert (status, document["error"]["slug"]) == (2, "conflicting-options")
    configured("[tool.csgm]\nobjective = 'max'\nworkload = 'momentum=0.5'\n")
    assert inspected(csgm, "f.npz")[0] == 0
    configured("[tool.csgm]\nworkload = 'garbage'\n")
    status, document = inspected(csgm, "f.npz")
    assert (status, document["error"]["slug"]) == (2, "unknown-workload")
