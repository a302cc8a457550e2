"""What ``--factorization`` makes of files: broken, changed, and those that a saved result was about."""

import json
import zipfile

import numpy as np
import pytest

from tests.cli.questions import CALIBRATE_SIZED, SIZES


def hostile_files(place):
    """Name of the file, exit code and slug."""
    a = np.tri(4)
    held = {
        "double": {"B": 2 * np.eye(4), "C": a},
        "nan": {"B": np.full((4, 4), np.nan), "C": a},
        "huge": {"B": np.eye(4) * 1e200, "C": a / 1e200},
        "tiny": {"B": np.eye(4) * 1e20, "C": a / 1e20},
        "shapes": {"B": np.eye(4), "C": np.tri(5)},
        "dependent": {"C": np.ones((5, 4))},
    }
    for name, arrays in held.items():
        np.savez(place / f"{name}.npz", **arrays)
    (place / "folder").mkdir()
    (place / "words.txt").write_text("B = C")
    (place / "words.npz").write_text("B = C")
    (place / "folder.npz").mkdir()


HOSTILE = [
    ("double.npz", 2, "claim-failed"),
    ("nan.npz", 2, "not-finite"),
    ("huge.npz", 2, "out-of-range"),
    ("tiny.npz", 2, "out-of-range"),
    ("shapes.npz", 2, "shape-mismatch"),
    ("dependent.npz", 2, "incomplete-arrays"),
    ("folder", 2, "no-arrays"),
    ("folder.npz", 2, "no-arrays"),
    ("words.txt", 2, "unknown-format"),
    ("words.npz", 2, "broken-file"),
    ("missing.npz", 4, "cannot-read"),
    ("missing", 4, "cannot-read"),
    ("no/such/folder.npz", 4, "cannot-read"),
    ("a\0b.npz", 4, "cannot-read"),
    ("/dev/null", 4, "cannot-read"),
]


@pytest.mark.parametrize(("name", "status", "slug"), HOSTILE)
def test_hostile_files(csgm, place, name, status, slug):
    """What cannot be opened is 4, what is no factorization of its workload 2; one message each."""
    hostile_files(place)
    outcome = csgm(*CALIBRATE_SIZED.split(), "--factorization", name)
    assert (outcome.status, outcome.stdout) == (status, "")
    assert outcome.stderr.startswith(f"error[{slug}]: ")
    assert outcome.stderr.count("error[") == 1


def test_factors_of_another_workload_made_elsewhere(csgm, place):
    """Their B C is held against prefix sums, and the message says so."""
    assert csgm("factorize --T 4 --workload momentum=0.9 --output m.npz").status == 0
    assert csgm(f"{CALIBRATE_SIZED} --factorization m.npz").status == 0
    with np.load(place / "m.npz") as held:
        np.savez(place / "bare.npz", B=held["B"], C=held["C"])
    outcome = csgm(f"{CALIBRATE_SIZED} --factorization bare.npz")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "its B C is not prefix-sum" in outcome.stderr
    assert "does not say its workload counts as a factorization of prefix-sum" in outcome.stderr


@pytest.mark.parametrize("name", ["B", "C", "C_inv", "v"])
def test_a_file_that_was_changed(csgm, file, name):
    """One bit of one number, and the hash does not fit."""
    with zipfile.ZipFile(file) as archive:
        held = {info.filename: archive.read(info) for info in archive.infolist()}
        comment = archive.comment
    changed = bytearray(held[f"{name}.npy"])
    changed[-8] ^= 1  # the last bit of the last number
    held[f"{name}.npy"] = bytes(changed)
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = comment
        for inner, data in held.items():
            archive.writestr(inner, data)
    outcome = csgm(f"{CALIBRATE_SIZED} --factorization {file}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[hash-mismatch]: ")


def test_a_claim_that_does_not_hold(csgm, place):
    """A well-sealed file whose C is larger than it says: the norm is recomputed, and the claim told."""
    from csgm_cli import ArrayFile, dense_factors, factorize, parse_workload, write_arrays
    from csgm_cli.storage.factorizations import file_of

    found = factorize(parse_workload("prefix-sum", 4))
    factors = dense_factors(found)
    honest = file_of(found, factors, ("B", "C"))
    arrays = {**honest.arrays, "B": factors.B / 2, "C": factors.C * 2}
    write_arrays(place / "larger.npz", ArrayFile(arrays, honest.metadata))
    outcome = csgm(f"{CALIBRATE_SIZED} --factorization larger.npz")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "its sensitivity is 1.99999" in outcome.stderr


def test_a_checkpoint_is_no_factorization(csgm):
    """What the solver keeps has no factors."""
    assert csgm("factorize --T 8 --checkpoint state.npz").status == 0
    outcome = csgm(f"{CALIBRATE_SIZED} --factorization state.npz")
    assert outcome.status == 2
    assert "its kind is 'checkpoint'" in outcome.stderr


def test_rerun(csgm, file, place):
    """account --from asks again, and only with the factorization that it was about."""
    line = f"{CALIBRATE_SIZED} --factorization prefix8.npz --epochs 3"
    assert csgm(f"{line} --format json --output saved.json").status == 0
    outcome = csgm("account --from saved.json --format json")
    assert outcome.status == 0
    assert "relative difference" in outcome.stderr
    document = outcome.document
    assert document["result"]["epsilon"] == pytest.approx(5, rel=1e-9)
    assert document["inputs"]["factorization"] == "prefix8.npz"
    for path, output in (("saved.json", "again.json"), ("again.json", "thrice.json")):
        assert csgm(f"account --from {path} --format json --output {output}").status == 0
    assert csgm("account --from saved.json --epochs 2").status == 2
    file.unlink()
    assert csgm("account --from saved.json").status == 4
    assert csgm("factorize --T 9 --output prefix8.npz").status == 0
    outcome = csgm("account --from saved.json")
    assert outcome.status == 2
    assert outcome.stderr.startswith("error[other-factorization]: ")


def test_rerun_from_another_folder(csgm, file, place, monkeypatch):
    """The file is looked for as it was named, then beside the saved result; its hash guards it in both."""
    (place / "results").mkdir()
    (place / "elsewhere").mkdir()
    result = place / "results" / "saved.json"
    assert csgm(f"{CALIBRATE_SIZED} --factorization prefix8.npz --format json --output {result}").status == 0
    monkeypatch.chdir(place / "elsewhere")
    outcome = csgm(f"account --from {result}")
    assert (outcome.status, outcome.stdout) == (4, "")
    near = str(place / "results" / "prefix8.npz")
    assert "searched from the current folder, then beside '" in outcome.stderr
    assert outcome.stderr.endswith("saved.json', as 'prefix8.npz'\n")
    file.rename(near)
    outcome = csgm(f"account --from {result} --format json")
    assert outcome.status == 0
    assert outcome.document["inputs"]["factorization"] == near
    assert csgm("factorize --T 9 --output prefix8.npz").status == 0  # here it comes first
    assert csgm(f"account --from {result}").stderr.startswith("error[other-factorization]: ")


@pytest.mark.parametrize(
    ("change", "slug"),
    [
        ({"sensitivity": 1.1}, "other-factorization"),
        ({"sensitivity": None}, "bad-result-file"),
        ({"factorization_sha256": "0"}, "bad-result-file"),
        ({"factorization": None}, "bad-result-file"),
        ({"factorization": 5}, "bad-result-file"),
        ({"factorization": "tree:16"}, "other-factorization"),
        ({"rounds": 3}, "bad-result-file"),
        ({"epochs": 4}, "bad-result-file"),
        ({"T": 4, "factorization": "tree:4"}, "other-factorization"),
        ({"epochs": 0}, "bad-result-file"),
        ({"epochs": "3"}, "bad-result-file"),
    ],
)
@pytest.mark.usefixtures("released")
def test_rerun_of_a_result_that_was_changed(csgm, place, change, slug):
    """Inputs that contradict each other, or the factorization, are told."""
    line = f"{CALIBRATE_SIZED} --factorization tree:8 --epochs 3"
    document = csgm(f"{line} --format json").document
    document["inputs"] |= change
    (place / "saved.json").write_text(json.dumps(document))
    outcome = csgm("account --from saved.json")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error[{slug}]: ")


@pytest.mark.parametrize("command", ["calibrate", "account"])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        (("noise_std_per_row", "min"), "noise_std_per_row.min"),
        (("noise_std_per_row", "max"), "noise_std_per_row.max"),
        (("mse_last_row", "privacy"), "mse_last_row.privacy"),
        (("mse_last_row", "total"), "mse_last_row.total"),
        (("mse", "sparsification"), "mse.sparsification"),
    ],
)
def test_rerun_of_rows_that_were_changed(csgm, file, place, command, path, said):
    """What a saved result says of its rows must follow from the factorization and the noise."""
    line = f"{SIZES} --gamma 0.1 --delta 1e-6 --factorization prefix8.npz --format json"
    asked = "--epsilon 5" if command == "calibrate" else "--noise-multiplier 1"
    document = csgm(f"{command} {asked} {line}").document
    (place / "saved.json").write_text(json.dumps(document))
    assert csgm("account --from saved.json").status == 0
    document["result"][path[0]][path[1]] *= 1.001
    (place / "saved.json").write_text(json.dumps(document))
    outcome = csgm("account --from saved.json")
    assert outcome.status == 2
    assert f"{said} " in outcome.stderr
    document["result"][path[0]] = None
    (place / "saved.json").write_text(json.dumps(document))
    assert csgm("account --from saved.json").status == 2
