"""The facts of calibrate, account and plan: noise, guarantee, certificate and utility.

Noise, privacy parameters and costs are rounded up, lower bounds down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from csgm_cli.model.mechanism_table import has_gamma
from csgm_cli.render.reports.parts import (
    Fact,
    error_parts_text,
    is_factorized,
    order_text,
    plain_mechanism,
    verified_text,
)
from csgm_cli.render.reports.setting import ADJACENCY
from csgm_cli.rounding import exact, round_down, round_up

if TYPE_CHECKING:
    from csgm_cli.render.document import Document

_PROOF = {
    "exact": "exact privacy profile of the Gaussian mechanism",
    "renyi": "Renyi bound",
    "gaussian-matched": "Gaussian-matched conversion",
    "concentrated": "convex test functions at the worst-case vector",
    "triangle": "triangle inequality of the add and remove bounds",
    "profile": "exact privacy profile",
    "mask-revealed": "privacy profile of the Gaussian mechanism, masks public",
}
_DIRECTION = {"tight-add": ", add direction", "tight-remove": ", remove direction"}
_CONVERSION = {"canonne-kamath-steinke-2020": "Canonne-Kamath-Steinke 2020"}


def noise_facts(
    inputs: Document, noise: Document, given: Mapping[str, str] | None = None
) -> tuple[Fact, ...]:
    """Return the ways to state the noise, rounded up but for those ``given``.

    ``sigma`` is left out where it equals the noise multiplier, and the effective noise multiplier where every
    coordinate is sent.
    """
    names = ("noise_multiplier", "effective_noise_multiplier", "sigma")
    text = {name: round_up(noise[name]) for name in names} | dict(given or {})
    of = "std of Z in the noise B Z" if is_factorized(inputs) else "noise std on each coordinate of the sum"
    facts = [Fact("noise multiplier", text["noise_multiplier"], f"{of} / l2_norm")]
    if has_gamma(inputs.get("mechanism")):
        facts.append(Fact("effective", text["effective_noise_multiplier"], _effective_note(inputs, noise)))
    if noise["sigma"] != noise["noise_multiplier"]:
        facts.append(Fact("sigma", text["sigma"], of))
    return tuple(facts)


def _effective_note(inputs: Document, noise: Document) -> str:
    if (plain := noise.get("gaussian_noise_multiplier")) is None:
        return "noise multiplier / gamma"
    ratio, mechanism = noise["effective_noise_multiplier"] / plain, f"the {plain_mechanism(inputs)} mechanism"
    if ratio >= 2.0:
        return f"/ gamma: {round_up(ratio, 3)} times that of {mechanism}"
    percent = 100.0 * (ratio - 1.0)
    more = f"{round_up(percent, 2)} % above" if percent >= 0.0 else f"{round_down(-percent, 2)} % below"
    return f"/ gamma: {more} {mechanism}"


def noise_given(inputs: Document) -> tuple[Fact, ...]:
    """Return the noise that was given in full, and what follows from it rounded up."""
    full = {name: exact(inputs[name]) for name in ("noise_multiplier", "sigma")}
    shortest = min(full.values(), key=len)  # the product of two short numbers is seldom as short
    given = {name: text for name, text in full.items() if len(text) == len(shortest)}
    return noise_facts(inputs, inputs, given)


def guarantee_fact(inputs: Document, result: Document) -> Fact:
    """Return the guarantee of a calibrated noise."""
    target = f"epsilon {round_up(result['epsilon'])} at delta {exact(result['delta'])}"
    return Fact("guarantee", f"{target}, {ADJACENCY[inputs['adjacency']]}")


def answer_fact(inputs: Document, result: Document, asked: str, given: str) -> Fact:
    """Return the epsilon or delta that was asked for."""
    note = f"at {given} {exact(result[given])}, {ADJACENCY[inputs['adjacency']]}"
    return Fact(asked, round_up(result[asked]), note)


def limit_facts(inputs: Document, rows: list[Document]) -> tuple[Fact, ...]:
    """Return whether --max-epsilon holds."""
    limit = inputs.get("max_epsilon")
    if limit is None:
        return ()
    holds = all(row["epsilon"] <= limit for row in rows)
    return (Fact("max epsilon", exact(limit), "holds" if holds else "EXCEEDED"),)


def certificate_facts(result: Document, quantity: str) -> tuple[Fact, ...]:
    """Return the proof of the answer, its distance from the lower bound, and its verification."""
    facts = [Fact("proof", proof_text(result))]
    if (lower := result["lower_bound"]) is not None:
        facts.insert(0, Fact("certified", _optimality(result[quantity], lower)))
    if (verified := result["verified"]) is not None:
        digits, difference = verified_text(verified)
        facts.append(Fact("verified", f"{digits}, {difference}"))
    return tuple(facts)


def _optimality(value: float, lower: float) -> str:
    bound = f"lower bound {round_down(lower)}"
    if value <= lower:
        return f"optimal ({bound})"
    if value > 2.0 * lower:
        return f"{bound}; no analysis can prove less"
    return f"within {round_up(100.0 * (value / lower - 1.0), 2)} % of optimal ({bound})"


def proof_text(result: Document) -> str:
    """Return the theorem behind a bound, its direction, and the Renyi order."""
    text = _PROOF.get(result["proof"], "") + _DIRECTION.get(result["bound"], "")
    if (order := order_text(result["order"])) is not None:
        text += f", {'integer ' * (result['bound'] == 'paper')}order {order}"
    conversion = result["conversion"]
    return f"{text}, {_CONVERSION.get(conversion, conversion)} conversion" if conversion else text


def utility_facts(inputs: Document, result: Document) -> tuple[Fact, ...]:
    """Return the error of the mean estimate and the bits of a client, as far as they are known."""
    facts = []
    if result["mean_noise_std"] is not None:
        facts.append(Fact("mean noise std", round_up(result["mean_noise_std"]), "left on the mean estimate"))
    row_noise, last_row = _rows(result)
    facts += row_noise
    if (mse := result["mse"]) is not None:
        average = "mean over the rows, " if is_factorized(inputs) else ""
        facts.append(Fact("MSE", round_up(mse["total"]), average + error_parts_text(mse)))
        facts += last_row
        if "ratio" in mse:
            note = f"relative to {round_up(mse['gaussian_total'])}: {_baseline(inputs)}"
            facts.append(Fact("MSE ratio", round_up(mse["ratio"]), note))
    if (bits := result.get("bits_per_client")) is not None:
        facts.append(Fact("bits per client", round_up(bits), "expected, for the values alone"))
    return tuple(facts)


def _rows(result: Document) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Noise and error of the rows of a factorized stream; nothing without one."""
    if result["noise_std_per_row"] is None and result["mse_last_row"] is None:
        return (), ()
    from csgm_cli.render.reports.factorized_stream import last_row_error, row_noise

    return row_noise(result), last_row_error(result)


def _baseline(inputs: Document) -> str:
    plain, accountant = f"{plain_mechanism(inputs)} mechanism", inputs["accountant"]
    exact_one = "exact" if inputs["sampling_rate"] == 1.0 else "tight"
    if accountant in ("rdp", "paper"):
        return f"{plain}, {accountant} accountant; smaller by {exact_one}"
    return f"{plain}, {exact_one} accountant"
