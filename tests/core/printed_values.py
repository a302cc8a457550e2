"""Values printed with many digits, and how to compare with them."""

import math

import mpmath


def relative(value, expected):
    """Relative difference, computed with more digits than any of the two has."""
    with mpmath.workdps(100):
        return float(abs(mpmath.mpmathify(value) / mpmath.mpmathify(expected) - 1))


def reference_parts(row):
    """The parts of kappa* of a reference row: whole coordinates and the rest of k, in every round."""
    with mpmath.workdps(60):
        t = 1 / mpmath.mpf(row["sigma_over_dinf"]) ** 2
        whole = math.floor(row["k"])
        parts = [(row["rounds"] * whole, t)]
        if row["k"] > whole:
            parts.append((row["rounds"], (mpmath.mpf(row["k"]) - whole) * t))
    return tuple(parts)
