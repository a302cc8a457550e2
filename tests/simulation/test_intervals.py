"""Confidence intervals against textbook values and exact binomial tails."""

from __future__ import annotations

import math

import numpy as np
import pytest

from csgm_cli.simulation.intervals import clopper_pearson, mean_interval


def binomial_tail(count, trials, p):
    """P(X >= count), term by term."""
    return math.fsum(math.comb(trials, i) * p**i * (1 - p) ** (trials - i) for i in range(count, trials + 1))


@pytest.mark.parametrize(("count", "trials"), [(1, 10), (4, 10), (9, 10), (3, 200)])
def test_clopper_pearson_is_where_the_tails_have_the_error(count, trials):
    """P(X >= count) at the lower bound and P(X <= count) at the upper one are `error`."""
    low, high = clopper_pearson(count, trials, 0.01)
    assert binomial_tail(count, trials, low) == pytest.approx(0.01, rel=1e-9)
    assert 1 - binomial_tail(count + 1, trials, high) == pytest.approx(0.01, rel=1e-9)


def test_clopper_pearson_at_the_ends():
    """No success: 0 and 1 - error^(1/n); all: the mirror image."""
    assert clopper_pearson(0, 20, 0.05) == (0.0, pytest.approx(1 - 0.05 ** (1 / 20), rel=1e-12))
    assert clopper_pearson(20, 20, 0.05) == (pytest.approx(0.05 ** (1 / 20), rel=1e-12), 1.0)


def test_student_interval_of_three_numbers():
    """Mean 2, std 1, t(2, 0.975) = 4.302653."""
    mean, low, high = mean_interval(np.array([1.0, 2.0, 3.0]), 0.95)
    assert mean == 2.0
    assert (low, high) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), rel=1e-6)
