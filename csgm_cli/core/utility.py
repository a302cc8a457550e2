"""What the noise and the sparsification cost (docs/theory.md, "Utility")."""

from __future__ import annotations

from csgm_cli.model import Geometry, MeanSquaredError, Mechanism


def mean_noise_std(mechanism: Mechanism, sigma: float) -> float | None:
    """Std of the noise on each coordinate of the mean estimate: sigma/(n gamma); needs n."""
    n = mechanism.geometry.cohort_size
    return None if n is None else sigma / (n * mechanism.gamma)


def bits_per_client(mechanism: Mechanism, value_bits: int) -> float | None:
    """Expected bits of values (positions not counted) that a client sends: gamma d b; needs d."""
    d = mechanism.geometry.dim
    return None if d is None else mechanism.gamma * d * value_bits


def error_parts(geometry: Geometry, gamma: float, sigma: float) -> tuple[float, float] | None:
    """(privacy, sparsification) parts of the worst-case MSE of the mean; needs d and n.

    d sigma^2/(n gamma)^2 and (1 - gamma) l2_norm^2/(n gamma), summed over coordinates.
    """
    d, n = geometry.dim, geometry.cohort_size
    if d is None or n is None:
        return None
    return d * (sigma / (n * gamma)) ** 2, (1 - gamma) * geometry.l2_norm**2 / (n * gamma)


def mean_squared_error(mechanism: Mechanism, sigma: float, gaussian_sigma: float) -> MeanSquaredError | None:
    """MSE of the mechanism beside the Gaussian mechanism's; needs d and n."""
    parts = error_parts(mechanism.geometry, mechanism.gamma, sigma)
    baseline = error_parts(mechanism.geometry, 1.0, gaussian_sigma)
    if parts is None or baseline is None:
        return None
    total, gaussian_total = sum(parts), sum(baseline)
    return MeanSquaredError(*parts, total, gaussian_total, total / gaussian_total)
