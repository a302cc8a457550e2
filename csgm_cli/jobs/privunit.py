"""The privunit-shuffle rows of a comparison: local privacy behind a shuffler, without a trusted server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.jobs.utility import require_error_inputs
from csgm_cli.model.comparison import PrivUnitRow
from csgm_cli.model.mechanism import Adjacency
from csgm_cli.model.result import MeanSquaredError, Notice
from csgm_cli.rounding import round_down, round_up

if TYPE_CHECKING:
    from csgm_cli.model.mechanism import Mechanism, Target
    from csgm_cli.model.mechanism_table import Geometry
    from csgm_cli.model.result import Calibration

#: Messages per client of each row and its bound: PrivUnit's own, and that for any local randomizer.
_ROWS = (
    (1, "shuffle-clones"),
    (1, "privunit-blanket"),
    (8, "privunit-blanket"),
    (64, "privunit-blanket"),
    (512, "privunit-blanket"),
    (4096, "privunit-blanket"),
)
#: A report is the seed of a pseudorandom generator that the client chose by rejection.
MESSAGE_BITS = 128

ASSUMPTIONS = {
    "trusted-shuffler": "a shuffler hides who sent which report, when and in what size, and passes on batches"
    " of at least the stated number of clients",
    "prg-computational": "reports are seeds of a pseudorandom generator that nobody can tell from random",
    "no-trusted-server": "the server is not trusted",
}

_PROOFS = {
    "privacy-blanket": "the privacy blanket of PrivUnit for the worst pair of vectors",
    "privacy-blanket-numerical": "the privacy blanket of PrivUnit for each message, composed by FFT; its"
    " rounding errors are estimated, not bounded",
    "shuffle-clones-numerical": "numerical evaluation of the bound for any local randomizer (Feldman,"
    " McMillan and Talwar 2023)",
}


def check_shuffle(reference: Mechanism) -> None:
    """Raise ``UsageError`` where shuffled reports cannot stand beside ``reference``."""
    require_error_inputs(reference.geometry, "privunit-shuffle")
    if reference.factorization is not None:
        message = "privunit-shuffle is for one round; there is no factorized stream of it"
        raise UsageError("privunit-factorization", message, "leave out the factorization")
    if reference.sampling_rate < 1.0:
        message = "privunit-shuffle has no client sampling: a batch of fixed size shows who takes part"
        raise UsageError("privunit-sampling", message, "leave out the sampling rate")
    if reference.releases > 1:
        message = f"privunit-shuffle is for one round, got {reference.releases} rounds"
        raise UsageError("privunit-rounds", message, "use 1 round")
    if reference.adjacency is not Adjacency.REPLACE_ONE:
        message = f"privunit-shuffle is for adjacency replace-one, got {reference.adjacency}"
        raise UsageError("privunit-adjacency", message, "use adjacency replace-one for all rows")


def privunit_rows(
    geometry: Geometry, target: Target, gaussian: Calibration, *, verify: bool
) -> tuple[tuple[PrivUnitRow, ...], list[Notice]]:
    """Return one row for each of `_ROWS`, and notices.

    ``gaussian``: what the MSE ratios are relative to. A row without an answer is left out, with a notice.
    """
    rows, notices = [], []
    for messages, bound in _ROWS:
        try:
            rows.append(_row(geometry, target, gaussian, messages, bound))
        except NoAnswerError as error:
            said = f"privunit-shuffle with {_counted(messages)} ({bound}) is left out: {error.message}"
            notices.append(Notice("privunit-left-out", said))
    if verify:
        notices.append(
            Notice("privunit-not-verified", "rows of privunit-shuffle are not recomputed by --verify")
        )
    return tuple(rows), notices


def _row(geometry: Geometry, target: Target, gaussian: Calibration, messages: int, bound: str) -> PrivUnitRow:
    from csgm_cli.local.calibration import clones_epsilon, privunit_epsilon
    from csgm_cli.local.randomizer import optimal_randomizer, sphere_error

    n, d = geometry.cohort_size, geometry.dim
    assert n is not None  # check_shuffle saw to it
    assert d is not None
    assert gaussian.mse is not None
    if bound == "shuffle-clones":
        local, proof = clones_epsilon(n, target.epsilon, target.delta), "shuffle-clones-numerical"
    else:
        local = privunit_epsilon(n, messages, target.epsilon, target.delta)
        proof = "privacy-blanket" if messages == 1 else "privacy-blanket-numerical"
    randomizer = optimal_randomizer(local)
    scale, baseline = geometry.l2_norm**2 / (n * messages), gaussian.mse.total
    total = scale * randomizer.mean_squared_error(d)
    return PrivUnitRow(
        messages,
        local,
        randomizer.threshold,
        randomizer.cap_mass,
        target.epsilon,
        target.delta,
        bound,
        proof,
        tuple(ASSUMPTIONS),
        _statement(geometry, target, messages, local, proof),
        MeanSquaredError(total, 0.0, total, baseline, total / baseline),
        None if d == 1 else scale * sphere_error(d, local, randomizer.cap_mass),
        MESSAGE_BITS * messages,
    )


def _statement(geometry: Geometry, target: Target, messages: int, local: float, proof: str) -> str:
    """The guarantee in one paragraph, with what is left of it without the shuffler."""
    each = "" if messages == 1 else ", each message through a shuffle of its own"
    return (
        f"PrivUnitG at local epsilon {round_down(local)} on client vectors clipped to L2 norm"
        f" {geometry.l2_norm!r}, {_counted(messages)} from each of {geometry.cohort_size} clients{each},"
        f" satisfies ({round_up(target.epsilon)}, {round_up(target.delta)})-differential privacy in 1 round,"
        f" where neighbouring inputs differ by replacing one client's vector. Proof: {_PROOFS[proof]}."
        f" Assumed: {'; '.join(ASSUMPTIONS.values())}. Against the server and the shuffler together, a"
        f" client has local differential privacy with epsilon {round_up(messages * local)} only."
    )


def _counted(messages: int) -> str:
    return f"{messages} message{'s' * (messages > 1)}"
