"""Recompute shipped reference values with this machine's libraries (broken builds exist).

The values were made in high-precision arithmetic by code independent of this package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from csgm_cli.bounds.worst_case import worst_case_law
from csgm_cli.jobs.account import account_delta
from csgm_cli.jobs.calibrate import calibrate
from csgm_cli.model.comparison import SelftestCase
from csgm_cli.model.mechanism import Accountant, Adjacency, Mechanism, Target
from csgm_cli.model.mechanism_table import Geometry, MechanismName
from csgm_cli.model.participation import Participation
from csgm_cli.renyi.log_moment import log_moment

_TOLERANCE = 1e-9

#: (order, gamma, t, K)
_LOG_MOMENTS = (
    (2.0, 1e-6, 1e-10, 1.0000000000499999e-22),
    (64.0, 0.1, 1e-4, 0.0020172256754327719),
    (1.0001, 0.1, 0.25, 1.3812573371715442e-7),
    (5000.0, 0.1, 1e-6, 0.12503131098772323),
    (12.25, 0.2, 100.0, 6870.9093855726823),
    (2.75, 0.001, 2500.0, 5996.6286729827991),
    (1.3, 0.5, 9.0, 1.0311979437255411),
)


@dataclass(frozen=True)
class _Calibrated:
    """A target and the noise multiplier that meets it."""

    accountant: Accountant
    epsilon: float
    delta: float
    rounds: int
    noise_multiplier: float
    gamma: float = 1.0
    k: float = 1.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    sampling_rate: float = 1.0

    @property
    def name(self) -> str:
        target = f"epsilon={self.epsilon:g} delta={self.delta:g}"
        mechanism = f"gamma={self.gamma:g} k={self.k:g} rounds={self.rounds}"
        if self.sampling_rate < 1.0:
            mechanism += f" q={self.sampling_rate:g}"
        return f"calibrate {self.accountant} {self.adjacency} {target} {mechanism}"

    def compute(self) -> float:
        name = MechanismName.GAUSSIAN if self.gamma == 1.0 else MechanismName.L2_CSGM
        mechanism = Mechanism(
            name,
            self.gamma,
            Geometry(math.sqrt(self.k)),
            self.rounds,
            self.adjacency,
            sampling_rate=self.sampling_rate,
        )
        return calibrate(mechanism, Target(self.epsilon, self.delta), self.accountant).noise_multiplier


_CALIBRATED = (
    _Calibrated(Accountant.EXACT, 1, 1e-5, 1, 3.7306316348159418),
    _Calibrated(Accountant.EXACT, 5, 1e-8, 1, 1.1390127816044406),
    _Calibrated(Accountant.EXACT, 0.001, 1e-9, 1, 4122.6297320262505),
    _Calibrated(Accountant.EXACT, 8, 1e-5, 2000, 26.843060150169697),
    _Calibrated(Accountant.PAPER, 5, 1e-8, 1, 0.07177629083836354, 0.01, 100),
    _Calibrated(Accountant.PAPER, 5, 1e-8, 1, 0.011977628656655413, 0.01, 1e6),
    _Calibrated(Accountant.RDP, 3, 1e-6, 100, 0.1644387742273411, 0.01, 24414),
    _Calibrated(Accountant.RDP, 0.5, 1e-6, 10, 1.3722318027401603, 0.05, 2500.75),
    _Calibrated(Accountant.RDP, 8, 1e-5, 1, 0.20716012134912967, 0.1, 10.3),
    _Calibrated(Accountant.RDP, 5, 1e-8, 1, 0.025175552037827567, 0.01, 1e4, Adjacency.REPLACE_ONE),
    _Calibrated(Accountant.RDP, 3, 1e-6, 20, 1.4701779099046679, 0.1, 24414, Adjacency.REPLACE_ONE),
    # mask-revealed: the Gaussian mechanism's own noise, here at twice the sensitivity
    _Calibrated(Accountant.AUTO, 1, 1e-5, 1, 2 * 3.7306316348159418, 1 - 1e-12, 100, Adjacency.REPLACE_ONE),
    # the Poisson-subsampled Gaussian mechanism of DP-SGD
    _Calibrated(Accountant.AUTO, 8, 1e-7, 2000, 0.44777866255771315, sampling_rate=0.001),
)

#: (order, q, gamma, k, noise multiplier, K of one round with client sampling at the worst-case vector)
_SAMPLED = (
    (2.0, 0.001, 0.01, 24127.0, 0.006, 0.00018327767951467196),
    (4.0, 0.001, 0.1, 24127.0, 0.05, 0.03518555985738339),
    (5.0, 0.01, 0.01, 1000.5, 0.02, 2093.25384783408),
)


@dataclass(frozen=True)
class _Accounted:
    """The delta of a noise in units of Delta_inf.

    For an integer k, the exact delta of k coordinates; else the lower bound from kappa*.
    """

    accountant: Accountant
    epsilon: float
    gamma: float
    k: float
    noise: float
    rounds: int
    delta: float

    @property
    def name(self) -> str:
        mechanism = f"gamma={self.gamma:g} k={self.k:g} rounds={self.rounds} noise={self.noise:g}"
        return f"account {self.accountant} epsilon={self.epsilon:g} {mechanism}"

    def compute(self) -> float:
        name = MechanismName.GAUSSIAN if self.gamma == 1.0 else MechanismName.L2_CSGM
        ratio = math.sqrt(self.k)
        is_whole = self.k == math.floor(self.k)
        geometry = Geometry(ratio, ratio, int(self.k) if is_whole else None)
        mechanism = Mechanism(name, self.gamma, geometry, self.rounds)
        [found] = account_delta(mechanism, self.noise, self.epsilon, self.accountant).guarantees
        return found.delta if is_whole else found.lower_bound or 0.0


_ACCOUNTED = (
    # Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu), mu = sqrt(rounds) / noise
    _Accounted(Accountant.EXACT, 0, 1, 1, 1, 1, 0.38292492254802621),
    _Accounted(Accountant.EXACT, 1, 1, 1, 1, 1, 0.12693673750664395),
    _Accounted(Accountant.EXACT, 3, 1, 1, 1, 4, 0.18381307654447216),
    _Accounted(Accountant.EXACT, 1, 1, 1, 2, 1, 0.0068295949831145754),
    # gamma times that of the Gaussian mechanism at epsilon' = log(1 + (exp(epsilon) - 1) / gamma)
    _Accounted(Accountant.TIGHT, 1, 0.5, 1, 1, 1, 0.02886761783763035),
    _Accounted(Accountant.TIGHT, 1, 0.1, 400, 8.6, 1, 9.189712768e-07),
    _Accounted(Accountant.TIGHT, 5, 0.01, 10000, 1.37, 1, 4.474454121e-09),
    _Accounted(Accountant.TIGHT, 3, 0.01, 24414, 23.3, 100, 2.279309213e-06),
    _Accounted(Accountant.TIGHT, 2, 0.01, 1000000, 70, 32, 0.0044481995),
    _Accounted(Accountant.TIGHT, 0.5, 0.02, 2500.75, 30, 10, 2.837195003e-08),
)

#: (T, participations, min_separation, joint sensitivity of the Toeplitz square root), by exact fractions
_REPEATED = (64, 4, 16, 3.9606202681436456)


def selftest() -> tuple[SelftestCase, ...]:
    """Every shipped value beside the one computed here; a case holds within 1e-9 relative."""
    moments = [
        _case(f"log-moment order={a:g} gamma={g:g} t={t:g}", want, log_moment(a, g, t).value)
        for a, g, t, want in _LOG_MOMENTS
    ]
    moments += [
        _case(f"log-moment order={a:g} q={q:g} gamma={g:g} k={k:g}", want, _sampled_moment(a, q, g, k, noise))
        for a, q, g, k, noise, want in _SAMPLED
    ]
    answers = [_case(case.name, case.noise_multiplier, case.compute()) for case in _CALIBRATED]
    deltas = [_case(case.name, case.delta, case.compute()) for case in _ACCOUNTED]
    return (*moments, *answers, *deltas, _repeated_case())


def _repeated_case() -> SelftestCase:
    from csgm_cli.factorization import factor_norms, factorize

    rows, participations, separation, expected = _REPEATED
    found = factor_norms(factorize(rows, "toeplitz-sqrt"), Participation(participations, separation))
    computed = 0.0 if found.repeated is None else found.repeated.joint_sensitivity
    name = f"sensitivity toeplitz-sqrt T={rows} participations={participations} min-separation={separation}"
    return _case(name, expected, computed)


def _sampled_moment(order: float, rate: float, gamma: float, k: float, noise: float) -> float:
    mechanism = Mechanism(MechanismName.L2_CSGM, gamma, Geometry(math.sqrt(k)), rounds=1, sampling_rate=rate)
    return worst_case_law([(mechanism, noise)]).log_moment(order).value


def _case(name: str, expected: float, computed: float) -> SelftestCase:
    return SelftestCase(name, expected, computed, abs(computed / expected - 1), _TOLERANCE)
