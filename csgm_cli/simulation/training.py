"""Federated training by client and server as they run: FedAvg and DP-FTRL with server momentum."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from csgm_cli.errors import UsageError
from csgm_cli.mechanism.client import encode
from csgm_cli.mechanism.server import Server
from csgm_cli.mechanism.wire import expected_bytes
from csgm_cli.model.simulation import TrainingRound, TrainingState
from csgm_cli.simulation.networks import Network, Singles, local_updates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from csgm_cli.mechanism.added_noise import Factors
    from csgm_cli.mechanism.plan import Plan
    from csgm_cli.mechanism.server import Round
    from csgm_cli.simulation.datasets import Dataset

Floats = NDArray[np.float64]

#: Numbers of the largest array of a block of clients: 32 MiB in float64.
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Optimizer:
    """``local_steps`` of gradient descent with ``learning_rate`` on a client, ``momentum`` on the server."""

    local_steps: int = 1
    learning_rate: float = 0.5
    momentum: float = 0.9


@dataclass(frozen=True, eq=False)
class Training:
    """A training to be run: what it is run with, and by which randomness.

    ``clients``: the examples of each client, one row for each. ``rounds``: to be run. ``factors``: as
    `Server` takes them. The results are NOT PRIVATE: all randomness comes from ``seed``.
    """

    plan: Plan
    network: Network
    dataset: Dataset
    clients: NDArray[np.int64]
    rounds: int
    optimizer: Optimizer
    seed: int = 0
    factors: Factors | None = None

    def __post_init__(self) -> None:
        factors, needed = self.plan.mechanism.factorization, self.plan.cohort_size
        needed *= 1 if factors is None else factors.T
        if needed > len(self.clients):
            raise UsageError(
                "too-few-clients",
                f"{len(self.clients)} clients are too few for cohorts of {self.plan.cohort_size}"
                + ("" if factors is None else f" in each of {factors.T} rounds of an epoch"),
                "`population_size` or `cohort_size`",
            )

    @property
    def start(self) -> TrainingState:
        """The state before the first round."""
        parameters = self.network.initial(self.seed)
        return TrainingState((), parameters, np.zeros_like(parameters), np.zeros(self.plan.length))

    def run(self, state: TrainingState | None = None) -> Iterator[TrainingState]:
        """Yield the state after each round, going on from ``state``."""
        state = self.start if state is None else state
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the record says NOT PRIVATE
            server = Server(self.plan, seed=self.seed, factors=self.factors)
            released = self._replay(server, state)
        for number in range(len(state.rounds), self.rounds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state, released = self._round(server, number, state, released)
            yield state

    def _round(
        self, server: Server, number: int, state: TrainingState, released: Floats
    ) -> tuple[TrainingState, Floats]:
        """The state after round ``number``, from 0, and what the server released in it."""
        cohort = server.draw(self._eligible(number))
        sent = self._collect(cohort, state.parameters)
        begins = self._begins_epoch(number)
        total = cohort.total.copy() if begins else state.total + cohort.total
        found = cohort.release()
        mean = found if begins else found - released
        velocity = self.optimizer.momentum * state.velocity + mean[: self.network.dim]
        parameters = state.parameters + velocity
        accuracy = self.network.accuracy(parameters, self.dataset.test_features, self.dataset.test_labels)
        done = TrainingRound(number + 1, accuracy, self._bytes(sent), self._participations(number + 1))
        if self.plan.mechanism.factorization is None:
            total = state.total
        return TrainingState((*state.rounds, done), parameters, velocity, total), found

    def _begins_epoch(self, number: int) -> bool:
        """Whether the release of a round stands by itself, and is not added to an earlier one."""
        factors = self.plan.mechanism.factorization
        return factors is None or number % factors.T == 0

    def _collect(self, cohort: Round, parameters: Floats) -> int:
        """Add the payloads of all clients of the cohort; return their bytes."""
        clients, sent = cohort.clients, 0
        block = max(1, _BLOCK // max(self.network.dim, self.clients.shape[1] * sum(self.network.sizes)))
        for start in range(0, len(clients), block):
            members = clients[start : start + block]
            for client, update in zip(members, self._updates(members, parameters), strict=True):
                if np.isfinite(update).all():  # a client that diverged sends nothing
                    payload = encode(self.plan, self._padded(update), cohort.seed_of(client))
                    cohort.add(client, payload)
                    sent += len(payload)
        return sent

    def _updates(self, members: Sequence[object], parameters: Floats) -> Singles:
        examples = self.clients[np.array(members)]
        features, labels = self.dataset.features[examples], self.dataset.labels[examples]
        optimizer = self.optimizer
        return local_updates(
            self.network, parameters, features, labels, optimizer.local_steps, optimizer.learning_rate
        )

    def _padded(self, update: Singles) -> Floats:
        """The update with the zeros that the plan has room for."""
        padded = np.zeros(self.plan.dim)
        padded[: len(update)] = update
        return padded

    def _eligible(self, number: int) -> range:
        """The clients to draw from in a round, or the whole cohort, as `Server.draw` wants them."""
        factors, n = self.plan.mechanism.factorization, self.plan.cohort_size
        if factors is None:
            return range(len(self.clients))
        step = number % factors.T
        return range(step * n, (step + 1) * n)

    def _bytes(self, sent: int) -> int:
        """Bytes of a round; with client sampling the expected ones, which do not depend on the cohort."""
        sampled = self.plan.mechanism.sampling_rate < 1.0
        return round(self.plan.cohort_size * expected_bytes(self.plan)) if sampled else sent

    def _participations(self, released: int) -> int:
        mechanism, n = self.plan.mechanism, self.plan.cohort_size
        if mechanism.factorization is not None:
            return math.ceil(released / mechanism.factorization.T)
        return math.ceil(released * n / len(self.clients)) if mechanism.disjoint_cohorts else released

    def _replay(self, server: Server, state: TrainingState) -> Floats:
        """Bring ``server`` to where ``state`` was; return its last release.

        Cohorts, masks and noise depend on no payload, so that rounds are repeated without training. The sum
        of a begun epoch takes the place of its payloads.
        """
        done, found = len(state.rounds), np.zeros(self.plan.dim)
        last_epoch = max((number for number in range(done) if self._begins_epoch(number)), default=0)
        for number in range(done):
            cohort = server.draw(self._eligible(number))
            if number == last_epoch:
                cohort.total += state.total
            found = cohort.release()
        return found
