"""Results that were saved as JSON, read back to be recomputed."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from csgm_cli.errors import UsageError, shown
from csgm_cli.model import RANGES, Range, underflows

#: The schema numbers that can be read back, by command.
_READABLE = {"csgm/calibrate/1": "calibrate", "csgm/account/1": "account"}

#: Wider than what may be asked for: a result may say that hardly anything is guaranteed.
_EPSILON, _DELTA = Range(0.0, 1e300), Range(1e-300, 1.0)

#: What a version may look like; it is shown, and so must be fit for that.
_VERSION = re.compile(r"\d[0-9A-Za-z.+-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class SavedResult:
    """What a saved calibrate or account result says.

    ``inputs``: the resolved inputs by name, with the types JSON has; their values are not checked.
    ``noise_multiplier`` in [1e-15, 1e18], ``epsilon`` in [0, 1e300], ``delta`` in [1e-300, 1]: the noise, and
    the guarantee that it was said to give. ``csgm_version``: of the program that said so.
    """

    command: str
    inputs: dict[str, Any]
    noise_multiplier: float
    epsilon: float
    delta: float
    csgm_version: str


def load_saved(text: str) -> SavedResult:
    """Parse the JSON that calibrate or account wrote; keys that are not needed are ignored.

    ``UsageError`` (slug ``bad-result-file``) says what is missing or wrong.
    """
    document = _object(_parsed(text), "the file")
    schema = _text(document, "schema")
    if schema not in _READABLE:
        raise _bad(f"schema is {shown(schema)}, expected {' or '.join(map(repr, _READABLE))}")
    inputs = _object(document.get("inputs"), "inputs")
    result = _object(document.get("result"), "result")
    if "rows" in result:
        raise _bad("it holds several results", "save the result of a single delta")
    noise = result if _READABLE[schema] == "calibrate" else inputs
    _check_agreement(inputs, result)
    return SavedResult(
        command=_READABLE[schema],
        inputs=inputs,
        noise_multiplier=_number(noise, "noise_multiplier", RANGES["noise_multiplier"]),
        epsilon=_number(result, "epsilon", _EPSILON),
        delta=_number(result, "delta", _DELTA),
        csgm_version=_version(document),
    )


def _check_agreement(inputs: dict[str, Any], result: dict[str, Any]) -> None:
    """Refuse a file in which one of two numbers that say the same was changed."""
    l2_norm, gamma, delta = (inputs.get(name) for name in ("l2_norm", "gamma", "delta"))
    noise, compression = result.get("noise_multiplier"), inputs.get("compression")
    same = (
        ("sigma", result.get("sigma"), "noise_multiplier l2_norm", _product(noise, l2_norm)),
        ("compression", compression, "1 / gamma", 1 / gamma if _positive(gamma) else None),
        ("inputs.delta", delta, "result.delta", result.get("delta")),
    )
    for name, value, other, expected in same:
        if not (_positive(value) and _positive(expected)):
            continue
        if not math.isclose(value, expected, rel_tol=1e-9):
            raise _bad(f"{name} {shown(value)} disagrees with {other} = {shown(expected)}")


def _positive(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e300


def _product(left: object, right: object) -> float | None:
    return left * right if _positive(left) and _positive(right) else None


def _parsed(text: str) -> object:
    try:
        parsed: object = json.loads(text, parse_constant=_refuse_constant, parse_float=_float)
    except RecursionError:
        raise _bad("it is nested too deeply") from None
    except ValueError as error:  # also a whole number of absurd length
        raise _bad(f"it is not JSON: {error}") from None
    return parsed


def _refuse_constant(literal: str) -> NoReturn:
    raise _bad(f"it holds {literal}, which is no JSON number")


def _float(literal: str) -> float:
    number = float(literal)
    if underflows(literal, number):
        raise _bad(f"it holds {shown(literal)}, which float64 cannot tell from 0")
    return number


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(f"{name} is not a JSON object")
    return value


def _text(holder: dict[str, Any], key: str) -> str:
    value = holder.get(key)
    if not isinstance(value, str):
        raise _bad(f"{key} is missing or not a string")
    return value


def _version(document: dict[str, Any]) -> str:
    version = _text(document, "csgm_version")
    if not _VERSION.fullmatch(version):
        raise _bad(f"csgm_version is {shown(version)}, which is no version")
    return version


def _number(holder: dict[str, Any], key: str, allowed: Range) -> float:
    value = holder.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(f"{key} is missing or not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if number not in allowed:
        raise _bad(f"{key} must be {allowed}, got {number!r}")
    return number


def _bad(
    reason: str, hint: str = "save a result with: csgm calibrate --format json --output FILE"
) -> UsageError:
    return UsageError("bad-result-file", f"not a saved csgm result: {reason}", hint)
