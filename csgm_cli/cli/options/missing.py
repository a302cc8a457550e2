"""Which options a command line lacks, all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from csgm_cli.cli.options.sources import flag_of
from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism_table import has_gamma

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from csgm_cli.cli.options.request import Request

#: Returns the names of the inputs that a request lacks; of alternatives, the shortest.
Need: TypeAlias = "Callable[[Request], list[str]]"


def check_complete(request: Request, needs: Iterable[Need], command: str, examples: Sequence[str]) -> None:
    """Raise one ``UsageError`` (slug ``missing-option``) that names all options where several are missing.

    A single one is left to the code that uses it, whose message has the alternatives.
    """
    flags = [flag_of(name) for name in dict.fromkeys(name for need in needs for name in need(request))]
    if len(flags) > 1 and request["from"] is None and request["preset"] is None:
        *others, last = flags
        message = f"{command} needs {', '.join(others)} and {last}"
        hint = f"for example {examples[0]}; csgm {command} --help"
        raise UsageError("missing-option", message, hint)


def points(request: Request) -> list[str]:
    """What a sweep varies."""
    return [] if request["vary"] else ["vary"]


def target(request: Request) -> list[str]:
    """Epsilon and delta."""
    return [name for name in ("epsilon", "delta") if not _has(request, name)]


def noise_and_question(request: Request) -> list[str]:
    """The noise, and one of delta and epsilon."""
    noise = [] if _has(request, "sigma", "noise_multiplier") else ["sigma"]
    return noise + ([] if _has(request, "delta", "epsilon") else ["delta"])


def target_or_noise(request: Request) -> list[str]:
    """Epsilon and delta, one of which is enough beside the noise."""
    return noise_and_question(request) if _has(request, "sigma", "noise_multiplier") else target(request)


def rate(request: Request) -> list[str]:
    """Gamma, if the mechanism compresses."""
    return [] if not has_gamma(request["mechanism"]) or _has(request, "gamma", "compression") else ["gamma"]


def overhead(request: Request) -> list[str]:
    """An allowed overhead, or the compression to show the cost of."""
    names = ("max_noise_overhead", "max_mse_overhead", "gamma", "compression")
    return [] if _has(request, *names) else [names[0]]


def ratio(request: Request) -> list[str]:
    """The ratio of the clip norms, if the mechanism compresses."""
    sizes = [name for name in ("dim", "cohort_size") if not _has(request, name)]
    if not (has_gamma(request["mechanism"]) and sizes) or _has(request, "norm_ratio", "linf_norm"):
        return []
    return sizes if len(sizes) == 1 else ["norm_ratio"]


def participation(request: Request) -> list[str]:
    """What the number of rounds is computed from, if part of it is given."""
    if _has(request, "factorization", "sampling_rate", "client_sampling"):
        return []
    if not _has(request, "population_size", "training_rounds"):
        return []
    names = ("population_size", "cohort_size", "training_rounds")
    return [name for name in names if not _has(request, name)]


def _has(request: Request, *names: str) -> bool:
    """Return whether any of ``names`` is given or varied."""
    varied = [axis.name for axis in request["vary"] or ()]
    return any(request[name] not in (None, ()) or name in varied for name in names)
