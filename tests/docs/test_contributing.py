"""CONTRIBUTING.md: what it names is there, and a way to do something is short."""

import re

import pytest

from csgm_cli.model.mechanism_table import MECHANISMS, MechanismName
from tests.docs.pages import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
WAYS = ["How to add an option", "How to add a mechanism", "How to add an output format"]


def test_files_exist():
    """Every path in backquotes is a file or a folder of the repository."""
    paths = set(re.findall(r"`((?:csgm_cli|tests|docs)/[\w./-]*)`", TEXT))
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists() and "NAME" not in path] == []


@pytest.mark.parametrize("way", WAYS)
def test_names_are_in_the_files_of_their_step(way):
    """Every name in code is in one of the files that its step names."""
    steps = re.findall(r"^\d\. (.*?)(?=^\d\. |\Z)", SECTIONS[way], re.MULTILINE | re.DOTALL)
    assert 3 <= len(steps) <= 6
    for step in steps:
        files = [ROOT / path for path in re.findall(r"`((?:csgm_cli|tests|docs)/[\w./-]*\.(?:py|md))`", step)]
        sources = "".join(path.read_text(encoding="utf-8") for path in files if path.exists())
        for name in re.findall(r"`(_?[A-Z_]{4,}|[A-Z][A-Za-z]+|render_error)\b[^`]*`", step):
            assert name in sources + (ROOT / "csgm_cli/render/__init__.py").read_text(encoding="utf-8"), name


def test_a_mechanism_is_a_row_of_the_table():
    """The step of the table names every field of a row in words."""
    assert {type(kind).__name__ for kind in MECHANISMS.values()} == {"MechanismKind"}
    assert set(MECHANISMS) == set(MechanismName)
    for words in ("words", "gamma", "clip norms", "needs", "coordinates", "sensitivity"):
        assert words in SECTIONS["How to add a mechanism"]
