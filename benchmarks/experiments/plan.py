"""The trainings of the experiments, each one command line of ``csgm simulate train``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

GAMMAS = (1.0, 0.1, 0.03, 0.01, 0.003, 0.001)
SEEDS = (0, 1, 2)
GAUSSIAN, L2, LINF = "gaussian", "l2-csgm", "linf-csgm"
#: Rounds between two restarts of correlated noise.
EPOCH = 32
OPTIMAL, TREE = f"optimal:{EPOCH}", f"honaker-online:{EPOCH}"
#: Of every training.
COMMON = "--delta 1e-5 --partition dirichlet:1 --local-steps 5 --learning-rate 0.1"


@dataclass(frozen=True)
class Setting:
    """The options that the trainings of a table share. Its clip norm suits the Gaussian mechanism."""

    title: str
    options: str
    epsilon: float = 10.0


COHORT_1000 = Setting(
    "Cohorts of 1000, softmax regression",
    "--population-size 3000 --cohort-size 1000 --training-rounds 30 --model softmax --l2-norm 0.5",
)
COHORT_100 = Setting(
    "Cohorts of 100, softmax regression",
    "--population-size 3000 --cohort-size 100 --training-rounds 60 --model softmax --l2-norm 0.2",
)
LARGER = Setting(
    "Cohorts of 1000, a network with 64 hidden units",
    "--population-size 3000 --cohort-size 1000 --training-rounds 30 --model mlp:64 --l2-norm 0.5",
)
STREAM = Setting(
    "Correlated noise, cohorts of 100, softmax regression",
    "--population-size 3200 --cohort-size 100 --epochs 16 --model softmax --l2-norm 0.1",
)
STREAM_PRIVATE = Setting("The same at epsilon 1", STREAM.options, 1.0)
SETTINGS = (COHORT_1000, COHORT_100, LARGER, STREAM, STREAM_PRIVATE)


@dataclass(frozen=True)
class Run:
    """One training; ``factorization``: of its noise, or empty for independent noise in each round."""

    setting: Setting
    mechanism: str
    gamma: float
    seed: int
    factorization: str = ""

    @property
    def options(self) -> str:
        """Everything but the data and the output."""
        words = [f"--epsilon {self.setting.epsilon:g}", COMMON, self.setting.options]
        words.append(f"--mechanism {self.mechanism}")
        if self.mechanism != GAUSSIAN:
            words.append(f"--gamma {self.gamma:g}")
        if self.factorization:
            words.append(f"--factorization {self.factorization}")
        return " ".join([*words, f"--seed {self.seed}"])


def all_runs() -> Iterator[Run]:
    """In the order in which they are run: one seed of everything first."""
    for seed in SEEDS:
        yield from _cohorts(COHORT_1000, seed, (L2, LINF))
        yield from _cohorts(COHORT_100, seed, (L2, LINF))
        if seed == SEEDS[0]:
            yield from _stream(STREAM, seed)
            yield from _cohorts(LARGER, seed, (L2,))
    yield from _stream(STREAM_PRIVATE, SEEDS[0])
    yield from _cohorts(LARGER, SEEDS[1], (L2,))


def _cohorts(setting: Setting, seed: int, mechanisms: tuple[str, ...]) -> Iterator[Run]:
    """The Gaussian mechanism, and every gamma of the others."""
    yield Run(setting, GAUSSIAN, 1.0, seed)
    for mechanism in mechanisms:
        for gamma in GAMMAS:
            yield Run(setting, mechanism, gamma, seed)


def _stream(setting: Setting, seed: int) -> Iterator[Run]:
    """The matrix mechanism, restarted trees, and SGMF with every gamma below 1."""
    yield Run(setting, GAUSSIAN, 1.0, seed, OPTIMAL)
    yield Run(setting, GAUSSIAN, 1.0, seed, TREE)
    for gamma in GAMMAS[1:]:
        yield Run(setting, L2, gamma, seed, OPTIMAL)
