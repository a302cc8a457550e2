"""Whole outputs, byte for byte. After a wanted change: UPDATE_GOLDEN=1 pytest, then read the diff."""

import os
from pathlib import Path

import pytest

from csgm_cli.render import render

GOLDEN = Path(__file__).parent / "golden"
SUFFIXES = {"text": "txt", "json": "json", "csv": "csv", "markdown": "md"}
ALL_SUFFIXES = SUFFIXES | {"jsonl": "jsonl"}
NAMES = (
    "account",
    "account-curve",
    "account-delta",
    "account-limit",
    "calibrate",
    "calibrate-bare",
    "calibrate-factorized",
    "calibrate-repeated",
    "calibrate-repeated-bare",
    "calibrate-sampled",
    "check",
    "compare",
    "compare-equal-mse",
    "compare-factorized",
    "compare-privunit",
    "factorize",
    "factorize-compare",
    "factorize-max",
    "inspect",
    "inspect-bare",
    "plan",
    "selftest",
    "simulate",
    "simulate-factorized",
    "sweep",
    "sweep-account",
    "train",
    "train-interrupted",
    "version",
)
CASES = [(name, form) for name in NAMES for form in SUFFIXES] + [("error", "json")]
CASES += [(name, "jsonl") for name in NAMES if name.startswith("sweep")]


@pytest.mark.parametrize(("name", "form"), CASES)
def test_golden(documents, name, form):
    """The output is exactly the stored one and ends in exactly one newline."""
    output = render(documents[name], form)
    path = GOLDEN / f"{name}.{ALL_SUFFIXES[form]}"
    if "UPDATE_GOLDEN" in os.environ:
        path.write_text(output)
    assert output == path.read_text()
    assert output.endswith("\n")
    assert not output.endswith("\n\n")


def test_every_golden_file_is_used():
    """No stored output outlives its test."""
    assert {path.name for path in GOLDEN.iterdir()} == {
        f"{name}.{ALL_SUFFIXES[form]}" for name, form in CASES
    }
