"""The work of a client in a round: rotate, clip, mask, and encode the selected values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from csgm_cli.errors import UsageError, shown
from csgm_cli.mechanism.clip import l2_scale
from csgm_cli.mechanism.masks import mask_positions
from csgm_cli.mechanism.rotation import rotate
from csgm_cli.mechanism.wire import pack

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from csgm_cli.mechanism.plan import Plan

#: Vectors with larger values are scaled down, so that sums and squares do not overflow. All clip norms are
#: below 1e31, so the payload does not change.
_HUGE = 1e100


def encode(plan: Plan, vector: ArrayLike, mask_seed: bytes) -> bytes:
    """The payload of one client: the values of its rotated, clipped vector at the positions of its mask.

    ``vector``: ``plan.dim`` finite real numbers. ``mask_seed``: at least 16 secret bytes that the server drew
    for this client and this round. The length of the payload depends on the mask alone, never on the vector.

    Raises:
        UsageError: a vector of another shape (slug ``wrong-shape``) or type (``invalid-type``), with NaN or
            infinite values (``not-finite``), or a short seed.
    """
    positions = mask_positions(mask_seed, plan.gamma, plan.length)
    rotated = rotate(plan, _checked(plan, vector))
    scaled = rotated[positions] * l2_scale(plan, rotated)
    return pack(plan, np.clip(scaled, -plan.linf_norm, plan.linf_norm), mask_seed)


def _checked(plan: Plan, vector: ArrayLike) -> NDArray[np.float64]:
    """``vector`` as finite floats of at most `_HUGE`."""
    given = np.asarray(vector)
    if given.dtype.kind not in "fiu":
        raise UsageError("invalid-type", f"vector must hold real numbers, got {shown(str(given.dtype))}")
    if given.shape != (plan.dim,):
        raise UsageError("wrong-shape", f"vector must have shape ({plan.dim},), got {given.shape}")
    largest = max(
        float(given.max()), -float(given.min())
    )  # before the conversion, which warns about some NaN
    if not math.isfinite(largest):
        raise UsageError(
            "not-finite", "vector holds NaN or infinite values", "send nothing from this client in this round"
        )
    values = given.astype(np.float64, copy=False)
    return values * (_HUGE / largest) if largest > _HUGE else values
