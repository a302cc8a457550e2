"""Hints for a command line with a missing or out-of-range value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from csgm_cli.cli.options.parameter_types import Switch, swapped_as_written
from csgm_cli.cli.options.request import Request
from csgm_cli.cli.options.sources import config_of, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from csgm_cli.errors import UsageError

#: What click has for the default of an option without one.
_NO_DEFAULT = click.Option(["--none"]).default
#: Slugs of errors about missing inputs.
_MISSING = ("missing-option", "missing-norm-ratio")


def as_written(ctx: click.Context, given: Mapping[str, Any]) -> Request:
    """Return each option's value as it was written, unread; ``given`` are those of the flags.

    For where reading ended at the first that was wrong, and the others are of interest.
    """
    values, sources = {}, {}
    for param in ctx.command.params:
        if param.name is None or not param.expose_value:
            continue
        value, source = param.consume_value(ctx, given)
        ctx.set_parameter_source(param.name, source)
        sources[param.name] = source_of(ctx, param)
        unset = source is ParameterSource.DEFAULT and (value is _NO_DEFAULT or value is None)
        values[param.name] = None if unset else tuple(value) if isinstance(value, list) else value
    return Request(values, sources)


def asks_to_show(request: Request) -> bool:
    """Say whether the inputs, as they were written, include --show-inputs."""
    value = request["show_inputs"]
    return isinstance(value, str | bool) and Switch.str_to_bool(value) is True


def naming_config(error: UsageError, ctx: click.Context) -> UsageError:
    """Return the error of a missing option with the config file that was read, if one was."""
    path = config_of(ctx)
    if path is None or error.slug not in _MISSING:
        return error
    read = f"the config file that was read is {path}"
    return error.reworded(error.message, f"{error.hint}; {read}" if error.hint else read)


def hinting_at_swap(error: UsageError, request: Request) -> UsageError:
    """Return the error of an epsilon or delta out of range with the hint that the two seem swapped."""
    for name in ("epsilon", "max_epsilon"):
        labels = [request.sources[key].label for key in (name, "delta") if request[key] is not None]
        if error.slug != "out-of-range" or not error.message.startswith(tuple(f"{x} must" for x in labels)):
            continue
        deltas = request["delta"] if isinstance(request["delta"], tuple) else [request["delta"]]
        if hint := next(filter(None, (swapped_as_written(request[name], delta) for delta in deltas)), ""):
            return error.reworded(error.message, hint)
    return error
