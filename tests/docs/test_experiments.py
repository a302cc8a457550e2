"""The page of experiments shows the recorded trainings, and a killed run of them goes on where it was."""

import json
import math
import re

import pytest

import csgm_cli as csgm
from benchmarks.experiments import __main__ as experiments
from benchmarks.experiments.page import tables
from benchmarks.experiments.plan import all_runs
from csgm_cli.mechanism.wire import HEADER_BYTES
from csgm_cli.rounding import round_up
from tests.docs.pages import ROOT

RESULTS = experiments.results()
PLANNED = {run.options: run for run in all_runs()}


def test_the_page_has_the_recorded_results():
    """Run ``python -m benchmarks.experiments --record`` after a change."""
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert page.endswith(tables(RESULTS))


def test_accuracies_in_the_text_are_means_of_the_tables():
    """To three digits, as the last column has them."""
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    text = page.partition("## What they show")[2].partition("## What they do not show")[0]
    means = {row.split(" | ")[-1].removesuffix(" |") for row in tables(RESULTS).splitlines()}
    quoted = re.findall(r"0\.\d{3}\b(?! times)", text)
    assert set(quoted) - {"0.001", "0.003"} <= means


@pytest.mark.parametrize(("dim", "inflation"), [(2**13, "2.46"), (2**16, "1.39"), (2**20, "1.04")])
def test_noise_inflation_in_the_text(dim, inflation):
    """At gamma 0.01, for ten releases with cohorts of 1000."""
    text = " ".join((ROOT / "docs" / "experiments.md").read_text(encoding="utf-8").split())
    geometry, _ = csgm.resolve_geometry(dim=dim, cohort_size=1000)
    found = csgm.calibrate(csgm.Mechanism("l2-csgm", 0.01, geometry, rounds=10), csgm.Target(10, 1e-5))
    assert round_up(found.effective_noise_multiplier / found.gaussian_noise_multiplier, 3) == inflation
    assert f"{inflation} at {dim:,} coordinates" in text


def test_every_result_is_of_the_plan():
    """Results of other options would show up nowhere."""
    assert set(RESULTS) <= set(PLANNED)


@pytest.mark.parametrize("options", [name for name, line in RESULTS.items() if not line["exit_code"]])
def test_clients_sent_what_their_masks_have(options):
    """Payloads have a header and a binomial number of values: within six standard deviations."""
    run, line = PLANNED[options], RESULTS[options]
    words = options.split()
    payloads = int(words[words.index("--cohort-size") + 1]) * len(line["accuracy"])
    drawn = payloads * line["dim"]
    deviation = math.sqrt(drawn * run.gamma * (1 - run.gamma))
    sent = (line["bytes"] - payloads * HEADER_BYTES) / 4
    assert sent == pytest.approx(run.gamma * drawn, abs=6 * deviation)


def test_a_killed_run_goes_on(tmp_path, monkeypatch):
    """Finished trainings are not repeated, and failed ones count as finished."""
    monkeypatch.setattr(experiments, "RESULTS", tmp_path / "results.jsonl")
    runs, trained = list(PLANNED.values())[:4], []

    def train(run, folder):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(run.options)
        return {"options": run.options, "exit_code": len(trained) % 2}

    monkeypatch.setattr(experiments, "all_runs", lambda: runs)
    monkeypatch.setattr(experiments, "_trained", train)
    with pytest.raises(KeyboardInterrupt):
        experiments.run_missing("DIR")
    monkeypatch.setattr(experiments, "_trained", lambda run, folder: {"options": run.options, "exit_code": 0})
    experiments.run_missing("DIR")
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["options"] for line in lines] == [run.options for run in runs]
    assert [json.loads(line)["exit_code"] for line in lines] == [1, 0, 0, 0]
