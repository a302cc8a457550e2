"""Plans: what runs is what was calibrated, from a result in memory or in a file, or it is refused."""

import dataclasses
import json
import math

import numpy as np
import pytest

from csgm_cli import (
    Geometry,
    Mechanism,
    Target,
    calibrate,
    encode,
    factor_norms,
    factorize,
)
from csgm_cli.cli import main
from csgm_cli.errors import NoAnswerError, StorageError, UsageError
from csgm_cli.mechanism.plan import (
    FLOAT16,
    FLOAT32,
    Plan,
    Rotation,
    WireFormat,
    client_plan,
    client_values,
    load_plan,
    plan_of,
    rotated_length,
)

GEOMETRY = Geometry(4.0, 0.5, dim=64, cohort_size=100)
MECHANISM = Mechanism("l2-csgm", 0.3, GEOMETRY, rounds=2)


def test_plan_of_a_calibration_has_its_mechanism_and_noise():
    answer = calibrate(MECHANISM, Target(2.0, 1e-6))
    plan = plan_of(answer, Rotation.DCT, FLOAT16, 7)
    assert plan == Plan(MECHANISM, answer.sigma, Rotation.DCT, FLOAT16, 7)
    assert (plan.dim, plan.cohort_size, plan.l2_norm, plan.linf_norm) == (64, 100, 0.5, 0.125)
    assert plan.gamma == math.floor(0.3 * 2**32) / 2**32 < 0.3


@pytest.mark.parametrize(
    ("name", "l2_norm", "linf_norm"),
    [("l2-csgm", 0.5, 0.125), ("gaussian", 0.5, 0.5), ("linf-csgm", 1.0, 0.125)],
)
def test_norms_are_those_that_the_mechanism_clips_or_implies(name, l2_norm, linf_norm):
    """Where only one is clipped, the other follows: |x|_inf <= |x|_2, and |x|_2 <= sqrt(64) |x|_inf."""
    gamma = 1.0 if name == "gaussian" else 0.3
    plan = Plan(Mechanism(name, gamma, GEOMETRY, rounds=1), 1.0)
    assert (plan.l2_norm, plan.linf_norm) == (l2_norm, linf_norm)


FLAGS = "--epsilon 2 --delta 1e-6 --dim 64 --cohort-size 100 --l2-norm 0.5 --norm-ratio 4"
OPTIONS = {
    "csgm": ("--gamma 0.3 --rounds 2", {"gamma": 0.3, "rounds": 2}),
    "replace-one": (
        "--gamma 0.3 --rounds 2 --adjacency replace-one",
        {"gamma": 0.3, "rounds": 2, "adjacency": "replace-one"},
    ),
    "linf": (
        "--gamma 0.3 --rounds 2 --mechanism linf-csgm",
        {"name": "linf-csgm", "gamma": 0.3, "rounds": 2},
    ),
    "paper": ("--gamma 0.3 --rounds 2 --accountant paper", {"gamma": 0.3, "rounds": 2}),
    "sampling": (
        "--gamma 0.3 --rounds 40 --sampling-rate 0.1",
        {"gamma": 0.3, "rounds": 40, "sampling_rate": 0.1},
    ),
    "fixed order": (
        "--gamma 0.3 --population-size 1000 --training-rounds 30",
        {"gamma": 0.3, "rounds": 3, "disjoint_cohorts": True},
    ),
}


def saved(place, options, command="calibrate"):
    """The file that the command saves."""
    path = place / "result.json"
    assert main([command, "--format", "json", "--output", str(path), *options.split()]) == 0
    return path


@pytest.mark.parametrize("case", OPTIONS)
def test_load_plan_reads_what_calibrate_saved(place, case):
    options, expected = OPTIONS[case]
    path = saved(place, f"{FLAGS} {options}")
    plan = load_plan(path, Rotation.NONE, WireFormat(8), 5)
    mechanism = Mechanism(**{"name": "l2-csgm", "geometry": GEOMETRY} | expected)
    sigma = json.loads(path.read_text())["result"]["sigma"]
    assert plan == Plan(mechanism, sigma, Rotation.NONE, WireFormat(8), 5)


def test_load_plan_of_the_gaussian_mechanism(place):
    options = "--mechanism gaussian --rounds 3 --epsilon 2 --delta 1e-6 --dim 64 --cohort-size 100"
    plan = load_plan(saved(place, options))
    assert plan.mechanism == Mechanism("gaussian", geometry=Geometry(dim=64, cohort_size=100), rounds=3)
    assert (plan.rotation, plan.wire, plan.rotation_seed) == (Rotation.HADAMARD, FLOAT32, 0)


def test_load_plan_of_a_factorization_knows_its_norms(place):
    plan = load_plan(saved(place, f"{FLAGS} --gamma 0.3 --factorization optimal:8 --epochs 2"))
    norms = factor_norms(factorize(8))
    found = plan.mechanism.factorization
    assert (found.T, found.workload, found.strategy) == (8, "prefix-sum", "optimal")
    assert found.sensitivity == pytest.approx(norms.sensitivity, rel=1e-8)
    assert plan.mechanism.epochs == 2


def test_load_plan_takes_the_result_of_plan(place):
    path = saved(place, f"{FLAGS} --rounds 2 --max-noise-overhead 0.1", "plan")
    row = json.loads(path.read_text())["result"]["rows"][0]
    plan = load_plan(path)
    assert (plan.mechanism.gamma, plan.sigma) == (row["gamma"], row["sigma"])


def changed(path, **inputs):
    """The saved result with other inputs, and the numbers that follow from them."""
    document = json.loads(path.read_text())
    document["inputs"].update(inputs)
    result, l2_norm = document["result"], document["inputs"]["l2_norm"]
    result["noise_multiplier"] = result["sigma"] / l2_norm
    result["effective_noise_multiplier"] = result["noise_multiplier"] / document["inputs"]["gamma"]
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "inputs",
    [
        {"rounds": 3},
        {"l2_norm": 0.6},
        {"gamma": 0.4, "compression": 2.5},
        {"adjacency": "replace-one"},
        {"mechanism": "linf-csgm"},
        {"norm_ratio": 3.0},
        {"epsilon": 1.0},
    ],
    ids=lambda inputs: next(iter(inputs)),
)
def test_an_edited_result_is_not_run(place, inputs):
    path = changed(saved(place, f"{FLAGS} --gamma 0.3 --rounds 2"), **inputs)
    with pytest.raises((NoAnswerError, UsageError)) as error:
        load_plan(path)
    assert error.value.slug in ("not-proven", "bad-result-file")
    assert str(path) in error.value.message


@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_less_noise_than_the_guarantee_needs_is_not_run(place, name):
    """All that the file says is changed to a stronger guarantee, except the noise."""
    path = saved(place, f"{FLAGS} --gamma 0.3 --rounds 2")
    document = json.loads(path.read_text())
    document["inputs"][name] = document["result"][name] = {"epsilon": 1.999, "delta": 0.99e-6}[name]
    words = {"epsilon": "(1.999, 1e-6)", "delta": "(2, 9.9e-7)"}[name]
    assert "(2, 1e-6)-differential" in document["result"]["statement"]
    document["result"]["statement"] = document["result"]["statement"].replace("(2, 1e-6)", words)
    path.write_text(json.dumps(document))
    with pytest.raises(NoAnswerError) as error:
        load_plan(path)
    assert error.value.slug == "not-proven"
    assert error.value.exit_status == 3


@pytest.mark.parametrize("version", ["0.1.9", "0.2.0.dev0"])
def test_a_statement_in_other_words_is_a_warning(place, version):
    """Another version may have said the same in other words: its numbers count."""
    path = saved(place, f"{FLAGS} --gamma 0.3 --rounds 2")
    plan, document = load_plan(path), json.loads(path.read_text())
    document["csgm_version"] = version
    document["result"]["statement"] = "Private."
    path.write_text(json.dumps(document))
    with pytest.warns(UserWarning, match="the saved statement is not what"):
        assert load_plan(path) == plan


def test_an_account_is_not_run(place):
    """It may be of any noise, and lacks what its inputs are checked by."""
    options = f"--sigma 0.6 --gamma 0.3 --rounds 2 {FLAGS}".replace("--epsilon 2 ", "")
    path = saved(place, options, "account")
    with pytest.raises(UsageError, match="no calibration") as error:
        load_plan(path)
    assert error.value.slug == "bad-result-file"


@pytest.mark.parametrize("missing", ["dim", "cohort_size"])
def test_sizes_are_needed(missing):
    geometry = dataclasses.replace(GEOMETRY, **{missing: None})
    with pytest.raises(UsageError) as error:
        Plan(dataclasses.replace(MECHANISM, geometry=geometry), 1.0)
    assert error.value.slug == "cannot-run"
    assert missing in error.value.message


@pytest.mark.parametrize("name", ["linf-csgm", "l2-csgm"])
@pytest.mark.parametrize(
    ("rotation", "dim", "runs"),
    [
        (Rotation.HADAMARD, 64, True),
        (Rotation.HADAMARD, 65, False),
        (Rotation.DCT, 60, True),
        (Rotation.DCT, 61, False),
        (Rotation.KASHIN, 64, False),
        (Rotation.NONE, 61, True),
    ],
)
def test_mechanisms_that_rely_on_dim_run_only_with_that_many_coordinates(name, rotation, dim, runs):
    """The noise of L-inf-CSGM grows with their number; so may that of L2-CSGM where k = dim, whose worst-case
    vector has all dim coordinates at the clip: with padding, others of the same L2 norm have more.
    """
    geometry = Geometry(4.0 if name == "linf-csgm" else math.sqrt(dim), dim=dim, cohort_size=100)
    mechanism = Mechanism(name, 0.3, geometry, rounds=1)
    if runs:
        assert Plan(mechanism, 1.0, rotation).length == dim
        return
    with pytest.raises(UsageError) as error:
        Plan(mechanism, 1.0, rotation)
    assert error.value.slug == "cannot-run"
    length = rotated_length(rotation, dim)
    assert str(length) in error.value.hint


@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_padding_is_covered_where_not_all_coordinates_can_be_at_the_clip(gamma):
    """Or where all are sent: the sensitivity is then the L2 clip, whatever the number of coordinates."""
    ratio = math.sqrt(65) if gamma == 1.0 else 8.0
    geometry = Geometry(ratio, dim=65, cohort_size=100)
    assert Plan(Mechanism("l2-csgm", gamma, geometry, rounds=1), 1.0).length == 128


@pytest.mark.parametrize(
    ("changes", "slug"),
    [
        ({"sigma": 0.0}, "out-of-range"),
        ({"sigma": math.nan}, "out-of-range"),
        ({"sigma": "1"}, "invalid-type"),
        ({"mechanism": None}, "invalid-type"),
        ({"rotation": "fourier"}, "unknown-choice"),
        ({"rotation": None}, "unknown-choice"),
        ({"wire": "float32"}, "invalid-type"),
        ({"rotation_seed": -1}, "out-of-range"),
        ({"rotation_seed": 0.5}, "out-of-range"),
        ({"rotation_seed": None}, "invalid-type"),
    ],
)
def test_wrong_fields_are_refused(changes, slug):
    with pytest.raises(UsageError) as error:
        dataclasses.replace(Plan(MECHANISM, 1.0), **changes)
    assert error.value.slug == slug


@pytest.mark.parametrize(
    ("bits", "floating", "slug"),
    [
        (3, False, "out-of-range"),
        (17, False, "unknown-wire-format"),
        (32, False, "unknown-wire-format"),
        (8, True, "unknown-wire-format"),
        (64, True, "out-of-range"),
        (8.5, False, "out-of-range"),
        ("8", False, "invalid-type"),
        (16, 1, "invalid-type"),
    ],
)
def test_other_wire_formats_are_refused(bits, floating, slug):
    with pytest.raises(UsageError) as error:
        WireFormat(bits, floating)
    assert error.value.slug == slug


def test_files_that_hold_no_result_are_refused(tmp_path):
    with pytest.raises(StorageError):
        load_plan(tmp_path / "missing.json")
    path = tmp_path / "empty.json"
    path.write_text("{}")
    with pytest.raises(UsageError) as error:
        load_plan(path)
    assert error.value.slug == "bad-result-file"


def test_a_plan_of_something_else_is_refused():
    with pytest.raises(UsageError) as error:
        plan_of(MECHANISM)
    assert error.value.slug == "invalid-type"


def test_rotation_may_be_given_as_text():
    assert Plan(MECHANISM, 1.0, "dct").rotation is Rotation.DCT


@pytest.mark.parametrize("name", ["l2-csgm", "linf-csgm", "gaussian"])
@pytest.mark.parametrize("wire", [FLOAT32, WireFormat(7)])
def test_a_client_encodes_alike_by_the_values_that_it_is_sent(name, wire):
    """Byte for byte, whatever the noise and the cohorts, of which it learns nothing."""
    geometry = Geometry(4.0, 0.3, dim=64, cohort_size=1000)
    mechanism = Mechanism(name, 1.0 if name == "gaussian" else 0.3, geometry, 9, sampling_rate=0.1)
    plan = Plan(mechanism, 0.25, Rotation.DCT, wire, rotation_seed=7)
    values = client_values(plan)
    assert {type(value) for value in values.values()} <= {bool, int, float, str}
    assert not {0.25, 1000, 9, 0.1} & set(values.values())
    vector = np.random.default_rng(0).normal(size=64)
    assert encode(client_plan(values), vector, b"s" * 16) == encode(plan, vector, b"s" * 16)


def test_values_for_a_client_are_checked():
    """They come over a network: each missing or wrong one is a usage error."""
    values = client_values(Plan(Mechanism("gaussian", geometry=Geometry(dim=8, cohort_size=2)), 1.0))
    wrong = {"mechanism": "other", "gamma": 2.0, "norm_ratio": "1", "l2_norm": -1.0, "dim": 10**20}
    wrong |= {"rotation": "spin", "rotation_seed": -1, "bits": 5000, "floating": 1}
    for name in values:
        with pytest.raises(UsageError, match=name):
            client_plan({key: value for key, value in values.items() if key != name})
        with pytest.raises(UsageError):
            client_plan({**values, name: wrong[name]})
