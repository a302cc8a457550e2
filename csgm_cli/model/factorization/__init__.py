"""The frozen values of factorizations A = B C and of their noise; arrays are NumPy's, which is not imported.

A package of its own, so that commands without factorizations start without it.
"""

from csgm_cli.model.factorization.inspection import (
    Claim,
    Inspection,
)
from csgm_cli.model.factorization.noise import (
    NoiseOn,
    NoiseOnLike,
    NoiseState,
    noise_on_named,
)
from csgm_cli.model.factorization.values import (
    DENSE,
    GENERATORS,
    SIDES,
    AnyFloatArray,
    BandedDual,
    Dual,
    Errors,
    Factorization,
    Factors,
    FloatArray,
    Generators,
    Objective,
    ObjectiveLike,
    Strategy,
    StrategyLike,
    StrategyName,
    StrategyNameLike,
    Workload,
    WorkloadLike,
    as_strategy,
    as_workload,
    objective_named,
    strategy_named,
)

__all__ = [
    "DENSE",
    "GENERATORS",
    "SIDES",
    "AnyFloatArray",
    "BandedDual",
    "Claim",
    "Dual",
    "Errors",
    "Factorization",
    "Factors",
    "FloatArray",
    "Generators",
    "Inspection",
    "NoiseOn",
    "NoiseOnLike",
    "NoiseState",
    "Objective",
    "ObjectiveLike",
    "Strategy",
    "StrategyLike",
    "StrategyName",
    "StrategyNameLike",
    "Workload",
    "WorkloadLike",
    "as_strategy",
    "as_workload",
    "noise_on_named",
    "objective_named",
    "strategy_named",
]
