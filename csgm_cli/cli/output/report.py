"""Where a result goes: stdout or a file, with its warnings on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from csgm_cli.cli import console, interrupts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from csgm_cli.cli.options.request import Request


def report(
    request: Request,
    document: dict[str, Any],
    failures: Sequence[str] = (),
    shown: Collection[str] = (),
) -> None:
    """Render ``document`` as the request asks, put it where the request says, then show its warnings.

    ``failures``: claims that do not hold, shown before the warnings. ``shown``: slugs of warnings that have
    been shown already.

    ``StorageError`` where the file or stdout cannot be written; nothing is written before all is known.
    """
    from csgm_cli.render import render, value

    to_file = request["output"] is not None
    if request["value"]:
        text = value(document)
    else:
        terminal = None if to_file else console.terminal()
        text = render(document, request["format"], terminal=terminal, statement=bool(request["statement"]))
    if to_file:
        from csgm_cli.storage.files import write_atomically

        with interrupts.unwinding():
            write_atomically(request["output"], text)
        interrupts.ignore()
    else:
        console.write(text)
    for failure in failures:
        console.failed(failure)
    for warning in document["warnings"]:
        if warning["slug"] not in shown:
            console.warning(warning["slug"], warning["message"])
