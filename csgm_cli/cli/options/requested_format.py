"""Which format the caller asked for, found without parsing: parsing may be what failed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from csgm_cli.cli.options.sources import variable_of
from csgm_cli.cli.root import REGISTRY
from csgm_cli.errors import CsgmError
from csgm_cli.storage.config import find_config, read_settings

if TYPE_CHECKING:
    from collections.abc import Sequence


def requested_format(arguments: Sequence[str]) -> str:
    """Return the format by flag, variable or config file; ``text`` where none or nothing readable says.

    Or where it is one that only another command has.
    """
    form = _asked_for(arguments)
    return "text" if form in ("github", "junit") and _command(arguments) != "check" else form


def _asked_for(arguments: Sequence[str]) -> str:
    if (flag := _value_of("--format", arguments)) is not None:
        return flag
    if "--value" in arguments:
        return "text"
    return os.environ.get(variable_of("format")) or _configured(arguments) or "text"


def _value_of(flag: str, arguments: Sequence[str]) -> str | None:
    value = None
    for position, argument in enumerate(arguments):
        if argument == flag:
            value = next(iter(arguments[position + 1 :]), None)
        elif argument.startswith(f"{flag}="):
            value = argument.removeprefix(f"{flag}=")
    return value


def _configured(arguments: Sequence[str]) -> str | None:
    named = _value_of("--config", arguments) or os.environ.get(variable_of("config"))
    try:
        path = Path(named) if named else find_config()
        setting = read_settings(path, _command(arguments), REGISTRY).get("format") if path else None
    except (CsgmError, OSError):
        return None
    return str(setting.value) if setting else None


def _command(arguments: Sequence[str]) -> str:
    return next((argument for argument in arguments if argument in REGISTRY), "")
