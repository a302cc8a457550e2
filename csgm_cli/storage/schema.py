"""The JSON Schemas (draft 2020-12) that every JSON output of csgm meets, and the files of `csgm check`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from csgm_cli.errors import UsageError, shown

#: Where the objects stand to which versions of csgm add keys.
_GROWING = r"|inputs|result(\.rows\[\d+\])?"
_Schema = dict[str, Any]
#: What a value of each type of JSON is in Python, where true and false are no numbers.
_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int, float),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}

#: What a schema exists for: the commands, the error object of json mode, and the files of check.
NAMES = (
    "account",
    "budget",
    "calibrate",
    "check",
    "compare",
    "error",
    "factorize",
    "inspect",
    "ledger",
    "lock",
    "plan",
    "selftest",
    "simulate",
    "sweep",
    "train",
    "version",
)


def load_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of ``csgm/<name>/1``; ``UsageError`` unless ``name`` is in `NAMES`."""
    if name not in NAMES:
        raise UsageError("unknown-choice", f"schema must be one of {', '.join(NAMES)}, got {name!r}")
    text = files("csgm_cli.storage").joinpath("schemas", f"csgm.{name}.1.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def find_fault(document: object, name: str, *, closed: bool) -> str | None:
    """Return what in ``document`` is not as the JSON Schema of ``csgm/<name>/1`` has it; None for nothing.

    Inputs, results and their rows may lack keys, as an earlier version of csgm did not have them all. A
    later version may have more keys and words, unless ``closed``. This reads what the shipped schemas of
    results are written in, and no more of JSON Schema than that.
    """
    schema = load_schema(name)
    return next(_faults(document, schema, schema.get("$defs", {}), "", closed=closed), None)


def _faults(value: object, schema: _Schema, defs: _Schema, at: str, *, closed: bool) -> Iterator[str]:
    schema = _meant(value, schema, defs)
    if wanted := _unlike(value, schema, closed=closed):
        yield f"{at or 'the file'} must be {wanted}, got {shown(value)}"
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _faults(item, schema.get("items", {}), defs, f"{at}[{place}]", closed=closed)
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        if not re.fullmatch(_GROWING, at):
            missing = [key for key in schema.get("required", []) if key not in value]
            yield from (f"{at}.{key} is missing" for key in missing)
        for key, item in value.items():
            if key in known:
                yield from _faults(item, known[key], defs, f"{at}.{key}" if at else key, closed=closed)
            elif closed:
                yield f"{at or 'the file'} holds {shown(key)}, which no result has there"


def _unlike(value: Any, schema: _Schema, *, closed: bool) -> str:  # noqa: ANN401 - whatever JSON has
    """What ``value`` must be in place of what it is, its parts aside; empty where it is that."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(kind, value) for kind in kinds):
        return " or ".join(kinds)
    words = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if closed and words is not None and not any(type(w) is type(value) and w == value for w in words):
        return " or ".join(json.dumps(word) for word in words)
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        return f"text like {schema['pattern']}"
    if isinstance(value, list):
        few, many = schema.get("minItems", 0), schema.get("maxItems", len(value))
        return "" if few <= len(value) <= many else f"a list of {few if len(value) < few else many}"
    return _limit_broken(value, schema) if _is("number", value) else ""


def _meant(value: object, schema: _Schema, defs: _Schema) -> _Schema:
    """Return ``schema``, or of its alternatives the one of the value's type with the most of its keys."""
    if "$ref" in schema:
        return _meant(value, defs[schema["$ref"].rpartition("/")[2]], defs)
    if "anyOf" not in schema:
        return schema
    choices = [_meant(value, choice, defs) for choice in schema["anyOf"]]
    fitting = [choice for choice in choices if _is(choice["type"], value)]
    if not fitting:
        return {"type": [choice["type"] for choice in choices]}
    keys = set(value) if isinstance(value, dict) else set()
    return max(fitting, key=lambda choice: len(keys & set(choice.get("properties", {}))))


def _is(kind: str, value: object) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _limit_broken(value: float, schema: _Schema) -> str:
    if value < schema.get("minimum", value):
        return f"at least {schema['minimum']}"
    if value > schema.get("maximum", value):
        return f"at most {schema['maximum']}"
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        return f"above {schema['exclusiveMinimum']}"
    return ""
