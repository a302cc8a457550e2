"""The theorems on which the bounds over all vectors rest, by quadrature over two coordinates."""

import itertools
import math

import numpy as np
import pytest

from csgm_cli.core import profile_oracle
from tests.core.cone_functions import add_phi, concave_phi, floats, remove_phi


class Pair:
    """Two coordinates at signals t1 >= t2 on a grid in (x1, x2): e^L, mass under Q, R_1^2 - R_2^2."""

    STEP = 0.06

    def __init__(self, gamma, t1, t2):
        x = np.arange(-8.5, 9.5 + math.sqrt(t1), self.STEP)
        weight = np.exp(-x * x / 2) * self.STEP / math.sqrt(2 * math.pi)
        sent = [gamma * np.exp(x * math.sqrt(t) - t / 2) for t in (t1, t2)]
        one, other = (1 - gamma + each for each in sent)
        self.u = np.outer(one, other)
        self.mass = np.outer(weight, weight)
        self.difference = ((sent[0] / one) ** 2)[:, None] - ((sent[1] / other) ** 2)[None, :]

    def slope(self, w):
        """E_P[(R_1^2 - R_2^2) w]: twice what moving signal from the second to the first gains."""
        return float((self.mass * self.u * self.difference * w).sum())

    def expectation(self, phi, history, *shape):
        """E_Q[phi(history e^L)]."""
        return float((self.mass * phi(history * self.u, *shape)).sum())


PAIRS = [
    (gamma, s, share, other)
    for gamma in (0.01, 0.2, 0.7)
    for s in (0.1, 1.0, 2.5)
    for share, other in ((1.0, 0.9), (1.0, 0.2), (0.5, 0.4), (0.1, 0.0))
]


def step_at(u, strike, width):
    """A smooth nondecreasing step of log u, from 0 to 1: sharp edges would cost the quadrature its digits."""
    return 1 / (1 + np.exp(-np.clip((np.log(u) - strike) / width, -700, 700)))


@pytest.mark.parametrize(("gamma", "s", "share", "other"), PAIRS)
def test_lemma(gamma, s, share, other):
    """E_P[(R_1^2 - R_2^2) w(Y_1 Y_2)] >= 0 for t1 >= t2 and nondecreasing w; < 0 for a decreasing w."""
    pair = Pair(gamma, share * s * s, other * s * s)
    spread = math.sqrt(float((pair.mass * np.log(pair.u) ** 2).sum()))
    for power in (0.0, 0.5, 2.0):
        assert pair.slope(np.minimum(pair.u, 1e3) ** power) >= -1e-12
    for strikes in (-3, -1, 0, 0.5, 1, 2, 4):
        assert pair.slope(step_at(pair.u, strikes * spread, 0.15 * s)) >= -1e-12
    assert pair.slope((pair.u / pair.u.min()) ** (-1.5 * (1 - gamma) / gamma)) < 0


MOVES = [
    (gamma, s, share, other)
    for gamma in (0.01, 0.2, 0.7)
    for s in (0.1, 1.0, 2.0)
    for share, other in ((0.9, 0.9), (0.6, 0.3))
]


@pytest.mark.parametrize(("gamma", "s", "share", "other"), MOVES)
def test_concentrating_a_pair_costs_privacy_up_to_the_error(gamma, s, share, other):
    """Moving signal to the larger of two coordinates raises E_Q[phi(c e^L)] to within c err, add and remove.

    At z = s/2 + s^2/2 most pairs are outside of the good set, at 3 s few; the history c puts the
    knee of phi at different quantiles of e^L.
    """
    amount = 0.9 * min(1 - share, other) * s * s
    before = Pair(gamma, share * s * s, other * s * s)
    after = Pair(gamma, share * s * s + amount, other * s * s - amount)
    spread = math.sqrt(float((before.mass * np.log(before.u) ** 2).sum()))
    for z in (0.5 * s + s * s / 2, 3 * s + s * s / 2):
        exponent = float(profile_oracle.admissible_exponent(gamma, z))
        cases = [
            (add_phi, profile_oracle.add_shape(0.1, exponent, 1.3), (exponent, 1.3), profile_oracle.err_add)
        ]
        if exponent > 1:
            shape = profile_oracle.remove_shape(0.1, exponent)
            cases.append((remove_phi, shape, (0.1, exponent), profile_oracle.err_remove))
        for (phi, shape, arguments, err), position in itertools.product(cases, (-1, 0, 2)):
            scale, knee = floats(shape)
            history = knee / math.exp(position * spread)
            gains = [pair.expectation(phi, history, scale, knee, exponent) for pair in (before, after)]
            assert gains[1] - gains[0] >= -history * (float(err(z, s, amount, *arguments)) + 1e-10)


@pytest.mark.parametrize(("gamma", "s", "share", "other"), MOVES)
def test_spreading_a_pair_costs_privacy_up_to_the_error_of_the_twin(gamma, s, share, other):
    """For the Schur-concave twin the opposite move raises E_Q[phi(c e^L)], to within its err."""
    amount = 0.9 * min(1 - share, other) * s * s
    after = Pair(gamma, share * s * s, other * s * s)
    before = Pair(gamma, share * s * s + amount, other * s * s - amount)
    spread = math.sqrt(float((before.mass * np.log(before.u) ** 2).sum()))
    for z in (0.5 * s + s * s / 2, 3 * s + s * s / 2):
        exponent = float(profile_oracle.concave_exponent(gamma, z))
        if exponent > 60:  # the function is 0 but for a few ulps
            continue
        scale, knee = floats(profile_oracle.concave_shape(0.1, exponent, 0.7))
        error = float(profile_oracle.err_concave(z, s, amount, gamma, 0.1, exponent, 0.7))
        for position in (-1, 0, 2):
            history = knee / math.exp(position * spread)
            gains = [
                pair.expectation(concave_phi, history, scale, knee, exponent) for pair in (before, after)
            ]
            assert gains[1] - gains[0] >= -(history ** (1 - exponent)) * error - 1e-10 * history


def test_cone_inequalities_fail_beyond_their_exponents():
    """With B a third above (1-g)/(2g), or B' a third below, the order of vectors is reversed."""
    gamma, s = 0.2, 0.2
    before, after = Pair(gamma, 0.6 * s * s, 0.3 * s * s), Pair(gamma, 0.8 * s * s, 0.1 * s * s)
    for factor, sign in ((4 / 3, -1), (2 / 3, 1)):
        exponent = factor * (1 - gamma) / (2 * gamma)
        values = [float((pair.mass * pair.u ** (1 - exponent)).sum()) for pair in (before, after)]
        assert sign * (values[1] - values[0]) > 1e-9  # phi = u^(1-B), convex for B > 1
