"""Smooth windows, and how fast what is seen through them falls, against high precision and quadrature."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli.core.loss_fall import fall_of, log_fall
from csgm_cli.core.loss_far import far_event, softened
from csgm_cli.core.loss_window import (
    Step,
    Window,
    _normal_cdf,
    beyond,
    log_p_above,
    log_q_above,
    step_beside,
)
from csgm_cli.core.sliced_law import LOWEST, Coordinates, Line, log_more

#: Rate, s, split and top of windows as they are used, and one without a split.
WINDOWS = [
    (0.01, 1.0, Step(4.0, 0.12), Step(6.5, 0.2)),
    (0.3, 0.1, None, Step(7.0, 0.3)),
    (0.05, 5.0, Step(2.0, 0.02), Step(4.5, 0.03)),
    (1e-6, 2.0, Step(7.3, 0.12), Step(9.1, 0.15)),
    (0.6, 0.5, Step(0.5, 0.2), Step(8.0, 0.2)),
]


def window_of(gamma, s, split, top, count=1.0):
    return Window(Coordinates(count, gamma, s), LOWEST, split, top)


def test_steps_are_the_normal_law():
    """To 1e-13 relative on both sides, and their two sides make 1."""
    step, x = Step(1.5, 0.25), np.linspace(-1.4, 4.4, 240)
    with mpmath.workdps(30):
        expected = [float(mpmath.ncdf((x_i - mpmath.mpf(1.5)) / mpmath.mpf(0.25))) for x_i in x.tolist()]
    assert step.above(x) == pytest.approx(expected, rel=1e-13)
    assert step.above(x) + step.below(x) == pytest.approx(np.ones(x.size), abs=1e-15)
    cut = Step(1.5)
    assert cut.above(np.array([1.5, 1.6])).tolist() == [0.0, 1.0]
    assert cut.below(np.array([1.5, 1.6])).tolist() == [1.0, 0.0]


def test_normal_law():
    """To 1e-14 relative as far as it goes, the far left included, on and between the places of its table."""
    source = np.random.default_rng(1)
    z = np.concatenate([np.linspace(-11.75, 11.75, 95), source.uniform(-12.0, 12.0, 400), [-11.999, 1e-9]])
    with mpmath.workdps(30):
        expected = [float(mpmath.ncdf(mpmath.mpf(z_i))) for z_i in z.tolist()]
    assert _normal_cdf(z) == pytest.approx(expected, rel=1e-14)
    assert _normal_cdf(np.array([-12.0, -50.0, 12.0, 50.0])).tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(("gamma", "s", "split", "top"), WINDOWS)
def test_masses_beyond_a_step(gamma, s, split, top):
    """The closed forms are the integrals of the step."""
    part = Coordinates(1.0, gamma, s)
    with mpmath.workdps(30):

        def mean(function):
            ends = [top.place + j for j in (-6, -3, -1, -0.3, 0, 0.3, 1, 3, 6, 12)]
            return mpmath.quad(
                lambda x: function(x) * mpmath.npdf(x) * mpmath.ncdf((x - top.place) / mpmath.mpf(top.width)),
                ends,
            )

        def sent(x):
            return mpmath.exp(x * s - mpmath.mpf(s) ** 2 / 2)

        p, q = mean(lambda x: 1 - gamma + gamma * sent(x)), mean(lambda x: 1)
        excess = mean(lambda x: gamma * (sent(x) - 1))
    assert log_p_above(part, top) == pytest.approx(float(mpmath.log(p)), rel=1e-11)
    assert log_q_above(top) == pytest.approx(float(mpmath.log(q)), rel=1e-11)
    outside = beyond(part, top)
    assert (outside.mass, outside.excess) == pytest.approx((float(q), float(excess)), rel=1e-10)


@pytest.mark.parametrize(("gamma", "s", "split", "top"), [w for w in WINDOWS if w[2] is not None])
def test_bulk_jumps_and_far_make_one(gamma, s, split, top):
    """E_Q[1] and E_Q[Y] of the three add up to 1."""
    window = window_of(gamma, s, split, top)
    (bulk, outside), jumps = window.bulk(2.0), window.jumps(2.0)
    far = beyond(window.part, top)
    for order in (0.0, 1.0):
        parts = [float(np.exp(n.log_mass + order * n.loss).sum()) for n in (bulk, jumps)]
        assert sum(parts) + far.mass + order * far.excess == pytest.approx(1.0, abs=1e-13)
    logs = window.part.real_moments(bulk, outside, np.array([1.0, 2.5]))
    direct = [math.log(float(np.exp(bulk.log_mass + a * bulk.loss).sum())) for a in (1.0, 2.5)]
    assert logs == pytest.approx(direct, abs=1e-13)


@pytest.mark.parametrize(("gamma", "s", "split", "top"), WINDOWS)
@pytest.mark.parametrize(("shift", "count"), [(0.5, 1.0), (5.0, 3.0), (40.0, 2000.0)])
def test_nothing_is_above_its_fall(gamma, s, split, top, shift, count):
    """The transform at many heights, and at all those beyond, is at most what is said of that height."""
    window = window_of(gamma, s, split, top, count)
    line = Line(1, shift, 0.37, 4096)
    below, off = window.part.log_moment(line, *window.bulk(line.size))
    order = np.array([1.0 + shift])
    whole, outside = window.whole(1.0 + shift)
    log_whole = float(window.part.real_moments(whole, outside, order)[0])
    fall = fall_of(window, 1.0 + shift, log_whole, whole)
    bulk = np.exp(count * (below - log_whole))
    if split is None:
        event = np.abs(bulk)
    else:
        more = log_more(line, window.jumps(line.size), below, off)[0]
        event = np.abs(np.exp(count * (below + more - log_whole)) - bulk)
    seen = np.maximum.accumulate(event[::-1])[::-1]  # the most from there on
    for j in (1, 3, 10, 30, 100, 300, 1000, 3000):
        bound = math.exp(log_fall([window], [fall], line.step * j))
        assert seen[j] <= bound * (1 + 1e-9) + count * 1e-13


@pytest.mark.parametrize(("gamma", "s", "split", "top"), WINDOWS)
def test_the_fall_is_to_next_to_nothing(gamma, s, split, top):
    """Some height suffices for what is left out to be negligible: bounds that say nothing would not do."""
    window = window_of(gamma, s, split, top, 1.0 if split is not None else 2000.0)
    whole, outside = window.whole(3.0)
    log_whole = float(window.part.real_moments(whole, outside, np.array([3.0]))[0])
    fall = fall_of(window, 3.0, log_whole, whole)
    height = 12.0 / (s * (top.width if split is None else min(split.width, top.width)))
    height /= float(np.exp(math.log(gamma) + s * (split or Step(0.0)).place - s * s / 2).clip(0.0, 0.5))
    assert log_fall([window], [fall], height) < -25.0


@settings(max_examples=60)
@given(st.floats(-6, -0.3), st.floats(-1, 1), st.integers(2, 40), st.floats(0.05, 4.0))
def test_strays_of_smooth_steps(log_gamma, log_s, rounds, strike):
    """No less than those of a cut where the step begins to matter; no more than all there could be."""
    parts = (Coordinates(float(rounds), 10**log_gamma, 10**log_s),)
    cut = far_event(parts, strike, 1e-6)
    far = softened(cut, strike, 1e-6)
    assert far.p <= cut.p * (1 + 1e-9)
    assert far.p - math.exp(strike + far.log_q) <= cut.p
    assert 0.0 <= far.stray(strike) <= math.exp(strike) * (1 + 1e-12)
    assert far.stray(strike) <= 1e-8 * 1e-6 + 1e-6 * far.p


def test_a_step_beside_a_cut_keeps_clear_of_it():
    """Six of its widths, on the side of the other loss."""
    part = Coordinates(1.0, 0.01, 1.0)
    for cut, other in ((0.5, 0.1), (0.5, 2.0)):
        step = step_beside(part, cut, other)
        assert (step.place - part.place(cut)) * (other - cut) > 0
        assert abs(step.place - part.place(cut)) == pytest.approx(6 * step.width)
