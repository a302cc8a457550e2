"""``factorize --min-separation``: the files it writes, what inspect finds, and what is refused."""

import json

import jsonschema
import numpy as np
import pytest

from csgm_cli.factorization import factor_norms, factorize
from csgm_cli.factorization.matrices.semiseparable import dense_from
from csgm_cli.model.factorization import GENERATORS, Generators
from csgm_cli.model.participation import Participation
from csgm_cli.storage.arrays import read_arrays
from csgm_cli.storage.schema import load_schema


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", ["", "--objective max", "--strategy banded-toeplitz", "--bands 3"])
def test_files_hold_what_they_claim(csgm, tmp_path, options, dtype):
    """In either precision the sensitivity is at most 1 and every claim holds."""
    path = tmp_path / "f.npz"
    line = f"factorize --T 30 --min-separation 8 {options} --dtype {dtype} --output {path} --format json"
    outcome = csgm(line)
    assert outcome.status == 0, outcome.stderr
    found, inputs = outcome.document["result"], outcome.document["inputs"]
    assert (found["participations"], found["min_separation"]) == (4, 8)
    assert inputs["bands"] == found["bands"] == (3 if "--bands" in options else 8)
    assert found["sensitivity"] <= 1
    held = read_arrays(path)
    assert held.arrays["bands"].shape == (found["bands"], 30)
    assert held.arrays["bands"].dtype == dtype
    inspected = csgm(f"inspect {path} --format json")
    assert inspected.status == 0, inspected.stdout
    result = inspected.document["result"]
    assert {name: result[name] for name in found if name != "iterations"} == {
        name: value for name, value in found.items() if name != "iterations"
    }
    assert "columns of C" not in inspected.stderr
    claims = {claim["name"]: claim for claim in result["claims"]}
    assert claims["min_separation"]["computed"] == found["bands"]


def test_a_column_that_reaches_too_far_is_found(csgm, tmp_path):
    """One number in a further band: the columns of one client overlap, and inspect exits with 1."""
    path = tmp_path / "f.json"
    csgm(f"factorize --T 12 --min-separation 4 --output {path}")
    document = json.loads(path.read_text())
    rows = document["arrays"]["bands"]
    rows.append([1e-9] + [0.0] * 11)
    document["layout"]["bands"]["shape"] = [5, 12]
    path.write_text(json.dumps(document))
    outcome = csgm(f"inspect {path} --format json")
    failed = {claim["name"] for claim in outcome.document["result"]["claims"] if not claim["holds"]}
    assert (outcome.status, {"bands", "min_separation", "sha256"} <= failed) == (1, True)


def test_bands_of_numpy_are_measured(csgm, tmp_path):
    """Made elsewhere, without claims: two bands of 1 and 1/2."""
    bands = np.full((2, 6), [[1.0], [0.5]])
    bands[1, -1] = 0
    np.savez(tmp_path / "b.npz", bands=bands)
    outcome = csgm(f"inspect {tmp_path / 'b.npz'} --format json")
    assert outcome.status == 0, outcome.stdout
    found = outcome.document["result"]
    C = np.eye(6) + np.diag(np.full(5, 0.5), -1)
    assert found["sensitivity_squared"] == pytest.approx(1.25, rel=1e-14)
    rows = ((np.tri(6) @ np.linalg.inv(C)) ** 2).sum(axis=1)
    assert found["mean_squared_error"] == pytest.approx(1.25 * rows.mean(), rel=1e-12)


def test_strategy_and_participations_by_default(csgm):
    """A separation alone asks for the banded optimum and as many participations as fit."""
    found = csgm("factorize --T 30 --min-separation 8 --format json").document
    assert found["result"]["strategy"] == "banded"
    assert found["inputs"]["strategy"] == "banded"
    assert csgm("factorize --T 30 --min-separation 8").stdout.count("participations") == 1


def test_compare_puts_bands_beside_restarts(csgm):
    """The text fits into 80 columns; the document meets its schema."""
    outcome = csgm("factorize --T 32 --min-separation 8 --compare")
    assert outcome.status == 0, outcome.stderr
    assert "restarts" in outcome.stdout.splitlines()[0]
    assert max(map(len, outcome.stdout.splitlines())) <= 80
    document = csgm("factorize --T 32 --min-separation 8 --compare --format json").document
    jsonschema.Draft202012Validator(load_schema("factorize")).validate(document)
    assert [row["strategy"] for row in document["result"]["rows"]][:4] == [
        "fixed-order",
        "banded",
        "banded-toeplitz",
        "blt:3",
    ]
    assert [warning["slug"] for warning in document["warnings"]] == ["sent-whole"]


@pytest.mark.parametrize("options", ["--dtype float64", "--dtype float32", "--arrays B,C,generators"])
def test_blt_files_count_their_participations(csgm, tmp_path, options):
    """Unmasked vectors have the norm of the sum of columns 0, 8, 16, 24 of C, masked ones more."""
    path = tmp_path / "f.npz"
    line = f"factorize --T 30 --min-separation 8 --strategy blt:2 --output {path} {options} --format json"
    outcome = csgm(line)
    assert outcome.status == 0, outcome.stdout
    found = outcome.document["result"]
    assert (found["participations"], found["min_separation"], found["bands"]) == (4, 8, None)
    assert csgm(f"inspect {path}").status == 0
    columns = dense_from(Generators(*(read_arrays(path).arrays[name] for name in GENERATORS)))[:, ::8]
    joint = np.linalg.norm(columns.sum(axis=1))
    answer = csgm(
        f"calibrate --epsilon 5 --delta 1e-6 --mechanism gaussian --factorization {path} --format json"
    )
    assert answer.document["inputs"]["joint_sensitivity"] == pytest.approx(joint, rel=1e-6)
    assert answer.document["inputs"]["joint_sensitivity_bound"] == "exact"
    error = f"{found['mean_squared_error'] * joint**2 / 4 / found['sensitivity_squared']:.4g}"[:-1]
    assert [warning["slug"] for warning in outcome.document["warnings"]] == ["sent-whole"]
    assert f"the mean squared error is {error}" in outcome.document["warnings"][0]["message"]
    masked = csgm(
        f"calibrate --epsilon 5 --delta 1e-6 --gamma 0.1 --norm-ratio 10 --factorization {path} --format json"
    )
    assert "overlapping-columns" in masked.stderr
    largest = np.linalg.svd(columns, compute_uv=False)[0]
    assert largest <= masked.document["inputs"]["release_sensitivity"] <= largest * (1 + 1e-4)


def test_blt_of_the_factorization_option_is_made_for_its_participations(csgm):
    """As in a file of the same participations."""
    line = (
        "calibrate --epsilon 5 --delta 1e-6 --mechanism gaussian --factorization blt:2:64"
        " --min-separation 16 --format json"
    )
    made = factor_norms(factorize(64, "blt:2", participation=Participation(4, 16))).repeated
    assert csgm(line).document["inputs"]["joint_sensitivity"] == made.joint_sensitivity


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ("--bands 4", "missing-option"),
        ("--participations 4", "missing-option"),
        ("--strategy banded", "missing-option"),
        ("--min-separation 8 --bands 9", "too-many-bands"),
        ("--min-separation 8 --participations 5", "too-many-participations"),
        ("--min-separation 8 --epochs 2", "conflicting-options"),
        ("--min-separation 8 --strategy tree", "conflicting-options"),
        ("--min-separation 8 --strategy blt-normalized:2", "conflicting-options"),
        ("--min-separation 8 --strategy blt:2 --bands 4", "conflicting-options"),
        ("--min-separation 8 --strategy blt:2 --participations 5", "too-many-participations"),
        ("--min-separation 8 --workload momentum=0.9", "no-banded-form"),
        ("--min-separation 8 --output {path} --arrays B", "unknown-choice"),
        ("--min-separation 0", "out-of-range"),
    ],
)
def test_what_is_refused(csgm, tmp_path, options, slug):
    """Before anything is solved or written."""
    path = tmp_path / "f.npz"
    outcome = csgm(f"factorize --T 30 {options.format(path=path)} --format json")
    assert (outcome.status, outcome.document["error"]["slug"]) == (2, slug)
    assert not path.exists()
