"""``csgm factorize``: reference values, workloads, exports, and refusals before any work."""

import json
import math
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import csgm_cli
from csgm_cli.storage.arrays import check_hash, read_arrays
from csgm_cli.storage.schema import load_schema

ROOT = Path(csgm_cli.__file__).parents[1]
#: docs/theory.md: how far each streaming form is above the dense optimum.
STREAMING = [(32, 2, 1.1e-2), (32, 3, 3.0e-4), (32, 4, 9.6e-6), (256, 4, 4.7e-4), (256, 6, 4.5e-6)]


def said(outcome):
    """The lines on stderr but the timing."""
    return [line for line in outcome.stderr.splitlines() if " in " not in line or "error" in line]


def result(csgm, line):
    """The result of a command line that succeeds, held against its schema."""
    outcome = csgm(f"{line} --format json")
    assert outcome.status == 0, outcome.stderr
    jsonschema.Draft202012Validator(load_schema(line.split()[0])).validate(outcome.document)
    return outcome.document["result"]


@pytest.mark.parametrize("T", [1, 2, 8, 32])
def test_reference(csgm, reference, T):
    """The optimum of both objectives, printed, is the reference's to 1e-9 and certified."""
    values = reference["factorization"]["values"][str(T)]
    mean = result(csgm, f"factorize --T {T}")
    assert mean["mean_squared_error"] == pytest.approx(values["optimal_dense_mean"]["mse"], rel=1e-9)
    assert mean["rmse"] == math.sqrt(mean["mean_squared_error"])
    worst = result(csgm, f"factorize --T {T} --objective max")
    assert worst["max_squared_error"] == pytest.approx(values["optimal_dense_max"]["max_sq"], rel=1e-9)
    for found in (mean, worst):
        assert found["T"] == T
        assert found["gap"] <= 1e-9
        assert (found["sensitivity"], found["sensitivity_squared"]) == (1, 1)


@pytest.mark.parametrize(("T", "buffers", "excess"), STREAMING)
def test_streaming_excess(csgm, T, buffers, excess):
    """A streaming form is no further above the certified optimum than the theory's figures say."""
    found = result(csgm, f"factorize --T {T} --strategy streaming:{buffers}")
    assert 0 < found["gap"] <= 1.05 * excess


def test_value_is_the_objective(csgm):
    """--value prints the error that was minimised, with round-trip digits and nothing beside it."""
    for objective, key in (("mean", "mean_squared_error"), ("max", "max_squared_error")):
        outcome = csgm(f"factorize --T 8 --objective {objective} --value")
        assert float(outcome.stdout) == result(csgm, f"factorize --T 8 --objective {objective}")[key]


def test_text_is_on_the_safe_side(csgm):
    """Errors and the gap are rounded up, the bound down; no timing off a terminal."""
    outcome = csgm("factorize --T 32")
    lines = {line[:20].strip(): line[20:].split()[0] for line in outcome.stdout.splitlines()}
    found = result(csgm, "factorize --T 32")
    for label, key in (("mean squared error", "mean_squared_error"), ("gap", "gap"), ("rmse", "rmse")):
        assert found[key] <= float(lines[label]) <= found[key] * 1.01
    assert found["lower_bound"] * (1 - 1e-5) <= float(lines["lower bound"]) <= found["lower_bound"]
    assert outcome.stderr == ""
    assert "solved" not in outcome.stdout


def test_compare(csgm, reference):
    """Every strategy's error is the reference's, and its excess is over the certified optimum."""
    rows = {row["strategy"]: row for row in result(csgm, "factorize --T 32 --compare")["rows"]}
    values = reference["factorization"]["values"]["32"]
    expected = {
        "optimal": values["optimal_dense_mean"]["mse"],
        "toeplitz-sqrt": values["sqrt_toeplitz"]["mse"],
        "toeplitz-sqrt-normalized": values["sqrt_toeplitz_colnorm"]["mse"],
        "tree": values["tree_plain"]["mse"],
        "honaker-online": values["honaker_online"]["mse"],
        "identity": 16.5,
        "output": 32.0,
    }
    for strategy, mse in expected.items():
        assert rows[strategy]["mean_squared_error"] == pytest.approx(mse, rel=1e-9)
        assert rows[strategy]["gap"] == pytest.approx(mse / expected["optimal"] - 1, abs=2e-9)
    assert rows.keys() > {"streaming:2", "streaming:4", "streaming:8", "blt:4", "toeplitz-optimal"}
    assert len({row["lower_bound"] for row in rows.values()}) == 1


def test_compare_at_any_size(csgm):
    """Trees are padded and say so; strategies that a workload lacks are left out and say why."""
    outcome = csgm("factorize --T 20 --compare")
    assert "warning[tree-padded]: the tree has 32 leaves: 20 steps and 12 that never happen" in outcome.stderr
    outcome = csgm("factorize --T 20 --workload momentum=0.9 --compare --format json")
    strategies = [row["strategy"] for row in outcome.document["result"]["rows"]]
    assert "toeplitz-sqrt" in strategies
    assert not {"tree", "streaming:2"} & set(strategies)
    slugs = [warning["slug"] for warning in outcome.document["warnings"]]
    assert set(slugs) == {"strategy-left-out"}


def test_workload_files(csgm, place):
    """A matrix, learning rates, and both with momentum; T comes from the file."""
    np.save("A.npy", np.tril(np.ones((8, 8))))
    np.save("rates.npy", np.linspace(1.0, 0.5, 8))
    plain = result(csgm, "factorize --T 8")
    matrix = result(csgm, "factorize --workload A.npy")
    assert (matrix["T"], matrix["workload"]) == (8, "matrix")
    assert matrix["mean_squared_error"] == pytest.approx(plain["mean_squared_error"], rel=2e-9)
    rates = result(csgm, "factorize --workload rates.npy")
    both = result(csgm, "factorize --workload momentum=0.5,rates.npy --T 8")
    assert (rates["workload"], both["workload"]) == ("learning-rates", "momentum=0.5,learning-rates")
    assert rates["mean_squared_error"] < plain["mean_squared_error"] < both["mean_squared_error"]


NAN = np.tril(np.ones((3, 3)))
NAN[2, 0] = np.nan
BAD_WORKLOADS = {
    "nan": (NAN, "not-finite", "NaN"),
    "not-square": (np.ones((2, 3)), "bad-workload", "square"),
    "not-causal": (np.ones((3, 3)), "bad-workload", "entry (0, 1)"),
    "singular": (np.tril(np.ones((3, 3)), -1), "bad-workload", "singular"),
    "empty": (np.ones((0, 0)), "shape-mismatch", "(0, 0)"),
    "empty-row": (np.ones(0), "shape-mismatch", "(0,)"),
    "cube": (np.ones((2, 2, 2)), "shape-mismatch", "(2, 2, 2)"),
    "integers": (np.eye(3, dtype=int), "wrong-dtype", "float64"),
    "tiny": (np.eye(3) * 1e-200, "bad-workload", "[1e-50, 1e+50]"),
    "huge": (np.eye(3) * 1e200, "bad-workload", "[1e-50, 1e+50]"),
    "tiny-rates": (np.array([1.0, 1e-300]), "bad-workload", "[1e-50, 1e+50]"),
    "huge-rates": (np.array([1.0, 1e300]), "bad-workload", "[1e-50, 1e+50]"),
    "negative-rates": (np.array([1.0, -1.0]), "bad-workload", "positive"),
}


@pytest.mark.parametrize("name", BAD_WORKLOADS)
def test_bad_workload_file(csgm, place, name):
    """One line that names the file and what is wrong with it."""
    array, slug, part = BAD_WORKLOADS[name]
    np.save("bad.npy", array)
    outcome = csgm("factorize --workload bad.npy")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error[{slug}]: 'bad.npy': ")
    assert part in outcome.stderr.splitlines()[0]


def test_pickled_workload_is_never_unpickled(csgm, place):
    """An object array would run code on the way in: it is refused unread."""

    class Bomb:
        def __reduce__(self):
            return (Path("ran").touch, ())

    np.save("bad.npy", np.array([[Bomb()]], dtype=object), allow_pickle=True)
    outcome = csgm("factorize --workload bad.npy")
    assert (outcome.status, said(outcome)[0].split(":")[0]) == (2, "error[pickled]")
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        ("--T 0", "out-of-range"),
        ("--T -3", "out-of-range"),
        ("--T 2.5", "out-of-range"),
        ("--T 32x", "out-of-range"),
        ("--T 1e9", "out-of-range"),
        ("", "missing-option"),
        ("--T 8 --workload momentum=1", "out-of-range"),
        ("--T 8 --workload momentum=x", "out-of-range"),
        ("--T 8 --workload prefix", "unknown-workload"),
        ("--T 8 --tolerance 0", "out-of-range"),
        ("--T 8 --strategy optimum", "unknown-choice"),
        ("--T 8 --strategy streaming", "unknown-choice"),
        ("--T 8 --strategy streaming:N", "not-a-number"),
        ("--T 8 --strategy blt:N", "not-a-number"),
        ("--T 8 --strategy blt:17", "out-of-range"),
        ("--T 8 --strategy blt-normalized:2 --workload momentum=0.9", "not-prefix-sum"),
        ("--T 8 --strategy streaming:0", "out-of-range"),
        ("--T 8 --strategy streaming:65", "out-of-range"),
        ("--T 8 --strategy streaming:2 --workload momentum=0.9", "no-streaming-form"),
        ("--T 8 --strategy tree --workload momentum=0.9", "not-prefix-sum"),
        ("--T 8 --arrays B", "missing-option"),
        ("--T 8 --dtype float32", "missing-option"),
        ("--T 8 --compare --strategy tree", "conflicting-options"),
        ("--T 8 --compare --value", "conflicting-options"),
        ("--T 8 --output f.npz --arrays D", "unknown-choice"),
        ("--T 8 --output f.npz --arrays ,", "unknown-choice"),
        ("--T 8 --output f.npz --strategy identity --arrays v", "unknown-choice"),
        ("--T 8 --output f.npz --strategy tree --arrays B", "incomplete-arrays"),
        ("--T 8 --output f.npz --strategy streaming:2 --arrays v", "incomplete-arrays"),
        ("--T 8 --output f.mat", "unknown-format"),
        ("--T 8 --output f", "unknown-format"),
        ("--T 513 --output f.csv", "too-large"),
        ("--T 8 --strategy tree --checkpoint c.npz", "conflicting-options"),
    ],
)
def test_refused(csgm, place, words, slug):
    """Nothing is solved or written, and one message says why."""
    outcome = csgm(f"factorize {words}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error[{slug}]: ")
    assert not {path.name for path in place.iterdir()} - {".git"}


def test_rows_of_a_file_and_a_flag_that_disagree(csgm, configured):
    """--T may stand beside a file, but not against it; a configured one gives way."""
    np.save("A.npy", np.eye(3))
    assert csgm("factorize --workload A.npy --T 3").status == 0
    outcome = csgm("factorize --workload A.npy --T 4")
    assert outcome.stderr.startswith("error[conflicting-options]: --T is 4, but 'A.npy' has 3 rows")
    configured("[tool.csgm.factorize]\nT = 4\n")
    assert csgm("factorize --workload A.npy").status == 0
    assert result(csgm, "factorize")["T"] == 4


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json", "csv"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_export(csgm, place, suffix, dtype):
    """A file holds factors of the workload of sensitivity at most 1, and numbers that are those printed."""
    name = f"f.{suffix}"
    found = result(csgm, f"factorize --T 12 --output {name} --dtype {dtype}")
    saved = read_arrays(name)
    check_hash(saved)
    B, C, C_inv = (saved.arrays[key].astype(np.float64) for key in ("B", "C", "C_inv"))
    assert {saved.arrays[key].dtype.name for key in ("B", "C", "C_inv")} == {dtype}
    unit = 1e-12 if dtype == "float64" else 1e-6
    assert np.abs(B @ C - np.tril(np.ones((12, 12)))).max() < unit
    assert np.abs(C_inv @ C - np.eye(12)).max() < unit
    norms = (C**2).sum(axis=0)
    assert found["sensitivity"] ** 2 == pytest.approx(norms.max(), rel=1e-15)
    assert norms.max() <= 1
    assert found["mean_squared_error"] == pytest.approx((B**2).sum() / 12 * norms.max(), rel=1e-13)
    for key in ("T", "workload", "strategy", "objective", "rmse", "max_squared_error", "lower_bound", "gap"):
        assert saved.metadata[key] == found[key]
    assert saved.metadata["versions"]["csgm"] == csgm_cli.__version__


def test_same_bytes(csgm, place):
    """Two runs, two files, one content, whatever the format of the report."""
    csgm("factorize --T 16 --output a.npz")
    csgm("factorize --T 16 --output b.npz --format json")
    assert Path("a.npz").read_bytes() == Path("b.npz").read_bytes()


@pytest.mark.parametrize(
    ("words", "arrays"),
    [
        ("", {"B", "C", "C_inv", "v"}),
        ("--arrays C", {"C"}),
        ("--arrays v", {"v"}),
        ("--strategy tree", {"B", "C"}),
        ("--strategy identity --arrays C_inv,B", {"B", "C_inv"}),
        ("--strategy streaming:2", {"v", "decays", "inputs", "outputs", "diagonal"}),
        ("--strategy streaming:2 --arrays C,generators", {"C", "decays", "inputs", "outputs", "diagonal"}),
        ("--workload A.npy --objective max --arrays v", {"A", "v", "u"}),
    ],
)
def test_arrays(csgm, place, words, arrays):
    """A file holds what was asked for, what describes the workload, no more; it stands inspection."""
    np.save("A.npy", np.tril(np.ones((8, 8))) + np.eye(8))
    assert csgm(f"factorize --T 8 --output f.npz {words}").status == 0
    assert read_arrays("f.npz").arrays.keys() == arrays
    assert csgm("inspect f.npz").status == 0


def test_existing_file(csgm, place):
    """An existing file is left alone without --force, and replaced with it."""
    Path("f.npz").write_text("mine")
    outcome = csgm("factorize --T 8 --output f.npz")
    assert (outcome.status, outcome.stdout) == (4, "")
    assert outcome.stderr.startswith("error[file-exists]")
    assert Path("f.npz").read_text() == "mine"
    assert csgm("factorize --T 8 --output f.npz --force").status == 0
    assert "C" in read_arrays("f.npz").arrays


def test_full_disk(csgm, place):
    """A file that cannot be written whole is not written at all; a full stdout is exit code 4 as well."""
    csgm("factorize --T 8 --output f.npz")
    before = Path("f.npz").read_bytes()
    line = [sys.executable, "-m", "csgm_cli", "factorize", "--T", "200", "--output", "f.npz", "--force"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        line, env=environment, preexec_fn=small_files, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("error[cannot-write]: cannot write 'f.npz'")
    assert Path("f.npz").read_bytes() == before
    assert {path.name for path in place.iterdir()} == {".git", "f.npz"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            line[:6], env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.returncode == 4
    assert done.stderr.startswith("error[cannot-write]")


def test_json_error(csgm):
    """In json mode a refusal is an object too."""
    outcome = csgm("factorize --T 0 --format json")
    assert json.loads(outcome.stdout)["error"]["slug"] == "out-of-range"


def test_a_folder_is_announced(csgm, place):
    """--output NAME.csv makes a folder, which stderr says; other formats make a file without a word."""
    outcome = csgm("factorize --T 4 --output f.csv")
    assert (place / "f.csv").is_dir()
    assert outcome.stderr == "wrote the folder f.csv, with one .csv file per array and metadata.json\n"
    assert csgm("factorize --T 4 --output f.npz").stderr == ""


def test_one_array_as_npy(csgm, place):
    """numpy.load reads it, and inspect measures it by its name; several arrays have no room in it."""
    assert csgm("factorize --T 4 --output C.npy --arrays C").status == 0
    squares = (np.load(place / "C.npy") ** 2).sum(axis=0)
    np.testing.assert_allclose(squares, 1.0, rtol=1e-12)
    assert csgm("inspect C.npy").status == 0
    outcome = csgm("factorize --T 4 --output B.npy")
    assert (outcome.status, (place / "B.npy").exists()) == (2, False)
    assert outcome.stderr.startswith(
        "error[several-arrays]: a .npy file holds one array, and these are B, C, C_inv"
    )
    assert csgm("factorize --T 4 --checkpoint v.npy").stderr.startswith("error[unknown-format]: --checkpoint")
