"""``csgm compare`` and ``csgm plan`` end to end, and the baseline of their ratios."""

import csv
import io

import jsonschema
import pytest

from csgm_cli.jobs import privunit
from csgm_cli.storage.schema import load_schema


@pytest.mark.parametrize(
    ("options", "said", "accountant"),
    [
        ("--gamma 0.01 --norm-ratio 100", "exact accountant", "exact"),
        ("--gamma 0.01 --norm-ratio 100 --accountant rdp", "rdp accountant; smaller by exact", "rdp"),
        (
            "--gamma 0.01 --norm-ratio 100 --accountant paper",
            "paper accountant; smaller by exact",
            "paper",
        ),
        ("--gamma 0.01 --norm-ratio 100 --accountant tight", "exact accountant", "exact"),
        (
            "--gamma 0.01 --norm-ratio 100 --accountant tight --adjacency replace-one",
            "exact accountant",
            "exact",
        ),
        ("--gamma 0.9999 --norm-ratio 100", "exact accountant", "exact"),
        ("--mechanism gaussian", "exact accountant", "exact"),
        ("--mechanism gaussian --accountant rdp", "rdp accountant; smaller by exact", "rdp"),
    ],
)
def test_the_ratio_names_its_baseline(csgm, options, said, accountant):
    """The MSE ratio is relative to the Gaussian mechanism by the accountant that the text names."""
    common = "calibrate --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000"
    assert f", {said}\n" in csgm(f"{common} {options}").stdout
    document = csgm(f"{common} {options} --format json").document
    adjacency = document["inputs"]["adjacency"]
    plain = f"{common} --mechanism gaussian --accountant {accountant} --adjacency {adjacency} --value"
    total = 1e6 * (float(csgm(plain).stdout) / 1000) ** 2
    assert document["result"]["mse"]["gaussian_total"] == pytest.approx(total, rel=1e-11)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "--max-mse-overhead 10 --dim 1e6 --cohort-size 1000",
            "--max-mse-overhead 10.0 allows 11 times the Gaussian mechanism's MSE; 10 % is 0.1",
        ),
        (
            "--max-noise-overhead 2 --norm-ratio 100",
            "--max-noise-overhead 2.0 allows 3 times the Gaussian mechanism's effective noise multiplier;"
            " 2 % is 0.02",
        ),
        ("--max-noise-overhead 1 --norm-ratio 100", None),
    ],
)
def test_an_overhead_in_percent(csgm, line, said):
    """An overhead is a fraction: above 1 it was probably meant in percent. The text shows both."""
    outcome = csgm(f"plan --epsilon 5 --delta 1e-8 --accountant rdp {line}")
    assert outcome.status == 0
    assert ("overhead-large" in outcome.stderr) == (said is not None)
    assert said is None or f"warning[overhead-large]: {said}\n" in outcome.stderr
    number = line.split()[1]
    assert f" {number} ({number}00 %) " in outcome.stdout


def test_compare_rows(csgm):
    """The Gaussian mechanism stands first, then each mechanism at each gamma, in the order given."""
    line = "compare --epsilon 5 --delta 1e-8 --norm-ratio 100 --dim 1e6 --format json"
    document = csgm(f"{line} --gamma 0.1 --gamma 0.01").document
    rows = [(row["mechanism"], row["gamma"]) for row in document["result"]["rows"]]
    assert rows == [
        ("gaussian", 1.0),
        ("l2-csgm", 0.1),
        ("linf-csgm", 0.1),
        ("l2-csgm", 0.01),
        ("linf-csgm", 0.01),
    ]
    assert document["inputs"]["gamma"] == [0.1, 0.01]
    by_factor = csgm(f"{line} --compression 10 --compression 100").document
    assert by_factor["result"] == document["result"]
    assert by_factor["inputs"]["compression"] == [10.0, 100.0]


def test_plan_holds_what_it_promises(csgm):
    """At the planned gamma the MSE is within the overhead, and 1 % below it is not."""
    common = "--epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000"
    gamma = float(csgm(f"plan {common} --max-mse-overhead 0.05 --value").stdout)
    ratio = lambda rate: csgm(f"calibrate {common} --accountant tight --gamma {rate!r} --format json")
    assert ratio(gamma).document["result"]["mse"]["ratio"] <= 1.05
    assert ratio(gamma * 0.99).document["result"]["mse"]["ratio"] > 1.05


def test_plan_without_an_answer(csgm):
    """linf-csgm charges every coordinate, so that the rotation rule's norms cost too much at any gamma."""
    line = "plan --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 --max-mse-overhead 0.05"
    outcome = csgm(f"{line} --mechanism linf-csgm")
    assert (outcome.status, outcome.stdout) == (3, "")
    assert "error[no-gamma-fits]: " in outcome.stderr


@pytest.mark.parametrize("line", [
    "compare --norm-ratio 1e6 --delta 3e-5 --compression 20 --epsilon 1e4",
    "compare --norm-ratio 1e6 --delta 1e-300 --compression 1e9 --epsilon 1e4 --rounds 1e9",
])  # fmt: skip
def test_the_largest_epsilons_and_ratios(csgm, line):
    """Weights of test functions that overflow are no use, and no harm."""
    outcome = csgm(line + " --format json")
    assert outcome.status == 0
    assert all(row["sigma"] > 0 for row in outcome.document["result"]["rows"])


@pytest.mark.parametrize("rate", ["--compression 50", "--gamma 0.02"])
def test_plan_shows_what_a_given_compression_costs(csgm, rate):
    """It is what calibrate answers there, by the accountant that serves the Gaussian mechanism too."""
    common = "--epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 --rounds 1 --format json"
    planned = csgm(f"plan {rate} {common}").document
    [row] = planned["result"]["rows"]
    asked = csgm(f"calibrate {rate} --accountant tight {common}").document["result"]
    assert planned["result"]["compression"] == pytest.approx(50.0)
    assert {key: row[key] for key in asked} == asked
    refused = csgm(f"plan {rate} --max-noise-overhead 0.1 {common}")
    assert (refused.status, refused.document["error"]["slug"]) == (2, "conflicting-options")


SHUFFLED = (
    "compare --epsilon 1 --delta 1e-6 --gamma 0.01 --dim 1e4 --cohort-size 1000 --rounds 1"
    " --with privunit-shuffle"
)


@pytest.fixture
def two_rows(monkeypatch):
    """One message by both bounds, and 8 messages."""
    monkeypatch.setattr(privunit, "_ROWS", privunit._ROWS[:3])


@pytest.mark.usefixtures("two_rows")
def test_rows_of_privunit(csgm):
    """They follow the others, in every format, and the text names what they rest on."""
    line = f"{SHUFFLED} --adjacency replace-one"
    document = csgm(f"{line} --format json").document
    jsonschema.validate(document, load_schema("compare"))
    assert document["inputs"]["with"] == "privunit-shuffle"
    *others, clones, single, eight = document["result"]["rows"]
    assert [row["privunit"] for row in others] == [None] * 3
    assert [row["privunit"]["messages"] for row in (clones, single, eight)] == [1, 1, 8]
    assert clones["mse"]["total"] > single["mse"]["total"] > eight["mse"]["total"]
    assert {row["noise_multiplier"] for row in (clones, single, eight)} == {None}
    text = csgm(line).stdout
    assert max(map(len, text.partition("privunit-shuffle")[2].splitlines())) <= 80
    for words in (
        "8 messages",
        "shuffle-clones",
        "no trusted server",
        "none against the server",
        "numerical",
    ):
        assert words in text
    rows = list(csv.DictReader(io.StringIO(csgm(f"{line} --format csv").stdout)))
    assert [row["privunit.messages"] for row in rows] == ["", "", "", "1", "1", "8"]
    assert [row["accountant"] for row in rows] == ["tight"] * 3 + [""] * 3
    assert float(rows[-1]["mse.total"]) == eight["mse"]["total"]
    assert "| 8 messages |" in csgm(f"{line} --format markdown").stdout


@pytest.mark.usefixtures("two_rows")
def test_plot_of_privunit(csgm):
    """Error against bits, with the Gaussian mechanism as a level."""
    chart = csgm(f"{SHUFFLED} --adjacency replace-one --plot -").stdout
    assert "bits per client, logarithmic" in chart
    assert "* privunit-shuffle, privunit-blanket" in chart
    assert "- gaussian" in chart


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ("", "privunit-adjacency"),
        ("--adjacency replace-one --at-equal-mse", "conflicting-options"),
        ("--adjacency replace-one --sampling-rate 0.1", "privunit-sampling"),
    ],
)
def test_privunit_refusals(csgm, options, slug):
    """Exit status 2 and one message."""
    outcome = csgm(f"{SHUFFLED} {options}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert f"error[{slug}]: " in outcome.stderr
