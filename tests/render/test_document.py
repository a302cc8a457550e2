"""Documents: the keys of the contract in their order, exact values, warnings, and no NaN."""

import math
from dataclasses import replace

import jsonschema
import pytest

from csgm_cli.model.comparison import SelftestCase
from csgm_cli.model.mechanism import Accountant, Mechanism
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.model.result import Calibration, Guarantee, Notice
from csgm_cli.render.document import calibration_document, selftest_document, version_document
from csgm_cli.storage.schema import NAMES, load_schema
from csgm_cli.version import __version__

CALIBRATE_KEYS = [
    "noise_multiplier",
    "effective_noise_multiplier",
    "gaussian_noise_multiplier",
    "sigma",
    "epsilon",
    "delta",
    "order",
    "bound",
    "proof",
    "conversion",
    "assumptions",
    "statement",
    "mean_noise_std",
    "mse",
    "bits_per_client",
    "lower_bound",
    "verified",
    "noise_std_per_row",
    "mse_last_row",
]
ACCOUNT_KEYS = [
    "epsilon",
    "delta",
    "order",
    "bound",
    "proof",
    "conversion",
    "assumptions",
    "statement",
    "lower_bound",
    "verified",
    "mean_noise_std",
    "mse",
    "noise_std_per_row",
    "mse_last_row",
]

FACTORIZE_KEYS = [
    "T",
    "workload",
    "strategy",
    "objective",
    "sensitivity",
    "sensitivity_squared",
    "mean_squared_error",
    "rmse",
    "max_squared_error",
    "lower_bound",
    "gap",
    "iterations",
    "epochs",
    "participations",
    "min_separation",
    "bands",
]

CALIBRATION = Calibration(
    Mechanism("gaussian", 1.0, Geometry()),
    Accountant.EXACT,
    1.25,
    1.25,
    1.25,
    Guarantee(5.0, 1e-8, None, "exact", None, (), proof="exact"),
    "It is private.",
    None,
    None,
    None,
)


def test_every_document_meets_its_schema(documents):
    """Each document is valid, and every schema has a document that was held against it."""
    commands = set()
    for document in documents.values():
        command = document["schema"].split("/")[1]
        jsonschema.Draft202012Validator(load_schema(command)).validate(document)
        commands.add(command)
    assert commands == set(NAMES) - {"budget", "ledger", "lock"}  # of files that are read


@pytest.mark.parametrize(
    "name", ["calibrate", "account", "compare", "plan", "factorize", "inspect", "selftest", "version"]
)
def test_envelope(documents, name):
    """Every result has the same five keys, in order."""
    assert list(documents[name]) == [
        "schema",
        "csgm_version",
        "numbers_version",
        "inputs",
        "result",
        "warnings",
    ]
    assert documents[name]["schema"] == f"csgm/{name}/1"


def test_keys_of_the_contract(documents):
    """Results have the promised keys in the promised order."""
    result = {name: document["result"] for name, document in documents.items() if name != "error"}
    assert list(result["calibrate"]) == CALIBRATE_KEYS
    assert list(result["account"]) == ACCOUNT_KEYS
    assert [list(row) for row in result["account-curve"]["rows"]] == [ACCOUNT_KEYS, ACCOUNT_KEYS]
    compared = ["mechanism", "gamma", "strategy", *CALIBRATE_KEYS, "privunit"]
    assert [list(row) for row in result["compare"]["rows"]] == [compared] * 3
    assert [list(row) for row in result["compare-privunit"]["rows"]] == [compared] * 5
    assert list(result["plan"]) == ["rows", "gamma", "compression"]
    assert [list(row) for row in result["plan"]["rows"]] == [
        ["mechanism", "gamma", "compression", *CALIBRATE_KEYS]
    ]
    assert list(result["calibrate"]["mse"]) == [
        "privacy",
        "sparsification",
        "total",
        "gaussian_total",
        "ratio",
    ]
    factorized = result["calibrate-factorized"]
    assert list(factorized["noise_std_per_row"]) == ["min", "mean", "max"]
    assert list(factorized["mse_last_row"]) == list(factorized["mse"])
    assert list(result["calibrate"]["verified"]) == ["digits", "relative_difference"]


def test_keys_of_factorizations(documents):
    """Factorizations have the promised keys in the promised order; an inspection adds its claims."""
    assert list(documents["factorize"]["result"]) == FACTORIZE_KEYS
    assert [list(row) for row in documents["factorize-compare"]["result"]["rows"]] == [FACTORIZE_KEYS] * 2
    result = documents["inspect"]["result"]
    assert list(result) == [*FACTORIZE_KEYS, "holds", "claims"]
    assert result["holds"] is False
    assert [list(claim) for claim in result["claims"]] == [["name", "claimed", "computed", "holds"]] * 4


def test_row_without_an_answer(documents):
    """A mechanism without an answer keeps its name and gamma, has null elsewhere, and a warning."""
    document = documents["compare"]
    row = document["result"]["rows"][2]
    assert (row["mechanism"], row["gamma"]) == ("linf-csgm", 1e-9)
    assert {row[key] for key in CALIBRATE_KEYS} == {None}
    assert document["warnings"][0]["slug"] == "no-answer"


def test_resolved_inputs_replace_what_was_given(documents):
    """The accountant and the kind of comparison are those of the result, in place."""
    assert documents["calibrate"]["inputs"]["accountant"] == "rdp"
    assert documents["compare-equal-mse"]["inputs"]["at_equal_mse"] is True


def test_warnings_are_in_order_and_said_once(documents):
    """Notices of the result come before those of its guarantee; a repeated one appears once."""
    assert [warning["slug"] for warning in documents["calibrate"]["warnings"]] == ["capped", "high-precision"]
    assert [warning["slug"] for warning in documents["compare"]["warnings"]] == [
        "no-answer",
        "capped",
        "high-precision",
    ]


def test_plain_types_only():
    """Enum members become plain strings and tuples lists, so that any serialiser takes them."""
    document = calibration_document({"accountant": "auto", "pair": (1, Accountant.RDP)}, CALIBRATION)
    assert document["inputs"] == {"accountant": "exact", "pair": [1, "rdp"]}
    assert type(document["inputs"]["accountant"]) is str
    assert type(document["result"]["bound"]) is str
    assert type(document["result"]["proof"]) is str


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["sigma", "bits_per_client"])
def test_no_result_with_nan_or_infinity(bad, field):
    """A result that is not a finite number is a bug and never becomes a document."""
    with pytest.raises(ValueError, match=rf"result.{field} is (nan|-?inf)"):
        calibration_document({}, replace(CALIBRATION, **{field: bad}))


def test_selftest_shows_a_broken_number_as_null():
    """Where the machine computes NaN, the case fails and the document stays valid JSON."""
    good, bad = SelftestCase("a", 1.0, 1.0, 0.0, 1e-9), SelftestCase("b", 1.0, math.nan, math.inf, 1e-9)
    result = selftest_document([good, bad])["result"]
    assert (result["held"], result["total"]) == (1, 2)
    assert result["cases"][1] == {
        "name": "b",
        "expected": 1.0,
        "computed": None,
        "relative_difference": None,
        "tolerance": 1e-9,
        "holds": False,
    }


def test_version_of_csgm():
    """The version document names the program's own version twice: as a result and as the writer."""
    document = version_document({"python": "3.11.7"})
    assert document["csgm_version"] == document["result"]["csgm"] == __version__


def test_warnings_with_one_slug():
    """Warnings are told apart by slug and message together."""
    pair = (Notice("a", "one"), Notice("a", "two"), Notice("a", "one"))
    document = calibration_document({}, replace(CALIBRATION, notices=pair))
    assert [warning["message"] for warning in document["warnings"]] == ["one", "two"]
