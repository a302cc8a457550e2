"""Banded factorizations, for clients that take part several times, at least p steps apart.

C has p bands and is stored as them, shape (p, T): ``bands[l, j]`` is C[j+l, j], 0 where j + l >= T.
"""
