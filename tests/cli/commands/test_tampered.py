"""``csgm inspect``: tampered files end in 1, broken ones in 2."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from csgm_cli.storage.arrays import ArrayFile, read_arrays, write_arrays
from tests.cli.inspections import PREFIX, T, failed, inspected, sealed


def changed(array, at, value):
    """A copy with one entry replaced."""
    copy = array.copy()
    copy[at] = value
    return copy


def unsealed(rewrite):
    """Rewrite entries of the archive as it is, so that the hash no longer fits."""
    with zipfile.ZipFile("f.npz") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
        entries["metadata.json"] = archive.comment  # as in files of earlier versions
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
    "another strategy": (lambda a, m: (a, m | {"strategy": "toeplitz-sqrt"}), {"strategy"}),
    "a tree": (lambda a, m: (a, m | {"strategy": "tree"}), {"strategy"}),
    "entry above the diagonal": (lambda a, m: (a | {"B": changed(a["B"], (2, 5), 0.1)}, m), {"product"}),
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
def test_thin_arrays_of_vast_products(csgm, place, names):
    """A file of kilobytes whose B C would have billions of entries is refused, not multiplied out."""
    rows = 40_000
    shapes = {"B": (rows, 1), "C": (1, rows), "C_inv": (rows, 1)}
    np.savez_compressed("f.npz", **{name: np.ones(shapes[name]) for name in names.split()})
    assert Path("f.npz").stat().st_size < 10_000
    account = "account --noise-multiplier 3 --mechanism gaussian --delta 1e-8 --factorization f.npz"
    for line in ("inspect f.npz", account):
        outcome = csgm(line)
        assert (outcome.status, outcome.stdout) == (2, "")
        assert outcome.stderr.startswith("error[shape-mismatch]: 'f.npz': ")
        assert "of rank below T = 40000" in outcome.stderr


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
