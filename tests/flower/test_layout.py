"""The arrays of a model as a vector: what is trained, in which order, and what is refused."""

import numpy as np
import pytest

from csgm_cli.errors import UsageError
from csgm_cli.flower.layout import check_arrays, moved_arrays, update_vector


def model(**changes):
    """Six trained values in three float types, and a counter."""
    arrays = {
        "w": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32),
        "b": np.array(5.0),
        "a": np.array([6.0], np.float16),
        "steps": np.array(7),
    }
    return {**arrays, **changes}


def test_the_vector_holds_the_changes_by_sorted_name():
    """So that it does not matter in which order a network delivers the arrays; padded to dim."""
    after = model(w=np.array([[1.5, 2], [3, 3]], np.float32), b=np.array(7.0), a=np.array([5], np.float16))
    for arrays in (after, dict(reversed(after.items()))):
        vector = update_vector(model(), arrays, ["steps"], 8)
        assert vector.tolist() == [-1.0, 2.0, 0.5, 0.0, 0.0, -1.0, 0.0, 0.0]
    assert vector.dtype == np.float64


def test_moving_by_the_vector_is_the_inverse():
    """Types stay, excluded arrays too, and the given arrays are not written to."""
    before, after = model(), model(w=np.array([[2, 2], [3, 8]], np.float32), a=np.array([9], np.float16))
    moved = moved_arrays(before, update_vector(before, after, ["steps"], 6), ["steps"])
    assert moved.keys() == after.keys()
    for name, array in moved.items():
        assert isinstance(array, np.ndarray)  # of no dimension, too
        assert (array.dtype, array.tolist()) == (after[name].dtype, after[name].tolist())
    assert before["w"][0, 0] == 1.0


@pytest.mark.parametrize("name", ["w", "b"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.complex64])
def test_only_floats_are_averaged(name, dtype):
    """The error names the array; excluded, it is left alone."""
    arrays = model(**{name: model()[name].astype(dtype)})
    with pytest.raises(UsageError, match=f"'{name}' holds {np.dtype(dtype)}"):
        check_arrays(arrays, ["steps"], 8)
    check_arrays(arrays, ["steps", name], 8)
    with pytest.raises(UsageError, match="after training"):
        update_vector(model(), arrays, ["steps"], 8)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({"w": np.zeros((2, 2)), "b": np.zeros(()), "a": np.zeros(1)}, "other arrays"),
        (model(more=np.zeros(1)), "other arrays"),
        (model(w=np.zeros(4)), "another shape"),
        (model(w=np.zeros((2, 1))), "another shape"),  # would broadcast
        (model(b=np.zeros(1)), "another shape"),
    ],
)
def test_a_trained_model_of_another_form_is_refused(after, message):
    with pytest.raises(UsageError, match=message):
        update_vector(model(), after, ["steps"], 8)


def test_the_model_must_fit_the_plan():
    """At most dim trained values, at least one, and no unknown name to exclude."""
    check_arrays(model(), ["steps"], 6)
    with pytest.raises(UsageError, match="6 trained values, the plan is for dim 5"):
        check_arrays(model(), ["steps"], 5)
    with pytest.raises(UsageError, match="0 trained values"):
        check_arrays(model(), ["steps", "w", "a", "b"], 5)
    with pytest.raises(UsageError, match="no array 'step' to exclude"):
        check_arrays(model(), ["steps", "step"], 8)


def test_a_diverged_model_makes_a_vector_that_is_not_finite():
    """Which `encode` refuses; no warning is raised on the way."""
    for value in (np.inf, -np.inf, np.nan):
        after = model(b=np.array(value))
        assert not np.isfinite(update_vector(model(), after, ["steps"], 8)).all()
        assert not np.isfinite(update_vector(after, after, ["steps"], 8)).all()
