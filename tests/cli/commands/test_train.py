"""csgm simulate train, end to end."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from csgm_cli.simulation.training import Training
from csgm_cli.storage.schema import load_schema

#: Small enough to be trained in a tenth of a second.
QUICK = "simulate train --model softmax --population-size 60 --cohort-size 20"

#: Long enough to be stopped after the first checkpoint.
LONG = [
    sys.executable,
    "-m",
    "csgm_cli",
    *QUICK.split(),
    "--training-rounds",
    "150",
    "--format",
    "json",
    "--quiet",
]


@pytest.mark.parametrize(
    "options",
    [
        "--training-rounds 4",
        "--training-rounds 2 --mechanism gaussian --seed 5",
        "--training-rounds 2 --mechanism linf-csgm --wire int8",
        "--training-rounds 2 --compression 4 --rotation dct --partition iid --local-steps 2",
        "--training-rounds 2 --rotation none --adjacency replace-one",
        "--factorization optimal:3 --epochs 2 --momentum 0",
        "--factorization tree:2 --mechanism gaussian",
    ],
)
def test_record_meets_its_schema(csgm, place, options):
    """For every mechanism and kind of cohort; the same seed gives the same bytes."""
    outcome = csgm(f"{QUICK} {options} --format json")
    assert outcome.status == 0
    jsonschema.validate(outcome.document, load_schema("train"))
    result = outcome.document["result"]
    assert result["complete"]
    assert len(result["rows"]) == result["planned_rounds"]
    assert not result["bytes_are_expected"]
    assert "not-private" in [warning["slug"] for warning in outcome.document["warnings"]]
    assert csgm(f"{QUICK} {options} --format json").stdout == outcome.stdout


@pytest.mark.parametrize("sampling", ["--sampling-rate 0.33", "--client-sampling poisson --cohort-size 20"])
def test_with_client_sampling_bytes_are_expected(csgm, place, sampling):
    """They are the same in every round, and the rounds are all training rounds."""
    line = f"simulate train --model softmax --population-size 60 --rounds 3 {sampling} --format json"
    result = csgm(line).document["result"]
    assert result["bytes_are_expected"]
    assert len({row["bytes"] for row in result["rows"]}) == 1
    assert result["rows"][0]["bytes"] == pytest.approx(20 * result["cost"]["bytes_per_client"])
    assert [row["participations"] for row in result["rows"]] == [1, 2, 3]


def test_noise_is_that_of_calibrate(csgm, place):
    """The calibration of 4 rounds with 20 of 60 clients, for 1024 rotated coordinates."""
    trained = csgm(f"{QUICK} --training-rounds 4 --epsilon 3 --delta 1e-6 --gamma 0.1 --format json")
    sizes = "--dim 1024 --population-size 60 --cohort-size 20 --training-rounds 4"
    found = csgm(f"calibrate --epsilon 3 --delta 1e-6 --gamma 0.1 {sizes} --format json").document["result"]
    record = trained.document["result"]
    assert (record["sigma"], record["epsilon"]) == (found["sigma"], found["epsilon"])
    inflation = found["effective_noise_multiplier"] / found["gaussian_noise_multiplier"]
    assert record["cost"]["noise_inflation"] == inflation


@pytest.mark.parametrize(
    ("options", "rounds"), [("", 10), ("--training-rounds 4", 2), ("--cohort-size 300", 15)]
)
def test_rounds_of_a_client_follow_from_the_cohorts(csgm, place, options, rounds):
    """Also from the defaults, 30 rounds with 200 of 600 clients; a run shows what it was calibrated for."""
    outcome = csgm(f"simulate train --model softmax {options} --show-inputs --format json")
    assert outcome.document["inputs"]["rounds"] == rounds
    assert outcome.document["result"]["rows"][-1]["participations"] == rounds
    assert f"rounds = {rounds}  (from population_size" in outcome.stderr


def test_text_says_what_it_costs_first(csgm, place):
    """The plan on stderr, the result on stdout, and a warning where noise dominates."""
    outcome = csgm(f"{QUICK} --training-rounds 2 --epsilon 0.1")
    assert outcome.status == 0
    assert outcome.stderr.startswith("plan: noise inflation ")
    assert outcome.stderr.count("warning[noise-dominates]") == 1
    assert "NOT PRIVATE" in outcome.stdout
    calm = csgm(f"{QUICK} --training-rounds 2 --epsilon 1000")
    assert "noise-dominates" not in calm.stderr


def test_real_data_are_read(csgm, place):
    """Two features, two classes, told apart by their sign."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 400)
    x = (2 * y[:, None] - 1) + 0.1 * random.normal(size=(400, 2))
    Path("set").mkdir()
    np.savez("set/set.npz", x_train=x[:300], y_train=y[:300], x_test=x[300:], y_test=y[300:])
    outcome = csgm(f"{QUICK} --data set --mechanism gaussian --training-rounds 6 --format json")
    assert outcome.document["result"]["dataset"] == "set"
    assert outcome.document["result"]["examples_per_client"] == 5
    assert outcome.document["result"]["accuracy"] > 0.95
    Path("set/set.npz").write_text("no archive")
    assert csgm(f"{QUICK} --data set").status == 2
    assert csgm(f"{QUICK} --data missing").status == 4


def test_plot_shows_the_accuracy(csgm, place):
    """In the terminal, below the report, and in a file."""
    assert "accuracy (test examples)" in csgm(f"{QUICK} --training-rounds 3 --plot -").stdout
    pytest.importorskip("matplotlib")
    assert csgm(f"{QUICK} --training-rounds 3 --plot accuracy.svg").status == 0
    assert "accuracy" in Path("accuracy.svg").read_text()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("train --trials 20", "--trials is an option of csgm simulate mean"),
        ("train --from result.json", "--from is an option of csgm simulate mean"),
        ("mean --from result.json --epsilon 2", "--epsilon is an option of csgm simulate train"),
        ("mean", "needs --from"),
        ("train --rounds 5", "--training-rounds"),
        ("train --sampling-rate 0.1", "needs --rounds"),
        ("train --model mlp", "--model must be softmax or mlp:H"),
        ("train --model mlp:0", "H of --model mlp:H must be"),
        ("train --model mlp:2.5", "H of --model mlp:H must be"),
        ("train --partition dirichlet:nan", "A of --partition dirichlet:A must be"),
        ("train --partition uniform", "--partition must be iid or dirichlet:A"),
        ("train --epsilon 0", "--epsilon must be"),
        ("train --learning-rate inf", "--learning-rate must be"),
        ("train --momentum 1", "--momentum must be"),
        ("train --sigma 0", "no such option: --sigma"),
        ("train --population-size 20000", "too-many-clients"),
        ("train --population-size 100 --cohort-size 101", "cohort_size"),
        ("train --factorization optimal:8 --cohort-size 200", "repeats-in-epoch"),
        ("train --model mlp:100000 --training-rounds 1 --rotation dct", "parameters needs"),
    ],
)
def test_bad_input_is_refused(csgm, place, monkeypatch, line, said):
    """One message that names the option, and exit code 2."""
    monkeypatch.setattr("csgm_cli.storage.memory.available_bytes", lambda: 1 << 28)
    outcome = csgm(f"simulate {line}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr


def test_settings_for_one_experiment_do_not_stop_the_other(csgm, place, monkeypatch):
    """A variable that is set for another command counts where it applies."""
    monkeypatch.setenv("CSGM_EPSILON", "2")
    monkeypatch.setenv("CSGM_TRIALS", "20")
    assert csgm(f"{QUICK} --training-rounds 2 --format json").document["inputs"]["epsilon"] == 2
    csgm("calibrate --delta 1e-6 --gamma 0.2 --dim 32 --cohort-size 4 --format json --output result.json")
    assert csgm("simulate mean --from result.json").status == 0


def test_ctrl_c_keeps_the_rounds_so_far(csgm, place, monkeypatch):
    """The record has them and says that it is incomplete; the checkpoint completes it."""
    line = f"{QUICK} --training-rounds 5 --checkpoint state.npz --format json --output"
    whole = csgm(f"{QUICK} --training-rounds 5 --format json").stdout
    run = Training.run

    def interrupted(self, state=None):
        for found in run(self, state):
            yield found
            if len(found.rounds) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(Training, "run", interrupted)
    outcome = csgm(f"{line} part.json")
    assert (outcome.status, "interrupted after round 2 of 5" in outcome.stderr) == (130, True)
    part = json.loads(Path("part.json").read_text())
    jsonschema.validate(part, load_schema("train"))
    assert part["result"]["complete"] is False
    assert part["result"]["rows"] == json.loads(whole)["result"]["rows"][:2]
    monkeypatch.setattr(Training, "run", run)
    outcome = csgm(f"{line} whole.json")
    assert "going on from round 2" in outcome.stderr
    assert Path("whole.json").read_text() == whole
    outcome = csgm(f"{QUICK} --training-rounds 5 --checkpoint state.npz --seed 1")
    assert (outcome.status, "other-training" in outcome.stderr) == (2, True)


@cache
def finished(folder):
    """The record of a training that nothing stops."""
    subprocess.run([*LONG, "--output", "whole.json"], cwd=folder, check=True)
    return (folder / "whole.json").read_bytes()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_process_resumes_to_the_same_record(place, tmp_path_factory, number):
    """Whatever stops it, the same command ends in the same record, byte for byte."""
    line = [*LONG, "--checkpoint", "state.npz", "--output", "record.json"]
    process = subprocess.Popen(line)
    deadline = time.monotonic() + 60
    while not Path("state.npz").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(60) == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -number)
    if number == signal.SIGINT:
        assert json.loads(Path("record.json").read_text())["result"]["complete"] is False
    assert subprocess.run(line, check=False).returncode == 0
    assert Path("record.json").read_bytes() == finished(tmp_path_factory.getbasetemp())
