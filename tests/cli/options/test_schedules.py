"""Disjoint cohorts in a fixed order are named wherever they give the rounds, and other words for sampling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import csgm_cli
from tests.cli.budgets import LIMIT

SIZES = "--delta 1e-6 --norm-ratio 30 --accountant rdp"
SCHEDULE = "--population-size 1000 --cohort-size 30 --training-rounds 101"
LINES = {
    "calibrate": f"calibrate --epsilon 5 --gamma 0.1 {SIZES}",
    "account": f"account --noise-multiplier 1 --gamma 0.1 {SIZES}",
    "compare": f"compare --epsilon 5 --gamma 0.1 {SIZES}",
    "plan": f"plan --epsilon 5 --max-noise-overhead 0.1 {SIZES}",
    "sweep": f"sweep --epsilon 5 --vary gamma=0.1,0.2 {SIZES}",
}
WORDS = "disjoint cohorts in a fixed order"


def answers(result):
    """Every object with assumptions in a result."""
    return [row for row in result.get("rows", [result]) if row["assumptions"] is not None]


@pytest.mark.parametrize("command", LINES)
def test_results_name_the_schedule(csgm, command):
    """In the assumptions, in the statement and in the text; and the rounds alone assume none."""
    for participation, expected in ((SCHEDULE, True), ("--rounds 4", False)):
        line = f"{LINES[command]} {participation}"
        found = answers(csgm(f"{line} --format json").document["result"])
        assert found
        assert {"disjoint-cohorts" in row["assumptions"] for row in found} == {expected}
        assert {WORDS in row["statement"] for row in found} == {expected}
        text = csgm(line)
        assert text.status == 0
        assert (WORDS in text.stdout) == expected


def test_check_names_the_schedule(csgm, place):
    """If one release of a population has its rounds from it."""
    release = "[population.p.release.{}]\nmechanism = 'gaussian'\nsigma = 90\n"
    scheduled = f"{release.format('a')}population-size = 1000\ncohort-size = 30\ntraining-rounds = 101\n"
    for text, expected in ((scheduled, True), (release.format("b") + "rounds = 4\n", False)):
        (place / "b.toml").write_text(LIMIT + text)
        (population,) = csgm("check b.toml --format json").document["result"]["populations"]
        assert ("disjoint-cohorts" in population["assumptions"]) == expected
        assert (WORDS in csgm("check b.toml").stdout) == expected


def test_saved_result_keeps_its_schedule(csgm, released):
    """The recomputed answer assumes what the saved one did."""
    line = f"{LINES['calibrate']} {SCHEDULE} --format json --output saved.json"
    assert csgm(line).status == 0
    outcome = csgm("account --from saved.json --format json")
    assert "disjoint-cohorts" in outcome.document["result"]["assumptions"]
    saved = json.loads(Path("saved.json").read_text())
    saved["result"]["assumptions"].remove("disjoint-cohorts")
    Path("saved.json").write_text(json.dumps(saved))
    assert csgm("account --from saved.json").status == 2


def test_python_results_name_the_schedule():
    """The number of rounds is the same; the assumptions differ."""
    rounds, _ = csgm_cli.rounds_from_participation(1000, 30, 101)
    mechanisms = [csgm_cli.Mechanism("gaussian", rounds=rounds, disjoint_cohorts=d) for d in (True, False)]
    scheduled, stated = (csgm_cli.calibrate(m, csgm_cli.Target(5, 1e-6)) for m in mechanisms)
    assert scheduled.sigma == stated.sigma
    assert set(scheduled.guarantee.assumptions) - set(stated.guarantee.assumptions) == {"disjoint-cohorts"}
    assert WORDS in scheduled.statement


WISHES = (
    "poisson", "poison-sampling", "subsampling", "cilent-samplign", "random-cohorts", "random-cohort",
    "sample-rate", "sample_rate", "sampling-probability", "shuffle", "amplification", "Poisson",
)  # fmt: skip


@pytest.mark.parametrize("wish", WISHES)
def test_wish_for_sampling_is_answered(csgm, place, wish):
    """As an option, in a config file and in a budget, by one line that names the option and what it needs."""
    needs = "= the probability that a client takes part in a round, with"
    option = csgm(f"calibrate --{wish} 0.1")
    assert (option.status, option.stderr.count("\n")) == (2, 2)
    assert f"try: pass --sampling-rate {needs} --rounds = all training rounds" in option.stderr
    (place / "c.toml").write_text(f"[tool.csgm]\n{wish} = 0.1\n")
    assert f"try: pass sampling_rate {needs} rounds = all" in csgm("version --config c.toml").stderr
    (place / "b.toml").write_text(f"{LIMIT}[population.p.release.r]\n{wish} = 0.1\n")
    assert f"try: pass sampling-rate {needs} rounds = all" in csgm("check b.toml").stderr


@pytest.mark.parametrize("word", ["simple", "epsilom", "compression-rate", "seed", "gama", "training-round"])
def test_other_words_are_not_taken_for_sampling(csgm, word):
    """They have the usual suggestions, or none."""
    assert "sampled" not in csgm(f"calibrate --{word} 3").stderr


@pytest.mark.parametrize("rounds", [1, 7, 50])
def test_all_training_rounds_are_safe_for_poisson_sampling(rounds):
    """A client that is sampled with probability 1 is in every round, the worst case of any rate."""
    target = csgm_cli.Target(2, 1e-6)
    worst = csgm_cli.calibrate(csgm_cli.Mechanism("gaussian", rounds=rounds), target)
    scheduled, _ = csgm_cli.rounds_from_participation(10, 10, rounds)
    assert scheduled == rounds
    assert csgm_cli.calibrate(csgm_cli.Mechanism("gaussian", rounds=scheduled), target).sigma == worst.sigma
