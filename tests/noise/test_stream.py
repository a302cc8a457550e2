"""What a stream yields, number by number: recursions by hand, blocks, resuming, order and memory."""

import contextlib
import dataclasses
import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csgm_cli import NoiseState, NoiseStream
from csgm_cli.errors import UsageError
from csgm_cli.factorization import dense_factors, factorize, schedule_workload
from csgm_cli.model.factorization import Bands, Generators, strategy_named
from csgm_cli.noise.normals import CHUNK

FORMS = [
    "streaming:3",
    "streaming:12",
    "blt:2",
    "banded",
    "optimal",
    "tree",
]  # sums of 8 and more have their own order
NO_INVERSE = ("tree", "increments")


def rows_of(stream):
    shape = (stream.T - stream.t, len(stream.coordinates))
    return np.array(list(stream), stream.dtype).reshape(shape)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# ---------------------------------------------------------------- what is computed


def test_the_recursion_by_hand():
    """Two states, three rounds, z = 1, 2, 3 and sigma 2."""
    g = Generators(
        decays=np.array([[0.5, 0.25], [0.5, 0.25], [0.5, 0.25]]),
        inputs=np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]),
        outputs=np.array([[7.0, 7.0], [0.5, 0.25], [1.0, 1.0]]),
        diagonal=np.array([1.0, 0.5, 2.0]),
    )

    def z(row, chunk, length):
        return np.full(length, row + 1.0)

    # x_0 = 2 / 1; s = (2, 4). x_1 = (4 - 1 - 1) / 0.5; s = (1, 1) + (4, 8). x_2 = (6 - 5 - 9) / 2.
    stream = NoiseStream(g, sigma=2, dim=2, on="increments", normals=z)
    assert rows_of(stream).tolist() == [[2, 2], [4, 4], [-4, -4]]
    stream = NoiseStream(g, sigma=2, dim=2, on="sums", normals=z)
    assert rows_of(stream).tolist() == [[2, 2], [6, 6], [2, 2]]


def test_a_product_by_hand():
    """Any matrix times Z, here with more columns than rows, as trees have."""
    matrix = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    stream = NoiseStream(matrix, sigma=3, dim=2, on="sums", normals=lambda row, _, n: np.full(n, 10.0**row))
    assert rows_of(stream).tolist() == [[63, 63], [0, 0]]


def test_rows_of_zeros():
    """Rows without a coefficient are zero, not whatever the memory held."""
    empty = np.empty
    with mock.patch.object(np, "empty", lambda shape, dtype=float: np.full_like(empty(shape, dtype), 7)):
        assert not rows_of(NoiseStream(np.zeros((70, 70)), sigma=1.0, dim=5, on="sums")).any()


@pytest.mark.parametrize("on", ["sums", "increments"])
@pytest.mark.parametrize(("dtype", "error"), [("float64", 1e-11), ("float32", 2e-5)])
def test_streaming_is_the_dense_product(factorization, on, dtype, error):
    """From the same Z: N numbers of state make what T x T matrices make, to rounding (of up to 20)."""
    found = factorization("streaming:4", 70)
    factors = dense_factors(found)
    matrix = factors.B if on == "sums" else factors.C_inv
    streaming = rows_of(NoiseStream(found, sigma=2.0, dim=40, on=on, seed=1, dtype=dtype))
    z = rows_of(NoiseStream(np.eye(70), sigma=2.0, dim=40, on=on, seed=1))
    dense = rows_of(NoiseStream(matrix, sigma=2.0, dim=40, on=on, seed=1))
    np.testing.assert_allclose(dense, matrix @ z, rtol=0, atol=1e-11)
    if dtype == "float64":
        np.testing.assert_allclose(streaming, dense, rtol=0, atol=error)
    else:  # other normals are drawn in float32
        z = rows_of(NoiseStream(np.eye(70, dtype=dtype), sigma=2.0, dim=40, on=on, seed=1))
        np.testing.assert_allclose(streaming, matrix @ z, rtol=0, atol=error)


def test_bands_by_hand():
    """C = ((2, 0, 0), (1, 1, 0), (0, 3, 4)) and z = (2, 4, 8): x = (1, 3, -1/4)."""
    bands = Bands(np.array([[2.0, 1.0, 4.0], [1.0, 3.0, 0.0]]))
    normals = {"normals": lambda row, chunk, length: np.full(length, 2.0 ** (row + 1))}
    increments = rows_of(NoiseStream(bands, sigma=1.0, dim=1, on="increments", **normals))
    np.testing.assert_allclose(increments[:, 0], [1.0, 3.0, -0.25], rtol=1e-15)
    sums = rows_of(NoiseStream(bands, sigma=1.0, dim=1, on="sums", **normals))
    np.testing.assert_allclose(sums[:, 0], [1.0, 4.0, 3.75], rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bands_filter_with_exactly_the_bands(factorization, dtype):
    """C x is the normals that were drawn, for the C of the bands and no other."""
    matrix = factorization("banded", 70).band_matrix.astype(dtype)
    x = rows_of(NoiseStream(Bands(matrix), sigma=1.0, dim=40, on="increments", seed=1)).astype(float)
    z = rows_of(NoiseStream(np.eye(70, dtype=dtype), sigma=1.0, dim=40, on="increments", seed=1))
    c = sum(np.diag(band[: 70 - lag].astype(float), -lag) for lag, band in enumerate(matrix))
    np.testing.assert_allclose(c @ x, z, rtol=0, atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("strategy", ["streaming:3", "optimal"])
def test_sums_are_sums_of_increments(strategy):
    """(B Z) = A (C^-1 Z), learning rates included."""
    rates = np.linspace(0.1, 2.0, 30)
    found = factorize(schedule_workload(rates), strategy_named(strategy))
    sums, increments = (
        rows_of(NoiseStream(found, sigma=1.0, dim=9, on=on, seed=3)) for on in ("sums", "increments")
    )
    np.testing.assert_allclose(sums, np.cumsum(rates[:, None] * increments, axis=0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("on", ["sums", "increments"])
@pytest.mark.parametrize("strategy", ["streaming:3", "optimal"])
def test_later_inputs_change_no_earlier_noise(factorization, small_pieces, strategy, on):
    """Causality: with other factors and normals from round t on, the first t rounds have the same bits."""
    T, t = 11, 5
    found = factorization(strategy, T)
    factors = found.generators or (dense_factors(found).B if on == "sums" else dense_factors(found).C_inv)
    if isinstance(factors, Generators):
        changed = Generators(*(np.where(np.arange(T) < t, p.T, 0.5).T for p in dataclasses.astuple(factors)))
    else:
        changed = np.tril(np.where(np.arange(T)[:, None] < t, factors, 0.5))

    def normals(shift):
        def z(row, chunk, length):
            drawn = np.random.default_rng([row, chunk]).standard_normal(length)
            return drawn + (shift if row >= t else 0.0)

        return z

    with small_pieces():
        before, after = (
            rows_of(NoiseStream(f, sigma=1.0, dim=10, on=on, normals=normals(shift)))
            for f, shift in ((factors, 0.0), (changed, 3.0))
        )
    assert same_bits(before[:t], after[:t])
    assert (before[t:] != after[t:]).all()


def test_what_is_done_with_the_noise_does_not_matter(factorization):
    """Writing into a round that was handed out changes no other."""
    for strategy in FORMS:
        found = factorization(strategy, 6)
        kept = rows_of(NoiseStream(found, sigma=1.0, dim=5, on="sums", seed=3))
        for expected, noise in zip(
            kept, NoiseStream(found, sigma=1.0, dim=5, on="sums", seed=3), strict=True
        ):
            assert same_bits(noise, expected)
            noise[:] = np.nan


# ---------------------------------------------------------------- bits


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("strategy", "on"),
    [(strategy, on) for strategy in FORMS for on in ("sums", "increments") if (strategy, on) != NO_INVERSE],
)
@pytest.mark.parametrize("width", [1, 7, 23])
@pytest.mark.parametrize("small", [True, False])
def test_blocks_and_resuming_change_no_bit(factorization, small_pieces, strategy, on, dtype, width, small):
    """Resumed at t = 0, 1 and T - 1, in blocks of 1, 7 and d coordinates."""
    T, d = 9, 23
    found = factorization(strategy, T)
    options = {"sigma": 0.3, "dim": d, "on": on, "dtype": dtype}
    with small_pieces() if small else contextlib.nullcontext():
        stream = NoiseStream(found, seed=12, **options)
        whole = rows_of(stream)
        for t in (0, 1, T - 1):
            begun = NoiseStream(found, seed=12, **options)
            for _ in range(t):
                begun.next_round()
            resumed = NoiseStream(found, resume=begun.state, **options)
            assert resumed.t == t
            for block in resumed.blocks(width):
                expected = whole[t:, block.coordinates.start : block.coordinates.stop]
                assert same_bits(rows_of(block), expected)
            assert same_bits(rows_of(resumed), whole[t:])


@pytest.mark.parametrize("strategy", FORMS)
def test_blocks_across_chunks(factorization, strategy):
    """With chunks of their true length: blocks that begin and end inside, and one coordinate alone."""
    found = factorization(strategy, 3)
    stream = NoiseStream(found, sigma=1.0, dim=2 * CHUNK + 5, on="sums", dtype="float32")
    blocks = list(stream.blocks(CHUNK - 1))
    assert [len(block.coordinates) for block in blocks] == [CHUNK - 1, CHUNK - 1, 7]
    single = next(blocks[1].blocks(1))
    assert single.coordinates == range(CHUNK - 1, CHUNK)
    whole = rows_of(stream)
    assert same_bits(rows_of(single), whole[:, CHUNK - 1 : CHUNK])
    assert same_bits(np.concatenate([rows_of(block) for block in blocks], axis=1), whole)


@settings(max_examples=60, deadline=None)
@given(
    strategy=st.sampled_from([*FORMS, "identity"]),
    T=st.sampled_from([1, 2, 3, 5, 12]),
    d=st.integers(1, 40),
    width=st.integers(1, 45),
    start=st.integers(0, 12),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 2**128 - 1),
)
def test_any_shape(factorization, small_pieces, strategy, T, d, width, start, dtype, seed):
    """The shape of every round, and the same bits in any blocks from any round on."""
    found = factorization(strategy, T)
    with small_pieces():
        stream = NoiseStream(found, sigma=1.0, dim=d, on="sums", dtype=dtype, seed=seed)
        whole = rows_of(stream)
        assert whole.shape == (T, d)
        assert whole.dtype == dtype
        assert np.isfinite(whole).all()
        state = dataclasses.replace(stream.state, t=min(start, T))
        again = NoiseStream(found, sigma=1.0, dim=d, on="sums", dtype=dtype, resume=state)
        parts = [rows_of(block) for block in again.blocks(width)]
    assert same_bits(np.concatenate(parts, axis=1), whole[min(start, T) :])


def test_blocks_may_run_in_threads(factorization):
    """Blocks share nothing that changes."""
    for strategy in FORMS:
        stream = NoiseStream(factorization(strategy, 20), sigma=1.0, dim=3 * CHUNK, on="sums", seed=4)
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(rows_of, stream.blocks(CHUNK // 2)))
        assert same_bits(np.concatenate(parts, axis=1), rows_of(stream))


@pytest.mark.parametrize("strategy", FORMS)
def test_an_interrupted_round_is_the_same_when_tried_again(factorization, small_pieces, strategy):
    """A failure between two chunks of a round leaves no chunk a round ahead."""

    def normals(row, chunk, length):
        if (row, chunk) == (3, 1) and failing.pop():
            raise KeyboardInterrupt
        return np.random.default_rng([row, chunk]).standard_normal(length)

    with small_pieces():
        failing = [False] * 99
        whole = rows_of(
            NoiseStream(factorization(strategy, 8), sigma=1.0, dim=20, on="sums", normals=normals)
        )
        failing = [False, True]
        stream = NoiseStream(factorization(strategy, 8), sigma=1.0, dim=20, on="sums", normals=normals)
        found = []
        while stream.t < 8:
            failing = failing or [False] * 99
            try:
                found.append(stream.next_round())
            except KeyboardInterrupt:
                failing = [False] * 99
    assert same_bits(np.array(found), whole)


# ---------------------------------------------------------------- seeds and states


def test_entropy_of_the_operating_system(factorization):
    """Without a seed no two streams are alike, and the seed has 128 bits."""
    found = factorization("identity", 2)
    streams = [NoiseStream(found, sigma=1.0, dim=4, on="sums") for _ in range(50)]
    assert len({stream.state.seed for stream in streams}) == 50
    assert len({stream.next_round().tobytes() for stream in streams}) == 50
    # A false alarm needs 50 seeds below 2^122: probability 2^-300.
    assert max(stream.state.seed for stream in streams) >= 2**122


def test_a_state_survives_json_and_is_not_shown(factorization):
    """The seed is in the state, not in what a log would show of it."""
    stream = NoiseStream(factorization("streaming:3", 5), sigma=1.0, dim=4, on="sums")
    stream.next_round()
    state = stream.state
    assert NoiseState(**json.loads(json.dumps(dataclasses.asdict(state)))) == state
    assert str(state.seed) not in repr(state)
    assert str(state.seed) not in repr(stream)


def test_a_state_of_another_stream(factorization):
    """Whatever changes the noise is noticed: factors, sigma, dim, on, dtype, normals, T."""
    found = factorization("streaming:3", 5)
    options = {"sigma": 1.0, "dim": 4, "on": "sums", "dtype": "float64"}
    state = NoiseStream(found, seed=1, **options).state
    others = [{"sigma": 1.1}, {"dim": 5}, {"on": "increments"}, {"dtype": "float32"}]
    attempts = [(found, options | other) for other in others]
    attempts += [
        (factorization(s, T), options) for s, T in (("streaming:2", 5), ("streaming:3", 6), ("tree", 5))
    ]
    states = [(f, o, state) for f, o in attempts] + [(found, options, dataclasses.replace(state, seed=2))]
    for factors, changed, given_state in states:
        with pytest.raises(UsageError) as caught:
            NoiseStream(factors, resume=given_state, **changed)
        assert caught.value.slug == "other-noise"


def test_own_normals_resume_only_if_they_repeat(factorization):
    """A function of the row and the chunk goes on; one that draws anew each time is found out."""
    options = {"sigma": 1.0, "dim": 6, "on": "sums"}
    found = factorization("streaming:3", 5)

    def repeating(row, chunk, length):
        return np.random.default_rng([9, row, chunk]).standard_normal(length)

    whole = NoiseStream(found, normals=repeating, **options)
    first = whole.next_round()
    state = whole.state
    assert state.seed is None
    assert same_bits(rows_of(NoiseStream(found, normals=repeating, resume=state, **options)), rows_of(whole))
    assert np.isfinite(first).all()
    changing = np.random.default_rng(0)
    with pytest.raises(UsageError) as caught:
        NoiseStream(found, normals=lambda row, chunk, n: changing.standard_normal(n), resume=state, **options)
    assert caught.value.slug == "other-noise"


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(("on", "numbers"), [("increments", 4), ("sums", 5)])
def test_memory_of_a_stream(factorization, on, numbers):
    """N numbers per coordinate (on sums N + 1), one round of noise, and a few chunks."""
    stream = NoiseStream(factorization("streaming:4", 30), sigma=1.0, dim=400_000, on=on, dtype="float32")
    tracemalloc.start()
    for _ in range(3):
        stream.next_round()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * ((numbers + 1) * 400_000 + 8 * CHUNK)


def test_memory_of_a_block(factorization):
    """All rounds of a block, one after the other, in the memory of the block."""
    stream = NoiseStream(factorization("streaming:4", 30), sigma=1.0, dim=10**9, on="sums", dtype="float32")
    block = next(stream.blocks(CHUNK))
    tracemalloc.start()
    for _ in block:
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 14 * CHUNK
