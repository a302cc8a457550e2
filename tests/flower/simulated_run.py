"""Runs one simulation with Flower's engine: ``python simulated_run.py SCENARIO FOLDER``.

``example``: the app of docs/examples/flower. Others train it with clients that misbehave. FOLDER holds
calibration.json for cohorts of 5 of 10 clients that take turns in 4 rounds.
"""

import os
import sys
from pathlib import Path

os.environ |= {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "flower"))

from csgm_app import client_app, server_app

from csgm_cli.flower import csgm_mod


def fails(message, context, call_next):
    """All clients fail."""
    raise RuntimeError("no data")


def one_fails(message, context, call_next):
    """One client in ten fails."""
    if context.node_config["partition-id"] == 0:
        raise RuntimeError("no data")
    return call_next(message, context)


def scales(message, context, call_next):
    """A mod that cannot work on an encoded reply."""
    reply = call_next(message, context)
    for array in next(iter(reply.content.array_records.values())).values():
        array.numpy()
    return reply


MODS = {
    "example": [csgm_mod],
    "one client fails": [csgm_mod, one_fails],
    "all clients fail": [csgm_mod, fails],
    "no mod": [],
    "mod is not first": [scales, csgm_mod],
}


def main(scenario: str, folder: str) -> None:
    """Run it; errors end the process."""
    client, server = ClientApp(mods=MODS[scenario]), ServerApp()
    client.train()(client_app.fit)

    @server.main()
    def start(grid, context):
        context.run_config |= {"folder": folder, "clients": 10, "rounds": 4, "delta": 1e-5}
        server_app.main(grid, context)

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client if scenario != "example" else client_app.app, 10, backend_config=resources)


if __name__ == "__main__":
    main(*sys.argv[1:])
