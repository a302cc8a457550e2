"""Every example of the documentation runs, and prints what its page shows."""

import contextlib
import io
import re
import shlex

import pytest

from tests.docs.pages import CI, GUIDE, NOISE, PAGES, README, ROOT, blocks, run_page, steps

#: A number with all its digits, or a difference of two: the last ones depend on float64 libraries.
ALL_DIGITS = re.compile(r"\b\d+\.\d{9,}(?:e-?\d+)?\b|(?<=relative difference )\d\.\de[+-]\d+")

#: How long it took, differences of the size of rounding, and the version that made a saved number.
INCIDENTAL = re.compile(r"(?<= in )\d\S* s\b|\b\d\.\d+e-1\d\b|(?<=\()(?:csgm|numbers version) [\w.]+(?=\))")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples(page, place, monkeypatch):
    """Every command prints what the page shows, to the byte, and numbers with all digits to 1e-9."""
    for block, step, printed in run_page(page, monkeypatch):
        where = f"{page.name}:{block.line}: {step.command}"
        said, output = (INCIDENTAL.sub("~", text) for text in (printed, step.output))
        assert ALL_DIGITS.sub("#", said) == ALL_DIGITS.sub("#", output), where
        found, shown = (list(map(float, ALL_DIGITS.findall(text))) for text in (said, output))
        assert found == pytest.approx(shown, rel=1e-9), where
    check_python_examples(page)  # they read files that the commands have written


def check_python_examples(page):
    """Every Python block of the page runs, and prints what its ``# ->`` comments say."""
    for block in blocks(page, "python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, f"{page.name}:{block.line}", "exec"), {})
        said = re.findall(r"# -> (.*)\n", block.text)
        assert printed.getvalue().splitlines() == said, f"{page.name}:{block.line}"


def test_example_budget_is_the_one_shown():
    """The page shows the example file as it is; its tables are those that the README checks."""
    shown = [block.text for block in blocks(CI, "toml")]
    assert (ROOT / "docs" / "examples" / "budget.toml").read_text(encoding="utf-8") == shown[0]


def test_examples_are_there():
    """README and guide show every command that answers a question, so the example test cannot pass empty."""
    assert all(blocks(page, "python") for page in (README, GUIDE, NOISE))
    shown = [*blocks(README, "console"), *blocks(GUIDE, "console")]
    commands = {step.command.split()[1] for block in shown for step in steps(block.text)}
    assert commands >= {"calibrate", "account", "compare", "plan", "factorize", "inspect", "check"}


def test_examples_can_be_followed_in_one_folder():
    """No example is refused because an earlier one, of this page or another, has written the arrays."""
    written = []
    for page in PAGES:
        for command in (step.command for block in blocks(page, "console") for step in steps(block.text)):
            words = shlex.split(command)
            if words[:2] == ["csgm", "factorize"] and "--output" in words and "--force" not in words:
                written.append(words[words.index("--output") + 1])
    assert len(written) >= 4
    assert sorted(written) == sorted(set(written))


def test_readme_starts_with_the_two_commands():
    """What CI runs as the README's two commands is a calibrate and the tests, each one line."""
    commands = [block.text.strip() for block in blocks(README, "bash")][:2]
    assert all("\n" not in command and "&&" in command for command in commands)
    assert " csgm calibrate " in commands[0].replace("/csgm", " csgm")
    assert commands[1].endswith("-m pytest -q -n auto")
