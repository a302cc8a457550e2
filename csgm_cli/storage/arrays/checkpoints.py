"""Checkpoints of a training: an .npz file with its state and a description of the training."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from csgm_cli.errors import UsageError, shown
from csgm_cli.model.simulation import TrainingRound, TrainingState
from csgm_cli.storage.arrays import npz
from csgm_cli.storage.arrays.content import ArrayFile
from csgm_cli.storage.files import cannot_read, check_regular, naming, replacing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from csgm_cli.storage.arrays.metadata import JSON

_SCHEMA = "csgm/training-state/1"
_STATE = ("parameters", "velocity", "total")
_ROUNDS = tuple(field.name for field in fields(TrainingRound))


def save_training(path: str | Path, training: Mapping[str, JSON], state: TrainingState) -> None:
    """Write ``state``, of what the description ``training`` is of; ``StorageError`` as `replacing`."""
    arrays = {name: getattr(state, name) for name in _STATE}
    rows = [[float(getattr(done, name)) for name in _ROUNDS] for done in state.rounds]
    arrays["rounds"] = np.array(rows, np.float64).reshape(-1, len(_ROUNDS))
    with replacing(path) as temporary:
        npz.write(temporary, ArrayFile(arrays, {}), {"schema": _SCHEMA, "training": dict(training)})


def load_training(
    path: str | Path, training: Mapping[str, JSON], like: TrainingState
) -> TrainingState | None:
    """The state in ``path``, with arrays shaped as those of ``like``; None where there is no file.

    ``StorageError``: it cannot be read. ``UsageError``: it is no checkpoint, or of another training (slug
    ``other-training``).
    """
    file = Path(path)
    with naming(path):
        try:
            if not file.exists():
                return None
            check_regular(file)
            arrays, held = npz.read_named(file, (*_STATE, "rounds"), _check_header)
        except (OSError, ValueError) as error:
            raise cannot_read(path, error) from error
        if held is None or held.get("schema") != _SCHEMA:
            raise UsageError("broken-file", "it is not a checkpoint of a training")
        _check_same(held.get("training"), training)
        shapes = {name: getattr(like, name).shape for name in _STATE}
        is_sound = all(arrays[name].shape == shape for name, shape in shapes.items())
        if not is_sound or not all(np.isfinite(array).all() for array in arrays.values()):
            raise UsageError("broken-file", "its arrays are not those of its training")
        return TrainingState(_rounds(arrays["rounds"]), *(arrays[name].astype(np.float64) for name in _STATE))


def _check_header(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    dimensions = 2 if name == "rounds" else 1
    if (
        dtype != np.float64
        or len(shape) != dimensions
        or min(shape) < 0
        or (name == "rounds" and shape[1] != len(_ROUNDS))
    ):
        raise UsageError("shape-mismatch", f"{name} has the type {dtype} and shape {shape}")


def _check_same(found: object, training: Mapping[str, JSON]) -> None:
    if not isinstance(found, dict):
        raise UsageError("broken-file", "it is not a checkpoint of a training")
    for name, value in training.items():
        if found.get(name) != value:
            message = f"it is of a training with {name} {shown(found.get(name))}, and this one has {value!r}"
            raise UsageError("other-training", message, "pass another `checkpoint`, or remove the file")


def _rounds(rows: np.ndarray[Any, np.dtype[np.floating[Any]]]) -> tuple[TrainingRound, ...]:
    rounds = tuple(
        TrainingRound(int(number), float(accuracy), int(size), int(participations))
        for number, accuracy, size, participations in rows
    )
    numbered = [done.round for done in rounds] == list(range(1, len(rounds) + 1))
    if not numbered or not all(0.0 <= done.accuracy <= 1.0 for done in rounds):
        raise UsageError("broken-file", "its rounds are not those of a training")
    return rounds
