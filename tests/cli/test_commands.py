"""The commands, end to end: known answers, formats, files, checks and drift."""

import csv
import io
import json
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
from csgm_cli.core import selftest as reference
from csgm_cli.core.rounding import round_up
from csgm_cli.model import SelftestCase
from csgm_cli.storage.arrays import read_arrays
from csgm_cli.storage.schema import load_schema

COMMANDS = {name: root.get_command(None, name) for name in REGISTRY}
EXAMPLES = [(name, example) for name, command in COMMANDS.items() for example in command.examples]
BUDGET = Path(__file__).parents[2] / "docs" / "examples" / "budget.toml"
CALIBRATE = "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000"
ACCOUNT = "account --noise-multiplier 0.0122 --gamma 0.01 --norm-ratio 1000"


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_examples_in_the_help(csgm, place, name, example):
    """Every example runs, says something, and stands in the help as it is here."""
    for budget in ("budget.toml", "old.toml"):
        (place / budget).write_text(BUDGET.read_text())
    if name == "inspect":
        csgm("factorize --T 32 --output prefix32.npz")
        np.save("C.npy", read_arrays("prefix32.npz").arrays["C"])
    assert f"  {example}\n" in csgm(f"{name} --help").stdout
    program, *words = shlex.split(example)
    assert (program, words[0]) == ("csgm", name)
    outcome = csgm(*words)
    assert outcome.status == 0
    assert outcome.stdout


def test_two_examples_each():
    """Every command's help has two examples, or the test above would pass without any."""
    assert {name: len(command.examples) for name, command in COMMANDS.items()} == dict.fromkeys(REGISTRY, 2)


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
        "sweep --vary epsilon=1,2 --delta 1e-5 --compression 10 --vary linf-norm=0.1,0.2 --verify",
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
        assert "no amplification" in outcome.stderr


def test_scale_of_the_norms(csgm):
    """Sigma scales with the clip norm; the noise multiplier does not."""
    one = csgm(f"{CALIBRATE} --format json").document["result"]
    ten = csgm(f"{CALIBRATE} --l2-norm 10 --format json").document["result"]
    assert ten["sigma"] == pytest.approx(10 * one["sigma"], rel=1e-12)
    assert ten["noise_multiplier"] == pytest.approx(one["noise_multiplier"], rel=1e-12)


def test_sigma_and_noise_multiplier_are_one_thing(csgm):
    """account takes either, and resolves the noise multiplier."""
    by_sigma = csgm("account --sigma 8 --l2-norm 2 --mechanism gaussian --delta 1e-6 --format json").document
    by_multiplier = csgm(
        "account --noise-multiplier 4 --mechanism gaussian --delta 1e-6 --format json"
    ).document
    assert by_sigma["result"]["epsilon"] == by_multiplier["result"]["epsilon"]
    assert by_sigma["inputs"]["noise_multiplier"] == 4.0


def test_all_three_ways_to_say_the_noise(csgm):
    """account shows multiplier, effective multiplier and sigma, in JSON and in text, whichever was given."""
    common = "account --l2-norm 2 --gamma 0.01 --norm-ratio 1000 --delta 1e-8"
    for given in ("--sigma 0.0244", "--noise-multiplier 0.0122"):
        inputs = csgm(f"{common} {given} --format json").document["inputs"]
        assert inputs["noise_multiplier"] == pytest.approx(0.0122, rel=1e-15)
        assert inputs["effective_noise_multiplier"] == pytest.approx(1.22, rel=1e-15)
        assert inputs["sigma"] == pytest.approx(0.0244, rel=1e-15)
        for several in ("", "--delta 1e-6"):
            shown = {
                line[:28].strip(): line[28:].split("  ")[0]
                for line in csgm(f"{common} {given} {several}").stdout.splitlines()
            }
            assert shown["noise multiplier"] == "0.0122"
            assert shown["effective noise multiplier"] == "1.22"
            assert shown["sigma"] == "0.0244"


def test_a_given_multiplier_is_kept_as_it_is(csgm):
    """Through sigma and back a multiplier can lose its last bit; the one given is shown."""
    for multiplier, l2_norm in ((0.0122, 3.0), (0.1, 7.0), (1.1, 0.3), (0.7, 1e-3)):
        line = (
            f"account --noise-multiplier {multiplier} --l2-norm {l2_norm} --mechanism gaussian --delta 1e-6"
        )
        assert csgm(f"{line} --format json").document["inputs"]["noise_multiplier"] == multiplier


def test_account_shows_what_the_noise_costs(csgm):
    """The same numbers as where calibrate found that noise, for one delta or several; none without sizes."""
    sizes = "--gamma 0.01 --dim 1e6 --cohort-size 1000 --l2-norm 2 --accountant rdp"
    calibrated = csgm(f"calibrate --epsilon 5 --delta 1e-8 {sizes} --format json").document["result"]
    line = f"account --sigma {calibrated['sigma']!r} {sizes} --delta 1e-8"
    for several in ("", "--delta 1e-6"):
        result = csgm(f"{line} {several} --format json").document["result"]
        for row in result.get("rows", [result]):
            assert row["mean_noise_std"] == calibrated["mean_noise_std"]
            assert row["mse"] == {
                key: calibrated["mse"][key] for key in ("privacy", "sparsification", "total")
            }
        text = csgm(f"{line} {several}").stdout
        noise = re.search(r"^mean noise std +(\S+) +left on the mean estimate$", text, re.MULTILINE)
        error = re.search(r"^MSE +(\S+) +privacy \S+ \+ sparsification 0.396$", text, re.MULTILINE)
        assert float(noise[1]) == pytest.approx(calibrated["sigma"] / (1000 * 0.01), rel=1e-5)
        assert float(error[1]) == pytest.approx(calibrated["mse"]["total"], rel=1e-5)
    without = csgm(f"{ACCOUNT} --delta 1e-8 --dim 1e6 --format json").document["result"]
    assert (without["mean_noise_std"], without["mse"]) == (None, None)
    assert "mean noise" not in csgm(f"{ACCOUNT} --delta 1e-8 --dim 1e6").stdout


def test_an_effective_multiplier_in_the_wrong_place(csgm):
    """1.1429 is the effective multiplier of (5, 1e-8) at gamma 0.01; as the multiplier it is noticed."""
    common = "account --gamma 0.01 --norm-ratio 1000 --rounds 1 --delta 1e-8 --max-epsilon 5 --format json"
    mistaken = csgm(f"{common} --noise-multiplier 1.1429")
    assert mistaken.status == 0
    [warning] = mistaken.document["warnings"]
    assert warning["slug"] == "perhaps-effective"
    assert "give 0.011429 instead: then epsilon is 5, not" in warning["message"]
    for right in ("--noise-multiplier 0.011429", "--noise-multiplier 0.12", "--noise-multiplier 50"):
        assert csgm(f"{common} {right}").document["warnings"] == []
    assert csgm("account --mechanism gaussian --sigma 20 --delta 1e-8").stderr == ""
    # one coordinate, DP-SGD: there 1 is a usual multiplier, and 0.01 would show what was sampled
    assert csgm("account --noise-multiplier 1 --gamma 0.01 --norm-ratio 1 --dim 1 --delta 1e-5").stderr == ""


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
        settled = {} if line.startswith("plan") else {"gamma": 0.25, "compression": 4.0}
        assert {key: inputs[key] for key in ("gamma", "compression") if key in inputs} == settled
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
    """The default of one release stands in the text by itself, with what to do where training repeats."""
    assert re.search(
        r"^rounds +1 +one release per client in all; give --rounds", csgm(CALIBRATE).stdout, re.MULTILINE
    )
    assert "releases that one client can influence\n" in csgm(f"{CALIBRATE} --rounds 20").stdout


@pytest.mark.parametrize(
    ("options", "said", "accountant"),
    [
        ("--gamma 0.01 --norm-ratio 100", "by exact", "exact"),
        ("--gamma 0.01 --norm-ratio 100 --accountant rdp", "by rdp as well; by exact it is less", "rdp"),
        (
            "--gamma 0.01 --norm-ratio 100 --accountant paper",
            "by paper as well; by exact it is less",
            "paper",
        ),
        ("--gamma 0.01 --norm-ratio 100 --accountant tight", "by exact", "exact"),
        (
            "--gamma 0.01 --norm-ratio 100 --accountant tight --adjacency replace-one",
            "by rdp as well; by exact it is less",
            "rdp",
        ),
        ("--gamma 0.9999 --norm-ratio 100", "by exact", "exact"),
        ("--mechanism gaussian", "by exact", "exact"),
        ("--mechanism gaussian --accountant rdp", "by rdp as well; by exact it is less", "rdp"),
    ],
)
def test_the_ratio_names_its_baseline(csgm, options, said, accountant):
    """The MSE ratio is to the Gaussian mechanism by the accountant that the text names."""
    common = "calibrate --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000"
    assert f"the Gaussian mechanism's {said}\n" in csgm(f"{common} {options}").stdout
    document = csgm(f"{common} {options} --format json").document
    adjacency = document["inputs"]["adjacency"]
    plain = f"{common} --mechanism gaussian --accountant {accountant} --adjacency {adjacency} --value"
    total = 1e6 * (float(csgm(plain).stdout) / 1000) ** 2
    assert document["result"]["mse"]["gaussian_total"] == pytest.approx(total, rel=1e-11)


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
    expected = csgm(f"{CALIBRATE} --format {kind}").stdout
    outcome = csgm(f"{CALIBRATE} --format {kind} --output report")
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
    line = "calibrate --epsilon 5 --delta 1e-8 --gamma 0.1 --norm-ratio 100 --dim 50"
    for kind in ("--format text", "--format csv", "--format markdown", "--value"):
        outcome = csgm(f"{line} {kind}")
        assert outcome.stderr.startswith("warning[ratio-capped]: ")
        assert "ratio-capped" not in outcome.stdout
    assert [warning["slug"] for warning in csgm(f"{line} --format json").document["warnings"]] == [
        "ratio-capped"
    ]


@pytest.mark.parametrize(("limit", "status"), [("4.8", 1), ("4.9", 0), ("0", 1)])
@pytest.mark.parametrize("kind", ["text", "json", "csv", "markdown"])
def test_max_epsilon(csgm, limit, status, kind):
    """The answer (4.898...) is printed either way; the exit code says whether the limit holds."""
    outcome = csgm(
        f"{ACCOUNT} --accountant rdp --rounds 1 --delta 1e-8 --max-epsilon {limit} --format {kind}"
    )
    assert outcome.status == status
    assert "4.898" in outcome.stdout
    assert outcome.stderr.startswith("failed: epsilon 4.898") == (status == 1)


def test_max_epsilon_for_several_deltas(csgm):
    """One epsilon above the limit is enough to fail."""
    line = "account --sigma 4 --mechanism gaussian --delta 1e-6 --delta 1e-8 --max-epsilon"
    assert csgm(f"{line} 1.2").status == 1  # 1.06 and 1.29
    assert csgm(f"{line} 1.3").status == 0


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ("", "--rounds"),
        ("--rounds 1", None),
        ("--rounds 20", None),
        ("--population 100 --cohort-size 10 --training-rounds 20", None),
        ("--factorization tree:4", "--epochs"),
        ("--factorization tree:4 --epochs 1", None),
    ],
)
def test_a_check_of_one_round_that_nobody_gave(csgm, monkeypatch, options, flag):
    """A gate that passes because the rounds were forgotten says so; whoever gave them is left alone."""
    line = "account --noise-multiplier 0.21 --gamma 0.05 --norm-ratio 305 --delta 1e-7 --accountant rdp"
    line = f"{line} {options}"
    assert "one-round" not in csgm(line).stderr
    stderr = csgm(f"{line} --max-epsilon 40 --value").stderr
    assert ("warning[one-round]: --max-epsilon is checked for one " in stderr) == (flag is not None)
    assert (f"give {flag} (1 says" in stderr) == (flag is not None)
    monkeypatch.setenv("CSGM_EPOCHS" if "factor" in options else "CSGM_ROUNDS", "1")
    assert "one-round" not in csgm(f"{line} --max-epsilon 40 --value").stderr


def test_a_limit_without_a_delta(csgm):
    """--max-epsilon alone is told what it needs."""
    outcome = csgm(f"{ACCOUNT} --max-epsilon 4")
    assert outcome.status == 2
    assert outcome.stderr.splitlines() == [
        "error[missing-option]: --max-epsilon checks an epsilon, which needs a delta",
        "  try: give --delta",
    ]


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
        [shown] = re.findall(r", l2 norm 1, linf norm ([^ ,]+),", csgm(f"{line} --delta 1e-8").stdout)
        assert float(shown) == linf_norm
    assert "linf norm" not in csgm("calibrate --epsilon 5 --delta 1e-8 --mechanism gaussian").stdout


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (
            "--noise-multiplier 0.21 --gamma 0.05",
            {"noise multiplier": "0.21", "effective": "4.2", "sigma": "0.21"},
        ),
        (
            "--noise-multiplier 0.21 --l2-norm 3e-2 --gamma 0.03",  # 0.21 * 0.03, and 0.21 / 0.03
            {"noise multiplier": "0.21", "effective": "7", "sigma": "0.0063"},
        ),
        (
            "--sigma 0.7 --l2-norm 3 --gamma 0.03",  # 7 / 30 and 70 / 9, rounded up
            {"noise multiplier": "0.233334", "effective": "7.77778", "sigma": "0.7"},
        ),
        ("--sigma 0.123456789 --gamma 0.5", {"sigma": "0.123456789", "noise multiplier": "0.123456789"}),
    ],
)
def test_derived_noise_is_rounded_up(csgm, options, lines):
    """account shows the noise that was given in full, and what follows from it in six digits."""
    text = csgm(f"account {options} --norm-ratio 305 --delta 1e-7 --accountant rdp").stdout
    for name, number in lines.items():
        [found] = re.findall(rf"^{name}(?: noise multiplier)? +(\S+) ", text, re.MULTILINE)
        assert found == number


def test_limit_that_is_met_exactly(csgm):
    """What calibrate prints passes the check at the target it was asked for."""
    noise = csgm(f"{CALIBRATE} --value").stdout.strip()
    line = f"account --noise-multiplier {noise} --gamma 0.01 --norm-ratio 1000 --delta 1e-8 --max-epsilon 5"
    assert csgm(line).status == 0


def save(csgm, line, name="saved.json"):
    """Save the JSON result of a line."""
    assert csgm(f"{line} --format json --output {name}").status == 0


def edit(path, value, name="saved.json"):
    """Replace one value of a saved result; a number in ``path`` is an index."""
    document = json.loads(Path(name).read_text(encoding="utf-8"))
    *outer, last = path.split(".")
    holder = document
    for key in outer:
        holder = holder[int(key) if key.isdigit() else key]
    if value is ...:
        del holder[last]
    else:
        holder[last] = value
    Path(name).write_text(json.dumps(document), encoding="utf-8")


def say_epsilon(row, factor):
    """Change the epsilon of a saved row wherever it stands."""
    was = f"({round_up(row['epsilon'])}, "
    assert was in row["statement"]
    row["epsilon"] *= factor
    row["statement"] = row["statement"].replace(was, f"({round_up(row['epsilon'])}, ")
    row["lower_bound"] = 0.0


@pytest.mark.parametrize(
    "line",
    [
        CALIBRATE,
        "calibrate --epsilon 5 --delta 1e-8 --compression 100 --dim 1e6 --cohort-size 1000 --l2-norm 3",
        "calibrate --epsilon 5 --delta 1e-8 --gamma 0.1 --norm-ratio 100 --dim 50",
        "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --linf-norm 0.002 --mechanism linf-csgm --dim 1e6",
        "calibrate --epsilon 5 --delta 1e-8 --mechanism gaussian --rounds 7 --adjacency replace-one",
        f"{CALIBRATE} --population 1000 --cohort-size 30 --training-rounds 101 --accountant paper",
        f"{ACCOUNT} --delta 1e-8",
        f"{ACCOUNT} --epsilon 3",
        f"{ACCOUNT} --epsilon 9 --adjacency replace-one",
        "account --sigma 0.03 --l2-norm 3 --gamma 0.01 --linf-norm 0.003 --delta 1e-8",
        "plan --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 --max-mse-overhead 0.05",
        "plan --epsilon 5 --delta 1e-8 --norm-ratio 1000 --max-noise-overhead 0.02 --l2-norm 3",
    ],
)
def test_rerun_of_a_saved_result(csgm, line):
    """A saved result asked again gives the same number: no drift, exit code 0, whatever led to its inputs."""
    save(csgm, line)
    saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    outcome = csgm("account --from saved.json --format json")
    assert outcome.status == 0
    assert [warning["slug"] for warning in outcome.document["warnings"]] == []
    [row] = saved["result"].get("rows", [saved["result"]])
    for key in ("epsilon", "delta"):
        assert outcome.document["result"][key] == pytest.approx(row[key], rel=1e-11)
    assert outcome.stderr.startswith("saved.json: ")
    saved["inputs"].setdefault("gamma", row.get("gamma"))  # a plan's answer
    for key in ("mechanism", "gamma", "norm_ratio", "l2_norm", "dim", "rounds", "adjacency"):
        assert outcome.document["inputs"][key] == saved["inputs"][key]


def test_rerun_of_a_curve(csgm):
    """Every delta of a saved curve is asked again, and each epsilon is compared."""
    save(csgm, f"{ACCOUNT} --delta 1e-6 --delta 1e-8")
    again = csgm("account --from saved.json --format json")
    assert (again.status, again.document["warnings"]) == (0, [])
    assert again.document["inputs"]["delta"] == [1e-6, 1e-8]
    assert again.stderr.count("saved.json: epsilon was ") == 2
    saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    say_epsilon(saved["result"]["rows"][1], 0.9)
    Path("saved.json").write_text(json.dumps(saved), encoding="utf-8")
    warnings = csgm("account --from saved.json --format json").document["warnings"]
    assert [warning["slug"] for warning in warnings] == ["drift-up"]


def test_rerun_with_another_question(csgm, reference):
    """Accountant, delta and epsilon can be asked anew of a saved mechanism; then there is no drift."""
    gaussian = "calibrate --mechanism gaussian --epsilon 1 --delta 1e-5"
    save(csgm, gaussian)
    by_delta = csgm("account --from saved.json --delta 1e-6 --delta 1e-5 --format json").document
    assert [row["delta"] for row in by_delta["result"]["rows"]] == [1e-6, 1e-5]
    assert by_delta["result"]["rows"][1]["epsilon"] == pytest.approx(1.0, rel=1e-9)
    by_epsilon = csgm("account --from saved.json --epsilon 1 --format json")
    assert by_epsilon.document["result"]["delta"] == pytest.approx(1e-5, rel=1e-9)
    assert "nothing to compare" in by_epsilon.stderr
    by_rdp = csgm("account --from saved.json --accountant rdp --format json").document
    assert by_rdp["inputs"]["accountant"] == by_rdp["result"]["bound"] == "rdp"
    assert by_rdp["result"]["epsilon"] > 1.0
    assert by_rdp["warnings"] == []
    same = csgm("account --from saved.json --delta 1e-5 --accountant exact")
    assert "relative difference" in same.stderr
    both = csgm("account --from saved.json --delta 1e-5 --epsilon 1")
    assert (both.status, both.stdout) == (2, "")


@pytest.mark.parametrize("flag", ["--gamma 0.1", "--norm-ratio 9", "--sigma 1", "--rounds 2", "--dim 5"])
def test_rerun_of_another_mechanism(csgm, flag):
    """What the saved result says of the mechanism and its noise cannot be changed by a flag."""
    save(csgm, CALIBRATE)
    outcome = csgm(f"account --from saved.json {flag}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert f"--from and {flag.split()[0]} exclude each other" in outcome.stderr


def test_rerun_of_a_comparison_is_refused_with_a_hint(csgm):
    """Which of its mechanisms is meant nobody knows."""
    save(csgm, "compare --epsilon 5 --delta 1e-8 --gamma 0.1 --norm-ratio 1000")
    outcome = csgm("account --from saved.json")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "several mechanisms" in outcome.stderr
    assert "try: calibrate the one you use" in outcome.stderr


def test_limit_on_a_saved_question_about_delta(csgm):
    """A limit on epsilon cannot be held against a delta; with a delta it can."""
    save(csgm, f"{ACCOUNT} --epsilon 3")
    outcome = csgm("account --from saved.json --max-epsilon 5")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "try: give --delta too" in outcome.stderr
    assert csgm("account --from saved.json --max-epsilon 5 --delta 1e-8").status == 0  # 4.652...
    assert csgm("account --from saved.json --max-epsilon 4.6 --delta 1e-8").status == 1


@pytest.mark.parametrize(
    ("factor", "slugs"),
    [(1.0, []), (1 + 1e-10, []), (1 - 1e-10, []), (1 + 1e-8, ["drift"]), (0.9, ["drift-up"])],
)
def test_drift(csgm, factor, slugs):
    """Both numbers are always shown; a difference of more than 1e-9 is a warning, and never a failure."""
    save(csgm, CALIBRATE)
    saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    say_epsilon(saved["result"], factor)
    saved["inputs"]["epsilon"] = max(5.0, saved["result"]["epsilon"])
    saved["csgm_version"] = "0.0.9"
    Path("saved.json").write_text(json.dumps(saved), encoding="utf-8")
    outcome = csgm("account --from saved.json --format json")
    assert outcome.status == 0
    assert [warning["slug"] for warning in outcome.document["warnings"]] == slugs
    assert outcome.stderr.count("warning[") == len(slugs)
    assert ("warning[drift-up]: THE SAVED GUARANTEE IS NOT PROVEN" in outcome.stderr) == (factor == 0.9)
    first = outcome.stderr.splitlines()[0]
    assert repr(saved["result"]["epsilon"]) in first
    assert repr(outcome.document["result"]["epsilon"]) in first
    assert "csgm 0.0.9" in first


def test_rerun_as_a_check(csgm):
    """A saved result can be held against a limit and verified."""
    save(csgm, CALIBRATE)
    assert csgm("account --from saved.json --max-epsilon 4").status == 1
    outcome = csgm("account --from saved.json --max-epsilon 5 --verify --format json")
    assert outcome.status == 0
    assert outcome.document["result"]["verified"]["digits"] == 30


def test_rerun_is_stronger_than_a_weaker_source(csgm, monkeypatch):
    """What the environment says of the mechanism does not change a saved question."""
    save(csgm, CALIBRATE)
    monkeypatch.setenv("CSGM_GAMMA", "0.5")
    monkeypatch.setenv("CSGM_DELTA", "1e-3")
    document = csgm("account --from saved.json --format json").document
    assert (document["inputs"]["gamma"], document["result"]["delta"]) == (0.01, 1e-8)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gamma": 7}, "gamma 7 disagrees with 1 / compression"),
        ({"dim": 0}, "dim in the saved inputs must be"),
        ({"gamma": "0.01"}, "gamma in the saved inputs must be"),
        ({"gamma": None}, "gamma in the saved inputs must be"),
        ({"rounds": 1.5}, "rounds in the saved inputs must be"),
        ({"rounds": True}, "rounds in the saved inputs must be"),
        ({"mechanism": "l2"}, "mechanism in the saved inputs must be"),
        ({"adjacency": 3}, "adjacency in the saved inputs must be"),
        ({"norm_ratio": None}, "ratio"),
    ],
)
def test_wrong_input_in_a_saved_result(csgm, change, said):
    """A file whose inputs are no question is a content error, not a bug."""
    save(csgm, CALIBRATE)
    saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    saved["inputs"] |= change
    Path("saved.json").write_text(json.dumps(saved), encoding="utf-8")
    outcome = csgm("account --from saved.json")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr


COHORT = "--population 1000 --cohort-size 30 --training-rounds 101 --dim 1e6 --accountant rdp"


@pytest.mark.parametrize(
    ("line", "path", "value", "said"),
    [
        (CALIBRATE, "inputs.rounds", 3, "rounds 3 disagrees with population 1000, cohort_size 30, training_"),
        (CALIBRATE, "inputs.population", 700, "rounds 4 disagrees with population 700, cohort_size 30"),
        (CALIBRATE, "inputs.cohort_size", 29, "rounds 4 disagrees with population 1000, cohort_size 29"),
        (CALIBRATE, "inputs.training_rounds", "9", "training_rounds must be a number, got '9'"),
        (CALIBRATE, "result.mse.total", 9.0, "mse.total 9.0 disagrees with the mechanism and its noise"),
        (CALIBRATE, "result.mse.privacy", 9.0, "mse.privacy 9.0 disagrees"),
        (CALIBRATE, "result.mse.sparsification", 0.0, "mse.sparsification 0.0 disagrees"),
        (CALIBRATE, "result.mse.gaussian_total", 10**400, "beyond float64"),
        (CALIBRATE, "result.mse.ratio", 10**400, "beyond float64"),
        (CALIBRATE, "result.mse.ratio", True, "mse.ratio True disagrees"),
        (CALIBRATE, "result.mse", None, "mse None disagrees"),
        (CALIBRATE, "inputs.dim", None, "bits_per_client 320000.0 disagrees"),
        (CALIBRATE, "inputs.value_bits", 16, "bits_per_client 320000.0 disagrees"),
        (CALIBRATE, "result.mean_noise_std", 0.5, "mean_noise_std 0.5 disagrees"),
        (CALIBRATE, "result.assumptions", [], "result.assumptions disagrees with its numbers: [] instead"),
        (CALIBRATE, "result.bound", "exact", "result.statement disagrees with its numbers"),
        (
            CALIBRATE,
            "result.bound",
            "best",
            "result.bound disagrees with its numbers: 'best' instead of 'exact",
        ),
        (CALIBRATE, "result.bound", ["rdp"], "result.bound disagrees with its numbers: ['rdp'] instead"),
        (CALIBRATE, "result.epsilon", 4.0, "result.statement disagrees with its numbers: '(5, 1e-8)-"),
        (
            CALIBRATE,
            "result.statement",
            "Private.",
            "result.statement disagrees with its numbers: 'Private.'",
        ),
        (CALIBRATE, "result.statement", 7, 'result.statement disagrees with its numbers: 7 instead of "The'),
        (CALIBRATE, "result.statement", ..., "result.statement is missing"),
        (CALIBRATE, "result.assumptions", ..., "result.assumptions is missing"),
        (CALIBRATE, "result.bound", ..., "result.bound is missing"),
        (CALIBRATE, "inputs.epsilon", 4.9, "is above the target 4.9"),
        (CALIBRATE, "result.lower_bound", 0.9, "lower_bound 0.9 is no lower bound of noise_multiplier 0.0"),
        (CALIBRATE, "result.lower_bound", -0.01, "lower_bound -0.01 is no lower bound"),
        (CALIBRATE, "result.lower_bound", "0", "lower_bound '0' is no lower bound"),
        (ACCOUNT, "result.rows.0.lower_bound", 99, "lower_bound 99 is no lower bound of epsilon "),
        (ACCOUNT, "inputs.rounds", 3, "rounds 3 disagrees"),
        (ACCOUNT, "result.rows.1.mse.total", 3, "mse.total 3 disagrees"),
        (ACCOUNT, "result.rows.1.mse.ratio", 3, "mse.ratio 3 disagrees"),
        (ACCOUNT, "result.rows.1.statement", "Private.", "result.statement disagrees"),
        (ACCOUNT, "result.rows.0.epsilon", 0.1, "result.statement disagrees"),
    ],
)
def test_a_saved_result_that_contradicts_itself(csgm, line, path, value, said):
    """Whatever a file says twice it must say alike, or one of the two was edited."""
    save(csgm, f"{line} {COHORT} {'--delta 1e-6 --delta 1e-8' if line == ACCOUNT else ''}")
    assert csgm("account --from saved.json").status == 0
    edit(path, value)
    outcome = csgm("account --from saved.json")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr.splitlines()[0]


def test_words_of_another_version(csgm):
    """Another version may have said the same in other words; its numbers must agree all the same."""
    save(csgm, f"{CALIBRATE} {COHORT}")
    edit("csgm_version", "0.0.9")
    assert "other-words" not in csgm("account --from saved.json").stderr
    edit("result.statement", "Private.")
    outcome = csgm("account --from saved.json --format json")
    assert outcome.status == 0
    assert [warning["slug"] for warning in outcome.document["warnings"]] == ["other-words"]
    edit("inputs.rounds", 3)
    assert csgm("account --from saved.json").status == 2


def test_files_that_are_no_saved_result(csgm):
    """Content is exit code 2, reading is exit code 4."""
    assert csgm("account --from missing.json").status == 4
    assert csgm("account --from .").status == 4
    for line in ("version", "selftest"):
        save(csgm, line)
        assert csgm("account --from saved.json").status == 2
    save(csgm, CALIBRATE)
    csgm("account --from saved.json --output report.txt")
    assert "try: write it with --format json: " in csgm("account --from report.txt").stderr
    for content in (b"", b"[]", b"{", b"\xff", b'{"schema": "csgm/calibrate/2"}', b"[" * 10**5):
        Path("saved.json").write_bytes(content)
        assert csgm("account --from saved.json").status == 2


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
    assert list(result) == ["csgm", "python", "numpy", "scipy", "mpmath", "click", "rich"]
    assert result["csgm"] == csgm_cli.__version__
    assert result["numpy"] == version("numpy")
    assert csgm("--version").stdout == f"csgm {csgm_cli.__version__}\n"


def test_missing_library(csgm, monkeypatch):
    """A library that is not installed is null, so that a broken installation can still be reported."""
    monkeypatch.setattr("csgm_cli.cli.version._LIBRARIES", ("nosuchlibrary",))
    assert csgm("version --format json").document["result"]["nosuchlibrary"] is None
