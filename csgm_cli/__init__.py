"""csgm: privacy calibration for coordinate-subsampled Gaussian mechanisms.

The noise of a training job, in three steps (docs/guide.md has a whole script)::

    geometry, notices = resolve_geometry(norm_ratio=1000, dim=10**6, cohort_size=1000)
    mechanism = Mechanism("l2-csgm", gamma=0.01, geometry=geometry, rounds=10)
    answer = calibrate(mechanism, Target(epsilon=5, delta=1e-8))

Correlated noise for running sums::

    found = factorize(32)  # prefix sums; parse_workload has others
    factors = dense_factors(found)  # B, C and C_inv
    norms = factor_norms(found)
    mechanism = Mechanism("l2-csgm", gamma=0.01, geometry=geometry, factorization=norms, epochs=16)

`Geometry`, `Mechanism` and `Target` are the questions; `calibrate`, `account_epsilon`, `account_delta`,
`compare`, `compare_at_equal_mse` and `plan` answer them with frozen dataclasses. So do `factorize` and
`compare_strategies` for a `Workload`; `inspect_arrays` measures arrays, which `read_arrays` and
`write_arrays` bring from and to files. Whatever they are given, they raise `CsgmError` alone: `UsageError`
names a wrong argument, `NoAnswerError` says why there is no answer, `StorageError` why a file cannot be had.
Numbers may be NumPy's; what is kept is a plain int or float. ``notices`` are warnings to be shown.

`NoiseStream` draws the correlated noise of a factorization, round by round (docs/noise.md).

`load_plan` and `plan_of` turn a calibration into a plan that runs: clients `encode` vectors, and a
`Server` releases their noisy means (docs/run.md).

The public names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from csgm_cli.version import __version__

TYPE_CHECKING = False  # importing it from typing would be most of what this import costs
if TYPE_CHECKING:
    from typing import Any

    from csgm_cli.errors import CsgmError, NoAnswerError, StorageError, UsageError
    from csgm_cli.factorization.comparison import compare_strategies
    from csgm_cli.factorization.dense import dense_factors
    from csgm_cli.factorization.factorize import factorize
    from csgm_cli.factorization.inspection import inspect_arrays
    from csgm_cli.factorization.norms import factor_norms, norms_of_arrays
    from csgm_cli.factorization.workload import matrix_workload, parse_workload, schedule_workload
    from csgm_cli.factorization_file import norms_of_file
    from csgm_cli.jobs.account import account_delta, account_epsilon
    from csgm_cli.jobs.budget import check_population
    from csgm_cli.jobs.calibrate import calibrate
    from csgm_cli.jobs.compare import compare, compare_at_equal_mse
    from csgm_cli.jobs.plan import plan
    from csgm_cli.mechanism.client import encode
    from csgm_cli.mechanism.ledger import Ledger
    from csgm_cli.mechanism.masks import mask_positions
    from csgm_cli.mechanism.plan import FLOAT16, FLOAT32, Rotation, WireFormat, load_plan, plan_of
    from csgm_cli.mechanism.rotation import rotate, rotate_back
    from csgm_cli.mechanism.server import Server
    from csgm_cli.mechanism.wire import decode
    from csgm_cli.model.budget import Population, Release, Standing
    from csgm_cli.model.comparison import Comparison, Plan
    from csgm_cli.model.factorization.inspection import Claim, Inspection
    from csgm_cli.model.factorization.noise import NoiseState
    from csgm_cli.model.factorization.values import (
        Dual,
        Factorization,
        Factors,
        Generators,
        Objective,
        Strategy,
        StrategyName,
        Workload,
        strategy_named,
    )
    from csgm_cli.model.geometry import resolve_geometry, rounds_from_participation
    from csgm_cli.model.mechanism import (
        Accountant,
        Adjacency,
        Bound,
        FactorNorms,
        Mechanism,
        Target,
    )
    from csgm_cli.model.mechanism_table import Geometry, MechanismName
    from csgm_cli.model.participation import Participation
    from csgm_cli.model.result import Account, Calibration, Guarantee, Notice
    from csgm_cli.noise.stream import NoiseStream
    from csgm_cli.simulation.audit import audit_epsilon
    from csgm_cli.simulation.mean import simulate_mean
    from csgm_cli.storage.arrays.content import ArrayFile, SavedArrays, check_hash
    from csgm_cli.storage.arrays.files import read_arrays, write_arrays

_HOMES = {
    "account_delta": "jobs.account",
    "account_epsilon": "jobs.account",
    "calibrate": "jobs.calibrate",
    "check_population": "jobs.budget",
    "compare": "jobs.compare",
    "compare_at_equal_mse": "jobs.compare",
    "NoiseStream": "noise.stream",
    "compare_strategies": "factorization.comparison",
    "dense_factors": "factorization.dense",
    "factor_norms": "factorization.norms",
    "factorize": "factorization.factorize",
    "inspect_arrays": "factorization.inspection",
    "norms_of_arrays": "factorization.norms",
    "norms_of_file": "factorization_file",
    "matrix_workload": "factorization.workload",
    "parse_workload": "factorization.workload",
    "plan": "jobs.plan",
    "resolve_geometry": "model.geometry",
    "rounds_from_participation": "model.geometry",
    "schedule_workload": "factorization.workload",
    "CsgmError": "errors",
    "NoAnswerError": "errors",
    "StorageError": "errors",
    "UsageError": "errors",
    "Population": "model.budget",
    "Release": "model.budget",
    "Standing": "model.budget",
    "Account": "model.result",
    "Accountant": "model.mechanism",
    "Adjacency": "model.mechanism",
    "Bound": "model.mechanism",
    "Calibration": "model.result",
    "Participation": "model.participation",
    "Claim": "model.factorization.inspection",
    "Comparison": "model.comparison",
    "Dual": "model.factorization.values",
    "FactorNorms": "model.mechanism",
    "Factorization": "model.factorization.values",
    "Factors": "model.factorization.values",
    "Generators": "model.factorization.values",
    "Geometry": "model.mechanism_table",
    "Guarantee": "model.result",
    "Inspection": "model.factorization.inspection",
    "Mechanism": "model.mechanism",
    "MechanismName": "model.mechanism_table",
    "NoiseState": "model.factorization.noise",
    "Notice": "model.result",
    "Objective": "model.factorization.values",
    "Plan": "model.comparison",
    "Strategy": "model.factorization.values",
    "StrategyName": "model.factorization.values",
    "Target": "model.mechanism",
    "Workload": "model.factorization.values",
    "strategy_named": "model.factorization.values",
    "FLOAT16": "mechanism.plan",
    "FLOAT32": "mechanism.plan",
    "Rotation": "mechanism.plan",
    "WireFormat": "mechanism.plan",
    "Ledger": "mechanism.ledger",
    "Server": "mechanism.server",
    "audit_epsilon": "simulation.audit",
    "simulate_mean": "simulation.mean",
    "decode": "mechanism.wire",
    "encode": "mechanism.client",
    "load_plan": "mechanism.plan",
    "mask_positions": "mechanism.masks",
    "plan_of": "mechanism.plan",
    "rotate": "mechanism.rotation",
    "rotate_back": "mechanism.rotation",
    "ArrayFile": "storage.arrays.content",
    "SavedArrays": "storage.arrays.content",
    "check_hash": "storage.arrays.content",
    "read_arrays": "storage.arrays.files",
    "write_arrays": "storage.arrays.files",
}

__all__ = [  # spelled out for type checkers; a test keeps it equal to _HOMES
    "FLOAT16",
    "FLOAT32",
    "Account",
    "Accountant",
    "Adjacency",
    "ArrayFile",
    "Bound",
    "Calibration",
    "Claim",
    "Comparison",
    "CsgmError",
    "Dual",
    "FactorNorms",
    "Factorization",
    "Factors",
    "Generators",
    "Geometry",
    "Guarantee",
    "Inspection",
    "Ledger",
    "Mechanism",
    "MechanismName",
    "NoAnswerError",
    "NoiseState",
    "NoiseStream",
    "Notice",
    "Objective",
    "Participation",
    "Plan",
    "Population",
    "Release",
    "Rotation",
    "SavedArrays",
    "Server",
    "Standing",
    "StorageError",
    "Strategy",
    "StrategyName",
    "Target",
    "UsageError",
    "WireFormat",
    "Workload",
    "__version__",
    "account_delta",
    "account_epsilon",
    "audit_epsilon",
    "calibrate",
    "check_hash",
    "check_population",
    "compare",
    "compare_at_equal_mse",
    "compare_strategies",
    "decode",
    "dense_factors",
    "encode",
    "factor_norms",
    "factorize",
    "inspect_arrays",
    "load_plan",
    "mask_positions",
    "matrix_workload",
    "norms_of_arrays",
    "norms_of_file",
    "parse_workload",
    "plan",
    "plan_of",
    "read_arrays",
    "resolve_geometry",
    "rotate",
    "rotate_back",
    "rounds_from_participation",
    "schedule_workload",
    "simulate_mean",
    "strategy_named",
    "write_arrays",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"csgm_cli.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
