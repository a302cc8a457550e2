"""Factorizations in closed or streaming form, to compare with the optimum or to use in its place."""
