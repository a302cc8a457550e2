"""The command line: a root group with a lazy registry, and one thin module per command.

This module imports next to nothing, so that ``entry_point`` can see to Ctrl-C before click is imported.
"""

from __future__ import annotations

import os
import sys

from csgm_cli.cli.leave import leave_interrupted

TYPE_CHECKING = False  # importing it from typing would take longer than all that is imported here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

__all__ = ["entry_point", "hush_arithmetic", "main"]


def entry_point() -> NoReturn:
    """Run the ``csgm`` console script and end the process with its exit code, without any teardown."""
    try:
        from csgm_cli.cli import interrupts

        interrupts.leave_at_once()
    except KeyboardInterrupt:
        leave_interrupted()
    hush_arithmetic()
    status = main()
    interrupts.ignore()
    os._exit(status)  # all output is flushed; tearing down numpy would take 10 ms and change nothing


def hush_arithmetic() -> None:
    """Keep NumPy's overflow warnings off stderr: results are checked for infinity and NaN."""
    if not sys.warnoptions:
        from warnings import simplefilter

        simplefilter("ignore", RuntimeWarning)


def main(argv: Sequence[str] | None = None) -> int:
    """Run csgm with ``argv`` (by default the process's own) and return the exit code.

    Never raises and never exits: errors are printed (as JSON on stdout too, where JSON was asked for).
    """
    try:
        from csgm_cli.cli.entry import run
    except ImportError as error:  # exit code 1, which Python would use, says that a claim does not hold
        if sys.stderr is not None:
            print(f"error[bug]: csgm is not installed completely: {error}", file=sys.stderr)  # noqa: T201 - no console yet
        return 70

    return run(sys.argv[1:] if argv is None else argv)
