"""What the verification package may import: agreement is evidence only while it shares nothing."""

import ast
import sys
from pathlib import Path

import pytest

import csgm_cli.verify

MODULES = sorted(Path(csgm_cli.verify.__file__).parent.glob("*.py"))
SHARED = (
    "csgm_cli.verify",
    "csgm_cli.model.certificate",
    "csgm_cli.model.mechanism",
    "csgm_cli.model.result",
    "csgm_cli.errors",
    "mpmath",
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_nothing_of_the_float64_path_is_imported(path):
    """Only words, errors and mpmath; numpy in the plain grids alone."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    foreign = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}
    allowed = (*SHARED, "numpy") if path.stem.startswith("plain_") else SHARED
    assert {name for name in foreign if not name.startswith(allowed)} == set()
