"""Checkpoints of a training: what was saved comes back, and nothing else is taken."""

import numpy as np
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.model.simulation import TrainingRound, TrainingState
from csgm_cli.storage.arrays.checkpoints import load_training, save_training

ROUNDS = (TrainingRound(1, 0.25, 1234, 1), TrainingRound(2, 0.5, 99, 1))
STATE = TrainingState(ROUNDS, np.arange(3.0), -np.arange(3.0), np.ones(4))
TRAINING = {"seed": 1, "gamma": 0.1, "data": None}


def slug_of(path, training=None, like=STATE):
    with pytest.raises(UsageError) as caught:
        load_training(path, training or TRAINING, like)
    assert str(path) in caught.value.message
    return caught.value.slug


@pytest.mark.parametrize("rounds", [(), ROUNDS])
def test_a_state_comes_back(tmp_path, rounds):
    """Before the first round, too; the same state makes the same bytes."""
    state = TrainingState(rounds, STATE.parameters, STATE.velocity, STATE.total)
    path = tmp_path / "state.npz"
    assert load_training(path, TRAINING, STATE) is None
    save_training(path, TRAINING, state)
    content = path.read_bytes()
    found = load_training(path, TRAINING, STATE)
    assert found.rounds == rounds
    for name in ("parameters", "velocity", "total"):
        assert getattr(found, name).tolist() == getattr(state, name).tolist()
    save_training(path, TRAINING, found)
    assert path.read_bytes() == content


@pytest.mark.parametrize("changed", [{"seed": 2}, {"gamma": 0.2}, {"data": "here"}, {"rounds": 3}])
def test_another_training_is_refused(tmp_path, changed):
    """Any input that differs."""
    save_training(tmp_path / "state.npz", TRAINING, STATE)
    assert slug_of(tmp_path / "state.npz", TRAINING | changed) == "other-training"


def test_damaged_files_are_refused(tmp_path):
    """Truncated, of another shape, without a description, with NaN or with other rounds."""
    path = tmp_path / "state.npz"
    save_training(path, TRAINING, STATE)
    other = TrainingState((), np.arange(5.0), np.arange(5.0), np.ones(4))
    assert slug_of(path, like=other) == "broken-file"
    path.write_bytes(path.read_bytes()[:-5])
    assert slug_of(path) == "broken-file"
    np.savez(path, parameters=np.zeros(3), velocity=np.zeros(3), total=np.zeros(4), rounds=np.zeros((0, 4)))
    assert slug_of(path) == "broken-file"
    for state in (
        TrainingState((), np.full(3, np.nan), STATE.velocity, STATE.total),
        TrainingState(ROUNDS[1:], STATE.parameters, STATE.velocity, STATE.total),
        TrainingState((TrainingRound(1, 1.5, 1, 1),), STATE.parameters, STATE.velocity, STATE.total),
    ):
        save_training(path, TRAINING, state)
        assert slug_of(path) == "broken-file"
