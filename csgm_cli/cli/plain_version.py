"""``csgm version`` without options or settings, without importing what these need."""

from __future__ import annotations

import os
import sys

from csgm_cli.version import NUMBERS_VERSION, __version__

#: In the order of the output.
LIBRARIES = ("numpy", "scipy", "mpmath", "click", "rich")
_INFO = ".dist-info"


def plain_version() -> str | None:
    """The line that ``csgm version`` prints; None where a setting or a terminal may ask for another form.

    Versions are read off the names of the libraries' metadata folders; None where one has no such folder.
    """
    if sys.stdout is None or sys.stdout.isatty() or _may_be_configured():
        return None
    found = _installed()
    if not found.keys() >= set(LIBRARIES):
        return None
    versions = [f"{name} {found[name]}" for name in LIBRARIES]
    versions = [f"numbers version {NUMBERS_VERSION}", f"python {sys.version.split()[0]}", *versions]
    return f"csgm {__version__} ({', '.join(versions)})\n"


def _may_be_configured() -> bool:
    """True for any variable of csgm, and any file above the current folder that may hold settings."""
    if any(name.startswith("CSGM_") for name in os.environ):
        return True
    try:
        folder = os.getcwd()  # noqa: PTH109 - pathlib takes longer to import than all this
        while not _holds_settings(folder):
            folder, below = os.path.dirname(folder), folder  # noqa: PTH120 - likewise
            if folder == below:
                return False
    except OSError:  # whoever reads settings reports it
        pass
    return True


def _holds_settings(folder: str) -> bool:
    if os.path.lexists(os.path.join(folder, "csgm.toml")):  # noqa: PTH118 - likewise
        return True
    project = os.path.join(folder, "pyproject.toml")  # noqa: PTH118 - likewise
    if not os.path.isfile(project):  # noqa: PTH113 - likewise
        return False
    with open(project, "rb") as file:  # noqa: PTH123 - likewise
        return b"csgm" in file.read()


def _installed() -> dict[str, str]:
    """Version by library, from the first folder of the import path that has it."""
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - likewise
        except OSError:  # no folder, such as an archive
            continue
        for entry in names:
            name, dash, version = entry.removesuffix(_INFO).partition("-")
            if dash and entry.endswith(_INFO) and name in LIBRARIES:
                found.setdefault(name, version)
    return found
