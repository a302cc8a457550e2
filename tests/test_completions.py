"""Shell completion: the shipped scripts are what the program prints, and they get answers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from csgm_cli.cli import main
from csgm_cli.cli.root import REGISTRY
from csgm_cli.cli.shell_completion import SHELLS

ROOT = Path(__file__).parents[1]
FILES = {"bash": "csgm.bash", "zsh": "_csgm", "fish": "csgm.fish", "powershell": "csgm.ps1"}


pytestmark = pytest.mark.usefixtures("place")


@pytest.mark.parametrize("shell", SHELLS)
def test_shipped_script(capsys, shell):
    """completions/ holds the bytes that ``csgm completion SHELL`` prints."""
    assert main(["completion", shell]) == 0
    shipped = (ROOT / "completions" / FILES[shell]).read_bytes()
    regenerate = f"csgm completion {shell} > completions/{FILES[shell]}"
    assert capsys.readouterr().out.encode() == shipped, f"regenerate it: {regenerate}"


def test_no_other_files():
    """Every shipped script belongs to a shell that the command knows."""
    assert {path.name for path in (ROOT / "completions").iterdir()} == {FILES[shell] for shell in SHELLS}


def completed(capsys, monkeypatch, line: str) -> list[str]:
    """Return what bash is told when <TAB> is pressed at the end of ``line``."""
    monkeypatch.setenv("_CSGM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    assert main([]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("csgm ", [f"plain,{name}" for name in REGISTRY]),
        ("csgm ca", ["plain,calibrate"]),
        ("csgm check --format g", ["plain,github"]),
        ("csgm check ", ["file,"]),
        ("csgm --v", ["plain,--version"]),
        ("csgm calibrate --eps", ["plain,--epsilon"]),
        ("csgm account --max", ["plain,--max-epsilon"]),
        ("csgm plan --max", ["plain,--max-mse-overhead", "plain,--max-noise-overhead"]),
        ("csgm plan --sampling", ["plain,--sampling-rate"]),
        ("csgm account --client-sampling ", ["plain,poisson"]),
        ("csgm calibrate --mechanism l", ["plain,l2-csgm", "plain,linf-csgm"]),
        ("csgm calibrate --epsilon nan --accountant p", ["plain,paper"]),
        ("csgm calibrate --output ", ["file,"]),
        ("csgm factorize --strategy str", ["plain,streaming:N"]),
        ("csgm inspect ", ["file,"]),
        ("csgm simulate ", ["plain,mean", "plain,train"]),
        ("csgm simulate train --local", ["plain,--local-steps"]),
        ("csgm simulate train --data ", ["file,"]),
        ("csgm completion ", ["plain,bash", "plain,zsh", "plain,fish", "plain,powershell"]),
        ("csgm help ca", ["plain,calibrate"]),
        ("csgm help ", [f"plain,{name}" for name in REGISTRY]),
        ("csgm nosuch --eps", [""]),
    ],
)
def test_answers(capsys, monkeypatch, line, answers):
    """Commands, options, choices and file names are completed."""
    assert completed(capsys, monkeypatch, line) == answers


def test_answers_in_powershell(capsys, monkeypatch):
    """Each completion is three lines: its kind, the word and its help."""
    monkeypatch.setenv("_CSGM_COMPLETE", "powershell_complete")
    monkeypatch.setenv("COMP_WORDS", "csgm check --format g")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert main([]) == 0
    assert capsys.readouterr().out.splitlines() == ["plain", "github", "_"]


def test_shell_that_click_lacks(capsys, monkeypatch):
    """An older click has no PowerShell: the message names the version to install."""
    monkeypatch.setattr("click.shell_completion.get_completion_class", lambda name: None)
    assert main(["completion", "powershell"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error[missing-extra]: completion in powershell needs click 8.5: pip install ")


def test_in_bash(tmp_path):
    """Bash that sources the shipped script completes an option through the program."""
    (tmp_path / "csgm").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m csgm_cli "$@"\n')
    (tmp_path / "csgm").chmod(0o755)
    script = f"""
        source {ROOT / "completions" / "csgm.bash"}
        COMP_WORDS=(csgm calibrate --norm) COMP_CWORD=2
        _csgm_completion csgm
        echo "${{COMPREPLY[*]}}"
    """
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "--norm-ratio\n"
