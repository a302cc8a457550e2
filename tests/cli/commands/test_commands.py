"""The commands, end to end: known answers, sources of inputs, formats and files."""

import csv
import io
import math
import re
import shlex
import stat
from importlib.metadata import version
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import csgm_cli
from csgm_cli.cli.root import REGISTRY, root
from csgm_cli.jobs import selftest as reference
from csgm_cli.model.comparison import SelftestCase
from csgm_cli.storage.arrays import read_arrays
from csgm_cli.storage.schema import load_schema
from csgm_cli.version import NUMBERS_VERSION
from tests.cli.questions import ACCOUNT, CALIBRATE

COMMANDS = {name: root.get_command(None, name) for name in REGISTRY}
EXAMPLES = [(name, example) for name, command in COMMANDS.items() for example in command.examples]
#: Small enough to be simulated.
RUNNABLE = "calibrate --epsilon 5 --delta 1e-6 --gamma 0.1 --dim 64 --cohort-size 5 --rounds 1"
BUDGET = Path(__file__).parents[3] / "docs" / "examples" / "budget.toml"


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_examples_in_the_help(csgm, place, name, example):
    """Every example runs, says something, and stands in the help as it is here."""
    for budget in ("budget.toml", "old.toml"):
        (place / budget).write_text(BUDGET.read_text())
    if name == "inspect":
        csgm("factorize --T 32 --output prefix32.npz")
        np.save("C.npy", read_arrays("prefix32.npz").arrays["C"])
    if name == "simulate":
        csgm(f"{RUNNABLE} --format json --output result.json")
    assert f"  {example}\n" in csgm(f"{name} --help").stdout.replace(" \\\n    ", " ")
    program, *words = shlex.split(example)
    assert (program, words[0]) == ("csgm", name)
    outcome = csgm(*words)
    assert outcome.status == 0
    assert outcome.stdout


def test_two_examples_each():
    """Every command's help has two examples, or the test above would pass without any."""
    assert COMMANDS.keys() == set(REGISTRY)
    assert {name for name, command in COMMANDS.items() if len(command.examples) < 2} == set()


@pytest.mark.parametrize(
    "line",
    [
        CALIBRATE,
        f"{CALIBRATE} --verify",
        "calibrate --epsilon 5 --delta 1e-8 --compression 100 --dim 1e6 --cohort-size 1000",
        "calibrate --epsilon 5 --delta 1e-8 --mechanism gaussian",
        f"{ACCOUNT} --delta 1e-8",
        f"{ACCOUNT} --delta 1e-8 --delta 1e-6 --max-epsilon 9",
        f"{ACCOUNT} --epsilon 0",
        "compare --epsilon 5 --delta 1e-8 --gamma 0.1 --gamma 0.01 --norm-ratio 1000 --dim 1e6",
        "compare --epsilon 5 --delta 1e-8 --compression 10 --dim 1e6 --cohort-size 1000 --at-equal-mse",
        "plan --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 --max-mse-overhead 0.05",
        "plan --epsilon 5 --delta 1e-8 --norm-ratio 1000 --max-noise-overhead 0.02",
        "sweep --epsilon 5 --delta 1e-8 --vary gamma=0.01,0.1 --norm-ratio 10 --dim 1e6 --cohort-size 9",
        "sweep --vary epsilon=1,2 --delta 1e-5 --gamma 0.1 --vary linf-norm=0.1,1 --accountant rdp --verify",
        "sweep --vary epsilon=0,1 --delta 1e-5 --mechanism gaussian",
        "sweep --vary sigma=1,2 --vary epsilon=0,1 --mechanism gaussian",
        "sweep --vary noise-multiplier=1e-3,1 --delta 1e-5 --vary compression=1,10 --norm-ratio 10",
        "sweep --epsilon 5 --vary delta=1e-8,0.9 --gamma 1e-9 --dim 100 --norm-ratio 2",
        "sweep --preset figure1",
        "factorize --T 5 --output f.json --strategy streaming:2 --dtype float32",
        "factorize --T 5 --compare --objective max",
        "selftest",
        "version",
        "calibrate --epsilon nan",
    ],
)
def test_json_meets_its_schema(csgm, line):
    """What a command prints as JSON is what the shipped schema promises."""
    document = csgm(f"{line} --format json").document
    name = document["schema"].split("/")[1]
    jsonschema.validate(document, load_schema(name))


@pytest.mark.parametrize("mechanism", ["l2-csgm", "linf-csgm", "gaussian"])
def test_gamma_one_is_the_gaussian_mechanism(csgm, mechanism, reference):
    """With every coordinate sent, each mechanism needs the noise of the analytic Gaussian."""
    (known,) = [
        x
        for x in reference["accounting"]["gaussian"]
        if (x["epsilon"], x["delta"], x["rounds"]) == (1.0, 1e-5, 1)
    ]
    line = f"calibrate --mechanism {mechanism} --epsilon 1 --delta 1e-5 --gamma 1 --norm-ratio 10 --dim 100"
    assert float(csgm(f"{line} --value").stdout) == pytest.approx(float(known["noise_multiplier"]), rel=1e-9)


def test_options_reach_the_answer(csgm, reference):
    """Ratio, gamma, rounds and accountant are passed on: known values come out."""
    for accountant in ("paper", "rdp"):
        for known in reference["accounting"][accountant][:4]:
            words = {name: repr(known[name]) for name in ("epsilon", "delta", "gamma", "rounds")}
            words |= {"norm-ratio": repr(math.sqrt(known["k"])), "accountant": accountant, "format": "json"}
            line = " ".join(f"--{name} {value}" for name, value in words.items())
            result = csgm(f"calibrate {line}").document["result"]
            assert result["effective_noise_multiplier"] == pytest.approx(float(known["effective"]), rel=1e-8)


def test_sources_of_the_ratio(csgm):
    """norm-ratio, linf-norm with l2-norm, and the rotation rule sqrt(2 ln(d n)/d) of the paper."""
    ratio = lambda line: csgm(f"calibrate --epsilon 5 --delta 1e-8 --gamma 0.1 --format json {line}")
    assert ratio("--norm-ratio 4").document["inputs"]["norm_ratio"] == 4.0
    assert ratio("--linf-norm 0.5 --l2-norm 2").document["inputs"]["norm_ratio"] == 4.0
    rotated = ratio("--dim 1e6 --cohort-size 1000")
    assert 1 / rotated.document["inputs"]["norm_ratio"] == pytest.approx(math.sqrt(2 * math.log(1e9) / 1e6))
    assert "warning[rotation-rule]: " in rotated.stderr
    assert rotated.document["warnings"][0]["slug"] == "rotation-rule"


def test_participation(csgm):
    """100 rounds with 30 of 1000 clients are ceil(3) rounds of one client; 101 rounds are 4."""
    line = f"{CALIBRATE} --population 1000 --cohort-size 30 --format json --training-rounds"
    for training_rounds, rounds in ((100, 3), (101, 4)):
        outcome = csgm(f"{line} {training_rounds}")
        assert outcome.document["inputs"]["rounds"] == rounds
        assert "if cohorts are drawn at random, pass rounds = all training rounds" in outcome.stderr


def test_scale_of_the_norms(csgm):
    """Sigma scales with the clip norm; the noise multiplier does not."""
    one = csgm(f"{CALIBRATE} --format json").document["result"]
    ten = csgm(f"{CALIBRATE} --l2-norm 10 --format json").document["result"]
    assert ten["sigma"] == pytest.approx(10 * one["sigma"], rel=1e-12)
    assert ten["noise_multiplier"] == pytest.approx(one["noise_multiplier"], rel=1e-12)


def test_ratio_inputs_are_resolved(csgm):
    """Both ways to say ratio, rate and noise are in the inputs, whichever was given."""
    common = "--epsilon 5 --delta 1e-8 --l2-norm 2 --accountant rdp --format json"
    for line in (
        "calibrate --gamma 0.25 --norm-ratio 8",
        "calibrate --compression 4 --linf-norm 0.25",
        "compare --gamma 0.25 --norm-ratio 8",
        "compare --compression 4 --linf-norm 0.25",
        "plan --max-noise-overhead 0.1 --norm-ratio 8",
    ):
        inputs = csgm(f"{line} {common}").document["inputs"]
        assert (inputs["norm_ratio"], inputs["linf_norm"]) == (8.0, 0.25)
        settled = (None, None) if line.startswith("plan") else (0.25, 4.0)
        assert (inputs["gamma"], inputs["compression"]) == settled
    rotated = csgm(f"calibrate --gamma 0.1 --dim 1e6 --cohort-size 1000 {common}").document["inputs"]
    assert rotated["linf_norm"] == pytest.approx(2 * math.sqrt(2 * math.log(1e9) / 1e6), rel=1e-14)
    capped = csgm(f"calibrate --gamma 0.1 --linf-norm 5 {common}").document["inputs"]
    assert (capped["norm_ratio"], capped["linf_norm"]) == (1.0, 2.0)
    gaussian = csgm(f"calibrate --mechanism gaussian {common}").document["inputs"]
    assert (gaussian["norm_ratio"], gaussian["linf_norm"], gaussian["compression"]) == (None, None, 1.0)
    for given in ("0.3", "0.07", "0.49"):  # 1 / (1 / x) is not always x
        inputs = csgm(f"calibrate --gamma 0.1 --linf-norm {given} {common}").document["inputs"]
        assert inputs["linf_norm"] == float(given)


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("calibrate --epsilon 5 --delta 1e-3 --gamma 0.1 --norm-ratio 9 --cohort-size 1000", True),
        ("calibrate --epsilon 5 --delta 9e-4 --gamma 0.1 --norm-ratio 9 --cohort-size 1000", False),
        ("calibrate --epsilon 5 --delta 0.01 --gamma 0.1 --norm-ratio 9", False),
        ("calibrate --epsilon 5 --delta 0.011 --gamma 0.1 --norm-ratio 9", True),
        ("calibrate --epsilon 5 --delta 0.011 --gamma 0.1 --norm-ratio 9 --cohort-size 90", False),
        ("account --sigma 1 --mechanism gaussian --delta 1e-8 --delta 0.5", True),
        (
            "calibrate --epsilon 5 --delta 1e-4 --gamma 0.1 --norm-ratio 9 --cohort-size 1000"
            " --population 10000 --training-rounds 10",
            True,
        ),
        ("compare --epsilon 5 --delta 0.1 --gamma 0.1 --norm-ratio 9 --cohort-size 1000", True),
        ("plan --epsilon 5 --delta 0.1 --max-noise-overhead 0.1 --norm-ratio 9 --cohort-size 1000", True),
        ("account --sigma 1 --mechanism gaussian --cohort-size 1000 --delta 1e-8 --delta 0.1", True),
        ("account --sigma 1 --mechanism gaussian --cohort-size 1000 --epsilon 0", True),
        ("account --sigma 1 --mechanism gaussian --cohort-size 1000 --epsilon 9", False),
    ],
)
def test_a_delta_that_covers_a_client(csgm, line, warned):
    """From one over the number of clients on, delta allows to publish somebody's vector: a warning."""
    slugs = [warning["slug"] for warning in csgm(f"{line} --format json").document["warnings"]]
    assert ("delta-large" in slugs) == warned


def test_one_round_is_said_to_be_one(csgm):
    text = csgm(CALIBRATE).stdout
    assert re.search(r"^rounds +1 +release that one client can influence$", text, re.MULTILINE)
    assert "releases that one client can influence\n" in csgm(f"{CALIBRATE} --rounds 20").stdout


def test_values(csgm):
    """--value prints the one number that the JSON has, with every digit."""
    for line, key in (
        (CALIBRATE, "noise_multiplier"),
        (f"{ACCOUNT} --delta 1e-8", "epsilon"),
        (f"{ACCOUNT} --epsilon 3", "delta"),
        ("plan --epsilon 5 --delta 1e-8 --norm-ratio 1000 --max-noise-overhead 0.02", "gamma"),
    ):
        bare = csgm(f"{line} --value")
        assert bare.stdout == f"{csgm(f'{line} --format json').document['result'][key]!r}\n"


@pytest.mark.parametrize("kind", ["text", "json", "csv", "markdown"])
def test_output_file(csgm, place, kind):
    """--output holds the bytes that stdout would have had; stdout is empty."""
    expected = csgm(f"{CALIBRATE} --rounds 1 --format {kind}").stdout
    outcome = csgm(f"{CALIBRATE} --rounds 1 --format {kind} --output report")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "", "")
    assert (place / "report").read_text(encoding="utf-8") == expected


def test_output_file_for_a_terminal_is_plain(csgm, place, monkeypatch):
    """A report in a file is not laid out for the terminal that the command was typed at."""
    expected = csgm(CALIBRATE).stdout
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    csgm(f"{CALIBRATE} --output report")
    assert (place / "report").read_text(encoding="utf-8") == expected


def test_unwritable_output(csgm, place):
    """A file that cannot be written is an IO error, and an error leaves an old report alone."""
    outcome = csgm(f"{CALIBRATE} --output no/such/folder")
    assert (outcome.status, outcome.stdout) == (4, "")
    assert outcome.stderr.startswith("error[cannot-write]: ")
    (place / "report").write_text("old", encoding="utf-8")
    assert csgm("calibrate --epsilon nan --output report").status == 2
    assert (place / "report").read_text(encoding="utf-8") == "old"
    assert stat.S_ISREG((place / "report").stat().st_mode)


def test_same_inputs_same_bytes(csgm):
    """Two runs print the same bytes."""
    for kind in ("text", "json", "csv", "markdown"):
        assert csgm(f"{CALIBRATE} --format {kind}").stdout == csgm(f"{CALIBRATE} --format {kind}").stdout


def test_warnings_go_to_stderr(csgm):
    """A warning is on stderr in every format, and in the JSON as well."""
    line = (
        "calibrate --epsilon 5 --delta 1e-8 --gamma 0.1 --norm-ratio 100 --dim 50 --rounds 1 --accountant rdp"
    )
    for kind in ("--format text", "--format csv", "--format markdown", "--value"):
        outcome = csgm(f"{line} {kind}")
        assert outcome.stderr.startswith("warning[ratio-capped]: ")
        assert "ratio-capped" not in outcome.stdout
    assert [warning["slug"] for warning in csgm(f"{line} --format json").document["warnings"]] == [
        "ratio-capped"
    ]


def test_the_linf_norm_to_clip_at(csgm):
    """It stands in the text in full, so that it can be copied; the plain mechanism has none."""
    rotated = "--gamma 0.1 --dim 1e6 --cohort-size 1000 --accountant rdp"
    linf_norm = csgm(f"calibrate --epsilon 5 --delta 1e-8 {rotated} --format json").document["inputs"][
        "linf_norm"
    ]
    for line in (
        f"calibrate --epsilon 5 {rotated}",
        f"account --sigma 1 {rotated}",
        f"compare --epsilon 5 {rotated}",
    ):
        [shown] = re.findall(r"L2 1, L-inf ([^ ,]+), ratio", csgm(f"{line} --delta 1e-8").stdout)
        assert float(shown) == linf_norm
    assert "L-inf" not in csgm("calibrate --epsilon 5 --delta 1e-8 --mechanism gaussian").stdout


@pytest.mark.parametrize(
    "line",
    [
        f"{CALIBRATE} --accountant rdp",
        f"{CALIBRATE} --population 1000 --cohort-size 30 --training-rounds 101 --accountant paper",
        "calibrate --epsilon 3 --delta 1e-6 --mechanism gaussian --adjacency replace-one --l2-norm 3",
        "calibrate --epsilon 3 --delta 1e-6 --mechanism linf-csgm --gamma 0.1 --norm-ratio 9 --dim 200",
        "calibrate --epsilon 1 --delta 1e-6 --compression 8 --dim 1e5 --cohort-size 50 --accountant rdp",
        "compare --epsilon 5 --delta 1e-8 --gamma 0.1 --gamma 0.01 --norm-ratio 9 --dim 1e6 --accountant rdp",
        "plan --epsilon 5 --delta 1e-8 --norm-ratio 100 --max-noise-overhead 0.02 --accountant rdp",
    ],
)
def test_a_row_of_csv_can_be_asked_again(csgm, line):
    """A row says by itself what it answers: asked from its columns alone, the noise is the same."""
    names = ("mechanism", "gamma", "norm_ratio", "l2_norm", "dim", "cohort_size", "rounds", "adjacency")
    rows = list(csv.DictReader(io.StringIO(csgm(f"{line} --format csv").stdout)))
    assert rows
    for row in rows:
        asked = {"epsilon": row["target_epsilon"], "delta": row["delta"], "accountant": row["accountant"]}
        asked |= {name: row[name] for name in names if row[name]}
        again = csgm(
            "calibrate", "--format=json", *(f"--{k.replace('_', '-')}={v}" for k, v in asked.items())
        )
        assert again.document["result"]["sigma"] == pytest.approx(float(row["sigma"]), rel=1e-12)
        assert row["csgm_version"] == csgm_cli.__version__


def test_a_row_of_an_account_in_csv_can_be_asked_again(csgm):
    """The noise stands in the row, and so does what it is the noise of."""
    text = csgm(f"{ACCOUNT} --delta 1e-6 --delta 1e-8 --rounds 3 --accountant rdp --format csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2
    for row in rows:
        names = ("sigma", "gamma", "norm_ratio", "rounds", "delta", "accountant")
        again = csgm("account", "--value", *(f"--{k.replace('_', '-')}={row[k]}" for k in names))
        assert again.stdout.strip() == row["epsilon"]


def test_selftest_that_fails(csgm, monkeypatch):
    """A reference value that comes out differently is a failed claim, and the report says which."""
    cases = (
        SelftestCase("sound", 1.0, 1.0, 0.0, 1e-9),
        SelftestCase("broken", 1.0, math.nan, math.nan, 1e-9),
    )
    monkeypatch.setattr(reference, "selftest", lambda: cases)
    outcome = csgm("selftest --format json")
    assert outcome.status == 1
    assert [case["holds"] for case in outcome.document["result"]["cases"]] == [True, False]


def test_version(csgm):
    """The versions are those of the installed distributions."""
    result = csgm("version --format json").document["result"]
    assert list(result) == ["csgm", "numbers_version", "python", "numpy", "scipy", "mpmath", "click", "rich"]
    assert result["csgm"] == csgm_cli.__version__
    assert result["numbers_version"] == NUMBERS_VERSION
    assert f"(numbers version {NUMBERS_VERSION}, python " in csgm("version").stdout
    assert result["numpy"] == version("numpy")
    assert csgm("--version").stdout == f"csgm {csgm_cli.__version__}\n"


def test_missing_library(csgm, monkeypatch):
    """A library that is not installed is null, so that a broken installation can still be reported."""
    monkeypatch.setattr("csgm_cli.cli.commands.about.version.LIBRARIES", ("nosuchlibrary",))
    assert csgm("version --format json").document["result"]["nosuchlibrary"] is None
