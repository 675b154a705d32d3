"""Estimates and runs seen alike, so that any two of them can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.results import (
    Estimate,
    FlowEstimate,
    FlowRun,
    FlowSchedule,
    Hop,
    NodeUse,
    ObjectiveResult,
    Run,
)
from planner.results.diff import Side

HopKey = tuple[str, str, int]
"""Start, end, and which of the flow's hops between the two it is."""


@dataclass(frozen=True, slots=True)
class HopView:
    """A hop and the seconds in which its resource served the flow, once."""

    hop: Hop
    resource: str
    busy_s: float


@dataclass(frozen=True, slots=True)
class FlowView:
    """A flow with its times in seconds; `samples` of the steady time, none of an estimate."""

    name: str
    size_bytes: int
    repeat: int
    schedule: FlowSchedule
    duration_s: float
    first_s: float
    steady_s: float
    hops: Mapping[HopKey, HopView]
    bottleneck: str
    samples: tuple[float, ...] = ()
    interval_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A result with its flows by name. `measured` is false for an estimate."""

    side: Side
    plan: Mapping[str, Any]
    machine: Mapping[str, Any]
    flows: Mapping[str, FlowView]
    compute: Mapping[str, float]
    makespan_s: float
    makespan_samples: tuple[float, ...]
    bottleneck: str
    nodes: Mapping[str, NodeUse]
    objectives: tuple[ObjectiveResult, ...]
    flow_runs: tuple[FlowRun, ...] = field(default=())
    error_factor: float = 1.0

    @property
    def measured(self) -> bool:
        """Whether this is a run."""
        return self.side.kind == "run"


def view(result: Estimate | Run, label: str) -> View:
    """The view of a result that people know as `label`, a file's name."""
    return _of_run(result, label) if isinstance(result, Run) else _of_estimate(result, label)


def _of_estimate(estimate: Estimate, label: str) -> View:
    return View(
        side=_side(estimate, label, "estimate"),
        plan=estimate.plan,
        machine=estimate.machine,
        flows={flow.name: _estimated(flow) for flow in estimate.flows},
        compute={block.name: block.duration_s for block in estimate.compute},
        makespan_s=estimate.makespan_s,
        makespan_samples=(),
        bottleneck=estimate.bottleneck.resource,
        nodes={node.name: node for node in estimate.nodes},
        objectives=estimate.objectives,
    )


def _of_run(run: Run, label: str) -> View:
    predicted = {flow.name: flow for flow in run.estimate.flows}
    flows = {flow.name: _measured(flow, predicted.get(flow.name)) for flow in run.flows}
    side = _side(run.estimate, label, "run").model_copy(
        update={
            "machine": run.environment.machine,
            "emulated": run.environment.emulated,
            "backend": run.environment.backend,
            "planner": run.planner,
            "date": run.environment.date,
            "samples": run.samples,
        }
    )
    alone = next(iter(flows.values())).bottleneck if len(flows) == 1 else None
    return View(
        side=side,
        plan=run.estimate.plan,
        machine=run.estimate.machine,
        flows=flows,
        compute={block.name: block.duration_s for block in run.compute},
        makespan_s=run.makespan_s,
        makespan_samples=run.makespan_samples_s,
        bottleneck=alone or run.estimate.bottleneck.resource,
        # No counter of a run measures memory: it allocated what the schedule asks for.
        nodes={node.name: node for node in run.estimate.nodes},
        objectives=run.objectives,
        flow_runs=run.flows,
        error_factor=run.error_factor,
    )


def _side(estimate: Estimate, label: str, kind: Literal["estimate", "run"]) -> Side:
    return Side(
        label=label,
        kind=kind,
        plan=str(estimate.plan.get("name", "plan")),
        machine=str(estimate.machine.get("name", "machine")),
        emulated=estimate.emulated,
        planner=estimate.planner,
    )


def _estimated(flow: FlowEstimate) -> FlowView:
    return FlowView(
        name=flow.name,
        size_bytes=flow.size_bytes,
        repeat=flow.repeat,
        schedule=flow.schedule,
        duration_s=flow.duration_s,
        first_s=flow.first_s,
        steady_s=flow.steady_s,
        hops=_keyed([HopView(hop.hop, hop.resource, hop.busy_s) for hop in flow.hops]),
        bottleneck=flow.bottleneck.resource,
        interval_s=flow.interval_s,
    )


def _measured(flow: FlowRun, predicted: FlowEstimate | None) -> FlowView:
    hops = [HopView(hop.hop, hop.resource, hop.busy_s) for hop in flow.hops]
    return FlowView(
        name=flow.name,
        size_bytes=flow.size_bytes,
        repeat=flow.repeat,
        schedule=flow.schedule,
        duration_s=flow.duration_s,
        first_s=flow.first_s,
        steady_s=flow.steady_s,
        hops=_keyed(hops),
        bottleneck=_busiest(hops, predicted),
        samples=flow.samples_s,
    )


def _keyed(hops: Sequence[HopView]) -> dict[HopKey, HopView]:
    found: dict[HopKey, HopView] = {}
    for hop in hops:
        ends = hop.hop.start, hop.hop.end
        found[*ends, sum(key[:2] == ends for key in found)] = hop
    return found


def _busiest(hops: Sequence[HopView], predicted: FlowEstimate | None) -> str:
    """What limited a measured flow: the resource of its busiest hop.

    Where the prediction names a limit that is no hop's resource (setup, a shared memory), no
    measurement of a hop can tell, and the prediction stands.
    """
    resources = {hop.resource for hop in hops}
    if predicted is not None and predicted.bottleneck.resource not in resources:
        return predicted.bottleneck.resource
    return max(hops, key=lambda hop: hop.busy_s).resource if hops else ""
