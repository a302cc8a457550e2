"""Reading saved results back: what is kept, and every way in which a file can be wrong."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.errors import UsageError
from csgm_cli.storage.saved import SavedResult, load_saved

INPUTS = {
    "mechanism": "l2-csgm",
    "gamma": 0.01,
    "norm_ratio": 1000.0,
    "noise_multiplier": 0.0122,
    "delta": 1e-8,
}
CALIBRATED = {
    "schema": "csgm/calibrate/1",
    "csgm_version": "0.1.0",
    "inputs": {"mechanism": "l2-csgm", "gamma": 0.01},
    "result": {"noise_multiplier": 0.0125, "epsilon": 4.999, "delta": 1e-8, "order": 3.5},
    "warnings": [],
}
ACCOUNTED = {
    "schema": "csgm/account/1",
    "csgm_version": "0.1.0",
    "inputs": INPUTS,
    "result": {"epsilon": 5, "delta": 1e-8},
    "warnings": [],
}


def changed(document, path, value):
    """A copy of ``document`` with one value replaced, or removed where ``value`` is Ellipsis."""
    copy = json.loads(json.dumps(document))
    *outer, last = path.split(".")
    holder = copy
    for key in outer:
        holder = holder[key]
    if value is ...:
        del holder[last]
    else:
        holder[last] = value
    return json.dumps(copy)


@pytest.fixture(autouse=True)
def _release_that_wrote_them(monkeypatch):
    """Make this program the release that the documents are of."""
    monkeypatch.setattr("csgm_cli.version.__version__", "0.1.0")


def refused(text):
    """The message with which ``text`` is refused."""
    with pytest.raises(UsageError) as caught:
        load_saved(text)
    assert caught.value.slug == "bad-result-file"
    return caught.value.message


PLANNED = {
    "schema": "csgm/plan/1",
    "csgm_version": "0.1.0",
    "inputs": {"mechanism": "l2-csgm", "delta": 1e-8, "l2_norm": 1.0},
    "result": {"rows": [{"mechanism": "l2-csgm", "gamma": 0.02, **CALIBRATED["result"]}], "gamma": 0.02},
    "warnings": [],
}
CURVE = {
    **ACCOUNTED,
    "inputs": {**INPUTS, "delta": [1e-6, 1e-8]},
    "result": {"rows": [{"epsilon": 4.0, "delta": 1e-6}, {"epsilon": 5.0, "delta": 1e-8}]},
}
ASKED_DELTA = {
    **ACCOUNTED,
    "inputs": {**INPUTS, "delta": None, "epsilon": 5.0},
    "result": {"epsilon": 5.0, "delta": 1e-8},
}


@pytest.mark.parametrize("version", ["0.1.0", "1.2.3rc1", "0.1.0.dev5+g0123abc"])
def test_versions(version):
    """Releases and development versions are versions."""
    assert load_saved(changed(CALIBRATED, "csgm_version", version)).csgm_version == version


def test_calibrate_result():
    """A calibration gives its own noise multiplier and the guarantee it achieved."""
    assert load_saved(json.dumps(CALIBRATED)) == SavedResult(
        "calibrate",
        {"mechanism": "l2-csgm", "gamma": 0.01},
        0.0125,
        ((4.999, 1e-8),),
        "0.1.0",
        None,
        (CALIBRATED["result"],),
        0.0125,
    )
    assert not load_saved(json.dumps(CALIBRATED)).asked_delta


def test_account_result():
    """An account has its noise multiplier among the inputs; whole numbers are numbers too."""
    assert load_saved(json.dumps(ACCOUNTED)) == SavedResult(
        "account", INPUTS, 0.0122, ((5, 1e-8),), "0.1.0", None, ({"epsilon": 5, "delta": 1e-8},), 0.0122
    )
    assert load_saved(json.dumps(ASKED_DELTA)).asked_delta


@pytest.mark.parametrize("document", [ACCOUNTED, CALIBRATED])
def test_sigma_that_was_not_given(document):
    """Csgm 0.1.0 wrote null for the sigma of an account of a noise multiplier."""
    told = {**document, "inputs": {**document["inputs"], "sigma": None, "l2_norm": 3}}
    if document is ACCOUNTED:
        assert load_saved(json.dumps(told)).sigma == 3 * 0.0122
    else:  # where it never stood
        assert load_saved(json.dumps(told)).sigma == 3 * 0.0125


def test_plan_result():
    """A plan gives the noise of its one row, at the gamma that it chose."""
    saved = load_saved(json.dumps(PLANNED))
    assert (saved.noise_multiplier, saved.guarantees) == (0.0125, ((4.999, 1e-8),))
    assert saved.inputs["gamma"] == 0.02


def test_several_deltas():
    """A curve gives a guarantee for each delta."""
    assert load_saved(json.dumps(CURVE)).guarantees == ((4.0, 1e-6), (5.0, 1e-8))


@pytest.mark.parametrize(
    ("document", "path", "value", "reason"),
    [
        (PLANNED, "result", {}, "rows does not hold"),
        (PLANNED, "result.rows", [], "rows does not hold"),
        (PLANNED, "result.rows", PLANNED["result"]["rows"] * 2, "rows does not hold"),
        (PLANNED, "result.rows", [7], "a row of the result is not a JSON object"),
        (PLANNED, "inputs.delta", 1e-9, "inputs.delta 1e-09 disagrees"),
        (PLANNED, "inputs.mechanism", "linf-csgm", "inputs.mechanism 'linf-csgm' disagrees with 'l2-csgm'"),
        (PLANNED, "result.gamma", 0.03, "result.gamma 0.03 disagrees with gamma in the row = 0.02"),
        (PLANNED, "result.compression", 40.0, "result.gamma 0.02 disagrees with 1 / compression = 0.025"),
        (CURVE, "result.rows", CURVE["result"]["rows"][:1], "result.rows must be a list of 2"),
        (CURVE, "inputs.delta", [1e-6, 1e-7, 1e-8], "2 results for 3 deltas"),
        (CURVE, "inputs.delta", [1e-8, 1e-6], "inputs.delta 1e-08 disagrees"),
        (CALIBRATED, "result.sigma", 0.012, "sigma 0.012 disagrees"),
        (CALIBRATED, "result.effective_noise_multiplier", 1.2, "noise_multiplier 0.0125 disagrees"),
        (CALIBRATED, "inputs.epsilon", 1e5, "epsilon must be a number in"),
        (ACCOUNTED, "inputs.sigma", 0.0123, "sigma 0.0123 disagrees"),
        (ACCOUNTED, "inputs.effective_noise_multiplier", 1.23, "noise_multiplier 0.0122 disagrees"),
        (ASKED_DELTA, "inputs.epsilon", 4.0, "inputs.epsilon 4.0 disagrees"),
        (ASKED_DELTA, "inputs.delta", 1e-8, "either epsilon or delta"),
        (ASKED_DELTA, "inputs.epsilon", None, "either epsilon or delta"),
    ],
)
def test_numbers_that_disagree(document, path, value, reason):
    """Of two numbers that say the same, one was changed: the file is refused."""
    sizes = {"l2_norm": 1.0, "norm_ratio": 1000.0}
    full = {**document, "inputs": {**document["inputs"], **sizes}}
    load_saved(json.dumps(full))
    assert reason in refused(changed(full, path, value))


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("schema", ..., "schema is missing"),
        ("schema", 1, "schema is missing or not a string"),
        ("schema", "csgm/calibrate/2", "'csgm/calibrate/2', expected 'csgm/calibrate/1'"),
        ("schema", "csgm/compare/1", "a comparison holds several mechanisms"),
        ("schema", "csgm/version/1", "schema is 'csgm/version/1'"),
        ("csgm_version", ..., "csgm_version is missing"),
        ("csgm_version", "", "csgm_version is '', which is no version"),
        ("csgm_version", "1\x1b[31m", r"csgm_version is '1\x1b[31m', which"),
        ("csgm_version", "1\n", "which is no version"),
        ("csgm_version", "9" * 65, "which is no version"),
        ("schema", "x" * 10**5, "xxx..., expected"),
        ("inputs", ..., "inputs is not a JSON object"),
        ("inputs", [], "inputs is not a JSON object"),
        ("result", None, "result is not a JSON object"),
        ("result", {"rows": []}, "result holds 'rows', which no result has there"),
        ("result.noise_multiplier", ..., "noise_multiplier is missing"),
        ("result.noise_multiplier", 0, "noise_multiplier must be above 0"),
        ("result.noise_multiplier", 1e-20, "noise_multiplier must be a number in"),
        ("result.noise_multiplier", True, "noise_multiplier must be number, got True"),
        ("result.noise_multiplier", "1", "noise_multiplier must be number, got '1'"),
        ("result.epsilon", -0.1, "result.epsilon must be at least 0, got -0.1"),
        ("result.epsilon", None, "result.epsilon must be number, got None"),
        ("result.epsilon", ..., "epsilon is missing or not a number"),
        ("result.epsilon", 10**400, "which is beyond float64"),
        ("result.delta", 1.5, "result.delta must be at most 1, got 1.5"),
        ("result.delta", 1e-301, "delta must be a number in"),
        ("result.delta", 0, "result.delta must be above 0, got 0"),
        ("result.bound", "best", 'result.bound must be "exact" or "rdp" or "paper" or '),
        ("result.order", 0.5, "result.order must be at least 1, got 0.5"),
        ("result.sigma", False, "result.sigma must be number, got False"),
        ("result.assumptions", ["Trust!"], "result.assumptions[0] must be text like ^[a-z0-9]+(-"),
        ("result.mse", {"total": 1.0}, "result.mse.privacy is missing"),
        ("result.verified", {"digits": 0, "relative_difference": 0}, "verified.digits must be at least 1"),
        ("result.mse", [], "result.mse must be object or null, got []"),
        ("inputs.linf_norm", "rdp", "inputs.linf_norm must be number or null, got 'rdp'"),
        ("inputs.compression", -1, "inputs.compression must be at least 1, got -1"),
        ("inputs.delta", "gaussian", "inputs.delta must be number, got 'gaussian'"),
        ("inputs.value_bits", "rdp", "inputs.value_bits must be integer, got 'rdp'"),
        ("inputs.value_bits", 32.5, "inputs.value_bits must be integer, got 32.5"),
        ("inputs.T", "64", "inputs.T must be integer, got '64'"),
        ("inputs.l2_norm", 0, "inputs.l2_norm must be above 0, got 0"),
        ("inputs.stranger", 1, "inputs holds 'stranger', which no result has there"),
        ("warnings", "none", "warnings must be array, got 'none'"),
        ("stranger", 1, "the file holds 'stranger', which no result has there"),
    ],
)
def test_wrong_content(path, value, reason):
    """A missing or wrong key is refused by name."""
    assert reason in refused(changed(CALIBRATED, path, value))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        (json.dumps(CALIBRATED)[:-20], "not JSON"),
        ("[]", "the file is not a JSON object"),
        ("null", "the file is not a JSON object"),
        (json.dumps({**CALIBRATED, "x": float("nan")}), "NaN"),
        (json.dumps({**CALIBRATED, "x": float("-inf")}), "-Infinity"),
        (json.dumps(CALIBRATED).replace("4.999", "1e-400"), "'1e-400', which float64 cannot tell from 0"),
        (json.dumps(CALIBRATED).replace("4.999", "1e999"), "'1e999', which is beyond float64"),
        (json.dumps({**CALIBRATED, "x": [{"y": -(10**400)}]}), "which is beyond float64"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("1" * 5000, "beyond float64"),
    ],
    ids=lambda value: value[:20],
)
def test_wrong_text(text, reason):
    """Truncated files, other JSON, NaN and infinity, absurd nesting and numbers are refused."""
    assert reason in refused(text)


def test_repeated_keys():
    """Of two equal keys a reader sees the one, and a program the other; wherever they stand."""
    text = json.dumps(CALIBRATED)
    for key, value in (("epsilon", "4.0"), ("gamma", "0.01"), ("schema", '"csgm/calibrate/1"')):
        assert f"it holds {key!r} twice" in refused(text.replace(f'"{key}":', f'"{key}": {value}, "{key}":'))


def test_keys_and_words_of_a_later_version():
    """They are none of ours, but what is known has the type that it always has."""
    later = {**CALIBRATED, "csgm_version": "99.0", "stranger": [1]}
    later["result"] = {**CALIBRATED["result"], "bound": "best", "stranger": {}}
    assert load_saved(json.dumps(later)).csgm_version == "99.0"
    assert "result.order must be" in refused(changed(later, "result.order", "3"))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*CALIBRATED, *INPUTS, "rows"]), inner),
    max_leaves=8,
)


@given(
    st.text()
    | JSON.map(json.dumps)
    | st.builds(changed, st.just(CALIBRATED), st.sampled_from(["result", "inputs", "result.delta"]), JSON)
)
def test_any_text(text):
    """Whatever the file holds, it is a result with sound numbers or a usage error."""
    try:
        saved = load_saved(text)
    except UsageError:
        return
    assert saved.noise_multiplier > 0
    [(epsilon, delta)] = saved.guarantees
    assert epsilon >= 0
    assert 0 < delta <= 1
