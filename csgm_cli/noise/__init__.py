"""Correlated Gaussian noise, round by round: what a server adds when it uses a factorization A = B C.

``NoiseStream`` is the public class; the modules below it draw independent normals (``normals``) and turn
them into correlated ones with N numbers of state per coordinate (``streaming``) or by a matrix product
(``dense``). Nothing here reads or writes files.
"""

from csgm_cli.noise.stream import NoiseStream

__all__ = ["NoiseStream"]
