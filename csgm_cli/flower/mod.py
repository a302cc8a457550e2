"""The client mod: replies leave the client encoded or not at all."""

from __future__ import annotations

from collections.abc import Callable

from csgm_cli.errors import CsgmError
from csgm_cli.flower.engine import Context, Message
from csgm_cli.flower.layout import check_arrays, update_vector
from csgm_cli.flower.messages import model_arrays, payload_content, refusal, take_task
from csgm_cli.mechanism.client import encode


def csgm_mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """Replace the trained model in a reply with the encoded model update.

    Pass it as the first mod, ``ClientApp(mods=[csgm_mod, ...])``; mods after it see the trained model. The
    message from `CsgmStrategy` carries the encoding parameters. Messages other than ``train`` pass through.
    Metrics in the reply are dropped. If the update cannot be encoded, the reply is an error.
    """
    if message.metadata.message_type.partition(".")[0] != "train":
        return call_next(message, context)
    try:
        payload = _payload(message, context, call_next)
    except CsgmError as error:
        return refusal(error, message)
    return payload if isinstance(payload, Message) else Message(payload_content(payload), reply_to=message)


def _payload(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> bytes | Message:
    """The payload with the client's model update, or the error that the client replied."""
    task = take_task(message.content)
    before = model_arrays(message.content)
    check_arrays(before, task.exclude, task.plan.dim)
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    vector = update_vector(before, model_arrays(reply.content), task.exclude, task.plan.dim)
    return encode(task.plan, vector, task.seed)
