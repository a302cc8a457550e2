"""Saved JSON results, read back for recomputation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeGuard

from csgm_cli.errors import UsageError, shown
from csgm_cli.ranges import FORMER_NAMES, RANGES, Range
from csgm_cli.storage.json_text import parse_json
from csgm_cli.storage.schema import find_fault
from csgm_cli.version import is_this_release, is_version

#: The schema numbers that can be read back, by command.
_READABLE = {f"csgm/{command}/1": command for command in ("calibrate", "plan", "account")}

#: Relative difference up to which two numbers that say the same agree.
AGREEMENT = 1e-9

#: Wider than the ranges of inputs: a result may have a very large epsilon or delta.
_EPSILON, _DELTA = Range(0.0, 1e300), Range(1e-300, 1.0)

_OVERHEADS = ("max_mse_overhead", "max_noise_overhead")


@dataclass(frozen=True)
class SavedResult:
    """What a saved calibrate, plan or account result says.

    ``inputs``: the resolved inputs by name, a planned gamma among them, with the types JSON has; their
    values are not checked. ``noise_multiplier`` in [1e-15, 1e18] and ``guarantees``, each an epsilon in
    [0, 1e300] and a delta in [1e-300, 1]: the noise, and what it was said to give; several for several
    deltas. ``csgm_version`` and ``numbers_version``: of the program that said so, the latter None where
    nobody recorded it. ``rows``: each guarantee with all that the file
    says beside it, unchecked. ``sigma``: the noise as the file has it, of this noise multiplier.
    """

    command: str
    inputs: dict[str, Any]
    noise_multiplier: float
    guarantees: tuple[tuple[float, float], ...]
    csgm_version: str
    numbers_version: int | None
    rows: tuple[dict[str, Any], ...]
    sigma: float

    @property
    def asked_delta(self) -> bool:
        """True where epsilon was given and delta was the answer."""
        return self.command == "account" and self.inputs.get("epsilon") is not None


def load_saved(text: str) -> SavedResult:
    """Parse the JSON that calibrate, plan or account wrote; every value in it must be as its schema says.

    ``UsageError`` (slug ``bad-result-file``) says what is missing or wrong; not all keys are needed.
    """
    document = _object(_parsed(text), "the file")
    command = _command(_text(document, "schema"))
    inputs = _object(document.get("inputs"), "inputs")
    if inputs.get("sigma", ...) is None:  # csgm 0.1.0 left out what was not given: the multiplier says it
        inputs = {name: value for name, value in inputs.items() if name != "sigma"}
    inputs = _with_current_names(inputs)
    document = {**document, "inputs": inputs}
    rows = _rows(command, _object(document.get("result"), "result"))
    if command == "plan":  # there gamma is an answer
        _check_plan(inputs, _object(document["result"], "result"), rows[0])
        inputs = {**inputs, "gamma": rows[0].get("gamma")}
    noise = inputs if command == "account" else rows[0]
    _check_noise(inputs, noise)
    version = _version(document)
    if fault := find_fault(document, command, closed=is_this_release(version)):
        raise bad_result(fault)
    _check_guarantees(command, inputs, rows)
    multiplier = _number(noise, "noise_multiplier", RANGES["noise_multiplier"])
    return SavedResult(
        command=command,
        inputs=inputs,
        noise_multiplier=multiplier,
        guarantees=tuple((_number(row, "epsilon", _EPSILON), _number(row, "delta", _DELTA)) for row in rows),
        csgm_version=version,
        numbers_version=document.get("numbers_version"),
        rows=tuple(rows),
        sigma=_sigma(inputs, noise, multiplier),
    )


def _with_current_names(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs with those that stand there by a former name, or by both."""
    found = dict(inputs)
    for former, name in FORMER_NAMES.items():
        if former in inputs and found.setdefault(name, inputs[former]) != inputs[former]:
            said = f"inputs.{name} {shown(found[name])}"
            raise bad_result(f"{said} disagrees with inputs.{former} {shown(inputs[former])}")
    return found


def _sigma(inputs: dict[str, Any], noise: dict[str, Any], multiplier: float) -> float:
    if "sigma" in noise:
        return _number(noise, "sigma", RANGES["sigma"])
    l2_norm = inputs.get("l2_norm")
    return multiplier * l2_norm if is_positive(l2_norm) else multiplier


def _command(schema: str) -> str:
    if schema == "csgm/compare/1":
        raise bad_result("a comparison holds several mechanisms", "calibrate the one you use, and save that")
    if schema not in _READABLE:
        raise bad_result(f"schema is {shown(schema)}, expected {' or '.join(map(repr, _READABLE))}")
    return _READABLE[schema]


def _rows(command: str, result: dict[str, Any]) -> list[dict[str, Any]]:
    """The results in the file: those of several deltas, or the only one."""
    if command == "calibrate" or (command == "account" and "rows" not in result):
        return [result]
    rows = result.get("rows")
    if not isinstance(rows, list) or not rows or (command == "plan" and len(rows) > 1):
        raise bad_result("result.rows does not hold what it should")
    return [_object(row, "a row of the result") for row in rows]


def _check_plan(inputs: dict[str, Any], result: dict[str, Any], row: dict[str, Any]) -> None:
    """Refuse a plan whose answer, which stands there twice, is not one answer."""
    if row.get("mechanism") != inputs.get("mechanism"):
        names = f"{shown(inputs.get('mechanism'))} disagrees with {shown(row.get('mechanism'))}"
        raise bad_result(f"inputs.mechanism {names} in the row")
    _check_same("result.gamma", result.get("gamma"), "gamma in the row", row.get("gamma"))
    _check_overhead(inputs, row)
    for holder, name in ((result, "result.gamma"), (row, "gamma in the row")):
        compression = holder.get("compression")
        if is_positive(compression):
            _check_same(name, holder.get("gamma"), "1 / compression", 1 / compression)


def _check_overhead(inputs: dict[str, Any], row: dict[str, Any]) -> None:
    names = [name for name in (*_OVERHEADS, "gamma") if name in inputs]
    if names and [inputs[name] is None for name in names].count(False) != 1:
        raise bad_result(f"inputs must hold one of {', '.join(_OVERHEADS)} and gamma")
    if inputs.get("gamma") is not None:
        _check_same("inputs.gamma", inputs["gamma"], "gamma in the row", row.get("gamma"))
    overhead, mse = inputs.get("max_mse_overhead"), row.get("mse")
    ratio = mse.get("ratio") if isinstance(mse, dict) else None
    if isinstance(overhead, int | float) and is_positive(ratio) and ratio > (1 + overhead) * (1 + AGREEMENT):
        raise bad_result(f"mse.ratio {ratio!r} is above 1 + max_mse_overhead {shown(overhead)}")


def _check_noise(inputs: dict[str, Any], noise: dict[str, Any]) -> None:
    """Refuse a file in which one of two numbers that say the same of the mechanism was changed."""
    l2_norm, gamma = inputs.get("l2_norm"), inputs.get("gamma")
    multiplier, effective = noise.get("noise_multiplier"), noise.get("effective_noise_multiplier")
    _check_same("sigma", noise.get("sigma"), "noise_multiplier l2_norm", _product(multiplier, l2_norm))
    product = _product(effective, gamma)
    _check_same("noise_multiplier", multiplier, "effective_noise_multiplier gamma", product)


def _check_guarantees(command: str, inputs: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Refuse a file whose results are not those of the question."""
    deltas, target = inputs.get("delta"), inputs.get("epsilon")
    if command == "account" and (deltas is None) == (target is None):
        raise bad_result("inputs must hold either epsilon or delta, of which the other is the answer")
    if command != "account" and target is not None:
        _number(inputs, "epsilon", RANGES["epsilon"])
    asked = deltas if isinstance(deltas, list) else [deltas] * len(rows)
    if len(asked) != len(rows):
        raise bad_result(f"it holds {len(rows)} results for {len(asked)} deltas")
    for row, delta in zip(rows, asked, strict=True):
        _check_same("inputs.delta", delta, "result.delta", row.get("delta"))
        achieved = row.get("epsilon")
        if command == "account":  # elsewhere the target may be above what is achieved
            if target == 0.0 and achieved:
                raise bad_result(f"inputs.epsilon 0 disagrees with result.epsilon = {shown(achieved)}")
            _check_same("inputs.epsilon", target, "result.epsilon", achieved)
        elif is_positive(target) and is_positive(achieved) and achieved > target * (1 + AGREEMENT):
            raise bad_result(f"result.epsilon {shown(achieved)} is above the target {shown(target)}")


def _check_same(name: str, value: object, other: str, expected: object) -> None:
    if is_positive(value) and is_positive(expected) and not math.isclose(value, expected, rel_tol=AGREEMENT):
        raise bad_result(f"{name} {shown(value)} disagrees with {other} = {shown(expected)}")


def is_positive(value: object) -> TypeGuard[float]:
    """Say whether a value out of a file is a positive number that can be computed with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _product(left: object, right: object) -> float | None:
    return float(left) * float(right) if is_positive(left) and is_positive(right) else None


def _parsed(text: str) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        raise bad_result(str(error)) from None


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad_result(f"{name} is not a JSON object")
    return value


def _text(holder: dict[str, Any], key: str) -> str:
    value = holder.get(key)
    if not isinstance(value, str):
        raise bad_result(f"{key} is missing or not a string")
    return value


def _version(document: dict[str, Any]) -> str:
    version = _text(document, "csgm_version")
    if not is_version(version):
        raise bad_result(f"csgm_version is {shown(version)}, which is no version")
    return version


def _number(holder: dict[str, Any], key: str, allowed: Range) -> float:
    value = holder.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_result(f"{key} is missing or not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if number not in allowed:
        raise bad_result(f"{key} must be {allowed}, got {number!r}")
    return number


def bad_result(
    reason: str, hint: str = "save a result with: csgm calibrate --format json --output FILE"
) -> UsageError:
    """Return the error that says why a file holds no result."""
    return UsageError("bad-result-file", f"not a saved csgm result: {reason}", hint)
