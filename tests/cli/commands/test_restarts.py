"""``factorize --epochs``, and what other commands say of the epochs that a factor was made for."""

import pytest


def test_epochs_lower_the_error_of_restarts(csgm, tmp_path):
    """From 36.0 to 17.4 at T = 32 and 16 epochs; the file says so, and its claims hold."""
    path = tmp_path / "f.npz"
    outcome = csgm(f"factorize --T 32 --epochs 16 --output {path} --format json")
    found = outcome.document["result"]
    assert found["mean_squared_error"] == pytest.approx(17.414743, rel=1e-6)
    assert (found["epochs"], outcome.document["inputs"]["epochs"]) == (16, 16)
    inspected = csgm(f"inspect {path} --format json")
    assert (inspected.status, inspected.document["result"]["epochs"]) == (0, 16)
    assert "epochs" in csgm(f"inspect {path}").stdout


def test_compare_says_which_epochs_a_factor_was_made_for(csgm, tmp_path):
    """Only where they are not those that are compared."""
    path = tmp_path / "f.npz"
    csgm(f"factorize --T 8 --epochs 4 --output {path}")
    line = f"compare --epsilon 5 --delta 1e-5 --gamma 0.1 --norm-ratio 10 --factorization {path} --epochs"
    slugs = [notice["slug"] for notice in csgm(f"{line} 4 --format json").document["warnings"]]
    assert "other-epochs" not in slugs
    said = {
        notice["slug"]: notice["message"] for notice in csgm(f"{line} 9 --format json").document["warnings"]
    }
    assert "4 epochs, not 9" in said["other-epochs"]
    line = line.replace(str(path), "tree:8")
    assert "other-epochs" not in csgm(f"{line} 9").stderr


@pytest.mark.parametrize(
    ("options", "slug"),
    [("--objective max", "epochs-objective"), ("--compare --objective max", "epochs-objective")],
)
def test_what_epochs_exclude(csgm, options, slug):
    """The max error has no such factor."""
    outcome = csgm(f"factorize --T 8 --epochs 4 {options} --format json")
    assert (outcome.status, outcome.document["error"]["slug"]) == (2, slug)
