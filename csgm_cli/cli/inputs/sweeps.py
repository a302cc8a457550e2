"""The sweep of a command line: its points, and the row of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from csgm_cli.cli.inputs.mechanisms import (
    NOISE,
    build_gamma,
    build_mechanism,
    build_noise,
    delta_notices,
    inputs,
    resolved,
)
from csgm_cli.cli.options.request import EXCLUSIVES, Exclusive, Request, is_sampled, settled
from csgm_cli.cli.options.sources import Rank, Source, flag_of
from csgm_cli.cli.options.vary import Varied, varied_label
from csgm_cli.errors import NoAnswerError, UsageError
from csgm_cli.model.comparison import Question
from csgm_cli.model.mechanism import Accountant, Adjacency
from csgm_cli.model.mechanism_table import MechanismName
from csgm_cli.model.participation import REPEATED_KEYS
from csgm_cli.model.result import Notice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from csgm_cli.jobs.sweep import Point, Values
    from csgm_cli.render.document import Document

_TARGET = ("epsilon", "delta")
_REPEATED = ("participations", "min_separation")
#: Options that settle an input which a result shows as resolved.
_SETTLED_BY = {
    "gamma": {"gamma", "compression"},
    "compression": {"gamma", "compression"},
    "norm_ratio": {"norm_ratio", "linf_norm", "l2_norm", "dim", "cohort_size"},
    "linf_norm": {"norm_ratio", "linf_norm", "l2_norm", "dim", "cohort_size"},
    "rounds": {"rounds", "population_size", "training_rounds", "cohort_size", *_REPEATED},
    "sampling_rate": {"sampling_rate", "client_sampling", "population_size", "cohort_size"},
    "epochs": {"epochs"},
    **{name: set(_REPEATED) for name in _REPEATED},
}


@dataclass(frozen=True)
class Sweep:
    """Every point of a sweep.

    ``request``: what all points share, with the varied options at those of the first. ``vary``: the
    varied options in order, with all values of each; each of ``points`` has one of them.
    """

    request: Request
    vary: Mapping[str, Sequence[Values]]
    points: Sequence[Point]

    def identity(self, index: int) -> Document:
        """Return what tells the row of a point from others; the first keys of that row.

        ``epsilon`` as it was asked for is ``target_epsilon`` where the noise is the answer.
        """
        request = self._at(index)
        name = MechanismName(request["mechanism"])
        keys = {"epsilon": "epsilon" if list(request.given(NOISE)) else "target_epsilon"}
        varied = {keys.get(option, option): request[option] for option in self.vary if option != "gamma"}
        fixed = {"mechanism": name.value, "gamma": build_gamma(request, name)}
        return {**fixed, **varied, "accountant": Accountant(request["accountant"]).value}

    def question(self, index: int) -> Question:
        """Return what a point asks; ``UsageError`` where that is no question."""
        return self._question(index)[0]

    def solve(self, index: int) -> tuple[Document, tuple[Notice, ...]]:
        """Return the row of a point, and its notices."""
        from csgm_cli.jobs.sweep import answer
        from csgm_cli.render.document import sweep_row

        identity = self.identity(index)
        try:
            question, notices = self._question(index)
            calibration = answer(question)
        except (UsageError, NoAnswerError) as error:
            return sweep_row(identity, None, (), Notice(error.slug, error.message)), ()
        notices += delta_notices(self._at(index), [calibration.guarantee.delta])
        notices = tuple(dict.fromkeys((*notices, *calibration.notices)))
        return sweep_row(identity, calibration, notices), notices

    def inputs(self) -> dict[str, object]:
        """Return the inputs of all points: lists of varied ones, resolved values of those all share."""
        lists = {name: list(values) for name, values in self.vary.items()}
        shared = {
            name: None if by & self.vary.keys() else self.request[name] for name, by in _SETTLED_BY.items()
        }
        if not is_sampled(self.request):
            shared["sampling_rate"] = 1.0
        first = self._at(0)
        try:
            found = resolved(first, build_mechanism(first)[0])
        except UsageError:  # the first point's fault alone
            found = {}
        if self.vary.keys() & _REPEATED:
            found = {name: value for name, value in found.items() if name not in REPEATED_KEYS}
        shared |= {
            name: value
            for name, value in found.items()
            if not _SETTLED_BY.get(name, set()) & self.vary.keys()
        }
        return inputs(self.request, **{**shared, **lists, "vary": list(self.vary)})

    def _at(self, index: int) -> Request:
        return Request({**self.request.values, **self.points[index]}, self.request.sources)

    def _question(self, index: int) -> tuple[Question, tuple[Notice, ...]]:
        from csgm_cli.jobs.sweep import check_question

        request = self._at(index)
        mechanism, notices = build_mechanism(request)
        noise = build_noise(request, mechanism.geometry.l2_norm)
        question = Question(
            mechanism,
            Accountant(request["accountant"]),
            request["epsilon"],
            request["delta"],
            noise,
            request["verify"],
            request["value_bits"],
        )
        check_question(question)
        return question, notices


def build_sweep(request: Request) -> Sweep:
    """Return the sweep asked for; ``UsageError`` where not one point of it is a question."""
    if request["preset"] is not None:
        return _preset(request)
    from csgm_cli.jobs.sweep import Grid

    if not request["vary"]:
        raise UsageError("missing-option", "sweep needs --vary or --preset", "--vary may be repeated")
    axes: tuple[Varied, ...] = request["vary"]
    template = _with_first_values(request, axes)
    _check_asked(template)
    vary = {axis.name: axis.values for axis in axes}
    sweep = Sweep(template, vary, Grid(tuple(vary.items())))
    _check_any_question(sweep)
    return sweep


def _with_first_values(request: Request, axes: Sequence[Varied]) -> Request:
    """Put varied options in the place of fixed ones from a weaker source; settle what excludes what."""
    values, sources = dict(request.values), dict(request.sources)
    rank = sources["vary"].rank
    for number, axis in enumerate(axes):
        if axis.name in [other.name for other in axes[:number]]:
            raise UsageError("repeated-option", f"{varied_label(axis.name)} may be given once")
        if request.rank((axis.name,)) >= rank:
            label = request.label((axis.name,))
            raise UsageError("conflicting-options", f"{label} is both fixed and varied", "pass one of them")
        values[axis.name], sources[axis.name] = axis.values[0], Source(rank, varied_label(axis.name))
    request = settled(Request(values, sources), EXCLUSIVES)
    if not list(request.given(NOISE)):
        return request
    answer = f"with {request.label(NOISE)} one of them is the answer: pass the other"
    return settled(request, [Exclusive(("delta",), ("epsilon",), hint=answer)])


def _check_asked(request: Request) -> None:
    given = list(request.given(_TARGET))
    if list(request.given(NOISE)):
        if not given:
            raise UsageError(
                "missing-option", "a sweep with the noise given needs --delta or --epsilon", "fixed or varied"
            )
        return
    for name in _TARGET:
        if name not in given:
            hint = "fixed or varied; or give the noise, to ask for one of epsilon and delta"
            raise UsageError("missing-option", f"sweep needs {flag_of(name)}", hint)


def _check_any_question(sweep: Sweep) -> None:
    """Raise an error that all points share once, as a usage error."""
    first: UsageError | None = None
    for index in range(len(sweep.points)):
        try:
            sweep.question(index)
        except UsageError as error:
            first = first or error
        else:
            return
    assert first is not None  # a grid has points
    raise first


def _preset(request: Request) -> Sweep:
    from csgm_cli.jobs.sweep import FIGURE_TARGET, figure_one

    given = request.rank(("accountant",)) > Rank.DEFAULT
    accountant = Accountant(request["accountant"]) if given else Accountant.PAPER
    fixed = {"epsilon": FIGURE_TARGET.epsilon, "delta": FIGURE_TARGET.delta, "l2_norm": 1.0, "rounds": 1}
    words = {"adjacency": Adjacency.ADD_REMOVE.value, "accountant": accountant.value}
    values: dict[str, Any] = {**request.values, **fixed, **words}
    points = figure_one(accountant)
    vary = {name: _different(point[name] for point in points) for name in ("norm_ratio", "gamma")}
    return Sweep(Request(values, request.sources), vary, points)


def _different(values: Iterable[Values]) -> list[Values]:
    return [value for value in dict.fromkeys(values) if value is not None]
