"""csgm: privacy calibration for coordinate-subsampled Gaussian mechanisms.

The noise of a training job, in three steps (docs/guide.md has a whole script)::

    geometry, notices = resolve_geometry(norm_ratio=1000, dim=10**6, cohort_size=1000)
    mechanism = Mechanism("l2-csgm", gamma=0.01, geometry=geometry, rounds=10)
    answer = calibrate(mechanism, Target(epsilon=5, delta=1e-8))

`Geometry`, `Mechanism` and `Target` are the questions; `calibrate`, `account_epsilon`, `account_delta`,
`compare`, `compare_at_equal_mse` and `plan` answer them with frozen dataclasses. Whatever they are given,
they raise `CsgmError` alone: `UsageError` names a wrong argument, `NoAnswerError` says why there is no
answer. Numbers may be NumPy's; what is kept is a plain int or float. ``notices`` are warnings to be shown.

`NoiseStream` draws the correlated noise of a factorization, round by round (docs/noise.md).

The public names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # importing it from typing would be most of what this import costs
if TYPE_CHECKING:
    from typing import Any

    from csgm_cli.budget import Population, Release, Standing
    from csgm_cli.core.account import account_delta, account_epsilon
    from csgm_cli.core.calibrate import calibrate
    from csgm_cli.core.check import check_population
    from csgm_cli.core.compare import compare, compare_at_equal_mse
    from csgm_cli.core.geometry import resolve_geometry, rounds_from_participation
    from csgm_cli.core.noise.stream import NoiseStream
    from csgm_cli.core.plan import plan
    from csgm_cli.errors import CsgmError, NoAnswerError, StorageError, UsageError
    from csgm_cli.model import (
        Account,
        Accountant,
        Adjacency,
        Bound,
        Calibration,
        Comparison,
        Geometry,
        Guarantee,
        Mechanism,
        MechanismName,
        NoiseState,
        Plan,
        Target,
    )

__version__ = "0.1.0"

_HOMES = {
    "account_delta": "core.account",
    "account_epsilon": "core.account",
    "calibrate": "core.calibrate",
    "check_population": "core.check",
    "compare": "core.compare",
    "compare_at_equal_mse": "core.compare",
    "NoiseStream": "core.noise.stream",
    "plan": "core.plan",
    "resolve_geometry": "core.geometry",
    "rounds_from_participation": "core.geometry",
    "CsgmError": "errors",
    "NoAnswerError": "errors",
    "StorageError": "errors",
    "UsageError": "errors",
    "Population": "budget",
    "Release": "budget",
    "Standing": "budget",
    "Account": "model",
    "Accountant": "model",
    "Adjacency": "model",
    "Bound": "model",
    "Calibration": "model",
    "Comparison": "model",
    "Geometry": "model",
    "Guarantee": "model",
    "Mechanism": "model",
    "MechanismName": "model",
    "NoiseState": "model",
    "Plan": "model",
    "Target": "model",
}

__all__ = [  # spelled out for type checkers; a test keeps it equal to _HOMES
    "Account",
    "Accountant",
    "Adjacency",
    "Bound",
    "Calibration",
    "Comparison",
    "CsgmError",
    "Geometry",
    "Guarantee",
    "Mechanism",
    "MechanismName",
    "NoAnswerError",
    "NoiseState",
    "NoiseStream",
    "Plan",
    "Population",
    "Release",
    "Standing",
    "StorageError",
    "Target",
    "UsageError",
    "__version__",
    "account_delta",
    "account_epsilon",
    "calibrate",
    "check_population",
    "compare",
    "compare_at_equal_mse",
    "plan",
    "resolve_geometry",
    "rounds_from_participation",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"csgm_cli.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
