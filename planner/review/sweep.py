"""Sweep a plan: every combination of the values of its axes, estimated and compared.

A point is the plan with a few more settings, so it is what `estimate` says of the plan with the
same `--set`. What is wrong with the plan or with a value of an axis ends the sweep before it
begins, all faults at once; what cannot be done at one point is that point's answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from planner._version import VERSION
from planner.arguments import texts, whole
from planner.errors import ExitCode, InputError
from planner.plan.load import LoadedPlan, read_plan_text
from planner.plan.matrix import MOST_POINTS, count, points as every
from planner.plan.objectives import METRICS
from planner.results import Verdict, VerdictPart
from planner.results.sweep import Sweep, SweepAxis, SweepMetric, SweepPoint
from planner.review.axes import axes_of, checked
from planner.review.pick import picks
from planner.review.point import Scene
from planner.review.saved import refuse_result
from planner.review.verdict import combine, verdict_of

if TYPE_CHECKING:
    from planner.engine.progress import Progress

Told = Callable[[int, int], None]
"""Told how many points are done, of how many."""


class SweepChoices(TypedDict, total=False):
    """How a sweep is worked on; what is left out is one process, all flows, and silence.

    `only` names the flows to look at. `processes` is how many work on it, as many as are worth
    while where it is `None`; with more than one, a script must guard its main code by
    `if __name__ == "__main__"`. `told` is called as points are done. `progress` is told of the
    calibration that `here` may need.
    """

    only: Sequence[str]
    processes: int | None
    told: Told | None
    progress: Progress | None


def sweep(
    path: str | os.PathLike[str],
    *,
    axes: Sequence[str] = (),
    settings: Sequence[str] = (),
    metric: str | None = None,
    **choices: Unpack[SweepChoices],
) -> Sweep:
    """Estimate every point of the plan's `matrix` and of `axes`.

    Parameters
    ----------
    path
        a plan.
    axes
        more axes, like those of `--sweep`: `chunk=1MiB,16MiB`, `links.pcie0.rate=50%,100%`,
        `machine=h200-sxm-1,pcie4-a100`. One with the key of an axis of the plan takes its place.
    settings
        overrides that hold at every point; one with the key of an axis of the plan fixes it.
    metric
        what points are compared by: a metric as objectives name it. The duration of the flow where
        there is one flow, else the makespan.
    choices
        how it is worked on: `SweepChoices`.

    Returns
    -------
    Sweep
        all points. Ctrl-C ends a sweep early: what is done by then is in it, and `complete` false.

    Raises
    ------
    InputError
        the plan, the machine or an axis is wrong; a `PlanError` lists every fault.
    """
    texts("axes", axes)
    texts("settings", settings)
    texts("only", choices.get("only", ()))
    if (processes := choices.get("processes")) is not None:
        whole("processes", processes, 1)
    refuse_result(path)
    text = read_plan_text(path)
    base = text.plan(settings)
    found = axes_of(base, axes, settings)
    if not found:
        raise InputError(
            f"{path} has no matrix, and no axis is given: there is nothing to sweep",
            hint="--sweep chunk=1MiB,16MiB, or in the plan matrix: { chunk: [1MiB, 16MiB] }",
        )
    if count(found) > MOST_POINTS:
        raise InputError(
            f"the axes have {count(found)} points together, more than {MOST_POINTS}",
            hint="take larger steps, or sweep fewer keys at once",
        )
    only = tuple(choices.get("only", ()))
    compared = _metric(metric, base, only)
    scene = Scene(text, tuple(settings), only, tuple(found), compared, {})
    checked(scene, base, choices.get("progress"))
    complete, points = _points(scene, choices.get("processes", 1), choices.get("told"))
    return _result(scene, base, points, complete=complete)


def _points(
    scene: Scene, processes: int | None, told: Told | None
) -> tuple[bool, list[SweepPoint]]:
    """All points, or those that were done before Ctrl-C; whether it is all of them."""
    from planner.review.pool import InterruptedSweepError, processes_for, work

    todo = list(enumerate(every(scene.axes)))
    several = processes_for(len(todo)) if processes is None else min(processes, len(todo))

    def done(number: int) -> None:
        if told is not None:
            told(number, len(todo))

    try:
        done(0)
        return True, work(scene, todo, several, done)
    except InterruptedSweepError as early:
        return len(early.points) == len(todo), early.points


def _metric(name: str | None, base: LoadedPlan, only: Sequence[str]) -> str:
    flows = [flow for flow in base.plan.flows if not only or flow in only]
    if name is None:
        return f"{flows[0]}.duration" if len(flows) == 1 else "makespan"
    last = name.rpartition(".")[2]
    metric = METRICS.get(last)
    if metric is None or metric.of == "run" or ("." in name) == (metric.subject == "plan"):
        known = ", ".join(
            m.name if m.subject == "plan" else f"<{m.subject}>.{m.name}"
            for m in METRICS.values()
            if m.of != "run"
        )
        raise InputError(f'an estimate has no metric "{name}"', hint=f"it has {known}")
    return name


def _result(scene: Scene, base: LoadedPlan, points: list[SweepPoint], *, complete: bool) -> Sweep:
    metric = METRICS[scene.metric.rpartition(".")[2]]
    shown = SweepMetric(
        name=scene.metric,
        unit=metric.unit,
        better="more" if metric.name == "rate" else "less",
    )
    planned = count(scene.axes)
    best, smallest, near = picks(points, scene.axes, shown)
    return Sweep(
        planner=VERSION,
        plan=base.plan.model_dump(mode="json"),
        settings=scene.settings,
        axes=tuple(SweepAxis(key=axis.key, values=axis.values) for axis in scene.axes),
        metric=shown,
        planned=planned,
        complete=complete,
        points=tuple(points),
        best=best,
        smallest=smallest,
        near_best=near,
        verdict=_verdict(points, planned, complete=complete),
    )


def _verdict(points: Sequence[SweepPoint], planned: int, *, complete: bool) -> Verdict:
    """What is said of all points together, and the exit code that goes with it."""
    parts = _judged(points)
    if not complete:
        sentence = f"Interrupted: {len(points)} of {_points_words(planned)} done."
        code = int(ExitCode.INTERRUPTED)
        parts = [VerdictPart(about="summary", sentence=sentence, exit_code=code), *parts]
    return verdict_of(parts)


def _judged(points: Sequence[SweepPoint]) -> list[VerdictPart]:
    """Whether points can be done, and how many of them meet the objectives."""
    feasible = [each for each in points if each.feasible]
    lost = len(points) - len(feasible)
    parts = []
    if any(each.objectives for each in feasible):
        met = sum(each.met is True for each in feasible)
        unknown = sum(each.met is None for each in feasible)
        sentence = f"{met or 'None'} of {_points_words(len(points))} "
        if unknown:
            sentence += f"{'are' if met > 1 else 'is'} known to meet all objectives; "
            sentence += f"{unknown} cannot be judged."
        else:
            sentence += f"meet{'s' if met == 1 else ''} all objectives."
        # As for one estimate: what it does not know, it does not miss.
        code = int(ExitCode.DONE if met or unknown else ExitCode.OBJECTIVE)
        parts.append(VerdictPart(about="objectives", sentence=sentence, exit_code=code))
    elif feasible:
        sentence = "The plan states no objectives."
        parts.append(VerdictPart(about="objectives", sentence=sentence))
    if feasible and lost:
        sentence = f"{_points_words(lost)} cannot be done."
        parts.append(VerdictPart(about="summary", sentence=sentence))
    elif lost:
        code = combine(each.exit_code for each in points)
        sentence = f"None of {_points_words(len(points))} can be done."
        parts.append(VerdictPart(about="summary", sentence=sentence, exit_code=code))
    return parts


def _points_words(number: int) -> str:
    return "1 point" if number == 1 else f"{number} points"
