"""Completion in bash, zsh, fish and PowerShell: the scripts, and the answers that the scripts ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.cli import console
from csgm_cli.cli.root import COMPLETE_VARIABLE, root
from csgm_cli.errors import UsageError, shown

if TYPE_CHECKING:
    from click.shell_completion import ShellComplete

SHELLS = ("bash", "zsh", "fish", "powershell")


def script(shell: str) -> str:
    """Return the completion script of ``shell``; ``UsageError`` if this click has none for it."""
    shell_complete = _shell(shell)
    # Not source(): for bash that starts bash to look at its version.
    return shell_complete.source_template % shell_complete.source_vars()


def complete(instruction: str) -> None:
    """Answer a shell that asks, by ``bash_complete`` and the like, how its line may go on.

    ``UsageError`` (slug ``completion-request``) where the variables do not say what shells say.
    """
    shell, _, wanted = instruction.partition("_")
    if shell not in SHELLS or wanted != "complete":
        message = f"{COMPLETE_VARIABLE} must be one of {', '.join(f'{name}_complete' for name in SHELLS)}"
        raise UsageError("completion-request", f"{message}, got {shown(instruction)}")
    try:
        answer = _shell(shell).complete()
    except (KeyError, ValueError):  # ValueError: COMP_CWORD is no number, or a quote is not closed
        message = f"{COMPLETE_VARIABLE} needs a shell's COMP_WORDS and COMP_CWORD"
        raise UsageError("completion-request", message) from None
    console.write(f"{answer}\n")


def _shell(name: str) -> ShellComplete:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(name)
    if kind is None:
        raise UsageError("missing-extra", f"completion in {name} needs click 8.5: pip install 'click>=8.5'")
    return kind(root, {}, "csgm", COMPLETE_VARIABLE)
