"""From a simulated plan to the rows of an estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.machine.replicate import members
from planner.machine.schema import Machine
from planner.model.arrange import Lane
from planner.model.bottleneck import bottleneck
from planner.model.compose import Composition, Part
from planner.model.contend import Chosen
from planner.model.explain import arithmetic
from planner.model.strategies.copying import COPY, DISPATCH
from planner.plan.schema import Plan
from planner.results import (
    Bottleneck,
    Cause,
    ComputeEstimate,
    FlowEstimate,
    Hop,
    HopEstimate,
    ResourceUse,
)

ALONE = 1.005
"""Up to half a per cent longer than alone, a flow is limited by what limits it alone."""
BUDGET = ".budget"
"""How the caps on rates are called, behind the flow's name or the plan's."""
SETUP = 0.5
"""Setup is the limit where it takes more than half of the time, as for a flow alone."""


@dataclass(frozen=True)
class Prediction:
    """The plan as it is, with every rate at its lower and at its upper quartile, and set up."""

    composed: Composition
    slow: Composition | None
    fast: Composition | None
    steady: Composition | None

    def interval(self, of: Callable[[Composition], float]) -> tuple[float, float] | None:
        """The fast and the slow value, or `None` where no spread is known."""
        return None if self.fast is None or self.slow is None else (of(self.fast), of(self.slow))


def flow_estimate(
    item: Chosen, predicted: Prediction, index: int, *, brief: bool = False
) -> FlowEstimate:
    """The prediction of one demand; a `brief` one without its arithmetic."""
    composed = predicted.composed
    need, arrangement, part = item.demand.need, item.arrangement, composed.parts[index]
    ready = None if predicted.steady is None else predicted.steady.parts[index]
    steady = steady_of(part, ready, need.repeat, arrangement.setup_seconds + part.kept)
    alone = arrangement.duration(need.repeat)
    return FlowEstimate(
        name=need.name,
        size_bytes=need.size,
        repeat=need.repeat,
        members=item.demand.members,
        schedule=arrangement.schedule(need),
        hops=tuple(hop for lane in arrangement.lanes for hop in _hops(lane, steady)),
        setup=arrangement.setup,
        duration_s=_duration(part),
        first_s=_first(part),
        steady_s=steady,
        rate_bytes_per_s=need.size / steady if steady > 0 else 0.0,
        start_s=part.start,
        finish_s=part.finish,
        exposed_s=part.exposed,
        hidden_share=1 - part.exposed / part.moving if part.moving > 0 else 0.0,
        alone_s=alone,
        interval_s=predicted.interval(lambda c: _duration(c.parts[index])),
        first_interval_s=predicted.interval(lambda c: _first(c.parts[index])),
        bottleneck=_bottleneck(item, composed, part, alone),
        ring_bytes=arrangement.ring,
        flat=item.flat,
        arithmetic=() if brief else _arithmetic(item),
        rejected=item.rejected,
    )


def _duration(part: Part) -> float:
    return part.finish - part.start


def _first(part: Part) -> float:
    return part.first - part.start


def steady_of(part: Part, ready: Part | None, repeat: int, setup: float) -> float:
    """One repeat with everything set up: the mean of the later ones, else what it takes `ready`.

    A flow that meets no other takes its first repeat less the setup.
    """
    if repeat > 1:
        return (part.finish - part.first) / (repeat - 1)
    return _first(part) - setup if ready is None else _first(ready)


def _arithmetic(item: Chosen) -> tuple[str, ...]:
    lines: list[str] = []
    for lane in item.arrangement.lanes:
        lines.extend(arithmetic(lane.need, lane.candidate, list(lane.each)))
    if item.arrangement.source is not None:
        lines.append(f"copied on from {item.arrangement.source}: {item.arrangement.fan}")
    return tuple(lines)


def _hops(lane: Lane, steady: float) -> tuple[HopEstimate, ...]:
    """Each hop with the busy time of the stage that is its own: its last, or its engine."""
    found = []
    written = iter(lane.hops())
    for movement, shape, flow in zip(lane.movements, lane.candidate.shapes, lane.each, strict=True):
        busy = iter(flow.busy)
        for crossing, strategy in zip(movement.crossings, movement.strategies, strict=True):
            times = [(stage, next(busy)) for stage in strategy.stages(crossing, shape)]
            engine = [pair for pair in times if pair[0].kind == "engine"]
            own, seconds = (engine or times)[-1] if times else (None, 0.0)
            resource = own.resource if own else crossing.resource
            found.append(_hop(next(written), resource, movement.size, seconds, steady))
    return tuple(found)


def _hop(hop: Hop, resource: str, size: int, seconds: float, steady: float) -> HopEstimate:
    return HopEstimate(
        hop=hop,
        resource=resource,
        busy_s=seconds,
        rate_bytes_per_s=size / seconds if seconds > 0 else 0.0,
        share=min(1.0, seconds / steady) if steady > 0 else 0.0,
    )


def _bottleneck(item: Chosen, composed: Composition, part: Part, alone: float) -> Bottleneck:
    """What limits a flow: by itself, or what it shared for longest where others slowed it down."""
    lane, took = item.arrangement.main, _duration(part)
    reading = item.arrangement.preparing
    setup = reading.delay if part.kept else item.arrangement.setup_seconds
    held = part.holder is not None and part.holder.endswith(BUDGET)
    if part.holder is None or setup > SETUP * took or (took <= alone * ALONE and not held):
        return bottleneck(lane.need, lane.candidate, list(lane.each), streamed=lane.streamed)
    load = composed.load[composed.resources.index(part.holder)]
    return Bottleneck(
        resource=part.holder,
        cause=_cause(part.holder),
        share=min(1.0, load / took) if took > 0 else 0.0,
    )


def _cause(resource: str) -> Cause:
    """Why a shared resource limits."""
    if resource.endswith(BUDGET):
        return "capacity"
    if resource.endswith(COPY):
        return "host_copy"
    if resource.endswith(".compute"):
        return "compute"
    if resource.endswith(DISPATCH):
        return "issue_overhead"
    return "bandwidth"


def compute_estimate(plan: Plan, part: Part) -> ComputeEstimate:
    """A compute block on the plan's clock."""
    return ComputeEstimate(
        name=part.name,
        gpu=plan.compute[part.name].gpu,
        duration_s=_duration(part),
        start_s=part.start,
        finish_s=part.finish,
    )


def resource_uses(machine: Machine, composed: Composition) -> tuple[ResourceUse, ...]:
    """Every resource that serves anything, busiest first, then by name."""
    makespan = composed.makespan
    rows = [
        ResourceUse(
            name=name,
            busy_s=load,
            share=min(1.0, load / makespan) if makespan else 0.0,
            active_s=active,
            members=members(machine, name),
        )
        for name, load, active in zip(composed.resources, composed.load, composed.busy, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.busy_s, row.name)))


def overall(flows: Sequence[FlowEstimate], makespan: float) -> Bottleneck:
    """What limits the plan: the limit of the flow that takes longest."""
    if not flows:
        return Bottleneck(resource="none", cause="compute", share=0.0)
    longest = max(flows, key=lambda flow: (flow.duration_s, flow.name))
    limit = longest.bottleneck
    share = limit.share * longest.duration_s / makespan if makespan > 0 else 0.0
    return limit.model_copy(update={"share": min(1.0, share)})
