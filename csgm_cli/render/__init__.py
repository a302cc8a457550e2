"""Documents to text, one module per format; a format is imported when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from csgm_cli.errors import UsageError

if TYPE_CHECKING:
    from csgm_cli.errors import CsgmError
    from csgm_cli.render.document import Document
    from csgm_cli.render.terminal import Terminal

_MODULES = {
    "text": "as_text",
    "json": "as_json",
    "csv": "as_csv",
    "markdown": "as_markdown",
    "jsonl": "as_jsonl",
    "github": "as_github",
    "junit": "as_junit",
}

#: The names that ``render`` accepts for every document.
FORMATS = ("text", "json", "csv", "markdown")
#: Those of a sweep that need no more than one row at a time.
ROW_FORMATS = ("csv", "jsonl")
#: Those that it accepts for a sweep: the only document that consists of rows alone.
SWEEP_FORMATS = (*FORMATS, "jsonl")
#: Those that it accepts for the check of a budget.
CHECK_FORMATS = (*FORMATS, "github", "junit")
#: Those that hold an error, too.
ERROR_FORMATS = ("json", "github", "junit")


def render(
    document: Document,
    format: str,  # noqa: A002 - its name everywhere
    *,
    terminal: Terminal | None = None,
    statement: bool = False,
) -> str:
    """Return ``document`` in one of ``FORMATS``, a sweep or a check in one of its own, ending in one newline.

    ``terminal``: where stdout is one, so that text may be laid out for it; other formats, and text
    for a pipe or a file (None), have the same bytes everywhere. ``statement``: whether text and markdown
    include the publishable paragraph. ``UsageError`` for another format.
    """
    if format not in _MODULES:
        raise UsageError("unknown-choice", f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    text: str
    if format == "text" and terminal is not None:
        from csgm_cli.render.formats.as_terminal import render_for

        text = render_for(document, terminal, statement=statement)
    else:
        options = {"statement": statement} if format in ("text", "markdown") else {}
        text = import_module(f"csgm_cli.render.formats.{_MODULES[format]}").render(document, **options)
    return text


class RowFormat(Protocol):
    """A format that is written row by row."""

    def header(self, row: Document) -> str:
        """Return what stands above the rows that are like ``row``."""

    def line(self, row: Document) -> str:
        """Return one row as a line."""

    def start(self, row: Document) -> str:
        """Return how the line of a row starts whose first keys are those of ``row``."""

    def end(self, row: Document) -> str:
        """Return how the line of a row ends whose last keys are those of ``row``."""


def row_format(name: str) -> RowFormat:
    """Return one of ``ROW_FORMATS``."""
    return cast("RowFormat", import_module(f"csgm_cli.render.formats.{_MODULES[name]}"))


def render_error(error: CsgmError, format: str) -> str:  # noqa: A002 - its name everywhere
    """Return ``error`` in one of ``ERROR_FORMATS``."""
    from csgm_cli.render.document import error_document

    document = error_document(error)
    if format == "json":
        return render(document, format)
    text: str = import_module(f"csgm_cli.render.formats.{_MODULES[format]}").render_error(document)
    return text


def value(document: Document) -> str:
    """Return the one number of a calibrate, account, plan or factorize document, and a newline.

    Round-trip digits: calibrate's noise multiplier; account's epsilon, or delta where an epsilon was
    asked about; plan's gamma; factorize's objective. ``UsageError`` for any other document, and for several
    deltas or strategies.
    """
    from csgm_cli.render.document import command_of

    command = command_of(document)
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
