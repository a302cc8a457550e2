"""CSV (RFC 4180 with bare newlines): one header, then one line per row of the result."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING, Any

from csgm_cli.render.document import NESTED_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from csgm_cli.render.document import Document


def render(document: Document) -> str:
    """Return the result's rows with round-trip digits; a result without rows is one row.

    Nested keys become ``mse.total``, lists are joined by semicolons, null is an empty field. The
    columns depend on the command alone, not on which optional values are there.
    """
    result = document["result"]
    rows = [dict(_flat(row)) for row in _listed(result) or [result]]
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return text.getvalue()


def _listed(result: Document) -> list[Document]:
    """What the result is a list of; empty where it is none."""
    return next((result[key] for key in ("rows", "cases", "claims") if result.get(key)), [])


def _flat(row: Document) -> Iterator[tuple[str, str]]:
    for key, value in row.items():
        if key in NESTED_KEYS:
            for inner in NESTED_KEYS[key]:
                yield f"{key}.{inner}", _field((value or {}).get(inner))
        else:
            yield key, _field(value)


def _field(value: Any) -> str:  # noqa: ANN401 - JSON-shaped
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ";".join(map(_field, value)) if isinstance(value, list) else str(value)
