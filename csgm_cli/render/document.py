"""Results as JSON-shaped dictionaries: the one source of every output format.

A document is ``{"schema", "csgm_version", "numbers_version", "inputs", "result", "warnings"}``; its keys
and their order never change meaning within a schema number. Numbers keep every digit; absent ones are None.
"""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from csgm_cli.model.result import (
    Account,
    Calibration,
    Guarantee,
    MeanSquaredError,
    NoisePerRow,
    Notice,
    Verification,
)
from csgm_cli.version import NUMBERS_VERSION, __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from csgm_cli.errors import CsgmError
    from csgm_cli.model.comparison import Comparison, ComparisonRow, Plan, PrivUnitRow, SelftestCase
    from csgm_cli.model.factorization import Factorization, Inspection
    from csgm_cli.model.mechanism import Accountant
    from csgm_cli.model.simulation import MeanSimulation, TrainingRun

Document: TypeAlias = dict[str, Any]

#: Keys of a calibration, in order; a comparison row without an answer has null for each.
_CALIBRATION_KEYS = (
    "noise_multiplier",
    "effective_noise_multiplier",
    "gaussian_noise_multiplier",
    "sigma",
    "epsilon",
    "delta",
    "order",
    "bound",
    "proof",
    "conversion",
    "assumptions",
    "statement",
    "mean_noise_std",
    "mse",
    "bits_per_client",
    "lower_bound",
    "verified",
    "noise_std_per_row",
    "mse_last_row",
)

#: Keys of a factorization, in order.
_FACTORIZATION_KEYS = (
    "T",
    "workload",
    "strategy",
    "objective",
    "sensitivity",
    "sensitivity_squared",
    "mean_squared_error",
    "rmse",
    "max_squared_error",
    "lower_bound",
    "gap",
    "iterations",
    "epochs",
    "participations",
    "min_separation",
    "bands",
)

#: Keys of ``privunit`` in a row of a comparison, in order.
_PRIVUNIT_KEYS = (
    "messages", "local_epsilon", "server_epsilon", "cap_mass", "threshold", "sphere_total",
)  # fmt: skip

#: Keys of a row of a sweep that follow its inputs; a row without an answer has null for each calibration key.
_ROW_KEYS = (*_CALIBRATION_KEYS, "warnings", "error")

#: Keys whose value is an object (or null), with the keys of that object.
NESTED_KEYS: dict[str, tuple[str, ...]] = {
    "mse": tuple(field.name for field in fields(MeanSquaredError)),
    "verified": tuple(field.name for field in fields(Verification)),
    "noise_std_per_row": tuple(field.name for field in fields(NoisePerRow)),
    "mse_last_row": tuple(field.name for field in fields(MeanSquaredError)),
    "error": tuple(field.name for field in fields(Notice)),
    "privunit": _PRIVUNIT_KEYS,
}


def calibration_document(inputs: Mapping[str, Any], calibration: Calibration) -> Document:
    """Return the ``csgm/calibrate/1`` document."""
    result = _calibration(calibration)
    return document_of("calibrate", inputs, calibration.accountant, result, _notices(calibration))


def account_document(inputs: Mapping[str, Any], account: Account) -> Document:
    """Return the ``csgm/account/1`` document: flat for one guarantee, ``rows`` for several."""
    utility = {
        "mean_noise_std": account.mean_noise_std,
        "mse": _error(account.error_parts),
        "noise_std_per_row": account.noise_std_per_row and asdict(account.noise_std_per_row),
        "mse_last_row": _error(account.error_parts_last_row),
    }
    rows = [_stated(g, s) | utility for g, s in zip(account.guarantees, account.statements, strict=True)]
    notices = chain(account.notices, *(guarantee.notices for guarantee in account.guarantees))
    result = rows[0] if len(rows) == 1 else {"rows": rows}
    return document_of("account", inputs, account.accountant, result, notices)


def comparison_document(inputs: Mapping[str, Any], comparison: Comparison) -> Document:
    """Return the ``csgm/compare/1`` document."""
    answers = (row.calibration for row in comparison.rows if row.calibration is not None)
    notices = chain(comparison.notices, *map(_notices, answers))
    rows = [*map(_comparison_row, comparison.rows), *map(_privunit_row, comparison.privunit_rows)]
    result = {"rows": rows}
    resolved = {**inputs, "at_equal_mse": comparison.at_equal_mse}
    return document_of("compare", resolved, comparison.accountant, result, notices)


def plan_document(inputs: Mapping[str, Any], plan: Plan) -> Document:
    """Return the ``csgm/plan/1`` document: one row, with ``gamma`` and ``compression`` also on top."""
    choice = {"gamma": plan.gamma, "compression": plan.compression}
    name = str(plan.calibration.mechanism.name)
    result = {"rows": [{"mechanism": name, **choice, **_calibration(plan.calibration)}], **choice}
    notices = chain(plan.notices, _notices(plan.calibration))
    return document_of("plan", inputs, plan.calibration.accountant, result, notices)


def sweep_document(
    inputs: Mapping[str, Any], rows: Sequence[Document], notices: Iterable[Notice]
) -> Document:
    """Return the ``csgm/sweep/1`` document of rows made by `sweep_row`."""
    return document_of("sweep", inputs, None, {"rows": list(rows)}, notices)


def sweep_row(
    identity: Mapping[str, Any],
    calibration: Calibration | None,
    notices: Iterable[Notice],
    error: Notice | None = None,
) -> Document:
    """Return one row of a sweep: ``identity`` first, then the answer, or the ``error`` instead of one.

    ``ValueError`` if a number of the answer is not finite.
    """
    answer = {} if calibration is None else _calibration(calibration)
    rest = {
        **dict.fromkeys(key for key in _ROW_KEYS if key not in identity),
        **answer,
        "warnings": list(dict.fromkeys(notice.slug for notice in notices)),
        "error": error and asdict(error),
    }
    return _finite({**identity, **rest})


def factorization_document(inputs: Mapping[str, Any], found: Factorization) -> Document:
    """Return the ``csgm/factorize/1`` document of one factorization."""
    return document_of("factorize", inputs, None, _factorization(found), found.notices)


def strategies_document(
    inputs: Mapping[str, Any], rows: Sequence[Factorization], notices: Iterable[Notice]
) -> Document:
    """Return the ``csgm/factorize/1`` document of several strategies: ``rows``."""
    said = chain(notices, *(row.notices for row in rows))
    return document_of("factorize", inputs, None, {"rows": [_factorization(row) for row in rows]}, said)


def inspection_document(inputs: Mapping[str, Any], found: Inspection) -> Document:
    """Return the ``csgm/inspect/1`` document."""
    result = {**_factorization(found), "holds": found.holds, "claims": [asdict(c) for c in found.claims]}
    return document_of("inspect", inputs, None, result, ())


def simulation_document(
    inputs: Mapping[str, Any], found: MeanSimulation, notices: Iterable[Notice]
) -> Document:
    """Return the ``csgm/simulate/1`` document."""
    result = {
        "trials": found.trials,
        "confidence": found.confidence,
        "holds": found.holds,
        "encoding_error": found.encoding_error,
        "worst_case_mse": found.worst_case_mse,
        "rows": [asdict(prediction) | {"holds": prediction.holds} for prediction in found.predictions],
    }
    return document_of("simulate", inputs, None, result, notices)


def training_document(inputs: Mapping[str, Any], run: TrainingRun, notices: Iterable[Notice]) -> Document:
    """Return the ``csgm/train/1`` document: the record of a simulated training."""
    calibration = run.calibration
    result = {
        "private": False,
        "complete": run.is_complete,
        "planned_rounds": run.planned_rounds,
        "accuracy": run.rounds[-1].accuracy if run.rounds else None,
        "dataset": run.dataset,
        "dataset_sha256": run.dataset_sha256,
        "examples_per_client": run.examples_per_client,
        "parameters": run.parameters,
        "noise_multiplier": calibration.noise_multiplier,
        "sigma": calibration.sigma,
        "epsilon": calibration.guarantee.epsilon,
        "delta": calibration.guarantee.delta,
        "bound": str(calibration.guarantee.bound),
        "cost": asdict(run.cost),
        "bytes_are_expected": run.bytes_are_expected,
        "versions": dict(run.versions),
        "rows": [asdict(done) for done in run.rounds],
    }
    return document_of("train", inputs, calibration.accountant, result, notices)


def selftest_document(cases: Sequence[SelftestCase]) -> Document:
    """Return the ``csgm/selftest/1`` document; a number that came out as NaN or infinity is null."""
    rows = [
        {key: _finite_or_none(value) for key, value in asdict(case).items()} | {"holds": case.holds}
        for case in cases
    ]
    result = {"held": sum(case.holds for case in cases), "total": len(cases), "cases": rows}
    return document_of("selftest", {}, None, result, ())


def version_document(versions: Mapping[str, str | None]) -> Document:
    """Return the ``csgm/version/1`` document; a library that is missing has null for its version."""
    return document_of(
        "version", {}, None, {"csgm": __version__, "numbers_version": NUMBERS_VERSION, **versions}, ()
    )


def error_document(error: CsgmError) -> Document:
    """Return the ``csgm/error/1`` document."""
    path, line = error.place or (None, None)
    words = {"slug": error.slug, "message": error.message, "hint": error.hint}
    return {"schema": "csgm/error/1", "error": {**words, "file": path, "line": line}}


def command_of(document: Document) -> str:
    """Return the command whose result a document is."""
    command: str = document["schema"].split("/")[1]
    return command


def document_of(
    command: str,
    inputs: Mapping[str, Any],
    accountant: Accountant | None,
    result: Document,
    notices: Iterable[Notice],
) -> Document:
    """Return the document of a command; ``ValueError`` for a number that is not finite."""
    resolved = {} if accountant is None else {"accountant": accountant}
    document = {
        "schema": f"csgm/{command}/1",
        "csgm_version": __version__,
        "numbers_version": NUMBERS_VERSION,
        "inputs": {key: _plain(value) for key, value in {**inputs, **resolved}.items()},
        "result": result,
        "warnings": [asdict(notice) for notice in dict.fromkeys(notices)],
    }
    return _finite(document)


def _finite(document: Document) -> Document:
    for path, value in _leaves(document):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{path} is {value!r}: no result may be printed")
    return document


def _calibration(calibration: Calibration) -> Document:
    values = {
        "noise_multiplier": calibration.noise_multiplier,
        "effective_noise_multiplier": calibration.effective_noise_multiplier,
        "gaussian_noise_multiplier": calibration.gaussian_noise_multiplier,
        "sigma": calibration.sigma,
        **_stated(calibration.guarantee, calibration.statement),
        "mean_noise_std": calibration.mean_noise_std,
        "mse": calibration.mse and asdict(calibration.mse),
        "bits_per_client": calibration.bits_per_client,
        "noise_std_per_row": calibration.noise_std_per_row and asdict(calibration.noise_std_per_row),
        "mse_last_row": calibration.mse_last_row and asdict(calibration.mse_last_row),
    }
    return {key: values[key] for key in _CALIBRATION_KEYS}


def _factorization(found: Factorization | Inspection) -> Document:
    words = {
        "workload": found.workload.name,
        "strategy": None if found.strategy is None else str(found.strategy),
        "objective": found.objective.value,
    }
    return {key: words[key] if key in words else getattr(found, key) for key in _FACTORIZATION_KEYS}


def guarantee_values(guarantee: Guarantee) -> Document:
    """Return what a guarantee says, by key."""
    return {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "order": guarantee.order,
        "bound": str(guarantee.bound),
        "proof": None if guarantee.proof is None else str(guarantee.proof),
        "conversion": None if guarantee.conversion is None else str(guarantee.conversion),
        "assumptions": list(guarantee.assumptions),
        "lower_bound": guarantee.lower_bound,
        "verified": guarantee.verified and asdict(guarantee.verified),
    }


def _stated(guarantee: Guarantee, statement: str) -> Document:
    values = {**guarantee_values(guarantee), "statement": statement}
    return {key: values[key] for key in _CALIBRATION_KEYS if key in values}


def _error(parts: tuple[float, float] | None) -> Document | None:
    """The keys of an MSE without a reference to compare with."""
    if parts is None:
        return None
    privacy, sparsification = parts
    return {"privacy": privacy, "sparsification": sparsification, "total": privacy + sparsification}


def _comparison_row(row: ComparisonRow) -> Document:
    answer = dict.fromkeys(_CALIBRATION_KEYS) if row.calibration is None else _calibration(row.calibration)
    factors = row.mechanism.factorization
    return {
        "mechanism": str(row.mechanism.name),
        "gamma": row.mechanism.gamma,
        "strategy": None if factors is None else factors.strategy,
        **answer,
        "privunit": None,
    }


def _privunit_row(row: PrivUnitRow) -> Document:
    keys = ("epsilon", "delta", "bound", "proof", "statement", "bits_per_client")
    return {
        "mechanism": "privunit-shuffle",
        "gamma": None,
        "strategy": None,
        **dict.fromkeys(_CALIBRATION_KEYS),
        **{key: getattr(row, key) for key in keys},
        "assumptions": list(row.assumptions),
        "mse": asdict(row.mse),
        "privunit": {key: getattr(row, key) for key in _PRIVUNIT_KEYS},
    }


def _notices(calibration: Calibration) -> Iterator[Notice]:
    return chain(calibration.notices, calibration.guarantee.notices)


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON-shaped in, JSON-shaped out
    """Enum members become their words and tuples lists, as JSON will have them."""
    if isinstance(value, Enum):
        return value.value
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _finite_or_none(value: str | float) -> str | float | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON-shaped
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value
