"""CITATION.cff: what GitHub and reference managers read."""

import yaml

from tests.docs.pages import ROOT

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_required_keys():
    """The keys that version 1.2.0 of the Citation File Format requires, of the software and of the paper."""
    assert {"cff-version", "message", "title", "authors"} <= CITATION.keys()
    assert CITATION["cff-version"] == "1.2.0"
    assert {"type", "title", "authors"} <= CITATION["preferred-citation"].keys()


def test_paper():
    """The authors in the order of the title page; No is a name, and no is not a truth value."""
    paper = CITATION["preferred-citation"]
    names = [f"{author['given-names']} {author['family-names']}" for author in paper["authors"]]
    assert names == [
        "Wei-Ning Chen", "Berivan Isik", "Peter Kairouz", "Albert No", "Sewoong Oh", "Zheng Xu"
    ]  # fmt: skip
    assert (paper["year"], paper["type"]) == (2024, "conference-paper")
    assert "ICML" in paper["conference"]["name"]


def test_license():
    """The licence is that of the package."""
    assert f'license = "{CITATION["license"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
