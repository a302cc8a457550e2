"""The numbers version is raised when, and only when, a printed number changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from csgm_cli.version import NUMBERS_VERSION

RECORDED = Path(__file__).parents[1] / "reference" / "numbers.json"
#: One answer or more by each accountant, mechanism, adjacency and direction, and a factorization.
LINES = (
    "calibrate --epsilon 1 --delta 1e-6 --mechanism gaussian --rounds 10",
    "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000 --accountant paper",
    "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000 --accountant rdp",
    "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000",
    "calibrate --epsilon 1 --delta 1e-5 --gamma 0.05 --norm-ratio 30 --rounds 20",
    "calibrate --epsilon 2 --delta 1e-6 --gamma 0.1 --norm-ratio 20 --adjacency replace-one",
    "calibrate --epsilon 2 --delta 1e-6 --gamma 0.1 --norm-ratio 20 --dim 400 --mechanism linf-csgm",
    "account --noise-multiplier 0.3 --gamma 0.05 --norm-ratio 30 --rounds 20 --delta 1e-5",
    "account --noise-multiplier 0.3 --gamma 0.05 --norm-ratio 30 --rounds 20 --epsilon 3",
    "calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 100 --factorization tree:32 --epochs 3",
)


def test_numbers_are_those_of_their_version(csgm):
    """To 1e-9. After a wanted change, raise NUMBERS_VERSION and run this with UPDATE_NUMBERS=1.

    The recorded answers are csgm's own: they show that a number moved, other tests that it is right.
    """
    found = {line: float(csgm(f"{line} --value").stdout) for line in LINES}
    if "UPDATE_NUMBERS" in os.environ:
        document = {"numbers_version": NUMBERS_VERSION, "answers": found}
        RECORDED.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert recorded["numbers_version"] == NUMBERS_VERSION
    assert found == pytest.approx(recorded["answers"], rel=1e-9, abs=0)
