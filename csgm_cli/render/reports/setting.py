"""The facts of a report about mechanism, adjacency, participation and assumptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from csgm_cli.render.reports.parts import Fact, is_factorized
from csgm_cli.rounding import exact

if TYPE_CHECKING:
    from csgm_cli.render.document import Document

_ADJACENCY = {
    "add-remove": "adding or removing one client",
    "replace-one": "replacing one client's vector",
}
_ROUNDS = "releases that one client can influence"
_ONE_ROUND = "one release per client; pass --rounds if a client takes part in more"
_ASSUMPTION = {
    "one-participation-per-round": "one participation per counted round",
    "disjoint-cohorts": "disjoint cohorts in a fixed order",
    "one-participation-per-epoch": "one participation per epoch",
    "masks-bernoulli": "mask bits i.i.d. Bernoulli(gamma)",
}
#: Inputs of the mechanism's line. The ratio may be a long quotient: clipping to a larger one is safe.
_SIZES: dict[str, Callable[[float], str]] = {
    "gamma": exact,
    "norm_ratio": exact,  # a rounded one would not go with the noise
    "l2_norm": exact,
    "linf_norm": exact,  # what to clip at, to be copied
    "dim": exact,
    "cohort_size": exact,
}


def setting(inputs: Document, rows: list[Document]) -> tuple[Fact, ...]:
    """Return the mechanism, adjacency, participation and the assumptions of ``rows``."""
    adjacency = inputs["adjacency"]
    slugs = dict.fromkeys(slug for row in rows for slug in row["assumptions"] or ())
    assumptions = ", ".join(map(setting_word, slugs)) or "-"  # no row may have an answer
    return (
        Fact("mechanism" if inputs.get("mechanism") else "setting", _mechanism(inputs)),
        Fact("adjacency", adjacency, _ADJACENCY.get(adjacency, "")),
        *_participation(inputs),
        Fact("assumptions", assumptions),
    )


def _participation(inputs: Document) -> tuple[Fact, ...]:
    if not is_factorized(inputs):
        return _rounds(inputs["rounds"])
    from csgm_cli.render.reports.factorized_stream import stream_setting

    return stream_setting(inputs)


def _rounds(rounds: int | None) -> tuple[Fact, ...]:
    """The line of the rounds; none where a sweep varies them, or what they are computed from."""
    if rounds is None:
        return ()
    return (Fact("rounds", exact(rounds), _ROUNDS if rounds > 1 else _ONE_ROUND),)


def setting_word(slug: str) -> str:
    """Return an assumption as text shows it."""
    return _ASSUMPTION.get(slug) or slug.replace("-", " ")


def _mechanism(inputs: Document) -> str:
    name = inputs.get("mechanism")
    meaningless = ("norm_ratio", "linf_norm") if name == "gaussian" else ()
    sizes = [
        f"{size.replace('_', ' ')} {shown(inputs[size])}"
        for size, shown in _SIZES.items()
        if size not in meaningless and inputs.get(size) is not None
    ]
    return ", ".join(([name] if name else []) + sizes)
