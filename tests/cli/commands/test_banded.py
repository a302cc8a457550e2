"""``factorize --min-separation``: the files it writes, what inspect finds, and what is refused."""

import json

import jsonschema
import numpy as np
import pytest

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
        "optimal",
    ]


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
