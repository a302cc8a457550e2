"""The parts of Flower that the adapter uses: only public names of `flwr.app` and `flwr.serverapp`.

Flower collects usage data unless FLWR_TELEMETRY_ENABLED=0 is set, and checks for updates unless
FLWR_DISABLE_UPDATE_CHECK=1 is set.
"""

from __future__ import annotations

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
    from flwr.serverapp import Grid
    from flwr.serverapp.strategy import Result, Strategy
except ImportError as error:
    raise ModuleNotFoundError(
        "csgm_cli.flower needs Flower 1.28 or later: pip install 'csgm-cli[flower]'", name="flwr"
    ) from error

__all__ = [
    "Array",
    "ArrayRecord",
    "ConfigRecord",
    "Context",
    "Error",
    "Grid",
    "Message",
    "MetricRecord",
    "RecordDict",
    "Result",
    "Strategy",
]
