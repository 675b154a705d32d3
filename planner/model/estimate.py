"""The prediction: needs, choice, simulation, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planner._version import VERSION
from planner.machine.schema import Machine
from planner.machine.shift import knows_spread, shifted
from planner.machine.topology import Topology
from planner.model.bottleneck import bottleneck
from planner.model.choose import Candidate, Decision, decide
from planner.model.compose import Composition, Fluid, Part, compose, fluid
from planner.model.explain import arithmetic
from planner.model.follow import provenance, what_if
from planner.model.memory import peaks
from planner.model.needs import Demand, demands
from planner.model.scheduled import candidate_of, rebased
from planner.plan.schema import Plan
from planner.results import (
    Bottleneck,
    ComputeEstimate,
    Estimate,
    FlowEstimate,
    FlowSchedule,
    HopEstimate,
    Rejected,
    ResourceUse,
    Verdict,
)


@dataclass(frozen=True)
class _Chosen:
    """One demand with its candidate, and what else was looked at."""

    demand: Demand
    candidate: Candidate
    fluids: list[Fluid]
    rejected: tuple[Rejected, ...]


def estimate(
    plan: Plan,
    machine: Machine,
    *,
    schedules: Mapping[str, FlowSchedule] | None = None,
    cached: Mapping[str, float] | None = None,
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

    Raises
    ------
    PlanError
        If the plan names a node that the machine lacks.
    InfeasibleError
        If a flow has no way, or something does not fit.

    """
    topology = Topology(machine)
    chosen = [
        _choose(topology, demand, (schedules or {}).get(demand.need.name))
        for demand in demands(plan, machine, cached)
    ]
    composed = _compose(plan, machine, chosen)
    slow, fast = _bounds(plan, machine, chosen)
    flows = tuple(
        _flow(item, composed, part, slow, fast, index)
        for index, (item, part) in enumerate(zip(chosen, composed.parts, strict=True))
    )
    makespan = composed.result.makespan
    return Estimate(
        planner=VERSION,
        plan=plan.model_dump(mode="json"),
        machine=machine.model_dump(mode="json", by_alias=True),
        emulated=machine.emulated,
        flows=flows,
        compute=tuple(_compute(plan, composed, part) for part in composed.compute),
        makespan_s=makespan,
        interval_s=_pair(fast, slow, lambda c: c.result.makespan),
        bottleneck=_overall(flows, makespan),
        resources=_resources(composed),
        nodes=peaks(machine, [c.demand for c in chosen], [c.candidate for c in chosen], composed),
        what_if=what_if(machine, composed, lambda m: _again(plan, m, chosen).result.makespan),
        context_s=_context(machine, flows),
        provenance=provenance(machine),
        warnings=_warnings(plan, machine),
        verdict=Verdict(passed=True, exit_code=0, sentence="No objectives."),
    )


def _choose(topology: Topology, demand: Demand, schedule: FlowSchedule | None) -> _Chosen:
    if schedule is None:
        decision: Decision = decide(topology, demand.need)
        candidate, rejected = decision.best, decision.rejected()
    else:
        candidate, rejected = candidate_of(topology, demand.need, schedule), ()
    return _Chosen(demand, candidate, _fluids(candidate), rejected)


def _fluids(candidate: Candidate) -> list[Fluid]:
    pairs = zip(candidate.way.movements, candidate.shapes, strict=True)
    return [fluid(movement, shape) for movement, shape in pairs]


def _compose(plan: Plan, machine: Machine, chosen: Sequence[_Chosen]) -> Composition:
    return compose(plan, machine, [c.demand for c in chosen], [c.candidate for c in chosen])


def _again(plan: Plan, machine: Machine, chosen: Sequence[_Chosen]) -> Composition:
    """The same choices on a machine with other numbers."""
    moved = [rebased(machine, c.demand.need, c.candidate) for c in chosen]
    return compose(plan, machine, [c.demand for c in chosen], moved)


def _bounds(
    plan: Plan, machine: Machine, chosen: Sequence[_Chosen]
) -> tuple[Composition | None, Composition | None]:
    """The plan with every rate at its lower, and at its upper quartile."""
    if not knows_spread(machine):
        return None, None
    return (
        _again(plan, shifted(machine, "low"), chosen),
        _again(plan, shifted(machine, "high"), chosen),
    )


def _pair(
    fast: Composition | None, slow: Composition | None, of: Callable[[Composition], float]
) -> tuple[float, float] | None:
    """An interval, or `None` where no spread is known."""
    return None if fast is None or slow is None else (of(fast), of(slow))


def _duration(composed: Composition, part: Part) -> float:
    return composed.finish(part) - composed.start(part)


def _first(composed: Composition, part: Part) -> float:
    return composed.finish(part, 0) - composed.start(part)


def _steady(composed: Composition, part: Part, setup: float) -> float:
    """One repeat with everything set up: the mean of the later ones, else the first less setup."""
    further = len(part.repeats) - 1
    if further:
        return (composed.finish(part) - composed.finish(part, 0)) / further
    return _first(composed, part) - setup


def _flow(
    item: _Chosen,
    composed: Composition,
    part: Part,
    slow: Composition | None,
    fast: Composition | None,
    index: int,
) -> FlowEstimate:
    """The prediction of one demand."""
    need, candidate = item.demand.need, item.candidate
    steady = _steady(composed, part, candidate.setup_seconds)
    return FlowEstimate(
        name=need.name,
        size_bytes=need.size,
        repeat=need.repeat,
        schedule=candidate.schedule(need),
        hops=_hops(item, steady),
        setup=candidate.setup,
        duration_s=_duration(composed, part),
        first_s=_first(composed, part),
        steady_s=steady,
        rate_bytes_per_s=need.size / steady if steady > 0 else 0.0,
        start_s=composed.start(part),
        finish_s=composed.finish(part),
        exposed_s=_exposed(composed, part),
        interval_s=_pair(fast, slow, lambda c: _duration(c, c.parts[index])),
        first_interval_s=_pair(fast, slow, lambda c: _first(c, c.parts[index])),
        bottleneck=bottleneck(need, candidate, item.fluids),
        ring_bytes=candidate.ring,
        flat=candidate.flat,
        arithmetic=arithmetic(need, candidate, item.fluids),
        rejected=item.rejected,
    )


def _hops(item: _Chosen, steady: float) -> tuple[HopEstimate, ...]:
    """Each hop with the busy time of the stage that is its own: its last, or its engine."""
    found = []
    triples = zip(item.candidate.way.movements, item.candidate.shapes, item.fluids, strict=True)
    for movement, shape, flow in triples:
        busy = iter(flow.busy)
        pairs = zip(movement.crossings, movement.strategies, movement.hops(shape), strict=True)
        for crossing, strategy, hop in pairs:
            stages = strategy.stages(crossing, shape)
            times = [(stage, next(busy)) for stage in stages]
            engine = [pair for pair in times if pair[0].kind == "engine"]
            own, seconds = (engine or times)[-1] if times else (None, 0.0)
            found.append(
                HopEstimate(
                    hop=hop,
                    resource=own.resource if own else crossing.resource,
                    busy_s=seconds,
                    rate_bytes_per_s=movement.size / seconds if seconds > 0 else 0.0,
                    share=min(1.0, seconds / steady) if steady > 0 else 0.0,
                )
            )
    return tuple(found)


def _exposed(composed: Composition, part: Part) -> float:
    """Seconds in which the part is under way and no compute block is."""
    busy = sorted(span for block in composed.compute for span in composed.moving(block))
    exposed = 0.0
    for start, end in composed.moving(part):
        at = start
        for low, high in busy:
            if high <= at or low >= end:
                continue
            exposed += max(0.0, low - at)
            at = max(at, high)
        exposed += max(0.0, end - at)
    return exposed


def _compute(plan: Plan, composed: Composition, part: Part) -> ComputeEstimate:
    start, finish = composed.start(part), composed.finish(part)
    return ComputeEstimate(
        name=part.name,
        gpu=plan.compute[part.name].gpu,
        duration_s=finish - start,
        start_s=start,
        finish_s=finish,
    )


def _resources(composed: Composition) -> tuple[ResourceUse, ...]:
    """Every resource that serves anything, busiest first, then by name."""
    makespan = composed.result.makespan
    rows = [
        ResourceUse(name=name, busy_s=load, share=min(1.0, load / makespan) if makespan else 0.0)
        for name, load in zip(composed.resources, composed.result.load, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.busy_s, row.name)))


def _overall(flows: Sequence[FlowEstimate], makespan: float) -> Bottleneck:
    """What limits the plan: the limit of the flow that takes longest."""
    if not flows:
        return Bottleneck(resource="none", cause="compute", share=0.0)
    longest = max(flows, key=lambda flow: flow.duration_s)
    limit = longest.bottleneck
    share = limit.share * longest.duration_s / makespan if makespan > 0 else 0.0
    return limit.model_copy(update={"share": min(1.0, share)})


def _context(machine: Machine, flows: Sequence[FlowEstimate]) -> float:
    """Seconds to start the drivers' contexts of all GPUs that take part; listed apart."""
    used = {end for f in flows for hop in f.schedule.hops for end in (hop.start, hop.end)}
    return float(sum(getattr(machine.nodes[name], "context", 0.0) for name in sorted(used)))


def _warnings(plan: Plan, machine: Machine) -> tuple[str, ...]:
    """What the reader should know before believing the numbers."""
    found = []
    if not knows_spread(machine):
        found.append(f"no spread is known for the numbers of {machine.name}: no interval is given")
    for name, flow in plan.flows.items():
        if flow.cache == "auto" and machine.nodes[flow.source.format(**_any(flow))].kind == "disk":
            found.append(
                f"{name}: cache auto counts as cold in an estimate; say cache: warm or cold"
            )
        found.extend(
            f"{name}: {word} is not modelled yet and changes nothing" for word in _unused(flow)
        )
    return tuple(found)


def _any(flow: object) -> dict[str, int]:
    """The values of one replica, to spell a node's name."""
    return next(iter(flow.instances()))  # type: ignore[attr-defined]


def _unused(flow: object) -> list[str]:
    """Keys of a flow that this model does not use."""
    words = []
    if getattr(flow, "use", None) is not None:
        words.append("use")
    if getattr(flow, "memory", "") in ("managed", "mapped"):
        words.append("memory: managed and mapped")
    return words
