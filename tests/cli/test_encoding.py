"""Text for machines is UTF-8 on the way in and out, whatever the locale."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from csgm_cli.render import CHECK_FORMATS

NAME = "Geräte 木"
BUDGET = f"""\
[population."{NAME}"]
epsilon = 8
delta = 1e-6

[population."{NAME}".release.r]
mechanism = "gaussian"
noise-multiplier = 40
rounds = 1
owner = "Jürgen"
"""
#: Locales, by the environment that makes Python use them, and what stdout and files would be encoded in.
LOCALES = {
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "ascii": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


def output_of(arguments: list[str], locale: str) -> bytes:
    """Stdout of csgm as bytes, where every file opened in the encoding of the locale is an error."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    strict = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    command = [sys.executable, *strict, "-m", "csgm_cli", *arguments]
    return subprocess.run(command, env=inherited | LOCALES[locale], capture_output=True, check=True).stdout


@pytest.fixture
def budget(place: Path) -> str:
    """A budget with names beyond ASCII and cp1252."""
    (place / "b.toml").write_text(BUDGET, encoding="utf-8")
    return "b.toml"


def names_in(text: str, form: str) -> set[str]:
    """What a reader of the format takes for the names of populations."""
    if form == "json":
        return {population["population"] for population in json.loads(text)["result"]["populations"]}
    if form == "csv":
        return {row["population"] for row in csv.DictReader(io.StringIO(text))}
    if form == "junit":
        return {case.get("name") for case in ET.fromstring(text.encode()).iter("testcase")}
    return {NAME} if NAME in text else set()


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("form", CHECK_FORMATS)
def test_piped_output_is_utf_8(budget, form, locale):
    """Stdout and --output have the same bytes, and a reader of UTF-8 finds the name in them."""
    piped = output_of(["check", budget, "--format", form], locale)
    output_of(["check", budget, "--format", form, "--output", "out"], locale)
    assert Path("out").read_bytes() == piped
    assert names_in(piped.decode("utf-8"), form) == {NAME}


@pytest.mark.parametrize("locale", LOCALES)
def test_xml_is_in_the_encoding_of_its_prolog(budget, locale):
    """A parser of bytes, which believes the prolog, reads the name."""
    suite = ET.fromstring(output_of(["check", budget, "--format", "junit"], locale))
    assert suite.find("testsuite/testcase").get("name") == NAME


@pytest.mark.parametrize("locale", LOCALES)
def test_rows_are_utf_8(place, locale):
    """JSON lines and CSV rows that are written as they are done."""
    for form in ("jsonl", "csv"):
        line = "sweep --vary gamma=0.1,0.2 --epsilon 1 --delta 1e-6 --norm-ratio 9 --accountant rdp --format"
        assert output_of([*line.split(), form], locale).decode("utf-8").count("l2-csgm") == 2


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("name", ["csgm.toml", "pyproject.toml"])
def test_config_is_read_as_utf_8(place, locale, name):
    """A comment or another tool's table beyond the locale does not matter."""
    text = "# Geräte 木\n[tool.csgm]\ngamma = 0.25\n"
    (place / name).write_text(text, encoding="utf-8")
    line = "calibrate --epsilon 1 --delta 1e-6 --norm-ratio 9 --rounds 1 --accountant rdp --format json"
    assert json.loads(output_of(line.split(), locale))["inputs"]["gamma"] == 0.25


@pytest.mark.parametrize("locale", LOCALES)
def test_saved_results_and_locks_are_read_as_utf_8(budget, locale):
    """What one locale wrote, another reads."""
    output_of(["check", budget, "--write-lock", "b.lock"], locale)
    out = output_of(["check", budget, "--against-lock", "b.lock", "--format", "json"], "ascii")
    (change,) = json.loads(out)["result"]["changes"]["populations"]
    assert (change["population"], change["by_tool"]) == (NAME, 0.0)


def test_file_name_that_is_no_text(csgm, place):
    """Its bytes are escaped, on stdout and in a file alike."""
    name = os.fsdecode(b"b\xff.toml")
    (place / name).write_text(BUDGET, encoding="utf-8")
    for form in CHECK_FORMATS:
        assert csgm("check", name, "--format", form, "--output", "out").status == 0
        printed = csgm("check", name, "--format", form).stdout
        assert Path("out").read_bytes().decode("utf-8") == printed


MECHANISM = "--delta 1e-8 --norm-ratio 10 --epochs 1 --factorization %s.npz"
#: Commands that read and write files whose names are no text, %s, in the order in which they need each other.
NO_TEXT = [
    "factorize --T 4 --output %s.npz --plot %s.svg",
    "factorize --T 4 --output %s.csv",
    "factorize --T 4 --checkpoint %s.c.npz --output %s.npy --arrays C",
    "factorize --workload %s.npy --format csv",
    "inspect %s.npz --format json",
    "inspect %s.csv --format markdown",
    f"calibrate {MECHANISM} --epsilon 5 --gamma 0.1 --output %s",
    f"account {MECHANISM} --sigma 5 --gamma 0.1 --statement",
    f"sweep {MECHANISM} --epsilon 5 --vary gamma=0.1,0.2 --format csv --output %s.rows --jobs 2",
    f"sweep {MECHANISM} --epsilon 5 --vary gamma=0.1,0.2 --format csv --output %s.rows --resume",
    f"compare {MECHANISM} --epsilon 5 --gamma 0.1 --format json",
]


def test_no_file_name_is_a_bug(csgm, place):
    """Every command takes names that are no text, in all the places where a file is named."""
    name = os.fsdecode(b"n\xff")
    for line in NO_TEXT:
        outcome = csgm(*(word.replace("%s", name) for word in line.split()))
        assert outcome.status == 0, (line, outcome.stderr)
        outcome.stdout.encode()
    for line in ("inspect %s", "account --from %s.json", "check %s.toml", "calibrate --epsilon %s", "%s"):
        for more in ([], ["--format", "json"]):
            outcome = csgm(*(word.replace("%s", name + "2") for word in line.split()), *more)
            assert outcome.status in (2, 4), (line, outcome.stderr)
            (outcome.stdout + outcome.stderr).encode()
