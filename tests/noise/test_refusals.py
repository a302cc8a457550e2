"""What a stream refuses, and what it says."""

import math

import numpy as np
import pytest

from csgm_cli import NoiseState, NoiseStream, read_arrays
from csgm_cli.errors import CsgmError, UsageError
from csgm_cli.factorization import dense_factors
from csgm_cli.model.factorization import Bands, Generators

IDENTITY = np.eye(3)
OPTIONS = {"sigma": 1.0, "dim": 4, "on": "sums"}


def refused(factors=IDENTITY, **changed):
    with pytest.raises(UsageError) as caught:
        NoiseStream(factors, **(OPTIONS | changed))
    return caught.value


def generators(**changed):
    parts = {
        "decays": np.full((3, 2), 0.5),
        "inputs": np.ones((3, 2)),
        "outputs": np.ones((3, 2)),
        "diagonal": np.ones(3),
    }
    return Generators(**(parts | changed))


@pytest.mark.parametrize("strategy", ["streaming:2", "optimal", "tree"])
def test_round_after_the_last(factorization, strategy):
    """Row T + 1 does not exist, however it is asked for; what was drawn stays drawn."""
    stream = NoiseStream(factorization(strategy, 4), **OPTIONS)
    for t in range(4):
        assert stream.t == t
        stream.next_round()
    for _ in range(2):
        with pytest.raises(UsageError) as caught:
            stream.next_round()
        assert caught.value.slug == "no-rounds-left"
        assert "4 rounds" in caught.value.message
        assert "new seed" in caught.value.hint
    assert list(stream) == []
    finished = NoiseStream(factorization(strategy, 4), resume=stream.state, **OPTIONS)
    assert (finished.t, list(finished)) == (4, [])


@pytest.mark.parametrize("factors", [IDENTITY, generators()], ids=["dense", "streaming"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_noise_at_all(factors, dtype):
    """sigma 0 must be meant, is warned of, and then is exactly 0."""
    assert refused(sigma=0).slug == "no-privacy"
    assert refused(sigma=-0.0).slug == "no-privacy"
    if dtype == "float32":
        factors = narrow(factors)
    with pytest.warns(UserWarning, match="no privacy"):
        stream = NoiseStream(factors, **(OPTIONS | {"sigma": 0}), no_privacy=True)
    assert stream.dtype == dtype
    assert not np.array(list(stream)).any()
    assert refused(no_privacy=True).slug == "conflicting-options"


def narrow(factors):
    if isinstance(factors, Generators):
        parts = (factors.decays, factors.inputs, factors.outputs, factors.diagonal)
        return Generators(*(part.astype(np.float32) for part in parts))
    return factors.astype(np.float32)


@pytest.mark.parametrize(
    ("changed", "slug", "said"),
    [
        ({"sigma": -1.0}, "out-of-range", "sigma must be"),
        ({"sigma": math.nan}, "out-of-range", "sigma must be"),
        ({"sigma": math.inf}, "out-of-range", "sigma must be"),
        ({"sigma": 1e-46}, "out-of-range", "sigma must be"),
        ({"sigma": "1"}, "invalid-type", "sigma must be a number"),
        ({"sigma": None}, "invalid-type", "sigma must be a number"),
        ({"sigma": np.ones(2)}, "invalid-type", "sigma must be a number"),
        ({"dim": 0}, "out-of-range", "dim must be"),
        ({"dim": 1.5}, "out-of-range", "dim must be"),
        ({"dim": None}, "invalid-type", "dim must be"),
        ({"on": "products"}, "unknown-choice", "on must be one of increments, sums"),
        ({"on": None}, "unknown-choice", "on must be one of increments, sums"),
        ({"dtype": "float16"}, "wrong-dtype", "dtype must be float32 or float64, got 'float16'"),
        ({"dtype": int}, "wrong-dtype", "dtype must be float32 or float64"),
        ({"dtype": "nonsense"}, "wrong-dtype", "dtype must be float32 or float64"),
        ({"dtype": "float32"}, "wrong-dtype", "float64 factors cannot make float32 noise"),
        ({"dtype": ">f8"}, "wrong-dtype", "dtype must be float32 or float64"),
        ({"seed": -1}, "out-of-range", "seed must be in [0, 2^128)"),
        ({"seed": 2**128}, "out-of-range", "seed must be in [0, 2^128)"),
        ({"seed": 1.0}, "invalid-type", "seed must be an integer"),
        ({"seed": True}, "invalid-type", "seed must be an integer"),
        ({"normals": 3}, "invalid-type", "normals must be a function"),
        ({"normals": print, "seed": 1}, "conflicting-options", "seed and normals exclude each other"),
        ({"resume": 3}, "invalid-type", "resume must be a NoiseState"),
        ({"resume": NoiseState(0, "", 5), "seed": 5}, "conflicting-options", "seed and resume exclude"),
        ({"resume": NoiseState(0, "", 5)}, "other-noise", "the state belongs to another stream"),
        ({"resume": NoiseState(0, "")}, "other-noise", "the stream of this state drew from a function"),
        ({"resume": NoiseState(0, "", 5), "normals": print}, "other-noise", "the stream of this state drew"),
        ({"resume": NoiseState(4, "", 5)}, "out-of-range", "t must be an integer in [0, 3]"),
        ({"resume": NoiseState(-1, "", 5)}, "out-of-range", "t must be an integer in [0, 3]"),
        ({"resume": NoiseState(0, "", "5")}, "invalid-type", "seed must be an integer"),
        ({"no_privacy": "yes"}, "invalid-type", "no_privacy must be a bool"),
    ],
)
def test_bad_arguments(changed, slug, said):
    """Each is named."""
    error = refused(**changed)
    assert error.slug == slug
    assert error.message.startswith(said)


@pytest.mark.parametrize(
    ("factors", "slug"),
    [
        (None, "invalid-type"),
        ([[1.0]], "invalid-type"),
        ("optimal", "invalid-type"),
        (np.eye(3, dtype=int), "wrong-dtype"),
        (np.eye(3, dtype=np.float16), "wrong-dtype"),
        (np.eye(3, dtype=complex), "wrong-dtype"),
        (np.ones(3), "shape-mismatch"),
        (np.ones((3, 3, 1)), "shape-mismatch"),
        (np.ones((0, 0)), "shape-mismatch"),
        (np.ones((3, 0)), "shape-mismatch"),
        (np.diag([1.0, math.nan]), "not-finite"),
        (np.diag([1.0, math.inf]), "not-finite"),
        (np.triu(np.ones((3, 3))), "transposed"),
        (np.ones((3, 2)), "shape-mismatch"),
        (generators(decays=np.ones((2, 2))), "shape-mismatch"),
        (generators(inputs=np.ones((3, 1))), "shape-mismatch"),
        (generators(outputs=np.ones(3)), "shape-mismatch"),
        (generators(diagonal=np.ones(2)), "shape-mismatch"),
        (generators(diagonal=np.array([1.0, 0.0, 1.0])), "out-of-range"),
        (generators(diagonal=np.array([1.0, math.nan, 1.0])), "not-finite"),
        (generators(inputs=np.ones((3, 2), int)), "wrong-dtype"),
        (generators(inputs=None), "invalid-type"),
        (Bands(None), "invalid-type"),
        (Bands(np.ones((2, 3), int)), "wrong-dtype"),
        (Bands(np.ones(3)), "shape-mismatch"),
        (Bands(np.ones((3, 2))), "shape-mismatch"),
        (Bands(np.ones((0, 0))), "shape-mismatch"),
        (Bands(np.array([[1.0, 1.0], [math.inf, 0.0]])), "not-finite"),
        (Bands(np.array([[1.0, -1.0], [1.0, 0.0]])), "out-of-range"),
    ],
)
def test_bad_factors(factors, slug):
    """Arrays of another shape, kind or order."""
    assert refused(factors).slug == slug


#: A number whose multiple by a few standard deviations is beyond float64, as by the opposite one.
HUGE = 1.5e308


@pytest.mark.parametrize(
    "factors",
    [
        np.array([[1.0, 0.0], [HUGE, -HUGE]]),
        np.array([[1.0, 0.0, 0.0], [HUGE, HUGE, -HUGE]]),
        generators(inputs=np.full((3, 2), HUGE)),
        generators(outputs=np.array([[1.0, 1.0], [HUGE, -HUGE], [1.0, 1.0]])),
        generators(diagonal=np.array([1.0, 5e-324, 1.0])),
        np.array([[1.0, 0.0], [3e38, -3e38]], np.float32),
        Bands(np.array([[1.0, 1.0, 1.0], [HUGE, HUGE, 0.0]])),
    ],
)
@pytest.mark.parametrize("on", ["sums", "increments"])
@pytest.mark.parametrize("width", [40, 7])
def test_noise_is_finite_or_refused(factors, on, width):
    """Factors near the end of their range: each round is finite, or an error that names it."""
    stream = NoiseStream(factors, sigma=10.0, dim=40, on=on, seed=1)
    refusals = 0
    for block in stream.blocks(width):
        assert np.isfinite(block.next_round()).all()
        for _ in range(2):  # the round is not skipped
            with pytest.raises(UsageError, match=r"the noise of round \d overflows float(32|64)") as caught:
                list(block)
            refusals += caught.value.slug == "not-finite"
    assert refusals == 2 * -(-40 // width)


def test_generators_are_not_narrowed():
    """One float64 array among float32 ones is enough."""
    mixed = Generators(*(p.astype(np.float32) for p in (IDENTITY, IDENTITY, IDENTITY)), np.ones(3))
    assert refused(mixed, dtype="float32").slug == "wrong-dtype"
    assert NoiseStream(mixed, **OPTIONS).dtype == np.float64
    assert NoiseStream(narrow(mixed), **OPTIONS).dtype == np.float32
    assert NoiseStream(narrow(mixed), dtype="float64", **OPTIONS).dtype == np.float64


def test_sigma_has_room_in_single_precision():
    """What float32 cannot hold is refused there, and its ends are fine."""
    for sigma in (9e-31, 1.1e30):
        assert refused(IDENTITY.astype(np.float32), sigma=sigma).slug == "out-of-range"
    for sigma in (1e-30, 1e30):
        noise = NoiseStream(IDENTITY.astype(np.float32), **(OPTIONS | {"sigma": sigma})).next_round()
        assert np.isfinite(noise).all()
        assert noise.all()


def test_sigma_is_rounded_up():
    """float32 is coarse; the noise is never less than asked for."""
    ones = {"normals": lambda _row, _chunk, length: np.ones(length)}
    for sigma in (0.1, 0.3, 1.0, 1 / 3, 7.7):
        for factors in (narrow(IDENTITY), narrow(generators())):
            noise = NoiseStream(factors, **(OPTIONS | {"sigma": sigma}), **ones).next_round()
            assert sigma <= float(noise[0]) <= sigma * (1 + 2**-23)


def test_trees_have_noise_on_sums_only(factorization):
    """There is no C^-1."""
    assert dense_factors(factorization("tree", 4)).C_inv is None
    error = refused(factorization("tree", 4), on="increments")
    assert error.slug == "no-inverse"


@pytest.mark.parametrize("width", [0, -1, 1.5, "8", None, math.inf])
def test_bad_widths(width):
    """A block has a whole number of coordinates."""
    with pytest.raises(CsgmError) as caught:
        next(NoiseStream(IDENTITY, **OPTIONS).blocks(width))
    assert caught.value.slug in ("out-of-range", "invalid-type")


@pytest.mark.parametrize(
    "returned",
    [
        None,
        1.0,
        np.zeros(3),
        np.zeros((4, 1)),
        np.zeros(4, int),
        np.full(4, math.nan),
        np.array([0, 0, 0, math.inf]),
        ["0"] * 4,
        np.zeros(4, complex),
    ],
    ids=repr,
)
def test_normals_that_are_none(returned):
    """A caller's function must return finite floats of the length asked for, or there is no round."""
    stream = NoiseStream(IDENTITY, normals=lambda *_: returned, **OPTIONS)
    for _ in range(2):
        with pytest.raises(UsageError) as caught:
            stream.next_round()
        assert caught.value.slug == "bad-normals"
    assert stream.t == 0


def test_hints_for_arrays_of_files(factorization, tmp_path):
    """What is given in place of one matrix: the whole file, a series, C of a tree, parts of two files."""
    np.savez(tmp_path / "file.npz", C_inv=IDENTITY)
    with np.load(tmp_path / "file.npz") as file:
        error = refused(file)
        assert error.slug == "invalid-type"
        assert "['C_inv'] for increments" in error.hint
        assert NoiseStream(file["C_inv"], **OPTIONS).T == 3
    saved = read_arrays(tmp_path / "file.npz")
    for whole in (saved, str(tmp_path / "file.npz")):
        assert "read_arrays(FILE).arrays" in refused(whole).hint
    assert NoiseStream(saved.arrays["C_inv"], **OPTIONS).T == 3
    assert "given as Generators" in refused(np.ones(3)).hint
    tree = dense_factors(factorization("tree", 4))
    assert tree.C.shape == (7, 4)
    assert "if it is a C, pass its B" in refused(tree.C).hint
    assert NoiseStream(tree.B, **OPTIONS).T == 4
    error = refused(generators(diagonal=np.ones(2)))
    assert "decays (3, 2), inputs (3, 2), outputs (3, 2), diagonal (2,)" in error.message
