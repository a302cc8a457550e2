"""Binary trees over the steps (Dwork et al. 2010, Chan et al. 2011) and Honaker's estimates (2015).

The tree is complete: T is padded to a power of two, and a step is in one node per level, including the root.
``tree`` sums the nodes that cover a prefix; ``honaker-online`` improves the estimate of each node by the
nodes below it; ``honaker-full`` uses the whole tree (which is causal after a rotation of the noise).
"""

# ruff: noqa: N803 - T is the number of rows in every formula

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.model.factorization import StrategyName, Workload

Array = NDArray[np.float64]
_Subtree: TypeAlias = tuple[Array, Array, float]


def levels(T: int) -> int:
    """Number of nodes that contain a step, 1 + ceil(log2 T): the squared sensitivity."""
    return 1 + (T - 1).bit_length()


def require_prefix_sum(workload: Workload, strategy: StrategyName) -> None:
    """``UsageError`` (slug ``not-prefix-sum``) for any other workload."""
    if workload.name != "prefix-sum":
        raise UsageError(
            "not-prefix-sum",
            f"{strategy.value} is a factorization of prefix-sum, not of {workload.name}",
            "use optimal, identity or output",
        )


def row_errors(T: int, strategy: StrategyName) -> Array:
    """Variance of each prefix sum when every node has unit noise."""
    if strategy is StrategyName.HONAKER_FULL:
        return _full(T)
    ends = np.arange(1, T + 1)
    variances = np.ones(levels(T))
    if strategy is StrategyName.HONAKER_ONLINE:
        variances = _node_variances(levels(T))
    return np.asarray(sum(((ends >> h) & 1) * variance for h, variance in enumerate(variances)))


def _node_variances(count: int) -> Array:
    """Variances of a node's sum, estimated from it and all nodes below, by height: 2^h / (2^(h+1) - 1)."""
    h = np.arange(count)
    return np.asarray(1.0 / (2.0 - 0.5**h))


def _full(T: int) -> Array:
    """Least-squares variances from all nodes; the padding steps are known to be 0.

    For a subtree with precision L (its nodes including the root): a = 1'L^-1 1, and for each of its
    prefixes e: r = e'L^-1 1 and q = e'L^-1 e. The root adds 11' to the precision of its halves.
    """
    return _subtree(levels(T) - 1, T)[0]


def _subtree(height: int, leaves: int) -> _Subtree:
    """The subtree of 2^height steps; all but the first ``leaves`` (at least one) are padding."""
    if height == 0:
        return np.ones(1), np.ones(1), 1.0
    half = 1 << (height - 1)
    if leaves <= half:
        return _rooted(*_subtree(height - 1, leaves))
    left = _subtree(height - 1, half)
    return _rooted(*_joined(left, left if leaves == 2 * half else _subtree(height - 1, leaves - half)))


def _joined(left: _Subtree, right: _Subtree) -> _Subtree:
    """Two subtrees side by side."""
    (ql, rl, al), (qr, rr, ar) = left, right
    return np.concatenate([ql, al + qr]), np.concatenate([rl, al + rr]), al + ar


def _rooted(q: Array, r: Array, a: float) -> _Subtree:
    """The subtree with a root added above it."""
    return q - r**2 / (1.0 + a), r / (1.0 + a), a / (1.0 + a)


def nodes(T: int) -> Array:
    """C: a row of ones and zeros for each node that holds a step, the leaves first; shape (nodes, T)."""
    steps = np.arange(T)
    return np.concatenate(
        [(steps >> h == np.arange(-(-T >> h))[:, None]).astype(float) for h in range(levels(T))]
    )


def prefixes(T: int, strategy: StrategyName) -> Array:
    """B of ``tree`` or ``honaker-online``: prefix sums from noisy nodes, shape (T, nodes)."""
    counts = [-(-T >> h) for h in range(levels(T))]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    variances = _node_variances(len(counts))
    b = np.zeros((T, offsets[-1]))
    for end in range(1, T + 1):
        for h in range(len(counts)):
            if (end >> h) & 1:
                node = (end >> h) - 1
                if strategy is StrategyName.TREE:
                    b[end - 1, offsets[h] + node] = 1.0
                    continue
                weight = variances[h]
                for below in range(h, -1, -1):
                    width = 1 << (h - below)
                    first = offsets[below] + node * width
                    b[end - 1, first : first + width] = weight
                    weight /= 2.0  # each child's estimate has precision 1/variance, their sum half that
    return b
