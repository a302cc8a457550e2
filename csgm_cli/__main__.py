"""``python -m csgm_cli`` is the ``csgm`` command."""

from __future__ import annotations

import os
import sys

# "python -m" puts the current folder first, where a pickle.py or a numpy.py may lie that is not to be run.
if __name__ == "__main__" and sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 - pathlib is not imported yet
    del sys.path[0]

from csgm_cli.cli import entry_point

if __name__ == "__main__":
    entry_point()
