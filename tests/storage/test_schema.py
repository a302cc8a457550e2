"""The shipped JSON Schemas themselves; tests of rendering hold every document against them."""

import jsonschema
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.jobs.statement import PROOFS_OF
from csgm_cli.model.mechanism import Accountant, Adjacency, Bound, Conversion
from csgm_cli.model.mechanism_table import MechanismName
from csgm_cli.storage.schema import NAMES, load_schema


def objects(schema):
    """Every part of ``schema`` that describes an object."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_valid_and_closed(name):
    """Each is a correct draft 2020-12 schema of its own name, and every object in it is closed."""
    schema = load_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["properties"]["schema"] == {"const": f"csgm/{name}/1"}
    for part in objects(schema):
        assert part["additionalProperties"] is False
        assert set(part["required"]) <= set(part["properties"])


def test_words_of_the_model_are_allowed():
    """Every member of the model's enumerations is in the schema of a calibration."""
    properties = load_schema("calibrate")["properties"]
    inputs, result = properties["inputs"]["properties"], properties["result"]["properties"]
    for kind, schema in (
        (MechanismName, inputs["mechanism"]),
        (Adjacency, inputs["adjacency"]),
        (Accountant, inputs["accountant"]),
        (Bound, result["bound"]),
        (Conversion, result["conversion"]),
    ):
        assert {member.value for member in kind} <= set(schema["enum"])
    assert set(result["proof"]["enum"]) == {proof.value for proofs in PROOFS_OF.values() for proof in proofs}


@pytest.mark.parametrize("kind", ["answered", "mse", "verified", "slug"])
def test_rows_of_a_sweep_are_those_of_a_comparison(kind):
    """What compare says of an answer, sweep says in the same words."""
    sweep, compare = (load_schema(name)["$defs"][kind] for name in ("sweep", "compare"))
    if kind == "answered":
        sweep, compare = sweep["properties"], compare["properties"]
        del compare["strategy"]  # a sweep has one
        del compare["privunit"]
        sweep = {key: sweep[key] for key in compare}
    assert sweep == compare


@pytest.mark.parametrize("name", ["", "nope", "../schema", "calibrate/1"])
def test_unknown_schema(name):
    """Asking for a schema that does not exist is a usage error that lists those that do."""
    with pytest.raises(UsageError, match="account, budget, calibrate, check"):
        load_schema(name)
