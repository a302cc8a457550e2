"""Exit codes, and click's exceptions translated to csgm's errors."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

import click

from csgm_cli.cli.root import REGISTRY, root
from csgm_cli.errors import CsgmError, StorageError, UsageError

#: Options of factorize that the argument of ``--factorization`` has inside.
_SAID_BY_FACTORIZATION = ("--T", "--strategy")
#: Names of options in other tools, where the spelling differs, and what they may stand for.
_OTHER_NAMES = {
    **dict.fromkeys(("clients", "num-clients", "n-clients"), ("population-size", "cohort-size")),
    **dict.fromkeys(("steps", "iterations", "compositions"), ("rounds",)),
    **dict.fromkeys(("clip", "clip-norm", "clipping-norm", "max-grad-norm", "sensitivity"), ("l2-norm",)),
    **dict.fromkeys(("std", "noise-std"), ("sigma",)),
    "noise": ("noise-multiplier",),
    **dict.fromkeys(("json", "csv", "markdown"), ("format",)),
}


E = TypeVar("E", bound=CsgmError)


class ExitCode(IntEnum):
    """Exit codes of the process; each has one meaning."""

    OK = 0
    CLAIM_FAILED = 1
    USAGE = 2
    NO_ANSWER = 3
    IO = 4
    BUG = 70
    INTERRUPTED = 130
    CLOSED_PIPE = 141


def as_csgm_error(error: Exception) -> CsgmError:
    """Return the csgm error for ``error``, and its exit code."""
    match error:
        case CsgmError():
            return _with_flags(error)
        case click.ClickException():
            return _from_click(error)
        case OSError():
            return StorageError("io", str(error))
        case MemoryError():
            return UsageError("too-large", "this does not fit into memory")
        case _:
            what = f"unexpected error: {type(error).__name__}: {error}"
            hint = (
                "report it with the command line and the output of 'csgm version'; CSGM_DEBUG=1 shows where"
            )
            return CsgmError("bug", what, hint)


def _with_flags(error: E) -> E:
    """Return the error with the inputs in its hint spelled as flags."""
    if "`" not in error.hint:
        return error
    from csgm_cli.cli.options.definitions import CONFIGURABLE
    from csgm_cli.cli.options.sources import flag_of
    from csgm_cli.hints import spelled

    hint = spelled(error.hint, {name: flag_of(name) for name in CONFIGURABLE})
    return error.reworded(error.message, hint)


def _from_click(error: click.ClickException) -> CsgmError:
    match error:
        case click.FileError():
            return StorageError("io", error.format_message())
        case click.exceptions.NoArgsIsHelpError():
            return UsageError("missing-command", "no command was given", f"one of {', '.join(REGISTRY)}")
        case click.exceptions.NoSuchCommand():
            return _unknown_command(error)
        case click.NoSuchOption():
            return _unknown_option(error)
        case click.MissingParameter():
            return _missing(error)
        case _:
            return UsageError("usage", error.format_message(), _help_hint(error))


def _missing(error: click.MissingParameter) -> UsageError:
    from csgm_cli.cli.options.usage_hints import naming_config

    examples = getattr(error.ctx.command, "examples", ()) if error.ctx else ()
    hint = _help_hint(error)
    if isinstance(error.param, click.Argument) and examples:
        hint = f"for example {examples[0]}; {hint}"
    found = UsageError("missing-option", f"{_name(error.param)} is required", hint)
    return naming_config(found, error.ctx) if error.ctx else found


def _name(param: click.Parameter | None) -> str:
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return "an argument" if param is None else param.human_readable_name


def _unknown_command(error: click.exceptions.NoSuchCommand) -> UsageError:
    from csgm_cli.hints import did_you_mean

    message = f"no such command: {error.command_name}{did_you_mean(error.command_name, REGISTRY)}"
    return UsageError("unknown-command", message, _help_hint(error))


def _unknown_option(error: click.NoSuchOption) -> UsageError:
    """Suggest the command that has this option, before options of similar spelling."""
    from csgm_cli.hints import instead_of_sampling

    message = f"no such option: {error.option_name}"
    word = error.option_name.lstrip("-").replace("_", "-")
    flags = [f"--{name}" for name in _OTHER_NAMES.get(word, (word,))]
    flag = flags[0]
    meant = _option_meant(flags, error.ctx) if error.ctx else ""
    owners = [name for name in REGISTRY if _has_option(name, flag)]
    if error.ctx and error.ctx.parent is None:
        hint = f"options follow the command: csgm COMMAND {flag if owners else '--option'}"
        return UsageError("unknown-option", message + ("" if owners else meant), hint)
    if not owners and (instead := instead_of_sampling(word)):
        return _with_flags(UsageError("unknown-option", message, instead))
    if not owners or (error.ctx and error.ctx.command.name in owners):
        return UsageError("unknown-option", message + meant, _help_hint(error))
    *others, last = owners
    listed = f"{', '.join(others)} and {last}" if others else last
    hint = f"{flag} is an option of csgm {listed}"
    if flag in _SAID_BY_FACTORIZATION and error.ctx and _takes_factorization(error.ctx.command):
        hint += "; here: --factorization STRATEGY:T, such as optimal:32"
    return UsageError("unknown-option", message, f"{hint}; {_help_hint(error)}")


def _takes_factorization(command: click.Command) -> bool:
    return any("--factorization" in param.opts for param in command.params)


def _option_meant(flags: list[str], context: click.Context) -> str:
    """Compare options without their dashes, which would make all of them similar."""
    from csgm_cli.hints import close_words, meant

    names = [*context.help_option_names, *(name for param in context.command.params for name in param.opts)]
    if known := [flag for flag in flags if flag in names]:
        return meant(known)
    words = {name.lstrip("-"): name for name in names}
    return meant([words[name] for name in close_words(flags[0].lstrip("-"), words)])


def _has_option(name: str, option: str) -> bool:
    command = root.get_command(click.Context(root), name)
    return command is not None and any(option in param.opts for param in command.params)


def _help_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)  # usage errors have one
    return f"{context.command_path if context else 'csgm'} --help"
