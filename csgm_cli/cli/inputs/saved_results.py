"""``csgm account --from``: recompute a saved result and report the drift."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from csgm_cli.cli import console
from csgm_cli.cli.options.definitions import COHORT, MECHANISM, option
from csgm_cli.cli.options.parameter_types import Choice, Number
from csgm_cli.cli.options.request import Request
from csgm_cli.cli.options.sources import Rank, Source
from csgm_cli.errors import UsageError, shown
from csgm_cli.model.result import Account, Notice
from csgm_cli.storage.files import naming, read_text
from csgm_cli.storage.saved import SavedResult, load_saved
from csgm_cli.version import program_of, why_moved

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Mechanism

#: Relative difference above which a recomputed number is not the saved one; the triangle leaves 1e-9 of room.
_TOLERANCE = 2e-9
#: calibrate and plan typically leave up to 1.4e-4 of epsilon unused if the bound comes from a certified grid
#: or from a coarse search over orders (measured for gamma 0.01 to 0.5 and sampling rates 0.001 to 0.1).
_UNUSED = 1e-3
#: Inputs that settle the mechanism, and how many clients there are; those that only led to gamma, ratio or
#: rounds are not asked again.
_KEPT = (
    "mechanism",
    "gamma",
    "norm_ratio",
    "l2_norm",
    "dim",
    "cohort_size",
    "rounds",
    "sampling_rate",
    "client_sampling",
    "population_size",
    "training_rounds",
    "factorization",
    "epochs",
    "participations",
    "min_separation",
    "adjacency",
    "accountant",
)
#: norm_ratio is null for the Gaussian mechanism, rounds with a factorization that starts anew.
_OPTIONAL = ("norm_ratio", *COHORT)
#: Inputs that change nothing of the question, but must be what their options may be.
_LEFT = ("value_bits", "max_epsilon", "max_mse_overhead", "max_noise_overhead")
#: The largest column norm of C may be another in the last digits, from one solver to the next.
_SAME_NORM = 1e-8


def with_saved(request: Request) -> Request:
    """Return ``request`` with the question that the saved result of its ``from`` answers.

    Nothing but flags asks another question: accountant, delta or epsilon. The result itself is in the
    place of ``saved``. ``StorageError``: unreadable; ``UsageError``: no result, or a wrong input in it.
    """
    text = read_text(request["from"])
    with naming(request["from"]):
        saved = load_saved(text)
        asked = _inputs(saved)
    if isinstance(asked["factorization"], str):
        from csgm_cli.cli.inputs.factorizations import found_again

        asked["factorization"] = found_again(asked["factorization"], request["from"])
    asked["noise_multiplier"] = saved.noise_multiplier
    if saved.asked_delta:
        asked["epsilon"] = saved.guarantees[0][0]
    else:
        asked["delta"] = tuple(delta for _, delta in saved.guarantees)
    for names in (("accountant",), ("epsilon", "delta")):
        if request.rank(names) == Rank.FLAG:
            for name in names:
                asked.pop(name)
    here = Source(Rank.DEFAULT, f"saved in {request['from']!r}")
    sources = {**request.sources, **dict.fromkeys(asked, here)}
    return Request({**request.values, **asked, "saved": saved}, sources)


def _inputs(saved: SavedResult) -> dict[str, object]:
    """The saved inputs of the mechanism, checked like options."""
    asked: dict[str, object] = dict.fromkeys((*MECHANISM, *COHORT, "epsilon", "delta", "sigma"))
    asked |= {name: _input(name, saved.inputs.get(name)) for name in _KEPT}
    for name in _LEFT:
        if saved.inputs.get(name) is not None:
            _input(name, saved.inputs[name])
    counts_rounds = asked["factorization"] is None or asked["participations"] is not None
    if counts_rounds != (asked["rounds"] is not None):
        raise UsageError("bad-result-file", "its inputs must hold either rounds or a factorization")
    return asked


def drift(request: Request, found: Account) -> tuple[Notice, ...]:
    """Put saved and recomputed numbers on stderr; return notices where they differ by more than rounding."""
    saved: SavedResult = request["saved"]
    if not _is_same_question(saved, request):
        console.note(f"{request['from']}: not the saved question, so no drift is reported")
        return ()
    name = "delta" if saved.asked_delta else "epsilon"
    notices = []
    for (epsilon, delta), guarantee in zip(saved.guarantees, found.guarantees, strict=True):
        before, now = delta if saved.asked_delta else epsilon, getattr(guarantee, name)
        relative = abs(now - before) / max(abs(before), abs(now)) if now != before else 0.0
        program = program_of(saved.csgm_version, saved.numbers_version)
        numbers = f"{name} was {before!r} ({program}), is {now!r}: relative difference {relative:.1e}"
        console.note(f"{request['from']}: {numbers}")
        unused = _UNUSED if now < before and saved.command != "account" else _TOLERANCE
        if relative > unused:
            cause = why_moved(saved.numbers_version)
            notices.append(_drifted(f"{numbers}; {cause}", is_worse=now > before))
    return tuple(notices)


def _drifted(numbers: str, *, is_worse: bool) -> Notice:
    if is_worse:
        return Notice("drift-up", f"THE SAVED GUARANTEE IS NOT PROVEN; this noise proves less: {numbers}")
    return Notice("drift", f"this noise proves more than the saved result says: {numbers}")


def _is_same_question(saved: SavedResult, request: Request) -> bool:
    if request["accountant"] != saved.inputs.get("accountant"):
        return False
    if saved.asked_delta:
        return bool(request["epsilon"] == saved.guarantees[0][0])
    deltas = tuple(delta for _, delta in saved.guarantees)
    return request["epsilon"] is None and request["delta"] == deltas


def check_factorization(saved: SavedResult, mechanism: Mechanism) -> None:
    """Raise ``UsageError`` unless the factorization is still the one that the saved result was about."""
    factors, said = mechanism.factorization, saved.inputs
    if factors is None:
        return
    spec = said.get("factorization")
    if said.get("factorization_sha256") != factors.sha256:
        was = f"SHA-256 {factors.sha256}, not {shown(said.get('factorization_sha256'))}"
        raise UsageError("other-factorization", f"{shown(spec)} has changed: {was}")
    norm = said.get("sensitivity")
    if not isinstance(norm, float | int) or not math.isclose(norm, factors.sensitivity, rel_tol=_SAME_NORM):
        raise UsageError(
            "other-factorization",
            f"{shown(spec)} has sensitivity {factors.sensitivity!r}, the saved result says {shown(norm)}",
        )


def _input(name: str, value: object) -> object:
    if value is None and name in _OPTIONAL:
        return None
    if name == "factorization" and isinstance(value, str):
        return value
    kind = option(name).type
    label = f"{name} in the saved inputs"
    if isinstance(kind, Number) and not isinstance(value, str):
        return kind.read(value, label)
    if isinstance(kind, Choice):
        return kind.read(value, label)
    raise UsageError("bad-result-file", f"{label} must be a number, got {shown(value)}")
