"""``csgm account --from``: a saved result asked again, and how far the answer has drifted."""

from __future__ import annotations

from csgm_cli.cli import console
from csgm_cli.cli.options import COHORT, MECHANISM, option
from csgm_cli.cli.params import Choice, Number
from csgm_cli.cli.request import Request
from csgm_cli.errors import UsageError, shown
from csgm_cli.model import Guarantee, Notice
from csgm_cli.storage.files import read_text
from csgm_cli.storage.saved import SavedResult, load_saved

#: Relative difference above which a recomputed number is not the saved one.
_TOLERANCE = 1e-9
#: Inputs that settle the mechanism; those that only led to gamma, ratio or rounds are not asked again.
_KEPT = (
    "mechanism",
    "gamma",
    "norm_ratio",
    "l2_norm",
    "dim",
    "cohort_size",
    "rounds",
    "adjacency",
    "accountant",
)
_OPTIONAL = ("norm_ratio", "dim", "cohort_size")  # norm_ratio: null for the Gaussian mechanism


def load(path: str) -> SavedResult:
    """Read a saved result: ``StorageError`` where it cannot be read, ``UsageError`` where it is none."""
    return load_saved(read_text(path))


def request_from(saved: SavedResult, request: Request) -> Request:
    """Return ``request`` with the question that ``saved`` answers; ``UsageError`` for a wrong input in it."""
    asked: dict[str, object] = dict.fromkeys((*MECHANISM, *COHORT, "epsilon", "delta", "sigma"))
    asked |= {name: _input(name, saved.inputs.get(name)) for name in _KEPT}
    asked["noise_multiplier"] = saved.noise_multiplier
    if _asked_delta(saved):
        asked["epsilon"] = saved.epsilon
    else:
        asked["delta"] = (saved.delta,)
    return Request({**request.values, **asked}, request.sources)


def drift(saved: SavedResult, found: Guarantee, request: Request) -> tuple[Notice, ...]:
    """Put saved and recomputed number on stderr; return a notice where they differ by more than 1e-9."""
    name = "delta" if _asked_delta(saved) else "epsilon"
    before, now = getattr(saved, name), getattr(found, name)
    relative = abs(now - before) / max(abs(before), abs(now)) if now != before else 0.0
    numbers = (
        f"{name} was {before!r} (csgm {saved.csgm_version}), is {now!r}: relative difference {relative:.1e}"
    )
    console.note(f"{request['from']}: {numbers}")
    return () if relative <= _TOLERANCE else (Notice("drift", f"the saved result has drifted: {numbers}"),)


def _asked_delta(saved: SavedResult) -> bool:
    return saved.command == "account" and saved.inputs.get("epsilon") is not None


def _input(name: str, value: object) -> object:
    if value is None and name in _OPTIONAL:
        return None
    kind = option(name).type
    label = f"{name} in the saved inputs"
    if isinstance(kind, Number) and not isinstance(value, str):
        return kind.read(value, label)
    if isinstance(kind, Choice):
        return kind.read(value, label)
    raise UsageError("bad-result-file", f"{label} must be a number, got {shown(value)}")
