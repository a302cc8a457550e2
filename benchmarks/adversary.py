"""The largest delta of an adversary: privacy profiles of fixed vectors, and of adaptive strategies.

Nothing of the package is used. In the add direction the losses are L under P and the payoff is
(1 - e^(eps - L))_+; in the remove direction they are -L under Q, with the same payoff. The law of a
coordinate is put on a grid of losses. Each cell is split onto its two ends such that its P-mass and its
Q-mass are both kept, which raises the profile slightly. All masses are tilted by e^(tilt loss), so that
the absolute errors of the FFT do not matter to a small delta. For a fixed vector `contour_delta` computes
the profile by a contour integral as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]
Spectrum = NDArray[np.complex128]

#: (how many coordinates, t) of one round's vector; none: nothing is contributed.
Vector = tuple[tuple[int, float], ...]
#: Cuts of the normal law: beyond, 1e-17 of the tilted mass.
_REACH = 8.6
_MOST_CELLS = 1 << 18
#: Of the largest value: what the FFTs may add to all others.
_NOISE = 1e-14


@dataclass(frozen=True)
class Grid:
    """Losses step * (-zeros ... cells - zeros - 1), cyclic."""

    step: float
    zeros: int
    cells: int

    @property
    def losses(self) -> Array:
        """The losses, ascending."""
        return self.step * np.arange(-self.zeros, self.cells - self.zeros, dtype=np.float64)


@dataclass(frozen=True)
class World:
    """One direction at one rate: ``sign`` 1 for add, -1 for remove."""

    gamma: float
    sign: int
    epsilon: float
    tilt: float

    def payoff(self, loss: Array) -> Array:
        """(1 - e^(eps - loss))_+ e^(-tilt loss)."""
        gain = -np.expm1(np.minimum(self.epsilon - loss, 0.0))
        return np.asarray(gain * np.exp(-self.tilt * np.maximum(loss, self.epsilon)))


def single(world: World, t: float, step: float) -> tuple[int, Array]:
    """The first cell and the tilted masses of one coordinate's loss."""
    s, shift = math.sqrt(t), (1.0 + world.tilt if world.sign > 0 else -world.tilt)
    low, high = min(shift, 0.0) * s - _REACH, max(shift, 1.0) * s + _REACH
    ends = np.array([low, high])
    edges = _losses(world.gamma, s, ends) / step
    first, last = math.floor(edges[0]), math.ceil(edges[1])
    u = step * np.arange(first, last + 1, dtype=np.float64)
    x = _places(world.gamma, s, u)
    q = _masses(x, 0.0)
    p = (1 - world.gamma) * q + world.gamma * _masses(x, s)
    # q = a + b, p = a e^low + b e^high
    up = np.clip((p * np.exp(-u[:-1]) - q) / math.expm1(step), 0.0, q)
    masses = np.zeros(u.size)
    masses[:-1] += q - up
    masses[1:] += up
    masses *= np.exp(shift * u)
    return (first, masses) if world.sign > 0 else (-last, masses[::-1])


def _losses(gamma: float, s: float, x: Array) -> Array:
    return np.logaddexp(math.log1p(-gamma) if gamma < 1 else -math.inf, math.log(gamma) + x * s - s * s / 2)


def _places(gamma: float, s: float, u: Array) -> Array:
    """The x of the losses u; -inf at and below the floor."""
    with np.errstate(divide="ignore", invalid="ignore"):
        m = np.log1p(np.maximum(np.expm1(u) / gamma, -1.0))
    return np.asarray((m + s * s / 2) / s)


def _masses(x: Array, mean: float) -> Array:
    """Normal masses between neighbours, from the nearer tail."""
    y = x - mean
    left, right = ndtr(y), ndtr(-y)
    return np.asarray(np.where(y[1:] < 0.0, left[1:] - left[:-1], right[:-1] - right[1:]), dtype=np.float64)


def spectrum(world: World, grid: Grid, vector: Vector) -> Spectrum:
    """The transform of one round's tilted law."""
    total: Spectrum = np.ones(grid.cells // 2 + 1, dtype=np.complex128)
    for count, t in vector:
        first, masses = single(world, t, grid.step)
        total *= _transform(grid, first, masses) ** count
    return total


def gaussian_fits(world: World, grid: Grid, mu: float, rounds: int) -> bool:
    """True where a loss of law N(mu^2/2, mu^2) per round, tilted, stays on the grid."""
    middle, reach = rounds * mu * mu * (world.tilt + 0.5), 7.0 * mu * math.sqrt(rounds)
    top = grid.step * (grid.cells - grid.zeros)
    return reach - middle < grid.step * grid.zeros and middle + reach < top


def gaussian_spectrum(world: World, grid: Grid, mu: float) -> Spectrum:
    """The same for a loss of law N(mu^2/2, mu^2): infinitely many coordinates share the norm."""
    always = World(1.0, world.sign, world.epsilon, world.tilt)
    return _transform(grid, *single(always, mu * mu, grid.step))


def _transform(grid: Grid, first: int, masses: Array) -> Spectrum:
    wrapped = np.bincount(np.arange(first, first + masses.size) % grid.cells, masses, minlength=grid.cells)
    return np.asarray(np.fft.rfft(wrapped))


def best_response(world: World, grid: Grid, menu: Sequence[Spectrum], rounds: int) -> float:
    """Delta of the adversary who picks from the menu, or nothing, after each round."""
    value = world.payoff(grid.losses)
    for _ in range(rounds):
        ahead = np.fft.rfft(value)
        for law in menu:
            value = np.maximum(value, np.fft.irfft(ahead * np.conj(law), grid.cells))
    return _above_noise(value, grid)


def constant(world: World, grid: Grid, law: Spectrum, rounds: int) -> float:
    """Delta of the one vector in every round."""
    ahead = np.fft.rfft(world.payoff(grid.losses)) * np.conj(law**rounds)
    return _above_noise(np.fft.irfft(ahead, grid.cells), grid)


def _above_noise(value: Array, grid: Grid) -> float:
    """The value at loss 0, less what may be rounding."""
    return max(0.0, float(value[grid.zeros]) - _NOISE * float(np.abs(value).max()))


def log_moments(world: World, z: Array, vector: Vector) -> Array:
    """Log E[e^(z loss)] of one round at real z, to six digits or so: it only places grids."""
    orders = 1.0 + z if world.sign > 0 else -z
    total = np.zeros_like(z)
    for count, t in vector:
        s = math.sqrt(t)
        low, high = min(float(orders.min()), 0.0) * s, max(float(orders.max()), 1.0) * s
        x = np.arange(low - 7.0, high + 7.0, 0.2 / max(1.0, s))
        exponents = orders[:, None] * _losses(world.gamma, s, x)[None, :] - (x * x / 2)[None, :]
        peak = exponents.max(axis=1)
        sums = np.exp(exponents - peak[:, None]).sum(axis=1)
        total += count * (peak + np.log(sums * ((x[1] - x[0]) / math.sqrt(2 * math.pi))))
    return total


def best_tilt(world: World, menu: Sequence[Vector], rounds: int) -> float:
    """The order at which the Chernoff bound on delta is least, for the vector where that is largest."""
    largest = math.sqrt(max(t for vector in menu for _, t in vector))
    z = np.geomspace(0.05, max(30.0, 20.0 / largest), 28)
    best, tilt = -math.inf, 1.0
    for vector in menu:
        bounds = rounds * log_moments(world, z, vector) - z * world.epsilon - np.log(z * (z + 1))
        at = int(np.argmin(bounds))
        if bounds[at] > best:
            best, tilt = float(bounds[at]), float(z[at])
    return tilt


def fitting_grid(world: World, menu: Sequence[Vector], rounds: int, refine: float = 1.0) -> Grid | None:
    """A grid on which the cells' bias is below about 1e-3 and wrapping below 1e-9; None where too long.

    ``refine``: how much finer than that the cells are.
    """
    z = world.tilt
    distances = z * np.array([0.3, 0.6, 1.0, 2.0, 4.0])
    low, high = 0.0, world.epsilon + 25.0 / z
    for vector in menu:
        base, above, below = np.split(
            log_moments(world, np.concatenate([[z], z + distances, z - distances]), vector), [1, 6]
        )
        high = max(high, float(((rounds * (above - base) + 22.0) / distances).min()))
        low = min(low, -float(((rounds * (below - base) + 22.0) / distances).min()))
    step = min(_fine(world, vector, rounds) for vector in menu) / refine
    cells = 1 << math.ceil(math.log2((high - low) / step))
    return None if cells > _MOST_CELLS * refine else Grid(step, math.ceil(-low / step), cells)


def _fine(world: World, vector: Vector, rounds: int) -> float:
    """Cells at which the variance added by splitting, times (z+1)^2/2, is at most 1e-3.

    A loss of size |u| < step gains |u| step, one of size |u| > step at most step^2/4.
    """
    stretch = (1.0 + world.tilt) ** 2 / 2 * rounds
    typical = [(n, world.gamma * math.sqrt(math.expm1(min(t, 4.0)))) for n, t in vector]
    by_size = 1e-3 / (stretch * math.fsum(n * min(size, 1.0) for n, size in typical))
    by_square = math.sqrt(4e-3 / (stretch * sum(n for n, _ in vector)))
    return max(by_size, min(by_square, 0.5 * min(size for _, size in typical)))


#: A contour integral has converged once halving its step changes it by less than this, relative, and its
#: last term is below the second number, relative to the first term.
_CONVERGED, _LAST_TERM = 1e-7, 1e-15
#: Steps shrink by this factor: by 2, some aliases of both steps would be the same.
_FINER = 1.7
#: Where cancellation leaves a larger relative rounding error, the integral is of no use.
_TOO_MUCH_LOST = 1e-4
#: Orders times quadrature nodes; where more are needed, the grid is quicker.
_MOST_TERMS = 1 << 21


def contour_delta(world: World, vector: Vector, rounds: int) -> float | None:
    """Delta of the same vector in all rounds by the trapezoid rule on a contour, less its rounding error.

    None where that does not converge, or cancels too much.

    delta = (1/2 pi i) int E[e^(z loss)] e^(-z eps)/(z (z+1)) dz over Re z = tilt.
    """
    z = best_tilt(world, [vector], rounds)
    distances = np.array([0.9, 1.0, 1.1])
    below, there, above = rounds * log_moments(world, z * distances, vector)
    curvature = max((below + above - 2 * there) / (0.1 * z) ** 2, 1e-6 / z**2)
    step = min(z / 5, 0.4 / math.sqrt(curvature))
    count = 64
    previous = math.nan
    while True:
        line = (z + 1j * step * np.arange(count)).astype(np.complex128)
        moments = _complex_log_moments(world, line, vector)
        if moments is None:
            return None
        terms = np.exp(rounds * moments - there - (line - z) * world.epsilon) / (line * (line + 1))
        if abs(terms[-8:]).max() > _LAST_TERM * abs(terms[0]):
            count *= 2
            continue
        value = float(terms.real.sum() - terms[0].real / 2) * step / math.pi
        # Each coordinate-round adds a few unit roundoffs to every term.
        lost = 1e-15 * (1 + rounds * sum(n for n, _ in vector)) * float(abs(terms).sum()) * step / math.pi
        if lost > _TOO_MUCH_LOST * abs(value):
            return None
        # The aliases are exp(-2 pi m z/step) times delta at epsilon - 2 pi m/step, which is at most 1.
        alias = math.exp(min(z * world.epsilon - there - 2 * math.pi * z / step, 0.0))
        if alias + abs(value - previous) < _CONVERGED * abs(value):
            return (value - lost) * math.exp(there - z * world.epsilon)
        previous, step, count = value, step / _FINER, math.ceil(_FINER * count)


def _complex_log_moments(world: World, z: Spectrum, vector: Vector) -> Spectrum | None:
    """Log E[e^(z loss)] of one round at equidistant z of one real part, up to multiples of 2 pi i.

    None where that takes too many terms.
    """
    orders = 1.0 + z if world.sign > 0 else -z
    total = np.zeros_like(z)
    shift, highest = float(orders[0].real), float(z[-1].imag)
    for count, t in vector:
        s = math.sqrt(t)
        # The integrand is a normal density times Y^z, whose frequencies go up to s Im z.
        step = min(0.15 / max(1.0, s), 3.0 / (9.0 + highest * s))
        x = np.arange(min(shift, 0.0) * s - 9.0, max(shift, 1.0) * s + 9.0, step)
        if x.size * z.size > _MOST_TERMS:
            return None
        losses, weights = _losses(world.gamma, s, x), -x * x / 2
        peak = float((shift * losses + weights).max())
        powers = np.exp(orders[0] * losses + (weights - peak))
        turn = np.exp((orders[1] - orders[0]) * losses)
        moments = np.empty_like(z)
        for i in range(z.size):  # equidistant orders: each power is the one before times ``turn``
            moments[i] = powers.sum()
            powers *= turn
        with np.errstate(divide="ignore"):
            logs = np.log(moments * (step / math.sqrt(2 * math.pi)))
        total += count * (peak + logs)
    return total
