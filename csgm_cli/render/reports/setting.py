"""The facts of a report about mechanism, adjacency, participation and assumptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.model.mechanism_table import has_gamma
from csgm_cli.render.reports.parts import Fact, is_factorized
from csgm_cli.rounding import exact

if TYPE_CHECKING:
    from csgm_cli.render.document import Document

#: The neighbouring relation in words.
ADJACENCY = {
    "add-remove": "adding or removing one client",
    "replace-one": "replacing one client's vector",
}
_ROUNDS = "releases that one client can influence"
_ONE_ROUND = "release that one client can influence"
#: The notes of rounds with a sampling rate, and of the rate.
_ALL_ROUNDS = "all training rounds"
_RATE = "probability that a client takes part in a round"
_ASSUMPTION = {
    "clipping-enforced": "clipped vectors",
    "disjoint-cohorts": "disjoint cohorts in a fixed order",
    "masks-secret": "secret masks",
    "masks-bernoulli": "i.i.d. bits",
}
_OF_PARTICIPATION = {
    "bounded-participations": "at most as often as stated",
    "min-separation": "as far apart as stated",
    "fixed-order": "in a fixed order",
    "masks-fresh": "new masks",
    "participation-poisson": "independent in each round",
    "participation-secret": "secret",
    "fixed-denominator": "fixed denominator",
}
#: That a client takes part once in each counted round or epoch is stated beside their number.
_STATED_ELSEWHERE = {"one-participation-per-round", "one-participation-per-epoch"}


def setting(inputs: Document) -> tuple[Fact, ...]:
    """Return the mechanism, its clip norms and sizes, and the participation."""
    name, gamma = inputs.get("mechanism"), None
    if has_gamma(name):
        gamma = inputs.get("gamma")
    words = [*([name] if name else []), *([] if gamma is None else [f"gamma {exact(gamma)}"])]
    sizes = [_sized(inputs, size) for size in ("dim", "cohort_size") if inputs.get(size) is not None]
    shown = {"mechanism": ", ".join(words), "clip norms": _clip_norms(inputs), "sizes": ", ".join(sizes)}
    return (*(Fact(label, text) for label, text in shown.items() if text), *_participation(inputs))


def _clip_norms(inputs: Document) -> str:
    """What to clip at, in full: a rounded ratio would not go with the noise."""
    norms = (
        {"L2": "l2_norm", "L-inf": "linf_norm"} if has_gamma(inputs.get("mechanism")) else {"L2": "l2_norm"}
    )
    known = [f"{norm} {exact(inputs[key])}" for norm, key in norms.items() if inputs.get(key) is not None]
    if has_gamma(inputs.get("mechanism")) and inputs.get("norm_ratio") is not None:
        known.append(f"ratio {exact(inputs['norm_ratio'])}")
    return ", ".join(known)


def _sized(inputs: Document, size: str) -> str:
    return f"{size.replace('_', ' ')} {exact(inputs[size])}"


def adjacency_fact(inputs: Document) -> Fact:
    """Return the neighbouring relation."""
    return Fact("adjacency", inputs["adjacency"], ADJACENCY[inputs["adjacency"]])


def assumptions_facts(rows: list[Document]) -> tuple[Fact, ...]:
    """Return what the answers of ``rows`` assume; of who takes part when, on a line of its own."""
    slugs = dict.fromkeys(slug for row in rows for slug in row["assumptions"] or ())
    words = [setting_word(slug) for slug in slugs if slug not in {*_STATED_ELSEWHERE, *_OF_PARTICIPATION}]
    facts = [Fact("assumes", ", ".join(words) or "-")]  # no row may have an answer
    if words := [word for slug, word in _OF_PARTICIPATION.items() if slug in slugs]:
        facts.append(Fact("participation", ", ".join(words)))
    return tuple(facts)


def _participation(inputs: Document) -> tuple[Fact, ...]:
    if not is_factorized(inputs):
        return _rounds(inputs["rounds"], inputs["sampling_rate"])
    from csgm_cli.render.reports.factorized_stream import stream_setting

    return stream_setting(inputs)


def _rounds(rounds: int | None, rate: float | None) -> tuple[Fact, ...]:
    """The lines of the rounds and the sampling rate; none for what a sweep varies or derives."""
    facts = []
    if rounds is not None:
        unsampled = _ROUNDS if rounds > 1 else _ONE_ROUND
        facts.append(Fact("rounds", exact(rounds), unsampled if rate == 1.0 else _ALL_ROUNDS))
    if rate is not None and rate < 1.0:
        facts.append(Fact("sampling rate", exact(rate), _RATE))
    return tuple(facts)


def setting_word(slug: str) -> str:
    """Return an assumption as text shows it."""
    return _ASSUMPTION.get(slug) or slug.replace("-", " ")
