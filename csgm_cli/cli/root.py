"""The root group: a registry of commands whose modules are imported when they are run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from csgm_cli.cli import console
from csgm_cli.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: The variable through which a shell asks for completions.
COMPLETE_VARIABLE = "_CSGM_COMPLETE"

#: Name -> what the command does. Help and completion need nothing else.
REGISTRY: dict[str, str] = {
    "calibrate": "Find the smallest noise that meets (epsilon, delta).",
    "account": "Find the epsilon or delta that a given noise guarantees.",
    "compare": "Compare mechanisms at one target.",
    "plan": "Find the strongest compression within an allowed overhead.",
    "sweep": "Calibrate or account over a grid of parameters.",
    "check": "Check releases against their privacy limits.",
    "factorize": "Optimize correlated noise, with a certificate.",
    "inspect": "Recompute every claim of a factorization file.",
    "simulate": "Compare simulated errors with the formulas, or train a model.",
    "selftest": "Recompute reference values on this machine.",
    "completion": "Print a shell completion script.",
    "help": "Show the help of a command.",
    "version": "Print the versions of csgm and its libraries.",
}
#: Commands about csgm itself, in a folder of their own.
_ABOUT = ("completion", "help", "version")

_EPILOG = """\
\b
Examples:
  csgm calibrate --epsilon 5 --delta 1e-8 --gamma 0.01 --norm-ratio 1000
  csgm plan --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 \\
    --max-mse-overhead 0.05

\b
Exit codes:
  0    the answer was printed
  1    a checked claim does not hold
  2    a wrong option, config file or input file
  3    no answer meets the target, or none could be certified
  4    a file could not be read or written
  70   a bug in csgm
  130  interrupted
  141  the reader of the output closed the pipe

Every option can also come from the environment (CSGM_EPSILON for --epsilon) or from [tool.csgm] and
[tool.csgm.COMMAND] in csgm.toml or pyproject.toml.
"""


class Helped(click.Command):
    """A command whose help goes to stdout the way results do, so that a full disk is noticed."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return click's option; only the writing is csgm's."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option


def _show_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 - click's signature
    if value and not ctx.resilient_parsing:
        console.write(f"{ctx.get_help()}\n")
        ctx.exit()


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 - click's signature
    if value and not ctx.resilient_parsing:
        console.write(f"csgm {__version__}\n")
        ctx.exit()


class LazyGroup(Helped, click.Group):
    """A group that knows its commands by the registry and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the command names in the order of the registry."""
        return list(REGISTRY)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import and return a command; None for an unknown name."""
        if cmd_name not in REGISTRY:
            return None
        folder = "about." if cmd_name in _ABOUT else ""
        command: click.Command = import_module(f"csgm_cli.cli.commands.{folder}{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the registry's lines; no command is imported for them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(REGISTRY.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names from the registry, and the group's own options."""
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=help_line)
            for name, help_line in REGISTRY.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


root = LazyGroup(
    "csgm",
    help="Calibrate Gaussian noise for clients that send only some coordinates.",
    epilog=_EPILOG,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            help="Show the version and exit.",
            callback=_show_version,
        )
    ],
)
