"""Mechanisms by the numbers that the paper describes them with."""

import math

from csgm_cli.model.mechanism import Adjacency, Geometry, Mechanism


def csgm(gamma, k, rounds=1, dim=None, adjacency=Adjacency.ADD_REMOVE):
    """L2-CSGM with Delta_2 = 1."""
    return Mechanism("l2-csgm", gamma, Geometry(math.sqrt(k), 1.0, dim), rounds, adjacency)
