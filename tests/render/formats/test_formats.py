"""What holds for formats beyond their golden files: reading back, safe side, errors, lazy loading."""

import csv
import io
import json
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from csgm_cli.errors import UsageError
from csgm_cli.jobs.statement import PROOFS_OF
from csgm_cli.model.mechanism import Bound
from csgm_cli.render import FORMATS, render, value
from csgm_cli.render.formats import as_csv, as_markdown
from csgm_cli.render.reports import report


def test_json_reads_back(documents):
    """JSON gives back the very same document: keys, order and every digit."""
    for document in documents.values():
        text = render(document, "json")
        assert json.loads(text) == document
        assert list(json.loads(text)) == list(document)


def test_json_has_no_nan():
    """A NaN that got this far is an error, not a NaN literal."""
    with pytest.raises(ValueError, match="JSON compliant"):
        render({"schema": "csgm/calibrate/1", "result": float("nan")}, "json")


def test_csv_reads_back(documents):
    """CSV holds the same numbers, to the last digit, in one line per row."""
    (row,) = csv.DictReader(io.StringIO(render(documents["calibrate"], "csv")))
    result = documents["calibrate"]["result"]
    assert float(row["sigma"]) == result["sigma"]
    assert float(row["mse.total"]) == result["mse"]["total"]
    assert row["assumptions"].split(";") == result["assumptions"]
    assert row["statement"] == result["statement"]
    assert len(render(documents["compare"], "csv").splitlines()) == 4


def test_csv_columns_do_not_depend_on_what_is_known(documents):
    """Optional parts that are missing leave empty fields, not fewer columns."""
    headers = [render(documents[name], "csv").splitlines()[0] for name in ("calibrate", "calibrate-bare")]
    assert headers[0] == headers[1]
    (row,) = csv.DictReader(io.StringIO(render(documents["calibrate-bare"], "csv")))
    assert row["mse.total"] == row["order"] == row["verified.digits"] == ""


@given(st.text(st.characters(categories=["L", "N", "P", "S"], include_characters=" "), min_size=1))
def test_csv_takes_any_text(text):
    """Quotes and commas come back as they were."""
    assume(text[0] not in "=+-@" and "::" not in text and "##[" not in text)
    document = {"schema": "csgm/version/1", "result": {"a": text, "b": "end"}}
    read = list(csv.reader(io.StringIO(as_csv.render(document), newline="")))
    assert read == [["a", "b"], [text, "end"]]


def test_markdown_escapes_pipes():
    """A vertical bar inside a cell does not start a new one."""
    document = {
        "schema": "csgm/selftest/1",
        "inputs": {},
        "result": {
            "held": 1,
            "total": 1,
            "cases": [{"name": "a|b", "holds": True, "relative_difference": 0.0, "tolerance": 1e-9}],
        },
    }
    assert "| a\\|b | 1 | holds | 0 |" in as_markdown.render(document)


def shown(documents, name):
    """The facts of a document: label to value."""
    return {fact.label: fact.value for fact in report.report(documents[name]).facts}


def test_numbers_are_on_the_safe_side(documents):
    """Costs and noise are shown no smaller than they are, lower bounds and compression no larger."""
    result, facts = documents["plan"]["result"]["rows"][0], shown(documents, "plan")
    for label, number in {
        "noise multiplier": result["noise_multiplier"],
        "effective": result["effective_noise_multiplier"],
        "sigma": result["sigma"],
        "gamma": result["gamma"],
        "mean noise std": result["mean_noise_std"],
        "MSE": result["mse"]["total"],
        "MSE ratio": result["mse"]["ratio"],
        "bits per client": result["bits_per_client"],
    }.items():
        assert Decimal(number) < Decimal(facts[label]) < Decimal(number) * Decimal("1.00001")
    lower = facts["certified"].rpartition(" ")[2].removesuffix(")")
    for text, number in ((facts["compression"], result["compression"]), (lower, result["lower_bound"])):
        assert Decimal(number) * Decimal("0.99999") < Decimal(text) < Decimal(number)
    epsilon = Decimal(facts["guarantee"].split()[1])
    assert Decimal(result["epsilon"]) <= epsilon < Decimal(result["epsilon"]) * Decimal("1.00001")


def test_the_answer_comes_first(documents):
    """The first fact is what was asked for."""
    first = {
        name: next(iter(shown(documents, name))) for name in ("calibrate", "account", "account-delta", "plan")
    }
    assert first == {
        "calibrate": "noise multiplier",
        "account": "epsilon",
        "account-delta": "delta",
        "plan": "gamma",
    }


def test_comparison_without_any_answer(documents):
    """Where no mechanism has an answer, a table of names remains."""
    document = documents["compare"]
    document["result"]["rows"] = document["result"]["rows"][2:]
    assert render(document, "text").startswith("mechanism  gamma\nlinf-csgm   1e-9\n\ntarget")


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("calibrate", "0.01219041001\n"),
        ("account", "4.99999999999\n"),
        ("account-delta", "1.2345678e-08\n"),
        ("plan", "0.0123456001\n"),
    ],
)
def test_value(documents, name, number):
    """The bare number has round-trip digits, and is the one that was asked for."""
    assert value(documents[name]) == number


@pytest.mark.parametrize("name", ["account-curve", "compare", "selftest", "version"])
def test_no_single_value(documents, name):
    """A result that is not one number has no bare value."""
    with pytest.raises(UsageError, match="not one number"):
        value(documents[name])


@pytest.mark.parametrize("form", ["", "yaml", "TEXT", "as_text"])
def test_unknown_format(documents, form):
    """A format that does not exist is a usage error that lists those that do."""
    with pytest.raises(UsageError, match="text, json, csv, markdown"):
        render(documents["calibrate"], form)


PROGRAM = """
import sys
from csgm_cli.render import render
from csgm_cli.render.document import version_document
document = version_document({{"python": "3"}})
render(document, {form!r})
print(*sorted(set(sys.modules)))
"""


@pytest.mark.parametrize("form", FORMATS)
def test_formats_load_on_first_use(form):
    """A format brings in its own module and no other one, and never rich or numpy."""
    program = PROGRAM.format(form=form)
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    formats = [name for name in loaded if name.startswith("csgm_cli.render.formats.as_")]
    assert formats == [f"csgm_cli.render.formats.as_{form}"]
    assert not {"rich", "numpy", "scipy", "mpmath", "click", "csgm_cli.render.formats.as_terminal"} & set(
        loaded
    )


@pytest.mark.parametrize(
    ("bound", "proof"), [(bound, proof) for bound in Bound for proof in PROOFS_OF[bound]]
)
def test_the_proof_names_its_theorem_and_direction(documents, bound, proof):
    result = documents["account"]["result"]
    result |= {"bound": str(bound), "proof": str(proof), "conversion": None}
    theorem, *rest = shown(documents, "account")["proof"].split(", ")
    assert theorem
    direction = {"tight-add": "add direction", "tight-remove": "remove direction"}.get(str(bound))
    assert direction is None or rest[0] == direction


@pytest.mark.parametrize(
    ("effective", "plain", "note"),
    [(1.1417, 1.139, "0.24 % above"), (1.0, 1.0, "0 % above"), (0.5, 1.0, "50 % below")],
)
def test_the_effective_noise_is_compared_with_the_gaussian_mechanism(documents, effective, plain, note):
    """1.1417/1.139 - 1 = 0.23705 %, rounded up."""
    documents["calibrate"]["result"] |= {
        "effective_noise_multiplier": effective, "gaussian_noise_multiplier": plain,
    }  # fmt: skip
    [fact] = [fact for fact in report.report(documents["calibrate"]).facts if fact.label == "effective"]
    assert fact.note == f"/ gamma: {note} the Gaussian mechanism"


def test_the_statement_is_shown_on_request(documents):
    said = documents["calibrate"]["result"]["statement"]
    for form in ("text", "markdown"):
        assert said not in render(documents["calibrate"], form)
        assert said in render(documents["calibrate"], form, statement=True)
    assert json.loads(render(documents["calibrate"], "json"))["result"]["statement"] == said
