"""csgm simulate mean, end to end."""

import json
import re
import warnings
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from csgm_cli.mechanism.client import encode
from csgm_cli.simulation import mean as simulation
from csgm_cli.storage.schema import load_schema

SIZES = "--epsilon 5 --delta 1e-6 --gamma 0.2 --dim 32 --cohort-size 4"


@pytest.fixture
def saved(csgm, place):
    """Calibrate with options; the result is in result.json."""

    def save(more="--rounds 1"):
        assert csgm(f"calibrate {SIZES} {more} --format json --output result.json --quiet").status == 0

    return save


def test_report_has_formula_and_simulation(csgm, saved):
    """The MSE of the text report is that of the calibration, and it says NOT PRIVATE."""
    saved()
    outcome = csgm("simulate mean --from result.json --trials 20")
    mse = json.loads(Path("result.json").read_text())["result"]["mse"]["total"]
    assert outcome.status == 0
    assert f"{mse:.4g}" in outcome.stdout
    assert "NOT PRIVATE" in outcome.stdout


@pytest.mark.parametrize(
    ("calibrated", "options"),
    [
        ("--rounds 1", ""),
        ("--rounds 1", "--wire int4 --rotation dct --seed 5"),
        ("--rounds 9 --sampling-rate 0.25", "--wire float16 --rotation kashin"),
        ("--factorization optimal:3 --epochs 2", "--rotation none"),
        ("--mechanism linf-csgm --rounds 1", ""),
        ("--population-size 8 --training-rounds 4", ""),
    ],
)
def test_json_meets_its_schema(csgm, saved, calibrated, options):
    """For every mechanism; the same seed gives the same bytes."""
    saved(calibrated)
    line = f"simulate mean --from result.json --trials 10 {options} --format json"
    outcome = csgm(line)
    assert outcome.status == 0
    jsonschema.validate(outcome.document, load_schema("simulate"))
    assert [warning["slug"] for warning in outcome.document["warnings"]] == ["not-private"]
    assert csgm(line).stdout == outcome.stdout


def test_a_factorization_in_a_file(csgm, saved):
    """Its array B is what makes the noise; a file without one is refused, and so is a changed one."""
    csgm("factorize --T 3 --output three.npz")
    saved("--factorization three.npz --epochs 1")
    line = "simulate mean --from result.json --trials 10"
    assert csgm(line).status == 0
    csgm("factorize --T 4 --output three.npz --force")
    outcome = csgm(line)
    assert (outcome.status, "changed" in outcome.stderr) == (2, True)
    csgm("factorize --T 3 --arrays C --output three.npz --force")
    saved("--factorization three.npz --epochs 1")
    outcome = csgm(line)
    assert (outcome.status, "holds no B" in outcome.stderr) == (2, True)


@pytest.mark.parametrize(
    ("sizes", "named", "least"),
    [
        ("--dim 1e6 --cohort-size 1000 --rounds 1", "1,000 clients with 1,000,000 coordinates", 7.4),
        (
            "--dim 1e6 --cohort-size 10 --rounds 9 --sampling-rate 0.01 --accountant rdp",
            "1,000 clients with 1,000,000",
            7.4,
        ),
        (
            "--dim 1e6 --cohort-size 1 --factorization tree:256",
            "1,000,000 coordinates, 256 rows of each,",
            2.0,
        ),
    ],
)
def test_a_simulation_that_does_not_fit_into_memory(csgm, place, monkeypatch, sizes, named, least):
    """The error names the sizes, the memory and what to change, before anything is allocated."""
    monkeypatch.setattr("csgm_cli.storage.memory.available_bytes", lambda: 1 << 30)
    csgm(f"calibrate --epsilon 5 --delta 1e-6 --gamma 0.2 {sizes} --format json --output result.json")
    outcome = csgm("simulate mean --from result.json")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[too-large]: ")
    assert named in outcome.stderr
    assert float(re.search(r"needs ([\d.]+) GiB of memory, 1.0 GiB are available", outcome.stderr)[1]) > least
    assert "smaller dim or cohort size" in outcome.stderr


def test_given_vectors_are_used(csgm, saved):
    """Zero vectors leave d sigma^2/(n gamma)^2; another shape is refused."""
    saved()
    np.save("zeros.npy", np.zeros((4, 32)))
    document = csgm("simulate mean --from result.json --vectors zeros.npy --format json").document
    sigma, gamma = document["inputs"]["sigma"], document["inputs"]["gamma"]
    assert document["result"]["rows"][0]["predicted"] == pytest.approx(32 * (sigma / (4 * gamma)) ** 2)
    np.save("zeros.npy", np.zeros((4, 31)))
    outcome = csgm("simulate mean --from result.json --vectors zeros.npy")
    assert (outcome.status, "wrong-shape" in outcome.stderr) == (2, True)


def test_a_formula_that_does_not_hold_is_exit_code_1(csgm, saved, monkeypatch):
    """Clients that send half of what they should."""
    saved()

    def halved(plan, vector, seed):
        return encode(plan, vector if plan.gamma == 1.0 else vector / 2, seed)

    monkeypatch.setattr(simulation, "encode", halved)
    outcome = csgm("simulate mean --from result.json")
    assert outcome.status == 1
    assert "FAILS" in outcome.stdout
    assert "relative_bias: the formula gives 0.0" in outcome.stderr


def test_results_that_cannot_be_run_are_refused(csgm, place):
    """Without dim or the cohort size, or no result at all."""
    csgm("calibrate --epsilon 5 --delta 1e-6 --gamma 0.2 --norm-ratio 3 --format json --output bare.json")
    outcome = csgm("simulate mean --from bare.json")
    assert (outcome.status, "cannot-run" in outcome.stderr) == (2, True)
    Path("bare.json").write_text("{}")
    assert csgm("simulate mean --from bare.json").status == 2
    assert csgm("simulate mean --from missing.json").status == 4
    assert csgm("simulate median --from bare.json").status == 2


def test_no_warning_of_python_is_shown(csgm, saved):
    """The result says itself that it is not private."""
    saved()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert csgm("simulate mean --from result.json --trials 10").status == 0
