"""The resolved options of a command: flags, environment, config file and defaults combined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from csgm_cli.cli.options.sources import Rank, Source, flag_of, source_of
from csgm_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import click


@dataclass(frozen=True)
class Exclusive:
    """Two sides of which one may be used; the one from the stronger source wins.

    From equal sources they are an error, unless ``may_agree``: then both go on to be compared; or, from
    sources weaker than a flag, ``left_by_default``. ``checks`` are those of the left that nothing but a
    flag sets aside. ``hint`` may quote ``{values}`` of the left by their names. ``sampled``: they exclude
    each other only with client sampling (True) or without it (False).
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    may_agree: bool = False
    left_by_default: bool = False
    hint: str = "pass one of them"
    checks: tuple[str, ...] = ()
    sampled: bool | None = None


#: How to count with a factorization.
COUNTED_BY_EPOCHS = (
    "with a factorization, pass --epochs = training rounds / T, rounded up; a client takes part in at most"
    " one step of each epoch (--population-size and --cohort-size check that T is small enough); if clients"
    " take part several times within the T steps, pass --participations and --min-separation"
)
#: Holds wherever a command has the options.
EXCLUSIVES = (
    Exclusive(("gamma",), ("compression",)),
    Exclusive(("norm_ratio",), ("linf_norm",), may_agree=True),
    Exclusive(
        ("sampling_rate", "client_sampling"),
        ("factorization", "epochs", "participations", "min_separation"),
        sampled=True,
        hint="there is no amplification by client sampling with correlated noise: a client takes part in at"
        " most one step of each epoch (--epochs)",
    ),
    Exclusive(
        ("sampling_rate", "client_sampling"),
        ("training_rounds",),
        sampled=True,
        hint="--training-rounds is for disjoint cohorts in a fixed order; for cohorts drawn at random, pass"
        " --rounds = all training rounds",
    ),
    Exclusive(
        ("rounds",),
        ("population_size", "training_rounds"),
        sampled=False,
        hint="was --training-rounds {rounds} meant? --population-size computes the --rounds of one client; if"
        " each client takes part independently with the same probability, add --client-sampling poisson",
    ),
    Exclusive(("factorization", "epochs"), ("training_rounds",), hint=COUNTED_BY_EPOCHS),
    Exclusive(("epochs",), ("rounds",), hint=COUNTED_BY_EPOCHS),
    Exclusive(("factorization", "participations", "min_separation"), ("rounds",), may_agree=True),
    Exclusive(("noise_multiplier",), ("sigma",)),
    Exclusive(("max_mse_overhead",), ("max_noise_overhead",)),
    Exclusive(("value",), ("format",)),
)


@dataclass(frozen=True)
class Request:
    """Values of a command's options by name (None where not given) and the source of each."""

    values: Mapping[str, Any]
    sources: Mapping[str, Source]

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - every option has a type of its own
        """Return the value of an option; None where it is not given or the command lacks it."""
        return self.values.get(name)

    def rank(self, names: Iterable[str]) -> Rank:
        """Return the strongest source of ``names``; DEFAULT where none was given."""
        return max((self.sources[name].rank for name in self.given(names)), default=Rank.DEFAULT)

    def given(self, names: Iterable[str]) -> Iterator[str]:
        """Yield those of ``names`` that the caller gave."""
        for name in names:
            value = self[name]
            absent = value is None or value is False or value == ()  # not ==: an epsilon of 0 is given
            if not absent and self.sources[name].rank > Rank.DEFAULT:
                yield name

    def without(self, names: Iterable[str]) -> Request:
        """Return the request as if ``names`` had not been given."""
        dropped = dict.fromkeys(name for name in names if name in self.values)
        return Request({**self.values, **dropped}, self.sources)

    def label(self, names: Iterable[str]) -> str:
        """Return how messages call the first of ``names`` that was given."""
        return next((self.sources[name].label for name in self.given(names)), flag_of(next(iter(names))))


def is_sampled(request: Request) -> bool:
    """Say whether the sampling rate is below 1, in a sweep at one point at least, or comes from sizes."""
    varied = [axis.values for axis in request["vary"] or () if axis.name == "sampling_rate"]
    rates = varied[0] if varied else (request["sampling_rate"],)
    return request["client_sampling"] is not None or any(rate is not None and rate < 1.0 for rate in rates)


def request_of(ctx: click.Context, exclusives: Iterable[Exclusive]) -> Request:
    """Return what was parsed into ``ctx``, with weaker alternatives dropped.

    ``UsageError`` (slug ``conflicting-options``) where alternatives come from equally strong sources.
    """
    sources = {param.name: source_of(ctx, param) for param in ctx.command.params if param.name}
    return settled(Request(ctx.params, sources), exclusives)


def settled(request: Request, exclusives: Iterable[Exclusive]) -> Request:
    """Return ``request`` with the weaker of each two alternatives dropped; errors as in `request_of`."""
    for exclusive in exclusives:
        request = _settle(request, exclusive)
    return request


def _settle(request: Request, exclusive: Exclusive) -> Request:
    if exclusive.sampled not in (None, is_sampled(request)):
        return request
    left, right = request.rank(exclusive.left), request.rank(exclusive.right)
    if left < right < Rank.FLAG and list(request.given(exclusive.checks)):
        return request.without(exclusive.right)
    if left != right:  # a default, too, must not stand beside the alternative that was given
        return request.without(exclusive.left if left < right else exclusive.right)
    if left == Rank.DEFAULT or exclusive.may_agree:
        return request
    if exclusive.left_by_default and left < Rank.FLAG:
        return request.without(exclusive.right)
    names = f"{request.label(exclusive.left)} and {request.label(exclusive.right)}"
    raise UsageError(
        "conflicting-options", f"{names} exclude each other", exclusive.hint.format_map(request.values)
    )
