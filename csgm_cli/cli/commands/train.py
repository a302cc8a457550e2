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
    state = _run_rounds(request, asked, inputs)
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


def _run_rounds(request: Request, asked: AskedTraining, inputs: dict[str, Any]) -> TrainingState:
    """Return the state after the last round, or at an interrupt after the last one that was finished."""
    training, path = asked.training, request["checkpoint"]
    state = training.start
    if path is None:
        kept = None
    else:
        from csgm_cli.storage.arrays.checkpoints import load_training

        described = {**inputs, "dataset_sha256": training.dataset.sha256, "csgm_version": __version__}
        kept = load_training(path, described, state)
        if kept is not None:
            state = kept
            console.note(f"going on from round {len(state.rounds)} in {path}")
    saved = -_PAUSE
    try:
        with interrupts.unwinding(), console.progress(training.rounds, "rounds") as advance:
            for state in training.run(kept):
                advance(len(state.rounds))
                if path is not None and monotonic() - saved >= _PAUSE:
                    _save(path, described, state)
                    saved = monotonic()
    except KeyboardInterrupt:
        pass
    finally:
        if path is not None:
            _save(path, described, state)
    return state


def _save(path: str, described: dict[str, Any], state: TrainingState) -> None:
    from csgm_cli.storage.arrays.checkpoints import save_training

    with interrupts.unwinding():
        save_training(path, described, state)


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
