"""``csgm sweep`` end to end: rows, presets, failed points and formats."""

import csv
import dataclasses
import io
import itertools
import json
from pathlib import Path

import pytest

from tests.cli.questions import GRID, SOME_FAIL


def rows_of(outcome):
    """The rows of a JSON report."""
    return outcome.document["result"]["rows"]


def test_rows_are_what_calibrate_says(csgm):
    """Each row has calibrate's own answer at its point, in the order of the cartesian product."""
    document = csgm(f"{GRID} --format json").document
    gammas, ratios = document["inputs"]["gamma"], document["inputs"]["norm_ratio"]
    rows = document["result"]["rows"]
    assert [(row["gamma"], row["norm_ratio"]) for row in rows] == list(itertools.product(gammas, ratios))
    for row in rows:
        point = f"--gamma {row['gamma']!r} --norm-ratio {row['norm_ratio']!r} --accountant rdp"
        alone = csgm(f"calibrate --epsilon 5 --delta 1e-8 {point} --format json").document["result"]
        assert {key: row[key] for key in alone} == alone
        assert (row["mechanism"], row["accountant"], row["error"]) == ("l2-csgm", "rdp", None)


@pytest.mark.parametrize("asked", ["delta", "epsilon"])
def test_rows_are_what_account_says(csgm, asked):
    """With noise, fixed or varied, each row has account's own answer."""
    line = f"sweep --vary {asked}=1e-3,0.5 --vary noise-multiplier=0.05,0.1 --gamma 0.1 --norm-ratio 9"
    rows = rows_of(csgm(f"{line} --l2-norm 0.3 --format json"))
    assert len(rows) == 4
    for row in rows:
        point = f"--{asked} {row[asked]!r} --noise-multiplier {row['noise_multiplier']!r} --gamma 0.1"
        alone = csgm(f"account {point} --norm-ratio 9 --l2-norm 0.3 --format json").document["result"]
        assert {key: row[key] for key in alone} == alone
        assert row["mse"] is None


def test_every_numeric_option_can_be_varied(csgm):
    """Two values of each give the two results that the option itself gives."""
    base = {
        "epsilon": "5", "delta": "1e-8", "gamma": "0.1", "norm-ratio": "10", "l2-norm": "2", "dim": "1e6",
        "cohort-size": "100", "value-bits": "32", "rounds": "2", "accountant": "rdp",
    }  # fmt: skip
    other = {
        "epsilon": "4", "delta": "1e-6", "gamma": "0.2", "norm-ratio": "20", "l2-norm": "3", "dim": "1e5",
        "cohort-size": "50", "value-bits": "16", "rounds": "3", "compression": "7", "linf-norm": "0.5",
        "population": "1000", "training-rounds": "30",
    }  # fmt: skip
    instead = {
        "compression": ["gamma"],
        "linf-norm": ["norm-ratio"],
        "population": ["rounds"],
        "training-rounds": ["rounds"],
    }
    beside = {"population": {"training-rounds": "100"}, "training-rounds": {"population": "500"}}
    for name, value in other.items():
        fixed = {
            k: v for k, v in (base | beside.get(name, {})).items() if k not in (name, *instead.get(name, []))
        }
        words = " ".join(f"--{key} {text}" for key, text in fixed.items())
        (row,) = rows_of(csgm(f"sweep {words} --vary {name}={value} --format json"))
        alone = csgm(f"calibrate {words} --{name} {value} --format json").document["result"]
        assert {key: row[key] for key in alone} == alone, name


def test_asked_epsilon_beside_the_achieved_one(csgm):
    """A varied target stays what was asked, to the bit, beside the epsilon that was achieved."""
    line = "sweep --vary epsilon=1,2 --delta 1e-6 --gamma 0.1 --norm-ratio 9 --accountant rdp --format json"
    rows = rows_of(csgm(line))
    assert [row["target_epsilon"] for row in rows] == [1.0, 2.0]
    assert all(0 <= row["target_epsilon"] - row["epsilon"] < 1e-8 for row in rows)


def test_weaker_sources_are_set_aside(csgm, monkeypatch):
    """A varied option replaces a value from the environment; the same option as a flag is refused."""
    plain = csgm(f"{GRID} --format csv").stdout
    monkeypatch.setenv("CSGM_GAMMA", "0.3")
    monkeypatch.setenv("CSGM_COMPRESSION", "")
    assert csgm(f"{GRID} --format csv").stdout == plain
    outcome = csgm(f"{GRID} --norm-ratio 9")
    assert (outcome.status, outcome.stderr.splitlines()[0]) == (
        2, "error[conflicting-options]: --norm-ratio is both fixed and varied",
    )  # fmt: skip


def test_sweep_from_the_environment_and_the_file(csgm, configured, monkeypatch):
    """--vary has a variable, whose parts are separated by spaces, and a list in the config file."""
    plain = csgm(f"{GRID} --format csv").stdout
    line = "sweep --epsilon 5 --delta 1e-8 --accountant rdp --format csv"
    configured("[tool.csgm.sweep]\nvary = ['gamma=0.01:0.5:3log', 'norm-ratio=10,1000']\n")
    assert csgm(line).stdout == plain
    monkeypatch.delenv("CSGM_CONFIG")
    Path("csgm.toml").unlink()
    monkeypatch.setenv("CSGM_VARY", "gamma=0.01:0.5:3log norm-ratio=10,1000")
    assert csgm(line).stdout == plain


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("sweep", "missing-option"),
        ("sweep --vary gamma=0.1,0.2 --epsilon 5 --norm-ratio 9", "missing-option"),
        ("sweep --vary epsilon=1,2 --delta 1e-6 --norm-ratio 9", "missing-option"),
        ("sweep --vary gamma=0.1,0.2 --sigma 1 --norm-ratio 9", "missing-option"),
        ("sweep --vary gamma=0.1,0.2 --epsilon 5 --delta 1e-6", "missing-norm-ratio"),
        ("sweep --vary gamma=0.1,0.2 --sigma 1 --epsilon 1 --delta 0.1", "conflicting-options"),
        ("sweep --vary gamma=0.1,0.2 --vary compression=2 --epsilon 1 --delta 0.1", "conflicting-options"),
        ("sweep --vary gamma=0.1 --vary gamma=0.2 --epsilon 1 --delta 0.1", "repeated-option"),
        (GRID.replace("rdp", "exact"), "no-exact-accountant"),
        ("sweep --vary gamma=0.1,0.2 --epsilon 0 --delta 0.1 --norm-ratio 9", "out-of-range"),
        ("sweep --vary gamma=0.1,1e-400 --epsilon 1 --delta 0.1 --norm-ratio 9", "out-of-range"),
        ("sweep --vary sigma=1e-400:1:3 --delta 0.1 --gamma 0.1 --norm-ratio 9", "out-of-range"),
        ("sweep --vary gamma=0.1:0.2:400 --vary delta=0.1:0.2:400 --epsilon 1", "sweep-too-large"),
        ("sweep --preset figure1 --vary gamma=0.1,0.2", "conflicting-options"),
        ("sweep --preset figure1 --epsilon 3", "conflicting-options"),
        ("sweep --preset figure1 --accountant exact", "no-exact-accountant"),
        ("sweep --preset figure2", "unknown-choice"),
        ("sweep --preset figure1 --jobs 0", "out-of-range"),
        ("sweep --preset figure1 --resume", "cannot-resume"),
        ("sweep --preset figure1 --resume --output x --format text", "cannot-resume"),
        ("sweep --preset figure1 --resume --output /dev/null --format csv", "cannot-resume"),
        ("sweep --preset figure1 --resume --output x --format csv --plot -", "conflicting-options"),
        ("sweep --preset figure1 --plot - --format csv", "conflicting-options"),
        ("sweep --preset figure1 --plot x.gif", "unknown-choice"),
        ("sweep --preset figure1 --value", "unknown-option"),
        ("calibrate --format jsonl", "unknown-choice"),
        (f"{GRID} --plot - --vary rounds=1,2,3,4 --vary l2-norm=1,2", "too-many-lines"),
    ],
)  # fmt: skip
def test_refused_line(csgm, line, slug):
    """A question that no point can answer is refused as a whole, with nothing written."""
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error[{slug}]: ")
    assert not Path("x").exists()


def test_failed_points_are_rows(csgm):
    """A point without an answer has an error and its inputs; the others have theirs, and stderr counts."""
    outcome = csgm(f"{SOME_FAIL} --rounds 1 --format json")
    good, covered, also = rows_of(outcome)
    assert outcome.status == 0
    assert good["error"] is None
    assert (covered["delta"], also["delta"]) == (0.9, 0.1)
    assert covered["error"]["slug"] == "delta-covers-target"
    assert {covered[key] for key in ("noise_multiplier", "epsilon", "statement", "mse")} == {None}
    assert outcome.stderr.startswith(
        "warning[row-without-answer]: 2 of 3 rows have no answer; the first: delta 0.9"
    )


@pytest.mark.parametrize("kind", ["text", "json", "csv", "jsonl", "markdown"])
def test_no_row_has_an_answer(csgm, kind):
    """Then the rows are there all the same, and the exit code is that of no answer."""
    outcome = csgm(
        f"sweep --epsilon 5 --vary delta=0.9,0.1 --gamma 1e-9 --dim 100 --norm-ratio 2 --format {kind}"
    )
    assert outcome.status == 3
    assert outcome.stdout.count("delta-covers-target") == 2
    assert "2 of 2 rows" in outcome.stderr


def test_a_mistake_of_some_points_is_theirs(csgm):
    """A cohort larger than the population is the error of its row alone."""
    line = "sweep --epsilon 5 --delta 1e-8 --gamma 0.1 --norm-ratio 9 --population 100 --training-rounds 9"
    rows = rows_of(csgm(f"{line} --vary cohort-size=101,100 --format json"))
    assert [row["error"] and row["error"]["slug"] for row in rows] == ["cohort-above-population", None]


def test_warnings_are_told_once_each(csgm):
    """Rows name their warnings; the report tells each kind once, with how many rows it is about."""
    line = "sweep --epsilon 5 --delta 1e-8 --gamma 0.1 --cohort-size 10 --rounds 1 --vary dim=1e3,1e4,1e5"
    for kind in ("json", "csv"):
        outcome = csgm(f"{line} --format {kind}")
        (said,) = outcome.stderr.splitlines()
        assert said.startswith("warning[rotation-rule]: ")
        assert said.endswith("(the first of 3 such rows)")
    assert [row["warnings"] for row in rows_of(csgm(f"{line} --format json"))] == [["rotation-rule"]] * 3


@pytest.fixture
def figure(csgm):
    """The rows of the preset, by the paper's accountant."""
    return rows_of(csgm("sweep --preset figure1 --format json"))


def test_figure_one(figure, reference):
    """Both panels have the reference values of the paper's Figure 1."""
    found = {(row["gamma"], row["norm_ratio"]): row for row in figure}
    assert len(reference["accounting"]["figure1"]) == 14
    for known in reference["accounting"]["figure1"]:
        row = found[known["gamma"], known["norm_ratio"]]
        assert row["effective_noise_multiplier"] == pytest.approx(known["effective"], rel=1e-11)
        assert (row["order"], row["bound"]) == (known["order"], "paper")


def test_lines_of_figure_one(figure):
    """The Gaussian mechanism's Renyi line is Mironov's integer-order one, its exact line the analytic one.

    Renyi: sigma^2 = min over integers a of a / (2 (epsilon - conversion(a))), conversion of
    Canonne, Kamath and Steinke; 1.19543 at a = 8. Exact: delta(1.13902) = 1e-8 at epsilon 5.
    """
    from math import erfc, exp, log, sqrt

    renyi, exact = (row for row in figure if row["mechanism"] == "gaussian")

    def sigma(order):
        left = 5.0 - (log(1e8) - log(order)) / (order - 1) - log(1 - 1 / order)
        return sqrt(order / (2 * left)) if left > 0 else float("inf")

    assert renyi["sigma"] == pytest.approx(min(map(sigma, range(2, 100))), rel=1e-10)
    tail = lambda x: erfc(x / sqrt(2)) / 2
    s = exact["sigma"]
    assert tail(5 * s - 1 / (2 * s)) - exp(5) * tail(5 * s + 1 / (2 * s)) == pytest.approx(1e-8, rel=1e-7)
    assert (renyi["bound"], exact["bound"]) == ("paper", "exact")
    assert {row["accountant"] for row in figure} == {"paper", "exact"}


def test_what_the_paper_left_on_the_table(csgm):
    """With tight the paper's curve is still there, and no point of the other one is above it."""
    rows = rows_of(csgm("sweep --preset figure1 --accountant tight --format json"))
    curve = lambda name: {
        (row["gamma"], row["norm_ratio"]): row["noise_multiplier"]
        for row in rows
        if row["accountant"] == name and row["mechanism"] == "l2-csgm"
    }
    paper, tight = curve("paper"), curve("tight")
    assert paper.keys() == tight.keys()
    assert all(tight[at] <= paper[at] * (1 + 1e-12) for at in paper)
    assert tight[0.01, 1000.0] < 0.96 * paper[0.01, 1000.0]


def test_formats_hold_the_same_rows(csgm):
    """JSON Lines are the rows of the JSON report, and CSV has the same numbers to the last digit."""
    rows = rows_of(csgm(f"{SOME_FAIL} --format json"))
    lines = csgm(f"{SOME_FAIL} --format jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == rows
    table = list(csv.DictReader(io.StringIO(csgm(f"{SOME_FAIL} --format csv").stdout)))
    assert [row["sigma"] for row in table] == [repr(rows[0]["sigma"]), "", ""]
    assert [row["error.slug"] for row in table] == ["", "delta-covers-target", "delta-covers-target"]


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize(
    ("vary", "participation"), [("rounds=1,2", ""), ("cohort-size=1,4", "--population 7 --training-rounds 4")]
)
def test_varied_rounds(csgm, form, vary, participation):
    """Where rounds differ from row to row, no line says how many there are."""
    line = f"sweep --mechanism gaussian --epsilon 5 --delta 1e-8 --vary {vary} {participation}"
    outcome = csgm(f"{line} --format {form}")
    assert outcome.status == 0
    assert "1.13902" in outcome.stdout  # of one round
    assert not [line for line in outcome.stdout.splitlines() if line.strip("| ").startswith("rounds  1")]
    assert "releases that one client can influence" not in outcome.stdout


@pytest.mark.parametrize(
    "line",
    [
        "compare --epsilon 3 --delta 1e-6 --gamma 0.1 --norm-ratio 30 --accountant rdp --verify",
        "sweep --epsilon 3 --delta 1e-6 --vary gamma=0.1,1 --norm-ratio 30 --accountant rdp --verify",
    ],
)
def test_a_contradicted_row_is_no_answer(csgm, monkeypatch, line):
    """The oracle says something else of one row, and agrees with another."""
    from csgm_cli.renyi import log_moment

    right = log_moment.mixed_log_moments

    def wrong(order, coordinates):
        found = right(order, coordinates)
        return [dataclasses.replace(m, value=m.value * (1 - 1e-6)) for m in found]

    assert csgm(line).status == 0
    monkeypatch.setattr(log_moment, "mixed_log_moments", wrong)
    outcome = csgm(line)
    assert outcome.status == 3
    assert "does not agree with" in outcome.stderr
