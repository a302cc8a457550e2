"""Documents to text, one module per format; a format is imported when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError

if TYPE_CHECKING:
    from csgm_cli.render.document import Document

_MODULES = {"text": "as_text", "json": "as_json", "csv": "as_csv", "markdown": "as_markdown"}

#: The names that ``render`` accepts.
FORMATS = tuple(_MODULES)


@dataclass(frozen=True)
class Terminal:
    """The terminal that text is meant for: its ``width`` in columns, and whether to use ``colour``."""

    width: int
    colour: bool


def render(document: Document, format: str, *, terminal: Terminal | None = None) -> str:  # noqa: A002 - its name everywhere
    """Return ``document`` in one of ``FORMATS``, ending in one newline.

    ``terminal``: where stdout is one, so that text may be laid out for it; other formats, and text
    for a pipe or a file (None), have the same bytes everywhere. ``UsageError`` for another format.
    """
    if format not in _MODULES:
        raise UsageError("unknown-choice", f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    text: str
    if format == "text" and terminal is not None:
        from csgm_cli.render.terminal import render_for

        text = render_for(document, terminal)
    else:
        text = import_module(f"csgm_cli.render.{_MODULES[format]}").render(document)
    return text


def value(document: Document) -> str:
    """Return the one number of a calibrate, account, plan or factorize document, and a newline.

    Round-trip digits: calibrate's noise multiplier; account's epsilon, or delta where an epsilon was
    asked about; plan's gamma; factorize's objective. ``UsageError`` for any other document, and for several
    deltas or strategies.
    """
    command = document["schema"].split("/")[1]
    asked_epsilon = document["inputs"].get("epsilon") is not None
    keys = {
        "calibrate": "noise_multiplier",
        "account": "delta" if asked_epsilon else "epsilon",
        "plan": "gamma",
        "factorize": f"{document['inputs'].get('objective')}_squared_error",
    }
    number = document["result"].get(keys.get(command, ""))
    if number is None:
        raise UsageError("no-single-value", f"this {command} result is not one number", "use --format json")
    return f"{number!r}\n"
