"""``csgm simulate train``: train a model with a calibrated mechanism, and record accuracy and bytes."""

from __future__ import annotations

import platform
from time import monotonic
from typing import TYPE_CHECKING, Any

from csgm_cli.cli import console, interrupts
from csgm_cli.cli.exits import ExitCode
from csgm_cli.cli.inputs.trainings import AskedTraining, build_training, training_inputs
from csgm_cli.cli.output.elapsed_time import working
from csgm_cli.cli.output.plot import check_plot, report_with_picture
from csgm_cli.cli.output.report import report
from csgm_cli.model.simulation import TrainingRun
from csgm_cli.rounding import exact, round_up
from csgm_cli.version import __version__

if TYPE_CHECKING:
    from csgm_cli.cli.options.request import Request
    from csgm_cli.model.result import Notice
    from csgm_cli.model.simulation import TrainingCost, TrainingState
    from csgm_cli.simulation.training import Training

#: Seconds between two checkpoints.
_PAUSE = 2.0


def train(request: Request, not_private: Notice) -> ExitCode:
    """Train and report; after Ctrl-C report the rounds so far, and exit with 130."""
    check_plot(request)
    _check_files(request)
    with working():
        asked = build_training(request)
    inputs = training_inputs(request, asked.training.plan)
    console.note(_cost_line(asked.cost))
    for notice in asked.notices:
        console.warning(notice.slug, notice.message)
    state = _run_rounds(request, asked.training, inputs)
    run = _result(asked, state)
    _report(request, inputs, run, asked.notices, not_private)
    if run.is_complete:
        return ExitCode.OK
    done = f"interrupted after round {len(run.rounds)} of {run.planned_rounds}"
    goes_on = (
        "the same command goes on from there" if request["checkpoint"] else "--checkpoint FILE would resume"
    )
    console.note(f"{done}; {goes_on}")
    return ExitCode.INTERRUPTED


def _check_files(request: Request) -> None:
    from csgm_cli.storage.files import check_writable

    for name in ("output", "checkpoint"):
        if request[name] is not None:
            check_writable(request[name])


def _cost_line(cost: TrainingCost) -> str:
    return (
        f"plan: noise inflation {round_up(cost.noise_inflation, 4)},"
        f" {exact(round(cost.bytes_per_client))} bytes per client and round (all parameters in float32:"
        f" {exact(cost.dense_bytes_per_client)}), noise-to-signal ratio {round_up(cost.noise_to_signal, 3)}"
    )


def _run_rounds(request: Request, training: Training, inputs: dict[str, Any]) -> TrainingState:
    """Return the state after the last round, or at an interrupt after the last one that was finished."""
    checkpoint = _Checkpoint(request["checkpoint"], training, inputs)
    kept = checkpoint.load()
    state = kept or training.start
    try:
        with interrupts.unwinding(), console.progress(training.rounds, "rounds") as advance:
            for state in training.run(kept):
                advance(len(state.rounds))
                checkpoint.save(state)
    except KeyboardInterrupt:
        pass
    finally:
        checkpoint.save(state, now=True)
    return state


class _Checkpoint:
    """The file of ``--checkpoint``, which is written every two seconds; without one nothing is."""

    def __init__(self, path: str | None, training: Training, inputs: dict[str, Any]) -> None:
        self._path, self._training, self._saved = path, training, -_PAUSE
        sha256 = "" if path is None else training.dataset.sha256
        self._described = {**inputs, "dataset_sha256": sha256, "csgm_version": __version__}

    def load(self) -> TrainingState | None:
        """The state to go on from; None at the beginning."""
        if self._path is None:
            return None
        from csgm_cli.storage.arrays.checkpoints import load_training

        kept = load_training(self._path, self._described, self._training.start)
        if kept is not None:
            console.note(f"going on from round {len(kept.rounds)} in {self._path}")
        return kept

    def save(self, state: TrainingState, *, now: bool = False) -> None:
        """Write the state if it is time for it, or ``now``."""
        if self._path is None or not (now or monotonic() - self._saved >= _PAUSE):
            return
        from csgm_cli.storage.arrays.checkpoints import save_training

        with interrupts.unwinding():
            save_training(self._path, self._described, state)
        self._saved = monotonic()


def _result(asked: AskedTraining, state: TrainingState) -> TrainingRun:
    from csgm_cli.simulation.networks import NUMPY_VERSION

    training = asked.training
    return TrainingRun(
        calibration=asked.calibration,
        cost=asked.cost,
        rounds=state.rounds,
        planned_rounds=training.rounds,
        dataset=training.dataset.name,
        dataset_sha256=training.dataset.sha256,
        examples_per_client=training.clients.shape[1],
        parameters=training.network.dim,
        bytes_are_expected=training.plan.mechanism.sampling_rate < 1.0,
        versions={"python": platform.python_version(), "numpy": NUMPY_VERSION},
    )


def _report(
    request: Request, inputs: dict[str, Any], run: TrainingRun, notices: tuple[Notice, ...], last: Notice
) -> None:
    from csgm_cli.render.document import training_document

    document = training_document(inputs, run, (*notices, last))
    shown = [notice.slug for notice in notices]
    if request["plot"] is None or not run.rounds:
        report(request, document, shown=shown)
        return
    from csgm_cli.render.plots.training import training_figure

    report_with_picture(request, document, training_figure(document), shown)
