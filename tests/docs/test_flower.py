"""The page about Flower shows the example app as it is, and a calibration that the app can run."""

import textwrap

from csgm_cli.flower.cohorts import planned_population
from csgm_cli.mechanism.plan import load_plan
from csgm_cli.mechanism.wire import expected_bytes
from tests.docs.pages import ROOT, blocks, run_page

PAGE = ROOT / "docs" / "flower.md"
APP = ROOT / "docs" / "examples" / "flower" / "csgm_app"


def test_the_code_is_that_of_the_app():
    """Each block is a part of a file, to the letter."""
    sources = [path.read_text(encoding="utf-8") for path in APP.glob("*.py")]
    shown = blocks(PAGE, "py")
    assert len(shown) == 2
    for block in shown:
        assert any(block.text in source for source in sources), textwrap.shorten(block.text, 80)


def test_the_calibrations_fit_the_app(place, monkeypatch):
    """Sixty-four parameters; forty clients in ten rounds, then two; the size that the page shows."""
    plans = [load_plan("calibration.json") for _ in run_page(PAGE, monkeypatch)]
    assert [plan.dim for plan in plans] == [64, 64]
    assert [plan.mechanism.rounds for plan in plans] == [10 * 20 / 40, 3]
    assert [planned_population(plan, size) for plan, size in zip(plans, (40, 2), strict=True)] == [40, 2]
    assert f"bytes per client and round {expected_bytes(plans[0]):.0f}, uncompressed 256" in PAGE.read_text()
