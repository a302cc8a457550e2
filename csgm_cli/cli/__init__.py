"""The command line: a root group with a lazy registry, and one thin module per command."""

from __future__ import annotations

from csgm_cli.cli.entry import entry_point, main

__all__ = ["entry_point", "main"]
