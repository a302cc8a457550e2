"""JSON: the whole document, with round-trip digits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from csgm_cli.render.document import Document


def render(document: Document) -> str:
    """Return the document as indented JSON; ``ValueError`` if it holds a NaN or an infinity."""
    return dumped(document, indent=2) + "\n"


def dumped(document: Document, indent: int | None = None) -> str:
    """Return JSON of printable ASCII; ``ValueError`` as in `render`."""
    # json escapes all control characters but this one.
    return json.dumps(document, allow_nan=False, indent=indent).replace("\x7f", "\\u007f")
