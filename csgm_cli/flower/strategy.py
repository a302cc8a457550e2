"""The server: a strategy that passes noisy means to another strategy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from csgm_cli.errors import UsageError
from csgm_cli.flower.cohorts import check_addressed, eligible, planned_population
from csgm_cli.flower.engine import (
    ArrayRecord,
    ConfigRecord,
    Grid,
    Message,
    MetricRecord,
    RecordDict,
    Result,
    Strategy,
)
from csgm_cli.flower.layout import check_arrays, moved_arrays
from csgm_cli.flower.messages import MISCONFIGURED, Task, as_numpy, as_record, payload_of, task_message
from csgm_cli.mechanism.ledger import Ledger
from csgm_cli.mechanism.plan import Plan, load_plan
from csgm_cli.mechanism.server import Round, Server
from csgm_cli.mechanism.wire import expected_bytes
from csgm_cli.model.mechanism import Accountant, AccountantLike
from csgm_cli.ranges import check_type

if TYPE_CHECKING:
    from csgm_cli.mechanism.added_noise import Factors, Floats

_LOG = logging.getLogger("flwr")
#: Seconds between two polls of the connected nodes.
_PAUSE = 1.0


class CsgmStrategy(Strategy):
    """Trains ``inner`` with the mechanism of ``plan``, and records releases in the file ``ledger``.

    In each round the planned cohort receives the messages of ``inner``, with a fresh secret seed for each
    node. The noisy mean of the replies is added to the model. ``inner`` aggregates the result as if it were
    the reply of a single client. So ``inner`` decides what is sent to clients, and how the server uses their
    mean (FedAvg, FedAvgM, FedAdam, ...).

    ``plan``: a plan, or the path of a calibration for `load_plan`. ``factors``: for a plan with a
    factorization, as in `Server`. ``population_size``: for plans with client sampling, disjoint cohorts or a
    factorization; the first round waits for that many nodes. ``exclude``: names of arrays that keep the
    server's values, such as counters. ``client_metrics``: let clients evaluate the model; their metrics are
    outside the guarantee.

    Raises:
        CsgmError: all methods raise the errors of `load_plan`, `Ledger` and `Server`, and errors for nodes,
            messages and replies that the plan does not allow. The round then makes no release.
    """

    def __init__(
        self,
        inner: Strategy,
        plan: Plan | str | Path,
        ledger: str | Path,
        *,
        factors: Factors | None = None,
        population_size: int | None = None,
        exclude: Sequence[str] = (),
        client_metrics: bool = False,
    ) -> None:
        check_type("inner", inner, Strategy)
        self.plan = plan if isinstance(plan, Plan) else load_plan(plan)
        self._inner, self._exclude, self._client_metrics = inner, tuple(exclude), client_metrics
        self._size = planned_population(self.plan, population_size)
        if not Path(ledger).is_absolute():
            raise UsageError(
                "relative-path",
                f"the ledger must be an absolute path, got {str(ledger)!r}",
                "Flower runs the server in a folder of its choice, where a new ledger would be created",
            )
        self._ledger = Ledger(ledger, self.plan)
        # Nodes may have other ids than in earlier runs.
        self._server = Server(self.plan, self._ledger, factors=factors, new_order=True)
        self._population: list[int] = []
        self._num_rounds: int | None = None
        self._round: Round | None = None
        self._arrays = ArrayRecord()
        self._sum: Floats | None = None

    @property
    def remaining(self) -> int:
        """Number of releases that the plan still allows, as `Server.remaining`."""
        return self._server.remaining

    @property
    def bytes_per_client(self) -> float:
        """Expected payload size of a client in a round; the actual size depends on the secret mask."""
        return expected_bytes(self.plan)

    def privacy_spent(self, delta: float, accountant: AccountantLike = Accountant.AUTO) -> float:
        """The epsilon of all releases so far at ``delta``, including those of earlier runs."""
        return self._ledger.epsilon(delta, accountant)

    def summary(self) -> None:
        """Log the mechanism and the settings of the inner strategy."""
        plan = self.plan
        _LOG.info("\t├──> csgm:")
        _LOG.info("\t│\t├──Mechanism: %s, gamma %g", plan.mechanism.name, plan.mechanism.gamma)
        _LOG.info("\t│\t├──Noise: sigma %g on the sum, %d clients planned", plan.sigma, plan.cohort_size)
        _LOG.info("\t│\t└──Releases so far: %d", self._server.released)
        self._inner.summary()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Train for ``num_rounds``; ``UsageError`` (slug ``no-rounds-left``) if the plan has fewer left."""
        self._num_rounds = num_rounds
        return super().start(
            grid, initial_arrays, num_rounds, timeout, train_config, evaluate_config, evaluate_fn
        )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of the inner strategy to the cohort, each with the task for its client."""
        check_arrays(as_numpy(arrays), self._exclude, self.plan.dim)
        if self._size is not None and not self._population:
            self._population = _all_nodes(grid, self._size)
        reachable = set(grid.get_node_ids()).intersection(self._population)
        messages = _by_node(self._inner.configure_train(server_round, arrays, config, grid))
        if self._size is None:
            self._round = self._server.draw(messages)
        else:
            check_addressed(messages, reachable.intersection(grid.get_node_ids()))
            self._round = self._server.draw(eligible(self._server, self._population))
        self._check_rounds_left(server_round)
        self._arrays = arrays
        return [
            task_message(messages[node], Task(self.plan, self._round.seed_of(node), self._exclude))
            for node in self._round.clients
            if node in messages
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The model that the inner strategy makes from the noisy mean; client metrics are dropped."""
        if self._round is None:
            raise UsageError("round-over", "configure_train must come before aggregate_train")
        cohort, self._round = self._round, None
        _add(cohort, replies)
        moved = moved_arrays(as_numpy(self._arrays), self._change(cohort), self._exclude)
        aggregated, _ = self._inner.aggregate_train(server_round, [_as_reply(self._inner, as_record(moved))])
        if aggregated is not None:
            aggregated = ArrayRecord({**aggregated, **{name: self._arrays[name] for name in self._exclude}})
        return aggregated, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The messages of the inner strategy if ``client_metrics`` is set; otherwise none."""
        if not self._client_metrics:
            return []
        messages: Iterable[Message] = self._inner.configure_evaluate(server_round, arrays, config, grid)
        return messages

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The metrics aggregated by the inner strategy if ``client_metrics`` is set; otherwise None."""
        return self._inner.aggregate_evaluate(server_round, replies) if self._client_metrics else None

    def _check_rounds_left(self, server_round: int) -> None:
        """Raise ``UsageError`` before the first release of a run that would exceed the planned releases."""
        left = self._server.remaining
        if self._num_rounds is not None and self._num_rounds - server_round >= left:
            raise UsageError(
                "no-rounds-left",
                f"the plan allows {left} more releases, the run needs {self._num_rounds - server_round + 1}",
                "train for fewer rounds (num_rounds), or calibrate for more",
            )

    def _change(self, cohort: Round) -> Floats:
        """Release the round; return its mean (with a factorization, the increment of the prefix sum)."""
        begins = self._server.next_row == 0
        released = cohort.release()
        change = released if begins or self._sum is None else released - self._sum
        if self.plan.mechanism.factorization is not None:
            self._sum = released
        return change


def _all_nodes(grid: Grid, size: int) -> list[int]:
    """Wait until ``size`` nodes are connected, and return their sorted ids."""
    nodes = sorted(grid.get_node_ids())
    while len(nodes) < size:
        _LOG.info("csgm: waiting for %d nodes, %d are connected", size, len(nodes))
        sleep(_PAUSE)
        nodes = sorted(grid.get_node_ids())
    if len(nodes) > size:
        raise UsageError(
            "bad-cohort",
            f"{len(nodes)} nodes are connected, but population_size is {size}",
            "calibrate for the number of nodes",
        )
    return nodes


def _by_node(messages: Iterable[Message]) -> dict[Hashable, Message]:
    """The messages by destination node."""
    listed = list(messages)
    found: dict[Hashable, Message] = {message.metadata.dst_node_id: message for message in listed}
    if len(found) < len(listed):
        raise UsageError("bad-cohort", "the inner strategy sends two messages to one node")
    return found


def _add(cohort: Round, replies: Iterable[Message]) -> None:
    """Add the payloads of all replies; errors count as lost replies.

    Raises:
        UsageError: a reply is not encoded or refused by `Round.add`; a client reports a misconfiguration, or
            all replies are errors (slug ``client-error``).
    """
    failed, added = "", False
    for reply in replies:
        if reply.has_error():
            # Errors about disconnected nodes come from Flower itself, not from a client of the cohort.
            failed = reply.error.reason or f"error {reply.error.code}"
            if reply.error.code == MISCONFIGURED:
                raise UsageError("client-error", f"a client refused the task: {failed}")
        else:
            cohort.add(reply.metadata.src_node_id, payload_of(reply.content))
            added = True
    if failed and not added:
        raise UsageError("client-error", f"no client could train; one reported: {failed}")


def _as_reply(inner: Strategy, arrays: ArrayRecord) -> Message:
    """The updated model as the reply of a single client with weight 1."""
    weight = getattr(inner, "weighted_by_key", "num-examples")
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({weight: 1.0})})
    return Message(content, dst_node_id=0, message_type="train")
