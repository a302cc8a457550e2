"""``csgm help``: the help of csgm or of one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from csgm_cli.cli import console
from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.options.parameter_types import Choice
from csgm_cli.cli.root import REGISTRY, root

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request


def run(request: Request) -> ExitCode:
    """Print what ``csgm --help`` or ``csgm COMMAND --help`` prints."""
    context = click.Context(root, info_name="csgm", **root.context_settings)
    if request["command"] is not None:
        named = root.get_command(context, request["command"])
        assert named is not None  # it is one of REGISTRY
        context = click.Context(named, parent=context, info_name=named.name)
    console.write(f"{context.get_help()}\n")
    return ExitCode.OK


command = Command(
    "help",
    run,
    help="""Show the help of a command.

    The same as csgm COMMAND --help; without a COMMAND, the same as csgm --help.""",
    options=[click.Argument(["command"], required=False, type=Choice(list(REGISTRY)), metavar="[COMMAND]")],
    examples=("csgm help", "csgm help calibrate"),
)
