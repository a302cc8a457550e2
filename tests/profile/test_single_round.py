"""One coordinate-round: the closed form in float64, and the bracket, against 60 digits."""

import pytest

from csgm_cli.core.loss_grid import grid_hockey_stick
from csgm_cli.profile.contour import Direction
from csgm_cli.profile.single_round import single_round
from tests.core.few_rounds import law_of, one_round

ADD, REMOVE = Direction.ADD, Direction.REMOVE


SINGLE = [
    (ADD, 1e-9, 1e-6, 2e-15), (ADD, 1e-9, 1e-6, 3e-14), (ADD, 1e-9, 0.5, 1e-6), (ADD, 1e-9, 8.0, 1.0),
    (ADD, 1e-9, 50.0, 1000.0), (ADD, 1e-6, 1.0, 5.0), (ADD, 1e-4, 0.3, 0.1), (ADD, 1e-4, 0.3, 1.5),
    (ADD, 0.01, 1.0, 0.5), (ADD, 0.01, 30.0, 700.0), (ADD, 0.3, 1e-6, 5e-6), (ADD, 0.5, 2.0, 0.0),
    (ADD, 0.9, 50.0, 1e-3), (ADD, 1.0, 1.0, 20.0), (ADD, 1.0, 1e-6, 1e-6), (REMOVE, 1e-9, 1e-6, 2e-15),
    (REMOVE, 0.01, 1.0, 0.005), (REMOVE, 0.01, 50.0, 0.01), (REMOVE, 0.3, 1e-6, 5e-6),
    (REMOVE, 0.5, 2.0, 0.0), (REMOVE, 0.5, 0.1, 0.4), (REMOVE, 0.9, 0.5, 2.0),
    (REMOVE, 1.0, 1.0, 20.0), (REMOVE, 1.0, 30.0, 3.0),
]  # fmt: skip


def test_single_round_next_to_no_noise():
    """Epsilon is s^2/2 + log gamma and more; numbers of 1e19 cancel in the formula as it stands."""
    gamma, s = 1e-9, 5e9
    for epsilon in (s * s / 2 - 5 * s, s * s / 2, s * (s / 2 + 3)):  # ulps of epsilon move delta by 1e-6
        exact = float(one_round(gamma, s, ADD, epsilon))
        assert exact > 1e-13
        assert single_round(gamma, s * s, ADD, epsilon) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(("direction", "gamma", "s", "epsilon"), SINGLE)
def test_single_round(direction, gamma, s, epsilon):
    """The closed form keeps 1e-12 relative accuracy down to 1e-300, and the bracket contains the truth."""
    exact = float(one_round(gamma, s, direction, epsilon))
    assert exact > 1e-300
    assert single_round(gamma, s * s, direction, epsilon) == pytest.approx(exact, rel=1e-12)
    bracket = grid_hockey_stick(law_of(gamma, 1, s), direction, epsilon)
    assert bracket.lower <= exact <= bracket.upper <= exact * (1 + 1e-10)
