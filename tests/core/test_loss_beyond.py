"""What far losses add, next to the strike, against 45 digits."""

import math

import mpmath
import numpy as np
import pytest

from csgm_cli.core.loss_beyond import convex, linear
from csgm_cli.core.loss_far import Far, far_event, mean_below, softened
from csgm_cli.core.loss_window import Step
from csgm_cli.core.sliced_law import Coordinates


def one(part: Coordinates, top: Step):
    """Q- and P-mass of one coordinate above the step, and E_P of its loss above and below, in 45 digits."""
    gamma, s = mpmath.mpf(part.gamma), mpmath.mpf(part.s)

    def above(x):
        if top.width == 0.0:
            return mpmath.mpf(1 if x > top.place else 0)
        return mpmath.ncdf((x - top.place) / top.width)

    def loss(x):
        return mpmath.log1p(gamma * mpmath.expm1(s * x - s * s / 2))

    def mean(of, low, high):
        edges = {low, high, *mpmath.arange(math.ceil(low), high)}
        edges |= {mpmath.mpf(top.place) + top.width * k for k in range(-12, 13, 2)}
        edges = sorted(x for x in edges if low <= x <= high)
        scale = mpmath.exp(low * low / 2) if low > 0 else mpmath.mpf(1)  # errors are looked at as they are
        return mpmath.quad(lambda x: scale * of(x), edges, method="gauss-legendre", maxdegree=6) / scale

    start, end = mpmath.mpf(top.start), mpmath.mpf(max(top.place, part.s)) + 14
    q = mean(lambda x: mpmath.npdf(x) * above(x), start, end)
    p = mean(lambda x: mpmath.npdf(x) * mpmath.exp(loss(x)) * above(x), start, end)
    high = mean(lambda x: mpmath.npdf(x) * mpmath.exp(loss(x)) * above(x) * loss(x), start, end)
    end = mpmath.mpf(part.s) + 14
    whole = mean(lambda x: mpmath.npdf(x) * mpmath.exp(loss(x)) * loss(x), mpmath.mpf(-14), end)
    return q, p, high, whole - high


def exactly(far: Far, strike: float):
    """E_Q[Y - k; far] and E_Q[Y log(Y/v) - Y + v; far]."""
    with mpmath.workdps(45):
        ones = [(int(part.count), *one(part, top)) for part, top in zip(far.parts, far.tops, strict=True)]
        rates = [sum(-n * mpmath.log1p(-pair[i]) for n, *pair in ones) for i in (0, 1)]
        q_far, p_far = (-mpmath.expm1(-rate) for rate in rates)
        beside = [-mpmath.expm1(-rates[1] - mpmath.log1p(-p)) for _, _, p, _, _ in ones]
        mean = sum(n * (high + low * other) for (n, _, _, high, low), other in zip(ones, beside, strict=True))
        strike = mpmath.mpf(strike)
        k = mpmath.exp(strike)
        return p_far - k * q_far, mean - (1 + strike) * p_far + k * q_far


CASES = [
    ((Coordinates(4.0, 1e-9, 0.55),), 1e-4, 6e-105), ((Coordinates(1e12, 1e-9, 0.55),), 1e-6, 1e-15),
    ((Coordinates(25.0, 1e-9, 0.22),), 1e-6, 1e-219), ((Coordinates(30.0, 1e-3, 1.0),), 0.1, 1e-8),
    ((Coordinates(400.0, 1e-5, 2.0), Coordinates(7.0, 1e-5, 1.3)), 1e-3, 1e-12),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "strike", "size"), CASES)
@pytest.mark.parametrize("soft", [False, True])
def test_what_far_losses_add_keeps_its_digits(parts, strike, size, soft):
    """Next to the strike all but the last few digits of the probabilities cancel, and none of these do."""
    far = far_event(parts, strike, size)
    far = softened(far, strike, size) if soft else far
    for (value, error), exact in zip(
        (linear(far, strike), convex(far, strike)), exactly(far, strike), strict=True
    ):
        assert abs(value - exact) <= error
        assert error <= 1e-10 * exact


@pytest.mark.parametrize("share", [0.02, 0.09, 0.2, 0.9])
def test_what_likely_far_losses_add(share):
    """Where many coordinates make far losses likely, products of their probabilities count as well."""
    part = Coordinates(1000.0, 1e-3, 3.0)
    place = float(np.interp(-share, [-0.9, -0.2, -0.09, -0.02], [1.0, 3.9, 4.4, 5.0]))
    top = Step(place)
    strike = 0.9 * float(part.loss(np.array(place)))
    with mpmath.workdps(45):
        q, p, *_ = one(part, top)
        p_any, q_any = (float(1 - (1 - x) ** 1000) for x in (p, q))
    far = Far((part,), strike / 0.9, (top,), p_any, math.log(q_any), 1e-13)
    for (value, error), exact in zip(
        (linear(far, strike), convex(far, strike)), exactly(far, strike), strict=True
    ):
        assert abs(value - exact) <= error
        assert error <= 1e-9 * abs(exact)


@pytest.mark.parametrize(("place", "count", "share"), [(2.2, 45, 0.9), (2.2, 300, -5.0), (-0.3, 2, 2.0)])
def test_likely_far_losses_next_to_the_strike(place, count, share):
    """Where gamma is tiny so are the losses, however likely far ones, and digits of probabilities cancel."""
    part, top = Coordinates(float(count), 3.5e-8, 0.37), Step(place)
    level = float(part.loss(np.array(place)))
    strike = share * level
    with mpmath.workdps(45):
        q, p, *_ = one(part, top)
        p_any, q_any = (float(1 - (1 - x) ** count) for x in (p, q))
    assert 0.4 < p_any < 0.99
    far = Far((part,), level, (top,), p_any, math.log(q_any), 1.5e-14)
    for (value, error), exact in zip(
        (linear(far, strike), convex(far, strike)), exactly(far, strike), strict=True
    ):
        assert abs(value - exact) <= error
        assert error <= 3e-5 * abs(exact)


def test_mean_below_everything_is_the_divergence():
    """With the step at infinity it is E_P[log Y]."""
    part = Coordinates(1.0, 0.01, 1.0)
    with mpmath.workdps(30):
        *_, low = one(part, Step(45.0))
    assert mean_below(part, Step(math.inf)) == pytest.approx(float(low), rel=1e-12)
