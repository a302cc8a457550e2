"""The pages of the documentation, and their examples: read, run, and rewritten after a change of wording.

``python -m tests.docs.pages`` rewrites the console outputs of every page.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from csgm_cli.cli import main

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide.md"
NOISE = ROOT / "docs" / "noise.md"
RUN = ROOT / "docs" / "run.md"
CI = ROOT / "docs" / "ci.md"
JSON_DOC = ROOT / "docs" / "json.md"
THEORY = ROOT / "docs" / "theory.md"
DP_SGD = ROOT / "docs" / "dp-sgd.md"
COMPARISON = ROOT / "docs" / "comparison.md"
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


def refresh(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewrite the console outputs of ``page``."""
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
