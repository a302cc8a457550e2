"""``python -m csgm_cli`` is the ``csgm`` command."""

from __future__ import annotations

import sys

from csgm_cli.cli import main

if __name__ == "__main__":
    sys.exit(main())
