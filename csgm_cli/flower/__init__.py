"""Run a calibrated mechanism on Flower (docs/flower.md).

`csgm_mod` encodes what a client sends. `CsgmStrategy` wraps a server strategy, which then aggregates noisy
means. Both need the extra ``flower``; the modules ``layout`` and ``cohorts`` do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from csgm_cli.flower.mod import csgm_mod
    from csgm_cli.flower.strategy import CsgmStrategy

_HOMES = {"csgm_mod": "mod", "CsgmStrategy": "strategy"}

__all__ = ["CsgmStrategy", "csgm_mod"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the lazy attribute hook has no narrower type
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"csgm_cli.flower.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
