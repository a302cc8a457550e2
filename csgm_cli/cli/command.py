"""The class of every csgm command: config file, precedence, help with headings and examples."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csgm_cli.cli import console
from csgm_cli.cli.options.definitions import CONFIGURABLE, SEARCHABLE, Option
from csgm_cli.cli.options.file_conflicts import check_places
from csgm_cli.cli.options.missing import Need, check_complete
from csgm_cli.cli.options.parameter_types import File, Number, Switch, several_values, unquoted
from csgm_cli.cli.options.request import EXCLUSIVES, Exclusive, Request, request_of
from csgm_cli.cli.options.sources import (
    DEBUG_VARIABLE,
    Rank,
    config_of,
    flag_of,
    keep_config,
    keep_settings,
    variable_of,
)
from csgm_cli.cli.options.usage_hints import as_written, asks_to_show, hinting_at_swap, naming_config
from csgm_cli.cli.root import REGISTRY, Helped
from csgm_cli.errors import StorageError, UsageError, shown
from csgm_cli.ranges import FORMER_NAMES
from csgm_cli.storage.config import TooSmall, check_keys, check_searched, find_config, read_settings
from csgm_cli.storage.memory import check_libraries_fit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from csgm_cli.cli.exits import ExitCode
    from csgm_cli.cli.options.sources import Source
from csgm_cli.storage.config import Setting

#: Of an example, beside its indent.
_EXAMPLE_WIDTH = 78


class Command(Helped):
    """A command whose body takes a ``Request`` and returns an ``ExitCode``.

    ``needs``: the inputs without which there is no answer, so that one message names all that are missing.
    ``complete``: puts in place what a file says that the request names.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Request], ExitCode],
        *,
        help: str,  # noqa: A002 - click's name for it
        options: Sequence[click.Parameter],
        examples: Sequence[str],
        exclusives: Sequence[Exclusive] = (),
        needs: Sequence[Need] = (),
        complete: Callable[[Request], Request] | None = None,
    ) -> None:
        super().__init__(name, params=list(options), help=help)
        self.run = run
        self.complete = complete
        self.examples = tuple(examples)
        self.exclusives = (*EXCLUSIVES, *exclusives)
        self.needs = tuple(needs)
        for param in self.params:
            if param.name == "config":
                param.is_eager, param.expose_value, param.callback = True, False, _load_config

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, and refuse an option given twice where only the last one would count."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        asks_help = bool(set(ctx.help_option_names) & set(args))
        if not asks_help:
            _warn_of_strange_variables()
        try:
            given, rest, order = self.make_parser(ctx).parse_args(args=list(args))
        except click.UsageError as error:
            error.ctx = ctx  # for the hint: click's parser leaves it out where a value is missing
            raise
        if not asks_help:
            _refuse_flags_as_values(given, self.params)
        _refuse_repeated(order)
        if rest and not asks_help and all(isinstance(param, Option) for param in self.params):
            hint = f"all values are options: {self.examples[0]}"
            raise UsageError("usage", f"got an unexpected argument {shown(rest[0])}", hint)
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter:
            if asks_to_show(written := as_written(ctx, given)):
                _show(written, written)
            self._check_complete(written, ctx)
            raise
        except UsageError as error:
            raise hinting_at_swap(error, as_written(ctx, given)) from None

    def invoke(self, ctx: click.Context) -> ExitCode:
        """Run the command."""
        check_libraries_fit()
        asked = request_of(ctx, self.exclusives)
        console.be_quiet(quiet=bool(asked["quiet"]))
        request = asked if self.complete is None else self.complete(asked)
        config = config_of(ctx)
        check_places(request, [] if config is None else [config])
        if request["show_inputs"]:
            from csgm_cli.cli.inputs.mechanisms import with_derived

            _show(Request(ctx.params, asked.sources), with_derived(request))
        self._check_complete(request, ctx)
        try:
            return self.run(request)
        except UsageError as error:
            raise naming_config(error, ctx) from None

    def _check_complete(self, request: Request, ctx: click.Context) -> None:
        try:
            check_complete(request, self.needs, self.name or "", self.examples)
        except UsageError as error:
            raise naming_config(error, ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings they belong to."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and param.param_type_name == "option":  # arguments are in the usage line
                sections.setdefault(getattr(param, "section", "Output"), []).append(record)
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the examples so that they can be copied: lines end with a backslash where they are broken."""
        with formatter.section("Examples"):
            for example in self.examples:
                for line in _folded(example, _EXAMPLE_WIDTH):
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def _folded(command: str, width: int) -> list[str]:
    """``command`` as lines of at most ``width`` columns for a shell, broken before options."""
    first, *options = command.replace(" --", "\n--").splitlines()
    lines = [first]
    for option in options:
        if len(f"{lines[-1]} {option} \\") <= width:
            lines[-1] += f" {option}"
        else:
            lines[-1] += " \\"
            lines.append(f"  {option}")
    return lines


def _warn_of_strange_variables() -> None:
    """Warn of environment variables CSGM_... that set no option; a misspelt one would be ignored silently."""
    prefix, names = variable_of(""), [*CONFIGURABLE, "config", *FORMER_NAMES]
    known = {DEBUG_VARIABLE, *map(variable_of, names)}
    for variable in sorted(os.environ):
        if variable.startswith(prefix) and variable not in known:
            from csgm_cli.hints import close_words, meant

            close = [variable_of(name) for name in close_words(variable.removeprefix(prefix).lower(), names)]
            console.warning("unknown-variable", f"unrecognised environment variable {variable}{meant(close)}")


def _refuse_flags_as_values(given: Mapping[str, Any], params: Sequence[click.Parameter]) -> None:
    """Refuse a flag in the place of a value, as after ``--epsilon --delta 1e-8``."""
    flags = {flag for param in params for flag in param.opts if flag.startswith("--")}
    for param in params:
        for value in _each(given.get(param.name or "")):
            if isinstance(param, Option) and value in flags:
                hint = f"a file of that name: ./{value}" if isinstance(param.type, File) else ""
                message = f"{param.opts[0]} needs a value, and {value} after it is an option"
                raise UsageError("usage", message, hint)


def _each(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value]


def _refuse_repeated(order: Sequence[click.Parameter]) -> None:
    for param in order:
        if isinstance(param, Option) and not param.multiple and order.count(param) > 1:
            raise _repeated(param.name or "")


def _repeated(name: str) -> UsageError:
    return UsageError(
        "repeated-option", f"{flag_of(name)} may be given once here", several_values(name, "A,B")
    )


def _load_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:  # noqa: ARG001 - click's signature
    if ctx.resilient_parsing:  # completion: a broken config file must not stop it
        return
    if value == "":
        raise StorageError("cannot-read", "cannot read '': no file is named")
    path = Path(value) if value is not None else find_config()
    if path is None:
        return
    command = ctx.command
    settings = read_settings(path, command.name or "", REGISTRY)
    settings = {name: replace(setting, searched=value is None) for name, setting in settings.items()}
    keep_config(ctx, path)
    own = {param.name for param in command.params if param.name} & CONFIGURABLE
    check_keys(settings.values(), own, CONFIGURABLE)
    check_searched(settings.values(), SEARCHABLE)
    by_name = {param.name: param for param in command.params}
    mine = {name: setting for name, setting in settings.items() if name in own}
    keep_settings(ctx, {name: _typed(setting, by_name[name]) for name, setting in mine.items()})


def _typed(setting: Setting, param: click.Parameter) -> Setting:
    """Return the setting in the shape that ``param`` takes; ``UsageError`` for a wrong TOML type."""
    kind, wanted = _toml_kind(param)
    several = param.multiple and isinstance(setting.value, list)
    values = setting.value if several else [setting.value]
    if not all(isinstance(value, kind) and isinstance(value, bool) == (kind is bool) for value in values):
        hint = unquoted(setting.value) if isinstance(param.type, Number) else ""
        raise UsageError("wrong-type", f"{setting.label} must be {wanted}, got {shown(setting.value)}", hint)
    return setting if not param.multiple else replace(setting, value=values)


def _toml_kind(param: click.Parameter) -> tuple[Any, str]:
    if isinstance(param.type, Number):
        return int | float | TooSmall, "a number"
    return (bool, "true or false") if isinstance(param.type, Switch) else (str, "a string")


def _show(parsed: Request, used: Request) -> None:
    """Print each value and its source on stderr, and values overridden by a stronger source."""
    for name, source in parsed.sources.items():
        if name in parsed.values:
            console.note(_shown(name, (parsed[name], source), (used[name], used.sources[name])))


def _shown(name: str, parsed: tuple[Any, Source], used: tuple[Any, Source]) -> str:
    value, source = used
    if parsed[0] in (None, ()) and value in (None, ()):
        return f"{name} is not given"
    if value in (None, ()):
        return f"{name} = {_words(parsed[0])}  ({parsed[1]}, set aside)"
    if source != parsed[1] and parsed[1].rank > Rank.DEFAULT:
        return f"{name} = {_words(value)}  ({source}; {_words(parsed[0])} of {parsed[1]} is set aside)"
    return f"{name} = {_words(value)}  ({source})"


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
