"""What a command imports, seen in a fresh interpreter: start-up stays fast because little is loaded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from csgm_cli.cli.root import REGISTRY

ROOT = Path(__file__).parents[1]
HEAVY = {"numpy", "scipy", "mpmath", "rich", "matplotlib"}
PROBE = """
import json, sys
from csgm_cli.cli import main
status = main(sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]), file=sys.stderr)
"""


def loaded(folder: Path, *words: str, **environment: str) -> set[str]:
    """Return the modules that a fresh interpreter has after running a command line in ``folder``."""
    (folder / ".git").mkdir(exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CSGM_", "_CSGM"))}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        cwd=folder,
        env=clean | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    status, modules = json.loads(done.stderr.splitlines()[-1])
    assert status == 0
    assert done.stdout
    return set(modules)


@pytest.mark.parametrize(
    "line",
    ["--help", "--version", "completion bash", "version", "version --format text", "help", "help sweep"],
)
def test_light_commands(tmp_path, line):
    """Help and version need no library, no config parser and no model."""
    modules = loaded(tmp_path, *line.split())
    assert modules.isdisjoint(HEAVY | {"tomllib"})
    assert ("importlib.metadata" in modules) == (line == "version --format text")


def test_version_without_the_framework_of_commands(tmp_path):
    """Without options and settings it imports what the root group does, and prints the same words."""
    extra = loaded(tmp_path, "version") - loaded(tmp_path, "--version")
    assert {name for name in extra if name.startswith("csgm_cli.")} == {"csgm_cli.cli.plain_version"}
    command = [sys.executable, "-m", "csgm_cli", "version"]
    fast = subprocess.check_output(command, cwd=tmp_path, text=True)
    assert fast == subprocess.check_output([*command, "--format", "text"], cwd=tmp_path, text=True)
    assert "numpy" in fast


@pytest.mark.parametrize("name", ["csgm.toml", "pyproject.toml"])
def test_version_in_a_configured_format(tmp_path, name):
    """A file above the folder that sets the format is not passed over."""
    (tmp_path / name).write_text("[tool.csgm]\nformat = 'json'\n")
    (tmp_path / "below").mkdir()
    command = [sys.executable, "-m", "csgm_cli", "version"]
    found = subprocess.check_output(command, cwd=tmp_path / "below", text=True)
    assert json.loads(found)["schema"] == "csgm/version/1"


def test_root_help_imports_no_command(tmp_path):
    """The list of commands comes from the registry."""
    assert not {name for name in loaded(tmp_path, "--help") if name.startswith("csgm_cli.")} - {
        "csgm_cli.cli",
        "csgm_cli.cli.console",
        "csgm_cli.cli.entry",
        "csgm_cli.cli.exits",
        "csgm_cli.cli.interrupts",
        "csgm_cli.cli.leave",
        "csgm_cli.cli.root",
        "csgm_cli.errors",
        "csgm_cli.version",
    }


@pytest.mark.parametrize("command", REGISTRY)
def test_help_of_a_command(tmp_path, command):
    """A command's help does not load what the command computes with."""
    modules = loaded(tmp_path, command, "--help")
    assert modules.isdisjoint(HEAVY | {"importlib.metadata", "tomllib"})
    mathematics = ("jobs", "verify", "bounds", "profile", "factorization", "noise", "renyi", "core")
    assert not {name for name in modules if name.startswith(tuple(f"csgm_cli.{x}." for x in mathematics))}


@pytest.mark.parametrize(("line", "others"), [("csgm ", 0), ("csgm calibrate --eps", 1)])
def test_completion(tmp_path, line, others):
    """<TAB> loads no library, and at most the one command whose options are completed."""
    modules = loaded(
        tmp_path,
        _CSGM_COMPLETE="bash_complete",
        COMP_WORDS=line,
        COMP_CWORD=str(len(line.split(" ")) - 1),
    )
    assert modules.isdisjoint(HEAVY | {"importlib.metadata", "tomllib"})
    assert len(modules & {f"csgm_cli.cli.commands.{name}" for name in REGISTRY}) == others


def test_gaussian_path(tmp_path):
    """The plain Gaussian mechanism is closed-form: the standard library is enough, and no Renyi curve."""
    line = "calibrate --mechanism gaussian --epsilon 5 --delta 1e-8"
    modules = loaded(tmp_path, *line.split())
    assert modules.isdisjoint(HEAVY | {"tomllib"})
    others = {"model.comparison", "renyi.renyi_noise", "render.reports.factorization"}
    assert modules.isdisjoint({f"csgm_cli.{name}" for name in others})


def test_gaussian_budget(tmp_path):
    """A budget of Gaussian mechanisms, too, is checked by the standard library alone."""
    (tmp_path / "b.toml").write_text(
        "[population.p]\nepsilon = 9\ndelta = 1e-6\n"
        '[population.p.release.r]\nmechanism = "gaussian"\nsigma = 9\n'
    )
    assert loaded(tmp_path, "check", "b.toml").isdisjoint(HEAVY)


def test_factorize_path(tmp_path):
    """Solving and writing needs numpy, but no scipy, and no format of files but the one asked for."""
    modules = loaded(tmp_path, *["factorize", "--T", "8", "--output", "f.npz"])
    assert modules & HEAVY == {"numpy"}
    assert "safetensors" not in modules
    assert loaded(tmp_path, *["inspect", "f.npz"]) & HEAVY == {"numpy"}


@pytest.mark.parametrize("kind", ["text", "json", "csv", "markdown"])
def test_l2_csgm_path(tmp_path, kind):
    """l2-csgm needs numpy, but no scipy or mpmath, and no rich where stdout is a pipe."""
    line = f"calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000 --format {kind}"
    modules = loaded(tmp_path, *line.split(), FORCE_COLOR="1")
    assert modules & HEAVY == {"numpy"}


def test_large_delta_path(tmp_path):
    """Nor does it need more where bounds at smaller epsilons are looked at."""
    line = "calibrate --epsilon 0.5 --delta 1e-3 --gamma 0.04 --norm-ratio 500"
    assert loaded(tmp_path, *line.split()) & HEAVY == {"numpy"}


@pytest.mark.parametrize("kind", ["text", "json", "csv", "jsonl"])
def test_sweep_path(tmp_path, kind):
    """A sweep needs what its rows need, and starts no machinery for processes that it does not use."""
    line = f"sweep --vary gamma=0.1,0.2 --epsilon 5 --delta 1e-8 --norm-ratio 10 --plot - --format {kind}"
    modules = loaded(tmp_path, *line.split(), *(["--output", "rows"] if kind != "text" else []))
    assert modules & (HEAVY | {"concurrent.futures", "multiprocessing"}) == {"numpy"}


def test_config_parser_only_with_a_config_file(tmp_path):
    """TOML is read when there is a file to read, which also shows that the probe sees such imports."""
    (tmp_path / "csgm.toml").write_text("[tool.csgm]\nformat = 'json'\n")
    assert "tomllib" in loaded(tmp_path, "version")
