"""Every name of the program is documented, every documented name exists, and every link leads somewhere."""

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import csgm_cli
from csgm_cli.cli import main
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.root import REGISTRY, root
from csgm_cli.jobs.statement import ASSUMPTIONS
from csgm_cli.model.factorization import Objective, StrategyName
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound
from csgm_cli.model.mechanism_table import MechanismName
from csgm_cli.storage.budget_file import DEFAULT_KEYS
from tests.docs.pages import CI, GUIDE, JSON_DOC, PAGES, README, ROOT, SOURCES, THEORY


def test_keys_of_budget_files_are_documented():
    """Every key that a budget file may have is on the page about them."""
    text = CI.read_text(encoding="utf-8")
    assert [key for key in DEFAULT_KEYS if f"`{key.replace('_', '-')}`" not in text] == []


def test_hook_runs_a_command_that_exists():
    """The pre-commit hook names a command of csgm and files that its pattern matches."""
    hook = dict(
        line.removeprefix("- ").strip().split(": ", 1)
        for line in (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8").splitlines()
    )
    assert hook["entry"].split() == ["csgm", "check"]
    assert hook["entry"].split()[1] in REGISTRY
    assert re.search(hook["files"], "docs/examples/budget.toml")
    assert not re.search(hook["files"], "pyproject.toml")
    assert f"id: {hook['id']}\n" in CI.read_text(encoding="utf-8")


def test_pre_commit_examples(csgm_process):
    """The hooks of the page run what the shipped hook runs, from a clone, and check the example budget."""
    text = CI.read_text(encoding="utf-8")
    section = text.partition("## pre-commit")[2].partition("\n## ")[0]
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    for key in ("files", "pass_filenames"):
        (line,) = re.findall(rf"^ *{key}: .*$", hook, re.MULTILINE)
        assert line.strip() in section
    (entry,) = re.findall(r"^ *entry: (.*)$", section, re.MULTILINE)
    assert entry == "csgm check budget.toml"
    assert re.findall(r"repo: (.*)$", section, re.MULTILINE) == ["local", "../csgm"]
    assert "OWNER" not in text
    assert csgm_process(entry) == 0


@pytest.fixture
def csgm_process(place):
    """Run a command in a folder that holds the example budget, and return its exit code."""
    shutil.copy(ROOT / "docs" / "examples" / "budget.toml", place)
    program = Path(sys.executable).with_name("csgm")
    return lambda line: subprocess.run([program, *line.split()[1:]], check=False).returncode


def options() -> dict[str, list[click.Option]]:
    """Return every command's options."""
    context = click.Context(root)
    found = {}
    for name in REGISTRY:
        command = root.get_command(context, name)
        found[name] = [param for param in command.params if isinstance(param, click.Option)]
    return found


def manual() -> str:
    """Return README and guide, where every word of the command line must be found."""
    return README.read_text(encoding="utf-8") + GUIDE.read_text(encoding="utf-8")


def words(text: str) -> set[str]:
    """Return the flags and variables that ``text`` names."""
    return set(re.findall(r"(?<![\w-])--[A-Za-z][a-z0-9-]*|(?<!\w)_?CSGM_[A-Z][A-Z0-9_]*", text))


def test_commands_are_documented():
    """Every command of the registry has its place in the guide."""
    text = GUIDE.read_text(encoding="utf-8")
    assert [name for name in REGISTRY if f"`{name}`" not in text] == []


def test_options_and_variables_are_documented():
    """Every option and its environment variable is named in README or guide."""
    expected = set()
    for command in options().values():
        for option in command:
            expected |= {name for name in option.opts if name.startswith("--")}
            expected |= {option.envvar} if isinstance(option.envvar, str) else set(option.envvar or ())
    for source in SOURCES:
        expected |= set(re.findall(r"\"(_?CSGM_[A-Z_]+)\"", source.read_text(encoding="utf-8")))
    assert len(expected) > 50
    assert expected - words(manual()) == set()


def test_no_stale_options_or_variables():
    """README and guide name no option or variable of csgm that does not exist."""
    known = {"--help", "--version"}
    for command in options().values():
        for option in command:
            known |= {*option.opts, *([option.envvar] if isinstance(option.envvar, str) else option.envvar)}
    for source in SOURCES:
        known |= set(re.findall(r"_?CSGM_[A-Z_]+", source.read_text(encoding="utf-8")))
    assert words(manual()) - known == set()


@pytest.mark.parametrize("code", ExitCode, ids=lambda code: code.name)
def test_exit_codes_are_documented(code):
    """Every exit code has a row in the guide."""
    assert re.search(rf"^\| {code.value} \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(
    "word",
    [*MechanismName, *Adjacency, *Accountant, *Bound, *Objective, *StrategyName, *ASSUMPTIONS],
    ids=str,
)
def test_words_are_documented(word):
    """Every word that a result can hold is explained in the guide, every assumption in the theory too."""
    assert f"`{word}`" in GUIDE.read_text(encoding="utf-8")
    if word in ASSUMPTIONS:
        assert f"`{word}`" in THEORY.read_text(encoding="utf-8")


def is_warning(call: ast.Call) -> bool:
    """True for ``console.warning`` of a slug, which says on stderr what is no part of a result."""
    named = isinstance(call.func, ast.Attribute) and call.func.attr == "warning"
    return named and isinstance(call.args[0], ast.Constant)


def slugs() -> set[str]:
    """Return the slugs of all warnings and errors, which are literals in the source."""
    kinds = {"Notice", "CsgmError", "UsageError", "NoAnswerError", "VerificationError", "StorageError"}
    kinds |= {"_error_at"}
    found = set()
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if (isinstance(node.func, ast.Name) and node.func.id in kinds) or is_warning(node):
                # A slug may be chosen between two literals.
                constants = [n.value for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant)]
                found |= {value for value in constants if isinstance(value, str)}
    return found


def test_slugs_are_documented():
    """Every warning and error that a program can meet is listed with its slug."""
    text = JSON_DOC.read_text(encoding="utf-8")
    found = slugs()
    assert len(found) > 20
    listed = set(re.findall(r"^\| `([a-z0-9-]+)` \|", text.partition("## Slugs")[2], re.MULTILINE))
    assert sorted(found - listed) == []
    assert sorted(listed - found) == []


def properties(schema: object) -> set[str]:
    """Return the names of all properties anywhere in a JSON Schema."""
    if isinstance(schema, list):
        return set().union(*map(properties, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema.get("properties", {}))
    return own.union(*map(properties, schema.values()))


def test_json_keys_are_documented():
    """Every schema that ships, and every key in it, is explained."""
    text = JSON_DOC.read_text(encoding="utf-8")
    schemas = sorted((ROOT / "csgm_cli" / "storage" / "schemas").glob("*.json"))
    assert len(schemas) >= 6
    missing = []
    for path in schemas:
        schema = json.loads(path.read_text(encoding="utf-8"))
        missing += [key for key in sorted(properties(schema)) if f"`{key}`" not in text]
        name = schema["properties"]["schema"]["const"]
        missing += [] if f"`{name}`" in text else [name]
    assert missing == []


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("calibrate --epsilon 5 --delta 1e-8 --mechanism gaussian", ["target_epsilon"]),
        (
            "account --sigma 4 --delta 1e-8 --mechanism gaussian",
            ["noise_multiplier", "effective_noise_multiplier", "sigma"],
        ),
    ],
)
def test_first_columns_of_csv_are_documented(line, asked, capsys):
    """A row starts with the inputs that the page lists, in that order."""
    listed = re.search(
        r"tell\s+it\s+from\s+others: (.*?), and ends with", JSON_DOC.read_text("utf-8"), re.DOTALL
    )
    names = re.findall(r"`(\w+)`", listed[1])
    assert main([*line.split(), "--format", "csv"]) == 0
    header = capsys.readouterr().out.splitlines()[0].split(",")
    assert header[: len(names) + len(asked)] == names + asked
    assert header[-2:] == ["csgm_version", "numbers_version"]


def answers(schema):
    """Return the properties of every answer in a schema: of each object that has a ``statement``."""
    if isinstance(schema, list):
        return [found for part in schema for found in answers(part)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("properties", {})
    return [own] * ("statement" in own) + answers(list(schema.values()))


def may_be_null(kind):
    """Tell whether a property is sometimes null, but not always, in any of the ways that a schema says so."""
    if kind.get("type") == "null":
        return False
    types = [kind.get("type"), *(option.get("type") for option in kind.get("anyOf", []))]
    return None in kind.get("enum", []) or any("null" in (found or ()) for found in types)


@pytest.mark.parametrize("command", ["account", "calibrate", "compare", "plan", "sweep"])
def test_schemas_say_when_an_answer_is_null(command):
    """Whatever can be null in an answer says in its description where it is."""
    path = ROOT / "csgm_cli" / "storage" / "schemas" / f"csgm.{command}.1.json"
    [answer, *_] = answers(json.loads(path.read_text(encoding="utf-8")))
    nullable = {name: kind for name, kind in answer.items() if may_be_null(kind)}
    assert {"order", "conversion", "mean_noise_std", "mse"} <= set(nullable)
    assert [name for name, kind in nullable.items() if "null" not in kind.get("description", "")] == []


def anchors(page: Path) -> set[str]:
    """Return the fragment of every heading of ``page``, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page):
    """Every relative link leads to a file, and every fragment to a heading."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(\s*([^)\s]+)\s*\)", text):
        if "://" in link:
            continue
        name, _, fragment = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not fragment or fragment in anchors(target), f"{page.name}: {link}"


def test_every_page_is_linked_from_the_readme():
    """What a reader of the README cannot find might as well not be there."""
    text = README.read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"]({page.relative_to(ROOT)}" not in text] == []


def test_references_from_the_code():
    """Where the code cites a section of the theory, that section exists."""
    headings = set(re.findall(r"^#+ (.*)$", THEORY.read_text(encoding="utf-8"), re.MULTILINE))
    cited = set()
    for source in SOURCES:
        cited |= set(re.findall(r"docs/theory\.md,\s+\"([^\"]+)\"", source.read_text(encoding="utf-8")))
    assert cited
    assert cited - headings == set()


def test_changelog_has_this_version():
    """Its first heading is the version of the package; of a development version, it is Unreleased."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *released = re.findall(r"^## \[([^\]]*)\]", text, re.MULTILINE)
    version = csgm_cli.__version__
    assert first == ("Unreleased" if ".dev" in version else version)
    assert version.partition(".dev")[0] not in released  # a released version has no more development
