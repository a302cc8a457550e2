"""The scripts in docs/examples run, print what their comments show, and their numbers hold by other means."""

import math
import re
import subprocess
import sys

import dp_accounting
import numpy as np
import pytest
from scipy.stats import norm

from csgm_cli.cli import main
from tests.docs.pages import GUIDE, NOISE, ROOT

SCRIPTS = sorted((ROOT / "docs" / "examples").glob("*.py"))


@pytest.fixture
def outputs(place):
    """What each script prints, in a folder with the file that one of them reads."""
    assert main(["factorize", "--T", "64", "--output", "factors.npz"]) == 0

    def run(name):
        script = ROOT / "docs" / "examples" / name
        done = subprocess.run(
            [sys.executable, "-W", "error", str(script)],
            cwd=place,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_output(outputs, script):
    """Each ``# ->`` comment is a line of the output, in order."""
    text = script.read_text(encoding="utf-8")
    assert outputs(script.name) == re.findall(r"# -> (.*)\n", text)
    assert len(text.splitlines()) <= 80


def number(lines, pattern):
    """The number that a line of the output shows."""
    return float(re.search(pattern, "\n".join(lines))[1])


def test_noise_of_the_federated_job(outputs):
    """Hidden masks help, so it is at most the noise with revealed ones, and costs more than no compression.

    With revealed masks a round is a Gaussian mechanism of sensitivity Delta_2 (here 1).
    """
    lines = outputs("federated_job.py")
    plain = dp_accounting.get_sigma_gaussian(4, 1e-7) * math.sqrt(5)
    sigma = number(lines, r"sigma (\S+) on the sum")
    assert sigma < plain
    assert number(lines, r"(\S+) % more noise") == pytest.approx(100 * (sigma / 0.05 / plain - 1), abs=0.06)
    assert number(lines, r"clip each coordinate at (\S+)") == pytest.approx(
        math.sqrt(2 * math.log(1e6 * 1000) / 1e6), abs=1e-5
    )


def test_noise_of_dp_ftrl(outputs):
    """sigma solves the equation of the analytic Gaussian mechanism at sensitivity 1."""
    lines = outputs("dp_ftrl.py")
    sigma = number(lines, r"sigma (\S+)")
    delta = norm.cdf(0.5 / sigma - 2 * sigma) - math.exp(2) * norm.cdf(-0.5 / sigma - 2 * sigma)
    assert delta == pytest.approx(1e-6, rel=2e-3)
    last_row = np.load("factors.npz")["B"][-1]
    assert number(lines, r"noise: (\S+) times") == pytest.approx(64 / np.sum(last_row**2), abs=0.06)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_are_linked(script):
    """A reader of the guide or of the page about noise finds them."""
    text = GUIDE.read_text(encoding="utf-8") + NOISE.read_text(encoding="utf-8")
    assert f"](examples/{script.name})" in text
