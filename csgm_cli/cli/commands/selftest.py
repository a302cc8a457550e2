"""``csgm selftest``: tell whether this machine's libraries are sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.options.definitions import OUTPUT, options
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.report import report

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request


def run(request: Request) -> ExitCode:
    """Recompute the shipped reference values; any that differs is a claim that fails."""
    from csgm_cli.jobs.selftest import selftest
    from csgm_cli.render.document import selftest_document

    with working():
        cases = selftest()
    report(request, selftest_document(cases))
    return ExitCode.OK if all(case.holds for case in cases) else ExitCode.CLAIM_FAILED


command = Command(
    "selftest",
    run,
    help="""Recompute reference values on this machine.

    Exits with 1 if any of them differs: then do not trust this installation.""",
    options=options(*OUTPUT),
    examples=("csgm selftest", "csgm selftest --format json"),
)
