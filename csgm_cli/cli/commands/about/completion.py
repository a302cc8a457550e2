"""``csgm completion``: the scripts that let a shell complete csgm's commands and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from csgm_cli.cli import console
from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.options.parameter_types import Choice
from csgm_cli.cli.shell_completion import SHELLS, script

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request


def run(request: Request) -> ExitCode:
    """Print the script."""
    console.write(script(request["shell"]))
    return ExitCode.OK


command = Command(
    "completion",
    run,
    help="""Print a shell completion script.

    Bash: add `eval "$(csgm completion bash)"` to ~/.bashrc. Zsh: save it as _csgm in a folder of fpath.
    Fish: save it as ~/.config/fish/completions/csgm.fish. PowerShell: add
    `csgm completion powershell | Out-String | Invoke-Expression` to $PROFILE.""",
    options=[click.Argument(["shell"], type=Choice(SHELLS))],
    examples=("csgm completion bash", "csgm completion fish"),
)
