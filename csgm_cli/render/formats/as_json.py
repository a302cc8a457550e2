"""JSON: the whole document, with round-trip digits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from csgm_cli.render.document import Document


def render(document: Document) -> str:
    """Return the document as indented JSON; ``ValueError`` if it holds a NaN or an infinity."""
    return json.dumps(document, allow_nan=False, indent=2) + "\n"
