"""Fixtures that every test may ask for."""

import os

# Before anything imports numpy: see csgm_cli.cli.entry.main.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Speed belongs in benchmarks: no example fails for taking long on a busy machine.
settings.register_profile("csgm", deadline=None)
settings.load_profile("csgm")


@pytest.fixture(scope="session")
def reference() -> dict[str, Any]:
    """The content of every file in ``tests/reference``, by the name of the file without suffix."""
    folder = Path(__file__).parent / "reference"
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
