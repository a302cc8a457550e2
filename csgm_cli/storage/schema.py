"""The JSON Schemas (draft 2020-12) that every JSON output of csgm meets, and the files of `csgm check`."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from csgm_cli.errors import UsageError

#: What a schema exists for: the commands, the error object of json mode, and the files of check.
NAMES = (
    "account",
    "budget",
    "calibrate",
    "check",
    "compare",
    "error",
    "factorize",
    "inspect",
    "lock",
    "plan",
    "selftest",
    "sweep",
    "version",
)


def load_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of ``csgm/<name>/1``; ``UsageError`` unless ``name`` is in `NAMES`."""
    if name not in NAMES:
        raise UsageError("unknown-choice", f"schema must be one of {', '.join(NAMES)}, got {name!r}")
    text = files("csgm_cli.storage").joinpath("schemas", f"csgm.{name}.1.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
