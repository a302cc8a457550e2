"""``csgm account --from`` with any value of a real result replaced by what it cannot be."""

import itertools
import json
import math
from pathlib import Path

import jsonschema
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.storage.saved import load_saved
from csgm_cli.storage.schema import load_schema

pytestmark = pytest.mark.usefixtures("released")

_SIZES = "--epsilon 5 --delta 1e-6 --gamma 0.1 --norm-ratio 30"
LINES = {
    "l2-csgm": f"calibrate {_SIZES} --dim 1e6 --cohort-size 1000",
    "linf-csgm": "account --sigma 0.2 --mechanism linf-csgm --gamma 0.1 --norm-ratio 9 --dim 99 --delta 1e-6",
    "gaussian": "calibrate --mechanism gaussian --epsilon 1 --delta 1e-5 --verify",
    "delta": "account --noise-multiplier 0.0122 --gamma 0.01 --norm-ratio 1000 --epsilon 3",
    "curve": "account --noise-multiplier 4 --mechanism gaussian --delta 1e-6 --delta 1e-8 --max-epsilon 9",
    "factorized": f"calibrate {_SIZES} --dim 1e5 --cohort-size 200 --factorization optimal:32 --epochs 4"
    " --population 6400",
    "cohort": f"calibrate {_SIZES} --cohort-size 30 --population 1000 --training-rounds 101",
    "replace-one": f"calibrate {_SIZES} --adjacency replace-one",
    "plan": "plan --epsilon 5 --delta 1e-8 --dim 1e6 --cohort-size 1000 --max-mse-overhead 0.05",
}
#: Of the wrong type, out of every range, or nothing; NaN and infinity are no JSON, which json.dumps ignores.
STRANGE = (
    None, True, "rdp", "gaussian", "", "0.5", [], {}, [1], math.nan, math.inf, -1, -0.5, 0, 0.5, 2, 64,
    1e-308, 1e300, 10**30, 10**400,
)  # fmt: skip


def leaves(value, path=()):
    """The path of every value that holds no others, and of those that do, but the file itself."""
    if path:
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in parts:
        yield from leaves(inner, (*path, key))


def replaced(document, path, value):
    """A copy of ``document`` with the value at ``path`` replaced."""
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return copy


def refusal(text):
    """The slug with which the reader of saved results refuses this text, or None."""
    try:
        load_saved(text)
    except UsageError as error:
        return error.slug
    return None


def at(document, path):
    """The value at ``path``."""
    for key in path:
        document = document[key]
    return document


@pytest.mark.parametrize("name", LINES)
def test_any_value_replaced(csgm, name):
    """It is refused in one line, or the answer is that of the file as it was, or the drift is shown."""
    accountant = "exact" if "gaussian" in LINES[name] else "rdp"
    assert csgm(f"{LINES[name]} --accountant {accountant} --format json --output saved.json").status == 0
    saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    before = csgm("account --from saved.json --format json").document["result"]
    for path in leaves(saved):
        for value in STRANGE:
            if type(value) is type(at(saved, path)) and value == at(saved, path):
                continue
            edited = json.dumps(replaced(saved, path, value))
            if refusal(edited):
                continue  # the command refuses it as well: `test_refused_files_are_one_error`
            Path("edited.json").write_text(edited, encoding="utf-8")
            outcome = csgm("account --from edited.json --format json")
            what = f"{path} = {value!r:.40}: {outcome.status} {outcome.stderr}"
            if outcome.status == 0:
                drifted = any(warning["slug"].startswith("drift") for warning in outcome.document["warnings"])
                assert drifted or outcome.document["result"] == before, what
            else:
                assert outcome.status in (2, 3, 4), what  # 4: the file of a factorization that is not there
                assert outcome.stderr.count("error[") == 1, what


@pytest.mark.parametrize("name", LINES)
def test_refused_files_are_one_error(csgm, name):
    """What the reader of saved results refuses is one error, exit code 2; each place gets another value."""
    assert csgm(f"{LINES[name]} --format json --output saved.json").status == 0
    saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    for path, value in zip(leaves(saved), itertools.cycle(STRANGE), strict=False):
        edited = json.dumps(replaced(saved, path, value))
        if expected := refusal(edited):
            Path("edited.json").write_text(edited, encoding="utf-8")
            outcome = csgm("account --from edited.json")
            assert (outcome.status, outcome.stdout) == (2, ""), path
            assert outcome.stderr.startswith(f"error[{expected}]: "), path
            assert outcome.stderr.count("error[") == 1, path


@pytest.mark.parametrize("name", LINES)
def test_no_value_of_a_wrong_type(csgm, name):
    """Whatever the shipped schema does not allow is refused, as an independent reading of it finds."""
    assert csgm(f"{LINES[name]} --accountant rdp --format json --output saved.json").status == 0
    saved = json.loads(Path("saved.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(load_schema(saved["schema"].split("/")[1]))
    assert load_saved(json.dumps(saved)).rows
    for path in leaves(saved):
        for value in STRANGE[:-1]:
            edited = replaced(saved, path, value)
            null_sigma = path == ("inputs", "sigma") and value is None  # as csgm 0.1.0 wrote it
            if math.isfinite(value) if isinstance(value, float) else not null_sigma:
                if lacks_only(validator, edited):
                    continue
                with pytest.raises(UsageError) as caught:
                    load_saved(json.dumps(edited))
                assert caught.value.slug == "bad-result-file"


def lacks_only(validator, document):
    """Whether all that the schema has against a document is that keys are missing."""
    return all(error.validator == "required" for error in validator.iter_errors(document))
