"""Where an option's value came from: flag > environment > command's table > shared table > default."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from csgm_cli.storage.config import Setting


#: The one variable that is no option's: a bug then shows its traceback.
DEBUG_VARIABLE = "CSGM_DEBUG"


class Rank(IntEnum):
    """How strong a source is; the stronger of two sources wins."""

    DEFAULT = 0
    CONFIG = 1
    COMMAND_CONFIG = 2
    ENVIRONMENT = 3
    FLAG = 4


@dataclass(frozen=True)
class Source:
    """A source by its strength and by the name it has in messages (flag, variable, or key and file).

    ``searched``: it is a config file that nobody named.
    """

    rank: Rank
    label: str
    searched: bool = False

    def __str__(self) -> str:
        kind = {Rank.FLAG: "flag ", Rank.ENVIRONMENT: "env ", Rank.DEFAULT: ""}.get(self.rank, "config ")
        return f"{kind}{self.label}"


def variable_of(name: str) -> str:
    """Return the environment variable of the option ``name``."""
    return f"CSGM_{name.upper()}"


def flag_of(name: str) -> str:
    """Return the flag of the option ``name``."""
    return f"--{name.replace('_', '-')}"


def keep_config(ctx: click.Context, path: Path) -> None:
    """Remember which config file was read."""
    ctx.meta[f"{__name__}.config"] = str(path)


def config_of(ctx: click.Context) -> str | None:
    """Return the name of the config file that was read; None where none was."""
    found: str | None = ctx.meta.get(f"{__name__}.config")
    return found


def keep_settings(ctx: click.Context, settings: Mapping[str, Setting]) -> None:
    """Make the config file's settings the defaults of the command being parsed."""
    ctx.meta[__name__] = settings
    ctx.default_map = {name: setting.value for name, setting in settings.items()}


def source_of(ctx: click.Context | None, param: click.Parameter | None) -> Source:
    """Return where the value of ``param`` comes from."""
    if ctx is None or param is None or param.name is None:
        return Source(Rank.FLAG, "the value")
    match ctx.get_parameter_source(param.name):
        case ParameterSource.COMMANDLINE:
            is_option = isinstance(param, click.Option)
            return Source(Rank.FLAG, flag_of(param.name) if is_option else param.human_readable_name)
        case ParameterSource.ENVIRONMENT:
            variables = [param.envvar] if isinstance(param.envvar, str) else param.envvar or ()
            return Source(Rank.ENVIRONMENT, next(filter(os.environ.get, variables)))
        case ParameterSource.DEFAULT_MAP:
            setting: Setting = ctx.meta[__name__][param.name]
            rank = Rank.COMMAND_CONFIG if setting.specific else Rank.CONFIG
            return Source(rank, setting.label, setting.searched)
        case _:
            return Source(Rank.DEFAULT, "default")
