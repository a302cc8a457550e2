"""Masks: golden bits from OpenSSL's SHAKE128, frequency, independence and refusals.

Statistical tests have fixed seeds; each would fail with probability below 1e-6 for a random choice of them.
"""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.errors import UsageError
from csgm_cli.mechanism.masks import BLOCK, mask_positions
from csgm_cli.mechanism.plan import floored_gamma

SEED = bytes(range(16))


@pytest.mark.parametrize(
    ("gamma", "length", "positions"),
    [  # computed from the output of: openssl dgst -shake128 -xoflen N -binary
        (0.01, 600, [4, 100, 134, 165, 376, 407, 538, 560, 586]),
        (0.3, 40, [0, 4, 14, 16, 17, 19, 23, 24, 26, 30, 34]),
        (1 / 256, 1500, [100, 538, 920, 1094]),
        (0.5, 24, [0, 2, 4, 9, 11, 14, 15, 16, 17, 19, 23]),
        (1e-9, 10, []),
    ],
)
def test_golden_masks(gamma, length, positions):
    assert mask_positions(SEED, gamma, length).tolist() == positions


@pytest.mark.parametrize("gamma", [0.01, 1.0])
def test_a_changed_result_changes_no_later_one(gamma):
    """The mask of the same seed, length and gamma is new each time."""
    first = mask_positions(SEED, gamma, 600)
    kept = first.tolist()
    first += 1
    assert mask_positions(SEED, gamma, 600).tolist() == kept


def test_golden_mask_of_several_blocks_and_a_longer_seed():
    """As above, from three streams of OpenSSL."""
    found = mask_positions(bytes(range(32)), 2e-6, 3 * BLOCK)
    expected = [424442, 588618, 1062896, 1553621, 1654382, 2017073, 2329436, 2613829, 2814158]
    assert found.tolist() == expected


def one_by_one(seed, gamma, length):
    """The specification, coordinate by coordinate: the integer u of each, compared with gamma 2^32."""

    def stream(label, size):
        return hashlib.shake_128(label.ljust(24, b"\0") + bytes(8) + seed).digest(size)

    threshold = math.floor(Fraction(gamma) * 2**32)
    high, low, sent = stream(b"csgm mask 1 high", length), stream(b"csgm mask 1 low", 3 * length), []
    for position in range(length):
        rest = 0
        if high[position] == threshold >> 24:
            rest, low = int.from_bytes(low[:3], "big"), low[3:]
        if (high[position] << 24) + rest < threshold:
            sent.append(position)
    return sent


@given(
    seed=st.binary(min_size=16, max_size=40),
    gamma=st.floats(2.0**-32, 1.0) | st.integers(1, 255).map(lambda byte: byte / 256),
    length=st.integers(0, 700),
)
def test_masks_follow_the_specification(seed, gamma, length):
    found = mask_positions(seed, gamma, length)
    assert found.dtype == np.int64
    assert found.tolist() == one_by_one(seed, gamma, length)


def test_a_coordinate_is_sent_if_its_integer_is_below_the_threshold():
    """Of coordinate 4, from OpenSSL's bytes of both streams (it is the first to tie at its own high byte)."""
    stream = hashlib.shake_128(b"csgm mask 1 low".ljust(24, b"\0") + bytes(8) + SEED).digest(3)
    high = hashlib.shake_128(b"csgm mask 1 high".ljust(24, b"\0") + bytes(8) + SEED).digest(5)[4]
    integer = (high << 24) + int.from_bytes(stream, "big")
    assert 4 not in mask_positions(SEED, integer / 2**32, 5)
    assert 4 in mask_positions(SEED, (integer + 1) / 2**32, 5)


@given(st.floats(2.0**-32, 1.0))
def test_gamma_is_the_largest_multiple_of_its_step_below(gamma):
    steps = Fraction(floored_gamma(gamma)) * 2**32
    assert steps.denominator == 1
    assert 0 <= Fraction(gamma) * 2**32 - steps < 1


@pytest.mark.parametrize("gamma", [0.3, 0.01, 1 / 256, 2**-9])
def test_frequency_is_gamma(gamma):
    """The count is binomial: five standard deviations are exceeded with probability 6e-7."""
    count = len(mask_positions(b"frequency of gamma", gamma, 4 * BLOCK))
    mean = 4 * BLOCK * gamma
    assert abs(count - mean) < 5 * math.sqrt(mean * (1 - gamma))


def dense(seed, gamma, length):
    mask = np.zeros(length)
    mask[mask_positions(seed, gamma, length)] = 1
    return mask


@pytest.mark.parametrize("lag", [1, 2, 8, 64, BLOCK])
def test_coordinates_are_independent(lag):
    """Correlation at a lag, of about 2^20 pairs: normal with variance 1/pairs; six deviations are 2e-9."""
    centred = (dense(b"independent coordinates", 0.1, 2 * BLOCK) - 0.1) / math.sqrt(0.09)
    assert abs(np.mean(centred[lag:] * centred[:-lag])) < 6 / math.sqrt(2 * BLOCK - lag)


def test_clients_and_rounds_are_independent():
    """Masks of seeds that differ in one bit are uncorrelated (six standard deviations, 2e-9)."""
    one, other = (dense(bytes(15) + bytes([last]), 0.1, BLOCK) - 0.1 for last in (0, 1))
    assert abs(np.mean(one * other) / 0.09) < 6 / math.sqrt(BLOCK)


def test_each_coordinate_is_sent_equally_often():
    """Chi-squared over 256 coordinates and 4096 seeds is near 256: seven standard deviations, about 1e-9."""
    counts = sum(dense(seed.to_bytes(16, "big"), 0.25, 256) for seed in range(4096))
    squares = np.sum((counts - 1024) ** 2) / (4096 * 0.25 * 0.75)
    assert abs(squares - 256) < 7 * math.sqrt(2 * 256)


def test_a_prefix_of_a_longer_mask_differs_only_where_bytes_tie():
    """The high bytes do not depend on the length, so that only undecided coordinates may differ."""
    short, long = mask_positions(SEED, 0.01, 300), mask_positions(SEED, 0.01, 600)
    assert long[long < 300].tolist() == short.tolist()


@pytest.mark.parametrize("seed", [b"", bytes(15), "0123456789abcdef", 7, None, bytearray(16)])
def test_short_or_public_looking_seeds_are_refused(seed):
    with pytest.raises(UsageError) as error:
        mask_positions(seed, 0.1, 10)
    assert error.value.slug == "short-seed"


@pytest.mark.parametrize("gamma", [0.0, 2.0**-33, 2.3e-10])
def test_gamma_below_its_step_is_refused(gamma):
    with pytest.raises(UsageError) as error:
        mask_positions(SEED, gamma, 10)
    assert error.value.slug == "gamma-too-small"


@pytest.mark.parametrize("gamma", [-0.1, 1.1, math.nan, math.inf, "0.1"])
def test_gamma_out_of_range_is_refused(gamma):
    with pytest.raises(UsageError):
        mask_positions(SEED, gamma, 10)


def test_every_coordinate_is_sent_at_gamma_one():
    assert mask_positions(SEED, 1.0, 5).tolist() == [0, 1, 2, 3, 4]
