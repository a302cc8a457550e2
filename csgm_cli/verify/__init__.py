"""The package's bounds recomputed by independent code, which imports nothing from the float64 path.

Closed forms (50 digits) and contours (15 digits) in mpmath, compared to 1e-9; if the contour does not
converge, a float64 loss grid, compared to 1e-3.
"""
