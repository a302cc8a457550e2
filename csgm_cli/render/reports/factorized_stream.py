"""The factorization in the text report of a mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.errors import one_line
from csgm_cli.model.mechanism_table import has_gamma
from csgm_cli.render.reports.parts import Fact, error_parts_text
from csgm_cli.rounding import exact, round_up

if TYPE_CHECKING:
    from csgm_cli.render.document import Document

_EPOCHS = "a client takes part in at most one step of each"
_ONE_EPOCH = "a client takes part in at most one step; pass --epochs if training repeats"
#: Inputs of which a sweep may vary any.
_REPEATED = {"participations", "min_separation"}
#: Of the sensitivity, which is 1 but for rounding where it is best.
_DIGITS = 10


def stream_setting(inputs: Document) -> tuple[Fact, ...]:
    """The factorization and the epochs, as far as the inputs settle them."""
    facts = []
    if "T" in inputs:
        strategy = inputs["strategy"] or "made elsewhere"
        size = f"{strategy}, for {inputs['workload']} of T = {exact(inputs['T'])} steps"
        facts.append(Fact("factorization", f"{size} ({one_line(inputs['factorization'])})"))
        column = "largest column norm of C; sigma covers it"
        facts.append(Fact("sensitivity", round_up(inputs["sensitivity"], _DIGITS), column))
    if not _REPEATED.isdisjoint(inputs.get("vary") or ()):
        return tuple(facts)
    if inputs["participations"] is not None:
        return (*facts, *_repeated(inputs))
    if isinstance(inputs["epochs"], int | float):
        epochs = inputs["epochs"]
        facts.append(Fact("epochs", exact(epochs), _EPOCHS if epochs > 1 else _ONE_EPOCH))
    return tuple(facts)


def _repeated(inputs: Document) -> tuple[Fact, ...]:
    """How often a client takes part within one run, and what that costs."""
    how = "exactly" if inputs["fixed_order"] else "at least"
    apart = f"of one client, {how} {exact(inputs['min_separation'])} steps apart"
    facts = [Fact("participations", exact(inputs["participations"]), apart)]
    joint, release = (round_up(inputs[f"{name}_sensitivity"], _DIGITS) for name in ("joint", "release"))
    if has_gamma(inputs.get("mechanism")) and inputs.get("gamma") != 1.0:
        count = f"{exact(inputs['rounds'])} releases"
        return (*facts, Fact("counted as", count, f"each of sensitivity {release}"))
    word = "exact" if inputs["joint_sensitivity_bound"] == "exact" else "an upper bound"
    return (*facts, Fact("joint", joint, f"sensitivity of all participations together, {word}"))


def row_noise(result: Document) -> tuple[Fact, ...]:
    """The noise on the rows that are released, divided by the cohort size."""
    if (std := result["noise_std_per_row"]) is None:
        return ()
    span = f"over the rows; from {round_up(std['min'])} to {round_up(std['max'])}"
    return (Fact("mean noise std", round_up(std["mean"]), span),)


def last_row_error(result: Document) -> tuple[Fact, ...]:
    """The MSE of the last row."""
    if (mse := result["mse_last_row"]) is None:
        return ()
    return (Fact("MSE of last row", round_up(mse["total"]), error_parts_text(mse)),)
