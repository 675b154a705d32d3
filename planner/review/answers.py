"""The questions that people and programs ask: is the plan right, how long, and how long really.

The command line and `import planner` call the same three functions.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from planner.arguments import factor, one_of, texts, whole
from planner.errors import (
    InfeasibleError,
    InputError,
    UnavailableError,
)
from planner.plan.load import LoadedPlan
from planner.plan.objectives import Objective
from planner.plan.schema import Plan
from planner.results import CheckResult, Estimate, Run
from planner.review.checking import read_files
from planner.review.inputs import (
    HERE,
    PathLike,
    machine_for,
    read_plan,
    require_names,
    this_computer,
    with_cache,
)
from planner.review.objectives import estimate_metrics, judge, judge_all, run_metrics
from planner.review.saved import require_agreement, saved_estimate
from planner.review.slack import slack
from planner.review.verdict import estimate_verdict, run_verdict
from planner.units import format_rate

MANY_FLOWS = 1000
"""Flows from which on a prediction takes seconds, and says beforehand how many there are."""

if TYPE_CHECKING:
    from planner.engine.progress import Progress
    from planner.machine.schema import Machine


def check(paths: PathLike | Iterable[PathLike], *, settings: Sequence[str] = ()) -> CheckResult:
    """What the plans at `paths` say, resolved; machines and source files are looked at too.

    Machine files are checked by themselves. Raises `PlanError` with all faults of all files, in the
    order of the paths.
    """
    texts("settings", settings)
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return read_files(several, settings=settings).result()


def estimate(
    plan: Plan | LoadedPlan | PathLike,
    *,
    machine: Machine | str | None = None,
    settings: Sequence[str] = (),
    only: Sequence[str] = (),
    progress: Progress | None = None,
) -> Estimate:
    """How the plan is best done on the machine, how long it takes, and whether that is enough.

    Parameters
    ----------
    plan
        a plan, as `load_plan` gives it or built in Python, or the path of one.
    machine
        a machine, a catalogue name, a file or `here`; the plan's own where it is `None`.
    settings
        overrides like those of `--set`: `weights=70GB`, `links.pcie0.forward.rate=25GB/s`.
    only
        names of the flows to look at; all where it is empty.
    progress
        told of the calibration that `here` may need.

    Raises
    ------
    InputError
        the plan or the machine is wrong; a `PlanError` lists every fault.
    InfeasibleError
        there is no route, or something does not fit.
    UnavailableError
        the plan is for this computer, which lacks what it names.
    """
    loaded = read_plan(plan, settings=settings, only=only)
    return _predict(loaded, machine_for(loaded, machine, progress=progress), progress)


def _predict(
    loaded: LoadedPlan, machine: Machine, progress: Progress | None, *, to_run: bool = False
) -> Estimate:
    """The prediction; where it is `to_run`, without what the engine cannot carry out."""
    from planner.model.classes import flows_apart
    from planner.model.estimate import estimate as predict
    from planner.model.strategies import EXECUTABLE

    apart = flows_apart(loaded.plan, machine)
    if progress is not None and apart >= MANY_FLOWS:
        progress.note(f"{apart} flows are predicted one by one, at some milliseconds each")
    only = EXECUTABLE if to_run else None
    return judged(predict(loaded.plan, machine, only=only), loaded.plan)


def judged(estimate: Estimate, plan: Plan, *, brief: bool = False) -> Estimate:
    """The estimate with the plan's objectives judged, and the verdict that follows.

    A `brief` answer does not say how far they hold, which takes as long as many predictions.
    """
    metrics = estimate_metrics(estimate)
    objectives = tuple(
        judge(objective, metrics, holds_while=None if brief else _holds_while(objective, estimate))
        for objective in plan.objectives
    )
    verdict = estimate_verdict(objectives)
    return estimate.model_copy(update={"objectives": objectives, "verdict": verdict})


def _holds_while(objective: Objective, estimate: Estimate) -> str | None:
    """`pcie0.forward >= 13.7 GB/s`: the slack of the objective as a condition."""
    found = slack(objective, estimate)
    if found is None or not math.isfinite(found.rate_bytes_per_s):
        return None
    return f"{found.resource} >= {format_rate(found.rate_bytes_per_s)}"


class RunChoices(TypedDict, total=False):
    """How a run is measured; what is left out is the engine's default.

    `samples` (5) runs are measured after `warmup` (1) that are not. `cache` brings the page cache
    of file sources to that state before each sample, and the prediction is made for it; without it
    the plan's own state counts.
    `verify` (yes) compares every byte that arrived with the source. `overwrite` (no) lets a flow
    write over a file that exists. `keep_scratch` (no) keeps scratch files for the next run.
    `nvtx` (no) names flows, hops and chunks to a profiler.
    """

    samples: int
    warmup: int
    cache: Literal["warm", "cold"] | None
    verify: bool
    overwrite: bool
    keep_scratch: bool
    nvtx: bool


def execute(
    what: Plan | LoadedPlan | Estimate | PathLike,
    *,
    settings: Sequence[str] = (),
    only: Sequence[str] = (),
    backend: Literal["auto", "cuda", "host", "null"] = "auto",
    max_error: float | None = None,
    progress: Progress | None = None,
    **choices: Unpack[RunChoices],
) -> Run:
    """Move the bytes of a plan for real and hold the measurement against the prediction.

    The prediction is made for the computer that it runs on, whatever machine the plan names.

    Parameters
    ----------
    what
        a plan or its path, to be planned and run; or an estimate or the path of a saved one, whose
        schedule is run unchanged.
    settings, only
        as for `estimate`; not for a saved estimate, which is run as it is.
    backend
        what moves the bytes; `auto` takes cuda where a GPU is, else host, where HBM is emulated in
        RAM. `null` moves nothing: it follows the schedule on a virtual clock, on the machine that
        the plan names.
    max_error
        a factor from 1 up: the verdict fails if the prediction is off by more, either way.
    progress
        told how far each flow is.
    choices
        how it is measured: `RunChoices`.

    Raises
    ------
    InputError
        the plan or the saved estimate is wrong.
    InfeasibleError
        it cannot be done, or does not fit.
    UnavailableError
        this computer cannot run it: no device, no library, no such node.
    ExecutionError
        it began and failed; a `VerificationError` if what arrived differs from the source.
    """
    _require_sense(backend, max_error, choices)
    loaded, saved = _what_to_run(what, settings, only)
    machine = _machine_to_run_on(loaded, saved, backend, progress)
    if (cache := choices.get("cache")) is not None:
        # The state that is enforced is the one to predict for.
        loaded = LoadedPlan(with_cache(loaded.plan, machine, cache), loaded.positions)
    prediction = _prediction(loaded, saved, machine, progress)
    run = _carry_out(
        loaded.plan, machine, estimate=prediction, backend=backend, progress=progress, **choices
    )
    meant = str(saved.machine.get("name")) if saved is not None else loaded.plan.machine
    return _judged_run(run, loaded.plan, machine, max_error, meant=meant)


def _require_sense(backend: str, max_error: float | None, choices: RunChoices) -> None:
    """Raise `InputError` for a choice that is none, before anything takes time."""
    one_of("backend", backend, ("auto", "cuda", "host", "null"))
    if max_error is not None:
        factor("max_error", max_error)
    whole("samples", choices.get("samples", 1), 1)
    whole("warmup", choices.get("warmup", 0), 0)
    if choices.get("cache") is not None:
        one_of("cache", choices.get("cache"), ("warm", "cold"))


def _carry_out(plan: Plan, machine: Machine, **given: Any) -> Run:
    """The engine's own `execute`; its libraries load only here."""
    from planner.engine.execute import execute as carry_out

    return carry_out(plan, machine, **given)


def _what_to_run(
    what: Plan | LoadedPlan | Estimate | PathLike, settings: Sequence[str], only: Sequence[str]
) -> tuple[LoadedPlan, Estimate | None]:
    """The plan to run and, where the schedule is given already, the estimate that gives it."""
    found: Estimate | None
    if isinstance(what, Estimate):
        found = what
    else:
        is_path = isinstance(what, str | os.PathLike)
        found = saved_estimate(what) if is_path else None  # type: ignore[arg-type]
    if found is None:
        if isinstance(what, Estimate):  # pragma: no cover - `found` is `what` then
            raise TypeError
        return read_plan(what, settings=settings, only=only), None
    if settings or only:
        raise InputError(
            "an estimate is run exactly as it was saved: --set and --only do not apply",
            hint="make a new estimate with them, or execute the plan",
        )
    require_agreement(found)
    return LoadedPlan(Plan.model_validate(found.plan)), found


def _machine_to_run_on(
    loaded: LoadedPlan, saved: Estimate | None, backend: str, progress: Progress | None
) -> Machine:
    """This computer; for the null backend, which needs none, the machine that the plan names."""
    if backend != "null":
        machine = this_computer(loaded.plan, backend=backend, progress=progress)
        require_names(loaded, machine)
        return machine
    if saved is not None:
        from planner.machine.schema import Machine

        return Machine.model_validate(saved.machine)
    return machine_for(loaded, progress=progress)


def _prediction(
    loaded: LoadedPlan, saved: Estimate | None, machine: Machine, progress: Progress | None
) -> Estimate:
    """The prediction for this machine; of the saved schedule, where there is one."""
    if saved is None:
        return _predict(loaded, machine, progress, to_run=True)
    from planner.model.estimate import estimate as predict

    schedules = {flow.name: flow.schedule for flow in saved.flows}
    try:
        return judged(predict(loaded.plan, machine, schedules=schedules), loaded.plan)
    except InfeasibleError as error:
        # The plan may be possible here by other means; this schedule is not.
        instead = "execute the plan instead: it is planned for this computer then"
        raise UnavailableError(
            f"{machine.name} cannot run the saved schedule: {error.message}",
            hint=f"{error.hint}; or {instead}" if error.hint else instead,
        ) from error


def _judged_run(
    run: Run, plan: Plan, machine: Machine, max_error: float | None, *, meant: str
) -> Run:
    """The run with the objectives judged on the measurement, and the verdict that follows.

    `meant` is the machine that the plan names, or that a saved estimate was made for.
    """
    objectives = judge_all(plan.objectives, run_metrics(run))
    verdict = run_verdict(objectives, run.flows, error_factor=run.error_factor, max_error=max_error)
    warnings = run.warnings
    if run.environment.backend != "null" and meant not in (HERE, machine.name):
        note = f"the plan is for {meant}; predicted and measured on {machine.name} instead"
        warnings = (note, *warnings)
    return run.model_copy(
        update={"objectives": objectives, "verdict": verdict, "warnings": warnings}
    )
