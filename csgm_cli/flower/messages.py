"""The records that server and clients exchange, and checks of received records.

=========  =================  ==============================================================
direction  record             content
=========  =================  ==============================================================
to client  ConfigRecord       `client_values` of the plan; the secret ``seed``; ``exclude``
to server  ArrayRecord        one array, the payload from `encode`; no other records
to server  Error              why there is no payload: `NOT_SENT` or `MISCONFIGURED`
=========  =================  ==============================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from csgm_cli.errors import CsgmError, UsageError
from csgm_cli.flower.engine import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from csgm_cli.mechanism.plan import Plan, client_plan, client_values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Name of the record in both directions.
RECORD = "csgm"
_PAYLOAD = "payload"
#: Error codes, above those of Flower. The update cannot be sent: the client counts as lost.
NOT_SENT = 1101
#: Client, server and model do not match: the run must end.
MISCONFIGURED = 1102
_FIRST = "csgm_mod must be the first mod of the ClientApp"


@dataclass(frozen=True)
class Task:
    """What a client needs in a round in addition to the model."""

    plan: Plan
    seed: bytes
    exclude: tuple[str, ...]


def task_message(message: Message, task: Task) -> Message:
    """The message of the inner strategy to one client, with the task added."""
    if RECORD in message.content:
        raise UsageError(
            "bad-message", f"the inner strategy sends a record with the reserved name {RECORD!r}"
        )
    record = ConfigRecord({**client_values(task.plan), "seed": task.seed, "exclude": list(task.exclude)})
    metadata = message.metadata
    return Message(
        RecordDict({**message.content, RECORD: record}),
        dst_node_id=metadata.dst_node_id,
        message_type=metadata.message_type,
        ttl=metadata.ttl,
        group_id=metadata.group_id,
    )


def take_task(content: RecordDict) -> Task:
    """Remove the task from what the server sent and return it.

    ``UsageError`` (slug ``bad-message``) if the message has no task, or an incomplete one.
    """
    record = content.pop(RECORD, None)
    values = dict(record) if isinstance(record, ConfigRecord) else {}
    seed, exclude = values.get("seed"), values.get("exclude")
    if not isinstance(seed, bytes) or not isinstance(exclude, list):
        raise UsageError(
            "bad-message",
            f"the message has no csgm task (record {RECORD!r})",
            "wrap the server's strategy in CsgmStrategy",
        )
    return Task(client_plan(values), seed, tuple(map(str, exclude)))


def model_arrays(content: RecordDict) -> dict[str, NDArray[np.generic]]:
    """Copies of the arrays of the model in a message; ``UsageError`` unless there is one ArrayRecord."""
    records = list(content.array_records.values())
    if len(records) != 1:
        raise UsageError(
            "bad-message", f"the message must have one ArrayRecord, the model, got {len(records)}"
        )
    return as_numpy(records[0])


def as_numpy(record: ArrayRecord) -> dict[str, NDArray[np.generic]]:
    """Copies of the arrays of a record."""
    return {name: array.numpy() for name, array in record.items()}


def as_record(arrays: dict[str, NDArray[np.generic]]) -> ArrayRecord:
    """A record of the arrays."""
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


def payload_content(payload: bytes) -> RecordDict:
    """The content of a reply: only the payload, as an array without the header of an npy file."""
    array = Array(dtype="uint8", shape=(len(payload),), stype=RECORD, data=payload)
    return RecordDict({RECORD: ArrayRecord({_PAYLOAD: array})})


def payload_of(content: RecordDict) -> bytes:
    """The payload in the content of a reply; ``UsageError`` (slug ``bad-reply``) for any other content."""
    record = content.get(RECORD)
    if not isinstance(record, ArrayRecord):
        raise UsageError("bad-reply", "a reply is not encoded by csgm", _FIRST)
    array = record.get(_PAYLOAD)
    if len(content) != 1 or len(record) != 1 or array is None or array.stype != RECORD:
        raise UsageError("bad-reply", "a reply was changed after csgm encoded it", _FIRST)
    payload: bytes = array.data
    return payload


def refusal(error: CsgmError, message: Message) -> Message:
    """The reply of a client that sends nothing because of ``error``."""
    code = NOT_SENT if error.slug == "not-finite" else MISCONFIGURED
    reason = f"{error.message} ({error.hint})" if error.hint else error.message
    return Message(Error(code, reason), reply_to=message)
