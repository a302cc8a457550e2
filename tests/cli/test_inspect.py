"""``csgm inspect``: true files of every form pass, tampered ones end in 1, broken ones in 2."""

import io
import json
import zipfile
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csgm_cli.storage.arrays import ArrayFile, read_arrays, write_arrays
from csgm_cli.storage.schema import load_schema

T = 12
PREFIX = np.tril(np.ones((T, T)))


@pytest.fixture
def made(csgm, place):
    """The file ``f.npz`` of an optimal factorization, and what is in it."""
    assert csgm(f"factorize --T {T} --output f.npz").status == 0
    return read_arrays("f.npz")


def inspected(csgm, line):
    """Exit code and document of an inspection."""
    outcome = csgm(f"inspect {line} --format json")
    if outcome.status < 2:
        jsonschema.Draft202012Validator(load_schema("inspect")).validate(outcome.document)
    return outcome.status, outcome.document


def failed(document):
    """The names of the claims that do not hold."""
    return {claim["name"] for claim in document["result"]["claims"] if not claim["holds"]}


# ---------------------------------------------------------------- true files


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


# ---------------------------------------------------------------- arrays made elsewhere


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


@pytest.mark.parametrize("off", [1e-8, 1e-7, 9e-7])
@pytest.mark.parametrize("arrays", ["B,C,C_inv,v", "C", "generators"])
def test_numbers_of_float32_arrays_are_exact(csgm, place, off, arrays):
    """Arrays of 7 digits have norms of 16: no claim about them may be off, least of all the sensitivity."""
    strategy = "streaming:2" if arrays == "generators" else "optimal"
    csgm(f"factorize --T {T} --strategy {strategy} --arrays {arrays} --dtype float32 --output f.npz")
    saved = read_arrays("f.npz")
    assert inspected(csgm, "f.npz")[0] == 0
    for key in ("sensitivity", "sensitivity_squared", "mean_squared_error", "rmse", "max_squared_error"):
        sealed(saved.arrays, saved.metadata | {key: saved.metadata[key] * (1 - off)})
        assert failed(inspected(csgm, "f.npz")[1]) == {key}
    if saved.metadata["gap"] > 1e-8:
        sealed(saved.arrays, saved.metadata | {"gap": saved.metadata["gap"] / 2})
        assert failed(inspected(csgm, "f.npz")[1]) == {"gap"}


def test_buffers_that_are_not_there(csgm, place):
    """A streaming form says itself how many buffers it has."""
    csgm(f"factorize --T {T} --strategy streaming:2 --output f.npz")
    saved = read_arrays("f.npz")
    sealed(saved.arrays, saved.metadata | {"strategy": "streaming:8"})
    status, document = inspected(csgm, "f.npz")
    assert (status, failed(document)) == (1, {"strategy"})
    outcome = csgm("account --noise-multiplier 3 --mechanism gaussian --delta 1e-8 --factorization f.npz")
    assert outcome.status == 2
    assert "its strategy is streaming:2, though it claims streaming:8" in outcome.stderr


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


# ---------------------------------------------------------------- tampered files


def sealed(arrays, metadata):
    """Write ``f.npz`` with a hash that fits: whoever tampers can compute one too."""
    write_arrays("f.npz", ArrayFile(arrays, metadata), force=True)


def changed(array, at, value):
    """A copy with one entry replaced."""
    copy = array.copy()
    copy[at] = value
    return copy


def unsealed(rewrite):
    """Rewrite entries of the archive as it is, so that the hash no longer fits."""
    with zipfile.ZipFile("f.npz") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile("f.npz", "w") as archive:
        for name, data in rewrite(entries).items():
            archive.writestr(name, data)


def with_metadata(**fields):
    """An edit of metadata.json alone."""

    def rewrite(entries):
        metadata = json.loads(entries["metadata.json"])
        return entries | {"metadata.json": json.dumps(metadata | fields)}

    return rewrite


def npy(array, **options):
    """The bytes of a .npy file."""
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


#: name -> (what is done to arrays and metadata before the file is sealed again, claims that fail)
RESEALED = {
    "smaller mean error": (lambda a, m: (a, m | {"mean_squared_error": 2.0}), {"mean_squared_error"}),
    "larger mean error": (lambda a, m: (a, m | {"mean_squared_error": 3.0}), {"mean_squared_error"}),
    "error off by 1e-8": (
        lambda a, m: (a, m | {"max_squared_error": m["max_squared_error"] * (1 - 1e-8)}),
        {"max_squared_error"},
    ),
    "smaller sensitivity": (
        lambda a, m: (a, m | {"sensitivity": 0.5, "sensitivity_squared": 0.25}),
        {"sensitivity", "sensitivity_squared"},
    ),
    "larger bound": (lambda a, m: (a, m | {"lower_bound": m["mean_squared_error"] * 1.01}), {"lower_bound"}),
    "negative bound": (lambda a, m: (a, m | {"lower_bound": -1.0}), {"lower_bound"}),
    "wrong T": (lambda a, m: (a, m | {"T": 2 * T}), {"T"}),
    "wrong workload": (
        lambda a, m: (a, m | {"workload": "momentum=0.5"}),
        {"product"},
    ),
    "wrong objective": (lambda a, m: (a, m | {"objective": "max"}), {"gap"}),
    "weak dual": (lambda a, m: (a | {"v": np.ones(T)}, m), {"lower_bound", "gap"}),
    "no dual, false gap": (
        lambda a, m: (
            {"B": PREFIX, "C": np.eye(T)},
            m | dict.fromkeys(("mean_squared_error", "lower_bound"), (T + 1) / 2),
        ),
        {"lower_bound", "gap", "rmse", "max_squared_error"},
    ),
    "entry of B": (
        lambda a, m: (a | {"B": changed(a["B"], (5, 2), 0.4)}, m),
        {"product", "mean_squared_error", "rmse"},
    ),
    "entry of C_inv": (lambda a, m: (a | {"C_inv": changed(a["C_inv"], (5, 2), 0.4)}, m), {"inverse"}),
    "larger C": (
        lambda a, m: (a | {"C": a["C"] * 1.001, "B": a["B"] / 1.001, "C_inv": a["C_inv"] / 1.001}, m),
        {"sensitivity", "sensitivity_squared"},
    ),
    "C_inv beyond float64": (lambda a, m: (a | {"C_inv": a["C_inv"] * 1e200}, m), {"inverse"}),
    "C_inv not causal": (lambda a, m: (a | {"C_inv": changed(a["C_inv"], (2, 5), 1e-300)}, m), {"causal"}),
    "another strategy": (lambda a, m: (a, m | {"strategy": "toeplitz-sqrt"}), {"strategy"}),
    "a tree": (lambda a, m: (a, m | {"strategy": "tree"}), {"strategy"}),
    "not causal": (lambda a, m: (a | {"B": changed(a["B"], (2, 5), 0.1)}, m), {"causal", "product"}),
    "rounded carelessly": (
        lambda a, m: ({name: array.astype("float32").astype("float64") for name, array in a.items()}, m),
        {"mean_squared_error", "rmse", "product"},
    ),
}

#: name -> (what is done to the entries of the archive, exit code, slug or claims that fail)
UNSEALED = {
    "hash alone": (with_metadata(sha256="0" * 64), 1, {"sha256"}),
    "no hash": (with_metadata(sha256=None), 1, {"sha256"}),
    "harmless metadata": (with_metadata(versions="none"), 1, {"sha256"}),
    "float32 arrays": (
        lambda e: e | {"B.npy": npy(np.load(io.BytesIO(e["B.npy"])).astype("f4"))},
        1,
        {"sha256"},
    ),
    "NaN": (lambda e: e | {"B.npy": npy(np.full((T, T), np.nan))}, 2, "not-finite"),
    "pickled": (lambda e: e | {"B.npy": npy(np.array([[{}]], dtype=object))}, 2, "pickled"),
    "integers": (lambda e: e | {"B.npy": npy(np.eye(T, dtype=int))}, 2, "wrong-dtype"),
    "shapes that disagree": (lambda e: e | {"B.npy": npy(np.eye(T - 1))}, 2, "shape-mismatch"),
    "truncated array": (lambda e: e | {"B.npy": e["B.npy"][:-8]}, 2, "broken-file"),
    "stranger": (lambda e: e | {"D.npy": e["B.npy"]}, 2, "unknown-array"),
    "metadata that are no JSON": (lambda e: e | {"metadata.json": "{"}, 2, "broken-file"),
    "NaN in metadata": (with_metadata(gap=float("nan")), 2, "not-finite"),
    "no error": (with_metadata(rmse=None), 2, "broken-file"),
    "error as text": (with_metadata(rmse="1.5"), 2, "broken-file"),
    "T as a fraction": (with_metadata(T=12.0), 2, "broken-file"),
    "absurd number": (with_metadata(gap=10**400), 2, "broken-file"),
    "unknown strategy": (with_metadata(strategy="best"), 2, "unknown-choice"),
    "unknown objective": (with_metadata(objective="median"), 2, "broken-file"),
    "unknown workload": (with_metadata(workload="fourier"), 2, "unknown-workload"),
    "matrix that is not there": (with_metadata(workload="matrix"), 2, "incomplete-arrays"),
    "a checkpoint": (with_metadata(kind="checkpoint"), 2, "broken-file"),
    "negative dual": (lambda e: e | {"v.npy": npy(-np.ones(T))}, 2, "bad-dual"),
    "numbers too large": (lambda e: e | {"B.npy": npy(np.full((T, T), 1e200))}, 2, "out-of-range"),
    "no arrays": (lambda e: {"metadata.json": e["metadata.json"]}, 2, "no-arrays"),
}


@pytest.mark.parametrize("name", RESEALED)
def test_tampered_and_sealed_again(csgm, made, name):
    """A hash that fits does not help: what is claimed is computed, and exit code 1 names each difference."""
    tamper, claims = RESEALED[name]
    sealed(*tamper(dict(made.arrays), dict(made.metadata)))
    status, document = inspected(csgm, "f.npz")
    assert status == 1
    assert claims <= failed(document)
    assert "sha256" not in failed(document)
    outcome = csgm("inspect f.npz")
    assert outcome.status == 1
    for claim in failed(document):
        assert f"failed: {claim}: claimed " in outcome.stderr
    assert "FAILS" in outcome.stdout


@pytest.mark.parametrize("name", UNSEALED)
def test_tampered(csgm, made, name):
    """An edited archive: 1 where it can be read and a claim fails, 2 where it is broken."""
    rewrite, status, expected = UNSEALED[name]
    unsealed(rewrite)
    outcome = csgm("inspect f.npz --format json")
    assert outcome.status == status, outcome.stderr
    if status == 1:
        assert expected <= failed(outcome.document)
    else:
        assert outcome.document["error"]["slug"] == expected
        assert outcome.document["error"]["message"].startswith("'f.npz': ")


def test_broken_archives(csgm, made):
    """Half a file, a zip bomb, a folder, nothing: one line each."""
    whole = Path("f.npz").read_bytes()
    Path("half.npz").write_bytes(whole[: len(whole) // 2])
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("B.npy", b"\0" * (1 << 27))
    Path("empty").mkdir()
    for path, status, slug in (
        ("half.npz", 2, "broken-file"),
        ("bomb.npz", 2, "zip-bomb"),
        ("empty", 2, "no-arrays"),
        ("none.npz", 4, "cannot-read"),
        ("f.txt", 4, "cannot-read"),
    ):
        outcome = csgm(f"inspect {path}")
        assert (outcome.status, outcome.stdout) == (status, "")
        assert outcome.stderr.startswith(f"error[{slug}]: ")
    assert csgm("inspect").stderr.startswith("error[missing-option]")


@pytest.mark.parametrize("names", ["B C", "C", "C_inv"])
def test_thin_arrays_of_vast_products(csgm, place, monkeypatch, names):
    """A file of kilobytes whose B C would take gigabytes is refused, not multiplied out till memory ends."""
    monkeypatch.setattr("csgm_cli.storage.memory.available_bytes", lambda: 1 << 30)
    rows = 40_000
    shapes = {"B": (rows, 1), "C": (1, rows), "C_inv": (rows, 1)}
    np.savez_compressed("f.npz", **{name: np.ones(shapes[name]) for name in names.split()})
    assert Path("f.npz").stat().st_size < 10_000
    account = "account --noise-multiplier 3 --mechanism gaussian --delta 1e-8 --factorization f.npz"
    for line in ("inspect f.npz", account):
        outcome = csgm(line)
        assert (outcome.status, outcome.stdout) == (2, "")
        assert outcome.stderr.startswith("error[too-large]: 'f.npz': measuring arrays of T = 40000 needs ")


def test_streaming_tampered(csgm, place):
    """Generators claim the dense C beside them, and the errors; a bad diagonal is broken."""
    csgm(f"factorize --T {T} --strategy streaming:2 --arrays B,C,generators,v --output f.npz")
    saved = read_arrays("f.npz")
    sealed(saved.arrays | {"decays": saved.arrays["decays"] * 0.99}, saved.metadata)
    status, document = inspected(csgm, "f.npz")
    assert (status, failed(document)) == (1, {"generators"})
    arrays = {name: saved.arrays[name] for name in ("v", "inputs", "outputs", "diagonal", "decays")}
    sealed(arrays | {"outputs": arrays["outputs"] * 1.01}, saved.metadata)
    assert failed(inspected(csgm, "f.npz")[1]) >= {"sensitivity", "mean_squared_error"}
    for name, value, slug in (
        ("diagonal", 0.0, "out-of-range"),
        ("inputs", 1e300, "out-of-range"),
    ):
        sealed(arrays | {name: np.full_like(arrays[name], value)}, saved.metadata)
        status, document = inspected(csgm, "f.npz")
        assert (status, document["error"]["slug"]) == (2, slug)
    del arrays["inputs"]
    sealed(arrays, saved.metadata)
    assert inspected(csgm, "f.npz")[1]["error"]["slug"] == "incomplete-arrays"


@pytest.mark.parametrize("forms", ["B", "C", "C_inv", "B,C_inv", "B,C", "B,C,C_inv"])
def test_forms_that_contradict_each_other(csgm, place, forms):
    """Every form beside a streaming form, which alone is another factorization of the same workload."""
    both = f"--strategy streaming:2 --arrays {forms},generators"
    assert csgm(f"factorize --T {T} {both} --output f.npz").status == 0
    assert inspected(csgm, "f.npz")[0] == 0
    saved = read_arrays("f.npz")
    csgm(f"factorize --T {T} --strategy streaming:3 --arrays generators --output other.npz")
    other = saved.metadata | {"strategy": "streaming:3"}
    sealed(saved.arrays | read_arrays("other.npz").arrays, other)
    status, document = inspected(csgm, "f.npz")
    assert (status, failed(document)) == (1, {"generators"})
    outcome = csgm("account --noise-multiplier 3 --mechanism gaussian --delta 1e-8 --factorization f.npz")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "its generators" in outcome.stderr


def test_arrays_that_are_not_those_of_their_dual(csgm, made):
    """B = A and C = 1 are no optimum, whatever weights and honest numbers stand beside them."""
    numbers = {"mean_squared_error": (T + 1) / 2, "rmse": ((T + 1) / 2) ** 0.5, "max_squared_error": T}
    arrays = {"B": PREFIX, "C": np.eye(T), "v": made.arrays["v"]}
    sealed(arrays, made.metadata | numbers | {"sensitivity": 1.0, "sensitivity_squared": 1.0, "gap": 9.0})
    status, document = inspected(csgm, "f.npz")
    assert (status, failed(document)) == (1, {"dual"})


@pytest.mark.parametrize(
    ("first", "rest"), [(5e-324, 1.0), (1e308, 1.0), (1e-300, 1.0), (1e-300, 1e300), (1e300, 1e-300)]
)
@pytest.mark.parametrize("objective", ["mean", "max"])
def test_weights_too_far_apart(csgm, place, first, rest, objective):
    """Weights that float64 cannot compute with are refused wherever they come from, without a warning."""
    csgm(f"factorize --T {T} --objective {objective} --arrays v --output f.npz")
    csgm(f"factorize --T {T} --objective {objective} --checkpoint ck.npz")
    v = np.array([first, *[rest] * (T - 1)])
    for name in ("f.npz", "ck.npz"):
        saved = read_arrays(name)
        write_arrays(name, ArrayFile(saved.arrays | {"v": v}, saved.metadata), force=True)
    account = "account --noise-multiplier 3 --mechanism gaussian --delta 1e-8 --factorization f.npz"
    solve = f"factorize --T {T} --objective {objective} --checkpoint ck.npz"
    for line in ("inspect f.npz", account, solve):
        outcome = csgm(line)
        assert (outcome.status, outcome.stdout) == (2, "")
        assert [x for x in outcome.stderr.splitlines() if not x.startswith(("going on", "  try"))] == [
            x for x in outcome.stderr.splitlines() if x.startswith("error[bad-dual]")
        ]


def test_nothing_to_measure(csgm, made):
    """The dual of something else than the optimum, one array that cannot be completed."""
    sealed({"v": made.arrays["v"]}, made.metadata | {"strategy": "tree"})
    assert inspected(csgm, "f.npz")[1]["error"]["slug"] == "incomplete-arrays"
    for array in (np.ones((3, 3)), np.tril(np.ones((3, 3)), -1), np.ones((5, 3))):
        np.save("C.npy", array)
        status, document = inspected(csgm, "C.npy")
        assert (status, document["error"]["slug"]) == (2, "incomplete-arrays")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_flipped_byte_is_noticed(csgm, place, data):
    """One byte of the file changed: exit code 1 or 2, unless the archive reads exactly as before."""
    if not Path("g.npz").exists():
        csgm("factorize --T 4 --output g.npz")
    content = bytearray(Path("g.npz").read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    Path("f.npz").write_bytes(content)
    status = csgm("inspect f.npz").status
    if status == 0:
        before, after = read_arrays("g.npz"), read_arrays("f.npz")
        assert after.actual_hash == before.actual_hash
    else:
        assert status in (1, 2)
