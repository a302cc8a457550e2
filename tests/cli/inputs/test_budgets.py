"""What a budget file may say, what is refused, and what hostile files come to."""

from __future__ import annotations

import json
import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from csgm_cli.cli import main
from csgm_cli.ranges import FORMER_NAMES
from csgm_cli.storage.budget_file import DEFAULT_KEYS, LIMIT_KEYS, RELEASE_KEYS
from csgm_cli.storage.schema import load_schema
from tests.cli.budgets import GAUSSIAN, LIMIT, OLD

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "budget.toml"


def test_a_limit_with_epsilon_and_delta_swapped(csgm, place):
    """Where each would do for the other, the hint says so."""
    (place / "b.toml").write_text(
        OLD.replace("epsilon", "EPS").replace("delta", "epsilon").replace("EPS", "delta")
    )
    outcome = csgm("check b.toml")
    assert outcome.status == 2
    assert outcome.stderr.splitlines()[-1].startswith("  try: epsilon and delta seem to be swapped: epsilon ")


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
        former = {old for old, new in FORMER_NAMES.items() if new in keys}
        assert set(found) == {*keys, *(key.replace("_", "-") for key in keys)} | former


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
population-size = 10_000
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
        "try: pass norm-ratio, or linf-norm with l2-norm",
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


#: Text of a budget, the line that is wrong, and words of the message. Line 1 is never the wrong one.
MISPLACED = {
    "mistyped population": (
        f"{LIMIT}[population.phones]\nepsilon = 8\ndelta = 1e-6\n"
        "[population.phnes.release.r]\nmechanism = 'gaussian'\nsigma = 9\n",
        7,
        "population phnes has no epsilon and no delta; did you mean phones?",
    ),
    "mistyped population table": (
        f"{LIMIT}[populations.q.release.r]\nsigma = 9\n",
        4,
        "unknown key populations; did you mean population?",
    ),
    "mistyped release table": (
        f"{LIMIT}[population.p.realese.r]\nsigma = 9\n",
        4,
        "unknown key realese [population.p]; did you mean release?",
    ),
    "line 12 is not line 1": (
        "\n" * 8 + f"{LIMIT}[population.p.release.r]\nsigma = 9\nmechanism = 'gaussian'\nrounds = -1\n",
        15,
        "rounds at b.toml:15 must be",
    ),
    "missing key of a release": (f"{LIMIT}\n{GAUSSIAN}", 5, "it needs noise-multiplier or sigma"),
    "broken TOML": (f"{LIMIT}x = = 1\n", 4, "is not valid TOML"),
    "TOML that does not end": (f"{LIMIT}x = [1,\n2,\n", 5, "is not valid TOML"),
    "wrong schema": ("\nschema = 'csgm/budget/9'\n", 2, "schema must be 'csgm/budget/1'"),
    "missing include": ("\ninclude = 'none.toml'\n", 2, "cannot read 'none.toml'"),
    "include of itself": ("\ninclude = 'b.toml'\n", 2, "b.toml includes itself"),
    "not UTF-8": (f"{LIMIT}owner = '\udcff'\n", 4, "is not UTF-8 text"),
    "missing factorization": (
        f"{LIMIT}{GAUSSIAN}sigma = 1\nfactorization = 'none.npz'\n",
        7,
        "cannot read 'none.npz'",
    ),
}


@pytest.mark.parametrize("case", MISPLACED)
def test_an_error_has_its_line_in_every_format(csgm, place, case):
    """Annotation, test case and JSON have the file and the line that is wrong; stdout holds nothing else."""
    text, line, said = MISPLACED[case]
    (place / "b.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    annotation = csgm("check b.toml --format github")
    assert annotation.status in (2, 3, 4)
    assert annotation.stdout.startswith(f"::error file=b.toml,line={line},title=csgm%3A ")
    assert annotation.stdout.count("\n") == 1
    report = ET.fromstring(csgm("check b.toml --format junit").stdout)
    assert (report.get("tests"), report.get("errors"), report.get("failures")) == ("1", "1", "0")
    testcase = report.find("testsuite/testcase")
    assert (testcase.get("file"), testcase.get("line")) == ("b.toml", str(line))
    assert said in testcase.find("error").get("message")
    document = csgm("check b.toml --format json").document
    jsonschema.validate(document, load_schema("error"))
    assert (document["error"]["file"], document["error"]["line"]) == ("b.toml", line)
    assert said in document["error"]["message"]


@pytest.mark.parametrize(("text", "slug", "said"), BAD_FILES)
def test_annotation_of_a_bad_file(csgm, place, text, slug, said):
    """Every error names a file and a line, the one in its message where that has one."""
    (place / "b.toml").write_text(text)
    (place / "other.toml").write_text(OTHER)
    stdout = csgm("check b.toml --format github").stdout
    name, line = re.match(r"::error file=(b|other)\.toml,line=(\d+),title=csgm%3A ", stdout).groups()
    written = re.search(r"(b|other)\.toml:(\d+)", said)
    if written and slug != "different-limits":  # that names two
        assert (name, line) == written.groups()


@pytest.mark.parametrize("name", ["none.toml", ".", "sub/b.toml"])
def test_annotation_of_a_file_that_cannot_be_read(csgm, place, name):
    """It is at the first line of the file that was asked for."""
    outcome = csgm(f"check {name} --format github")
    assert outcome.status == 4
    assert outcome.stdout.startswith(f"::error file={name},line=1,title=csgm%3A cannot-read::")


def test_annotation_of_an_accountant_without_a_bound(csgm, place):
    """It is at the population that cannot be checked."""
    release = "[population.p.release.r]\nsigma = 9\ngamma = 0.5\nnorm-ratio = 3\n"
    (place / "b.toml").write_text(f"\n{LIMIT}{release}")
    outcome = csgm("check b.toml --accountant exact --format github")
    assert outcome.status == 2
    assert outcome.stdout.startswith("::error file=b.toml,line=2,title=csgm%3A ")


@pytest.mark.parametrize("option", ["--diff", "--against-lock"])
def test_annotation_of_an_earlier_budget_or_lock(csgm, place, option):
    """The error is in that file, not in the budget."""
    (place / "b.toml").write_text(LIMIT)
    (place / "before").write_text("= 1")
    outcome = csgm(f"check b.toml {option} before --format github")
    assert outcome.stdout.startswith("::error file=before,line=1,title=csgm%3A ")


@pytest.mark.parametrize("before", [None, "<?xml version='1.0'?><testsuites/>"])
def test_junit_file_holds_the_error(csgm, place, before):
    """A report of an earlier run does not stay as if it were of this one."""
    (place / "b.toml").write_text("= 1")
    if before:
        (place / "out.xml").write_text(before)
    outcome = csgm("check b.toml --format junit --output out.xml")
    assert outcome.status == 2
    assert ET.parse("out.xml").find("testsuite/testcase/error").get("type") == "invalid-toml"


def test_junit_error_replaces_no_other_file(csgm, place):
    """A budget that --output names by mistake stays."""
    (place / "b.toml").write_text("include = ['a.toml', 'c.toml']\n")
    (place / "a.toml").write_text(LIMIT)
    (place / "c.toml").write_text("= 1")
    assert csgm("check b.toml --format junit --output a.toml").status == 2
    assert (place / "a.toml").read_text() == LIMIT


def test_population_without_a_table_and_with_a_close_name(csgm, place):
    """Where defaults would give the mistyped population a limit of its own, a warning says so."""
    defaults = "[defaults]\nepsilon = 8\ndelta = 1e-6\nmechanism = 'gaussian'\nsigma = 9\n"
    stated = "[population.phones]\nepsilon = 2\n"
    (place / "b.toml").write_text(
        f"{defaults}{stated}[population.phnes.release.r]\n[population.other.release.r]\n"
    )
    warnings = csgm("check b.toml --format json").document["warnings"]
    (warning,) = (found for found in warnings if found["slug"] == "undeclared-population")
    assert warning["message"].startswith("b.toml:8: there is no [population.phnes]")
    assert warning["message"].endswith("did you mean phones?")
    (place / "b.toml").write_text(f"{defaults}{stated}[population.phnes.release.r]\n[population.phnes]\n")
    assert "undeclared-population" not in csgm("check b.toml").stderr


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
