"""Checks of the arguments of a noise stream; each mistake is a ``UsageError`` that names it."""

# ruff: noqa: N806 - T is the number of rows in every formula, N of states

from __future__ import annotations

import secrets
import warnings
from numbers import Integral
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from csgm_cli.errors import UsageError, shown
from csgm_cli.model.factorization import Bands, Generators, NoiseState
from csgm_cli.ranges import Range, check_range, check_type

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from csgm_cli.noise.normals import Floats, NormalSource

FloatType: TypeAlias = "np.dtype[np.floating]"
#: Seeds are keys of Philox.
_SEED_BITS = 128
_SIGMA = Range(0.0, 1e48)
#: float32 has numbers for this noise and for its multiples by any coefficient of a factorization.
_SINGLE_SIGMA = Range(1e-30, 1e30)


def float_type(dtype: DTypeLike | None, factors: object) -> FloatType:
    """float32 or float64; without ``dtype`` that of arrays, and float64 for a factorization.

    ``UsageError`` (slug ``wrong-dtype``) for others, and where arrays would have to be rounded: the
    sensitivity may be larger afterwards.
    """
    own: tuple[object, ...] = (factors,)
    if isinstance(factors, Generators):
        own = (factors.decays, factors.inputs, factors.outputs, factors.diagonal)
    elif isinstance(factors, Bands):
        own = (factors.matrix,)
    arrays = [part.dtype for part in own if isinstance(part, np.ndarray)]
    given = np.result_type(*arrays) if arrays else np.dtype(np.float64)
    try:
        found = given if dtype is None else np.dtype(dtype)
    except TypeError:
        found = None
    if found not in (np.float32, np.float64):
        raise UsageError("wrong-dtype", f"dtype must be float32 or float64, got {shown(dtype or given)}")
    if arrays and given == np.float64 and found == np.float32:
        raise UsageError(
            "wrong-dtype",
            "float64 factors cannot make float32 noise: rounding them could raise the sensitivity",
            "export them in float32, or give the factorization",
        )
    return cast("FloatType", found)


def checked_sigma(sigma: float, dtype: FloatType, *, no_privacy: bool) -> float:
    """``sigma`` as a number with room in ``dtype``; 0, with a warning, only where ``no_privacy`` says so."""
    check_type("no_privacy", no_privacy, bool)
    if check_range("sigma", sigma, _SIGMA) == 0.0:
        if not no_privacy:
            raise UsageError(
                "no-privacy", "sigma is 0: no privacy", "pass no_privacy=True if that is intended"
            )
        warnings.warn("sigma is 0: the releases have no noise and no privacy", stacklevel=3)
        return 0.0
    sigma = check_range("sigma", sigma, _SINGLE_SIGMA if dtype == np.float32 else None)
    if no_privacy:
        raise UsageError("conflicting-options", f"no_privacy is for sigma 0, got sigma {sigma!r}")
    return sigma


def checked_seed(seed: int | None, normals: NormalSource | None, resume: NoiseState | None) -> int | None:
    """The seed of Philox, None where the normals are the caller's."""
    if resume is not None:
        check_type("resume", resume, NoiseState)
    if normals is not None and not callable(normals):
        raise UsageError("invalid-type", f"normals must be a function, got {shown(normals)}")
    if seed is not None and (normals is not None or resume is not None):
        other = "normals" if normals is not None else "resume"
        raise UsageError("conflicting-options", f"seed and {other} exclude each other")
    if resume is not None:
        if (resume.seed is None) != (normals is not None):
            said = "drew from a function" if resume.seed is None else "drew from a seed"
            raise UsageError("other-noise", f"the stream of this state {said}, and so must this one")
        seed = resume.seed
    if normals is not None:
        return None
    return secrets.randbits(_SEED_BITS) if seed is None else _whole_seed(seed)


def _whole_seed(seed: object) -> int:
    """Exactly, where ``check_range`` would round to a float."""
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise UsageError("invalid-type", f"seed must be an integer, got {shown(seed)}")
    whole = int(seed)
    if not 0 <= whole < 1 << _SEED_BITS:
        raise UsageError("out-of-range", f"seed must be in [0, 2^{_SEED_BITS}), got {shown(whole)}")
    return whole


def checked_matrix(factors: object) -> Floats:
    """The matrix ``factors``: two-sided, finite, with a column for each row at least, no upper triangle.

    It need not be lower-triangular: noise B Z has the law of L Z', B = L Q with a lower-triangular L.
    """
    if not isinstance(factors, np.ndarray):
        raise UsageError(
            "invalid-type",
            f"factors must be a Factorization, Generators, Bands or a NumPy array, got {shown(factors)}",
            "pass one array of a file: np.load(FILE)['C_inv'] for increments, ['B'] for sums; "
            "read_arrays(FILE).arrays has those of every format",
        )
    matrix = cast("Floats", factors)
    hint = "C_inv and B have two; a streaming form is given as Generators"
    _check_array("the matrix", matrix, 2, hint)
    rows, columns = matrix.shape
    if rows > columns:
        raise UsageError(
            "shape-mismatch",
            f"the matrix has more rows than columns, {rows} and {columns}: it is neither a B nor a C_inv",
            "if it is a C, pass its B for sums, or its C_inv (np.linalg.pinv(C)) for increments",
        )
    if rows == columns and np.triu(matrix, 1).any() and not np.tril(matrix, -1).any():
        raise UsageError(
            "transposed",
            "upper-triangular matrices are not supported: a triangular B or C_inv is lower-triangular",
            "if it was transposed by mistake, pass its transpose",
        )
    return matrix


def checked_generators(generators: Generators) -> int:
    """T, once the arrays fit together."""
    for name, sides in (("decays", 2), ("inputs", 2), ("outputs", 2), ("diagonal", 1)):
        _check_array(name, getattr(generators, name), sides)
    T, N = map(int, generators.decays.shape)
    fits = generators.inputs.shape == generators.outputs.shape == (T, N)
    if not fits or generators.diagonal.shape != (T,):
        names = ("decays", "inputs", "outputs", "diagonal")
        shapes = ", ".join(f"{name} {getattr(generators, name).shape}" for name in names)
        raise UsageError(
            "shape-mismatch",
            f"decays, inputs and outputs must be T x N, and diagonal T long, got {shapes}",
            "take all four from one file",
        )
    if not (generators.diagonal > 0).all():
        raise UsageError("out-of-range", "the diagonal of C must be positive")
    return T


def checked_bands(bands: Bands) -> int:
    """T, once the array can be the bands of a C."""
    _check_array("the bands", bands.matrix, 2, "C[j+l, j] is in row l and column j")
    count, T = map(int, bands.matrix.shape)
    if count > T:
        raise UsageError(
            "shape-mismatch",
            f"the bands have shape {bands.matrix.shape}: C with {T} rows has no more than {T} bands",
            "was it transposed?",
        )
    if not (bands.matrix[0] > 0).all():
        raise UsageError("out-of-range", "the diagonal of C must be positive")
    return T


def check_finite_noise(t: int, noise: Floats) -> None:
    """Raise ``UsageError`` (slug ``not-finite``) for noise of round ``t`` that overflowed."""
    if not np.isfinite(noise).all():
        raise UsageError(
            "not-finite",
            f"the noise of round {t} overflows {noise.dtype}: numbers of the factors are too large",
            "pass factors of a smaller scale",
        )


def _check_array(name: str, array: object, sides: int, hint: str = "") -> None:
    check_type(name, array, np.ndarray)
    numbers = cast("Floats", array)
    if numbers.dtype not in (np.float32, np.float64):
        raise UsageError("wrong-dtype", f"{name} must be of float32 or float64, got {numbers.dtype}")
    if numbers.ndim != sides or not numbers.size:
        raise UsageError("shape-mismatch", f"{name} must have {sides} sides, got shape {numbers.shape}", hint)
    if not np.isfinite(numbers).all():
        raise UsageError("not-finite", f"{name} must be finite")
