"""A saved calibration that was edited anywhere is refused, or gives the plan that was calibrated."""

import copy
import functools
import itertools
import json
import warnings

import pytest

from csgm_cli import Rotation
from csgm_cli.cli import main
from csgm_cli.errors import CsgmError
from csgm_cli.mechanism import plan as plan_module
from csgm_cli.mechanism.plan import load_plan

COMMON = "--epsilon 2 --delta 1e-6 --dim 64 --cohort-size 100 --l2-norm 0.5"
CASES = {
    "l2-csgm": "--gamma 0.3 --rounds 2 --norm-ratio 4",
    "linf-csgm": "--gamma 0.3 --rounds 2 --norm-ratio 4 --mechanism linf-csgm --adjacency replace-one",
    "client sampling": "--gamma 0.3 --rounds 40 --norm-ratio 4 --client-sampling poisson"
    " --population-size 1000 --accountant rdp",
    "fixed order": "--gamma 0.3 --norm-ratio 4 --population-size 1000 --training-rounds 25",
    "sgmf": "--gamma 0.3 --norm-ratio 4 --factorization tree:8 --epochs 2",
    "matrix mechanism": "--mechanism gaussian --factorization tree:8 --epochs 2",
}
#: Errors of the matrix mechanism follow from the cohort size and the arrays of the factorization, which are
#: not in the file. The cohort size is no part of the guarantee: the noise is that of the sum.
UNCHECKED = {("matrix mechanism", ("inputs", "cohort_size"))}
DELETED = object()


@pytest.fixture
def released(monkeypatch):
    """Make this program a release, whose words are known."""
    for module in ("version", "saved_result"):
        monkeypatch.setattr(f"csgm_cli.{module}.__version__", "0.2.0")


@pytest.fixture
def quick(monkeypatch):
    """Prove each guarantee once."""
    monkeypatch.setattr(plan_module, "_is_proven", functools.cache(plan_module._is_proven))


@functools.cache
def calibration(case, folder):
    """The saved result of a case, as of a release."""
    path = folder / "result.json"
    assert (
        main(["calibrate", "--format", "json", "--output", str(path), *f"{COMMON} {CASES[case]}".split()])
        == 0
    )
    return json.loads(path.read_text()) | {"csgm_version": "0.2.0"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("calibrations")


def places(value, above=()):
    """The paths of all keys and items within a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key)
        yield from places(inner, (*above, key))


def at(document, place):
    return functools.reduce(lambda holder, key: holder[key], place, document)


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def other_values(place, value):
    """What may stand in the place of a value: nothing, other types, other numbers and words."""
    found = [DELETED, None, "text", [], 1, 2]
    if is_number(value):
        found += [value * 1.01, value * 0.99, value + 1, value / 2, str(value)]
    words = {
        "mechanism": ["l2-csgm", "linf-csgm", "gaussian"],
        "adjacency": ["add-remove", "replace-one"],
        "accountant": ["auto", "paper"],
        "strategy": ["optimal"],
        "workload": ["momentum=0.5"],
        "bound": ["exact", "rdp", "tight-remove"],
    }
    found += words.get(place[-1], [])
    return [other for other in found if not (type(other) is type(value) and other == value)]


def edited(document, values):
    """A copy with these values in these places."""
    found = copy.deepcopy(document)
    for place, value in values.items():
        holder = at(found, place[:-1])
        if value is DELETED:
            del holder[place[-1]]
        else:
            holder[place[-1]] = value
    return found


def loaded(path, document):
    path.write_text(json.dumps(document))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_plan(path, Rotation.NONE)


def wrongly_accepted(path, document, edits):
    """The edits after which another plan is run, without an error."""
    plan, found = loaded(path, document), []
    for edit in edits:
        try:
            if loaded(path, edited(document, edit)) != plan:
                found.append(edit)
        except (CsgmError, UserWarning):
            pass
    return found


@pytest.mark.parametrize("case", CASES)
def test_no_edit_of_one_field_is_run(tmp_path, folder, released, quick, case):
    """Deleted, of another type, or with another value."""
    document = calibration(case, folder)
    edits = [
        {place: value}
        for place in places(document)
        if (case, place) not in UNCHECKED
        for value in other_values(place, at(document, place))
    ]
    assert len(edits) > 300
    assert wrongly_accepted(tmp_path / "edited.json", document, edits) == []


@pytest.mark.parametrize("case", ["l2-csgm", "fixed order"])
def test_no_edit_of_two_numbers_is_run(tmp_path, folder, released, quick, case):
    """Both doubled, or one of them halved, as would agree if the one is a multiple of the other."""
    document = calibration(case, folder)
    numbers = {place: at(document, place) for place in places(document) if is_number(at(document, place))}
    edits = [
        {one: numbers[one] * 2, other: double(numbers[other])}
        for one, other in itertools.combinations(numbers, 2)
        for double in (lambda x: x * 2, lambda x: x // 2 if isinstance(x, int) else x / 2)
    ]
    assert len(edits) > 500
    assert wrongly_accepted(tmp_path / "edited.json", document, edits) == []
