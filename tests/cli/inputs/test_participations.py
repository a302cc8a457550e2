"""``--participations`` and ``--min-separation`` in every command that takes a factorization."""

import json
import math

import numpy as np
import pytest

import csgm_cli as csgm_api
from csgm_cli.errors import UsageError
from csgm_cli.storage.schema import load_schema
from tests.cli.questions import CALIBRATE_SIZED, SIZES

jsonschema = pytest.importorskip("jsonschema")

T, BANDS = 8, 2
#: Columns of norm 1 with two bands: neighbours have the inner product 0.6 * 0.8, the last two 0.6.
OVERLAP = 0.6
AUTO = CALIBRATE_SIZED.replace(" --accountant rdp", "")
TWICE = "--participations 4 --min-separation 2"
LINES = [
    CALIBRATE_SIZED,
    "calibrate --epsilon 5 --delta 1e-6 --mechanism gaussian --dim 1e5 --cohort-size 200",
    f"account --noise-multiplier 1 --delta 1e-6 --gamma 0.1 {SIZES}",
    f"account --sigma 1 --epsilon 3 --gamma 0.1 {SIZES}",
    f"compare --epsilon 5 --delta 1e-6 --gamma 0.1 {SIZES}",
    f"plan --epsilon 5 --delta 1e-6 --max-mse-overhead 0.1 {SIZES}",
    f"sweep --epsilon 5 --delta 1e-6 --vary gamma=0.1,0.2 {SIZES}",
]


@pytest.fixture
def banded(place):
    """A file of bands that was made elsewhere, and says nothing of participations."""
    bands = np.zeros((BANDS, T))
    bands[0], bands[1, :-1] = 0.8, 0.6
    bands[0, -1] = 1.0
    np.savez(place / "banded.npz", bands=bands)
    return "banded.npz"


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("kind", ["json", "text", "csv"])
def test_every_command_and_format(csgm, banded, line, kind):
    outcome = csgm(f"{line} --factorization {banded} {TWICE} --format {kind}")
    assert (outcome.status, outcome.stderr.count("error")) == (0, 0)
    assert "one-round" not in outcome.stderr
    if kind == "json":
        jsonschema.validate(outcome.document, load_schema(line.split()[0]))
        inputs = outcome.document["inputs"]
        assert (inputs["participations"], inputs["min_separation"]) == (4, 2)
        assert (inputs["rounds"], inputs["epochs"]) == (4, 1)
        assert inputs["joint_sensitivity"] == pytest.approx(2.0)
        assert inputs["joint_sensitivity_bound"] == "exact"
        assert inputs["release_sensitivity"] == pytest.approx(1.0)
    if kind == "text":
        assert "of one client, at least 2 steps apart" in outcome.stdout
        facts = outcome.stdout[outcome.stdout.index("factorization ") :]
        assert [row for row in facts.splitlines() if "participations" in row and len(row) > 80] == []


@pytest.mark.parametrize("line", LINES[:2])
@pytest.mark.parametrize("accountant", ["auto", "rdp"])
def test_orthogonal_columns_need_the_noise_of_rounds(csgm, banded, line, accountant):
    """Four participations two steps apart, with two bands, are four rounds."""
    line = f"{line.replace(' --accountant rdp', '')} --accountant {accountant} --value"
    rounds = float(csgm(f"{line} --rounds 4").stdout)
    assert float(csgm(f"{line} --factorization {banded} {TWICE}").stdout) == pytest.approx(rounds, rel=1e-9)
    alone = f"--factorization {banded} --min-separation 2"  # ceil(8 / 2) = 4
    assert float(csgm(f"{line} {alone}").stdout) == pytest.approx(rounds, rel=1e-9)


def test_overlapping_columns_need_more(csgm, banded):
    """At separation 1: clips sqrt(1 + 0.6) times as large for two masked vectors, and a warning."""
    line = f"{AUTO} --factorization {banded} --participations 2"
    found = csgm(f"{line} --format json").document
    apart = csgm(f"{line} --min-separation 2 --format json").document
    ratio = math.sqrt(1 + OVERLAP)
    assert found["inputs"]["min_separation"] == 1
    assert found["inputs"]["release_sensitivity"] == pytest.approx(ratio)
    assert found["result"]["sigma"] == pytest.approx(ratio * apart["result"]["sigma"], rel=1e-5)
    assert found["result"]["lower_bound"] is None
    slugs = [[warning["slug"] for warning in document["warnings"]] for document in (found, apart)]
    assert ("overlapping-columns" in slugs[0], "overlapping-columns" in slugs[1]) == (True, False)


def test_whole_vectors_with_overlap(csgm, banded):
    """Sensitivity^2 of two neighbouring steps: 2 + 2 * 0.6."""
    line = f"{LINES[1]} --value"
    alone = float(csgm(line).stdout)
    found = float(csgm(f"{line} --factorization {banded} --participations 2").stdout)
    assert found == pytest.approx(alone * math.sqrt(2 + 2 * OVERLAP), rel=1e-9)


def test_statement_and_assumptions(csgm, banded):
    line = f"{CALIBRATE_SIZED} --factorization {banded} {TWICE}"
    result = csgm(f"{line} --format json").document["result"]
    assert {"bounded-participations", "min-separation", "masks-fresh"} <= set(result["assumptions"])
    assert "one-participation-per-epoch" not in result["assumptions"]
    assert "takes part in up to 4 steps, at least 2 apart" in result["statement"]
    assert "takes part in up to 4 steps" in csgm(f"{line} --statement").stdout


@pytest.fixture
def declared(csgm):
    """A banded factorization whose file says how often a client takes part."""
    line = f"factorize --T {T} --min-separation 2 --participations 3 --output declared.npz"
    assert csgm(line).status == 0
    return "declared.npz"


def test_a_file_that_says_how_often(csgm, declared):
    """What it says holds, and each option replaces its part of it."""
    line = f"{CALIBRATE_SIZED} --factorization {declared}"

    def found(options):
        outcome = csgm(f"{line} {options} --format json")
        inputs, slugs = outcome.document["inputs"], {w["slug"] for w in outcome.document["warnings"]}
        assert "one-round" not in slugs
        return (
            inputs["participations"],
            inputs["min_separation"],
            inputs["rounds"],
            "overlapping-columns" in slugs,
        )

    assert found("") == (3, 2, 3, False)
    assert found("--participations 2") == (2, 2, 2, False)
    assert found("--min-separation 1") == (3, 1, 3, True)
    assert found("--min-separation 5") == (2, 5, 2, False)  # ceil(8 / 5)
    assert found("--participations 9 --min-separation 2") == (4, 2, 4, False)


def test_a_fixed_order(csgm, place):
    """Columns of one client are orthogonal, of norms whose squares add up to k: like k rounds if whole."""
    made = "factorize --T 16 --min-separation 4 --strategy fixed-order --output fixed.npz"
    assert csgm(made).status == 0
    line = f"{LINES[1]} --factorization fixed.npz"
    found = csgm(f"{line} --format json --output saved.json")
    assert found.status == 0
    inputs = json.loads((place / "saved.json").read_text())["inputs"]
    assert (inputs["rounds"], inputs["fixed_order"]) == (4, True)
    assert inputs["joint_sensitivity"] == pytest.approx(2.0, rel=1e-9)
    assert csgm("account --from saved.json --quiet").status == 0
    assert "exactly 4 steps apart" in csgm(line).stdout
    apart = csgm(f"{line} --min-separation 3 --format json").document["inputs"]
    assert (apart["fixed_order"], apart["min_separation"]) == (False, 3)
    assert apart["joint_sensitivity"] > 2.0
    masked = csgm(f"{AUTO} --factorization fixed.npz --format json").document
    assert masked["inputs"]["release_sensitivity"] == pytest.approx(masked["inputs"]["sensitivity"], rel=1e-8)
    assert {"fixed-order", "masks-fresh"} <= set(masked["result"]["assumptions"])


def test_all_clients_take_turns_in_a_fixed_order(csgm, place):
    """With other clients than those of 4 cohorts of 200, nobody comes back exactly 4 steps later."""
    assert csgm("factorize --T 16 --min-separation 4 --strategy fixed-order --output fixed.npz").status == 0
    line = f"{CALIBRATE_SIZED} --factorization fixed.npz"
    assert csgm(f"{line} --population-size 800").status == 0
    for options in ("", "--participations 2"):
        assert "error[other-order]" in csgm(f"{line} {options} --population-size 1000").stderr
    assert csgm(f"{line} --min-separation 3 --population-size 1000").status == 0
    assert csgm(f"{line} --participations 1 --population-size 1000").status == 0


@pytest.mark.parametrize("strategy", ["banded", "banded-toeplitz"])
def test_banded_strategies(csgm, strategy):
    """Solved for as many bands as the separation: four rounds, whatever the columns' norm is."""
    line = f"{CALIBRATE_SIZED} --factorization {strategy}:16"
    inputs = csgm(f"{line} --min-separation 4 --format json").document["inputs"]
    assert (inputs["rounds"], inputs["strategy"]) == (4, strategy)
    assert inputs["release_sensitivity"] == pytest.approx(inputs["sensitivity"], rel=1e-9)
    rounds = float(csgm(f"{CALIBRATE_SIZED} --rounds 4 --value").stdout)
    found = float(csgm(f"{line} --min-separation 4 --value").stdout)
    assert found == pytest.approx(rounds * inputs["sensitivity"], rel=1e-9)
    for options in ("", "--participations 2"):
        outcome = csgm(f"{line} {options}")
        assert (outcome.status, outcome.stdout) == (2, "")
        assert "--min-separation" in outcome.stderr


CONFLICTS = [
    ("--rounds 3", "--factorization and --rounds 3 disagree: a client takes part 4 times"),
    ("--epochs 4", "4 participations are those of one run without a restart, but epochs is 4"),
    ("--epochs 4 --rounds 4", "--epochs and --rounds exclude each other"),
    ("--training-rounds 8", "--factorization and --training-rounds exclude each other"),
    ("--sampling-rate 0.1 --rounds 4", "exclude each other"),
    ("--population 399", "min_separation 2 with cohort_size 200 takes 400 clients, more than"),
]


@pytest.mark.parametrize(("options", "said"), CONFLICTS)
@pytest.mark.parametrize("line", [LINES[0], LINES[4], LINES[5]])
def test_conflicts(csgm, banded, line, options, said):
    outcome = csgm(f"{line} --factorization {banded} {TWICE} {options}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr
    assert outcome.stderr.count("error[") == 1


@pytest.mark.parametrize("options", ["--rounds 4", "--epochs 1", "--population 400"])
def test_what_agrees(csgm, banded, options):
    line = f"{CALIBRATE_SIZED} --factorization {banded} {TWICE}"
    assert csgm(f"{line} {options} --value").stdout == csgm(f"{line} --value").stdout


@pytest.mark.parametrize("option", ["--participations", "--min-separation"])
@pytest.mark.parametrize(
    ("value", "said"),
    [("2", "needs --factorization"), ("0", "integer in [1, 1e+08]"), ("1.5", "integer in")],
)
def test_values_out_of_range(csgm, option, value, said):
    outcome = csgm(f"{CALIBRATE_SIZED} {option} {value}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr


def test_too_many_rows_for_overlaps(csgm):
    """Only the identity, the square root and bands do without T x T arrays."""
    line = f"{CALIBRATE_SIZED} --participations 2 --min-separation 1000 --format json --factorization"
    assert csgm(f"{line} optimal:1e6").document["error"]["slug"] == "too-large"
    assert csgm(f"{line} toeplitz-sqrt:1e5").document["inputs"]["joint_sensitivity_bound"] == "exact"
    assert csgm(f"{line} identity:1e4").document["inputs"]["release_sensitivity"] == pytest.approx(1.0)


def test_sweep_over_participations(csgm):
    line = f"sweep --epsilon 5 --delta 1e-6 --gamma 0.1 {SIZES} --vary participations=1,2,4"
    line = f"{line} --factorization identity:16 --min-separation 4"
    document = csgm(f"{line} --format json").document
    jsonschema.validate(document, load_schema("sweep"))
    text = csgm(line).stdout
    assert text.startswith("participations")
    assert "epochs" not in text
    for row in document["result"]["rows"]:
        alone = csgm(f"{CALIBRATE_SIZED} --rounds {row['participations']} --value").stdout
        assert row["noise_multiplier"] == pytest.approx(float(alone), rel=1e-9)


EDITS = (
    ("participations", 2),
    ("min_separation", 3),
    ("rounds", 2),
    ("release_sensitivity", 0.5),
    ("joint_sensitivity", 1.5),
    ("joint_sensitivity_bound", "upper-bound"),
    ("fixed_order", True),
)


@pytest.mark.parametrize("line", LINES[:2])
def test_saved_results(csgm, banded, place, line):
    """A saved result is recomputed; an edited one is refused."""
    csgm(f"{line} --factorization {banded} {TWICE} --format json --output saved.json")
    assert csgm("account --from saved.json --quiet").status == 0
    saved = json.loads((place / "saved.json").read_text())
    for name, value in EDITS:
        edited = {**saved, "inputs": {**saved["inputs"], name: value}}
        (place / "edited.json").write_text(json.dumps(edited))
        outcome = csgm("account --from edited.json")
        assert (outcome.status, outcome.stdout) == (2, ""), name


def test_a_saved_plan_is_not_run(csgm, banded, place):
    """The server restarts its noise, and refuses a run that does not."""
    csgm(f"{CALIBRATE_SIZED} --factorization {banded} {TWICE} --format json --output saved.json")
    with pytest.raises(UsageError, match="several times within the T steps") as caught:
        csgm_api.load_plan(place / "saved.json")
    assert caught.value.slug == "cannot-run"


BUDGET = """
[population.phones]
epsilon = 8
delta = 1e-6
[population.phones.release.keyboard]
mechanism = "l2-csgm"
gamma = 0.1
norm-ratio = 30
noise-multiplier = 0.3
factorization = "banded.npz"
participations = 4
min-separation = 2
"""


def test_budgets(csgm, banded, place):
    """A release with participations spends what as many rounds spend, and is locked with all it needs."""
    (place / "budget.toml").write_text(BUDGET)
    plain = BUDGET.replace(
        'factorization = "banded.npz"\nparticipations = 4\nmin-separation = 2', "rounds = 4"
    )
    (place / "plain.toml").write_text(plain)
    outcome = csgm("check budget.toml --format json --write-lock budget.lock")
    jsonschema.validate(outcome.document, load_schema("check"))
    [population] = outcome.document["result"]["populations"]
    [rounds] = csgm("check plain.toml --format json").document["result"]["populations"]
    assert population["spent"] == pytest.approx(rounds["spent"], rel=1e-9)
    [release] = population["releases"]
    assert (release["rounds"], release["participations"], release["min_separation"]) == (4, 4, 2)
    assert release["more_rounds"] is None
    jsonschema.validate(json.loads((place / "budget.lock").read_text()), load_schema("lock"))
    assert "one-round" not in outcome.stderr
    same = csgm("check budget.toml --against-lock budget.lock --format json").document["result"]["changes"]
    assert same["populations"] == [] or same["populations"][0]["releases"] == []
    (place / "budget.toml").write_text(BUDGET.replace("min-separation = 2", "min-separation = 1"))
    changes = csgm("check budget.toml --against-lock budget.lock --format json").document["result"]["changes"]
    settings = {item["setting"] for item in changes["populations"][0]["releases"][0]["settings"]}
    assert {"min_separation", "release_sensitivity"} <= settings


@pytest.mark.parametrize(
    "edit",
    [
        ("participations", 0),
        ("participations", "4"),
        ("min_separation", None),
        ("joint_sensitivity", 1e99),
        ("joint_sensitivity", 9.0),
        ("joint_sensitivity_bound", "proven"),
        ("release_sensitivity", True),
        ("fixed_order", 1),
    ],
)
def test_hostile_locks(csgm, banded, place, edit):
    (place / "budget.toml").write_text(BUDGET)
    csgm("check budget.toml --write-lock budget.lock")
    lock = json.loads((place / "budget.lock").read_text())
    lock["populations"]["phones"]["releases"]["keyboard"] |= dict([edit])
    (place / "budget.lock").write_text(json.dumps(lock))
    outcome = csgm("check budget.toml --against-lock budget.lock")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "error[bad-lock-file]" in outcome.stderr
