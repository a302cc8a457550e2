"""The documentation says what the program does: every example is run, every name is looked up."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import math
import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import click
import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

import csgm_cli
from csgm_cli.cli import main
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.root import REGISTRY, root
from csgm_cli.jobs.statement import ASSUMPTIONS
from csgm_cli.model.factorization import Objective, StrategyName
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, MechanismName
from csgm_cli.storage.budget_file import DEFAULT_KEYS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide.md"
NOISE = ROOT / "docs" / "noise.md"
CI = ROOT / "docs" / "ci.md"
JSON_DOC = ROOT / "docs" / "json.md"
THEORY = ROOT / "docs" / "theory.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]
SOURCES = sorted((ROOT / "csgm_cli").rglob("*.py"))


class Block(NamedTuple):
    """A fenced block: its language, its text and where it starts."""

    language: str
    text: str
    line: int


class Step(NamedTuple):
    """One ``$`` line of a console block and the output shown below it."""

    command: str
    output: str


def blocks(page: Path, language: str) -> list[Block]:
    """Return the fenced blocks of ``page`` in ``language``."""
    found, inside = [], None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        if line.startswith("```"):
            if inside is None:
                inside = Block(line[3:].strip(), "", number)
            else:
                found.append(inside)
                inside = None
        elif inside is not None:
            inside = inside._replace(text=inside.text + line)
    assert inside is None, f"{page.name} ends inside a fenced block"
    return [block for block in found if block.language == language]


def steps(text: str) -> list[Step]:
    """Split a console block into commands and their outputs."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    assert not parts[0], f"output before the first command: {parts[0]!r}"
    return [Step(command, output) for command, output in zip(parts[1::2], parts[2::2], strict=True)]


class Shell:
    """Runs the few forms that the docs use: ``[NAME=value] csgm ... [> file]``, ``cat`` and ``echo $?``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.status: int = 0

    def run(self, command: str) -> str:
        """Return what a reader would see: stdout and stderr as they come."""
        words = shlex.split(command)
        if words == ["echo", "$?"]:
            return f"{self.status}\n"
        if words[0] == "cat":
            return "".join(Path(name).read_text(encoding="utf-8") for name in words[1:])
        with self.monkeypatch.context() as patch:
            while "=" in words[0]:
                patch.setenv(*words.pop(0).split("=", 1))
            assert words[0] == "csgm", f"cannot run {command!r}"
            target = words[words.index(">") + 1] if ">" in words else None
            return self._csgm(words[1 : words.index(">") if target else None], target)

    def _csgm(self, arguments: list[str], target: str | None) -> str:
        seen = io.StringIO()
        stdout = io.StringIO() if target else seen
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(seen):
            self.status = main(arguments)
        if target:
            Path(target).write_text(stdout.getvalue(), encoding="utf-8")
        return seen.getvalue()


def run_page(page: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Block, Step, str]]:
    """Yield every step of the page's console blocks with what it prints here and now."""
    for block in blocks(page, "toml"):  # the first line is a comment that names the file
        Path(block.text.split()[1]).write_text(block.text, encoding="utf-8")
    shell = Shell(monkeypatch)
    for block in blocks(page, "console"):
        for step in steps(block.text):
            yield block, step, shell.run(step.command)


#: A number with all its digits, or a difference of two: the last ones depend on float64 libraries.
ALL_DIGITS = re.compile(r"\b\d+\.\d{9,}(?:e-?\d+)?\b|(?<=relative difference )\d\.\de[+-]\d+")

#: How long it took, and differences of the size of rounding.
INCIDENTAL = re.compile(r"(?<= in )\d\S* s\b|\b\d\.\d+e-1\d\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_console_examples(page, place, monkeypatch):
    """Every example prints what the page shows: to the byte, and numbers with all digits to 1e-9."""
    for block, step, printed in run_page(page, monkeypatch):
        where = f"{page.name}:{block.line}: {step.command}"
        said, output = (INCIDENTAL.sub("~", text) for text in (printed, step.output))
        assert ALL_DIGITS.sub("#", said) == ALL_DIGITS.sub("#", output), where
        found, shown = (list(map(float, ALL_DIGITS.findall(text))) for text in (said, output))
        assert found == pytest.approx(shown, rel=1e-9), where


@pytest.mark.parametrize("page", [README, GUIDE, NOISE], ids=lambda page: page.name)
def test_python_examples(page, place, monkeypatch):
    """Every Python block runs, and prints what its ``# ->`` comments say."""
    found = blocks(page, "python")
    assert found, f"{page.name} has no Python example"
    if any(
        re.search(r"np\.load\(|norms_of_file\(", block.text) for block in found
    ):  # the files that the page's commands write
        assert list(run_page(page, monkeypatch))
    for block in found:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, f"{page.name}:{block.line}", "exec"), {})
        said = re.findall(r"# -> (.*)\n", block.text)
        assert printed.getvalue().splitlines() == said, f"{page.name}:{block.line}"


def test_example_budget_is_the_one_shown():
    """The page shows the example file as it is; its tables are those that the README checks."""
    shown = [block.text for block in blocks(CI, "toml")]
    assert (ROOT / "docs" / "examples" / "budget.toml").read_text(encoding="utf-8") == shown[0]


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


def test_examples_are_there():
    """The README shows every command that answers a question, so the example test cannot pass empty."""
    commands = {step.command.split()[1] for block in blocks(README, "console") for step in steps(block.text)}
    assert commands >= {"calibrate", "account", "compare", "plan", "factorize", "inspect", "check"}


def test_examples_can_be_followed_in_one_folder():
    """No example is refused because an earlier one, of this page or another, has written the arrays."""
    written = []
    for page in PAGES:
        for command in (step.command for block in blocks(page, "console") for step in steps(block.text)):
            words = shlex.split(command)
            if words[:2] == ["csgm", "factorize"] and "--output" in words and "--force" not in words:
                written.append(words[words.index("--output") + 1])
    assert len(written) >= 5
    assert sorted(written) == sorted(set(written))


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
            known |= set(option.opts) | {option.envvar}
    for source in SOURCES:
        known |= set(re.findall(r"_?CSGM_[A-Z_]+", source.read_text(encoding="utf-8")))
    assert words(manual()) - known == set()


@pytest.mark.parametrize("code", ExitCode, ids=lambda code: code.name)
def test_exit_codes_are_documented(code):
    """Every exit code has a row in the README and in the guide."""
    for page in (README, GUIDE):
        assert re.search(rf"^\| {code.value} \|", page.read_text(encoding="utf-8"), re.MULTILINE), page.name


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
    assert header[-1] == "csgm_version"


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


def test_the_price_of_compression_in_the_readme():
    """The first example's effective noise beside the Gaussian mechanism's, both by auto, rounded up."""
    text = " ".join(README.read_text(encoding="utf-8").split())
    target = csgm_cli.Target(5, 1e-8)
    sparse = csgm_cli.Mechanism("l2-csgm", 0.01, csgm_cli.Geometry(1000.0))
    effective = csgm_cli.calibrate(sparse, target).effective_noise_multiplier
    plain = csgm_cli.calibrate(csgm_cli.Mechanism("gaussian"), target).noise_multiplier
    percent = math.ceil(1e4 * (effective / plain - 1)) / 100
    plain = math.ceil(1e5 * plain) / 1e5  # shown rounded up
    assert f"needs {plain} (see the next table): here 100x compression costs {percent} % of noise" in text


def in_words(percent: float) -> str:
    """Two digits, as the text has them."""
    return f"{percent:.2g} %"


def test_what_tight_gains_in_the_guide():
    """Its noise beside that of rdp, and its lower bound beside that."""
    text = " ".join(GUIDE.read_text(encoding="utf-8").split())
    mechanism, target = (
        csgm_cli.Mechanism("l2-csgm", 0.01, csgm_cli.Geometry(1000.0)),
        csgm_cli.Target(5, 1e-8),
    )
    tight, rdp = (csgm_cli.calibrate(mechanism, target, name) for name in ("tight", "rdp"))
    noise, lower = tight.noise_multiplier, tight.guarantee.lower_bound
    assert f"than `rdp`: {in_words(100 * (1 - noise / rdp.noise_multiplier))} less" in text
    assert f"can go below, here {in_words(100 * (1 - lower / noise))} further down" in text
    replaced = replace(mechanism, adjacency="replace-one")
    tight, rdp = (csgm_cli.calibrate(replaced, target, name) for name in ("tight", "rdp"))
    less = in_words(100 * (1 - tight.noise_multiplier / rdp.noise_multiplier))
    assert f"and {less} less there under replace-one" in text


def test_what_tight_gains_in_the_theory():
    """Every ratio of the table, to its last digit."""
    table = THEORY.read_text(encoding="utf-8").partition("| eps, delta, k, T |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert len(rows) == 19
    setting = ""
    for first, gamma, over_tight, over_lower in rows:
        setting = first or setting
        epsilon, delta, k, rounds = (float(number.replace("10^", "1e")) for number in setting.split(","))
        mechanism = csgm_cli.Mechanism("l2-csgm", float(gamma), csgm_cli.Geometry(math.sqrt(k)), rounds)
        tight, rdp = (
            csgm_cli.calibrate(mechanism, csgm_cli.Target(epsilon, delta), name) for name in ("tight", "rdp")
        )
        assert f"{rdp.sigma / tight.sigma:.3f}" == over_tight
        digits = len(over_lower) - 2
        assert f"{tight.noise_multiplier / tight.guarantee.lower_bound:.{digits}f}" == over_lower


@pytest.mark.skipif(version("dp-accounting") != "0.6.0", reason="the README speaks of 0.6.0")
def test_figures_of_another_accountant():
    """What the README says of dp-accounting's answers, and of csgm's own beside them, comes out here."""
    text = " ".join(README.read_text(encoding="utf-8").split())
    guess = dp_accounting.LowerEndpointAndGuess
    composed = dp_accounting.calibrate_dp_mechanism(
        RdpAccountant,
        lambda sigma: dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(sigma)), 10**6
        ),
        *(5, 1e-8, guess(1, 12)),
        tol=1e-7,
    )
    ours = csgm_cli.Mechanism("l2-csgm", 0.01, csgm_cli.Geometry(1000.0))
    effective = csgm_cli.calibrate(ours, csgm_cli.Target(5, 1e-8), "rdp").effective_noise_multiplier
    said = f"noise multiplier of {composed / 10:.6f} for the first example, csgm's `rdp` {effective:.6f}."
    assert said in text

    lost = dp_accounting.calibrate_dp_mechanism(
        RdpAccountant, dp_accounting.GaussianDpEvent, 0.01, 1e-8, guess(1e-3, 1), tol=1e-3
    )
    gaussian, target = csgm_cli.Mechanism("gaussian"), csgm_cli.Target(0.01, 1e-8)
    rdp, exact = (csgm_cli.calibrate(gaussian, target, name).sigma for name in ("rdp", "exact"))
    assert f"dp-accounting 0.6.0 returns noise {lost / 1e7:.1f}e7 without a warning" in text
    assert f"csgm returns {rdp:.1f} by RDP and {exact:.1f} by the exact curve" in text

    replaced = {}
    for kind in (RdpAccountant, PLDAccountant):
        accountant = kind(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
        replaced[kind] = accountant.compose(dp_accounting.GaussianDpEvent(1.0)).get_epsilon(1e-6)
    said = f"({replaced[RdpAccountant]:.2f} for noise 1 at delta 1e-6, where its own PLD says"
    assert f"{said} {replaced[PLDAccountant]:.1f})" in text


def test_references_from_the_code():
    """Where the code cites a section of the theory, that section exists."""
    headings = set(re.findall(r"^#+ (.*)$", THEORY.read_text(encoding="utf-8"), re.MULTILINE))
    cited = set()
    for source in SOURCES:
        cited |= set(re.findall(r"docs/theory\.md,\s+\"([^\"]+)\"", source.read_text(encoding="utf-8")))
    assert cited
    assert cited - headings == set()


def test_changelog_has_this_version():
    """The newest release in the changelog is the version of the package."""
    releases = re.findall(
        r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert releases[0] == csgm_cli.__version__


def test_readme_starts_with_the_two_commands():
    """What CI runs as the README's two commands is a calibrate and the tests, each one line."""
    commands = [block.text.strip() for block in blocks(README, "bash")][:2]
    assert all("\n" not in command and "&&" in command for command in commands)
    assert " csgm calibrate " in commands[0].replace("/csgm", " csgm")
    assert commands[1].endswith("-m pytest -q -n auto")


def refresh(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewrite the console outputs of ``page``: ``python tests/test_docs.py`` after a change of wording."""
    outputs: dict[Block, str] = {}
    for block, step, printed in run_page(page, monkeypatch):
        outputs[block] = f"{outputs.get(block, '')}$ {step.command}\n{printed}"
    text = page.read_text(encoding="utf-8")
    for block, output in outputs.items():
        text = text.replace(f"```console\n{block.text}```", f"```console\n{output}```", 1)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in PAGES:
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
            patched.chdir(folder)
            refresh(name, patched)
