"""Sweeps: grids of values, presets, and the answer at one point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, overload

from csgm_cli.errors import UsageError
from csgm_cli.jobs.account import account_delta, account_epsilon, check_accountant
from csgm_cli.jobs.calibrate import calibrate, described
from csgm_cli.model.mechanism import Accountant, Mechanism, Target
from csgm_cli.model.mechanism_table import MechanismName

if TYPE_CHECKING:
    from csgm_cli.model.comparison import Question
    from csgm_cli.model.result import Calibration

#: Most points of one sweep.
MOST_POINTS = 100_000

Values = float | str | None
#: What sets one point apart, by input name.
Point = Mapping[str, Values]


@dataclass(frozen=True)
class Grid(Sequence[Point]):
    """The cartesian product of ``axes``, (name, values) each; the last axis moves fastest.

    ``UsageError`` (slug ``sweep-too-large``) over `MOST_POINTS` points.
    """

    axes: tuple[tuple[str, tuple[float, ...]], ...]

    def __post_init__(self) -> None:
        if len(self) > MOST_POINTS:
            sizes = " x ".join(str(len(values)) for _, values in self.axes)
            raise UsageError("sweep-too-large", f"{sizes} = {len(self)} points exceed {MOST_POINTS}")

    def __len__(self) -> int:
        """How many points there are."""
        return prod(len(values) for _, values in self.axes)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | Sequence[Point]:
        """The point in the order of ``itertools.product``, without making those before it."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        found = []
        for name, values in reversed(self.axes):
            index, at = divmod(index, len(values))
            found.append((name, values[at]))
        return dict(reversed(found))


#: Figure 1 of the paper (Chen et al. 2024): the target, and what each panel fixes.
FIGURE_TARGET = Target(epsilon=5.0, delta=1e-8)
_FIGURE_GAMMA = 0.01
_FIGURE_RATIO = 1000.0
_RATIOS = tuple(10**power * thirds / 3 for power in range(4) for thirds in (3, 6, 10, 15))
_GAMMAS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5)


def figure_one(accountant: Accountant = Accountant.PAPER) -> tuple[Point, ...]:
    """Both panels of the paper's Figure 1, with the Gaussian mechanism's own lines at the end.

    l2-csgm by the paper's accountant, and by ``accountant`` as well where that is another one; a
    point that lies in both panels is there once. ``UsageError`` for an accountant without a bound.
    """
    check_accountant([Mechanism(MechanismName.L2_CSGM, _FIGURE_GAMMA)], accountant)
    panels = [(_FIGURE_GAMMA, ratio) for ratio in _RATIOS] + [(gamma, _FIGURE_RATIO) for gamma in _GAMMAS]
    by = dict.fromkeys((Accountant.PAPER, accountant))
    renyi = [name for name in by if name in (Accountant.PAPER, Accountant.RDP)]
    return (
        *(_point(MechanismName.L2_CSGM, name, *at) for name in by for at in dict.fromkeys(panels)),
        *(_point(MechanismName.GAUSSIAN, name, None, None) for name in (*renyi, Accountant.EXACT)),
    )


def _point(
    mechanism: MechanismName, accountant: Accountant, gamma: float | None, norm_ratio: float | None
) -> Point:
    return {"mechanism": mechanism, "accountant": accountant, "gamma": gamma, "norm_ratio": norm_ratio}


def check_question(question: Question) -> None:
    """Raise ``UsageError`` for what no search is needed to refuse: the target, or the accountant."""
    if question.noise is None:
        assert question.epsilon is not None
        assert question.delta is not None
        Target(question.epsilon, question.delta)
    check_accountant([question.mechanism], question.accountant)


def answer(question: Question) -> Calibration:
    """What calibrate says, or account in the same form (without an MSE, which takes a target).

    Raises:
        UsageError: a value out of range, or an accountant without a bound for the mechanism.
        NoAnswerError: as in ``calibrate`` and ``account_epsilon``.
    """
    if question.noise is not None:
        return _with_noise(question, *question.noise)
    assert question.epsilon is not None
    assert question.delta is not None
    target = Target(question.epsilon, question.delta)
    return calibrate(
        question.mechanism,
        target,
        question.accountant,
        verify=question.verify,
        value_bits=question.value_bits,
    )


def _with_noise(question: Question, noise_multiplier: float, sigma: float) -> Calibration:
    mechanism, accountant, verify = question.mechanism, question.accountant, question.verify
    if question.delta is not None:
        account = account_epsilon(mechanism, sigma, [question.delta], accountant, verify=verify)
    else:
        assert question.epsilon is not None
        account = account_delta(mechanism, sigma, question.epsilon, accountant, verify=verify)
    found = described(mechanism, account.accountant, sigma, account.guarantees[0], question.value_bits)
    return replace(
        found,
        noise_multiplier=noise_multiplier,
        effective_noise_multiplier=noise_multiplier / mechanism.gamma,
    )
