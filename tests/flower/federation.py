"""A federation in one process: real messages, client apps and strategies of Flower, without its network."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from csgm_cli.flower import CsgmStrategy, csgm_mod

#: Number of trained values of `model`, whose counter is excluded.
DIM = 8


def model() -> ArrayRecord:
    """Two trained arrays of zeros and a counter."""
    arrays = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(2), "steps": np.array(3)}
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def values(arrays: ArrayRecord) -> np.ndarray:
    """The trained values, in the order of the vector."""
    return np.concatenate([arrays[name].numpy().ravel() for name in ("b", "w")])


class Federation:
    """Nodes 1 to ``size``, whose updates are ``updates(node)``; the grid of a server, too.

    ``tamper`` changes the list of replies on their way to the server.
    """

    def __init__(self, size: int, updates: Callable[[int], np.ndarray], mods=(csgm_mod,)) -> None:
        self.nodes = list(range(1, size + 1))
        self.updates = updates
        self.app = ClientApp(mods=list(mods))
        self.app.train()(self.train)
        self.app.evaluate()(self.evaluate)
        self.tamper: Callable[[list[Message]], list[Message]] = list
        self.sent: list[list[Message]] = []  # to clients, in each exchange
        self.received: list[list[Message]] = []  # from clients, before they are tampered with

    def train(self, message: Message, context: Context) -> Message:
        """Add the update of the client to the model, in place; report a metric."""
        assert "csgm" not in message.content  # the training does not see the seed
        arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
        update = self.updates(message.metadata.dst_node_id)
        arrays["b"] += update[:2]
        arrays["w"] += update[2:].reshape(2, 3).astype(np.float32)
        arrays["steps"] += 1
        record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
        metrics = MetricRecord({"num-examples": message.metadata.dst_node_id, "secret": 1.0})
        return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)

    def evaluate(self, message: Message, context: Context) -> Message:
        """Report a metric."""
        metrics = MetricRecord({"num-examples": 1, "accuracy": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    def get_node_ids(self) -> Iterable[int]:
        """The connected nodes."""
        return list(self.nodes)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The replies of the clients."""
        self.sent.append(list(messages))
        self.received.append([self.reply(message) for message in self.sent[-1]])
        return self.tamper(self.received[-1])

    def reply(self, message: Message) -> Message:
        """The reply of the client whom the message is for, as Flower makes it."""
        copy = Message(
            RecordDict(dict(message.content)),
            dst_node_id=message.metadata.dst_node_id,
            message_type=message.metadata.message_type,
        )
        return self.app(copy, Context(1, copy.metadata.dst_node_id, {}, RecordDict(), {}))


def train(federation: Federation, strategy: CsgmStrategy, rounds: int = 1) -> ArrayRecord:
    """The model after the last of ``rounds``."""
    return strategy.start(federation, model(), num_rounds=rounds).arrays


def strategy(folder, plan, inner=None, **rest) -> CsgmStrategy:
    """FedAvg, or another one, with the mechanism of ``plan`` and a ledger in ``folder``."""
    return CsgmStrategy(inner or FedAvg(), plan, folder / "ledger.json", **{"exclude": ["steps"], **rest})


def give_identity(monkeypatch) -> None:
    """Let messages be made outside a run; Flower up to 1.28 does so anyway."""
    with contextlib.suppress(ImportError):
        from flwr.supercore.task_identity import TaskIdentity

        for name in ("task_id", "run_id", "node_id"):
            monkeypatch.setattr(type(TaskIdentity), name, 1)
