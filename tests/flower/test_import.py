"""Flower is optional: nothing imports it unasked, and without it the error names what to install."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import csgm_cli.flower
from tests.test_layering import PACKAGE, imports

#: Modules of Flower whose names are documented.
PUBLIC = ("flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.serverapp.strategy")
#: What the adapter imports of it.
NAMES = [name for name in imports(PACKAGE["flower/engine.py"]) if name.startswith("flwr")]


@pytest.mark.parametrize("name", csgm_cli.flower.__all__)
def test_without_flower_the_import_says_what_to_install(monkeypatch, name):
    """As an ImportError, which tools can catch."""
    for module in [module for module in sys.modules if module.startswith("csgm_cli.flower.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "flwr", None)
    for module in PUBLIC:
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ImportError, match=r"pip install 'csgm-cli\[flower\]'"):
        getattr(csgm_cli.flower, name)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="csgm_modd"):
        _ = csgm_cli.flower.csgm_modd


def test_the_public_api_does_not_import_flower():
    """Every public name of csgm_cli, and the adapter's package itself."""
    code = (
        "import sys, csgm_cli, csgm_cli.flower\n"
        "for name in csgm_cli.__all__: getattr(csgm_cli, name)\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('flwr', 'ray', 'grpc')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_only_public_names_of_flower_are_used():
    """Others moved between its versions. (That one module alone imports Flower is tested with the layers.)"""
    assert len(NAMES) > 5
    assert {name.rpartition(".")[0] for name in NAMES} <= set(PUBLIC)


def test_the_names_are_public_in_this_version():
    pytest.importorskip("flwr.app", reason="flwr is not installed: pip install 'csgm-cli[flower]'")
    for name in NAMES:
        module, _, attribute = name.rpartition(".")
        assert attribute in importlib.import_module(module).__all__, name


def test_the_engine_exports_what_it_imports():
    tree = ast.parse(Path(csgm_cli.flower.__file__).with_name("engine.py").read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("flwr")
        for alias in node.names
    }
    exported = next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    assert sorted(imported) == exported
