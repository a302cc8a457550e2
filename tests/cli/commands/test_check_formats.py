"""What ``csgm check`` prints: whole outputs, schemas, tables, JUnit and annotations."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest

from csgm_cli.render import CHECK_FORMATS, render
from csgm_cli.storage.schema import load_schema
from tests.cli.budgets import MISTAKEN, OLD

GOLDEN = Path(__file__).parent / "golden"
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


def lock_of_an_older_tool(csgm):
    """Write old.lock: its number is 0.01 below what csgm finds today."""
    assert csgm("check old.toml --write-lock old.lock").status == 0
    lock = json.loads(Path("old.lock").read_text())
    lock["csgm_version"] = "0.0.9"
    del lock["numbers_version"]
    lock["populations"]["phones"]["spent"] -= 0.01
    Path("old.lock").write_text(json.dumps(lock))


@pytest.mark.parametrize("form", CHECK_FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_golden(csgm, budgets, monkeypatch, case, form):
    """Exit code, stdout and stderr are the stored ones; numbers with all their digits to 1e-9."""
    for module in ("version", "render.document"):
        monkeypatch.setattr(f"csgm_cli.{module}.__version__", "0.0.0")
        monkeypatch.setattr(f"csgm_cli.{module}.NUMBERS_VERSION", 1)
    (budgets / "broken.toml").write_text("[population.a]\nepsilon = 1\ndelta = 1e-6\nadjacancy = 2\n")
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
def test_documents_meet_their_schema(csgm, budgets, case):
    """The JSON of every kind of check is as the shipped schema says, and so is the lock."""
    lock_of_an_older_tool(csgm)
    jsonschema.validate(csgm(f"{CASES[case]} --format json").document, load_schema("check"))
    jsonschema.validate(json.loads(Path("old.lock").read_text()), load_schema("lock"))


def test_csv_has_a_row_for_each_release(csgm, budgets):
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


def test_junit_is_xml(csgm, budgets):
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
    assert case.get("file") == r"b\x01\ud7ff.toml"


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


def test_github_points_at_the_offender(csgm, budgets):
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
    found = commands(csgm("check", "b,1.toml", "--format", "github").stdout)
    said = [
        (properties["title"], properties["file"], properties["line"])
        for kind, properties, _ in found
        if kind == "warning"
    ]
    assert all("b,1.toml" not in text for _, _, text in found)  # the place is not repeated
    releases = [str(n) for n, line in enumerate(text.splitlines(), 1) if ".release." in line]
    assert ("delta-large", "b,1.toml", "1") in said
    assert {line for slug, _, line in said if slug == "rounds-from-participation"} == set(releases[1:])
    assert ("perhaps-effective", "b,1.toml", releases[1]) in said
    document = json.loads(csgm("check", "b,1.toml", "--format", "json").stdout)
    document["warnings"] = [{"slug": "moved-by-tool", "message": "people: moved"}]
    assert "::warning title=moved-by-tool::people: moved\n" in render(document, "github")


def test_github_says_the_place_of_an_error_once(csgm, place):
    """In the properties, and not in the text."""
    (place / "b,1.toml").write_text("[population.people]\nepsilom = 3\n")
    ((kind, properties, text),) = commands(csgm("check", "b,1.toml", "--format", "github").stdout)
    assert (kind, properties["file"], properties["line"]) == ("error", "b,1.toml", "2")
    assert text.startswith("unknown key epsilom")


def test_github_prefers_what_changed(csgm, budgets):
    """In a change, the release that was touched is annotated, not a larger one that was there before."""
    (budgets / "new.toml").write_text(
        OLD + '[population.phones.release.late]\nmechanism="gaussian"\nsigma=0.9\nrounds=1\n'
    )
    (budgets / "old.toml").write_text(OLD)
    said = commands(csgm("check --diff old.toml new.toml --format github").stdout)
    (error,) = (found for found in said if found[0] == "error")
    assert error[1]["line"] == str(OLD.count("\n") + 1)
