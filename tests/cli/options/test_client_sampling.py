"""Client sampling on the command line: its options, what they exclude, and where their values come from."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from csgm_cli.storage.schema import load_schema
from tests.cli.budgets import LIMIT
from tests.cli.questions import configure

COMMON = "--delta 1e-6 --norm-ratio 30 --accountant rdp"
LINES = {
    "calibrate": f"calibrate --epsilon 5 --gamma 0.1 {COMMON}",
    "account": f"account --noise-multiplier 0.07 --gamma 0.1 {COMMON}",
    "compare": f"compare --epsilon 5 --gamma 0.1 {COMMON}",
    "plan": f"plan --epsilon 5 --gamma 0.1 {COMMON}",
    "sweep": f"sweep --epsilon 5 --vary gamma=0.1,0.2 {COMMON}",
}
#: One release with client sampling by Poisson participation.
SAMPLED = "--sampling-rate 0.01 --rounds 200"
SIZES = "--cohort-size 20 --population-size 2000"
ASSUMED = {"participation-poisson", "participation-secret", "fixed-denominator"}
RELEASE = "[population.p.release.r]\nmechanism = 'gaussian'\nsigma = 3\n"


def answers(result):
    """Every object with assumptions in a result."""
    return [row for row in result.get("rows", [result]) if row["assumptions"] is not None]


@pytest.mark.parametrize("command", LINES)
def test_every_command_samples_clients(csgm, command):
    """Inputs, assumptions, statement and text name the rate and all training rounds."""
    outcome = csgm(f"{LINES[command]} {SAMPLED} --format json")
    assert outcome.status == 0
    inputs, result = outcome.document["inputs"], outcome.document["result"]
    assert (inputs["sampling_rate"], inputs["rounds"]) == (0.01, 200)
    for row in answers(result):
        assert set(row["assumptions"]) >= ASSUMED
        assert (
            "over 200 rounds, in each of which a client takes part with probability 0.01," in row["statement"]
        )
    text = csgm(f"{LINES[command]} {SAMPLED}").stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "rounds 200 all training rounds" in lines
    assert "sampling rate 0.01 probability that a client takes part in a round" in lines
    assert "participation independent in each round, secret, fixed denominator" in lines


@pytest.mark.parametrize(
    "line",
    [
        *(f"{line} --client-sampling poisson {SIZES} --rounds 200" for line in LINES.values()),
        f"{LINES['sweep']} --rounds 200 --vary sampling-rate=0.01,1",
        f"{LINES['sweep']} --rounds 9 --cohort-size 9 --client-sampling poisson --vary population-size=8,90",
        "check b.toml --accountant rdp --write-lock l.json",
    ],
)
def test_documents_meet_their_schemas(csgm, place, line):
    """Of every command, of sweeps over the rate or the population, and of a lock and its budget."""
    text = f"{LIMIT}{RELEASE}rounds = 200\nsampling-rate = 0.01\nclient_sampling = 'poisson'\n"
    (place / "b.toml").write_text(text)
    jsonschema.validate(csgm(f"{line} --format json").document, load_schema(line.split()[0]))
    if "lock" in line:
        jsonschema.validate(json.loads(Path("l.json").read_text()), load_schema("lock"))
        jsonschema.validate(tomllib.loads(text), load_schema("budget"))


@pytest.mark.parametrize("form", ["text", "json", "csv", "markdown"])
@pytest.mark.parametrize("further", ["--rounds 3", "", "--rounds 3 --dim 1000 --cohort-size 10"])
@pytest.mark.parametrize("command", LINES)
def test_rate_of_1_is_no_sampling(csgm, command, further, form):
    """Byte for byte, warnings included."""
    line = f"{LINES[command]} {further} --format {form}"
    assert csgm(f"{line} --sampling-rate 1") == csgm(line)


@pytest.mark.parametrize(
    "further",
    [
        "--population-size 1000 --cohort-size 30 --training-rounds 101",
        "--factorization tree:4 --epochs 2",
        "--factorization tree:4 --population-size 1000 --cohort-size 30",
    ],
)
def test_rate_of_1_excludes_nothing(csgm, further):
    """A fixed order and a factorization go with it."""
    line = f"{LINES['calibrate']} {further} --format json"
    assert csgm(f"{line} --sampling-rate 1") == csgm(line)
    assert csgm(line).status == 0


def test_rate_of_1_in_a_budget_is_no_sampling(csgm, place):
    """A release with the key and one without have the same report and the same lock."""
    outcomes = []
    for key in ("sampling-rate = 1\n", ""):
        (place / "b.toml").write_text(f"{LIMIT}{RELEASE}rounds = 4\n{key}")
        outcomes.append((csgm("check b.toml --format json --write-lock l.json"), Path("l.json").read_text()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("command", LINES)
def test_sampling_needs_the_rounds(csgm, command):
    """The default of one round is a guess; q = n/N needs them as well."""
    for sampling in ("--sampling-rate 0.01", f"--client-sampling poisson {SIZES}"):
        outcome = csgm(f"{LINES[command]} {sampling}")
        assert (outcome.status, outcome.stdout) == (2, "")
        label = sampling.split()[0]
        expected = f"error[sampling-needs-rounds]: {label} needs --rounds\n  try: pass --rounds = all"
        assert outcome.stderr.startswith(expected)


@pytest.mark.parametrize("command", LINES)
def test_poisson_sampling_of_a_known_population(csgm, command):
    """q = n/N = 20/2000, said so; the numbers are those of the rate itself."""
    stated = csgm(f"{LINES[command]} {SAMPLED} {SIZES} --format json").document
    derived = csgm(f"{LINES[command]} --client-sampling poisson {SIZES} --rounds 200 --format json").document
    assert derived["inputs"]["sampling_rate"] == 0.01
    assert derived["inputs"]["client_sampling"] == "poisson"
    for row in derived["result"].get("rows", []) + stated["result"].get("rows", []):
        row.pop("warnings", None)  # of a sweep
    assert derived["result"] == stated["result"]
    said = {warning["slug"]: warning["message"] for warning in derived["warnings"]}
    if command != "sweep":  # there it counts the rows
        assert said.pop("rate-from-population").startswith(
            "sampling rate = 20 / 2000 = 0.01, for clients that"
        )
        assert [warning["slug"] for warning in stated["warnings"]] == list(said)


@pytest.mark.parametrize("rate", ["0.02", "0.0100001", "1"])
@pytest.mark.parametrize("kind", ["", "--client-sampling poisson"])
def test_rate_must_agree_with_the_sizes(csgm, rate, kind):
    """20 clients out of 2000 are 0.01, up to 1e-6 of that; a rate of 1 alone samples nobody."""
    line = f"{LINES['calibrate']} --rounds 200 {SIZES} {kind}"
    assert csgm(f"{line} --sampling-rate 0.010000001").status == 0
    if rate == "1" and not kind:
        return
    outcome = csgm(f"{line} --sampling-rate {rate}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[rate-conflict]: ")


def test_population_alone_is_for_the_delta(csgm):
    """It changes no number, and warns of a delta above 1/N."""
    line = f"{LINES['calibrate']} {SAMPLED} --format json"
    plain, known = csgm(line).document, csgm(f"{line} --population-size 3e6").document
    assert known["result"] == plain["result"]
    assert [warning["slug"] for warning in known["warnings"]] == ["delta-large"]


CONFLICT = "conflicting-options"


@pytest.mark.parametrize(
    ("further", "slug", "said"),
    [
        ("--sampling-rate 0.1 --rounds 9 --factorization tree:4", CONFLICT, "with correlated noise"),
        (
            "--sampling-rate 0.1 --factorization tree:4 --epochs 2",
            CONFLICT,
            "one step of each epoch (--epochs)",
        ),
        ("--client-sampling poisson --factorization tree:4", CONFLICT, "with correlated noise"),
        ("--sampling-rate 0.1 --training-rounds 9", CONFLICT, "pass --rounds = all training rounds"),
        (f"--client-sampling poisson {SIZES} --training-rounds 9", CONFLICT, "for cohorts drawn at random"),
        (f"--rounds 9 {SIZES}", CONFLICT, "add --client-sampling poisson"),
        ("--client-sampling poisson --rounds 9", "missing-option", "or pass --sampling-rate"),
        ("--client-sampling poisson --rounds 9 --cohort-size 9", "missing-option", "--population-size and"),
        (
            "--client-sampling poisson --rounds 9 --cohort-size 9 --population-size 8",
            "cohort-above-population",
            "cohort_size 9 exceeds population_size 8",
        ),
        ("--sampling-rate 0 --rounds 9", "out-of-range", "must be a number in [1e-09, 1], got '0'"),
        ("--sampling-rate 1.5 --rounds 9", "out-of-range", "got '1.5'"),
        ("--sampling-rate nan --rounds 9", "out-of-range", "got 'nan'"),
        ("--client-sampling fixed", "unknown-choice", "no amplification is offered for fixed-size cohorts"),
        ("--client-sampling shuffle", "unknown-choice", "pass --rounds = all training rounds, or"),
        ("--client-sampling poison", "unknown-choice", "did you mean poisson?"),
    ],
)
@pytest.mark.parametrize("command", ["calibrate", "account", "compare", "plan", "sweep"])
def test_refused_with_the_reason(csgm, command, further, slug, said):
    """Exit status 2, and what to do instead."""
    outcome = csgm(f"{LINES[command]} {further}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error[{slug}]: ")
    assert said in outcome.stderr


@pytest.mark.parametrize("accountant", ["exact", "paper"])
@pytest.mark.parametrize("command", LINES)
@pytest.mark.parametrize("mechanism", ["", "--mechanism gaussian"])
def test_accountants_without_a_bound(csgm, command, mechanism, accountant):
    """Neither the exact curve nor the paper has client sampling, not even of the Gaussian mechanism."""
    if mechanism and command in ("compare", "plan"):
        return
    line = LINES[command].replace("--accountant rdp", f"--accountant {accountant} {mechanism}")
    if mechanism:
        line = line.replace("--gamma 0.1", "").replace("--vary gamma=0.1,0.2", "--vary l2-norm=1,2")
    outcome = csgm(f"{line} {SAMPLED}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(
        f"error[no-sampled-accountant]: accountant {accountant} has no bound with"
    )
    assert "try: use auto, tight or rdp" in outcome.stderr


@pytest.mark.parametrize("accountant", ["exact", "paper"])
def test_budgets_with_such_an_accountant(csgm, place, accountant):
    """With line and population."""
    (place / "b.toml").write_text(f"{LIMIT}{RELEASE}rounds = 4\nsampling-rate = 0.1\n")
    outcome = csgm(f"check b.toml --accountant {accountant}")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[no-sampled-accountant]: b.toml:1: population p: accountant")


@pytest.mark.parametrize("source", ["flag", "environment", "shared", "own"])
def test_sources_of_the_rate(csgm, configured, monkeypatch, source):
    """Flag, variable, and either table of a config file that somebody named."""
    line = f"{LINES['calibrate']} --rounds 200 --format json"
    match source:
        case "flag":
            line += " --sampling-rate 0.01"
        case "environment":
            monkeypatch.setenv("CSGM_SAMPLING_RATE", "0.01")
        case "shared":
            configured("[tool.csgm]\nsampling-rate = 0.01\n")
        case "own":
            configured("[tool.csgm.calibrate]\nsampling_rate = 0.01\n")
    assert csgm(line).document["inputs"]["sampling_rate"] == 0.01


@pytest.mark.parametrize("stronger", ["--factorization tree:4", f"{SIZES} --training-rounds 200"])
def test_a_flag_sets_a_configured_rate_aside(csgm, configured, stronger):
    """A factorization or a fixed order that is asked for is what is answered."""
    line = f"{LINES['calibrate']} {stronger}"
    expected = csgm(line).stdout
    configured("[tool.csgm]\nsampling-rate = 0.01\n")
    assert csgm(line).stdout == expected


def test_rounds_of_every_source_count_as_given(csgm, configured, monkeypatch):
    """Only the default does not."""
    line = f"{LINES['calibrate']} --sampling-rate 0.01"
    expected = csgm(f"{line} --rounds 200").stdout
    monkeypatch.setenv("CSGM_ROUNDS", "200")
    assert csgm(line).stdout == expected
    monkeypatch.delenv("CSGM_ROUNDS")
    configured("[tool.csgm]\nrounds = 200\n")
    assert csgm(line).stdout == expected


@pytest.mark.parametrize("key", ["sampling-rate = 0.01", "client-sampling = 'poisson'"])
@pytest.mark.parametrize("line", [LINES["account"], f"{LINES['account']} --max-epsilon 5", "check b.toml"])
def test_a_found_config_file_samples_nobody(csgm, place, key, line):
    """A file that nobody named must not make an epsilon smaller, like any other privacy parameter."""
    configure(f"[tool.csgm]\n{key}\n")
    outcome = csgm(line)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert f"untrusted-key]: {place / 'csgm.toml'}:2: {key.split()[0]} is not taken" in outcome.stderr


def test_show_inputs_names_the_source_of_the_rate(csgm):
    """Given, or from the sizes."""
    line = f"{LINES['calibrate']} --rounds 200 --show-inputs"
    assert "\nsampling_rate = 0.01  (flag --sampling-rate)\n" in csgm(f"{line} --sampling-rate 0.01").stderr
    derived = csgm(f"{line} --client-sampling poisson {SIZES}").stderr
    assert "\nsampling_rate = 0.01  (from population_size and cohort_size)\n" in derived
    assert "\nsampling_rate is not given\n" in csgm(line).stderr


def test_sweep_over_the_rate(csgm):
    """The noise grows with the rate, up to that without sampling; one setting line for the rounds."""
    line = f"sweep --epsilon 5 {COMMON} --gamma 0.1 --rounds 50"
    document = csgm(f"{line} --vary sampling-rate=0.01,0.1,1 --format json").document
    assert (document["inputs"]["sampling_rate"], document["inputs"]["rounds"]) == ([0.01, 0.1, 1.0], 50)
    rows = document["result"]["rows"]
    assert [row["sampling_rate"] for row in rows] == [0.01, 0.1, 1.0]
    noise = [row["noise_multiplier"] for row in rows]
    assert noise == sorted(noise)
    plain = csgm(f"calibrate --epsilon 5 {COMMON} --gamma 0.1 --rounds 50 --value").stdout
    assert noise[-1] == float(plain)
    assert ["participation-poisson" in row["assumptions"] for row in rows] == [True, True, False]
    assert "all training rounds" in csgm(f"{line} --vary sampling-rate=0.01,0.1,1").stdout


def test_plot_over_the_rate(csgm):
    """The axis says what it is; the caption of another plot has the rate, unless nobody is sampled."""
    line = f"sweep --epsilon 5 {COMMON} --rounds 50 --format csv --output r.csv --plot -"
    axis = csgm(f"{line} --gamma 0.1 --vary sampling-rate=0.01:0.1:3").stdout
    assert "sampling rate (probability that a client takes part in a round)" in axis
    for rate, expected in (("0.01", True), ("1", False)):
        captioned = " ".join(csgm(f"{line} --vary gamma=0.1,0.2 --sampling-rate {rate}").stdout.split())
        assert ("rounds 50, sampling rate 0.01" in captioned) == expected
        assert ("sampling rate" in captioned) == expected


def test_sweep_over_the_rate_beside_a_population(csgm):
    """In whatever order, a rate of 1 among them."""
    line = f"sweep --epsilon 5 {COMMON} --gamma 0.1 --rounds 50 --population-size 1e4 --format csv"
    for values in ("0.01,1", "1,0.01"):
        assert csgm(f"{line} --vary sampling-rate={values}").status == 0
    assert csgm(f"{line} --vary sampling-rate=1").status == 2


def test_sweep_over_the_population(csgm):
    """q = 20/N for each."""
    line = f"sweep --epsilon 5 {COMMON} --gamma 0.1 --rounds 50 --cohort-size 20 --client-sampling poisson"
    document = csgm(f"{line} --vary population-size=200,2000 --format json").document
    assert document["inputs"]["sampling_rate"] is None
    statements = [row["statement"] for row in document["result"]["rows"]]
    assert ["probability 0.1," in statements[0], "probability 0.01," in statements[1]] == [True, True]


def test_sweep_rate_from_population_fails_alone(csgm):
    """A population below the cohort size is a row with an error."""
    line = f"sweep --epsilon 5 {COMMON} --gamma 0.1 --rounds 50 --cohort-size 20 --client-sampling poisson"
    rows = csgm(f"{line} --vary population-size=19,2000 --format json").document["result"]["rows"]
    assert [row["error"] and row["error"]["slug"] for row in rows] == ["cohort-above-population", None]


BUDGET = "[population.p]\nepsilon = 8\ndelta = 1e-6\n"


@pytest.mark.parametrize(
    ("defaults", "release"),
    [
        ("", "rounds = 200\nsampling-rate = 0.01\n"),
        ("", "rounds = 200\nsampling_rate = 0.01\npopulation-size = 2000\n"),
        ("", "rounds = 200\nclient-sampling = 'poisson'\npopulation-size = 2000\ncohort-size = 20\n"),
        ("[defaults]\nsampling-rate = 0.01\n", "rounds = 200\n"),
        ("[defaults]\nsampling-rate = 0.01\nrounds = 200\n", ""),
        ("[defaults]\nsampling-rate = 0.5\n", "rounds = 200\nsampling-rate = 0.01\n"),
    ],
)
def test_releases_with_client_sampling(csgm, place, defaults, release):
    """What account says of the same noise, limit and rounds; the rate is a column of the table."""
    (place / "b.toml").write_text(f"{defaults}{BUDGET}{RELEASE}{release}")
    document = csgm("check b.toml --accountant rdp --format json").document
    (population,) = document["result"]["populations"]
    (found,) = population["releases"]
    assert (found["sampling_rate"], found["rounds"]) == (0.01, 200)
    assert set(population["assumptions"]) >= ASSUMED
    line = "account --mechanism gaussian --sigma 3 --delta 1e-6 --accountant rdp --value"
    assert population["spent"] == float(csgm(f"{line} {SAMPLED}").stdout)
    report = csgm("check b.toml --accountant rdp").stdout
    assert "sampling rate" in report
    assert "participation  independent in each round" in report


@pytest.mark.parametrize(
    "release",
    ["factorization = 'tree:4'\n", "population-size = 100\ncohort-size = 10\ntraining-rounds = 9\n"],
)
def test_a_release_sets_the_default_rate_aside(csgm, place, release):
    """What the release says of itself counts."""
    (place / "b.toml").write_text(f"[defaults]\nsampling-rate = 0.01\n{BUDGET}{RELEASE}{release}")
    (population,) = csgm("check b.toml --accountant rdp --format json").document["result"]["populations"]
    assert population["releases"][0]["sampling_rate"] == 1.0
    assert not ASSUMED & set(population["assumptions"])


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("sampling-rate = 0.01\n", "sampling-needs-rounds]: sampling-rate at b.toml:7 needs rounds\n"),
        ("sampling-rate = 2\n", "out-of-range]: sampling-rate at b.toml:7 must be a number in"),
        (
            "rounds = 9\nsampling-rate = 0.1\nclient-sampling = 'fixed'\n",
            "client-sampling at b.toml:9 must be",
        ),
        ("sampling-rate = 0.1\nfactorization = 'tree:4'\n", "sampling-rate at b.toml:7 and factorization at"),
    ],
)
def test_bad_releases(csgm, place, release, said):
    """File and line of what is wrong, in the spelling of the file."""
    (place / "b.toml").write_text(f"{BUDGET}{RELEASE}{release}")
    outcome = csgm("check b.toml")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert said in outcome.stderr
    assert "--" not in outcome.stderr


def test_lock_keeps_the_rate(csgm, place):
    """A budget does not differ from its lock; another rate is a change of the budget, not of the tool."""
    (place / "b.toml").write_text(f"{BUDGET}{RELEASE}rounds = 200\nsampling-rate = 0.01\n")
    assert csgm("check b.toml --accountant rdp --write-lock l.json").status == 0
    release = json.loads(Path("l.json").read_text())["populations"]["p"]["releases"]["r"]
    assert release["sampling_rate"] == 0.01
    same = csgm("check b.toml --accountant rdp --against-lock l.json --format json")
    (population,) = same.document["result"]["changes"]["populations"]
    assert (population["by_tool"], population["releases"]) == (0.0, [])
    (place / "b.toml").write_text(f"{BUDGET}{RELEASE}rounds = 200\nsampling-rate = 0.02\n")
    for earlier in ("--against-lock l.json", "--diff old.toml"):
        (place / "old.toml").write_text(f"{BUDGET}{RELEASE}rounds = 200\nsampling-rate = 0.01\n")
        other = csgm(f"check b.toml --accountant rdp {earlier} --format json").document["result"]["changes"]
        (change,) = other["populations"][0]["releases"]
        assert change["settings"] == [{"setting": "sampling_rate", "before": 0.01, "after": 0.02}]


def test_lock_without_the_key_is_one_without_sampling(csgm, place):
    """Locks of earlier versions."""
    (place / "b.toml").write_text(f"{BUDGET}{RELEASE}rounds = 2\n")
    csgm("check b.toml --accountant rdp --write-lock l.json")
    lock = json.loads(Path("l.json").read_text())
    del lock["populations"]["p"]["releases"]["r"]["sampling_rate"]
    Path("l.json").write_text(json.dumps(lock))
    outcome = csgm("check b.toml --accountant rdp --against-lock l.json --format json")
    assert outcome.document["result"]["changes"]["populations"][0]["releases"] == []


@pytest.mark.parametrize("sampling", [SAMPLED, f"--client-sampling poisson {SIZES} --rounds 200 --dim 1000"])
@pytest.mark.parametrize("command", ["calibrate", "account", "plan"])
def test_saved_result_keeps_the_rate(csgm, released, command, sampling):
    """account --from answers the saved question: the same epsilon, assumptions, error and notice."""
    saved = csgm(f"{LINES[command]} {sampling} --format json --output saved.json")
    assert saved.status == 0
    document = json.loads(Path("saved.json").read_text())
    outcome = csgm("account --from saved.json --format json")
    assert (outcome.status, outcome.document["inputs"]["sampling_rate"]) == (0, 0.01)
    row = document["result"].get("rows", [document["result"]])[0]
    noise = row.get("noise_multiplier", document["inputs"].get("noise_multiplier"))
    asked = f"account --noise-multiplier {noise!r} --gamma 0.1 {COMMON} {sampling} --value"
    assert outcome.document["result"]["epsilon"] == float(csgm(asked).stdout)
    assert outcome.document["result"]["assumptions"] == row["assumptions"]
    slugs = {warning["slug"] for warning in outcome.document["warnings"]}
    assert ("rate-from-population" in slugs) == ("poisson" in sampling)
    assert csgm("account --from saved.json --max-epsilon 50").status == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sampling_rate", 0.011), ("sampling_rate", 1.0), ("sampling_rate", None), ("sampling_rate", 2),
        ("sampling_rate", "0.01"), ("population_size", 3000), ("cohort_size", 30),
        ("client_sampling", "fixed"), ("training_rounds", 100), ("rounds", 100), ("rounds", None),
    ],
)  # fmt: skip
def test_saved_result_with_another_participation_is_refused(csgm, released, key, value):
    """Whatever was edited, it disagrees with the rest."""
    line = f"{LINES['calibrate']} --client-sampling poisson {SIZES} --rounds 200 --format json"
    assert csgm(f"{line} --output saved.json").status == 0
    saved = json.loads(Path("saved.json").read_text())
    saved["inputs"][key] = value
    Path("saved.json").write_text(json.dumps(saved))
    outcome = csgm("account --from saved.json")
    assert (outcome.status, outcome.stdout) == (2, "")
