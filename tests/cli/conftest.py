"""The command line run inside the test process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from csgm_cli.cli import main
from csgm_cli.storage.arrays import SavedArrays, read_arrays
from tests.cli.budgets import NEW, OLD
from tests.cli.inspections import T
from tests.cli.questions import configure


@dataclass(frozen=True)
class Outcome:
    """What one run of csgm left behind."""

    status: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON on stdout."""
        parsed: dict[str, Any] = json.loads(self.stdout)
        return parsed


Csgm = Callable[..., Outcome]


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make this program a release, whose words are known, and return its version."""
    for module in ("version", "render.document", "saved_result"):
        monkeypatch.setattr(f"csgm_cli.{module}.__version__", "0.2.0")
    return "0.2.0"


@pytest.fixture
def budgets(place: Path) -> Path:
    """The folder of two budgets, old.toml and new.toml."""
    (place / "old.toml").write_text(OLD)
    (place / "new.toml").write_text(NEW)
    return place


@pytest.fixture
def configured(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write a config file and name it in CSGM_CONFIG, so that it may set every option."""

    def write(text: str, name: str = "csgm.toml") -> None:
        configure(text, name)
        monkeypatch.setenv("CSGM_CONFIG", str(place / name))

    return write


@pytest.fixture
def csgm(place: Path, capsys: pytest.CaptureFixture[str]) -> Csgm:
    """Run a command line, given as one string or as words, through ``main``."""

    def run(*words: str) -> Outcome:
        arguments = words[0].split() if len(words) == 1 else list(words)
        capsys.readouterr()
        status = main(arguments)
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run


@pytest.fixture
def made(csgm: Csgm) -> SavedArrays:
    """The file ``f.npz`` of an optimal factorization, and what is in it."""
    assert csgm(f"factorize --T {T} --output f.npz").status == 0
    return read_arrays("f.npz")


@pytest.fixture
def file(csgm: Csgm, place: Path) -> Path:
    """The optimum for 8 steps, as csgm factorize writes it."""
    assert csgm("factorize --T 8 --output prefix8.npz").status == 0
    return place / "prefix8.npz"
