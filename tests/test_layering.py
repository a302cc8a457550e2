"""The layout of the package: direction of imports, homes of libraries, sizes of modules and folders.

Everything is read from the source, not run. A check takes the sources and returns what breaks its rule.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
#: The path of each module, from the package's folder, and its source.
Sources = Mapping[str, str]
PACKAGE: Sources = {
    path.relative_to(ROOT / "csgm_cli").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "csgm_cli").rglob("*.py"))
}

#: What each layer may import of the package, besides itself: only layers further down in this table.
ALLOWED: dict[str, set[str]] = {
    "__main__": {"cli"},
    "cli": {
        "render", "storage", "factorization_file", "saved_result", "simulation", "jobs", "mechanism",
        "factorization", "noise", "rounding", "model", "ranges", "errors", "hints", "version",
    },
    "render": {"rounding", "model", "ranges", "errors", "hints", "version"},
    # Files and mathematics meet here and in cli only: what the arrays of a file claim is recomputed.
    "factorization_file": {"storage", "factorization", "model", "ranges", "errors", "hints"},
    # Beside the command line, which does without it.
    "flower": {"mechanism", "model", "ranges", "errors"},
    "simulation": {"jobs", "mechanism", "factorization", "model", "ranges", "errors", "hints"},
    # Calibrations and ledgers come from files.
    "mechanism": {
        "saved_result", "storage", "accounting", "factorization", "noise", "rounding", "model", "ranges",
        "errors", "hints", "version",
    },
    # What a file claims is recomputed here, too.
    "saved_result": {"storage", "jobs", "model", "errors", "version"},
    "jobs": {
        "accounting", "verify", "local", "bounds", "profile", "factorization", "noise", "renyi", "gaussian",
        "roots", "rounding", "model", "ranges", "errors", "hints",
    },
    "storage": {"model", "ranges", "errors", "hints", "version"},
    "accounting": {
        "verify", "bounds", "profile", "renyi", "gaussian", "roots", "rounding", "model", "ranges", "errors",
        "hints",
    },
    # Nothing of the float64 path, or a recomputation would prove little.
    "verify": {"model", "ranges", "errors"},
    "local": {"gaussian", "roots", "rounding", "model", "ranges", "errors", "hints"},
    "bounds": {"profile", "renyi", "gaussian", "roots", "rounding", "model", "ranges", "errors", "hints"},
    "profile": {"renyi", "gaussian", "roots", "rounding", "model", "ranges", "errors", "hints"},
    "noise": {"factorization", "roots", "rounding", "model", "ranges", "errors", "hints"},
    "factorization": {"roots", "rounding", "model", "ranges", "errors", "hints"},
    "renyi": {"gaussian", "roots", "rounding", "model", "ranges", "errors", "hints"},
    "gaussian": {"roots", "rounding", "model", "ranges", "errors", "hints"},
    "roots": {"rounding", "model", "ranges", "errors", "hints"},
    "model": {"rounding", "ranges", "errors", "hints"},
    "rounding": set(),
    "ranges": {"errors", "hints"},
    "errors": set(),
    "hints": set(),
    "version": set(),
}  # fmt: skip

#: Layers that neither read nor write anything.
MATHEMATICS = {
    "simulation", "jobs", "mechanism", "accounting", "verify", "local", "bounds", "profile", "noise",
    "factorization", "renyi", "gaussian", "roots", "rounding", "model",
}  # fmt: skip
#: The record of what was released is a file.
RECORDS = "mechanism/ledger.py"
#: What would let them.
INPUT_AND_OUTPUT = {
    "click", "rich", "matplotlib", "safetensors", "csv", "io", "json", "logging", "os", "pathlib", "pickle",
    "random", "shutil", "socket", "subprocess", "sys", "tempfile", "tomllib", "urllib",
}  # fmt: skip

#: The only folders, or modules, that may import a library at run time.
HOMES: dict[str, tuple[str, ...]] = {
    "numpy": (
        "renyi/log_moment.py",
        "renyi/complex_log_moment.py",
        "renyi/exponential_sums.py",
        "renyi/sampled.py",
        "profile/",
        "bounds/",
        "local/",
        "verify/",
        "factorization/",
        "noise/",
        "mechanism/",
        "simulation/",
        "flower/layout.py",
        "storage/arrays/",
    ),
    "scipy": (
        "factorization/",
        "mechanism/",
        "simulation/",
        "local/",
        "verify/",
        "renyi/sampled.py",
        "profile/convolution.py",
        "profile/factors.py",
        "profile/ratios.py",
    ),
    "mpmath": ("verify/",),
    "click": ("cli/",),
    "rich": ("render/formats/as_terminal.py",),
    "matplotlib": ("render/plots/image_file.py",),
    "safetensors": ("storage/arrays/tensors.py",),
    "fht_cpu": ("mechanism/rotation.py",),
    "flwr": ("flower/engine.py",),
}

MOST_LINES = 400
MOST_MODULES = 12
LONGEST_CHAIN = 12


@cache
def imports(source: str, *, at_run_time: bool = False) -> tuple[str, ...]:
    """The dotted names that a module imports, in functions too; type-only ones unless at run time."""
    tree = ast.parse(source)
    guarded = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    found: list[str] = []
    for node in ast.walk(tree):
        if at_run_time and id(node) in guarded:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def libraries(source: str) -> set[str]:
    """What a module imports at run time, by the first part of its name."""
    return {name.partition(".")[0] for name in imports(source, at_run_time=True)}


def layer_of(path: str) -> str:
    """The folder, or the module, at the top of the package."""
    return path.partition("/")[0].removesuffix(".py")


def judged(package: Sources) -> Iterator[tuple[str, str]]:
    """The modules that are not exempt, with their sources."""
    return iter(package.items())


def graph(package: Sources) -> dict[str, set[str]]:
    """The modules of the package that each module imports, type-only imports included; all as paths."""

    def path_of(name: str) -> str | None:
        place = name.removeprefix("csgm_cli").removeprefix(".").replace(".", "/")
        candidates = (f"{place}.py", f"{place}/__init__.py".removeprefix("/"))
        return next((path for path in candidates if path in package), None)

    edges: dict[str, set[str]] = {path: set() for path in package}
    for path, source in package.items():
        for name in imports(source):
            if f"{name}.".startswith("csgm_cli."):
                edges[path].add(path_of(name) or path_of(name.rpartition(".")[0]) or name)
    return edges


# ---------------------------------------------------------------- the checks


def one_way_imports(package: Sources) -> list[str]:
    """A module imports its own layer and those that are allowed; `__init__.py` is the API, of all layers."""
    order = list(ALLOWED)
    broken = [f"{path} has no layer" for path in package if layer_of(path) not in {*ALLOWED, "__init__"}]
    broken += [
        f"{layer} may not allow {other}, which is above it"
        for layer in order
        for other in ALLOWED[layer]
        if order.index(other) < order.index(layer)
    ]
    for path, targets in graph(package).items():
        allowed = ALLOWED.get(layer_of(path), set(ALLOWED)) | {layer_of(path)}
        broken += [f"{path} imports {target}" for target in targets if layer_of(target) not in allowed]
    return broken


def no_circles(package: Sources) -> list[str]:
    """No module imports itself through others, not even for type checkers."""
    edges = graph(dict(judged(package)))
    try:
        TopologicalSorter({path: targets & edges.keys() for path, targets in edges.items()}).prepare()
    except CycleError as error:
        return [" <- ".join(error.args[1])]
    return []


def small_folders(package: Sources) -> list[str]:
    """No folder has more modules than can be read at a glance, `__init__.py` included."""
    modules = defaultdict(list)
    for path, _ in judged(package):
        modules[str(PurePosixPath(path).parent)].append(path)
    return [f"{folder}: {len(paths)}" for folder, paths in modules.items() if len(paths) > MOST_MODULES]


def short_modules(package: Sources) -> list[str]:
    """No module is longer than can be read in one go."""
    lengths = {path: source.count("\n") for path, source in judged(package)}
    return [f"{path}: {length} lines" for path, length in lengths.items() if length > MOST_LINES]


def libraries_at_home(package: Sources) -> list[str]:
    """A library is imported only where it belongs."""
    return [
        f"{path} imports {library}"
        for path, source in judged(package)
        for library in libraries(source) & HOMES.keys()
        if not path.startswith(HOMES[library])
    ]


def pure_mathematics(package: Sources) -> list[str]:
    """The mathematics does no input or output."""
    broken = []
    for path, source in package.items():
        if layer_of(path) in MATHEMATICS and path != RECORDS:
            broken += [f"{path} imports {name}" for name in libraries(source) & INPUT_AND_OUTPUT]
            broken += [
                f"{path} calls {node.func.id}"
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                if node.func.id in {"open", "print", "input"}
            ]
    return broken


def independent_verification(package: Sources) -> list[str]:
    """What recomputes an answer shares no numerical code with what found it."""
    known = {"csgm_cli", "mpmath", "numpy", "scipy", *sys.stdlib_module_names}
    return [
        f"{path} imports {name}"
        for path, source in package.items()
        if layer_of(path) == "verify"
        for name in imports(source)
        if name.partition(".")[0] not in known
        or (name.startswith("csgm_cli.") and name.split(".")[1] not in {"verify", *ALLOWED["verify"]})
    ]


def short_chains(package: Sources) -> list[str]:
    """From any layer to the lowest one it is not far."""
    edges = defaultdict(set)
    for path, targets in graph(dict(judged(package))).items():
        if layer_of(path) != "__init__":
            edges[layer_of(path)] |= {layer_of(target) for target in targets} - {layer_of(path)}
    chains: dict[str, list[str]] = {}
    try:
        for layer in TopologicalSorter(edges).static_order():
            chains[layer] = [layer, *max((chains[below] for below in edges[layer]), key=len, default=[])]
    except CycleError as error:
        return [" <- ".join(error.args[1])]
    return [" -> ".join(chain) for chain in chains.values() if len(chain) > LONGEST_CHAIN]


CHECKS = (
    one_way_imports,
    no_circles,
    small_folders,
    short_modules,
    libraries_at_home,
    pure_mathematics,
    independent_verification,
    short_chains,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_layout(check):
    """The package keeps the rule."""
    assert check(PACKAGE) == []


def importing(*names: str) -> str:
    """A module that imports these names."""
    return "".join(f"from {name.rpartition('.')[0]} import {name.rpartition('.')[2]}\n" for name in names)


FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from csgm_cli.{} import {}\n"
#: A chain of imports through thirteen layers.
CHAIN = {f"layer{i}/a.py": importing(f"csgm_cli.layer{i + 1}.a") for i in range(LONGEST_CHAIN)}


@pytest.mark.parametrize(
    ("check", "changed", "part"),
    [
        (
            one_way_imports,
            {"renyi/new.py": importing("csgm_cli.jobs.plan")},
            "renyi/new.py imports jobs/plan.py",
        ),
        (one_way_imports, {"model/new.py": FOR_TYPES.format("renyi", "law")}, "imports renyi/law.py"),
        (one_way_imports, {"render/new.py": importing("csgm_cli.storage.files.naming")}, "storage/files.py"),
        (one_way_imports, {"errors.py": importing("csgm_cli.__version__")}, "errors.py imports __init__.py"),
        (one_way_imports, {"utilities/new.py": ""}, "utilities/new.py has no layer"),
        (no_circles, {"roots.py": importing("csgm_cli.gaussian")}, "gaussian.py"),
        (no_circles, {"ranges.py": FOR_TYPES.format("model.mechanism", "Mechanism")}, "ranges.py"),
        (no_circles, {"render/terminal.py": importing("csgm_cli.render.render")}, "render/__init__.py"),
        (small_folders, {f"noise/new{i}.py": "" for i in range(MOST_MODULES)}, "noise: "),
        (short_modules, {"noise/new.py": "\n" * (MOST_LINES + 1)}, "noise/new.py: 401 lines"),
        (libraries_at_home, {"jobs/new.py": "import numpy as np\n"}, "jobs/new.py imports numpy"),
        (
            libraries_at_home,
            {"render/new.py": "def f():\n    import rich.text\n"},
            "render/new.py imports rich",
        ),
        (libraries_at_home, {"bounds/new.py": importing("mpmath.mpf")}, "bounds/new.py imports mpmath"),
        (pure_mathematics, {"profile/new.py": "import json\n"}, "profile/new.py imports json"),
        (pure_mathematics, {"jobs/new.py": "print(1)\n"}, "jobs/new.py calls print"),
        (independent_verification, {"verify/new.py": importing("csgm_cli.roots.bisect")}, "csgm_cli.roots"),
        (independent_verification, {"verify/new.py": "import dp_accounting\n"}, "dp_accounting"),
        (short_chains, CHAIN, "layer0 -> layer1"),
    ],
)
def test_each_check_can_fail(check, changed, part):
    """A module that breaks the rule is named."""
    assert any(part in said for said in check({**PACKAGE, **changed})), part


def test_numpy_for_types_is_no_import():
    """Annotations may name the arrays of a library that is not loaded."""
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy\n"
    assert libraries_at_home({"jobs/new.py": source}) == []


def test_errors_need_nothing():
    """The error tree imports the standard library only."""
    assert libraries(PACKAGE["errors.py"]) <= {"__future__", "typing"}


def test_the_rules_see_something():
    """The walk finds the imports that it is meant to judge, so the tests above cannot pass empty."""
    found = {name for _, source in judged(PACKAGE) for name in libraries(source)}
    assert found >= {"csgm_cli", "numpy", "scipy", "rich", "matplotlib", "click", "safetensors"}
    assert "jobs/calibrate.py" in graph(PACKAGE)["cli/commands/calibrate.py"]
    assert {layer_of(path) for path in PACKAGE} >= {
        "cli",
        "render",
        "storage",
        "jobs",
        "profile",
        "renyi",
        "model",
    }
