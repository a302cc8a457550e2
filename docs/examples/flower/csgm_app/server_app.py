"""The server: FedAvg, wrapped in the calibrated mechanism."""

from pathlib import Path

from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from csgm_app.task import accuracy, examples, initial_model
from csgm_cli.flower import CsgmStrategy

app = ServerApp()


@app.main()
def main(grid, context):
    """Train, and print accuracy, bytes and epsilon."""
    config = context.run_config
    folder, clients = Path(config["folder"]), config["clients"]
    strategy = CsgmStrategy(
        FedAvg(), folder / "calibration.json", folder / "ledger.json", population_size=clients
    )
    features, labels = examples(10**6, 2000)  # the server's own test data

    def evaluate(_, arrays):
        return MetricRecord({"accuracy": accuracy(arrays["weights"].numpy(), features, labels)})

    weights = initial_model()
    arrays = ArrayRecord({"weights": Array(weights)})
    result = strategy.start(grid, arrays, num_rounds=config["rounds"], evaluate_fn=evaluate)
    metrics = result.evaluate_metrics_serverapp[config["rounds"]]
    print(f"accuracy {metrics['accuracy']:.3f}")
    print(f"bytes per client and round {strategy.bytes_per_client:.0f}, uncompressed {weights.nbytes}")
    print(f"epsilon {strategy.privacy_spent(config['delta']):.4g} at delta {config['delta']:g}")
