"""The text report of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING

from csgm_cli.render.reports.parts import Column, Fact, Report, down, table, up
from csgm_cli.render.reports.setting import adjacency_fact, assumptions_facts, setting
from csgm_cli.rounding import exact, round_down, round_up

if TYPE_CHECKING:
    from csgm_cli.render.document import Document


#: Varied inputs in six digits, rounded so that the answer beside them still holds; others are shown in full.
_SHORTENED = {
    **dict.fromkeys(("gamma", "linf_norm"), round_down),
    **dict.fromkeys(("compression", "norm_ratio", "epsilon", "delta", "noise_multiplier", "sigma"), round_up),
}


def sweep_report(inputs: Document, result: Document) -> Report:
    """Return the table of points and the facts common to all."""
    rows = result["rows"]
    given_noise = any(inputs.get(name) is not None for name in ("noise_multiplier", "sigma"))
    several = [key for key in ("mechanism", "accountant") if len({row[key] for row in rows}) > 1]
    columns: list[Column] = [
        *((key, itemgetter(key)) for key in several),
        *((name.replace("_", " "), _input_cell(name)) for name in inputs["vary"]),
    ]
    answers: list[Column] = [
        ("noise mult.", lambda row: up(row["noise_multiplier"])),
        ("effective", lambda row: up(row["effective_noise_multiplier"])),
        ("MSE ratio", lambda row: up((row["mse"] or {}).get("ratio"))),
    ]
    privacy: list[Column] = [
        (name, _privacy_cell(name)) for name in ("epsilon", "delta") if name not in inputs["vary"]
    ]
    tail: list[Column] = [
        ("bits/client", lambda row: up(row["bits_per_client"])),
        ("lower bound", lambda row: down(row["lower_bound"])),
        ("bound", itemgetter("bound")),
        ("error", lambda row: row["error"] and row["error"]["slug"]),
    ]
    columns += (privacy if given_noise else answers) + tail
    fixed = {name: None if isinstance(value, list) else value for name, value in inputs.items()}
    mechanism = None if "mechanism" in several else inputs["mechanism"]
    shown = {**fixed, "vary": inputs["vary"], "mechanism": mechanism}
    asked = (*_target(fixed), *_noise_asked(fixed), Fact("accountant", inputs["accountant"]))
    facts = (*asked, adjacency_fact(inputs), *setting(shown), *assumptions_facts(rows))
    return Report(table=table(columns, rows), facts=facts)


def _input_cell(name: str) -> Callable[[Document], str | None]:
    def cell(row: Document) -> str | None:
        value = row.get("target_epsilon", row.get(name)) if name == "epsilon" else row[name]
        return None if value is None else _SHORTENED.get(name, exact)(value)

    return cell


def _privacy_cell(name: str) -> Callable[[Document], str | None]:
    return lambda row: up(row[name])


def _target(fixed: Document) -> tuple[Fact, ...]:
    target = [f"{name} {exact(fixed[name])}" for name in ("epsilon", "delta") if fixed[name] is not None]
    return (Fact("target", ", ".join(target)),) if target else ()


def _noise_asked(fixed: Document) -> tuple[Fact, ...]:
    names = [name for name in ("noise_multiplier", "sigma") if fixed[name] is not None]
    return tuple(Fact(name.replace("_", " "), exact(fixed[name])) for name in names)
