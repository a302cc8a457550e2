"""CPU time of ``--verify`` on random settings, and how many answers it confirms."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from statistics import median, quantiles

from benchmarks.measure import Table, show
from csgm_cli import CsgmError, Geometry, Mechanism, Target, account_delta, account_epsilon, calibrate
from csgm_cli.model.mechanism_table import MechanismName


def tables(*, quick: bool, examples: int | None = None, seed: int = 0) -> Iterator[Table]:
    """Verify ``examples`` settings in this process; setting i of a seed is always the same."""
    number = examples or (20 if quick else 450)
    found = [_verified(Random(f"{seed}/{i}")) for i in range(number)]
    asked = [seconds for end, seconds in found if end == "verified"]
    ends = Counter(end for end, _ in found)
    most = f"99 % {show(quantiles(asked, n=100, method='inclusive')[98])}, most {show(max(asked))}"
    said = (
        f"{number} settings with seed {seed}: epsilon 0.05 to 20, delta 1e-12 to 1e-3, gamma 1e-4 to 0.9,"
        " norm ratio 1 to 1e5, rounds 1 to 1e4, log-uniform, with and without `--dim`. CPU seconds that"
        f" `--verify` adds: median {show(median(asked))}, {most}."
    )
    yield Table("Verify", said, ["end", "settings"], [[end, f"{n:,}"] for end, n in sorted(ends.items())])


def _verified(random: Random) -> tuple[str, float]:
    """The outcome of one setting, and the CPU seconds that verification added."""
    mechanism, target, question, factor = _setting(random)
    try:
        sigma = calibrate(mechanism, target).sigma * (1.0 if question == "calibrate" else factor)
        spent = []
        for verify in (False, True):
            start = time.process_time()
            if question == "calibrate":
                calibrate(mechanism, target, verify=verify)
            elif question == "epsilon":
                account_epsilon(mechanism, sigma, [target.delta], verify=verify)
            else:
                account_delta(mechanism, sigma, target.epsilon, verify=verify)
            spent.append(time.process_time() - start)
    except CsgmError as error:
        return error.slug, 0.0
    return "verified", max(0.0, spent[1] - spent[0])


def _setting(random: Random) -> tuple[Mechanism, Target, str, float]:
    def between(low: float, high: float) -> float:
        return math.exp(random.uniform(math.log(low), math.log(high)))

    target, gamma = Target(between(0.05, 20.0), between(1e-12, 1e-3)), between(1e-4, 0.9)
    ratio, rounds = between(1.0, 1e5), round(between(1.0, 1e4))
    kind = random.choice(("l2", "l2", "l2-with-dim", "linf"))
    geometry = Geometry(ratio)
    if kind != "l2":
        more = random.choice((1.0, between(1.0, 1e3))) if kind == "l2-with-dim" else 1.0
        dim = min(10**12, max(1, round(ratio**2 * more)))
        geometry = Geometry(min(ratio, math.sqrt(dim)), dim=dim)
    name = MechanismName.LINF_CSGM if kind == "linf" else MechanismName.L2_CSGM
    question = random.choice(("calibrate", "epsilon", "delta"))
    return Mechanism(name, gamma, geometry, rounds), target, question, between(0.5, 2.0)
