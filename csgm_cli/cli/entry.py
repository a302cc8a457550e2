"""``run``: run one command line and turn every outcome into an exit code."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from csgm_cli.cli import console
from csgm_cli.cli.exits import ExitCode, as_csgm_error
from csgm_cli.cli.root import COMPLETE_VARIABLE, root
from csgm_cli.errors import CsgmError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    """Run csgm as ``csgm_cli.cli.main`` says."""
    arguments = list(argv)
    # Before numpy is imported: its matrices are small here, and starting threads costs more than they save.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        status = int(_guarded(arguments))
    except BrokenPipeError:
        status = ExitCode.CLOSED_PIPE
    except (KeyboardInterrupt, EOFError, click.Abort):
        console.note("interrupted")
        status = ExitCode.INTERRUPTED
    except Exception as error:  # the report of an error failed: still no traceback, and not exit code 1
        problem = as_csgm_error(error)
        console.error(problem)
        status = problem.exit_status
    console.abandon_unless_flushed()
    return status


def _guarded(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    except (BrokenPipeError, EOFError, click.Abort):
        raise
    except Exception as error:  # a bug, too, ends in one message and in its own exit code
        return _failed(error, arguments)


def _run(arguments: list[str]) -> int:
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        from csgm_cli.cli.shell_completion import complete

        complete(instruction)
        return ExitCode.OK
    if arguments == ["version"]:
        from csgm_cli.cli.plain_version import plain_version

        if (line := plain_version()) is not None:
            console.write(line)
            return ExitCode.OK
    try:
        with root.make_context("csgm", arguments.copy()) as context:
            status: int = root.invoke(context)
    except click.exceptions.Exit as done:  # --help and --version
        status = done.exit_code
    return status


def _failed(error: Exception, arguments: list[str]) -> int:
    """Report ``error``, on stdout too where a program reads that; return its exit status."""
    from csgm_cli.cli.options.requested_format import requested_format
    from csgm_cli.cli.options.sources import DEBUG_VARIABLE

    problem = as_csgm_error(error)
    form = requested_format(arguments)
    from csgm_cli.render import ERROR_FORMATS, render_error

    if form in ERROR_FORMATS:
        with suppress(StorageError):  # stdout itself may be what failed
            console.write(render_error(problem, form))
    elif isinstance(error, click.exceptions.NoArgsIsHelpError):
        console.block(error.format_message())
        return problem.exit_status
    if type(problem) is CsgmError and os.environ.get(DEBUG_VARIABLE):
        from traceback import format_exception

        console.block("".join(format_exception(error)))
    console.error(problem)
    return problem.exit_status
