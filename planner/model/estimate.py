"""The prediction: needs, choice, simulation, and what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from planner._version import VERSION
from planner.machine.schema import Machine
from planner.machine.shift import knows_spread, shifted
from planner.machine.topology import Topology
from planner.model.arrange import Arrangement, moved
from planner.model.bound import lower_bound
from planner.model.capacity import require_room
from planner.model.classes import fitted
from planner.model.compose import Composition, compose, steadily
from planner.model.contend import Chosen, choose_together
from planner.model.copies import passed_on
from planner.model.follow import provenance, what_if
from planner.model.held import peaks
from planner.model.needs import Demand, demands
from planner.model.predicted import (
    Prediction,
    compute_estimate,
    flow_estimate,
    overall,
    resource_uses,
)
from planner.model.stand_ins import stand_ins
from planner.model.unheeded import unheeded
from planner.plan.schema import Plan
from planner.results import Estimate, FlowEstimate, FlowSchedule, Verdict


def estimate(
    plan: Plan,
    machine: Machine,
    *,
    schedules: Mapping[str, FlowSchedule] | None = None,
    cached: Mapping[str, float] | None = None,
    only: Collection[str] | None = None,
    single_ways: bool = False,
    brief: bool = False,
) -> Estimate:
    """Choose a schedule for every flow of the plan and predict what happens.

    Parameters
    ----------
    plan, machine
        What must move, and on what; `machine` overrides of the plan are already applied.
    schedules
        Schedules to predict as they are, by flow; flows without one are chosen.
    cached
        Share of a flow's source file that is in the page cache, where it was probed.
    only
        Names of the strategies that whoever executes the choice can do; all where it is `None`.
    single_ways
        Leave out flows over several ways and copies that are passed on, to compare them with.
    brief
        Leave out what is only told beside the prediction and takes as long as it: the effect of
        doubling each resource, the arithmetic, what was rejected, shapes that do as well, the lower
        bound, the provenance.

    Raises
    ------
    PlanError
        If the plan names a node that the machine lacks.
    InfeasibleError
        If a flow has no way, or something does not fit.

    """
    machine = fitted(plan, machine)
    topology = Topology(machine)
    wanted = demands(plan, machine, cached)
    fixed = _given(topology, wanted, schedules) if schedules else {}
    chosen, composed = choose_together(
        plan, topology, wanted, fixed, only=only, single_ways=single_ways, brief=brief
    )
    require_room(machine, *_halves(chosen), composed)
    steady = steadily(plan, machine, *_halves(chosen))
    predicted = Prediction(composed, *_bounds(plan, machine, chosen), steady)
    told = {} if brief else _told_beside(plan, machine, chosen, composed)
    return _result(plan, machine, chosen, predicted, told)


def _given(
    topology: Topology, wanted: Sequence[Demand], schedules: Mapping[str, FlowSchedule]
) -> dict[str, Arrangement]:
    """The arrangements that the schedules describe, by the name of the need."""
    from planner.model.saved import arrangement_of  # a plan without schedules starts without it

    return {
        d.need.name: arrangement_of(topology, d.need, schedules[d.need.name])
        for d in wanted
        if d.need.name in schedules
    }


def _result(
    plan: Plan,
    machine: Machine,
    chosen: Sequence[Chosen],
    predicted: Prediction,
    told: Mapping[str, Any],
) -> Estimate:
    composed = predicted.composed
    found = [flow_estimate(item, predicted, i, brief=not told) for i, item in enumerate(chosen)]
    flows = passed_on(found)
    makespan = composed.makespan
    wanted, arrangements = _halves(chosen)
    return Estimate(
        planner=VERSION,
        plan=plan.model_dump(mode="json"),
        machine=machine.model_dump(mode="json", by_alias=True),
        emulated=machine.emulated,
        flows=flows,
        compute=tuple(compute_estimate(plan, part) for part in composed.compute),
        makespan_s=makespan,
        interval_s=predicted.interval(lambda c: c.makespan),
        bottleneck=overall(flows, makespan),
        resources=resource_uses(machine, composed),
        nodes=peaks(machine, wanted, arrangements, composed),
        context_s=_context(machine, flows),
        warnings=_warnings(plan, machine, chosen),
        verdict=Verdict(passed=True, exit_code=0, sentence="No objectives."),
        **told,
    )


def _told_beside(
    plan: Plan, machine: Machine, chosen: Sequence[Chosen], composed: Composition
) -> dict[str, Any]:
    """What is told beside the prediction: fields of an estimate that a brief one lacks."""
    bound = lower_bound(plan, machine, *_halves(chosen), composed)
    return {
        "what_if": what_if(machine, composed, lambda m: _again(plan, m, chosen).makespan),
        "lower_bound_s": bound,
        # Both are sums of the same times, here with rounded beginnings (`fluid.INSTANT`): no gap.
        "gap": round(composed.makespan / bound - 1, 9) if bound > 0 else 0.0,
        "provenance": provenance(machine),
    }


def _halves(chosen: Sequence[Chosen]) -> tuple[list[Demand], list[Arrangement]]:
    return [c.demand for c in chosen], [c.arrangement for c in chosen]


def _again(plan: Plan, machine: Machine, chosen: Sequence[Chosen]) -> Composition:
    """The same choices on a machine with other numbers."""
    wanted, arrangements = _halves(chosen)
    return compose(plan, machine, wanted, [moved(machine, a) for a in arrangements])


def _bounds(
    plan: Plan, machine: Machine, chosen: Sequence[Chosen]
) -> tuple[Composition | None, Composition | None]:
    """The plan with every rate at its lower, and at its upper quartile."""
    if not knows_spread(machine):
        return None, None
    return (
        _again(plan, shifted(machine, "low"), chosen),
        _again(plan, shifted(machine, "high"), chosen),
    )


def _context(machine: Machine, flows: Sequence[FlowEstimate]) -> float:
    """Seconds to start the drivers' contexts of all GPUs that take part; listed apart."""
    used = {end for f in flows for hop in f.schedule.hops for end in (hop.start, hop.end)}
    return float(sum(getattr(machine.nodes[name], "context", 0.0) for name in sorted(used)))


def _warnings(plan: Plan, machine: Machine, chosen: Sequence[Chosen]) -> tuple[str, ...]:
    """What the reader should know before believing the numbers."""
    found = []
    if not knows_spread(machine):
        found.append(f"no spread is known for the numbers of {machine.name}: no interval is given")
    starts = {c.demand.flow: c.demand.need.start for c in reversed(chosen)}
    for name, flow in plan.flows.items():
        if flow.cache == "auto" and machine.nodes[starts[name]].kind == "disk":
            found.append(
                f"{name}: cache auto counts as cold in an estimate; say cache: warm or cold"
            )
    return (*found, *stand_ins(plan, chosen), *unheeded(plan, machine, chosen))
