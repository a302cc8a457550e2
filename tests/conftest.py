"""Fixtures that every test may ask for."""

import os

# Before anything imports numpy: see csgm_cli.cli.entry.run.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Speed belongs in benchmarks: no example fails for taking long on a busy machine. The same examples are run
# each time; new ones are tried by `python -m benchmarks --only fuzz`.
settings.register_profile("csgm", deadline=None, derandomize=True, database=None)
settings.load_profile("csgm")


@pytest.fixture(scope="session", autouse=True)
def _heeded_signals() -> Iterator[None]:
    """Let child processes heed the signals that tests send them.

    A script starts its background jobs, and nohup its command, with some of these ignored, which children
    inherit. A handler, even one that does nothing, becomes the default action in a child.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU")
    numbers = [signal.Signals[name] for name in names if name in signal.Signals.__members__]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def reference() -> dict[str, Any]:
    """The content of every file in ``tests/reference``, by the name of the file without suffix."""
    folder = Path(__file__).parent / "reference"
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository as the current folder, and an environment that says nothing to csgm."""
    for name in os.environ:
        if name.startswith(("CSGM_", "_CSGM")) or name in {"NO_COLOR", "FORCE_COLOR"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / ".git").mkdir()  # the search for a config file ends here
    monkeypatch.chdir(tmp_path)
    return tmp_path
