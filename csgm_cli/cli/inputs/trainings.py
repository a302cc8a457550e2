"""What ``csgm simulate train`` runs: data, model, and the calibrated plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from csgm_cli.cli.inputs.mechanisms import build_mechanism, delta_notices
from csgm_cli.cli.inputs.simulations import factors_of, plan_inputs, wire_format
from csgm_cli.cli.options.request import Request, is_sampled
from csgm_cli.cli.options.training_types import MODEL, PARTITION
from csgm_cli.errors import UsageError
from csgm_cli.model.geometry import rounds_from_participation
from csgm_cli.model.mechanism import Accountant, Target
from csgm_cli.model.mechanism_table import has_gamma
from csgm_cli.model.result import Notice
from csgm_cli.storage.memory import check_memory

if TYPE_CHECKING:
    from csgm_cli.mechanism.plan import Plan, Rotation
    from csgm_cli.model.result import Calibration
    from csgm_cli.model.simulation import TrainingCost
    from csgm_cli.simulation.datasets import Dataset
    from csgm_cli.simulation.networks import Network
    from csgm_cli.simulation.training import Training

#: Inputs that a record has as they were asked for.
_ASKED = (
    "data", "partition", "model", "local_steps", "learning_rate", "momentum", "rotation", "wire", "seed",
    "epsilon", "delta", "adjacency", "population_size", "training_rounds", "factorization",
)  # fmt: skip
#: With these the synthetic set is trained to 85 % in seconds, and compression costs next to nothing.
_EPSILON, _DELTA, _GAMMA = 8.0, 1e-5, 0.05
_POPULATION, _COHORT, _ROUNDS = 600, 200, 30
#: Parameters, updates, gradients and transforms of one client, in single and double precision.
_BYTES_PER_PARAMETER = 120
#: Slugs of notices about what is done here as it should be.
_SETTLED = ("rounds-from-participation", "rate-from-population")
#: A mean update has at most the L2 clip norm: with more noise than that a round says little.
_DOMINATES = 1.0


@dataclass(frozen=True)
class AskedTraining:
    """A training to be run, its calibration, what that costs, and notices about it."""

    training: Training
    calibration: Calibration
    cost: TrainingCost
    notices: tuple[Notice, ...]


def with_training_defaults(request: Request) -> Request:
    """Return ``request`` with the target, the cohorts and the rounds of a small training, where not given."""
    compresses = has_gamma(request["mechanism"])
    defaults: dict[str, Any] = {"epsilon": _EPSILON, "delta": _DELTA, "population_size": _POPULATION}
    if compresses and request["compression"] is None:
        defaults["gamma"] = _GAMMA
    values = {**request.values, **{name: value for name, value in defaults.items() if request[name] is None}}
    if not compresses and not list(request.given(["rotation"])):
        values["rotation"] = "none"  # without an L-inf clip a rotation would only pad the vectors
    if values["cohort_size"] is None and request["client_sampling"] is None:
        values["cohort_size"] = _default_cohort(request, values["population_size"])
    if request["factorization"] is None and not is_sampled(request):
        if list(request.given(["rounds"])):
            message = f"{request.label(['rounds'])} is for --sampling-rate here"
            raise UsageError("conflicting-options", message, "pass --training-rounds = all rounds")
        values["training_rounds"] = request["training_rounds"] or _ROUNDS
        sizes = (values[name] for name in ("population_size", "cohort_size", "training_rounds"))
        values["rounds"] = rounds_from_participation(*sizes)[0]
    return Request(values, request.sources)


def _default_cohort(request: Request, population: int) -> int:
    if request["sampling_rate"] is not None and request["sampling_rate"] < 1.0:
        return max(1, round(float(request["sampling_rate"]) * population))
    if request["factorization"] is None:
        return min(_COHORT, population)
    from csgm_cli.cli.inputs.factorizations import load_factorization

    rows: int = load_factorization(request["factorization"], request.label(["factorization"])).norms.T
    return max(1, min(_COHORT, population // rows))


def build_training(request: Request) -> AskedTraining:
    """Return the training, with data read or made, partitioned, and the noise calibrated."""
    from csgm_cli.jobs.calibrate import calibrate
    from csgm_cli.mechanism.plan import Rotation, plan_of
    from csgm_cli.simulation.datasets import partition
    from csgm_cli.simulation.training import Optimizer, Training
    from csgm_cli.simulation.training_cost import training_cost

    rotation, seed = Rotation(request["rotation"]), request["seed"]
    dataset = _dataset(request)
    network = _network(request, dataset)
    mechanism, notices = build_mechanism(_sized(request, _dim(rotation, network)))
    concentration = PARTITION.read(request["partition"], "--partition")
    clients = partition(dataset.labels, request["population_size"], concentration, seed)
    target = Target(request["epsilon"], request["delta"])
    calibration = calibrate(mechanism, target, Accountant(request["accountant"]))
    plan = plan_of(calibration, rotation, wire_format(request))
    factors = None if mechanism.factorization is None else factors_of(request["factorization"], plan)
    optimizer = Optimizer(*(request[name] for name in ("local_steps", "learning_rate", "momentum")))
    rows = 1 if mechanism.factorization is None else mechanism.factorization.T
    rounds = request["training_rounds"] or mechanism.releases * rows
    training = Training(plan, network, dataset, clients, rounds, optimizer, seed, factors)
    cost = training_cost(calibration, plan, network.dim)
    settled = () if rotation is Rotation.NONE else ("rotation-rule",)
    notices = tuple(notice for notice in notices if notice.slug not in (*_SETTLED, *settled))
    notices += (*delta_notices(request, [request["delta"]]), *calibration.notices)
    return AskedTraining(training, calibration, cost, (*_dominated(cost), *notices))


def training_inputs(request: Request, plan: Plan) -> dict[str, Any]:
    """Return what a training has run, as ``inputs`` of its record."""
    mechanism = plan.mechanism
    counted = {"rounds": mechanism.rounds, "epochs": mechanism.epochs}
    found = {**{name: request[name] for name in _ASKED}, **plan_inputs(plan), **counted}
    del found["sigma"]  # an answer
    return found


def _dataset(request: Request) -> Dataset:
    from csgm_cli.simulation.datasets import Dataset, synthetic_dataset

    if request["data"] is None:
        return synthetic_dataset(request["seed"])
    from csgm_cli.storage.arrays.labelled import NAMES, read_labelled

    arrays = read_labelled(request["data"])
    return Dataset(request["data"], *(arrays[name] for name in NAMES))


def _network(request: Request, dataset: Dataset) -> Network:
    from csgm_cli.simulation.networks import Network

    hidden = MODEL.read(request["model"], "--model")
    inner = () if hidden is None else (int(hidden),)
    network = Network((dataset.features.shape[1], *inner, dataset.classes))
    check_memory(_BYTES_PER_PARAMETER * network.dim, f"a model with {network.dim:,} parameters needs")
    return network


def _dim(rotation: Rotation, network: Network) -> int:
    """The length of the vectors of clients: all coordinates that the rotation makes may be at the clip."""
    from csgm_cli.mechanism.plan import Rotation, rotated_length

    return network.dim if rotation is Rotation.KASHIN else rotated_length(rotation, network.dim)


def _sized(request: Request, dim: int) -> Request:
    """Return the request of the mechanism: a sampling rate that was given need not be a whole n / N."""
    values = {**request.values, "dim": dim}
    if is_sampled(request) and request["sampling_rate"] is not None:
        values |= {"population_size": None, "client_sampling": None}
    return Request(values, request.sources)


def _dominated(cost: TrainingCost) -> tuple[Notice, ...]:
    if cost.noise_to_signal <= _DOMINATES:
        return ()
    message = (
        f"the noise is {cost.noise_to_signal:.2g} times the largest mean update: expect a low accuracy;"
        " use larger cohorts, a smaller model, fewer rounds or a larger epsilon"
    )
    return (Notice("noise-dominates", message),)
