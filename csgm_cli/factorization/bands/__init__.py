"""Banded factorizations: a client takes part several times, at least as many steps apart as C has bands.

C is held as its bands, shape (p, T): ``bands[l, j]`` is C[j+l, j], 0 where j + l >= T.
"""
