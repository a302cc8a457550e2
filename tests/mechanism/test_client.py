"""What clients send: clipped and rounded values, whose norms are never above the calibrated ones."""

import contextlib
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from csgm_cli import Geometry, Mechanism
from csgm_cli.errors import UsageError
from csgm_cli.mechanism.client import encode
from csgm_cli.mechanism.clip import l2_scale, norm_upper
from csgm_cli.mechanism.masks import mask_positions
from csgm_cli.mechanism.plan import FLOAT16, FLOAT32, Plan, Rotation, WireFormat
from csgm_cli.mechanism.rotation import rotate, rotate_back
from csgm_cli.mechanism.wire import decode, fingerprint, pack

SEED = bytes(range(16))
WIRES = [FLOAT32, FLOAT16, *(WireFormat(bits) for bits in (4, 5, 8, 11, 16))]


def plan_for(
    dim=32, *, name="l2-csgm", gamma=0.5, ratio=2.0, l2_norm=1.0, rotation=Rotation.NONE, wire=FLOAT32
):
    geometry = Geometry(ratio, l2_norm, dim=dim, cohort_size=10)
    mechanism = Mechanism(name, 1.0 if name == "gaussian" else gamma, geometry, rounds=1)
    return Plan(mechanism, 1.0, rotation, wire)


def sent(plan, vector, seed=SEED):
    return decode(plan, encode(plan, vector, seed), seed)


def exact_squares(values):
    return sum(Fraction(float(value)) ** 2 for value in values)


vectors = arrays.arrays(np.float64, 32, elements=st.floats(-1e300, 1e300) | st.floats(-2, 2))
norms = st.sampled_from([1e-30, 3e-7, 1.0, math.pi, 1e30]) | st.floats(1e-6, 1e6)


@given(
    vector=vectors,
    l2_norm=norms,
    ratio=st.floats(1.0, math.sqrt(32)),
    gamma=st.sampled_from([0.3, 1.0]),
    name=st.sampled_from(["l2-csgm", "linf-csgm", "gaussian"]),
    rotation=st.sampled_from(Rotation),
    wire=st.sampled_from(WIRES),
)
@settings(max_examples=400)
def test_decoded_norms_never_exceed_the_clip(vector, l2_norm, ratio, gamma, name, rotation, wire):
    """In exact arithmetic; and the receiver accepts all that a client sends."""
    if name == "linf-csgm" and rotation is Rotation.KASHIN:
        rotation = Rotation.NONE  # it has more coordinates than were calibrated for
    plan = plan_for(name=name, gamma=gamma, ratio=ratio, l2_norm=l2_norm, rotation=rotation, wire=wire)
    _, values = sent(plan, vector)
    largest = l2_norm if name == "gaussian" else l2_norm / ratio
    assert all(abs(float(value)) <= largest for value in values)
    if name != "linf-csgm":
        assert exact_squares(values) <= Fraction(l2_norm) ** 2


@given(vectors.filter(lambda vector: np.abs(vector).max() < 1e100), st.sampled_from(WIRES), norms)
def test_values_are_those_of_the_clipped_vector_truncated_toward_zero(vector, wire, l2_norm):
    """Against the definition in plain arithmetic, to the resolution of the format; signs included."""
    plan = plan_for(wire=wire, l2_norm=l2_norm, ratio=4.0)
    positions, values = sent(plan, vector)
    norm = math.sqrt(math.fsum(float(x / l2_norm) ** 2 for x in vector)) * l2_norm
    clipped = np.clip(vector * min(1.0, l2_norm / norm if norm else 1.0), -l2_norm / 4, l2_norm / 4)
    expected = clipped[positions]
    unit = l2_norm / 4
    resolution = {FLOAT32: 2.0**-23, FLOAT16: 2.0**-10}
    step = resolution[wire] * np.abs(expected) + 2.0**-24 * unit if wire.floating else np.array(unit)
    step = step if wire.floating else step / (2 ** (wire.bits - 1) - 1)
    assert (np.abs(values) <= np.abs(expected) * (1 + 1e-12)).all()
    assert (np.abs(expected - values) <= step * (1 + 1e-9) + 1e-12 * np.abs(expected)).all()
    assert (values * expected >= 0).all()


def test_hand_worked_levels():
    """4 bits: levels of 1/7 of the L-inf clip 0.5, cut off toward zero."""
    vector = np.array([0.5, -0.5, 0.4, -0.1, 0.07, 0.0, 1e-9, -0.3]) / 2
    plan = plan_for(8, gamma=1.0, ratio=2.0, wire=WireFormat(4))
    _, values = sent(plan, vector)
    np.testing.assert_allclose(values * 14, [3, -3, 2, 0, 0, 0, 0, -2], atol=1e-12)


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_largest_values_survive(wire):
    """A coordinate at the L-inf clip is sent as the clip, up to rounding of the step."""
    _, values = sent(plan_for(4, gamma=1.0, ratio=2.0, wire=wire), np.array([0.5, -0.5, 0.5, 0.0]))
    np.testing.assert_allclose(values, [0.5, -0.5, 0.5, 0.0], rtol=1e-13)


@given(wire=st.sampled_from(WIRES), l2_norm=norms, ratio=st.floats(1.0, math.sqrt(32)))
def test_values_near_a_level_or_the_clip_are_rounded_toward_zero(wire, l2_norm, ratio):
    """Those that the format has are kept, and the next smaller floats go to the next smaller value."""
    plan = plan_for(name="linf-csgm", gamma=1.0, ratio=ratio, l2_norm=l2_norm, wire=wire)
    given = plan.linf_norm * np.linspace(-1, 1, 32)
    _, levels = unpacked(plan, given)
    assert levels[0] == pytest.approx(-plan.linf_norm, rel=1e-13)
    assert levels[-1] == pytest.approx(plan.linf_norm, rel=1e-13)
    for values in (levels, np.nextafter(levels, 0), np.nextafter(levels, np.copysign(np.inf, levels))):
        _, found = unpacked(plan, values)
        assert (np.abs(found) <= np.abs(values)).all()
        assert (np.abs(found) <= np.abs(levels)).all()
    assert (unpacked(plan, levels)[1] == levels).all()


def test_the_clip_itself_is_a_level():
    """Of 200 clips, seven times the rounded seventh exceeds one in twenty; the step is rounded down."""
    for l2_norm in np.random.default_rng(8).uniform(1, 2, 200):
        plan = plan_for(2, name="linf-csgm", gamma=1.0, ratio=1.0, l2_norm=l2_norm, wire=WireFormat(4))
        _, values = unpacked(plan, np.array([l2_norm, -l2_norm]))
        np.testing.assert_allclose(values, [l2_norm, -l2_norm], rtol=1e-13)


def unpacked(plan, values):
    """What is decoded of values that are packed as they are."""
    return decode(plan, pack(plan, values, SEED), SEED)


@pytest.mark.parametrize("wire", WIRES, ids=str)
@pytest.mark.parametrize("rotation", Rotation)
def test_lengths_depend_on_the_mask_only(wire, rotation):
    plan = plan_for(100, gamma=0.3, rotation=rotation, wire=wire)
    draw = np.random.default_rng(1)
    inputs = [np.zeros(100), np.ones(100), draw.normal(size=100), 1e300 * draw.normal(size=100)]
    payloads = [encode(plan, vector, SEED) for vector in inputs]
    count = len(mask_positions(SEED, 0.3, plan.length))
    assert {len(payload) for payload in payloads} == {16 + math.ceil(count * wire.bits / 8)}
    assert len({payload[:16] for payload in payloads}) == 1


def test_only_masked_coordinates_are_sent():
    """The other coordinates can be anything that leaves the clip alone."""
    plan, vector = plan_for(64), np.full(64, 0.01)
    other = vector.copy()
    other[np.setdiff1d(np.arange(64), mask_positions(SEED, 0.5, 64))] = -0.02
    assert encode(plan, vector, SEED) == encode(plan, other, SEED)


@pytest.mark.parametrize("scale", [1.0, 1e10, 1e150, 1e290, 1.7e308])
@pytest.mark.parametrize("rotation", Rotation)
def test_large_vectors_are_scaled_to_the_clip(scale, rotation):
    """All multiples of a vector beyond the clip are sent alike, up to rounding."""
    plan = plan_for(50, ratio=1.0, gamma=1.0, rotation=rotation)
    vector = np.random.default_rng(2).uniform(-1, 1, 50)
    _, values = sent(plan, vector * scale)
    expected = rotate(plan, vector)
    np.testing.assert_allclose(values, expected / np.linalg.norm(expected), rtol=1e-6)


def test_large_vectors_reach_the_linf_clip():
    """Without an L2 clip, with a rotation whose sums would overflow."""
    plan = plan_for(64, name="linf-csgm", gamma=1.0, rotation=Rotation.HADAMARD)
    _, values = sent(plan, np.full(64, 1.7e308))
    signs = np.sign(rotate(plan, np.ones(64)))
    np.testing.assert_array_equal(values, plan.linf_norm * signs)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64, np.uint8])
def test_other_number_types_are_converted(dtype):
    vector = np.arange(32).astype(dtype)
    assert encode(plan_for(), vector, SEED) == encode(plan_for(), vector.astype(float), SEED)


@given(arrays.arrays(np.float64, st.integers(1, 300), elements=st.floats(-1e6, 1e6)), norms)
def test_scaled_vectors_are_within_the_clip_with_room_for_rounding(values, l2_norm):
    """The bound that a receiver computes is then at most the clip, for all values and for half of them."""
    plan = plan_for(len(values), ratio=1.0, l2_norm=l2_norm)
    scaled = values * l2_scale(plan, values)
    assert norm_upper(scaled) <= l2_norm
    assert norm_upper(scaled[::2]) <= l2_norm


@example(np.array([8.6e-244]))
@example(np.array([5e-324, 5e-324]))
@given(arrays.arrays(np.float64, st.integers(0, 300), elements=st.floats(-1e140, 1e140)))
def test_norm_upper_is_an_upper_bound(values):
    squares = exact_squares(values)
    assert Fraction(norm_upper(values)) ** 2 >= squares
    loose = Fraction(norm_upper(values)) / (1 + Fraction(1, 10**12)) - Fraction(1e-323)
    assert loose <= 0 or loose**2 <= squares


@pytest.mark.parametrize(
    ("vector", "slug"),
    [
        (np.full(32, np.nan), "not-finite"),
        (np.r_[np.inf, np.zeros(31)], "not-finite"),
        (np.r_[-np.inf, np.zeros(31)], "not-finite"),
        (np.r_[np.zeros(31), np.nan], "not-finite"),
        (np.frombuffer(b"\0\0\x81\x7f" * 32, "<f4"), "not-finite"),  # signalling NaN
        (np.full(32, np.longdouble(2) ** 2000), "not-finite"),
        (np.zeros(31), "wrong-shape"),
        (np.zeros((1, 32)), "wrong-shape"),
        (np.zeros(0), "wrong-shape"),
        (1.0, "wrong-shape"),
        (np.zeros(32, complex), "invalid-type"),
        (np.zeros(32, bool), "invalid-type"),
        (["1"] * 32, "invalid-type"),
        (None, "invalid-type"),
        ([None] * 32, "invalid-type"),
    ],
)
@pytest.mark.parametrize("name", ["l2-csgm", "linf-csgm", "gaussian"])
def test_unfit_vectors_are_refused(name, vector, slug):
    with pytest.raises(UsageError) as error:
        encode(plan_for(name=name), vector, SEED)
    assert error.value.slug == slug


def test_short_seeds_are_refused():
    with pytest.raises(UsageError) as error:
        encode(plan_for(), np.zeros(32), bytes(8))
    assert error.value.slug == "short-seed"


def refusal(plan, payload, seed=SEED):
    with pytest.raises(UsageError) as error:
        decode(plan, payload, seed)
    return error.value.slug


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_damaged_payloads_are_refused(wire):
    plan = plan_for(wire=wire)
    payload = encode(plan, np.ones(32), SEED)
    assert refusal(plan, b"") == "payload-header"
    assert refusal(plan, payload[:15]) == "payload-header"
    assert refusal(plan, b"X" + payload[1:]) == "payload-header"
    assert refusal(plan, payload[:4] + b"\2" + payload[5:]) == "payload-version"
    assert refusal(plan, payload[:4] + b"\0" + payload[5:]) == "payload-version"
    assert refusal(plan, payload[:8] + bytes(8) + payload[16:]) == "payload-plan"
    assert refusal(plan, payload[:-1]) == "payload-length"
    assert refusal(plan, payload + b"\0") == "payload-length"
    assert refusal(plan, payload[:16]) == "payload-length"
    assert refusal(plan, payload, bytes(16)) == "payload-plan"  # another client, or another round
    assert refusal(plan, "text") == "payload-header"
    assert refusal(plan, None) == "payload-header"


@pytest.mark.parametrize("wire", [FLOAT32, FLOAT16], ids=str)
@pytest.mark.parametrize(
    ("code", "slug"),
    [
        *((code, "payload-values") for code in (math.nan, math.inf, -math.inf)),
        *((code, "payload-norm") for code in (1.001, -2.0, 6e4)),
    ],
)
def test_float_codes_that_no_client_sends_are_refused(wire, code, slug):
    plan = plan_for(wire=wire)
    kind = f"<f{wire.bits // 8}"
    payload = encode(plan, np.zeros(32), SEED)
    changed = payload[:16] + np.array(code, kind).tobytes() + payload[16 + wire.bits // 8 :]
    assert refusal(plan, changed) == slug


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_integer_codes_of_no_level_are_refused(bits):
    plan = plan_for(wire=WireFormat(bits))
    payload = encode(plan, np.zeros(32), SEED)
    assert refusal(plan, payload[:16] + b"\xff\xff" + payload[18:]) == "payload-values"


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_an_l2_norm_above_the_clip_is_refused(wire):
    """Five coordinates at half the L2 clip have norm 1.118; four have norm 1, which is too close to tell."""
    plan = plan_for(16, gamma=1.0, ratio=2.0, wire=wire)
    header = encode(plan, np.zeros(16), SEED)[:16]

    def at_clip(count):
        units = np.r_[np.ones(count), np.zeros(16 - count)]
        if wire.floating:
            return header + units.astype(f"<f{wire.bits // 8}").tobytes()
        top = 2 ** (wire.bits - 1) - 1
        bits = "".join(f"{int(top + unit * top):0{wire.bits}b}" for unit in units)
        return header + int(bits, 2).to_bytes(len(bits) // 8, "big")

    assert refusal(plan, at_clip(5)) == "payload-norm"
    _, values = decode(plan, at_clip(3), SEED)
    np.testing.assert_allclose(values, [0.5] * 3 + [0.0] * 13, rtol=1e-13)


PLANS = {
    "gamma": plan_for(gamma=0.25),
    "dim": plan_for(31),
    "ratio": plan_for(ratio=3.0),
    "l2_norm": plan_for(l2_norm=2.0),
    "mechanism": plan_for(name="linf-csgm"),
    "rotation": plan_for(rotation=Rotation.HADAMARD),
    "other rotation": plan_for(rotation=Rotation.DCT),
    "wire": plan_for(wire=FLOAT16),
    "int16": plan_for(wire=WireFormat(16)),
    "none": plan_for(),
}


def test_other_plans_and_seeds_have_other_fingerprints():
    prints = [fingerprint(plan, SEED) for plan in PLANS.values()]
    prints.append(fingerprint(PLANS["none"], bytes(16)))
    assert all(one != other for one, other in itertools.combinations(prints, 2))


@pytest.mark.parametrize("name", [name for name in PLANS if name != "none"])
def test_payloads_of_other_plans_are_refused(name):
    payload = encode(PLANS[name], np.zeros(PLANS[name].dim), SEED)
    expected = "payload-header" if name in ("wire", "int16") else "payload-plan"
    assert refusal(PLANS["none"], payload) == expected


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_usage_errors(data):
    plan = plan_for(wire=WireFormat(5))
    header = encode(plan, np.zeros(32), SEED)[:16]
    for payload in (data, header + data):
        with contextlib.suppress(UsageError):
            decode(plan, payload, SEED)


def test_refusals_hold_neither_values_nor_counts():
    """Messages are logged where nobody may learn what a client sent, or how many coordinates."""
    plan = plan_for(wire=FLOAT32)
    payload = encode(plan, np.zeros(32), SEED)
    for changed in (payload[:-1], payload[:16] + b"\0\0\xc0\x7f" * ((len(payload) - 16) // 4)):
        with pytest.raises(UsageError) as error:
            decode(plan, changed, SEED)
        assert not any(character.isdigit() for character in error.value.message.replace("L2", ""))


def test_golden_payload():
    """Header, then 0.25 and -0.125 in units of the L-inf clip 0.5, as IEEE 754 numbers."""
    plan = plan_for(2, gamma=1.0, ratio=1.25, l2_norm=0.625)
    payload = encode(plan, np.array([0.25, -0.125]), SEED)
    assert payload[:8] == b"CSGM\x01\x01\x20\x00"
    assert payload[16:].hex() == "0000003f" + "000080be"


def test_mean_of_payloads_is_unbiased():
    """Over 2000 masks, divided by gamma: each of 64 coordinates is within six deviations (1e-7)."""
    plan = plan_for(64, gamma=0.2, ratio=2.0, rotation=Rotation.HADAMARD)
    vector = np.random.default_rng(6).normal(size=64)
    vector *= 0.9 / np.linalg.norm(vector)
    rotated, total = rotate(plan, vector), np.zeros(64)
    for trial in range(2000):
        positions, values = sent(plan, vector, trial.to_bytes(16, "big"))
        total[positions] += values
    deviation = np.abs(rotated) * math.sqrt(0.8 / 0.2 / 2000)
    assert (np.abs(total / 2000 / plan.gamma - rotated) <= 6 * deviation + 1e-6).all()


@pytest.mark.parametrize("rotation", Rotation)
def test_adding_payloads_then_rotating_back_is_rotating_back_then_adding(rotation):
    plan = plan_for(50, gamma=0.3, ratio=3.0, rotation=rotation)
    draw, total, separate = np.random.default_rng(7), np.zeros(plan.length), np.zeros(50)
    for client in range(20):
        seed = client.to_bytes(16, "big")
        positions, values = sent(plan, draw.normal(size=50), seed)
        one = np.zeros(plan.length)
        one[positions] = values
        total += one
        separate += rotate_back(plan, one)
    np.testing.assert_allclose(rotate_back(plan, total), separate, atol=1e-12)
