"""csgm check from end to end: whole outputs, what is refused, and what hostile files come to."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from csgm_cli.cli import main
from csgm_cli.errors import NoAnswerError
from csgm_cli.render import CHECK_FORMATS, render
from csgm_cli.storage.budget_file import DEFAULT_KEYS, LIMIT_KEYS, RELEASE_KEYS
from csgm_cli.storage.schema import load_schema

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
EXAMPLE = ROOT / "docs" / "examples" / "budget.toml"

OLD = """\
[defaults]
delta = 1e-6

[population.phones]
epsilon = 8

[population.phones.release.next-word]
noise-multiplier = 0.9
gamma = 0.05
norm-ratio = 100
rounds = 400

[population.phones.release.usage]
mechanism = "gaussian"
noise_multiplier = 40
rounds = 365

[population.phones.release.dropped]
mechanism = "gaussian"
sigma = 30.0
"""
#: One release changed, one renamed, one added and one removed; a second population within its limit.
NEW = """\
[defaults]
delta = 1e-6

[population.phones]
epsilon = 8

[population.phones.release.next-word]
noise-multiplier = 0.7
gamma = 0.05
norm-ratio = 100
rounds = 400
owner = "100 %, really: yes"
reason = "two\\nlines | and a bar"

[population.phones.release.usage-totals]
mechanism = "gaussian"
noise-multiplier = 40
rounds = 365

[population.phones.release.emoji]
compression = 10
norm-ratio = 30
noise-multiplier = 1.5
rounds = 20
adjacency = "add-remove"

[population.phones.release.planned]
compression = 10
norm-ratio = 30
noise-multiplier = 1.5
enabled = false

[population."watches, <old> & 100 %"]
epsilon = 2
delta = 1e-8

[population."watches, <old> & 100 %".release.heart-rate]
mechanism = "gaussian"
noise-multiplier = 12.5
rounds = 10
"""


@pytest.fixture
def files(place):
    """The two budgets, and a lock of the older one in which the tool had found another number."""
    (place / "old.toml").write_text(OLD)
    (place / "new.toml").write_text(NEW)
    return place


def lock_of_an_older_tool(csgm):
    """Write old.lock: its number is 0.01 below what csgm finds today."""
    assert csgm("check old.toml --write-lock old.lock").status == 0
    lock = json.loads(Path("old.lock").read_text())
    lock["csgm_version"] = "0.0.9"
    lock["populations"]["phones"]["spent"] -= 0.01
    Path("old.lock").write_text(json.dumps(lock))


# ---------------------------------------------------------------- whole outputs

CASES = {
    "holds": "check old.toml",
    "exceeded": "check new.toml",
    "diff": "check --diff old.toml new.toml",
    "lock": "check new.toml --against-lock old.lock --verify",
    "zero": "check new.toml --exit-zero",
    "broken": "check broken.toml",
}
#: Digits and differences that depend on float64 libraries.
ALL_DIGITS = re.compile(
    r"\b\d+\.\d{9,}(?:e-?\d+)?\b|(?<=relative difference )\d\.?\d*e[+-]?\d+|\b\d\.\d+e-1\d\b"
)


@pytest.mark.parametrize("form", CHECK_FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_golden(csgm, files, monkeypatch, case, form):
    """Exit code, stdout and stderr are the stored ones; numbers with all their digits to 1e-9."""
    for module in ("document", "check_document"):
        monkeypatch.setattr(f"csgm_cli.render.{module}.__version__", "0.0.0")
    (files / "broken.toml").write_text("[population.a]\nepsilon = 1\ndelta = 1e-6\nadjacancy = 2\n")
    lock_of_an_older_tool(csgm)
    outcome = csgm(f"{CASES[case]} --format {form}")
    found = f"exit {outcome.status}\n=== stdout\n{outcome.stdout}=== stderr\n{outcome.stderr}"
    path = GOLDEN / f"check-{case}.{form}.txt"
    if "UPDATE_GOLDEN" in os.environ:
        path.write_text(found)
    stored = path.read_text()
    assert ALL_DIGITS.sub("#", found) == ALL_DIGITS.sub("#", stored)
    numbers = [
        [float(n) for n in re.findall(r"\b\d+\.\d{9,}(?:e-?\d+)?\b", text) if "e-1" not in n]
        for text in (found, stored)
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-9)


def test_every_golden_file_is_used():
    """No stored output outlives its test."""
    names = {f"check-{case}.{form}.txt" for case in CASES for form in CHECK_FORMATS}
    assert {path.name for path in GOLDEN.iterdir()} == names


@pytest.mark.parametrize("case", ["holds", "exceeded", "diff", "lock"])
def test_documents_meet_their_schema(csgm, files, case):
    """The JSON of every kind of check is as the shipped schema says, and so is the lock."""
    lock_of_an_older_tool(csgm)
    jsonschema.validate(csgm(f"{CASES[case]} --format json").document, load_schema("check"))
    jsonschema.validate(json.loads(Path("old.lock").read_text()), load_schema("lock"))


def test_csv_has_a_row_for_each_release(csgm, files):
    """Removed ones too, where changes are asked for; columns do not depend on that."""
    plain, diff = (
        list(csv.DictReader(io.StringIO(csgm(f"{line} --format csv").stdout)))
        for line in (CASES["exceeded"], CASES["diff"])
    )
    assert [row["release"] for row in plain] == [
        "next-word",
        "usage-totals",
        "emoji",
        "planned",
        "heart-rate",
    ]
    assert [row["change"] for row in diff] == ["changed", "renamed", "added", "added", "removed", "added"]
    assert plain[0].keys() == diff[0].keys()
    assert diff[4]["release"] == "dropped"
    assert diff[4]["sigma"] == ""


def test_junit_is_xml(csgm, files):
    """A parser finds a case for each population and the failure of the one that is over."""
    suite = ET.fromstring(csgm("check new.toml --format junit").stdout).find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    phones, watches = suite.findall("testcase")
    assert "phones spends epsilon" in phones.find("failure").get("message")
    assert (watches.get("name"), watches.find("failure")) == ("watches, <old> & 100 %", None)


def test_junit_without_what_xml_cannot_hold(csgm, place):
    """A control character in a file's name does not make the XML unreadable."""
    name = "b\x01\ud7ff.toml"
    (place / name).write_text(OLD)
    case = ET.fromstring(csgm("check", name, "--format", "junit").stdout).find("testsuite/testcase")
    assert case.get("file") == "b\ufffd\ud7ff.toml"


def commands(text):
    """Workflow commands as GitHub's runner reads them: kind, properties, message."""
    for line in text.splitlines():
        kind, listed, message = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line).groups()
        pairs = (pair.split("=", 1) for pair in listed.split(","))
        yield kind, {key: unescaped(value) for key, value in pairs}, unescaped(message)


def unescaped(text):
    for code, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_github_points_at_the_offender(csgm, files):
    """The annotation is at the file and line of the release; commas, colons and percents survive."""
    error, notice = commands(csgm("check new.toml --format github").stdout)
    assert error[0] == "error"
    assert error[1] == {"file": "new.toml", "line": "7", "title": "csgm check: phones"}
    assert error[2].splitlines()[1].startswith("next-word has ")
    assert notice[1]["title"] == "csgm check: watches, <old> & 100 %"
    assert "\n" not in notice[2]


def test_github_puts_warnings_where_they_belong(csgm, place):
    """A warning of a release, and one of a limit, carry the file and the line; others have a title alone."""
    participation = "population = 10000\ncohort-size = 10\ntraining-rounds = 20"
    text = MISTAKEN.format(delta="1e-4", enabled="true", participation=participation)
    (place / "b,1.toml").write_text(text)
    said = [
        (properties["title"], properties["file"], properties["line"])
        for kind, properties, _ in commands(csgm("check", "b,1.toml", "--format", "github").stdout)
        if kind == "warning"
    ]
    releases = [str(n) for n, line in enumerate(text.splitlines(), 1) if ".release." in line]
    assert ("delta-large", "b,1.toml", "1") in said
    assert {line for slug, _, line in said if slug == "rounds-from-participation"} == set(releases[1:])
    assert ("perhaps-effective", "b,1.toml", releases[1]) in said
    document = json.loads(csgm("check", "b,1.toml", "--format", "json").stdout)
    document["warnings"] = [{"slug": "moved-by-tool", "message": "people: moved"}]
    assert "::warning title=moved-by-tool::people: moved\n" in render(document, "github")


def test_a_limit_with_epsilon_and_delta_swapped(csgm, place):
    """Where each would do for the other, the hint says so."""
    (place / "b.toml").write_text(
        OLD.replace("epsilon", "EPS").replace("delta", "epsilon").replace("EPS", "delta")
    )
    outcome = csgm("check b.toml")
    assert outcome.status == 2
    assert outcome.stderr.splitlines()[-1].startswith("  try: epsilon and delta seem to be swapped: epsilon ")


def test_github_prefers_what_changed(csgm, files):
    """In a change, the release that was touched is annotated, not a larger one that was there before."""
    (files / "new.toml").write_text(
        OLD + '[population.phones.release.late]\nmechanism="gaussian"\nsigma=0.9\nrounds=1\n'
    )
    (files / "old.toml").write_text(OLD)
    said = commands(csgm("check --diff old.toml new.toml --format github").stdout)
    (error,) = (found for found in said if found[0] == "error")
    assert error[1]["line"] == str(OLD.count("\n") + 1)


# ---------------------------------------------------------------- exit codes and files


def test_only_an_exceeded_limit_is_a_failed_claim(csgm, files):
    """0 within, 1 above, 0 above with --exit-zero."""
    assert [csgm(f"check {line}").status for line in ("old.toml", "new.toml", "new.toml --exit-zero")] == [
        0,
        1,
        0,
    ]


@pytest.mark.parametrize("line", ["", "--exit-zero "])
def test_exit_zero_does_not_hide_errors(csgm, files, line):
    """A bad or missing file ends as it would without."""
    (files / "bad.toml").write_text("population = 1")
    assert csgm(f"check {line}bad.toml").status == 2
    assert csgm(f"check {line}none.toml").status == 4
    assert csgm(f"check {line}new.toml --against-lock none.lock").status == 4
    assert csgm(f"check {line}new.toml --write-lock none/there.lock").status == 4


def test_what_was_locked_has_not_moved(csgm, files):
    """A lock of the same file: nothing by tool or budget, and the same bytes when written again."""
    csgm("check old.toml --write-lock a.lock")
    changes = csgm("check old.toml --against-lock a.lock --write-lock b.lock --format json").document[
        "result"
    ]["changes"]
    (phones,) = changes["populations"]
    assert (phones["by_tool"], phones["by_budget"], phones["releases"]) == (0.0, 0.0, [])
    assert Path("a.lock").read_bytes() == Path("b.lock").read_bytes()


def test_a_lock_has_its_accountant(csgm, files):
    """Numbers by different accountants are not compared."""
    csgm("check old.toml --write-lock a.lock --accountant paper")
    outcome = csgm("check old.toml --against-lock a.lock")
    assert outcome.status == 2
    assert outcome.stderr.startswith("error[different-accountant]")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lock: "[1, 2", "not a lock"),
        (lambda lock: "[]", "not a lock"),
        (lambda lock: lock | {"schema": "csgm/lock/2"}, "schema is 'csgm/lock/2'"),
        (lambda lock: lock | {"accountant": "guess"}, "guess"),
        (lambda lock: lock | {"populations": 5}, "not a lock"),
        (lambda lock: {k: v for k, v in lock.items() if k != "csgm_version"}, "csgm_version is missing"),
        (lambda lock: patched(lock, spent=-1.0), "spent is -1.0"),
        (lambda lock: patched(lock, spent=True), "spent must be a number"),
        (lambda lock: patched(lock, spent=float("nan")), "spent is nan"),
        (lambda lock: patched(lock, epsilon=0), "epsilon must be a number in"),
        (lambda lock: patched(lock, releases={"r": {}}), "is missing"),
        (lambda lock: patched(lock, releases={"\x1b[31m": {}}), "not printable"),
        (lambda lock: "[" * 100_000, "not a lock"),
        (lambda lock: '{"schema": ' + "9" * 10_000 + "}", "not a lock"),
    ],
)
def test_bad_lock(csgm, files, change, said):
    """Whatever is wrong with a lock: exit code 2, one message."""
    csgm("check old.toml --write-lock a.lock")
    changed = change(json.loads(Path("a.lock").read_text()))
    Path("a.lock").write_text(changed if isinstance(changed, str) else json.dumps(changed))
    outcome = csgm("check old.toml --against-lock a.lock")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith("error[bad-lock-file]")
    assert said in outcome.stderr


def patched(lock, **values):
    """The lock with other values in its one population."""
    return lock | {"populations": {"phones": lock["populations"]["phones"] | values}}


# ---------------------------------------------------------------- what a file may say


def test_example_in_the_docs(csgm, place):
    """The example holds, and is as the shipped schema of budget files says."""
    assert csgm("check", str(EXAMPLE)).status == 0
    jsonschema.validate(tomllib.loads(EXAMPLE.read_text()), load_schema("budget"))


def test_schema_has_the_keys_that_are_read():
    """In either spelling, and no others."""
    properties = load_schema("budget")["properties"]
    population = properties["population"]["patternProperties"]["^"]["properties"]
    release = population["release"]["patternProperties"]["^"]["properties"]
    for keys, found in (
        (DEFAULT_KEYS, properties["defaults"]["properties"]),
        ((*LIMIT_KEYS, "release"), population),
        (RELEASE_KEYS, release),
    ):
        assert set(found) == {*keys, *(key.replace("_", "-") for key in keys)}


def test_one_release_is_account(csgm, place):
    """The command line and the file ask the same question and get the same digits."""
    options = {"gamma": 0.03, "linf-norm": 0.004, "l2-norm": 0.5, "rounds": 70, "sigma": 0.02, "delta": 1e-7}
    lines = "\n".join(f"{key} = {value}" for key, value in options.items() if key != "delta")
    (place / "b.toml").write_text(
        f"[population.p]\nepsilon = 9\ndelta = 1e-7\n[population.p.release.r]\n{lines}\n"
    )
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    account = csgm("account", *words, "--format", "json").document["result"]
    (population,) = csgm("check b.toml --format json").document["result"]["populations"]
    same = ("order", "bound", "conversion", "assumptions")
    assert population["spent"] == account["epsilon"]
    assert [population[key] for key in same] == [account[key] for key in same]


def test_nearer_values_win(csgm, place):
    """A release's own keys beat defaults, also where they say the same in another way."""
    (place / "b.toml").write_text(
        """
        [defaults]
        epsilon = 50
        delta = 1e-6
        gamma = 0.5
        norm-ratio = 3
        noise-multiplier = 2
        [population.p.release.a]
        [population.p.release.b]
        compression = 10
        linf-norm = 0.1
        sigma = 7
        [population.p.release.c]
        mechanism = "gaussian"
        """
    )
    releases = csgm("check b.toml --format json").document["result"]["populations"][0]["releases"]
    keys = ("gamma", "norm_ratio", "sigma")
    assert [tuple(r[key] for key in keys) for r in releases] == [
        (0.5, 3.0, 2.0),
        (0.1, 10.0, 7.0),
        (1.0, None, 2.0),
    ]


def test_rules_of_the_commands(csgm, place):
    """Rounds from participation and the ratio by the rotation rule, each with its warning and place."""
    (place / "b.toml").write_text(
        """[population.p]
epsilon = 50
delta = 1e-6
[population.p.release.a]
gamma = 0.5
dim = 1e6
cohort-size = 1000
population = 10_000
training-rounds = 95
noise-multiplier = 5
"""
    )
    outcome = csgm("check b.toml --format json")
    (release,) = outcome.document["result"]["populations"][0]["releases"]
    assert release["rounds"] == 10
    assert release["norm_ratio"] == pytest.approx(155.33, rel=1e-4)
    assert [warning["slug"] for warning in outcome.document["warnings"]] == [
        "rotation-rule",
        "rounds-from-participation",
    ]
    assert all(
        warning["message"].startswith("b.toml:4: release a: ") for warning in outcome.document["warnings"]
    )


def test_included_files_and_several(csgm, place):
    """All files are one budget; paths are relative to the file that includes; defaults reach down."""
    (place / "teams").mkdir()
    (place / "main.toml").write_text(
        'include = "teams/a.toml"\n[defaults]\ndelta = 1e-6\nrounds = 3\n[population.p]\nepsilon = 9\n'
    )
    (place / "teams" / "a.toml").write_text(
        'include = ["b.toml"]\n[defaults]\nowner = "A"\n'
        '[population.p.release.a]\nmechanism = "gaussian"\nsigma = 9\n'
    )
    (place / "teams" / "b.toml").write_text('[population.p.release.b]\nmechanism = "gaussian"\nsigma = 9\n')
    (place / "more.toml").write_text('[population.p.release.c]\nmechanism = "gaussian"\nsigma = 9\n')
    (population,) = csgm("check main.toml more.toml --format json").document["result"]["populations"]
    found = [(r["release"], r["file"], r["line"], r["owner"], r["rounds"]) for r in population["releases"]]
    assert found == [
        ("a", "teams/a.toml", 4, "A", 3),
        ("b", "teams/b.toml", 1, "A", 3),
        ("c", "more.toml", 1, None, 1),
    ]


LIMIT = "[population.p]\nepsilon = 1\ndelta = 1e-6\n"
GAUSSIAN = '[population.p.release.r]\nmechanism = "gaussian"\n'

BAD_FILES = [
    ("", "no-population", "no population is declared"),
    ("a = ", "invalid-toml", "is not valid TOML"),
    ("x = 1\n", "unknown-key", "b.toml:1: unknown key x"),
    ("[defaults]\n\ngama = 1\n", "unknown-key", "b.toml:3: unknown key gama [defaults]; did you mean gamma"),
    (LIMIT + "[population.p.release.r]\nnoise-mult = 1\n", "unknown-key", "b.toml:5: unknown key noise-mult"),
    (
        LIMIT + "epsilom = 2\n",
        "unknown-key",
        "b.toml:4: unknown key epsilom [population.p]; did you mean epsilon",
    ),
    (
        LIMIT + GAUSSIAN + "sigma = 1\nl2-norm = 1\nl2_norm = 1\n",
        "duplicate-key",
        "b.toml:8: l2_norm is also",
    ),
    ("population = 5\n", "wrong-type", "b.toml:1: population must be a table"),
    ("[population]\np = 5\n", "wrong-type", "b.toml:2: population.p must be a table"),
    (LIMIT + "release = 3\n", "wrong-type", "b.toml:4: population.p.release must be a table"),
    (LIMIT + "[population.p.release]\nr = 3\n", "wrong-type", "b.toml:5"),
    ("defaults = 1\n", "wrong-type", "b.toml:1: defaults must be a table"),
    ('schema = "csgm/budget/2"\n', "wrong-schema", "b.toml:1: schema must be 'csgm/budget/1'"),
    ("include = 5\n", "wrong-type", "b.toml:1: include must be a path"),
    ("include = ['']\n", "wrong-type", "b.toml:1: include must be a path"),
    ('[population.""]\nepsilon = 1\n', "bad-name", "b.toml:1: the name of a population"),
    (LIMIT + '[population.p.release."a\\nb"]\nsigma = 1\n', "bad-name", "b.toml:4: the name of a release"),
    ("[population.p]\ndelta = 1e-6\n", "missing-limit", "b.toml:1: population p has no epsilon"),
    ("[population.p]\n", "missing-limit", "b.toml:1: population p has no epsilon and no delta"),
    (LIMIT.replace("1e-6", "0"), "out-of-range", "delta at b.toml:3 must be a number in [1e-300, 1), got 0"),
    (LIMIT.replace("= 1\n", "= nan\n"), "out-of-range", "epsilon at b.toml:2 must be a number in"),
    (LIMIT.replace("= 1\n", "= '1'\n"), "wrong-type", "epsilon at b.toml:2 must be a number, got '1'"),
    (LIMIT + "adjacency = 'replace'\n", "unknown-choice", "did you mean replace-one?"),
    (LIMIT + GAUSSIAN, "missing-option", "b.toml:4: release r of p: it needs noise-multiplier or sigma"),
    (LIMIT + GAUSSIAN + "sigma = 1\nnoise-multiplier = 1\n", "conflicting-options", "sigma at b.toml:6"),
    (LIMIT + GAUSSIAN + "sigma = -1\n", "out-of-range", "sigma at b.toml:6 must be a number in"),
    (LIMIT + GAUSSIAN + "sigma = 1e-400\n", "out-of-range", "which float64 cannot tell from 0"),
    (LIMIT + GAUSSIAN + "sigma = true\n", "wrong-type", "sigma at b.toml:6 must be a number, got True"),
    (
        LIMIT + GAUSSIAN + "sigma = 1\nrounds = 1.5\n",
        "out-of-range",
        "rounds at b.toml:7 must be an integer in",
    ),
    (LIMIT + GAUSSIAN + f"sigma = 1\nrounds = {'9' * 400}\n", "out-of-range", "rounds at b.toml:7"),
    (
        LIMIT + GAUSSIAN + "sigma = 1\nenabled = 'yes'\n",
        "wrong-type",
        "enabled at b.toml:7 must be true or false",
    ),
    (LIMIT + GAUSSIAN + "sigma = 1\nowner = 5\n", "wrong-type", "owner at b.toml:7 must be a string"),
    (
        LIMIT + GAUSSIAN + "sigma = 1\ngamma = 0.5\n",
        "gaussian-gamma",
        "b.toml:4: release r of p: the gaussian",
    ),
    (LIMIT + "[population.p.release.r]\nsigma = 1\n", "missing-option", "l2-csgm needs gamma or compression"),
    (
        LIMIT + "[population.p.release.r]\nsigma = 1\ngamma = 0.5\n",
        "missing-norm-ratio",
        "try: give norm-ratio, or linf-norm with l2-norm",
    ),
    (
        LIMIT + GAUSSIAN + "sigma = 1\nadjacency = 'replace-one'\n",
        "mixed-adjacency",
        "b.toml:4: release r has adjacency replace-one, its population p has add-remove",
    ),
    (LIMIT + GAUSSIAN + "sigma = 1\nepochs = 2\n", "missing-option", "epochs at b.toml:7 needs"),
    (
        LIMIT + GAUSSIAN + "sigma = 1\nfactorization = 'tree:4'\nrounds = 2\n",
        "conflicting-options",
        "factorization at b.toml:7 and rounds at b.toml:8 exclude each other",
    ),
    (LIMIT + GAUSSIAN + "sigma = 1\nfactorization = 32\n", "wrong-type", "factorization at b.toml:7"),
    (LIMIT + GAUSSIAN + "sigma = 1\nfactorization = ''\n", "unknown-choice", "factorization at b.toml:7"),
    (LIMIT + GAUSSIAN + "sigma = 1\nfactorization = 'tree:0'\n", "out-of-range", "T of factorization at"),
    (LIMIT + GAUSSIAN + "sigma = 1\nfactorization = 'nosuch:4'\n", "unknown-choice", "got 'nosuch:4'"),
    (
        LIMIT + GAUSSIAN + "sigma = 1\nfactorization = 'tree:4'\nepochs = 0\n",
        "out-of-range",
        "epochs at b.toml:8",
    ),
    ("include = 'b.toml'\n" + LIMIT, "include-cycle", "b.toml includes itself"),
    ("include = ['other.toml', 'other.toml']\n" + LIMIT, "read-twice", "other.toml is read twice"),
    ("include = 'other.toml'\n" + LIMIT, "different-limits", "different limits at b.toml:2 and other.toml:1"),
    (
        "include = 'other.toml'\n[population.q.release.r]\nmechanism='gaussian'\nsigma = 1\n",
        "duplicate-release",
        "other.toml:7: release r of population q is already declared at b.toml:2",
    ),
]
OTHER = """[population.p]
epsilon = 2
delta = 1e-6
[population.q]
epsilon = 2
delta = 1e-6
[population.q.release.r]
mechanism = "gaussian"
sigma = 1
"""


@pytest.mark.parametrize(("text", "slug", "said"), BAD_FILES)
def test_bad_file(csgm, place, text, slug, said):
    """What is wrong is named with its file and line; exit code 2, nothing on stdout, one message."""
    (place / "b.toml").write_text(text)
    (place / "other.toml").write_text(OTHER)
    outcome = csgm("check b.toml")
    assert (outcome.status, outcome.stdout) == (2, "")
    first, *rest = outcome.stderr.splitlines()
    assert first.startswith(f"error[{slug}]: ")
    assert said in outcome.stderr
    assert all(line.startswith("  try: ") for line in rest)


def test_missing_included_file(csgm, place):
    """The message says where it was included; that is exit code 4."""
    (place / "b.toml").write_text("# first\ninclude = 'sub/none.toml'\n")
    outcome = csgm("check b.toml")
    assert outcome.status == 4
    assert "cannot read 'sub/none.toml'" in outcome.stderr
    assert "(included at b.toml:2)" in outcome.stderr


def test_includes_that_do_not_end(csgm, place):
    """A chain of files is followed ten deep and no further."""
    for index in range(20):
        (place / f"f{index}.toml").write_text(f"include = 'f{index + 1}.toml'\n")
    outcome = csgm("check f0.toml")
    assert outcome.status == 2
    assert "included more than 10 levels deep" in outcome.stderr


def test_links_do_not_hide_a_cycle(csgm, place):
    """A file is the same by whatever name it is included."""
    (place / "b.toml").write_text("include = 'link.toml'\n" + LIMIT)
    (place / "link.toml").symlink_to("b.toml")
    assert csgm("check b.toml").stderr.startswith("error[include-cycle]")


@pytest.mark.parametrize(
    ("accountant", "status"), [("auto", 0), ("rdp", 0), ("paper", 0), ("exact", 2), ("tight", 0), ("rpd", 2)]
)
def test_accountants(csgm, files, accountant, status):
    """Those with a bound on a mixture; exact has none here."""
    assert csgm(f"check old.toml --accountant {accountant}").status == status


MISTAKEN = """\
[population.people]
epsilon = 8
delta = {delta}

[population.people.release.right]
gamma = 0.01
norm-ratio = 1000
noise-multiplier = 0.0122
rounds = 1

[population.people.release.wrong]
gamma = 0.01
norm-ratio = 1000
noise-multiplier = 1.22
enabled = {enabled}
{participation}

[population.people.release.plain]
mechanism = "gaussian"
noise-multiplier = 40
{participation}
"""


ONCE = """\
[population.people]
epsilon = 8
delta = 1e-8

[population.people.release.once]
mechanism = "gaussian"
noise-multiplier = 40
"""


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("", True),
        ("rounds = 1", False),
        ("enabled = false", False),
        ("population = 1000\ncohort-size = 10\ntraining-rounds = 100", False),
    ],
)
def test_a_release_whose_rounds_nobody_states(csgm, place, line, warned):
    """It counts once, and that is said at its place; one that is stated, or not enabled, is not mentioned."""
    (place / "b.toml").write_text(ONCE + line)
    outcome = csgm("check b.toml --format json")
    assert outcome.status == 0
    said = [found["message"] for found in outcome.document["warnings"] if found["slug"] == "one-round"]
    what = "it counts as one release per client in all: give rounds (1 says that it is so)"
    assert said == [f"b.toml:5: release once: {what}"] * warned


def test_rounds_from_defaults_are_stated(csgm, place):
    """What [defaults] says of all releases is said."""
    (place / "b.toml").write_text("[defaults]\nrounds = 1\n" + ONCE)
    assert "one-round" not in csgm("check b.toml").stderr


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_an_effective_multiplier_in_the_wrong_place(csgm, place, enabled):
    """1.22 is the effective multiplier of the release beside it: the file and the line are named."""
    (place / "b.toml").write_text(MISTAKEN.format(delta="1e-8", enabled=enabled, participation="rounds = 1"))
    outcome = csgm("check b.toml --format json")
    assert outcome.status == 0
    said = [f"{found['slug']}: {found['message']}" for found in outcome.document["warnings"]]
    assert len(said) == (enabled == "true")
    for warning in said:
        assert warning.startswith("perhaps-effective: b.toml:11: release wrong: if noise multiplier 1.22 is")
        assert "give 0.0122 instead" in warning


@pytest.mark.parametrize(("delta", "population", "warned"), [("1e-4", 9_999, 0), ("1e-4", 10_000, 1)])
def test_a_delta_that_lets_a_client_be_published(csgm, place, delta, population, warned):
    """Where releases say how many clients there are, the limit's delta is held against that, once."""
    participation = f"population = {population}\ncohort-size = 10\ntraining-rounds = 20"
    text = MISTAKEN.format(delta=delta, enabled="false", participation=participation)
    (place / "b.toml").write_text(text)
    warnings = csgm("check b.toml --format json").document["warnings"]
    said = [found["message"] for found in warnings if found["slug"] == "delta-large"]
    assert len(said) == warned
    for message in said:
        assert message.startswith("b.toml:1: population people: delta 0.0001 is at least 1 / population = ")


def test_no_answer_names_the_population(csgm, files, monkeypatch):
    """What cannot be computed is exit code 3, with the place and name of the population."""

    def refuse(*_, **__):
        raise NoAnswerError("out-of-reach", "it is beyond what can be computed")

    monkeypatch.setattr("csgm_cli.core.check.check_population", refuse)
    outcome = csgm("check old.toml")
    assert (outcome.status, outcome.stdout) == (3, "")
    assert outcome.stderr == (
        "error[out-of-reach]: old.toml:4: population phones: it is beyond what can be computed\n"
    )


# ---------------------------------------------------------------- hostile files

toml_values = st.recursive(
    st.one_of(
        st.floats().map(repr),
        st.integers(-(10**30), 10**30).map(str),
        st.sampled_from(
            ["true", "'gaussian'", "'l2-csgm'", "'x'", "1e999", "-0.0", "1979-05-27", "'\U0001f600'"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.tuples(inner).map(lambda item: f"{{ a = {item[0]} }}"),
    ),
    max_leaves=4,
)
keys = st.sampled_from([*DEFAULT_KEYS, "noise-multiplier", "release", "include", "schema", "nosuch", "'q q'"])
tables = st.sampled_from(
    [
        "[defaults]",
        "[population.p]",
        "[population.p.release.r]",
        "[population.'\\'.release.s]",
        "[[population]]",
        "",
    ]
)
toml_texts = st.lists(st.tuples(tables, st.dictionaries(keys, toml_values, max_size=6)), max_size=5).map(
    lambda blocks: "\n".join(
        "\n".join([header, *(f"{key} = {value}" for key, value in entries.items())])
        for header, entries in blocks
    )
)
hostile = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    toml_texts.map(str.encode),
    toml_texts.map(lambda text: (LIMIT + GAUSSIAN + "sigma = 9\n" + text).encode()),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hostile)
@example(b"a = " + b"[" * 100_000)
@example(b"[population." + b"a." * 20_000 + b"b]")
@example(b"x = " + b"9" * 100_000)
@example(b"[population.p]\nepsilon = " + b"9" * 5000)
@example(b"\xff\xfe\x00")
@example(b"include = '\\u0000'")
@example(b'include = "\\u0000"')
@example(b"include = '/dev/zero'")
@example(b"include = '.'")
def test_any_file(place, capsys, content):
    """Whatever a file holds: an answer, or one message with exit code 2 or 4 (3 if it cannot be computed)."""
    (place / "b.toml").write_bytes(content)
    status = main(["check", "b.toml", "--format", "json"])
    captured = capsys.readouterr()
    assert status in (0, 1, 2, 3, 4)
    document = json.loads(captured.out)
    assert (document["schema"] == "csgm/error/1") == (status > 1)
    assert captured.err.count("error[") == (status > 1)
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("name", [".", "none.toml", "\x00", "x" * 5000, "/dev/full/x"])
def test_no_file(csgm, place, name):
    """A folder, nothing, or what cannot be a path: exit code 4 and one message."""
    outcome = csgm("check", name)
    assert (outcome.status, outcome.stdout) == (4, "")
    assert outcome.stderr.count("error[") == 1


@pytest.mark.parametrize(
    ("default", "slug"),
    [
        ('epsilon = "x"', "wrong-type"),
        ("delta = 2", "out-of-range"),
        ("gamma = -1", "out-of-range"),
        ("enabled = 1", "wrong-type"),
        ("owner = 3", "wrong-type"),
        ('mechanism = "laplace"', "unknown-choice"),
    ],
)
def test_a_default_that_nothing_is_left_to(csgm, place, default, slug):
    """It is refused where it stands, like one that is used."""
    own = 'mechanism = "gaussian"\nnoise-multiplier = 3\nenabled = true\nowner = "me"\n'
    limit = "epsilon = 5\ndelta = 1e-6\n"
    text = f"[defaults]\n{default}\n[population.p]\n{limit}[population.p.release.a]\n{own}"
    (place / "b.toml").write_text(text)
    outcome = csgm("check b.toml")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"error[{slug}]: ")
    assert "b.toml:2" in outcome.stderr
