"""Former names of inputs work wherever the present ones do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.budgets import GAUSSIAN, LIMIT

BASE = "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000 --accountant rdp --format json"
COHORT = "--cohort-size 30 --training-rounds 101"
#: ceil(101 * 30 / 1000)
ROUNDS = 4
NAMES = ("population-size", "population")


def asked(csgm, line):
    """The inputs of a result."""
    outcome = csgm(line)
    assert outcome.status == 0, outcome.stderr
    return outcome.document["inputs"]


@pytest.mark.parametrize("name", NAMES)
def test_flag(csgm, name):
    """The result has the number of clients by both names."""
    inputs = asked(csgm, f"{BASE} {COHORT} --{name} 1000")
    assert (inputs["rounds"], inputs["population_size"], inputs["population"]) == (ROUNDS, 1000, 1000)


@pytest.mark.parametrize("name", NAMES)
def test_variable(csgm, monkeypatch, name):
    """A wrong value is reported by the variable that holds it."""
    variable = f"CSGM_{name.replace('-', '_').upper()}"
    monkeypatch.setenv(variable, "1000")
    assert asked(csgm, f"{BASE} {COHORT}")["rounds"] == ROUNDS
    assert "unrecognised" not in csgm(f"{BASE} {COHORT}").stderr
    monkeypatch.setenv(variable, "0")
    assert f"{variable} must be an integer" in csgm(f"{BASE} {COHORT}").stderr


@pytest.mark.parametrize("name", [*NAMES, "population_size"])
def test_config_key(csgm, place, name):
    """In a file that --config names."""
    (place / "c.toml").write_text(f"[tool.csgm]\n{name} = 1000\n")
    assert asked(csgm, f"{BASE} {COHORT} --config c.toml")["rounds"] == ROUNDS


@pytest.mark.parametrize("name", NAMES)
def test_vary(csgm, name):
    """The column has the present name."""
    outcome = csgm(f"{BASE.replace('calibrate', 'sweep')} {COHORT} --vary {name}=1000,500")
    rows = outcome.document["result"]["rows"]
    assert [row["population_size"] for row in rows] == [1000, 500]
    assert outcome.document["inputs"]["vary"] == ["population_size"]


@pytest.mark.parametrize("name", [*NAMES, "population_size"])
@pytest.mark.parametrize("table", ["release", "defaults"])
def test_budget_key(csgm, place, name, table):
    """In a release or in defaults; the table called population is another thing."""
    key = f"{name} = 1000\n"
    cohort = "sigma = 9\ncohort-size = 30\ntraining-rounds = 101\n"
    own, shared = (key, "") if table == "release" else ("", f"[defaults]\n{key}")
    (place / "b.toml").write_text(f"{shared}{LIMIT}{GAUSSIAN}{cohort}{own}")
    (population,) = csgm("check b.toml --format json").document["result"]["populations"]
    assert population["population"] == "p"
    assert population["releases"][0]["rounds"] == ROUNDS


@pytest.mark.parametrize(
    "text",
    [
        f"{LIMIT}{GAUSSIAN}sigma = 9\npopulation = 9\npopulation-size = 9\n",
        "[tool.csgm]\npopulation = 9\npopulation-size = 9\n",
    ],
)
def test_both_names_in_a_file(csgm, place, text):
    """They are the same input, given twice."""
    (place / "f.toml").write_text(text)
    line = "check f.toml" if "release" in text else f"{BASE} --config f.toml"
    outcome = csgm(line)
    assert outcome.status == 2
    assert outcome.stderr.startswith("error[duplicate-key]")


def test_both_flags(csgm):
    """They are one option."""
    assert "may be given once" in csgm(f"{BASE} {COHORT} --population 1000 --population-size 1000").stderr


def test_saved_result_of_an_earlier_version(csgm, place):
    """It has the former name alone; a file with two numbers of clients contradicts itself."""
    line = (
        f"{BASE.replace('--format json', '')} {COHORT} --population-size 1000 --format json --output s.json"
    )
    assert csgm(line).status == 0
    saved = json.loads(Path("s.json").read_text())
    del saved["inputs"]["population_size"]
    Path("s.json").write_text(json.dumps(saved))
    assert asked(csgm, "account --from s.json --format json")["population_size"] == 1000
    saved["inputs"]["population_size"] = 999
    Path("s.json").write_text(json.dumps(saved))
    assert "disagrees with inputs.population 1000" in csgm("account --from s.json").stderr
