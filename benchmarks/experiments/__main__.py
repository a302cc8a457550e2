"""Run the trainings that are not in results.jsonl yet, and write docs/experiments.md.

``python -m benchmarks.experiments --data DIR`` runs them one after the other; each is added to the file when
it ends, also when it failed, so that a killed run goes on where it was. ``--record`` writes the page and its
pictures from the file, without a training.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.experiments.page import write_page
from benchmarks.experiments.plan import Run, all_runs
from benchmarks.measure import ROOT, python

RESULTS = Path(__file__).with_name("results.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.experiments", description=__doc__)
    parser.add_argument("--data", metavar="DIR", help="folder with the idx files of Fashion-MNIST")
    parser.add_argument("--record", action="store_true", help="write docs/experiments.md")
    options = parser.parse_args()
    if options.data:
        run_missing(options.data)
    if options.record:
        write_page(results())


def run_missing(folder: str) -> None:
    """Run what no line of the results has, and add a line for each."""
    done = results()
    missing = [run for run in all_runs() if run.options not in done]
    for number, run in enumerate(missing, 1):
        print(f"{number}/{len(missing)} {run.options}", file=sys.stderr, flush=True)
        line = json.dumps(_trained(run, folder), separators=(",", ":"))
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def results() -> dict[str, dict[str, Any]]:
    """The lines of the file by the options of their training."""
    if not RESULTS.exists():
        return {}
    lines = map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines())
    return {line["options"]: line for line in lines}


def _trained(run: Run, folder: str) -> dict[str, Any]:
    """What the command did: its record in short, or its exit code and the last line of its errors."""
    with tempfile.TemporaryDirectory() as temporary:
        output = Path(temporary) / "record.json"
        words = [*run.options.split(), "--data", folder, "--format", "json", "--output", str(output)]
        before = _child_seconds()
        command = python("-m", "csgm_cli", "simulate", "train", *words)
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=temporary, env=_environment()
        )
        found: dict[str, Any] = {"options": run.options, "cpu_seconds": round(_child_seconds() - before, 1)}
        if done.returncode != 0:
            last = (done.stderr.splitlines() or [""])[-1]
            return {**found, "exit_code": done.returncode, "error": last.replace(folder, "DIR")}
        return {**found, "exit_code": 0, **_shortened(json.loads(output.read_text(encoding="utf-8")))}


def _shortened(record: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a record that the page shows, and what identifies the training."""
    result = record["result"]
    kept = ("noise_multiplier", "bound", "cost", "parameters", "examples_per_client", "versions")
    return {
        **{name: result[name] for name in kept},
        "dim": record["inputs"]["dim"],
        "csgm_version": record["csgm_version"],
        "dataset_sha256": result["dataset_sha256"],
        "bytes": sum(row["bytes"] for row in result["rows"]),
        "accuracy": [row["accuracy"] for row in result["rows"]],
    }


def _environment() -> dict[str, str]:
    """No options from variables, and one thread."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CSGM_")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}


def _child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
