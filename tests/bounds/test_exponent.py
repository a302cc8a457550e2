"""The proven exponent B against reference values, high precision and its limits."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from csgm_cli.bounds import exponent as exponent_module
from csgm_cli.bounds.exponent import (
    SIGN_CHANGE_GAMMA,
    SIGN_CHANGE_T,
    is_certified,
    largest_exponent,
    moments_of_r,
    quadrature_nodes,
    v_lower_bound,
)

ANY_GAMMA = st.floats(math.log(1e-9), math.log(0.999999)).map(math.exp)
ANY_T = st.floats(math.log(1e-6), math.log(1e3)).map(lambda log_s: math.exp(2 * log_s))
#: Where exponents are positive.
GAMMA = st.floats(math.log(1e-6), math.log(0.8)).map(math.exp)
S = st.floats(0.05, 2.9)


def rho(exponent, gamma, t):
    """E_Q[Y^(1-B) R^2] / E_Q[Y^(1-B)] in 30 digits, from the definition."""
    with mpmath.workdps(30):
        b, g, t = mpmath.mpf(exponent), mpmath.mpf(gamma), mpmath.mpf(t)
        s = mpmath.sqrt(t)
        step = mpmath.mpf("0.15") / max(s, 1)
        moments = [mpmath.mpf(0), mpmath.mpf(0)]
        for i in range(int(-(12 + s / 2) / step), int((12 + 3 * s) / step)):
            x = i * step
            m = mpmath.exp(s * x - t / 2)
            y = 1 - g + g * m
            weight = mpmath.exp(-x * x / 2) * y ** (1 - b)
            moments[0] += weight
            moments[1] += weight * (g * m / y) ** 2
        return moments[1] / moments[0]


def slope(exponent, gamma, t):
    """t (log rho)' by a difference quotient."""
    step = 1e-6
    before, after = (rho(exponent, gamma, t * factor) for factor in (1 - step, 1 + step))
    with mpmath.workdps(30):
        return float((after / before - 1) / (2 * step))


def numerical_v(exponent, gamma, t, x=None):
    """The function v of the module's docstring, at each t."""
    t = np.atleast_1d(t)
    moments = moments_of_r(exponent, gamma, t, quadrature_nodes(float(t.max())) if x is None else x)
    return v_lower_bound(exponent, moments, moments, np.zeros(t.size))


def reference_rows(reference, least):
    return [row for row in reference["exponent"]["rows"] if row["exponent"] >= least]


def test_close_below_the_reference(reference):
    """A thousandth below the largest B."""
    rows = reference_rows(reference, 0.1)
    assert len(rows) == 5
    for row in rows:
        assert largest_exponent(row["gamma"], row["s"] ** 2) == pytest.approx(
            0.999 * row["exponent"], rel=1e-6
        )


def test_small_exponents_count_as_zero(reference):
    """At gamma 0.9 the largest B is 1/18 or less, too small to matter."""
    (row,) = (row for row in reference["exponent"]["rows"] if row["exponent"] < 0.1)
    assert largest_exponent(row["gamma"], row["s"] ** 2) == 0.0


@settings(max_examples=60)
@given(gamma=ANY_GAMMA, t=ANY_T, more=st.floats(0.0, 3.0).map(math.exp))
@example(gamma=1e-9, t=8.65, more=1 + 1e-12)
@example(gamma=1e-3, t=8.65, more=1 + 1e-12)
@example(gamma=0.3, t=1e-12, more=2.0)
@example(gamma=math.exp(-1.0), t=math.exp(-25.5), more=math.exp(0.00390625))
def test_nonincreasing_in_t(gamma, t, more):
    """Up to the width 1e-13 of the bracket around B."""
    exponents = largest_exponent(gamma, t), largest_exponent(gamma, t * more)
    assert exponents[0] >= exponents[1] * (1 - 2e-13) >= 0.0
    assert math.isfinite(exponents[0])


@settings(max_examples=60)
@given(gamma=ANY_GAMMA, t=ANY_T, more=st.floats(0.0, 3.0).map(math.exp))
@example(gamma=0.7, t=12.0, more=1.35)
@example(gamma=0.3, t=8.6, more=1.1)
def test_nonincreasing_in_gamma(gamma, t, more):
    """For t > SIGN_CHANGE_T from SIGN_CHANGE_GAMMA on."""
    assume(gamma * more < 1.0 and (t <= SIGN_CHANGE_T or gamma >= SIGN_CHANGE_GAMMA))
    assert largest_exponent(gamma * more, t) <= largest_exponent(gamma, t) * (1 + 1e-11)


@settings(max_examples=30)
@given(gamma=GAMMA, s=S, part=st.floats(0.02, 1.0))
@example(gamma=1e-6, s=2.9, part=1.0)
@example(gamma=0.8, s=0.05, part=0.02)
def test_rho_is_nondecreasing(gamma, s, part):
    """An independent evaluation, in high precision, of what is certified."""
    exponent = largest_exponent(gamma, s * s)
    assume(exponent > 0.0)
    assert slope(exponent, gamma, part * s * s) > 0.0


@pytest.mark.parametrize(("gamma", "s"), [(0.001, 1.0), (0.01, 1.0), (0.1, 0.5), (0.5, 1.0), (1e-4, 2.0)])
def test_half_a_percent_more_is_not_admissible(gamma, s):
    """rho decreases near t = s^2 in high precision, and no certificate is found."""
    too_large = 1.005 * largest_exponent(gamma, s * s)
    assert slope(too_large, gamma, s * s) < 0.0
    assert not is_certified(too_large, gamma, s * s)


@settings(max_examples=100)
@given(gamma=GAMMA, s=S, factor=st.floats(0.1, 9.0), start=st.floats(0.0, 0.99), width=st.floats(0.0, 0.3))
@example(gamma=1e-3, s=0.05, factor=6.0, start=0.0, width=0.3)
@example(gamma=0.1, s=0.05, factor=6.0, start=0.2, width=0.3)
def test_cells_bound_v_between_their_ends(gamma, s, factor, start, width):
    """For exponents below and above the largest admissible one: far above it, N_3 decreases."""
    exponent = factor * largest_exponent(gamma, s * s)
    assume(exponent > 0.0)
    t = s * s * np.linspace(start, min(1.0, start + width), 12)
    moments = moments_of_r(exponent, gamma, t, quadrature_nodes(s * s))
    bound = v_lower_bound(exponent, moments[:, :1], moments[:, -1:], t[-1:] - t[:1])
    values = numerical_v(exponent, gamma, t)
    assert (values >= bound - 1e-12 * (1 + abs(values))).all()


@given(exponent=st.floats(0.1, 50.0), seed=st.integers(0, 2**32 - 1), term=st.sampled_from([None, 0, 1, 2]))
def test_bound_holds_for_all_moments_in_the_enclosure(exponent, seed, term):
    """N_0 between its end values, N_m between left/e_m and right e_m; sharp where only one term is not 0."""
    random = np.random.default_rng(seed)
    sizes = np.array([[1.0, 0.1, 0.01, 0.001], [1e300, 1, 1, 0], [1e300, 1, 0, 1], [1, 1, 0, 0]])
    left = sizes[0 if term is None else term + 1][:, None] * random.uniform(0.8, 1.2, (4, 1))
    grow = random.uniform(0.0, 0.2, (4, 1)) * np.array([[math.copysign(1.0, exponent - 1)], [1], [1], [1]])
    right, width = left * np.exp(grow), random.uniform(0.0, 0.1)
    slack = np.array([[0.0], *([m * exponent * width / (2 * (m + exponent))] for m in (2, 3, 4))])
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=4))).T
    inside = left * np.exp(-slack + corners * (grow + 2 * slack))
    values = v_lower_bound(exponent, inside, inside, np.zeros(16))
    bound = v_lower_bound(exponent, left, right, np.array([width]))[0]
    tolerance = 1e-12 * (1 + abs(values).max())
    assert bound <= values.min() + tolerance
    assert term is None or bound >= values.min() - tolerance


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("gamma", [0.01, 0.2, 0.6])
def test_slowest_growth_of_the_moments(gamma, m):
    """(log N_m)' is least, -m B/(2 (m + B)), at t = 0 where B = m (1-gamma)/gamma."""
    exponent = m * (1 - gamma) / gamma
    t = np.array([0.0, 1e-5])
    log_moment = np.log(moments_of_r(exponent, gamma, t, quadrature_nodes(1e-5))[m - 1])
    least = -m * exponent / (2 * (m + exponent))
    assert least <= (log_moment[1] - log_moment[0]) / t[1] < 0.99 * least


@settings(max_examples=60)
@given(gamma=ANY_GAMMA, s=st.floats(0.03, 5.0), part=st.floats(0.001, 1.0))
@example(gamma=6.4e-5, s=2.0, part=1.0)
@example(gamma=6.4e-5, s=3.4, part=1.0)
def test_quadrature_error_is_far_below_the_margin(gamma, s, part):
    """Three times as many nodes further out change v by less than 1e-12."""
    exponent = largest_exponent(gamma, s * s)
    assume(exponent > 0.0)
    nodes = quadrature_nodes(s * s)
    finer = np.arange(-12 - s, 12 + 4 * s, (nodes[1] - nodes[0]) / 3.1)
    change = numerical_v(exponent, gamma, part * s * s, nodes) - numerical_v(
        exponent, gamma, part * s * s, finer
    )
    assert abs(change[0]) < 1e-12


@pytest.mark.parametrize("gamma", [1e-9, 1e-4, 0.01, 0.3, 0.8])
@pytest.mark.parametrize("s", [1e-6, 1e-3])
def test_small_s_limit(gamma, s):
    """(1-gamma)/(2 gamma), less 0.1 % for certification."""
    limit = (1 - gamma) / (2 * gamma)
    assert largest_exponent(gamma, s * s) == pytest.approx(0.999 * limit, rel=1e-5)


@settings(max_examples=30)
@given(gamma=GAMMA, s=S)
def test_above_the_closed_form(gamma, s):
    """(1-gamma)/(2 gamma) exp(-3 s^2/2) is admissible where it is at least 1."""
    closed = (1 - gamma) / (2 * gamma) * math.exp(-1.5 * s * s)
    assume(closed >= 1.0)
    assert largest_exponent(gamma, s * s) >= 0.98 * closed


def test_zero_where_the_sign_change_is_not_proven():
    """Beyond t = 8.65 at tiny gamma, although the first condition alone allows a large exponent there."""
    for gamma in (1e-9, 1e-6, 6.30e-5):
        assert largest_exponent(gamma, 8.65) > 1.0
        assert largest_exponent(gamma, 8.6500001) == 0.0
    assert is_certified(30.0, 1e-5, 8.7)
    assert largest_exponent(6.32e-5, 8.6500001) > 1.0


def test_sign_change_gamma_suffices_beyond_sign_change_t():
    """z (z - t/2) < 2 t (2 + theta e^z) for all z > 0: at the smallest t, and so at all larger ones."""
    z, theta = np.linspace(0.0, 60.0, 600_001), SIGN_CHANGE_GAMMA / (1 - SIGN_CHANGE_GAMMA)
    needed = (z * z / (2 * SIGN_CHANGE_T) - z / 4 - 2) * np.exp(-z)
    assert 0.99 * theta < needed.max() < theta
    assert z[needed.argmax()] < 20.0


def test_zero_where_no_certificate_is_found(monkeypatch):
    """No exponent is used without one."""
    monkeypatch.setattr(exponent_module, "is_certified", lambda *_: False)
    assert largest_exponent.__wrapped__(0.01, 1.0) == 0.0


@settings(max_examples=200)
@given(gamma=ANY_GAMMA, t=ANY_T)
@example(gamma=0.999999, t=1e6)
@example(gamma=1e-9, t=1e-12)
@example(gamma=6.31e-5, t=32.0)
def test_finite_everywhere(gamma, t):
    """Warnings are errors here."""
    exponent = largest_exponent(gamma, t)
    assert 0.0 <= exponent < (1 - gamma) / (2 * gamma)
