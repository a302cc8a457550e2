"""Sums of exponentials at scattered points in high precision, for many equidistant frequencies at once.

All arithmetic is in fixed-point integers: the weights are positive and sum to 1, so that what counts
is the absolute error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import mpmath

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Up to as many frequencies term after term is turned; more are transformed.
_FEW = 80


@dataclass(frozen=True)
class _Asked:
    """The sums that are asked for, in units of 2^-bits."""

    points: Sequence[mpmath.mpf | mpmath.mpc]
    weights: Sequence[mpmath.mpf | mpmath.mpc]
    first: mpmath.mpf
    step: mpmath.mpf
    count: int
    bits: int


def exponential_sums(
    points: Sequence[mpmath.mpf],
    weights: Sequence[mpmath.mpf],
    first: mpmath.mpf,
    step: mpmath.mpf,
    count: int,
    digits: int,
) -> list[mpmath.mpc]:
    """sum_p weights_p exp(i y points_p) at y = first + j step, j < count, to about 10^-digits."""
    asked = _Asked(points, weights, first, step, count, _bits(count, digits))
    return _floating(asked, _turned if count <= _FEW else partial(_transformed, reach=_reach(digits)))


def falling_sums(
    points: Sequence[mpmath.mpc],
    weights: Sequence[mpmath.mpc],
    first: mpmath.mpf,
    step: mpmath.mpf,
    count: int,
    digits: int,
) -> list[mpmath.mpc]:
    """The same for complex weights and points, Im points >= 0: terms that have fallen drop out."""
    return _floating(_Asked(points, weights, first, step, count, _bits(count, digits)), _turned)


def _bits(count: int, digits: int) -> int:
    return math.ceil((digits + 3) * math.log2(10)) + count.bit_length() + 10


def _floating(asked: _Asked, method: Callable[[_Asked], list[tuple[int, int]]]) -> list[mpmath.mpc]:
    """The sums that a method finds in whole numbers of 2^-bits."""
    with mpmath.workprec(asked.bits + 20):
        return [mpmath.mpc(x, y) / (1 << asked.bits) for x, y in method(asked)]


def cost(points: int, count: int, digits: int) -> int:
    """About how many elementary steps (of about a microsecond) `exponential_sums` takes."""
    if count <= _FEW:
        return points * count
    return 2 * points * _reach(digits) + 3 * count * count.bit_length()


def _reach(digits: int) -> int:
    return math.ceil((digits + 4) / 0.9)


def _turned(asked: _Asked) -> list[tuple[int, int]]:
    """From one frequency to the next each term turns by its own angle."""
    bits = asked.bits
    terms = [
        (_fixed(w, asked.first * u, bits), _fixed(mpmath.mpf(1), asked.step * u, bits))
        for u, w in zip(asked.points, asked.weights, strict=True)
    ]
    sums = []
    for _ in range(asked.count):
        sums.append((sum(x for (x, _), _ in terms), sum(y for (_, y), _ in terms)))
        terms = [
            (((x * c - y * s) >> bits, (x * s + y * c) >> bits), (c, s))
            for (x, y), (c, s) in terms
            if not -2 < x < 2 or not -2 < y < 2
        ]
    return sums


def _fixed(factor: mpmath.mpc, angle: mpmath.mpc, bits: int) -> tuple[int, int]:
    """Return factor exp(i angle) in units of 2^-bits."""
    value = factor * mpmath.expj(angle)
    return int(mpmath.ldexp(value.real, bits)), int(mpmath.ldexp(value.imag, bits))


def _transformed(asked: _Asked, reach: int) -> list[tuple[int, int]]:
    """Spread over a grid by a Gaussian, transformed, and divided by its transform (Greengard and Lee 2004).

    With frequencies up to size/2 from their middle, a grid of 2 size cells and a spread over
    ``reach`` cells to each side, aliases and what is cut off are below 10^(-0.9 reach).
    """
    bits, size = asked.bits, 1 << (asked.count - 1).bit_length()
    cells = 2 * size
    grid = _spread(asked, asked.first + asked.step * (size // 2), cells, reach)
    re, im = _fft(*grid, *_unit_roots(cells, bits), bits)
    width = 1 / (4 * mpmath.pi / reach * 3 / 4)  # of the Gaussian exp(-m^2/(4 width)) of the cells
    front = mpmath.sqrt(4 * mpmath.pi * width)
    sums = []
    for j in range(asked.count):
        k = j - size // 2
        factor = int(mpmath.ldexp(mpmath.exp((2 * mpmath.pi * k / cells) ** 2 * width) / front, bits))
        sums.append(((re[k % cells] * factor) >> bits, (im[k % cells] * factor) >> bits))
    return sums


def _spread(asked: _Asked, middle: mpmath.mpf, cells: int, reach: int) -> tuple[list[int], list[int]]:
    """The grid: exp(-(m - d)^2 sharp) = exp(-d^2 sharp) exp(2 d sharp)^m exp(-m^2 sharp)."""
    bits, sharp = asked.bits, 3 * mpmath.pi / (4 * reach)
    bells = [int(mpmath.ldexp(mpmath.exp(-sharp * m * m), bits)) for m in range(-reach + 1, reach + 1)]
    re, im = [0] * cells, [0] * cells
    per_step = asked.step * cells / (2 * mpmath.pi)
    for point, weight in zip(asked.points, asked.weights, strict=True):
        place = point * per_step
        cell = int(mpmath.floor(place))
        beside = place - cell
        x, y = _fixed(weight * mpmath.exp(-beside * beside * sharp), middle * point, bits)
        ratio = mpmath.exp(2 * beside * sharp)
        growth, power = int(mpmath.ldexp(ratio, bits)), int(mpmath.ldexp(ratio ** (1 - reach), bits))
        for m, bell in enumerate(bells, cell - reach + 1):
            here = (bell * power) >> bits
            re[m % cells] += (x * here) >> bits
            im[m % cells] += (y * here) >> bits
            power = (power * growth) >> bits
    return re, im


def _unit_roots(cells: int, bits: int) -> tuple[list[int], list[int]]:
    """Return cos and sin of 2 pi m/cells, m < cells/2."""
    angles = [2 * mpmath.pi * m / cells for m in range(cells // 8 + 1)]
    octant = [_fixed(mpmath.mpf(1), angle, bits) for angle in angles]
    quarter = octant[:-1] + [(s, c) for c, s in reversed(octant)]  # one more than a quarter
    half = quarter[:-1] + [(-s, c) for c, s in quarter[:-1]]
    return [c for c, _ in half], [s for _, s in half]


def _fft(
    re: list[int], im: list[int], cos: list[int], sin: list[int], bits: int
) -> tuple[list[int], list[int]]:
    """sum_m (re + i im)_m exp(2 pi i m k/n) for k < n, n a power of 2."""
    if len(re) == 1:
        return re, im
    even_re, even_im = _fft(re[::2], im[::2], cos[::2], sin[::2], bits)
    odd_re, odd_im = _fft(re[1::2], im[1::2], cos[::2], sin[::2], bits)
    turned = [
        ((x * c - y * s) >> bits, (x * s + y * c) >> bits)
        for x, y, c, s in zip(odd_re, odd_im, cos, sin, strict=True)
    ]
    low = [(a + x, b + y) for a, b, (x, y) in zip(even_re, even_im, turned, strict=True)]
    high = [(a - x, b - y) for a, b, (x, y) in zip(even_re, even_im, turned, strict=True)]
    both = low + high
    return [x for x, _ in both], [y for _, y in both]
