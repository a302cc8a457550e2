"""Noise that a search for its epsilon agrees with, on made-up bounds that go up and down."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.core.agreed import agreed
from csgm_cli.errors import NoAnswerError


def wobbling(size, period):
    """An epsilon that falls with noise, but for a wobble of that relative size."""
    return lambda noise: noise**-3.0 * (1 + size * math.sin(noise / period))


@given(
    st.floats(1e-3, 1e3),
    st.floats(0.0, 0.1),
    st.floats(1e-6, 1e-2),
    st.floats(0.5, 2.0),
)
def test_hardly_less_noise_misses(target, size, period, off):
    says = wobbling(size, period)
    start = target ** (-1 / 3)
    found = agreed(says, target, start * off, start * 10)
    assert says(found) <= target < says(found * (1 - 1e-8))
    assert found == pytest.approx(start, rel=0.05 + 1e-8)


@given(st.floats(1e-3, 1e3), st.floats(0.5, 2.0))
def test_without_a_wobble_it_is_the_root(target, off):
    found = agreed(lambda noise: 1 / noise, target, off / target, 10 / target)
    assert 1 - 1e-15 <= found * target <= 1 + 1.00001e-8  # hardly less than which misses


def test_what_no_noise_below_the_highest_meets_takes_the_highest():
    assert agreed(lambda noise: 2.0, 1.0, 0.5, 3.0) == 3.0


def test_what_has_no_answer_misses():
    def says(noise):
        if noise < 1.0:
            raise NoAnswerError("out-of-reach", "too far")
        return 0.0

    assert agreed(says, 1.0, 1.5, 3.0) == pytest.approx(1.0, rel=1e-8)


def test_noise_far_below_the_start_is_found():
    """Steps down grow with what is gained, but none ends at no noise at all."""
    asked = []

    def says(noise):
        asked.append(noise)
        return noise**-0.25

    assert agreed(says, 10.0, 1.0, 2.0) == pytest.approx(1e-4, rel=1e-7)
    assert min(asked) > 0.0
