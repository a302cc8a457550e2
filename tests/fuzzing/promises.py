"""Run command lines in this process, through ``main``, and hold csgm to what it promises about each."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from jsonschema import Draft202012Validator

from csgm_cli.accounting.accountants import LARGEST_TARGET_DELTA
from csgm_cli.cli import main
from csgm_cli.ranges import RANGES, Range
from csgm_cli.storage.schema import load_schema
from tests.fuzzing.lines import Example, Line

#: CPU seconds after which a command line hangs; how long one should take is for the benchmarks to say.
_HANGS = 120.0
#: The status of one that was stopped.
HUNG = -1
#: Reasons for which a well-formed question may end without an answer.
NO_ANSWER = {
    "delta-covers-target",
    "no-noise-in-range",
    "no-gamma-fits",
    "out-of-reach",
    "oracle-not-converged",
}
#: What no answer shows as a number.
_UNREAL = re.compile(r"(?<![\w-])(nan|inf|infinity)\b", re.IGNORECASE)
#: By how much answers to almost equal questions may be out of order: the width of their brackets.
BRACKET = 1 + 2e-12
#: The same where a certified grid may decide, and by how much less noise then misses the target.
GRID_WIDTH = 1e-5
#: The same with client sampling, where orders come from a lattice and log-moments may grow abruptly.
SAMPLED_WIDTH = 1e-2
#: The bounds that never come from a grid.
CLOSED_FORMS = {"exact", "rdp", "paper", "mask-revealed"}
#: Within these the profile methods are promised; elsewhere closed forms answer, and nothing is promised of
#: the order of two answers on different sides.
PROFILE_RANGES = {"gamma": Range(1e-6, 1.0), "epsilon": Range(1e-3, 100.0), "delta": Range(1e-30, 1.0)}


@dataclass(frozen=True)
class Outcome:
    """What one command line left behind, and the CPU seconds it took."""

    status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def document(self) -> dict[str, Any]:
        """The JSON on stdout; ``ValueError`` where it is none, or has NaN or Infinity."""
        parsed: dict[str, Any] = json.loads(self.stdout, parse_constant=_refuse)
        return parsed

    @property
    def slug(self) -> str:
        """The slug of the error on stderr; empty without one."""
        found = re.search(r"^error\[([a-z0-9-]+)\]: ", self.stderr, re.MULTILINE)
        return found[1] if found else ""


class PromiseBrokenError(AssertionError):
    """csgm broke ``promise`` on ``line``."""

    def __init__(self, promise: str, line: Line, detail: str) -> None:
        super().__init__(f"{promise}: {ascii(str(line))[1:-1]}\n  {detail}")
        self.promise = promise
        self.line = line
        self.detail = detail


class _HangError(BaseException):
    """Not an ``Exception``, so that nothing but `run` catches it."""


@contextlib.contextmanager
def quiet_place() -> Iterator[Path]:
    """Run in an empty repository, with an environment that says nothing to csgm."""
    before, kept = Path.cwd(), dict(os.environ)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ".git").mkdir()
        for variable in [v for v in os.environ if v.startswith(("CSGM_", "_CSGM")) or v == "FORCE_COLOR"]:
            del os.environ[variable]
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)
            os.environ.update(kept)


def run(line: Line) -> Outcome:
    """Run ``line`` through ``main``; one that does not end is stopped."""
    out, err, start = io.StringIO(), io.StringIO(), time.process_time()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _alarm(_HANGS):
            status = main(line.words)
    except _HangError:
        status = HUNG
    return Outcome(status, out.getvalue(), err.getvalue(), time.process_time() - start)


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> NoReturn:
        raise _HangError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# --------------------------------------------------------------------------- promises


def check(example: Example) -> Outcome:
    """Run an example and whatever follows from its answer; ``PromiseBrokenError`` if a promise is broken."""
    outcome = run(example.line)
    _check_contract(example.line, outcome)
    if example.well_formed and outcome.status not in (0, 1) and outcome.slug not in NO_ANSWER:
        raise _unanswered(example.line, outcome)
    answered = outcome.status in (0, 1) and not example.line.has("--")
    if answered and example.line.command in ("calibrate", "account"):
        question, inputs = _question(example.line)
        if example.line.command == "calibrate":
            _check_calibration(question, inputs, example)
        else:
            _check_account(question, inputs, example.factor)
    return outcome


def _unanswered(line: Line, outcome: Outcome) -> PromiseBrokenError:
    promise = f"a well-formed question has an answer, not {outcome.slug or outcome.status}"
    return PromiseBrokenError(promise, line, outcome.stderr)


def _demand(holds: bool, promise: str, line: Line, detail: object) -> None:
    if not holds:
        raise PromiseBrokenError(promise, line, str(detail))


def _check_contract(line: Line, outcome: Outcome) -> None:
    """Exit code and streams."""
    allowed = {0, 2, 3}
    allowed |= {1} if line.has("--max-epsilon") else set()
    files = line.has("--output", "--from", "--config", "--factorization") or line.command == "check"
    allowed |= {4} if files else set()
    said = f"exit {outcome.status}, {outcome.seconds:.3g} s, stderr: {outcome.stderr!r}"
    _demand(outcome.status != HUNG, "an end", line, said)
    _demand(outcome.status in allowed, "a promised exit code", line, said)
    _demand("Traceback" not in outcome.stderr, "no traceback", line, said)
    if outcome.status in (0, 1):
        _check_answer(line, outcome)
    else:
        _check_refusal(line, outcome)


def _check_answer(line: Line, outcome: Outcome) -> None:
    promise, said = "the answer alone on stdout", repr(outcome.stdout[:2000])
    try:
        if line.last("--output") is not None:
            _demand(outcome.stdout == "", promise, line, said)
        elif line.has("--value"):
            _demand(math.isfinite(float(outcome.stdout)), promise, line, said)
        elif line.last("--format") == "json":
            _validator(line.command).validate(outcome.document)
        elif line.last("--format") == "csv":
            rows = list(csv.reader(io.StringIO(outcome.stdout), strict=True))
            _demand(len(rows) > 1 and {len(rows[0])} == {len(row) for row in rows}, promise, line, said)
        _demand(not _UNREAL.search(outcome.stdout), promise, line, said)
    except PromiseBrokenError:
        raise
    except Exception as error:
        raise PromiseBrokenError(promise, line, f"{error}: {said}") from error
    if not line.has("--show-inputs"):
        known = ("warning[", "failed: ") if outcome.status else ("warning[",)
        strange = [said for said in outcome.stderr.splitlines() if not said.startswith(known)]
        _demand(not strange, "nothing but warnings beside an answer", line, strange)


def _check_refusal(line: Line, outcome: Outcome) -> None:
    promise, said = "one error message", repr(outcome.stderr)
    lines = outcome.stderr.split("\n")
    at = [i for i, text in enumerate(lines) if text.startswith("error[")]
    _demand(len(at) == 1 and bool(outcome.slug), promise, line, said)
    hint = lines[at[0] + 1 : -1]
    ends_well = lines[-1] == "" and len(hint) <= 1 and all(text.startswith("  try: ") for text in hint)
    _demand(ends_well, promise, line, said)
    _demand(at[0] == 0 or line.has("--show-inputs"), promise, line, said)
    if line.last("--format") == "json":
        try:
            _validator("error").validate(outcome.document)
        except Exception as error:
            said = f"{error}: {outcome.stdout!r}"
            raise PromiseBrokenError("an error object in json mode", line, said) from error
    else:
        _demand(outcome.stdout == "", "nothing on stdout beside an error", line, repr(outcome.stdout))


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(load_schema(name))


def _question(line: Line) -> tuple[Line, dict[str, Any]]:
    """What was asked, in full: a line that answers in JSON, made of the inputs that the answer names."""
    dropped = ("--output", "--value", "--format", "--show-inputs", "--verify", "--max-epsilon")
    asked = line.without(*dropped).changed(format="json")
    outcome = run(asked)
    _demand(outcome.status == 0, "the same answer in every format", asked, outcome.stderr)
    inputs = outcome.document["inputs"]
    names = (
        *("mechanism", "gamma", "norm_ratio", "l2_norm", "dim", "cohort_size", "adjacency"),
        *("rounds", "sampling_rate", "factorization", "epochs"),
    )
    values = {name: inputs[name] for name in names if inputs[name] is not None}
    if values.get("sampling_rate") == 1.0:
        del values["sampling_rate"]
    accountant = asked.last("--accountant") or "auto"
    full = Line(line.command).changed(**values, accountant=accountant, format="json")
    return full, inputs


def _check_calibration(question: Line, inputs: dict[str, Any], example: Example) -> None:
    """The noise is positive and finite, meets the target, hardly less does not, and it is monotone."""
    target = {"epsilon": inputs["epsilon"], "delta": inputs["delta"]}
    question = question.changed(**target)
    result = _result(question)
    assert result is not None  # the same question was answered
    noise, sigma = result["noise_multiplier"], result["sigma"]
    positive = all(math.isfinite(x) and x > 0.0 for x in (noise, sigma, result["effective_noise_multiplier"]))
    _demand(positive, "noise positive and finite", question, result)
    account = replace(question.without("--epsilon"), command="account")
    for printed in ({"noise_multiplier": noise}, {"sigma": sigma}):
        found = _result(account.changed(**printed))
        meets = found is not None and found["epsilon"] <= target["epsilon"]
        _demand(meets, "the printed noise meets the target", question, (printed, found))
    lower = result["lower_bound"]
    _demand(lower is None or 0.0 <= lower <= noise, "a lower bound below the answer", question, result)
    width = 1e-8 if result["bound"] in CLOSED_FORMS else GRID_WIDTH
    less = noise * (1 - (SAMPLED_WIDTH if question.has("--sampling-rate") else width))
    if less in RANGES["noise_multiplier"] and target["delta"] <= LARGEST_TARGET_DELTA:
        found = _result(account.changed(noise_multiplier=less))
        misses = found is None or found["epsilon"] > target["epsilon"]
        _demand(misses, "hardly less noise misses the target", question, found)
    _check_order(question, {**inputs, **target}, result, example)


def _check_order(question: Line, inputs: dict[str, Any], result: dict[str, Any], example: Example) -> None:
    """The noise grows with gamma and rounds, and falls with epsilon, delta and norm_ratio."""
    knob, value = example.knob, inputs[example.knob]
    if value is None or (inputs["mechanism"] == "gaussian" and knob == "gamma"):
        return
    if knob == "sampling_rate" and value == 1.0:  # not given
        return
    up, down = value * example.factor, value / example.factor
    if knob == "rounds":
        up, down = math.ceil(up) + (example.factor < 1.001), math.floor(down)
    moved = up if up in RANGES[knob] else down
    if moved not in RANGES[knob] or _in_profile_range(knob, value) != _in_profile_range(knob, moved):
        return
    other = _result(question.changed(**{knob: moved}))
    if other is None:
        return
    low, high = (result, other) if moved > value else (other, result)
    if knob in ("epsilon", "delta", "norm_ratio"):
        low, high = high, low
    tolerance = 1 + SAMPLED_WIDTH if question.has("--sampling-rate") else _tolerance(low, high)
    ordered = low["noise_multiplier"] <= high["noise_multiplier"] * tolerance
    detail = f"{knob} {value!r} -> {moved!r}: {result['noise_multiplier']!r} -> {other['noise_multiplier']!r}"
    _demand(ordered, f"noise monotone in {knob}", question, detail)
    if knob == "gamma" and result["bound"] == other["bound"] == "rdp":  # false for bounds of the profile
        effective = [row["effective_noise_multiplier"] for row in (low, high)]
        _demand(
            effective[1] <= effective[0] * (tolerance if question.has("--sampling-rate") else BRACKET),
            "effective noise falls with gamma",
            question,
            detail,
        )


def _in_profile_range(name: str, value: float) -> bool:
    return name not in PROFILE_RANGES or value in PROFILE_RANGES[name]


def _tolerance(*results: dict[str, Any]) -> float:
    """By which factor two answers may be out of order."""
    closed = all(result["bound"] in CLOSED_FORMS for result in results)
    return BRACKET if closed else 1 + GRID_WIDTH


def _check_account(question: Line, inputs: dict[str, Any], factor: float) -> None:
    """More noise never gives less privacy, and epsilon and delta say the same."""
    asked = "epsilon" if inputs["epsilon"] is not None else "delta"
    answer = "delta" if asked == "epsilon" else "epsilon"
    value = inputs[asked][0] if isinstance(inputs[asked], list) else inputs[asked]
    question = question.changed(**{asked: value, "noise_multiplier": inputs["noise_multiplier"]})
    result = _result(question)
    assert result is not None  # the same question was answered
    more = inputs["noise_multiplier"] * factor
    beyond = result["epsilon"] > RANGES["epsilon"].high
    if more in RANGES["noise_multiplier"] and not beyond:
        found = _result(question.changed(noise_multiplier=more))
        same = found is None or _in_profile_range("epsilon", found["epsilon"]) == _in_profile_range(
            "epsilon", result["epsilon"]
        )
        width = SAMPLED_WIDTH if question.has("--sampling-rate") else GRID_WIDTH
        allowed = 0.0 if found is None else result[answer] * _tolerance(found, result)
        if question.has("--sampling-rate"):
            allowed *= 1 + SAMPLED_WIDTH
        if answer == "delta":  # a relative error e in sigma is about 2 e log(1/delta) in delta
            allowed *= 1 + width * 4 * abs(math.log(result["delta"]))
        falls = found is not None and (not same or found[answer] <= allowed)
        _demand(falls, f"{answer} falls with noise", question, (result[answer], more, found))


def _result(line: Line) -> dict[str, Any] | None:
    """The JSON result of a well-formed question; None where it rightly has no answer."""
    outcome = run(line)
    _check_contract(line, outcome)
    if outcome.status == 3 and outcome.slug in NO_ANSWER:
        return None
    if outcome.status != 0:
        raise _unanswered(line, outcome)
    result: dict[str, Any] = outcome.document["result"]
    return result["rows"][0] if "rows" in result else result
