"""The GitHub action: its scripts are run as GitHub runs them, with the inputs in the environment."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.docs.pages import CI, ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "run" in step}
BUDGET = """
[population.phones]
epsilon = {epsilon}
delta = 1e-6
[population.phones.release.counts]
mechanism = "gaussian"
noise-multiplier = 3
rounds = 1
"""


@pytest.fixture
def workspace(tmp_path):
    """A folder with budgets that hold and that do not, and csgm on the path beside it."""
    work, programs = tmp_path / "work", tmp_path / "bin"
    work.mkdir()
    programs.mkdir()
    (work / "budget.toml").write_text(BUDGET.format(epsilon=8))
    (work / "tight one.toml").write_text(BUDGET.format(epsilon=0.1).replace("phones", "watches"))
    (work / "broken.toml").write_text("[population")
    (programs / "csgm").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m csgm_cli "$@"\n')
    (programs / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > arguments\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    return work


def run_step(workspace, name, github=None, **inputs):
    """Run a step's script with the action's inputs, as GitHub fills in its ``env``."""
    values = {f"inputs.{key}": str(given["default"]) for key, given in ACTION["inputs"].items()}
    values |= {f"inputs.{key.replace('_', '-')}": value for key, value in inputs.items()}
    values |= github or {}
    step = STEPS[name]
    environment = {
        key: re.sub(r"\$\{\{ (\S+) \}\}", lambda match: values[match[1]], value)
        for key, value in step["env"].items()
    }
    clean = {key: value for key, value in os.environ.items() if not key.startswith("CSGM_")}
    clean |= {"PATH": f"{workspace.parent / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=workspace,
        env=clean | environment | {"GITHUB_STEP_SUMMARY": str(workspace / "summary.md")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_budget_that_holds(workspace):
    """Exit code 0, a notice at the line, and a table in the summary."""
    done = run_step(workspace, "Check")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::notice file=budget.toml,line=2,")
    assert "| phones |" in (workspace / "summary.md").read_text()


def test_a_limit_that_is_exceeded(workspace):
    """Exit code 1 and an error, also for the second of two files; the summary is written all the same."""
    done = run_step(workspace, "Check", budget="budget.toml\n\ntight one.toml\n")
    assert done.returncode == 1
    assert "::error file=tight one.toml,line=5," in done.stdout
    summary = (workspace / "summary.md").read_text()
    assert "| phones |" in summary
    assert "| watches |" in summary


def test_an_earlier_budget_and_a_lock(workspace):
    """``diff`` and ``against-lock`` reach the command."""
    (workspace / "before.toml").write_text(
        BUDGET.format(epsilon=8).replace("multiplier = 3", "multiplier = 6")
    )
    done = run_step(workspace, "Check", diff="before.toml")
    assert done.returncode == 0, done.stderr
    assert "noise multiplier" in (workspace / "summary.md").read_text()
    done = run_step(workspace, "Check", against_lock="missing.lock")
    assert done.returncode == 4
    assert "missing.lock" in done.stdout


@pytest.mark.parametrize(("budget", "code"), [("broken.toml", 2), ("missing.toml", 4)])
def test_a_file_that_cannot_be_used(workspace, budget, code):
    """The exit code of csgm is the step's, and the reason is reported."""
    done = run_step(workspace, "Check", budget=budget)
    assert done.returncode == code
    assert done.stdout.startswith("::error ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("budget", "$(touch pwned)"),
        ("diff", "`touch pwned`"),
        ("budget", '"; touch pwned; "'),
        ("against_lock", "'; touch pwned; '"),
    ],
)
def test_inputs_are_not_run(workspace, name, text):
    """Shell syntax in an input is a file name that does not exist."""
    done = run_step(workspace, "Check", **{name: text})
    assert done.returncode in (2, 4)
    assert not (workspace / "pwned").exists()


@pytest.mark.parametrize("name", ["budget", "diff", "against_lock"])
def test_inputs_are_not_options(workspace, name):
    """A file name with dashes is no option that would lift the gate."""
    (workspace / "budget.toml").write_text(BUDGET.format(epsilon=0.1))
    done = run_step(
        workspace, "Check", **{name: "--exit-zero\nbudget.toml" if name == "budget" else "--exit-zero"}
    )
    assert done.returncode in (2, 4)


def test_install(workspace):
    """pip installs the folder of the action, whatever its name."""
    done = run_step(workspace, "Install", {"github.action_path": "/a b/$(touch pwned)"})
    assert done.returncode == 0
    arguments = (workspace / "arguments").read_text().splitlines()
    assert arguments == ["-m", "pip", "install", "--quiet", "/a b/$(touch pwned)"]


def test_no_expression_inside_a_script():
    """GitHub would paste the value of ``${{ }}`` into the script before it is run."""
    assert set(STEPS) == {"Install", "Check"}
    assert [name for name, step in STEPS.items() if "${{" in step["run"] or step["shell"] != "bash"] == []


def test_inputs_are_documented():
    """The page about CI names each input of the action."""
    section = CI.read_text(encoding="utf-8").partition("## GitHub")[2].partition("\n## ")[0]
    assert [name for name in ACTION["inputs"] if f"`{name}`" not in section] == []
