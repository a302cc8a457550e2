"""``main``: run one command line, and turn everything that can happen into an exit code."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import click

from csgm_cli.cli import console
from csgm_cli.cli.exits import ExitCode, as_csgm_error
from csgm_cli.cli.root import COMPLETE_VARIABLE, root
from csgm_cli.errors import CsgmError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def entry_point() -> NoReturn:
    """Run the ``csgm`` console script and leave the interpreter with its exit code."""
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run csgm with ``argv`` (by default the process's own) and return the exit code.

    Never raises and never exits: errors are printed (as JSON on stdout too, where JSON was asked for).
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Before numpy is imported: its matrices are small here, and starting threads costs more than they save.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        status = int(_guarded(arguments))
    except BrokenPipeError:
        status = ExitCode.CLOSED_PIPE
    except KeyboardInterrupt:
        status = ExitCode.INTERRUPTED
    except Exception as error:  # the report of an error failed: still no traceback, and not exit code 1
        console.error(as_csgm_error(error))
        status = ExitCode.BUG
    console.abandon_unless_flushed()
    return status


def _guarded(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    except (EOFError, click.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # a bug, too, ends in one message and in its own exit code
        return _failed(error, arguments)


def _run(arguments: list[str]) -> int:
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        from click.shell_completion import shell_complete

        status: int = shell_complete(root, {}, "csgm", COMPLETE_VARIABLE, instruction)
    else:
        try:
            with root.make_context("csgm", arguments.copy()) as context:
                status = root.invoke(context)
        except click.exceptions.Exit as done:  # --help and --version
            status = done.exit_code
    return status


def _failed(error: Exception, arguments: list[str]) -> int:
    """Report ``error``, on stdout too where a program reads that; return its exit status."""
    from csgm_cli.cli.requested_format import requested_format

    problem = as_csgm_error(error)
    form = requested_format(arguments)
    if form in ("json", "github"):
        from csgm_cli.render import render_error

        with suppress(StorageError):  # stdout itself may be what failed
            console.write(render_error(problem, form))
    elif isinstance(error, click.exceptions.NoArgsIsHelpError):
        console.note(error.format_message())
        return problem.exit_status
    if type(problem) is CsgmError and os.environ.get("CSGM_DEBUG"):
        from traceback import format_exception

        console.note("".join(format_exception(error)).rstrip())
    console.error(problem)
    return problem.exit_status
