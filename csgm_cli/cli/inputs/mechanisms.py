"""Turn a request into model objects, and into the ``inputs`` of a result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from csgm_cli.cli.options.request import COUNTED_BY_EPOCHS, Request, is_sampled
from csgm_cli.cli.options.sources import Rank, Source, flag_of
from csgm_cli.errors import UsageError
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism
from csgm_cli.model.mechanism_table import MECHANISMS, Geometry, MechanismName, has_gamma
from csgm_cli.model.result import Notice, one_round_notice
from csgm_cli.ranges import FORMER_NAMES, LARGE_DELTA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from csgm_cli.cli.inputs.factorizations import Asked
    from csgm_cli.model.mechanism import FactorNorms

Notices = tuple[Notice, ...]

#: The order of ``inputs`` in every document; a command has those of its own options.
_INPUTS = (
    "mechanism", "epsilon", "delta", "gamma", "compression", "norm_ratio", "linf_norm", "l2_norm", "dim",
    "cohort_size", "rounds", "sampling_rate", "client_sampling", "population_size", "population",
    "training_rounds", "factorization", "epochs", "participations", "min_separation", "adjacency",
    "accountant", "verify", "value_bits",
    "noise_multiplier", "effective_noise_multiplier", "sigma", "max_epsilon", "at_equal_mse", "with",
    "max_mse_overhead", "max_noise_overhead", "vary", "preset", "file", "T", "workload", "objective",
    "strategy", "bands", "tolerance", "arrays", "dtype", "sensitivity", "fixed_order", "joint_sensitivity",
    "joint_sensitivity_bound", "release_sensitivity", "factorization_sha256",
)  # fmt: skip
_RATE, _RATIO = ("gamma", "compression"), ("norm_ratio", "linf_norm")
#: The two ways to say the noise.
NOISE = ("noise_multiplier", "sigma")
#: What rounds are computed from, in place of being given.
_PARTICIPATION = ("population_size", "training_rounds", "cohort_size")
#: What a file of a factorization may say itself.
_REPEATED = ("participations", "min_separation")


def build_mechanism(request: Request) -> tuple[Mechanism, Notices]:
    """Return the mechanism, and notices about inputs that were derived or capped."""
    name = MechanismName(request["mechanism"])
    gamma = build_gamma(request, name)
    geometry, geometry_notices = build_geometry(request, needs_ratio=MECHANISMS[name].clips_linf)
    took_part, notices = build_participation(request)
    mechanism = Mechanism(
        name,
        gamma,
        geometry,
        took_part.rounds,
        Adjacency(request["adjacency"]),
        took_part.factorization,
        took_part.epochs,
        took_part.disjoint_cohorts,
        took_part.sampling_rate,
    )
    return mechanism, (*geometry_notices, *notices)


def one_round(request: Request, prefix: str = "--") -> Notices:
    """Return a warning if the number of rounds, or of epochs of a factorization, was left at 1 by default.

    ``prefix``: of option names where the request was written, ``--`` on the command line.
    """
    name, sources = "rounds", ["rounds", "training_rounds", "preset"]
    if request["factorization"] is not None:
        name, sources = "epochs", ["epochs", *_REPEATED]
    if list(request.given(sources)) or _repeats(request):
        return ()
    return (one_round_notice(name, " 1" if prefix else " = 1", prefix),)


def build_geometry(request: Request, *, needs_ratio: bool = True) -> tuple[Geometry, Notices]:
    """Return the geometry of the clipped vectors; the Gaussian mechanism needs no norm ratio."""
    common = {name: request[name] for name in ("l2_norm", "dim", "cohort_size")}
    if not needs_ratio:
        return Geometry(**common), ()
    from csgm_cli.model.geometry import resolve_geometry

    return resolve_geometry(norm_ratio=request["norm_ratio"], linf_norm=request["linf_norm"], **common)


@dataclass(frozen=True)
class Participation:
    """How often one client takes part: in so many rounds, or steps, or once in each epoch of a factorization.

    ``disjoint_cohorts``: the rounds come from cohorts that take turns in a fixed order. ``sampling_rate``:
    the probability of taking part in each of the rounds.
    """

    rounds: int = 1
    factorization: FactorNorms | None = None
    epochs: int | None = None
    disjoint_cohorts: bool = False
    sampling_rate: float = 1.0


def build_participation(request: Request) -> tuple[Participation, Notices]:
    """Return how often one client takes part, and in what."""
    spec, epochs = request["factorization"], request["epochs"]
    if spec is not None:
        asked = asked_factorization(request)
        _check_rounds(request, asked.norms)
        _check_epoch(request, asked.norms)
        counted = 1 if epochs is None else epochs
        return Participation(asked.norms.participations, asked.norms, counted), asked.notices
    if list(request.given(["epochs", *_REPEATED])):
        label = request.label(["epochs", *_REPEATED])
        raise UsageError("missing-option", f"{label} needs --factorization", "without one: --rounds")
    if is_sampled(request):
        rate, notices = _sampling_rate(request)
        return Participation(_training_rounds(request), sampling_rate=rate), notices
    rounds, notices = _rounds(request)
    scheduled = all(request[name] is not None for name in _PARTICIPATION)
    return Participation(rounds, disjoint_cohorts=scheduled), notices


def asked_factorization(request: Request) -> Asked:
    """Return the factorization of the request, and how often a client takes part in it."""
    from csgm_cli.cli.inputs.factorizations import load_factorization

    label = request.label(["factorization"])
    return load_factorization(request["factorization"], label, *(request[name] for name in _REPEATED))


def _repeats(request: Request) -> bool:
    """Whether clients take part several times within the T steps of the requested factorization."""
    return request["factorization"] is not None and asked_factorization(request).norms.repeated is not None


def _check_rounds(request: Request, factors: FactorNorms) -> None:
    """Check that rounds, if given, equal the participations of a client in one run."""
    if not list(request.given(["rounds"])):
        return
    names = f"{request.label(['factorization'])} and {request.label(['rounds'])}"
    if factors.repeated is None:
        raise UsageError("conflicting-options", f"{names} exclude each other", COUNTED_BY_EPOCHS)
    if request["rounds"] != factors.participations:
        message = f"{names} {request['rounds']} disagree: a client takes part {factors.participations} times"
        raise UsageError("conflicting-options", message, "leave --rounds out")


def _sampling_rate(request: Request) -> tuple[float, Notices]:
    """Return the sampling rate, as given or of the expected cohort size; errors where they disagree."""
    from csgm_cli.model.geometry import check_rate, rate_from_population

    rate, sizes = request["sampling_rate"], (request["population_size"], request["cohort_size"])
    if None in sizes:
        if rate is None:
            message = f"{request.label(['client_sampling'])} needs --population-size and --cohort-size"
            raise UsageError("missing-option", message, "or pass --sampling-rate")
        return rate, ()
    if rate is not None:
        check_rate(rate, *sizes)
    if request["client_sampling"] is None:
        return rate, ()
    found, notice = rate_from_population(*sizes)
    return found if rate is None else rate, (notice,)


def _training_rounds(request: Request) -> int:
    """Return all training rounds, which client sampling needs: the default of one would be a guess."""
    if request["from"] is None and not list(request.given(["rounds"])):
        label = request.label(["sampling_rate", "client_sampling"])
        raise UsageError(
            "sampling-needs-rounds", f"{label} needs --rounds", "pass --rounds = all training rounds"
        )
    return int(request["rounds"])


def _check_epoch(request: Request, factors: FactorNorms) -> None:
    """Check that a known number of clients suffices for the disjoint cohorts between two participations."""
    if request["population_size"] is None:
        return
    if request["cohort_size"] is None:
        label = request.label(["population_size"])
        raise UsageError("missing-option", f"{label} needs --cohort-size too")
    from csgm_cli.model.geometry import check_epoch, check_fixed_order, check_separation

    sizes = request["population_size"], request["cohort_size"]
    if factors.repeated is None:
        check_epoch(factors.T, *sizes)
    elif factors.participations > 1:
        check_separation(factors.repeated.min_separation, *sizes)
        if factors.repeated.fixed_order:
            check_fixed_order(factors.repeated.min_separation, *sizes)


def _rounds(request: Request) -> tuple[int, Notices]:
    names = ("population_size", "training_rounds")
    if not list(request.given(names)):
        return request["rounds"], ()
    for name in _PARTICIPATION:
        if request[name] is None:
            raise UsageError("missing-option", f"{request.label(names)} needs {flag_of(name)} too")
    from csgm_cli.model.geometry import rounds_from_participation

    rounds, notice = rounds_from_participation(
        request["population_size"], request["cohort_size"], request["training_rounds"]
    )
    return rounds, (notice,)


def with_derived(request: Request) -> Request:
    """Return ``request`` with what its other inputs settle: rounds of participation, nothing unused."""
    values, sources = dict(request.values), dict(request.sources)
    unused = [axis.name for axis in request["vary"] or ()]  # varied, so that one value does not count
    if not has_gamma(request["mechanism"]) and "mechanism" not in unused:
        unused += [*_RATIO, *(_RATE if _is_for_others(request) else ())]
    values |= dict.fromkeys(name for name in unused if name in values)
    if all(values.get(name) is not None for name in _PARTICIPATION):
        values["rounds"] = _rounds(request)[0]
        sources["rounds"] = Source(Rank.DEFAULT, "from population_size, training_rounds and cohort_size")
    if is_sampled(request) and request["sampling_rate"] is None:
        values["sampling_rate"] = _sampling_rate(request)[0]
        sources["sampling_rate"] = Source(Rank.DEFAULT, "from population_size and cohort_size")
    return Request(values, sources)


def _is_for_others(request: Request) -> bool:
    """Drop a gamma from a weaker source than a mechanism that has none."""
    return request.rank(_RATE) < request.rank(("mechanism",))


def build_gamma(request: Request, name: MechanismName) -> float:
    """Return the probability that a coordinate is sent; ``UsageError`` where nothing says it."""
    if not has_gamma(name) and _is_for_others(request):
        return 1.0
    if request["compression"] is not None:
        return 1.0 / float(request["compression"])
    if request["gamma"] is not None:
        return float(request["gamma"])
    if not has_gamma(name):
        return 1.0
    raise UsageError(
        "missing-option", f"{name.value} needs --gamma or --compression", "for example --gamma 0.01"
    )


def build_noise(request: Request, l2_norm: float) -> tuple[float, float] | None:
    """Return the noise multiplier and sigma, of which one was given; None where neither was."""
    if request["sigma"] is not None:
        return request["sigma"] / l2_norm, request["sigma"]
    if request["noise_multiplier"] is not None:
        return request["noise_multiplier"], request["noise_multiplier"] * l2_norm
    return None


def delta_notices(request: Request, deltas: Iterable[float]) -> Notices:
    """Return a warning where a delta is at least 1 / number of clients, which allows publishing one's vector.

    With an unknown number of clients, where a delta is above `LARGE_DELTA`.
    """
    name = "cohort_size" if request["population_size"] is None else "population_size"
    clients = request[name]
    worst = max(deltas)
    if worst <= LARGE_DELTA if clients is None else worst * clients < 1.0:
        return ()
    from csgm_cli.rounding import exact, round_up

    is_answer = request["epsilon"] is not None and not request["delta"]
    advice = "add noise or allow a larger epsilon" if is_answer else "choose a smaller one"
    if clients is None:
        what = "is large; it should be well below 1 / number of clients"
    else:
        what = f"is at least 1 / {name} = {1 / clients:g}, and a mechanism that publishes a random client's"
        what += f" vector has delta 1 / {name}"
    delta = round_up(worst) if is_answer else exact(worst)
    return (Notice("delta-large", f"delta {delta} {what}: {advice}"),)


def common_arguments(request: Request, took_part: Participation) -> dict[str, Any]:
    """Return the arguments that compare and plan of the core have in common, by keyword."""
    return {
        "rounds": took_part.rounds,
        "adjacency": Adjacency(request["adjacency"]),
        "accountant": Accountant(request["accountant"]),
        "verify": request["verify"],
        "value_bits": request["value_bits"],
        "factorization": took_part.factorization,
        "epochs": took_part.epochs,
        "disjoint_cohorts": took_part.disjoint_cohorts,
        "sampling_rate": took_part.sampling_rate,
    }


def resolved(request: Request, mechanism: Mechanism) -> dict[str, Any]:
    """Return the inputs that ``mechanism`` settles."""
    took_part = Participation(
        mechanism.releases,
        mechanism.factorization,
        mechanism.epochs,
        sampling_rate=mechanism.sampling_rate,
    )
    sizes = resolved_sizes(request, mechanism.geometry, took_part)
    if not mechanism.kind.clips_linf:
        sizes |= {"norm_ratio": None, "linf_norm": None}
    compression = _as_given(request["compression"], 1.0 / mechanism.gamma)
    return {"gamma": mechanism.gamma, "compression": compression, **sizes}


def resolved_sizes(request: Request, geometry: Geometry, took_part: Participation) -> dict[str, Any]:
    """Return the inputs that ``geometry`` and participation settle."""
    linf_norm = _as_given(request["linf_norm"], geometry.linf_norm)
    sizes = {"norm_ratio": geometry.norm_ratio, "linf_norm": linf_norm}
    sizes["sampling_rate"] = took_part.sampling_rate
    factors = took_part.factorization
    if factors is None:
        return {**sizes, "rounds": took_part.rounds}
    words = {name: getattr(factors, name) for name in ("T", "workload", "strategy", "sensitivity")}
    return {
        **sizes,
        **words,
        "rounds": None if factors.repeated is None else took_part.rounds,
        "epochs": took_part.epochs,
        **({} if factors.repeated is None else factors.repeated.named),
        "factorization_sha256": factors.sha256,
    }


def _as_given(given: float | None, derived: float) -> float:
    """Return the number that was ``given``, unless it says something else than the ``derived`` one."""
    return given if given is not None and math.isclose(given, derived, rel_tol=1e-12) else derived


def inputs(request: Request, **settled: object) -> dict[str, object]:
    """Return every input of the command in a fixed order: as ``settled``, else as given.

    A repeated option that was given once is one number. An input has its former name, too.
    """
    given = {**request.values, **settled}
    given |= {former: given[name] for former, name in FORMER_NAMES.items() if name in given}
    values = {name: given[name] for name in _INPUTS if name in given}
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else list(value) or None
    return value
