"""Names of files and text in them, on their way to stdout and stderr of the whole program."""

import json
from pathlib import Path

import pytest

from csgm_cli.render import CHECK_FORMATS
from tests.cli.budgets import NEW, OLD

ESCAPES = "\x1b[31m\x9b\x7f"


@pytest.mark.parametrize("form", CHECK_FORMATS)
@pytest.mark.parametrize("name", [f"{ESCAPES}.toml", "a\n::error::forged.toml", "=1+1.toml"])
def test_names_of_budgets(csgm, place, form, name):
    """A budget, the earlier one and a missing one: nothing but printable characters and line ends."""
    reason = '"' + "\\u001b[31m\\n::error::forged" + '"'
    Path(name).write_text(
        NEW + f"[population.phones.release.last]\nsigma = 9\nmechanism = 'gaussian'\nowner = {reason}\n"
    )
    Path(f"old{name}").write_text(OLD)
    for words in ((name,), (name, "--diff", f"old{name}"), (f"missing{name}",)):
        outcome = csgm("check", *words, "--format", form)
        assert outcome.stdout + outcome.stderr
        for text in (outcome.stdout, outcome.stderr):
            assert all(character == "\n" or character.isprintable() for character in text)
            forged = [line for line in text.splitlines() if line.startswith("::error::")]
            assert not forged


def test_names_of_a_configured_file_and_a_result(csgm, place):
    """What --config and --from name is quoted in errors and in --show-inputs."""
    Path(ESCAPES).write_text("[tool.csgm]\nepsilon = 'x'\n")
    Path(f"{ESCAPES}.json").write_text(json.dumps({"schema": ESCAPES}))
    for words in (
        ("calibrate", "--config", ESCAPES),
        ("account", "--from", f"{ESCAPES}.json", "--show-inputs"),
        ("account", "--from", ESCAPES),
        ("inspect", ESCAPES),
        ("calibrate", f"--{ESCAPES}"),
        (ESCAPES,),
    ):
        outcome = csgm(*words)
        assert outcome.status in (2, 4)
        assert all(character == "\n" or character.isprintable() for character in outcome.stderr)
