"""``csgm version``: what is installed, for a bug report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.cli.command import Command
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.options.definitions import OUTPUT, options
from csgm_cli.cli.output.report import report
from csgm_cli.cli.plain_version import LIBRARIES

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request


def run(request: Request) -> ExitCode:
    """Read the versions from the installed metadata; no library is imported."""
    from importlib.metadata import PackageNotFoundError, version
    from platform import python_version

    from csgm_cli.render.document import version_document

    versions: dict[str, str | None] = {"python": python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = None
    report(request, version_document(versions))
    return ExitCode.OK


command = Command(
    "version",
    run,
    help="Print the versions of csgm and its libraries.",
    options=options(*OUTPUT),
    examples=("csgm version", "csgm version --format json"),
)
