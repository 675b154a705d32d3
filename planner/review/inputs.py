"""What people hand over, made ready: plans, saved estimates, and the machine to predict with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from planner.arguments import texts
from planner.errors import Fault, InputError, MachineError, PlanError, UnavailableError
from planner.plan.load import LoadedPlan, check_names, load_plan
from planner.plan.schema import Plan
from planner.plan.words import fill
from planner.review.pins import pin_faults, strategy_names, unknown_strategies
from planner.review.saved import refuse_result

if TYPE_CHECKING:
    from planner.engine.progress import Progress
    from planner.machine.schema import Machine

HERE = "here"
"""The machine name that stands for this computer."""

PathLike = str | os.PathLike[str]


def read_plan(
    source: Plan | LoadedPlan | PathLike,
    *,
    settings: Sequence[str] = (),
    only: Sequence[str] = (),
) -> LoadedPlan:
    """The plan at a path, or as given, with `settings` applied and all flows but `only` left out.

    Raises `PlanError` with every fault; `InputError` for settings on a plan that has no text, for
    a saved result, and for what is no plan at all.
    """
    texts("settings", settings)
    texts("only", only)
    if isinstance(source, Plan | LoadedPlan):
        if settings:
            raise InputError(
                "settings change the text of a plan, and this plan has none",
                hint="build the plan with those values, or give settings as it is loaded",
            )
        loaded = LoadedPlan(source) if isinstance(source, Plan) else source
    elif not isinstance(source, str | os.PathLike):
        raise InputError(
            f"{type(source).__name__} is no plan", hint="give a plan, or the path of its file"
        )
    else:
        refuse_result(source)
        loaded = load_plan(source, settings=settings)
    return LoadedPlan(only_flows(loaded.plan, only), loaded.positions) if only else loaded


def only_flows(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with the flows `names` alone; what waited for another flow waits no more.

    Compute blocks go too, and the objectives of everything that is gone. Raises `InputError` for
    a name that is no flow.
    """
    for name in names:
        if name not in plan.flows:
            near = get_close_matches(name, plan.flows, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the plan has {', '.join(plan.flows)}"
            raise InputError(f'the plan has no flow "{name}"', hint=hint)
    gone = {*plan.flows, *plan.compute} - set(names)
    flows = {
        name: flow.model_copy(update={"after": tuple(a for a in flow.after if a not in gone)})
        for name, flow in plan.flows.items()
        if name in names
    }
    objectives = tuple(o for o in plan.objectives if o.subject not in gone)
    return plan.model_copy(update={"flows": flows, "compute": {}, "objectives": objectives})


def with_cache(plan: Plan, machine: Machine, cache: Literal["warm", "cold"]) -> Plan:
    """The plan with the page cache of every flow that reads a disk in that state."""
    from planner.model.classes import fitted

    nodes = fitted(plan, machine).nodes
    disks = {name for name, node in nodes.items() if node.kind == "disk"}
    flows = {}
    for name, flow in plan.flows.items():
        first = fill(flow.source, next(flow.instances()))
        reads = flow.source in disks or first in disks
        flows[name] = flow.model_copy(update={"cache": cache}) if reads else flow
    return plan.model_copy(update={"flows": flows})


def machine_for(
    loaded: LoadedPlan,
    machine: Machine | str | None = None,
    *,
    progress: Progress | None = None,
) -> Machine:
    """The machine to predict `loaded` with, its names checked against the plan's.

    Parameters
    ----------
    loaded
        the plan; its own `machine` counts where `machine` is `None`.
    machine
        a machine, a catalogue name, a file, or `here`.
    progress
        told of the calibration that `here` may need.

    Raises
    ------
    MachineError
        there is no such machine, or its file is wrong.
    PlanError
        the plan names nodes, links or strategies that the machine lacks.
    UnavailableError
        likewise, where the machine is this computer.
    """
    plan = loaded.plan
    name = plan.machine if machine is None else machine
    if name == HERE:
        found = this_computer(plan, progress=progress)
        require_names(loaded, found)
        return found
    if isinstance(name, str):
        from planner.machine.load import load_machine

        folder = Path(plan.directory) if machine is None else None
        try:
            found = load_machine(name, directory=folder, overrides=plan.overrides)
        except MachineError as error:
            if error.faults or machine is not None or not plan.source_file:
                raise
            # The plan names it: its line says more than the name alone.
            fault = loaded.fault("machine", error.message, error.hint)
            raise MachineError(error.message, faults=[fault], hint=error.hint) from error
    else:
        found = name
    faults = name_faults(loaded, found)
    if faults:
        raise PlanError(f"the plan does not fit {found.name}", faults=faults)
    return found


def this_computer(
    plan: Plan, *, backend: str = "auto", progress: Progress | None = None
) -> Machine:
    """This computer, calibrated (or from the cache), with the plan's overrides applied."""
    from planner.engine.here import here
    from planner.machine.override import with_overrides

    return with_overrides(here(backend=backend, progress=progress), plan.overrides)


def require_names(loaded: LoadedPlan, machine: Machine) -> None:
    """Raise `UnavailableError` if the plan names something that this computer lacks.

    A strategy that nobody knows is a `PlanError`: it is no fault of the computer.
    """
    faults = unknown_strategies(loaded)
    if faults:
        raise PlanError(f"{loaded.plan.name} names what there is not", faults=faults)
    faults = name_faults(loaded, machine)
    if faults:
        first = faults[0]
        hint = f"it has {', '.join(machine.nodes)}"
        if first.suggestion and first.suggestion.endswith("?"):
            hint = f"{first.suggestion} {hint}"
        if machine.emulated and 'no node "gpu' in first.message:
            hint += "; `planner calibrate --emulate-gpus N` lets RAM stand in for N GPUs"
        raise UnavailableError(
            f"this computer cannot run {loaded.plan.name}: {first.message} "
            f"({f'{first.position()} {first.path}' if first.line else first.file})",
            hint=hint,
        )


def name_faults(loaded: LoadedPlan, machine: Machine) -> list[Fault]:
    """What the plan names and the machine, or the tool, lacks."""
    from planner.machine.replicate import all_names

    found = check_names(loaded, *all_names(machine), strategy_names(loaded))
    return found or pin_faults(loaded, machine)


def machine_faults(loaded: LoadedPlan) -> list[Fault]:
    """The faults of the plan's machine and of the names in it.

    `here` is measured, not checked: a plan for it may misname strategies alone.
    """
    from planner.machine.load import load_machine

    plan = loaded.plan
    if plan.machine == HERE:
        return unknown_strategies(loaded)
    try:
        machine = load_machine(
            plan.machine, directory=Path(plan.directory), overrides=plan.overrides
        )
    except MachineError as error:
        return list(error.faults) or [loaded.fault("machine", error.message, error.hint)]
    return name_faults(loaded, machine)
