"""Errors due to noise and sparsification (docs/theory.md, "Utility" and "Factorized streams")."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism_table import Geometry, MechanismName
from csgm_cli.model.result import MeanSquaredError, NoisePerRow

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Mechanism, RowNorms


class Rows(Enum):
    """Which rows of a factorized stream an error is of; without a factorization there is one."""

    MEAN = "mean"
    LAST = "last"


def mean_noise_std(mechanism: Mechanism, sigma: float) -> float | None:
    """Std of the noise on each coordinate of the mean estimate: sigma/(n gamma); needs n.

    With a factorization it depends on the row: None.
    """
    n = mechanism.geometry.cohort_size
    return None if n is None or mechanism.factorization is not None else sigma / (n * mechanism.gamma)


def noise_std_per_row(mechanism: Mechanism, sigma: float) -> NoisePerRow | None:
    """Std of the noise on each coordinate of a row: sigma ||B[t]||/(n gamma); needs n and a factorization."""
    n, rows = mechanism.geometry.cohort_size, _rows(mechanism)
    if n is None or rows is None:
        return None
    std = sigma / (n * mechanism.gamma)
    return NoisePerRow(std * rows.least, std * rows.mean, std * rows.largest)


def bits_per_client(mechanism: Mechanism, value_bits: int) -> float | None:
    """Expected bits of values (positions not counted) that a client sends: gamma d b; needs d."""
    d = mechanism.geometry.dim
    return None if d is None else mechanism.gamma * d * value_bits


def error_weights(mechanism: Mechanism, of: Rows = Rows.MEAN) -> tuple[float, float]:
    """The factors of a factorization on the two parts of the MSE: ||B[t]||^2 and ||A[t]||^2; else 1 and 1.

    Row t of A X sums one cohort per step, so that their sparsification errors, independent, add up.
    """
    rows = _rows(mechanism)
    if rows is None:
        return 1.0, 1.0
    if of is Rows.MEAN:
        return rows.mean_squared, rows.workload_mean_squared
    return rows.last_squared, rows.workload_last_squared


def error_parts(mechanism: Mechanism, sigma: float, of: Rows = Rows.MEAN) -> tuple[float, float] | None:
    """(privacy, sparsification) parts of the worst-case MSE of the mean; needs d and n.

    d sigma^2/(n gamma)^2 and (1 - q gamma) l2_norm^2/(n gamma), each times its weight (`error_weights`),
    summed over coordinates. With a sampling rate q < 1, n = q N is the expected cohort size, the mean is that
    of the population, and the second part includes the error due to who takes part.
    """
    geometry, gamma = mechanism.geometry, mechanism.gamma
    d, n = geometry.dim, geometry.cohort_size
    if d is None or n is None or (mechanism.factorization is not None and _rows(mechanism) is None):
        return None
    noise, sent = error_weights(mechanism, of)
    unsent = 1 - mechanism.sampling_rate * gamma
    return noise * (d * (sigma / (n * gamma)) ** 2), sent * (unsent * geometry.l2_norm**2 / (n * gamma))


def last_row_parts(mechanism: Mechanism, sigma: float) -> tuple[float, float] | None:
    """`error_parts` of the last row; None without a factorization."""
    return None if mechanism.factorization is None else error_parts(mechanism, sigma, Rows.LAST)


def mean_squared_error(
    mechanism: Mechanism, sigma: float, gaussian: Mechanism, gaussian_sigma: float, of: Rows = Rows.MEAN
) -> MeanSquaredError | None:
    """MSE of the mechanism beside that of ``gaussian``, which releases the same rows; needs d and n."""
    parts = error_parts(mechanism, sigma, of)
    baseline = error_parts(gaussian, gaussian_sigma, of)
    if parts is None or baseline is None:
        return None
    total, gaussian_total = sum(parts), sum(baseline)
    return MeanSquaredError(*parts, total, gaussian_total, total / gaussian_total)


def require_error_inputs(geometry: Geometry, what: str) -> None:
    """Raise ``UsageError`` (slug ``missing-utility-inputs``) where ``what`` lacks d or n."""
    if geometry.dim is None or geometry.cohort_size is None:
        raise UsageError(
            "missing-utility-inputs", f"{what} needs dim and cohort_size", "pass `dim` and `cohort_size`"
        )


def sigma_at_equal_error(
    mechanism: Mechanism, gaussian: Mechanism, gaussian_sigma: float, allowed: float = 1.0
) -> float:
    """The sigma at which the MSE is ``allowed`` times that of ``gaussian``; 0 where it is more without noise.

    gamma^2 (allowed b_G/b (sigma_G^2 + s_G) - a/b s), where s = n (1 - q gamma) l2_norm^2/(gamma d) is the
    sparsification error as a variance of sigma/gamma, s_G that of the Gaussian mechanism (0 unless q < 1), b
    and a are the weights of `error_weights`, and b_G is that of the Gaussian mechanism; needs d and n.
    """
    noise, sent = error_weights(mechanism)
    share = error_weights(gaussian)[0] / noise
    most = allowed * share * (gaussian_sigma**2 + _sparsification_variance(gaussian))
    return mechanism.gamma * math.sqrt(max(0.0, most - sent / noise * _sparsification_variance(mechanism)))


def _sparsification_variance(mechanism: Mechanism) -> float:
    """The sparsification error as a variance of sigma/gamma: n (1 - q gamma) l2_norm^2/(gamma d)."""
    geometry, gamma = mechanism.geometry, mechanism.gamma
    assert geometry.dim is not None  # the callers saw to it
    assert geometry.cohort_size is not None
    unsent = 1 - mechanism.sampling_rate * gamma
    return unsent * geometry.l2_norm**2 * geometry.cohort_size / (gamma * geometry.dim)


def gaussian_like(mechanism: Mechanism) -> Mechanism:
    """The plain Gaussian mechanism, or the matrix mechanism, in the place of ``mechanism``."""
    return replace(mechanism, name=MechanismName.GAUSSIAN, gamma=1.0)


def _rows(mechanism: Mechanism) -> RowNorms | None:
    return None if mechanism.factorization is None else mechanism.factorization.rows
