"""Imports point one way, and each heavy library is imported in one place: read from the source, not run."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "csgm_cli"
MODULES = sorted(PACKAGE.rglob("*.py"))

#: What each layer may import of the package; a layer may always import itself.
ALLOWED = {
    "errors": set(),
    "hints": set(),
    "ranges": {"hints", "errors"},
    "model": {"ranges", "errors"},
    "comparison_model": {"model", "errors"},
    "factorization_model": {"model", "ranges", "errors"},
    "selftest_model": set(),
    "budget": {"model", "ranges", "errors"},
    "core": {
        "comparison_model",
        "factorization_model",
        "selftest_model",
        "budget",
        "model",
        "ranges",
        "errors",
    },
    "storage": {"factorization_model", "budget", "model", "ranges", "hints", "errors"},
    # The one place below cli where files and mathematics meet: a file is worth what its arrays prove.
    "factorization_file": {"core", "storage", "factorization_model", "model", "errors"},
    "render": {
        "comparison_model",
        "factorization_model",
        "selftest_model",
        "budget",
        "model",
        "errors",
        "core.rounding",
    },
    "cli": {
        "render",
        "storage",
        "core",
        "factorization_file",
        "comparison_model",
        "factorization_model",
        "budget",
        "model",
        "ranges",
        "hints",
        "errors",
    },
}

#: The only modules that may import a library.
HOMES = {
    "numpy": {
        f"core/{name}.py"
        for name in (
            "log_moment",
            "contour",
            "decay",
            "cones",
            "mixed_tight",
            "tight",
            "tight_room",
            "mixed_solve",
            "steered",
            "retrace",
            "profile",
            "loss_grid",
            "loss_beyond",
            "loss_cuts",
            "loss_event",
            "loss_fall",
            "loss_ladder",
            "loss_far",
            "loss_ladder",
            "loss_line",
            "loss_mixture",
            "loss_power",
            "loss_beyond",
            "loss_nodes",
            "loss_remove",
            "single_round",
            "loss_size",
            "size",
            "grid_cone",
            "loss_window",
            "sliced_law",
            "exponential_sums",
        )
    }
    | {
        path.relative_to(PACKAGE).as_posix()
        for folder in ("factorization", "noise")
        for path in (PACKAGE / "core" / folder).glob("*.py")
    }
    | {f"storage/arrays/{name}.py" for name in ("content", "npy", "tensors", "text")},
    "safetensors": {"storage/arrays/tensors.py"},
    "mpmath": {
        f"core/{name}.py"
        for name in (
            "oracle",
            "compose_oracle",
            "conditional_oracle",
            "contour_oracle",
            "cut_oracle",
            "fourier_oracle",
            "law_oracle",
            "mixed_oracle",
            "profile_oracle",
            "split_oracle",
            "tight_oracle",
            "tilt_oracle",
        )
    },
    # L-BFGS, and a singular value decomposition that numpy lacks.
    "scipy": {"core/factorization/toeplitz.py", "core/factorization/dense.py", "core/tight.py"},
    "rich": {"render/terminal.py"},
    "matplotlib": {"render/plot_file.py"},
    "click": {path.relative_to(PACKAGE).as_posix() for path in (PACKAGE / "cli").glob("*.py")},
}


def imports(path: Path, *, at_run_time: bool = True) -> Iterator[str]:
    """Yield the dotted names that a module imports, wherever it does; type-checking blocks only if asked."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if at_run_time and id(node) in guarded:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(path: Path) -> str:
    """Return the layer a module belongs to; the top of the package has none."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return first if first in ALLOWED else ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_point_one_way(path):
    """A module imports its own layer and those below it: cli -> render, storage, core -> model, errors."""
    layer = layer_of(path)
    if not layer:
        return
    allowed = {f"csgm_cli.{name}" for name in ALLOWED[layer] | {layer}} | {"csgm_cli.__version__"}
    for name in imports(path, at_run_time=False):
        if name == "csgm_cli" or name.startswith("csgm_cli."):
            assert any(f"{name}.".startswith(f"{prefix}.") for prefix in allowed), name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_libraries_have_one_home(path):
    """numpy, mpmath, scipy, rich, matplotlib and click are imported only where they belong."""
    place = path.relative_to(PACKAGE).as_posix()
    for name in imports(path):
        library = name.split(".")[0]
        assert place in HOMES.get(library, {place}), f"{place} imports {name}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "core").rglob("*.py")), ids=lambda path: path.name)
def test_core_is_pure(path):
    """core does no input or output: no click, rich, json, os or sys."""
    libraries = {name.split(".")[0] for name in imports(path)}
    assert libraries.isdisjoint(
        {"click", "rich", "json", "os", "sys", "pathlib", "io", "subprocess", "random"}
    )


@pytest.mark.parametrize("place", sorted(HOMES["mpmath"]))
def test_oracle_is_independent(place):
    """An oracle imports words, errors, other oracles and mpmath alone, or --verify would prove little."""
    names = {
        name for name in imports(PACKAGE / place) if name.partition(".")[0] not in sys.stdlib_module_names
    }
    known = (
        "mpmath",
        "csgm_cli.model.mechanism.",
        "csgm_cli.errors.",
        "csgm_cli.ranges.",
        "csgm_cli.core.certificate.",
    )
    words = ("conditional", "contour", "cut", "fourier", "law", "profile", "split", "tight", "tilt")
    oracles = ("oracle", *(f"{word}_oracle" for word in words))
    known += tuple(f"csgm_cli.core.{name}." for name in oracles)
    assert {name for name in names if not f"{name}.".startswith(known)} == set()


def test_errors_need_nothing():
    """The error tree imports the standard library only."""
    assert {name.split(".")[0] for name in imports(PACKAGE / "errors.py")} <= {"__future__", "typing"}


def test_the_rules_see_something():
    """The walk finds the imports that it is meant to judge, so the tests above cannot pass empty."""
    found = {name.split(".")[0] for path in MODULES for name in imports(path)}
    assert found >= {"csgm_cli", "numpy", "mpmath", "rich", "matplotlib", "click"}
    assert "csgm_cli.jobs.calibrate.calibrate" in set(imports(PACKAGE / "cli" / "calibrate.py"))
