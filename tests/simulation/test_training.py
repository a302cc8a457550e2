"""Simulated training: against plain federated averaging, by epsilon, after a resumption, and its memory."""

import subprocess
import sys

import numpy as np
import pytest

import csgm_cli as csgm
from csgm_cli.errors import UsageError
from csgm_cli.mechanism.plan import Plan
from csgm_cli.simulation.datasets import Dataset, partition, synthetic_dataset
from csgm_cli.simulation.networks import Network
from csgm_cli.simulation.training import Optimizer, Training
from csgm_cli.simulation.training_cost import training_cost
from csgm_cli.storage.arrays.checkpoints import load_training, save_training

#: The least that csgm takes: adding it changes no float64 of a usual size.
NO_NOISE = 1e-45
SYNTHETIC = synthetic_dataset(7)


def small(clients=40, seed=0):
    """A set of which a client has ten examples of three classes."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, size=10 * clients)
    features = (random.normal(size=(len(labels), 5)) + 2 * np.eye(5)[labels]).astype(np.float32)
    return Dataset("small", features, labels, features, labels)


def training_of(mechanism, sigma, rounds, clients=40, factors=None, optimizer=None, dataset=None, **network):
    """A training of softmax regression."""
    dataset = dataset or small(clients)
    plan = Plan(mechanism, sigma, rotation="none" if mechanism.name == "gaussian" else "hadamard")
    sizes = network.get("sizes", (dataset.features.shape[1], dataset.classes))
    examples = partition(dataset.labels, clients, 1.0, seed=0)
    return Training(plan, Network(sizes), dataset, examples, rounds, optimizer or Optimizer(), 3, factors)


def plain_averaging(training, rounds):
    """Federated averaging of softmax regression in float64, one client after the other."""
    dataset, n, optimizer = training.dataset, training.plan.cohort_size, training.optimizer
    classes, width = dataset.classes, dataset.features.shape[1]
    model, velocity = np.zeros((width + 1, classes)), np.zeros((width + 1, classes))
    for number in range(rounds):
        changes = []
        for client in (np.arange(n) + number * n) % len(training.clients):
            examples = training.clients[client]
            ones = np.ones((len(examples), 1))
            x = np.hstack([dataset.features[examples].astype(float), ones])
            wanted, local = np.eye(classes)[dataset.labels[examples]], model.copy()
            for _ in range(optimizer.local_steps):
                scores = np.exp(x @ local)
                shares = scores / scores.sum(axis=1, keepdims=True)
                local -= optimizer.learning_rate * x.T @ (shares - wanted) / len(examples)
            changes.append(local - model)
        velocity = optimizer.momentum * velocity + sum(changes) / n
        model = model + velocity
    return model.ravel()


OPTIMIZER = Optimizer(local_steps=2, learning_rate=0.3, momentum=0.5)


@pytest.mark.parametrize(
    ("name", "factors"),
    [("gaussian", None), ("l2-csgm", None), ("gaussian", 4), ("l2-csgm", 4)],
)
def test_without_noise_and_compression_it_is_federated_averaging(name, factors):
    """To the rounding of float32, in which clients train and send; prefix sums are the same training."""
    found = None if factors is None else csgm.factorize(factors)
    dim = 18 if name == "gaussian" else 32
    geometry = csgm.Geometry(norm_ratio=1.0, l2_norm=100.0, dim=dim, cohort_size=10)
    mechanism = csgm.Mechanism(
        name, 1.0, geometry, rounds=1 if factors else 2, disjoint_cohorts=not factors,
        factorization=factors and csgm.factor_norms(found), epochs=2 if factors else None,
    )  # fmt: skip
    training = training_of(mechanism, NO_NOISE, 8, factors=found, optimizer=OPTIMIZER)
    *_, last = training.run()
    assert last.parameters == pytest.approx(plain_averaging(training, 8), abs=5e-6)
    assert np.abs(last.parameters).max() > 0.1
    assert [done.participations for done in last.rounds] == [1] * 4 + [2] * 4


def calibrated(epsilon, rounds=4, **more):
    """A mechanism with noise for ``epsilon`` and the calibration that it comes from."""
    geometry, _ = csgm.resolve_geometry(dim=1024, cohort_size=100, l2_norm=0.5)
    mechanism = csgm.Mechanism("l2-csgm", 0.2, geometry, rounds=rounds, **more)
    return csgm.calibrate(mechanism, csgm.Target(epsilon, 1e-5))


def test_accuracy_falls_with_epsilon():
    """Clearly on the synthetic set: by at least two points from one epsilon to the next smaller one."""
    found = []
    for epsilon in (50.0, 2.0, 0.3):
        calibration = calibrated(epsilon, disjoint_cohorts=True)
        training = training_of(calibration.mechanism, calibration.sigma, 12, clients=300, dataset=SYNTHETIC)
        *_, last = training.run()
        found.append(last.rounds[-1].accuracy)
    assert found[0] > found[1] + 0.02 > found[2] + 0.04
    assert found[0] > 0.85


@pytest.mark.parametrize("factorized", [False, True])
def test_cost_of_a_plan_is_that_of_its_releases(factorized):
    """Noise and bytes of clients who all send zeros; 650 parameters of the 1024 coordinates."""
    found = csgm.factorize(8) if factorized else None
    more = {"factorization": csgm.factor_norms(found), "epochs": 40} if factorized else {"rounds": 40}
    calibration = calibrated(5.0, **({"rounds": 1} | more if factorized else more))
    plan = csgm.plan_of(calibration)
    cost = training_cost(calibration, plan, parameters=650)
    gaussian = csgm.Mechanism("gaussian", 1.0, plan.mechanism.geometry, **({"rounds": 1} | more))
    dense = csgm.calibrate(gaussian, csgm.Target(5.0, 1e-5), calibration.accountant)
    inflation = calibration.sigma / plan.mechanism.gamma / dense.sigma
    assert cost.noise_inflation == pytest.approx(inflation, rel=0.02)
    ratios, sizes = [], []
    server = csgm.Server(plan, factors=found)
    for number in range(320 if factorized else 40):
        cohort = server.draw([(number, 0)])
        payload = csgm.encode(plan, np.zeros(1024), cohort.seed_of((number, 0)))
        sizes.append(len(payload))
        ratios.append(np.linalg.norm(cohort.release()[:650]) / 0.5)
    last = np.array(ratios).reshape(40, -1)[:, -1] / (8 if factorized else 1)
    assert cost.noise_to_signal == pytest.approx(np.sqrt(np.mean(last**2)), rel=0.05)
    assert cost.bytes_per_client == pytest.approx(np.mean(sizes), rel=0.06)  # six standard deviations
    assert cost.dense_bytes_per_client == 2600


@pytest.mark.parametrize("kind", ["disjoint", "sampled", "factorized"])
def test_a_resumed_training_ends_in_the_same_state(tmp_path, kind):
    """Bit by bit, from a checkpoint after any round."""
    factors = csgm.factorize(3) if kind == "factorized" else None
    geometry = csgm.Geometry(norm_ratio=3.0, dim=32, cohort_size=10)
    more = {
        "disjoint": {"rounds": 2, "disjoint_cohorts": True},
        "sampled": {"rounds": 7, "sampling_rate": 0.25},
        "factorized": {"rounds": 1, "factorization": factors and csgm.factor_norms(factors), "epochs": 3},
    }[kind]
    training = training_of(csgm.Mechanism("l2-csgm", 0.3, geometry, **more), 0.5, 7, factors=factors)
    states = list(training.run())
    for state in states:
        save_training(tmp_path / "state.npz", {"seed": 3}, state)
        kept = load_training(tmp_path / "state.npz", {"seed": 3}, training.start)
        *_, last = [kept, *training.run(kept)]
        assert last.rounds == states[-1].rounds
        assert last.parameters.tobytes() == states[-1].parameters.tobytes()


def test_with_client_sampling_bytes_are_expected_ones():
    """The number of clients of a round is secret: every round has 10 (16 + 0.3 x 32 x 4) bytes."""
    geometry = csgm.Geometry(norm_ratio=3.0, dim=32, cohort_size=10)
    mechanism = csgm.Mechanism("l2-csgm", 0.3, geometry, rounds=3, sampling_rate=0.25)
    states = list(training_of(mechanism, 0.5, 3).run())
    assert [done.bytes for done in states[-1].rounds] == pytest.approx([10 * (16 + 38.4)] * 3)


def test_too_few_clients_for_an_epoch_are_refused():
    """Each of its rounds has clients of its own."""
    factors = csgm.factorize(5)
    geometry = csgm.Geometry(norm_ratio=3.0, dim=32, cohort_size=10)
    mechanism = csgm.Mechanism("l2-csgm", 0.3, geometry, factorization=csgm.factor_norms(factors), epochs=1)
    with pytest.raises(UsageError, match="40 clients are too few"):
        training_of(mechanism, 0.5, 5, factors=factors)


_LARGE = """
import resource
import numpy as np
import csgm_cli as csgm
from csgm_cli.mechanism.plan import Plan
from csgm_cli.simulation.datasets import Dataset, partition
from csgm_cli.simulation.networks import Network
from csgm_cli.simulation.training import Optimizer, Training
random = np.random.default_rng(0)
features = random.random((60_000, 784), np.float32)
labels = random.integers(0, 10, 60_000)
data = Dataset("large", features, labels, features[:1000], labels[:1000])
geometry, _ = csgm.resolve_geometry(dim=65_536, cohort_size=1000)
plan = Plan(csgm.Mechanism("l2-csgm", 0.01, geometry, rounds=1, disjoint_cohorts=True), 1.0)
network = Network((784, 64, 10))
examples = partition(labels, 3000, 1.0, 0)
assert network.dim == 50_890 and examples.shape == (3000, 20)
list(Training(plan, network, data, examples, 1, Optimizer(), 0).run())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_memory_of_many_clients():
    """3000 clients with 20 images, cohorts of 1000 and 50,890 parameters take less than 2 GiB."""
    done = subprocess.run([sys.executable, "-c", _LARGE], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 2.0
