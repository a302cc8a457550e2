"""The largest delta of an adversary under client sampling: each client takes part with probability q.

Nothing of the package is used. The law of y, the likelihood ratio of a round in which the client takes part,
is the convolution of its coordinates on a grid of log y, at several exponential tilts: each is accurate
around its own mean. Log U = log(1 - q + q y) is then put on the grid of `adversary`, each point split onto
its two neighbours such that its mass under both hypotheses is kept. Both steps raise a profile slightly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.adversary import Array, Grid, Spectrum, Vector, World, single

#: Splitting the coordinates' cells raises the variance of log y by this share, and splitting log U raises the
#: logarithm of the tilted moment by the second number; refining divides both by the square of the factor.
_VARIANCE_SHARE, _MOMENT_SHARE = 1e-3, 2e-3
_MOST_CELLS = 1 << 20
#: Left out of the law of y: e^-45 of its mass with and without the client.
_RARE = 45.0
#: Tilts are this many standard deviations of log y apart; at most so many.
_STRIDE, _MOST_TILTS = 6.0, 40
#: The largest product of a tilt and s: beyond, tilted masses are out of float64's range.
_LARGEST = 21.0
#: A tilted mass below this is rounding of the FFT.
_NOISE = 1e-13
#: The law of y is used if its total masses with and without the client are within this of 1.
_TOTAL = 1e-6


class Losses(NamedTuple):
    """The privacy loss of one round, and its log-masses, with the client (add) or without it (remove)."""

    loss: Array
    log_mass: Array

    def log_moments(self, orders: Array) -> Array:
        """Log E[e^(z loss)] at every order z."""
        exponents = self.log_mass[None, :] + orders[:, None] * self.loss[None, :]
        peak = exponents.max(axis=1)
        return np.asarray(peak + np.log(np.exp(exponents - peak[:, None]).sum(axis=1)))


@dataclass(frozen=True)
class _Tilted:
    """The law of log y at a tilt: log-moment, mean and deviation, and the factors' (count, first, masses)."""

    tilt: float
    log_moment: float
    mean: float
    deviation: float
    factors: tuple[tuple[int, int, Array], ...]


def _tilted(gamma: float, vector: Vector, step: float, tilt: float) -> _Tilted:
    log_moment = mean = variance = 0.0
    factors = []
    for count, t in vector:
        first, masses = single(World(gamma, 1, 0.0, tilt - 1.0), t, step)
        total = float(masses.sum())
        masses = masses / total
        places = step * np.arange(first, first + masses.size, dtype=np.float64)
        middle = float(masses @ places)
        log_moment += count * math.log(total)
        mean += count * middle
        variance += count * float(masses @ (places - middle) ** 2)
        factors.append((count, first, masses))
    return _Tilted(tilt, log_moment, mean, math.sqrt(variance), tuple(factors))


@lru_cache(maxsize=32)
def participation_law(gamma: float, vector: Vector, refine: float = 1.0) -> tuple[Array, Array] | None:
    """The grid of log y and its log-masses without the client; None if it is too long or inaccurate."""
    reach = [8.6 * math.sqrt(t) + t for _, t in vector]
    sizes = [gamma * math.sqrt(math.expm1(min(t, 1.0))) for _, t in vector]
    share = 2 * math.sqrt(_VARIANCE_SHARE)
    step = max(share * min(sizes), max(reach) / (1 << 16)) / refine
    pieces = _pieces(gamma, vector, step)
    low = min(piece.mean - 9 * piece.deviation for piece in pieces)
    high = max(piece.mean + 9 * piece.deviation for piece in pieces)
    cells = 1 << math.ceil(math.log2((high - low) / step + 4))
    if cells > _MOST_CELLS * refine:
        return None
    start = math.floor(low / step)
    log_y = step * np.arange(start, start + cells, dtype=np.float64)
    best, log_mass = np.full(cells, _NOISE), np.full(cells, -math.inf)
    for piece in pieces:
        mass = _convolved(piece, start, cells)
        better = mass > best
        best[better] = mass[better]
        log_mass[better] = np.log(mass[better]) + piece.log_moment - piece.tilt * log_y[better]
    totals = np.exp(log_mass).sum(), np.exp(log_mass + log_y).sum()
    kept = np.isfinite(log_mass)
    return None if max(abs(total - 1) for total in totals) > _TOTAL else (log_y[kept], log_mass[kept])


def _convolved(piece: _Tilted, start: int, cells: int) -> Array:
    total: Spectrum = np.ones(cells // 2 + 1, dtype=np.complex128)
    shift = 0
    for count, first, masses in piece.factors:
        wrapped = np.bincount(np.arange(masses.size) % cells, masses, minlength=cells)
        total *= np.fft.rfft(wrapped) ** count
        shift += count * first
    return np.asarray(np.roll(np.fft.irfft(total, cells), (shift - start) % cells))


def _pieces(gamma: float, vector: Vector, step: float) -> list[_Tilted]:
    """Tilts whose laws together cover log y up to rare outcomes."""
    found = [_tilted(gamma, vector, step, 0.5)]
    largest = _LARGEST / math.sqrt(max(t for _, t in vector))
    for sign in (1.0, -1.0):
        last = found[0]
        while len(found) < _MOST_TILTS:
            tilt = last.tilt + sign * _STRIDE / last.deviation
            last = _tilted(gamma, vector, step, min(max(tilt, -largest), largest))
            found.append(last)
            # Chernoff bound on the mass beyond the mean, with the client above and without it below
            order = last.tilt - 1.0 if sign > 0.0 else last.tilt
            rare = sign * order > 0.0 and order * last.mean - last.log_moment > _RARE
            if rare or abs(tilt) >= largest:
                break
    return found


def sampled_losses(
    sign: int, gamma: float, rate: float, vector: Vector, refine: float = 1.0
) -> Losses | None:
    """The loss of a round with client sampling; None if the law of y is not accurate."""
    law = participation_law(gamma, vector, refine)
    if law is None:
        return None
    log_y, log_mass = law
    # the second form does not overflow
    small = np.log1p(rate * np.expm1(np.minimum(log_y, 30.0)))
    log_u = np.where(log_y < 30.0, small, np.logaddexp(math.log1p(-rate), math.log(rate) + log_y))
    return Losses(log_u, log_mass + log_u) if sign > 0 else Losses(-log_u[::-1], log_mass[::-1])


def saddle_tilt(menu: Sequence[Losses], rounds: int, epsilon: float) -> float:
    """The order at which the Chernoff bound on delta is least, for the law where that is largest."""
    orders = np.geomspace(0.05, 200.0, 40)
    best, tilt = -math.inf, 1.0
    for losses in menu:
        bounds = rounds * losses.log_moments(orders) - orders * epsilon - np.log(orders * (orders + 1))
        at = int(np.argmin(bounds))
        if bounds[at] > best:
            best, tilt = float(bounds[at]), float(orders[at])
    return tilt


def sampled_grid(world: World, menu: Sequence[Losses], rounds: int, refine: float = 1.0) -> Grid | None:
    """A grid on which splitting raises delta by about 1 %, wrapping by 1e-9; None if it is too long."""
    z = world.tilt
    distances = z * np.array([0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0])
    low, high = 0.0, world.epsilon + 25.0 / z
    for losses in menu:
        base, above, below = np.split(
            losses.log_moments(np.concatenate([[z], z + distances, z - distances])), [1, 1 + distances.size]
        )
        high = max(high, float(((rounds * (above - base) + 22.0) / distances).min()))
        low = min(low, -float(((rounds * (below - base) + 22.0) / distances).min()))
    step = min(_fine(losses, z, rounds, refine) for losses in menu)
    cells = 1 << math.ceil(math.log2((high - low) / step))
    return None if cells > _MOST_CELLS * refine else Grid(step, math.ceil(-low / step), cells)


def _fine(losses: Losses, z: float, rounds: int, refine: float) -> float:
    """The longest step at which splitting adds little variance: at most min(|loss| step, step^2/4)."""
    exponents = losses.log_mass + z * losses.loss
    mass = np.exp(exponents - exponents.max())
    mass, size = mass / mass.sum(), np.abs(losses.loss)
    allowed, step = 2 * _MOMENT_SHARE / (rounds * (z + 1) ** 2 * refine**2), 0.5
    while float(mass @ np.minimum(size * step, step * step / 4)) > allowed:
        step /= 1.3
    return step


def sampled_spectrum(world: World, grid: Grid, losses: Losses) -> Spectrum:
    """The transform of one round's tilted law on the grid."""
    cell = np.floor(losses.loss / grid.step)
    above = losses.loss - cell * grid.step
    up = np.clip(np.expm1(-above) / math.expm1(-grid.step), 0.0, 1.0)
    mass = np.exp(losses.log_mass + world.tilt * grid.step * cell)
    at = cell.astype(np.int64)
    places = np.concatenate([at, at + 1]) % grid.cells
    masses = np.concatenate([mass * (1 - up), mass * up * math.exp(world.tilt * grid.step)])
    return np.asarray(np.fft.rfft(np.bincount(places, masses, minlength=grid.cells)))
