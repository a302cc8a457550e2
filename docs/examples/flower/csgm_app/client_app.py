"""The client: ordinary training code; the mod encodes each update."""

from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from csgm_app.task import EXAMPLES, examples, train
from csgm_cli.flower import csgm_mod

app = ClientApp(mods=[csgm_mod])  # first of all mods


@app.train()
def fit(message, context):
    """Train on the examples of this client."""
    features, labels = examples(1 + int(context.node_config["partition-id"]), EXAMPLES)
    weights = train(message.content["arrays"]["weights"].numpy(), features, labels)
    return Message(RecordDict({"arrays": ArrayRecord({"weights": Array(weights)})}), reply_to=message)
