"""How an interrupted process ends (imports next to nothing, see `csgm_cli.cli`)."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see csgm_cli.cli
if TYPE_CHECKING:
    from typing import NoReturn


def leave_interrupted() -> NoReturn:
    """End the process on the spot with 130 and one line on stderr, in place of a line of progress."""
    try:
        if sys.stderr is not None:  # else its descriptor may belong to another file by now
            is_live = os.isatty(2) and os.environ.get("TERM") != "dumb"
            os.write(2, (b"\r\x1b[K" if is_live else b"") + b"interrupted\n")
    finally:
        os._exit(130)
