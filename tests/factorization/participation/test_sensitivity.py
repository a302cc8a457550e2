"""Sensitivities for repeated participation, against all patterns of small matrices and published values."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from csgm_cli.factorization.participation.gram import gram_of
from csgm_cli.factorization.participation.sensitivity import (
    largest_eigenvalue_bound,
    repeated_participation,
    toeplitz_participation,
)
from csgm_cli.model.participation import Participation

#: Above rounding.
ROOM = 1e-9


def toeplitz(series):
    T = len(series)
    return np.array([[series[i - j] if i >= j else 0.0 for j in range(T)] for i in range(T)])


def square_root(T):
    """The Toeplitz square root of prefix sums: binom(2 j, j) / 4^j."""
    series = np.cumprod([1.0, *((2 * j - 1) / (2 * j) for j in range(1, T))])
    return toeplitz(series)


def patterns(T, k, b):
    """Every set of 1 to k steps, consecutive ones at least b apart."""
    for size in range(1, k + 1):
        for steps in combinations(range(T), size):
            if all(later - earlier >= b for earlier, later in pairwise(steps)):
                yield list(steps)


def signed_maximum(x):
    """Max of s^T X s over signs: what vectors of one coordinate attain."""
    signs = np.array(np.meshgrid(*[[1.0, -1.0]] * len(x))).reshape(len(x), -1)
    return float(np.einsum("is,ij,js->s", signs, x, signs).max())


def brute(c, k, b):
    """The largest sum of |X_ij|, signed sum and eigenvalue of |X| and of X over all patterns."""
    x = c.T @ c
    blocks = [x[np.ix_(steps, steps)] for steps in patterns(len(x), k, b)]
    return (
        max(np.abs(block).sum() for block in blocks),
        max(signed_maximum(block) for block in blocks),
        max(np.linalg.eigvalsh(block)[-1] for block in blocks),
    )


matrices = st.integers(2, 8).flatmap(
    lambda T: st.tuples(
        st.lists(
            st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, -0.25]), min_size=T, max_size=T),
            min_size=T,
            max_size=T,
        ),
        st.integers(2, 5),
        st.integers(1, T),
        st.integers(1, T),
    )
)


@given(matrices)
def test_bounds_hold_for_every_pattern(case):
    """Upper bounds are not below any pattern; what is called exact is attained by some vectors."""
    rows, k, b, bands = case
    c = np.tril(np.array(rows))
    c *= np.subtract.outer(np.arange(len(c)), np.arange(len(c))) < bands
    c += np.eye(len(c))
    found = repeated_participation(gram_of(c, b), Participation(k, b))
    total, attained, eigenvalue = brute(c, k, b)
    joint, release = found.joint_sensitivity**2, found.release_sensitivity**2
    assert attained * (1 - ROOM) <= joint
    assert eigenvalue * (1 - ROOM) <= release
    assert joint <= found.participations * release * (1 + ROOM)
    if found.is_exact:
        assert joint == pytest.approx(attained, rel=ROOM)
    if bands <= 2 * b:  # only neighbours overlap
        assert found.is_exact
        assert joint == pytest.approx(total, rel=ROOM)


@pytest.mark.parametrize("seed", range(30))
def test_random_matrices_against_all_patterns(seed):
    rng = np.random.default_rng(seed)
    T, k, b = int(rng.integers(5, 12)), int(rng.integers(2, 5)), int(rng.integers(1, 5))
    c = np.tril(rng.random((T, T)) ** 3)
    found = repeated_participation(gram_of(c, b), Participation(k, b))
    total, attained, eigenvalue = brute(c, k, b)
    assert attained == pytest.approx(total)  # nonnegative
    assert total * (1 - ROOM) <= found.joint_sensitivity**2 <= 1.5 * total
    assert eigenvalue * (1 - ROOM) <= found.release_sensitivity**2 <= 1.5 * eigenvalue
    if found.is_exact:
        assert found.joint_sensitivity**2 == pytest.approx(total, rel=ROOM)


@pytest.mark.parametrize("limit", [2, 3, 4])
@pytest.mark.parametrize("b", [1, 3, 4])
def test_decreasing_toeplitz_is_exact(b, limit):
    """The worst pattern is 0, b, 2b, ..., also where more steps would have room for more participations."""
    c = square_root(12)
    for matrix in (c, c / np.sqrt((c**2).sum(axis=0))):
        found = repeated_participation(gram_of(matrix, b), Participation(limit, b))
        total, _, eigenvalue = brute(matrix, limit, b)
        assert found.is_exact
        assert found.joint_sensitivity**2 == pytest.approx(total, rel=ROOM)
        steps = np.arange(found.participations) * b
        first = np.linalg.eigvalsh((matrix.T @ matrix)[np.ix_(steps, steps)])[-1]
        assert found.release_sensitivity**2 == pytest.approx(first, rel=1e-6)
        assert first == pytest.approx(eigenvalue, rel=ROOM)


@pytest.mark.parametrize(
    ("T", "k", "b", "mean"), [(512, 16, 32, 32.41969834715639), (1024, 4, 256, 14.223770528968672)]
)
def test_published_square_root(T, k, b, mean):
    """Mean squared error of the Toeplitz square root without a restart, over k releases at the same sigma."""
    c = square_root(T)
    found = repeated_participation(gram_of(c, b), Participation(k, b))
    assert found.is_exact
    rows = np.cumsum(c[:, 0] ** 2)  # B is C
    assert rows.mean() * found.mean_sensitivity**2 == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize(("T", "k", "b"), [(12, 3, 3), (12, 9, 1), (50, 4, 7), (50, 1, 7)])
@pytest.mark.parametrize("series", [lambda T: square_root(T)[:, 0], lambda T: 0.7 ** np.arange(T)])
def test_toeplitz_without_a_matrix(T, k, b, series):
    """The same as from all of C; other coefficients are refused."""
    c = series(T)
    fast, dense = (
        toeplitz_participation(c, k, b),
        repeated_participation(gram_of(toeplitz(c), b), Participation(k, b)),
    )
    assert (fast.participations, fast.is_exact) == (dense.participations, dense.is_exact)
    assert fast.joint_sensitivity == pytest.approx(dense.joint_sensitivity, rel=1e-12)
    assert fast.release_sensitivity == pytest.approx(dense.release_sensitivity, rel=1e-9)
    assert toeplitz_participation(c[::-1], k, b) is None
    assert toeplitz_participation(-c, k, b) is None


def test_quadratic_pattern_beyond_reach_is_an_upper_bound():
    """A 5-cycle and k = 3, b = 1: the densest triple has two edges; no bound by rows sees that."""
    ring = np.array([[abs(i - j) in (1, 4) for j in range(5)] for i in range(5)], dtype=float)
    x = ring + 2.0 * np.eye(5)
    c = np.linalg.cholesky(x[::-1, ::-1])[::-1, ::-1].T
    found = repeated_participation(gram_of(c, 1), Participation(3, 1))
    assert brute(c, 3, 1)[0] == pytest.approx(10.0)  # 3 * 2 + 2 * 2
    assert not found.is_exact
    assert found.joint_sensitivity**2 >= 10.0


def test_orthogonal_columns():
    """Bands up to the separation: k times the largest column; beyond it the overlap adds up."""
    c = np.eye(6) + 0.5 * np.eye(6, k=-1)
    c /= np.sqrt((c**2).sum(axis=0))
    apart = repeated_participation(gram_of(c, 2), Participation(3, 2))
    assert apart.is_attained
    assert apart.is_exact
    assert apart.joint_sensitivity == pytest.approx(np.sqrt(3.0), rel=ROOM)
    assert apart.release_sensitivity == pytest.approx(1.0, rel=ROOM)
    close = repeated_participation(gram_of(c, 1), Participation(2, 1))
    overlap = (c.T @ c)[0, 1]
    assert not close.is_attained
    assert close.joint_sensitivity**2 == pytest.approx(2.0 + 2.0 * (c.T @ c).diagonal(-1).max())
    assert close.release_sensitivity**2 == pytest.approx(1.0 + (c.T @ c).diagonal(-1).max())
    assert overlap == pytest.approx(0.4)  # 0.5 / (1 + 0.25)


def test_fixed_order():
    """Of steps exactly 2 apart: columns 0 and 2 overlap, and 1 and 3; 0 and 3 do not count."""
    c = np.array([[1.0, 0, 0, 0], [0.9, 1, 0, 0], [0.5, 0, 1, 0], [0, 0.5, 0, 1]])
    found = repeated_participation(gram_of(c, 2), Participation(2, 2, fixed_order=True))
    x = c.T @ c
    pairs = [x[np.ix_(steps, steps)] for steps in ([0, 2], [1, 3])]
    assert found.is_exact
    assert found.joint_sensitivity**2 == pytest.approx(max(pair.sum() for pair in pairs))
    largest = max(np.linalg.eigvalsh(pair)[-1] for pair in pairs)
    assert found.release_sensitivity**2 == pytest.approx(largest, rel=1e-6)
    one = repeated_participation(gram_of(c, 2), Participation(1, 2, fixed_order=True))
    assert one.joint_sensitivity**2 >= x.max()
    assert not one.is_exact


def test_columns_orthogonal_by_their_numbers():
    """Columns may share rows; rounding of the inner products counts."""
    c = np.array([[1, 0, 0], [0.5, 1, 0], [0.6, 0, 1], [-0.6, 0, 1]])
    found = repeated_participation(gram_of(c, 2), Participation(2, 2))
    assert found.is_exact
    assert found.release_sensitivity**2 == pytest.approx(2.0, rel=1e-12)
    assert found.joint_sensitivity**2 == pytest.approx((c[:, 0] ** 2).sum() + 2.0)


def test_participations_are_capped_by_the_steps():
    """T = 7 has room for ceil(7 / 3) = 3 participations."""
    assert repeated_participation(gram_of(np.eye(7), 3), Participation(100, 3)).participations == 3
    assert repeated_participation(gram_of(np.eye(7), 3), Participation(2, 3)).participations == 2


@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=4, max_size=4))
def test_eigenvalue_bound(rows):
    x = np.array(rows)
    x = x + x.T + 0.1 * np.eye(4)
    assert (
        np.linalg.eigvalsh(x)[-1] * (1 - 1e-12) <= largest_eigenvalue_bound(x) <= x.sum(axis=1).max() * 1.001
    )


def test_fewer_participations_than_a_fixed_order_has_room_for_are_not_attained():
    """The sensitivities are those of all four steps; no two of them have such a Gram matrix."""
    c = square_root(4)
    assert not repeated_participation(gram_of(c, 1), Participation(1, 1, fixed_order=True)).is_attained
    assert repeated_participation(gram_of(np.eye(4), 1), Participation(2, 1, fixed_order=True)).is_attained
