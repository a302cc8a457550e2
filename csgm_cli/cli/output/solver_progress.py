"""Solver progress at a terminal, and checkpoints from which a stopped solver can resume."""

from __future__ import annotations

import math
from time import monotonic
from typing import TYPE_CHECKING

from csgm_cli.cli import console, interrupts

if TYPE_CHECKING:
    from collections.abc import Callable

    from csgm_cli.model.factorization import Dual

#: Seconds between two states that are kept.
_PAUSE = 2.0
_WIDTH = 24


class Progress:
    """Follows a solver: call it after every step, and ``finish`` at the end."""

    def __init__(self, tolerance: float, keep: Callable[[Dual], None] | None = None) -> None:
        self._tolerance = tolerance
        self._keep = keep
        self._started = self._kept = monotonic()
        self._first = self._least = math.inf
        self._best: Dual | None = None
        self._is_shown = False

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return monotonic() - self._started

    def __call__(self, iteration: int, gap: float, dual: Dual | None) -> None:
        """Show the gap once a second has passed; keep the best weights every two."""
        if math.isinf(self._first):
            self._first = gap
        if gap < self._least:
            self._least, self._best = gap, dual
        if self._keep is not None and monotonic() - self._kept >= _PAUSE:
            self._save()
        if self.seconds >= console.PATIENCE:
            self._is_shown = True
            said = f"step {iteration}: gap {self._least:.1e}, target {self._tolerance:.1e}"
            console.transient(f"{self._bar()} {said}")

    def finish(self) -> None:
        """Leave the terminal's line empty and the file with the best weights."""
        if self._is_shown:
            console.transient("")
        self._save()

    def _save(self) -> None:
        if self._keep is not None and self._best is not None:
            with interrupts.unwinding():
                self._keep(self._best)
            self._best = None
        self._kept = monotonic()

    def _bar(self) -> str:
        """The part of the way, on the scale of the gap's logarithm."""
        done = 1.0
        if self._tolerance < self._least < self._first:
            done = math.log(self._first / self._least) / math.log(self._first / self._tolerance)
        elif self._least > self._tolerance:
            done = 0.0
        filled = int(_WIDTH * done)
        return f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"
