"""The versions of csgm: a module of its own, so that those that print them need not import the whole API."""

from __future__ import annotations

#: The package; ``.dev0`` until it is tagged, so that no two releases share a version.
__version__ = "0.2.0.dev0"

#: Raised by 1 when a printed number changes by more than 1e-9 relative, and only then.
#: ``tests/cli/test_numbers_version.py`` notices; lock files and saved results record it.
NUMBERS_VERSION = 2


def is_this_release(csgm_version: str) -> bool:
    """Say whether ``csgm_version`` is this very program; never of a development version, which many share."""
    return csgm_version == __version__ and ".dev" not in __version__


def is_version(text: str) -> bool:
    """Say whether ``text`` has the form of a version: a digit, then up to 63 letters, digits and ``.+-``."""
    import re  # few commands need it

    return re.fullmatch(r"(?a)\d[0-9A-Za-z.+-]{0,63}", text) is not None


def program_of(csgm_version: str, numbers_version: int | None) -> str:
    """Return how messages name what made a number: by numbers version, if it was recorded."""
    return f"csgm {csgm_version}" if numbers_version is None else f"numbers version {numbers_version}"


def why_moved(numbers_version: int | None) -> str:
    """Return why a recorded number may differ from today's, by the numbers version that was recorded."""
    if numbers_version == NUMBERS_VERSION:
        return "csgm computes the same numbers, so the file was edited or a library differs"
    return f"csgm {__version__} has numbers version {NUMBERS_VERSION}"
