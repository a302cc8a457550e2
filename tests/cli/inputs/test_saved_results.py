"""``csgm account --from``: saved results asked again, their drift, and files that contradict themselves."""

import json
from pathlib import Path

import pytest

from csgm_cli.rounding import round_up
from tests.cli.questions import ACCOUNT, CALIBRATE

pytestmark = pytest.mark.usefixtures("released")


def save(csgm, line, name="saved.json"):
    """Save the JSON result of a line."""
    assert csgm(f"{line} --format json --output {name}").status == 0


def refusal(csgm):
    """What `account --from` says of a file that it must not take."""
    outcome = csgm("account --from saved.json")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[bad-result-file]: 'saved.json': ")
    return outcome.stderr.splitlines()[0]


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
        f"{CALIBRATE} --population-size 1000 --cohort-size 30 --training-rounds 101 --accountant paper",
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
    counted = ["rounds-from-participation"] * (
        "--population-size" in line
    )  # its condition goes with the number
    assert [warning["slug"] for warning in outcome.document["warnings"]] == counted
    [row] = saved["result"].get("rows", [saved["result"]])
    for key in ("epsilon", "delta"):
        assert outcome.document["result"][key] == pytest.approx(row[key], rel=1e-11)
    assert outcome.stderr.startswith("saved.json: ")
    if saved["inputs"]["gamma"] is None:  # a plan's answer
        saved["inputs"]["gamma"] = row["gamma"]
    for key in ("mechanism", "gamma", "norm_ratio", "l2_norm", "dim", "rounds", "adjacency"):
        assert outcome.document["inputs"][key] == saved["inputs"][key]


@pytest.mark.parametrize(
    "line",
    [
        "calibrate --epsilon 5 --delta 0.01 --gamma 0.01 --norm-ratio 1000",
        "account --sigma 0.02 --delta 0.01 --gamma 0.01 --norm-ratio 1000",
        "plan --epsilon 5 --delta 0.01 --norm-ratio 1000 --max-noise-overhead 0.02 --accountant rdp",
    ],
)
def test_rerun_of_a_large_delta(csgm, line):
    """A saved delta is judged by the saved population: as large as one client in 100, or with 99 not."""
    for population, expected in ((100, ["delta-large"]), (99, [])):
        save(csgm, f"{line} --population-size {population} --cohort-size 10 --training-rounds 50")
        saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
        assert [w["slug"] for w in saved["warnings"] if w["slug"] == "delta-large"] == expected
        again = csgm("account --from saved.json --format json").document
        by_count = ["rounds-from-participation"]  # the condition on which rounds hold goes with them
        assert [warning["slug"] for warning in again["warnings"]] == [*by_count, *expected]
        for key in ("rounds", "population_size", "training_rounds", "cohort_size"):
            assert again["inputs"][key] == saved["inputs"][key]


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
    assert "no drift is reported" in by_epsilon.stderr
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
    assert "try: pass --delta too" in outcome.stderr
    assert csgm("account --from saved.json --max-epsilon 5 --delta 1e-8").status == 0  # 4.652...
    assert csgm("account --from saved.json --max-epsilon 4.6 --delta 1e-8").status == 1


@pytest.mark.parametrize("sampling_rate", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("gamma", [0.01, 0.5])
def test_a_calibration_on_a_grid_has_not_drifted(csgm, sampling_rate, gamma):
    """A calibration that does not use all of epsilon is neither an edited file nor another library's."""
    save(
        csgm,
        f"calibrate --epsilon 5 --delta 1e-6 --gamma {gamma} --norm-ratio 5 --rounds 10"
        f" --sampling-rate {sampling_rate}",
    )
    assert csgm("account --from saved.json --format json").document["warnings"] == []


@pytest.mark.parametrize(
    ("factor", "slugs"),
    [
        (1.0, []),
        (1 + 1e-10, []),
        (1 - 1e-10, []),
        (1 + 1e-8, []),
        (1.01, ["drift"]),
        (1 - 1e-8, ["drift-up"]),
        (0.9, ["drift-up"]),
    ],
)
def test_drift(csgm, factor, slugs):
    """Both numbers are always shown; only a larger epsilon, or one far below the saved, is a warning."""
    save(csgm, CALIBRATE)
    saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    say_epsilon(saved["result"], factor)
    saved["inputs"]["epsilon"] = max(5.0, saved["result"]["epsilon"])
    saved["csgm_version"] = "0.0.9"
    del saved["numbers_version"]
    Path("saved.json").write_text(json.dumps(saved), encoding="utf-8")
    outcome = csgm("account --from saved.json --format json")
    assert outcome.status == 0
    assert [warning["slug"] for warning in outcome.document["warnings"]] == slugs
    assert outcome.stderr.count("warning[") == len(slugs)
    loud = "warning[drift-up]: THE SAVED GUARANTEE IS NOT PROVEN" in outcome.stderr
    assert loud == (slugs == ["drift-up"])
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
    assert outcome.document["result"]["verified"]["digits"] == 15


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
        ({"gamma": 0.02}, "noise_multiplier 0.0114170"),
        ({"gamma": 1e-10}, "disagrees with effective_noise_multiplier gamma"),
        ({"dim": 0}, "inputs.dim must be at least 1, got 0"),
        ({"dim": 1e13}, "dim in the saved inputs must be"),
        ({"gamma": "0.01"}, "inputs.gamma must be number, got '0.01'"),
        ({"gamma": None}, "inputs.gamma must be number, got None"),
        ({"rounds": 1.5}, "inputs.rounds must be integer or null, got 1.5"),
        ({"rounds": True}, "inputs.rounds must be integer or null, got True"),
        ({"mechanism": "l2"}, "inputs.mechanism must be "),
        ({"adjacency": 3}, "inputs.adjacency must be "),
        ({"linf_norm": 0.002}, "inputs.linf_norm 0.002 disagrees with the other inputs: expected 0.001"),
        ({"compression": 2}, "inputs.compression 2 disagrees with the other inputs: expected 100.0"),
        ({"value_bits": 65}, "value_bits in the saved inputs must be"),
        (
            {"population": 2, "population_size": 2},
            "inputs must hold all of population_size, cohort_size, training",
        ),
        (
            {"training_rounds": 2},
            "inputs must hold all of population_size, cohort_size, training_rounds",
        ),
        ({"T": 32}, "inputs.T 32 disagrees with the other inputs: expected None"),
        ({"sensitivity": 1.5}, "inputs.sensitivity 1.5 disagrees"),
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


PLAN = "plan --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 --max-mse-overhead 0.05 --accountant rdp"
FACTORIZED = "account --noise-multiplier 3 --mechanism gaussian --delta 1e-8 --factorization optimal:32"
COHORT = "--population-size 1000 --cohort-size 30 --training-rounds 101 --dim 1e6 --accountant rdp"


@pytest.mark.parametrize(
    ("line", "path", "value", "said"),
    [
        (CALIBRATE, "inputs.rounds", 3, "rounds 3 disagrees with population_size 1000, cohort_size 30"),
        (
            CALIBRATE,
            "inputs.population_size",
            700,
            "700 disagrees with inputs.population 1000",
        ),
        (CALIBRATE, "inputs.cohort_size", 29, "rounds 4 disagrees with population_size 1000, cohort_size 29"),
        (CALIBRATE, "inputs.training_rounds", "9", "inputs.training_rounds must be integer or null, got"),
        (CALIBRATE, "result.mse.total", 9.0, "mse.total 9.0 disagrees with the mechanism and its noise"),
        (CALIBRATE, "result.mse.privacy", 9.0, "mse.privacy 9.0 disagrees"),
        (CALIBRATE, "result.mse.sparsification", 0.0, "mse.sparsification 0.0 disagrees"),
        (CALIBRATE, "result.mse.gaussian_total", 10**400, "beyond float64"),
        (CALIBRATE, "result.mse.ratio", 10**400, "beyond float64"),
        (CALIBRATE, "result.mse.ratio", True, "mse.ratio must be number, got True"),
        (CALIBRATE, "result.mse", None, "mse None disagrees"),
        (CALIBRATE, "inputs.dim", None, "bits_per_client 320000.0 disagrees"),
        (CALIBRATE, "inputs.value_bits", 16, "bits_per_client 320000.0 disagrees"),
        (CALIBRATE, "result.mean_noise_std", 0.5, "mean_noise_std 0.5 disagrees"),
        (CALIBRATE, "result.assumptions", [], "result.assumptions disagrees with its numbers: [] instead"),
        (CALIBRATE, "result.bound", "exact", "result.proof disagrees with its numbers: 'renyi' instead of"),
        (CALIBRATE, "result.bound", "tight-remove", "result.statement disagrees with its numbers"),
        (
            CALIBRATE,
            "result.proof",
            "triangle",
            "result.proof disagrees with its numbers: 'triangle' instead",
        ),
        (CALIBRATE, "result.proof", "luck", 'result.proof must be "exact" or "renyi"'),
        (CALIBRATE, "result.proof", None, 'result.proof must be "exact" or "renyi"'),
        (
            CALIBRATE,
            "result.bound",
            "best",
            'result.bound must be "exact" or "rdp"',
        ),
        (CALIBRATE, "result.bound", ["rdp"], "result.bound must be "),
        (CALIBRATE, "result.effective_noise_multiplier", 1e300, "noise_multiplier 0."),
        (CALIBRATE, "result.conversion", None, "result.conversion disagrees with its numbers: None"),
        (
            CALIBRATE,
            "result.epsilon",
            4.0,
            "disagrees with its numbers: '(5, 1e-8)-differential privacy over 4 ...' instead of '(4,",
        ),
        (
            CALIBRATE,
            "result.statement",
            "Private.",
            "result.statement disagrees with its numbers: 'Private.'",
        ),
        (CALIBRATE, "result.statement", 7, "result.statement must be string, got 7"),
        (CALIBRATE, "result.statement", ..., "result.statement is missing"),
        (CALIBRATE, "result.assumptions", ..., "result.assumptions is missing"),
        (CALIBRATE, "result.bound", ..., "result.bound is missing"),
        (CALIBRATE, "inputs.epsilon", 4.9, "is above the target 4.9"),
        (CALIBRATE, "result.lower_bound", 0.9, "lower_bound 0.9 is no lower bound of noise_multiplier 0.0"),
        (CALIBRATE, "result.lower_bound", -0.01, "lower_bound must be at least 0, got -0.01"),
        (CALIBRATE, "result.lower_bound", "0", "lower_bound must be number or null, got '0'"),
        (ACCOUNT, "result.rows.0.lower_bound", 99, "lower_bound 99 is no lower bound of epsilon "),
        (ACCOUNT, "inputs.rounds", 3, "rounds 3 disagrees"),
        (ACCOUNT, "result.rows.1.mse.total", 3, "mse.total 3 disagrees"),
        (ACCOUNT, "result.rows.1.mse.ratio", 3, "result.rows[1].mse holds 'ratio'"),
        (ACCOUNT, "result.rows.1.statement", "Private.", "result.statement disagrees"),
        (ACCOUNT, "result.rows.0.epsilon", 0.1, "result.statement disagrees"),
    ],
)
def test_a_saved_result_that_contradicts_itself(csgm, line, path, value, said):
    """Whatever a file says twice it must say alike, or one of the two was edited."""
    save(csgm, f"{line} {COHORT} {'--delta 1e-6 --delta 1e-8' if line == ACCOUNT else ''}")
    assert csgm("account --from saved.json").status == 0
    edit(path, value)
    assert said in refusal(csgm)


@pytest.mark.parametrize(
    ("line", "path", "value", "said"),
    [
        (f"{ACCOUNT} --epsilon 3", "inputs.epsilon", 0, "inputs.epsilon 0 disagrees with result.epsilon"),
        (f"{ACCOUNT} --epsilon 3", "inputs.delta", 1e-3, "either epsilon or delta"),
        (PLAN, "inputs.max_mse_overhead", 0, "is above 1 + max_mse_overhead 0"),
        (PLAN, "inputs.max_mse_overhead", None, "one of max_mse_overhead, max_noise_overhead and gamma"),
        (PLAN, "inputs.max_noise_overhead", 0.1, "one of max_mse_overhead, max_noise_overhead and gamma"),
        (FACTORIZED, "inputs.T", 64, "inputs.T 64 disagrees with the other inputs: expected 32"),
        (FACTORIZED, "inputs.T", ..., "inputs.T None disagrees with the other inputs: expected 32"),
        (FACTORIZED, "inputs.workload", "momentum=0.9", "inputs.workload 'momentum=0.9' disagrees"),
        (FACTORIZED, "inputs.strategy", "tree", "inputs.strategy 'tree' disagrees"),
        (
            FACTORIZED,
            "inputs.training_rounds",
            9,
            "inputs must hold all of population_size, cohort_size",
        ),
    ],
)
def test_inputs_that_contradict_each_other(csgm, line, path, value, said):
    """What others settle, or leave no place for, is not another thing."""
    save(csgm, line)
    assert csgm("account --from saved.json").status == 0
    edit(path, value)
    assert said in refusal(csgm)


TIGHT = {
    f"{CALIBRATE} --accountant tight": ("tight-add", "concentrated"),
    "calibrate --epsilon 1 --delta 1e-5 --gamma 0.05 --norm-ratio 30": ("tight-remove", "gaussian-matched"),
    f"{CALIBRATE} --adjacency replace-one": ("replace-one", "triangle"),
}


@pytest.mark.parametrize("line", TIGHT)
def test_the_statement_says_what_the_proof_is(csgm, line):
    """Another theorem than that of the statement is refused, also one that the bound may have."""
    save(csgm, line)
    result = json.loads(Path("saved.json").read_text(encoding="utf-8"))["result"]
    assert (result["bound"], result["proof"]) == TIGHT[line]
    assert csgm("account --from saved.json").status == 0
    for proof in {"concentrated", "gaussian-matched", "renyi", "triangle", "profile"} - {result["proof"]}:
        edit("result.proof", proof)
        assert "disagrees with its numbers: " in refusal(csgm)


@pytest.mark.parametrize("line", TIGHT)
def test_a_result_without_its_proof(csgm, line):
    """Results had no key for it: then the statement may name any theorem that the bound can have."""
    save(csgm, line)
    edit("result.proof", ...)
    outcome = csgm("account --from saved.json --format json")
    assert (outcome.status, outcome.document["warnings"]) == (0, [])
    assert outcome.document["result"]["proof"] == TIGHT[line][1]
    edit("result.statement", "Private.")
    assert "result.statement disagrees with its numbers: 'Private.'" in refusal(csgm)


def test_the_words_before_there_was_a_proof(csgm):
    """The statement then said what the bounds of both directions have in common."""
    save(csgm, f"{CALIBRATE} --accountant tight")
    statement = json.loads(Path("saved.json").read_text(encoding="utf-8"))["result"]["statement"]
    words = statement.partition("Proof: ")[2].partition(". Assumed: ")[0]
    before = "a convex test function whose worst vector is known; adding the client decides"
    edit("result.statement", statement.replace(words, before))
    assert "result.statement disagrees with its numbers" in refusal(csgm)
    edit("result.proof", ...)
    outcome = csgm("account --from saved.json --format json")
    assert (outcome.status, outcome.document["warnings"]) == (0, [])


def test_a_result_of_the_first_version(csgm):
    """Csgm 0.1.0 said gamma, the ratio and the noise once, as given, and less of the answer."""
    save(csgm, f"{ACCOUNT} --delta 1e-8 --dim 1e6 --cohort-size 1000")
    for name in ("sigma", "compression", "linf_norm"):
        edit(f"inputs.{name}", None)
    for name in ("inputs.effective_noise_multiplier", "inputs.factorization", "inputs.epochs"):
        edit(name, ...)
    for name in ("proof", "mean_noise_std", "mse", "noise_std_per_row", "mse_last_row"):
        edit(f"result.{name}", ...)
    outcome = csgm("account --from saved.json --format json")
    assert (outcome.status, outcome.document["warnings"]) == (0, [])


def test_words_of_another_version(csgm):
    """Another version may have said the same in other words; its numbers must agree all the same."""
    save(csgm, f"{CALIBRATE} {COHORT}")
    edit("csgm_version", "0.0.9")
    assert "other-words" not in csgm("account --from saved.json").stderr
    edit("result.statement", "Private.")
    outcome = csgm("account --from saved.json --format json")
    assert outcome.status == 0
    slugs = [warning["slug"] for warning in outcome.document["warnings"]]
    assert slugs == ["rounds-from-participation", "other-words"]
    edit("inputs.rounds", 3)
    assert csgm("account --from saved.json").status == 2


def test_words_of_a_development_version(csgm, monkeypatch):
    """Many commits share its version, so other words are no reason to refuse a file."""
    for module in ("version", "render.document", "saved_result"):
        monkeypatch.setattr(f"csgm_cli.{module}.__version__", "0.2.0.dev0")
    save(csgm, CALIBRATE)
    edit("result.statement", "Private.")
    outcome = csgm("account --from saved.json --format json")
    assert outcome.status == 0
    assert [warning["slug"] for warning in outcome.document["warnings"]] == ["other-words"]


@pytest.mark.parametrize(
    ("numbers", "named", "cause"),
    [
        (
            1,
            "numbers version 1",
            "so the file was edited or a library differs",
        ),
        (7, "numbers version 7", "csgm 0.2.0 has numbers version 1"),
        (..., "csgm 0.2.0", "csgm 0.2.0 has numbers version 1"),
    ],
)
def test_drift_names_the_numbers_version(csgm, monkeypatch, numbers, named, cause):
    """The package version counts only for files that are older than numbers versions."""
    for module in ("csgm_cli.version", "csgm_cli.render.document"):
        monkeypatch.setattr(f"{module}.NUMBERS_VERSION", 1)
    save(csgm, f"{ACCOUNT} --delta 1e-8")
    edit("numbers_version", numbers)
    outcome = csgm("account --from saved.json --format json")
    assert (outcome.status, outcome.document["warnings"]) == (0, [])
    document = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    say_epsilon(document["result"], 0.9)
    Path("saved.json").write_text(json.dumps(document), encoding="utf-8")
    (warning,) = csgm("account --from saved.json --format json").document["warnings"]
    assert warning["slug"] == "drift-up"
    assert f"({named}), is" in warning["message"]
    assert warning["message"].endswith(cause)


@pytest.mark.parametrize("numbers", [0, -1, 1.5, "1", True, None])
def test_a_numbers_version_that_is_none(csgm, numbers):
    """It is a positive integer."""
    save(csgm, CALIBRATE)
    edit("numbers_version", numbers)
    assert "numbers_version must be " in refusal(csgm)


def test_files_that_are_no_saved_result(csgm):
    """Content is exit code 2, reading is exit code 4."""
    assert csgm("account --from missing.json").status == 4
    assert csgm("account --from .").status == 4
    for line in ("version", "selftest"):
        save(csgm, line)
        assert csgm("account --from saved.json").status == 2
    save(csgm, CALIBRATE)
    csgm("account --from saved.json --output report.txt")
    assert "try: save a result with: csgm calibrate --format json" in csgm("account --from report.txt").stderr
    for content in (b"", b"[]", b"{", b"\xff", b'{"schema": "csgm/calibrate/2"}', b"[" * 10**5):
        Path("saved.json").write_bytes(content)
        assert csgm("account --from saved.json").status == 2
