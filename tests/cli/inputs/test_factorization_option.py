"""``--factorization`` and ``--epochs`` in every command that takes them."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from csgm_cli.cli.inputs import factorizations
from csgm_cli.storage.schema import load_schema
from tests.cli.questions import CALIBRATE_SIZED, SIZES

jsonschema = pytest.importorskip("jsonschema")

LINES = [
    CALIBRATE_SIZED,
    CALIBRATE_SIZED.replace("--accountant rdp", "--mechanism linf-csgm"),
    "calibrate --epsilon 5 --delta 1e-6 --mechanism gaussian --dim 1e5 --cohort-size 200",
    f"account --noise-multiplier 1 --delta 1e-6 --gamma 0.1 {SIZES}",
    f"account --noise-multiplier 1 --delta 1e-6 --delta 1e-5 --gamma 0.1 {SIZES}",
    f"account --sigma 1 --epsilon 3 --gamma 0.1 {SIZES}",
    f"compare --epsilon 5 --delta 1e-6 --gamma 0.1 --gamma 0.2 {SIZES}",
    f"compare --epsilon 5 --delta 1e-6 --gamma 0.1 --at-equal-mse {SIZES}",
    f"plan --epsilon 5 --delta 1e-6 --max-mse-overhead 0.1 {SIZES}",
    f"sweep --epsilon 5 --delta 1e-6 --vary gamma=0.1,0.2 {SIZES}",
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", ["json", "text", "csv", "markdown"])
def test_every_command_and_format(csgm, file, line, kind):
    """Inputs say what was used, documents meet their schema, and people read it."""
    outcome = csgm(f"{line} --factorization {file.name} --epochs 3 --format {kind}")
    assert (outcome.status, outcome.stderr.count("error[")) == (0, 0)
    if kind == "json":
        command = line.split()[0]
        jsonschema.validate(outcome.document, load_schema(command))
        inputs = outcome.document["inputs"]
        assert (inputs["factorization"], inputs["epochs"], inputs["rounds"]) == ("prefix8.npz", 3, None)
        assert (inputs["T"], inputs["workload"], inputs["strategy"]) == (8, "prefix-sum", "optimal")
        assert inputs["sensitivity"] == pytest.approx(1, rel=1e-12)
        assert len(inputs["factorization_sha256"]) == 64
    if kind == "text":
        for part in ("optimal, for prefix-sum of T = 8 steps", "prefix8.npz", "at most one step of each"):
            assert part in outcome.stdout
        assert "rounds  " not in outcome.stdout


@pytest.mark.parametrize("line", LINES)
def test_without_one_nothing_is_said(csgm, line):
    """The keys of a factorization are not there, its options null, and rounds is what it was."""
    inputs = csgm(f"{line} --format json").document["inputs"]
    assert (inputs["factorization"], inputs["epochs"], inputs["rounds"]) == (None, None, 1)
    assert not {"T", "workload", "strategy", "sensitivity", "factorization_sha256"} & inputs.keys()


def test_a_file_is_the_strategy_it_was_made_by(csgm, file):
    """Solved now or read, the answer is the same; other formats have the same content hash."""
    solved = csgm(f"{CALIBRATE_SIZED} --factorization optimal:8 --format json").document
    read = csgm(f"{CALIBRATE_SIZED} --factorization {file} --format json").document
    assert read["result"]["sigma"] == pytest.approx(solved["result"]["sigma"], rel=1e-11)
    assert read["result"]["mse"]["total"] == pytest.approx(solved["result"]["mse"]["total"], rel=1e-8)
    assert solved["inputs"]["factorization_sha256"] is None
    inspected = csgm("inspect", str(file), "--format", "json").document["result"]["claims"]
    assert read["inputs"]["factorization_sha256"] == inspected[-1]["computed"]


def test_one_epoch_is_the_default(csgm):
    """Without --epochs each client takes part once in all."""
    line = f"{CALIBRATE_SIZED} --factorization tree:4"
    assert csgm(f"{line} --value").stdout == csgm(f"{line} --epochs 1 --value").stdout
    said = "a client takes part in at most one step; pass --epochs if training repeats"
    assert (said in csgm(line).stdout, said in csgm(f"{line} --epochs 2").stdout) == (True, False)
    plain = float(csgm(f"{CALIBRATE_SIZED} --value").stdout)
    assert float(csgm(f"{line} --value").stdout) == pytest.approx(math.sqrt(3) * plain, rel=1e-9)


def test_streaming_and_counts(csgm):
    """streaming:N:T, and T as people write counts."""
    inputs = csgm(f"{CALIBRATE_SIZED} --factorization streaming:2:1e2 --format json").document["inputs"]
    assert (inputs["strategy"], inputs["T"]) == ("streaming:2", 100)


def test_arrays_made_elsewhere(csgm, place):
    """Plain B and C, or one of them; nobody knows the strategy."""
    np.savez(place / "plain.npz", B=np.eye(4), C=np.tri(4))
    np.save(place / "C.npy", np.tri(4))
    for name in ("plain.npz", "C.npy"):
        found = csgm(f"{CALIBRATE_SIZED} --factorization {name} --format json").document
        assert (found["inputs"]["strategy"], found["inputs"]["T"]) == (None, 4)
        assert found["inputs"]["sensitivity"] == pytest.approx(2, rel=1e-14)
    assert "made elsewhere, for prefix-sum" in csgm(f"{CALIBRATE_SIZED} --factorization C.npy").stdout


def test_compare_names_strategies(csgm):
    """The factorization asked about, then independent noise and the trees, told apart by a column."""
    line = f"compare --epsilon 5 --delta 1e-6 --gamma 0.1 {SIZES} --factorization tree:8"
    rows = csgm(f"{line} --format json").document["result"]["rows"]
    assert [(row["mechanism"], row["strategy"]) for row in rows] == [
        ("gaussian", "tree"),
        ("l2-csgm", "tree"),
        ("linf-csgm", "tree"),
        ("l2-csgm", "identity"),
        ("l2-csgm", "honaker-online"),
        ("l2-csgm", "honaker-full"),
    ]
    first = rows[0]["mse"]["total"]
    for row in rows:
        assert row["mse"]["gaussian_total"] == pytest.approx(first, rel=1e-12)
        assert row["mse"]["ratio"] == pytest.approx(row["mse"]["total"] / first, rel=1e-12)
    text = csgm(line).stdout
    header = text.splitlines()[0].split("  ")
    assert {"strategy", "MSE"} <= {cell.strip() for cell in header}
    assert "MSE of the matrix mechanism (row 1)" in text
    plain = csgm(f"compare --epsilon 5 --delta 1e-6 --gamma 0.1 {SIZES}").stdout
    assert "strategy" not in plain


def test_sweep_over_epochs(csgm):
    """A row each, as calibrate says."""
    line = f"sweep --epsilon 5 --delta 1e-6 --gamma 0.1 {SIZES} --factorization tree:8 --vary epochs=1,4"
    document = csgm(f"{line} --format json").document
    jsonschema.validate(document, load_schema("sweep"))
    assert document["inputs"]["epochs"] == [1, 4]
    for row in document["result"]["rows"]:
        alone = csgm(f"{CALIBRATE_SIZED} --factorization tree:8 --epochs {row['epochs']} --value").stdout
        assert row["noise_multiplier"] == float(alone)
    assert csgm(line).stdout.splitlines()[0].startswith("epochs")


def test_sweep_over_rounds_as_text(csgm):
    """Varied rounds stand in the table and nowhere else."""
    outcome = csgm(f"sweep --epsilon 5 --delta 1e-6 --gamma 0.1 {SIZES} --vary rounds=1,4")
    assert outcome.status == 0
    assert outcome.stdout.startswith("rounds")


CONFLICTS = [
    ("--factorization tree:8 --rounds 3", "--factorization and --rounds exclude each other"),
    ("--factorization tree:8 --population 1e4 --training-rounds 9", "--factorization and --training-rounds"),
    ("--rounds 3 --epochs 3", "--epochs and --rounds exclude each other"),
    ("--epochs 3", "--epochs needs --factorization"),
    ("--factorization tree:8 --population 1599", "cohort_size 200 take 1600 places, more than"),
    ("--factorization tree:8 --epochs 0", "--epochs must be an integer in [1, 1e+09]"),
    ("--factorization tree:8 --epochs 1.5", "--epochs must be an integer in [1, 1e+09]"),
]


@pytest.mark.parametrize(("options", "said"), CONFLICTS)
@pytest.mark.parametrize("line", [LINES[0], LINES[3], LINES[6], LINES[8], LINES[9]])
def test_conflicts(csgm, line, options, said):
    """Who takes part how often is said in one way."""
    outcome = csgm(f"{line} {options}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr
    assert outcome.stderr.count("error[") == 1


def test_the_stronger_source_wins(csgm, monkeypatch):
    """Rounds of a weaker source were meant for runs without a factorization, and the other way round."""
    monkeypatch.setenv("CSGM_ROUNDS", "7")
    inputs = csgm(f"{CALIBRATE_SIZED} --factorization tree:8 --format json").document["inputs"]
    assert (inputs["epochs"], inputs["rounds"]) == (1, None)
    monkeypatch.delenv("CSGM_ROUNDS")
    monkeypatch.setenv("CSGM_FACTORIZATION", "tree:8")
    monkeypatch.setenv("CSGM_EPOCHS", "3")
    inputs = csgm(f"{CALIBRATE_SIZED} --format json").document["inputs"]
    assert (inputs["factorization"], inputs["epochs"]) == ("tree:8", 3)
    inputs = csgm(f"{CALIBRATE_SIZED} --rounds 2 --format json").document["inputs"]
    assert (inputs["factorization"], inputs["epochs"], inputs["rounds"]) == (None, None, 2)


SPECS = [
    ("optimal:0", "out-of-range", "T of --factorization must be an integer in [1, 1e+08], got '0'"),
    ("optimal:1e9", "out-of-range", "T of --factorization must be an integer in [1, 1e+08], got '1e9'"),
    ("optimal:-1", "out-of-range", "got '-1'"),
    ("optimal:nan", "out-of-range", "got 'nan'"),
    ("optimal:", "out-of-range", "got ''"),
    ("optimal", "missing-rows", "must be written optimal:T"),
    ("tree:4:4", "missing-rows", "must be written tree:T"),
    ("streaming:4", "missing-rows", "must be written streaming:N:T"),
    ("blt:4", "missing-rows", "must be written blt:N:T, such as blt:4:1024"),
    ("blt:17:32", "out-of-range", "blt takes 1 to 16 buffers, got 17"),
    ("streaming:0:8", "out-of-range", "N of --factorization must be an integer in [1, 64]"),
    ("streaming:N:8", "out-of-range", "got 'N'"),
    ("nosuch:32", "unknown-choice", "must be a file or one of optimal"),
    ("optimla:32", "unknown-choice", "did you mean optimal?"),
    ("", "unknown-choice", "must be a file"),
    (":", "unknown-choice", "must be a file"),
]


@pytest.mark.parametrize(("spec", "slug", "said"), SPECS)
def test_specs_that_name_nothing(csgm, spec, slug, said):
    """One message, exit code 2, nothing on stdout."""
    outcome = csgm(*CALIBRATE_SIZED.split(), "--factorization", spec)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error[{slug}]: ")
    assert said in outcome.stderr
    assert outcome.stderr.count("error[") == 1


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("streaming:1024:4", "N comes before T: streaming:4:1024"),
        ("blt-normalized:1024:4", "N comes before T: blt-normalized:4:1024"),
        ("prefix8", "did you mean prefix8.npz?"),
        (".git/../prefix8", "did you mean .git/../prefix8.npz?"),
        ("32", "a strategy goes before T: optimal:32"),
        ("momentum=0.9:500", "csgm factorize --workload momentum=0.9 --T 500 --output FILE"),
        ("momentum:0.9:500", "csgm factorize --workload momentum=0.9 --T 500 --output FILE"),
        ("momentum=0.9", "csgm factorize --workload momentum=0.9 --T T --output FILE"),
        ("optimal,32", "a strategy with its T, such as optimal:32"),
        ("nowhere/prefix8", "takes a file of csgm factorize --output"),
    ],
)
def test_hints_for_specs(csgm, file, spec, hint):
    """What was probably meant."""
    assert file.name == "prefix8.npz"
    error, tried = csgm(*CALIBRATE_SIZED.split(), "--factorization", spec).stderr.splitlines()
    assert error.startswith("error[")
    assert hint in tried


def test_rounds_beside_a_factorization(csgm):
    """The hint says which epochs such rounds are."""
    outcome = csgm(f"{CALIBRATE_SIZED} --factorization optimal:32 --rounds 512")
    assert outcome.status == 2
    assert "--epochs = training rounds / T, rounded up" in outcome.stderr


CLIENTS = "--cohort-size 200 --norm-ratio 9 --population"


@pytest.mark.parametrize(("rows", "population", "status"), [(10, 2000, 0), (10, 1999, 2), (300, 2000, 2)])
def test_clients_for_an_epoch(csgm, rows, population, status):
    """T cohorts of disjoint clients need T n of them: 10 x 200 are 2000, and 300 steps repeat clients."""
    line = f"calibrate --epsilon 5 --delta 1e-6 --gamma 0.1 {CLIENTS} {population}"
    outcome = csgm(f"{line} --factorization tree:{rows} --epochs 1 --format json")
    assert outcome.status == status
    if status:
        error = outcome.document["error"]
        assert error["slug"] == "repeats-in-epoch"
        assert error["hint"].startswith(f"use T up to {9 if population < 2000 else 10} and")
    else:
        inputs = outcome.document["inputs"]
        assert (inputs["population"], inputs["rounds"], inputs["epochs"]) == (population, None, 1)


@pytest.mark.parametrize(
    ("options", "slug"),
    [("--norm-ratio 9", "missing-option"), ("--norm-ratio 9 --cohort-size 101", "cohort-above-population")],
)
def test_a_population_beside_a_factorization_is_checked(csgm, options, slug):
    """It says nothing alone, and no cohort is larger."""
    line = "calibrate --epsilon 5 --delta 1e-6 --gamma 0.1 --factorization tree:8 --population 100"
    assert csgm(f"{line} {options} --format json").document["error"]["slug"] == slug


def test_a_population_beside_a_factorization_goes_on_to_be_checked(csgm):
    """It is kept in a saved result, a large delta is held against it, and it states no epochs."""
    line = f"account --sigma 3 --gamma 0.1 {CLIENTS} 2000 --factorization tree:10 --delta 1e-3"
    outcome = csgm(f"{line} --max-epsilon 90 --format json --output saved.json")
    assert outcome.status == 0
    assert "warning[one-round]" in outcome.stderr
    saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    assert "delta-large" in [warning["slug"] for warning in saved["warnings"]]
    again = csgm("account --from saved.json --format json")
    assert (again.status, again.document["inputs"]["population"]) == (0, 2000)
    saved["inputs"] |= dict.fromkeys(("population", "population_size"), 1999)
    Path("saved.json").write_text(json.dumps(saved), encoding="utf-8")
    again = csgm("account --from saved.json --format json")
    assert (again.status, again.document["error"]["slug"]) == (2, "repeats-in-epoch")


def test_a_release_of_more_steps_than_clients(csgm, place):
    """In a budget too, with its place, and keys as they are spelt there."""
    release = """[population.p]
epsilon = 90
delta = 1e-6
[population.p.release.r]
mechanism = "gaussian"
sigma = 40
factorization = "tree:11"
population = 2000
cohort-size = 200
"""
    (place / "b.toml").write_text(release)
    outcome = csgm("check b.toml")
    assert outcome.status == 2
    assert outcome.stderr.startswith("error[repeats-in-epoch]: b.toml:4: release r of p: T = 11 steps")
    (place / "b.toml").write_text(release.replace("tree:11", "tree:10"))
    outcome = csgm("check b.toml")
    assert outcome.status == 0
    assert (
        "pass epochs (use epochs = 1 if each client takes part once)" in outcome.stderr
    )  # the clients do not say how often


BUDGET = """
[defaults]
rounds = 3
[population.p]
epsilon = 6
delta = 1e-6
[population.p.release.sums]
factorization = "prefix8.npz"
epochs = 16
noise-multiplier = 1
gamma = 0.5
norm-ratio = 10
[population.p.release.counts]
factorization = "tree:4"
mechanism = "gaussian"
noise-multiplier = 100
"""


def test_budget(csgm, file, place):
    """Files are named from the folder of the budget; each epoch is charged once; the lock keeps it all."""
    (place / "budgets").mkdir()
    file.rename(place / "budgets" / file.name)
    (place / "budgets" / "b.toml").write_text(BUDGET)
    outcome = csgm("check budgets/b.toml --write-lock lock.json --format json")
    document = outcome.document
    jsonschema.validate(document, load_schema("check"))
    jsonschema.validate(json.loads((place / "lock.json").read_text()), load_schema("lock"))
    sums, counts = document["result"]["populations"][0]["releases"]
    assert (sums["rounds"], sums["epochs"], sums["T"], sums["strategy"]) == (None, 16, 8, "optimal")
    assert (counts["rounds"], counts["epochs"], counts["T"], counts["strategy"]) == (None, 1, 4, "tree")
    assert (
        csgm("check budgets/b.toml --against-lock lock.json --format json").document["result"]["changes"][
            "populations"
        ][0]["releases"]
        == []
    )
    (place / "budgets" / "b.toml").write_text(BUDGET.replace("epochs = 16", "epochs = 17"))
    outcome = csgm("check budgets/b.toml --against-lock lock.json")
    assert "epochs 16 -> 17" in outcome.stdout


def test_budget_of_one_release_is_account(csgm, file, place):
    """A release alone spends what account says of it."""
    (place / "b.toml").write_text(BUDGET[: BUDGET.index("[population.p.release.counts]")])
    spent = csgm("check b.toml --format json").document["result"]["populations"][0]["spent"]
    line = "account --noise-multiplier 1 --gamma 0.5 --norm-ratio 10 --delta 1e-6 --epochs 16"
    expected = csgm(f"{line} --factorization prefix8.npz --value").stdout
    assert spent == float(expected)


def test_budget_with_a_missing_file(csgm, place):
    """The place, the file, and exit code 4."""
    (place / "b.toml").write_text(BUDGET)
    outcome = csgm("check b.toml")
    assert outcome.status == 4
    assert "b.toml:8: release sums: cannot read 'prefix8.npz'" in outcome.stderr


@pytest.mark.parametrize("spec", ["optimal:16", "streaming:3:16"])
def test_many_rows(csgm, monkeypatch, spec):
    """Beyond what rounding can certify to 1e-9 it is 1e-6; the column norms are still 1."""
    line = "account --noise-multiplier 5 --mechanism gaussian --delta 1e-6 --dim 100 --cohort-size 10"
    found = []
    for most in (16, 15):
        factorizations._solved.cache_clear()
        monkeypatch.setattr(sys.modules["csgm_cli.factorization.factorize"], "_MANY_ROWS", most)
        found.append(csgm(f"{line} --factorization {spec} --format json").document)
    factorizations._solved.cache_clear()
    exact, loose = (document["result"] for document in found)
    assert exact["mse"]["total"] != loose["mse"]["total"]
    assert exact["mse"]["total"] == pytest.approx(loose["mse"]["total"], rel=2e-6)
    assert [document["inputs"]["sensitivity"] for document in found] == pytest.approx([1, 1], rel=1e-11)
    assert exact["epsilon"] == pytest.approx(loose["epsilon"], rel=1e-9)


@pytest.mark.parametrize("spec", ["blt:2:16", "blt-normalized:2:16", "streaming:2:16"])
def test_buffers_change_the_error_alone(csgm, spec):
    """The largest column norm of C is 1, so that sigma is that of independent noise."""
    line = "calibrate --epsilon 5 --delta 1e-6 --mechanism gaussian --format json"
    ours, independent = (
        csgm(f"{line} --factorization {name} {SIZES}").document["result"] for name in (spec, "identity:16")
    )
    assert ours["sigma"] == pytest.approx(independent["sigma"], rel=1e-9)
    assert ours["mse"]["total"] < independent["mse"]["total"] / 2
