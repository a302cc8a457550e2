"""``python -m csgm_cli`` is the ``csgm`` command."""

from __future__ import annotations

from csgm_cli.cli import entry_point

if __name__ == "__main__":
    entry_point()
