"""The mechanism of a saved result, and whether all values that follow from others agree with them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from csgm_cli.errors import shown
from csgm_cli.jobs.account import conversion_of
from csgm_cli.jobs.statement import PROOFS_OF, assumptions_of, proof_in_words, statement
from csgm_cli.jobs.utility import Rows, bits_per_client, error_parts, mean_noise_std, noise_std_per_row
from csgm_cli.model.certificate import Proof
from csgm_cli.model.geometry import rounds_from_participation
from csgm_cli.model.mechanism import Bound, FactorNorms, Mechanism
from csgm_cli.model.mechanism_table import Geometry
from csgm_cli.model.participation import REPEATED_KEYS, repeated_from
from csgm_cli.model.result import Guarantee, Notice
from csgm_cli.storage.saved import AGREEMENT, bad_result, is_positive
from csgm_cli.version import __version__, is_this_release

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from csgm_cli.model.result import NoisePerRow
    from csgm_cli.storage.saved import SavedResult

#: As `AGREEMENT` for what hangs on a factorization that is solved anew: near the optimum the rows of B move
#: by the root of the gap.
_SOLVED = 1e-3
#: Two solutions of one factorization agree in the largest column norm of C to this.
_SAME_NORM = 1e-8
#: Inputs that determine a mechanism without a factorization.
_INPUTS = (
    *("mechanism", "gamma", "norm_ratio", "l2_norm", "dim", "cohort_size", "rounds", "sampling_rate"),
    *("training_rounds", "adjacency", "factorization", "epochs"),
)
#: What of a result depends on all that determines the mechanism.
_CHECKED = ("sigma", "statement", "mean_noise_std", "mse", "bits_per_client")
#: Inputs that say what factorization it is.
_FACTORS = ("T", "workload", "strategy", "sensitivity", "factorization_sha256")
#: Inputs that are there with a factorization only.
_OF_FACTORIZATION = (*_FACTORS, "epochs", *REPEATED_KEYS)
#: Inputs that csgm 0.1.0 left null where their other form was given, or did not have.
_NOT_ALWAYS_SAID = ("compression", "linf_norm", "sampling_rate")
#: Words of the statement for these bounds in results without the key ``proof``.
_BEFORE_PROOFS = {
    Bound.TIGHT_ADD: "a convex test function whose worst vector is known; adding the client decides",
    Bound.TIGHT_REMOVE: "a convex test function whose worst vector is known; removing the client decides",
}
_PARTICIPATION = ("population_size", "cohort_size", "training_rounds")


def calibrated_mechanism(saved: SavedResult) -> Mechanism:
    """The mechanism of a saved calibration; of a factorization the file has only the sensitivity.

    ``UsageError``: an input out of range (the slugs of `Mechanism`); a file that is no calibration, or lacks
    what determines the mechanism or what that is checked by (slug ``bad-result-file``).
    """
    if saved.command == "account":
        raise bad_result("it is no calibration")
    inputs = saved.inputs
    factorized = inputs.get("factorization") is not None
    for holder, name, keys in (
        (inputs, "inputs", (*_INPUTS, *(_FACTORS if factorized else ()))),
        (saved.rows[0], "result", _CHECKED),
    ):
        if missing := [key for key in keys if key not in holder]:
            raise bad_result(f"{name}.{missing[0]} is missing")
    factors = None
    if factorized:
        names = ("T", "workload", "strategy", "sensitivity")
        words = {name: inputs[name] for name in names}
        factors = FactorNorms(**words, sha256=inputs["factorization_sha256"], repeated=repeated_from(inputs))
    is_restarted = factors is not None and factors.repeated is None
    if is_restarted != (inputs["rounds"] is None):
        raise bad_result("its inputs must hold either rounds or a factorization that is restarted")
    return Mechanism(
        inputs["mechanism"],
        inputs["gamma"],
        # null for the Gaussian mechanism
        Geometry(inputs["norm_ratio"] or 1.0, inputs["l2_norm"], inputs["dim"], inputs["cohort_size"]),
        rounds=inputs["rounds"],
        adjacency=inputs["adjacency"],
        factorization=factors,
        epochs=inputs["epochs"],
        disjoint_cohorts=factors is None and inputs["training_rounds"] is not None,
        sampling_rate=inputs["sampling_rate"],
    )


def check_agreement(saved: SavedResult, mechanism: Mechanism) -> tuple[Notice, ...]:
    """Compare what follows from the saved ``mechanism`` and its noise with what the file says of it.

    ``UsageError`` (slug ``bad-result-file``) names what does not agree. Words of another version of csgm
    may have been others: they are a notice, and so is the condition on which rounds were computed.
    """
    _check_inputs(saved.inputs, _settled(mechanism))
    notices = _check_rounds(saved.inputs, mechanism)
    solved = mechanism.factorization is not None and mechanism.factorization.sha256 is None
    tolerance = _SOLVED if solved else AGREEMENT
    for row in saved.rows:
        for name, value, expected in _numbers(saved, row, mechanism):
            if not _is_same(value, expected, tolerance):
                contradiction = f"{name} {shown(value)} disagrees with the mechanism and its noise"
                raise bad_result(f"{contradiction}: {expected!r}")
    for row, guarantee in zip(saved.rows, saved.guarantees, strict=True):
        _check_lower_bound(saved, row, guarantee)
        for name, words in _words(row, mechanism, saved.sigma, *guarantee).items():
            if name not in row:
                raise bad_result(f"result.{name} is missing")
            if row[name] != words:
                return (*notices, *_other_words(saved, name, _difference(row[name], words)))
    return notices


def _check_lower_bound(saved: SavedResult, row: Mapping[str, Any], guarantee: tuple[float, float]) -> None:
    """Raise ``UsageError`` unless the lower bound is one of the answer, or null."""
    bound, answer = row.get("lower_bound"), saved.noise_multiplier
    name = "noise_multiplier"
    if saved.command == "account":
        name, answer = ("delta", guarantee[1]) if saved.asked_delta else ("epsilon", guarantee[0])
    if bound is None or bound == 0.0 or (is_positive(bound) and bound <= answer * (1 + AGREEMENT)):
        return
    raise bad_result(f"lower_bound {shown(bound)} is no lower bound of {name} {answer!r}")


def _other_words(saved: SavedResult, name: str, difference: str) -> tuple[Notice, ...]:
    if is_this_release(saved.csgm_version):
        raise bad_result(f"result.{name} disagrees with its numbers: {difference}")
    said = f"the saved {name} is not what csgm {__version__} makes of the saved numbers"
    return (Notice("other-words", f"{said}, but csgm {saved.csgm_version} may have: {difference}"),)


def _settled(mechanism: Mechanism) -> dict[str, object]:
    """The inputs that the mechanism settles."""
    geometry, factors = mechanism.geometry, mechanism.factorization
    clips = mechanism.kind.clips_linf
    found: dict[str, object] = {
        "gamma": mechanism.gamma,
        "compression": 1.0 / mechanism.gamma,
        "norm_ratio": geometry.norm_ratio if clips else None,
        "linf_norm": geometry.linf_norm if clips else None,
        "sampling_rate": mechanism.sampling_rate,
    }
    if factors is None:
        return {**found, "rounds": mechanism.releases}
    words = {name: getattr(factors, name) for name in ("T", "workload", "strategy", "sensitivity")}
    found |= {**words, "factorization_sha256": factors.sha256}
    if factors.repeated is None:
        return {**found, "rounds": None, "epochs": mechanism.releases}
    return {**found, **factors.repeated.named, "rounds": mechanism.releases, "epochs": 1}


def _check_inputs(inputs: Mapping[str, Any], settled: Mapping[str, object]) -> None:
    """Raise ``UsageError`` where an input that others settle is another, or is there without reason."""
    for name in (*settled, *_OF_FACTORIZATION):
        said, expected = inputs.get(name), settled.get(name)
        if said is None and name in _NOT_ALWAYS_SAID:
            continue
        is_same = _is_same(said, expected, _SAME_NORM) if isinstance(expected, float) else said == expected
        if not is_same:
            raise bad_result(
                f"inputs.{name} {shown(said)} disagrees with the other inputs: expected {shown(expected)}"
            )


def _check_rounds(inputs: Mapping[str, Any], mechanism: Mechanism) -> tuple[Notice, ...]:
    if mechanism.sampling_rate < 1.0 or inputs.get("client_sampling") is not None:
        if inputs.get("training_rounds") is not None:
            raise bad_result("inputs hold training_rounds, which exclude client sampling")
        return ()  # the sampling rate was compared with the other sizes when the mechanism was built
    said = {name: inputs.get(name) for name in _PARTICIPATION}
    needed = ("population_size", "cohort_size") if mechanism.factorization else _PARTICIPATION
    if said["population_size"] is None and said["training_rounds"] is None:
        return ()
    if {name for name, value in said.items() if value is not None} != set(needed):
        raise bad_result(f"inputs must hold all of {', '.join(needed)}, or no population_size")
    if mechanism.factorization is not None:
        return ()
    expected, notice = rounds_from_participation(*(inputs[name] for name in _PARTICIPATION))
    if mechanism.releases != expected:
        numbers = ", ".join(f"{name} {shown(value)}" for name, value in said.items())
        raise bad_result(f"rounds {mechanism.releases} disagrees with {numbers}: expected {expected}")
    return (notice,)


def _numbers(
    saved: SavedResult, row: Mapping[str, Any], mechanism: Mechanism
) -> Iterator[tuple[str, object, float | None]]:
    """Each number of a row that follows from others: its name, what it is and what it should be."""
    sigma, bits = saved.sigma, saved.inputs.get("value_bits")
    if "mean_noise_std" in row:
        yield "mean_noise_std", row["mean_noise_std"], mean_noise_std(mechanism, sigma)
    if "bits_per_client" in row and bits is not None:
        yield "bits_per_client", row["bits_per_client"], bits_per_client(mechanism, int(bits))
    if "mse" in row:
        yield from _error("mse", row["mse"], _parts(mechanism, sigma, Rows.MEAN))
    if "mse_last_row" in row:
        last = None if mechanism.factorization is None else _parts(mechanism, sigma, Rows.LAST)
        yield from _error("mse_last_row", row["mse_last_row"], last)
    if "noise_std_per_row" in row and not _lacks_rows(mechanism):
        yield from _per_row(row["noise_std_per_row"], noise_std_per_row(mechanism, sigma))


def _per_row(said: object, found: NoisePerRow | None) -> Iterator[tuple[str, object, float | None]]:
    for name in ("min", "mean", "max"):
        value = said.get(name) if isinstance(said, dict) else said
        yield f"noise_std_per_row.{name}", value, getattr(found, name, None)


def _lacks_rows(mechanism: Mechanism) -> bool:
    return mechanism.factorization is not None and mechanism.factorization.rows is None


def _parts(mechanism: Mechanism, sigma: float, of: Rows) -> tuple[float | None, float] | None:
    """`error_parts`; the first is None if only the arrays of a factorization of prefix sums can say it."""
    factors = mechanism.factorization
    if factors is None or factors.rows is not None:
        return error_parts(mechanism, sigma, of)
    parts = error_parts(replace(mechanism, factorization=None, epochs=None), sigma)
    squared = (factors.T + 1) / 2 if of is Rows.MEAN else factors.T  # of the rows of prefix sums
    return None if parts is None else (None, squared * parts[1])


def _error(
    key: str, mse: object, parts: tuple[float | None, float] | None
) -> Iterator[tuple[str, object, float | None]]:
    if parts is None or not isinstance(mse, dict):
        if mse is not None or parts is not None:
            yield key, mse, None if parts is None else sum(part for part in parts if part is not None)
        return
    privacy, sparsification = parts
    if privacy is None:
        privacy = mse["privacy"] if is_positive(mse.get("privacy")) else math.inf
    total, gaussian = privacy + sparsification, mse.get("gaussian_total")
    ratio = total / gaussian if is_positive(gaussian) else None
    names = ("privacy", "sparsification", "total", "ratio")
    for name, expected in zip(names, (privacy, sparsification, total, ratio), strict=True):
        yield f"{key}.{name}", mse.get(name), expected


def _words(
    row: Mapping[str, Any], mechanism: Mechanism, sigma: float, epsilon: float, delta: float
) -> dict[str, object]:
    """The words of a row that follow from its numbers, its bound and its proof.

    Of an unknown bound or proof, or one that the bound does not have, the words that it may be.
    """
    if row.get("bound") not in list(Bound):
        return {"bound": " or ".join(Bound)}
    bound = Bound(row["bound"])
    if "proof" in row and row["proof"] not in PROOFS_OF[bound]:
        return {"proof": " or ".join(PROOFS_OF[bound])}
    proofs = (Proof(row["proof"]),) if "proof" in row else PROOFS_OF[bound]
    assumptions = assumptions_of(mechanism, bound)
    guarantees = [
        Guarantee(epsilon, delta, None, bound, conversion_of(proof), assumptions, proof=proof)
        for proof in proofs
    ]
    statements = [statement(mechanism, sigma, guarantee) for guarantee in guarantees]
    if "proof" not in row:
        words = proof_in_words(bound, proofs[0])
        statements.append(statements[0].replace(words, _BEFORE_PROOFS.get(bound, words)))
    said = row.get("statement")
    return {
        "assumptions": list(assumptions),
        "statement": said if said in statements else statements[0],
        "conversion": guarantees[0].conversion,
    }


def _is_same(value: object, expected: float | None, tolerance: float) -> bool:
    if value is None or expected is None:
        return value is expected
    return (
        is_positive(value) and math.isclose(value, expected, rel_tol=tolerance)
    ) or value == expected == 0.0


def _difference(said: object, words: object) -> str:
    """What is said and what was expected, from the first word on that is another."""
    if not (isinstance(said, str) and isinstance(words, str)):
        return f"{shown(said)} instead of {shown(words)}"
    pairs = enumerate(zip(said, words, strict=False))
    same = next((place for place, (one, other) in pairs if one != other), min(len(said), len(words)))
    start = words.rfind(" ", 0, same) + 1
    return f"{_words_from(said, start)} instead of {_words_from(words, start)}"


def _words_from(text: str, start: int, limit: int = 40) -> str:
    """The first whole words of ``text``, quoted."""
    part = text[start : start + limit]
    if start + limit < len(text):
        part = f"{part.rpartition(' ')[0] or part} ..."
    return shown(part)
