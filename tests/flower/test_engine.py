"""Whole runs by Flower's simulation engine, each in a process with a hard time limit."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from csgm_cli.cli import main

for module, extra in (("flwr", "flower"), ("ray", "flower-simulation")):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install 'csgm-cli[{extra}]'", allow_module_level=True)

ROOT = Path(__file__).parents[2]
#: Seconds; a run takes 15 to 40, most of it to start the engine.
LIMIT = 150


@pytest.fixture
def simulated(tmp_path):
    """What a scenario of simulated_run.py prints, its exit status, and the releases in its ledger."""
    command = ["calibrate", "--epsilon", "20", "--delta", "1e-5", "--gamma", "0.5", "--dim", "64"]
    command += ["--cohort-size", "5", "--population-size", "10", "--training-rounds", "4", "--format", "json"]
    assert main([*command, "--output", str(tmp_path / "calibration.json")]) == 0

    def run(scenario):
        script = [sys.executable, str(Path(__file__).with_name("simulated_run.py")), scenario, str(tmp_path)]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            script,
            env={**os.environ, "PYTHONPATH": path, "FLWR_HOME": str(tmp_path / "flwr")},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        ledger = tmp_path / "ledger.json"
        releases = json.loads(ledger.read_text())["releases"] if ledger.exists() else []
        return done.stdout + done.stderr, done.returncode, releases

    return run


@pytest.mark.parametrize("scenario", ["example", "one client fails"])
def test_a_run_prints_what_it_spent(simulated, scenario):
    """Four rounds, in which each client takes part twice: epsilon is the calibrated one."""
    output, status, releases = simulated(scenario)
    assert status == 0, output
    assert [release["participations"] for release in releases] == [1, 1, 2, 2]
    assert re.search(r"^accuracy 0\.\d{3}$", output, re.MULTILINE)
    # a header of 16 bytes, half of 64 values of 4 bytes
    assert "bytes per client and round 144, uncompressed 256" in output
    assert "epsilon 20 at delta 1e-05" in output


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("all clients fail", "no client could train"),
        ("no mod", "a reply is not encoded by csgm"),
        ("mod is not first", "no client could train"),
    ],
)
def test_a_wrong_set_up_ends_the_run_without_a_release(simulated, scenario, message):
    """Soon, with the reason, instead of waiting for replies."""
    output, status, releases = simulated(scenario)
    assert message in output
    assert (status != 0, releases) == (True, [])
