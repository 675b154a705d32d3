"""Objectives held against the metrics of a result.

A metric is named as people write it (`weights.duration`, `host0.pinned`, `makespan`); `values`
reads all metrics of an estimate or a run, `judge` compares. What a result cannot know (`p95`
before anything ran) is neither met nor missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from planner.plan.objectives import Objective
from planner.results import Estimate, FlowEstimate, FlowRun, NodeUse, ObjectiveResult, Run

_SECONDS_PER_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of one result: seconds, bytes/s, bytes, shares and factors by their name.

    `capacities` holds, for each memory metric, the bytes that a limit in per cent refers to.
    """

    values: Mapping[str, float]
    capacities: Mapping[str, int] = field(default_factory=dict)


def estimate_metrics(estimate: Estimate) -> Metrics:
    """Every metric that an estimate has."""
    values: dict[str, float] = {"makespan": estimate.makespan_s}
    for flow in estimate.flows:
        values |= _flow_values(flow, flow.exposed_s)
    for block in estimate.compute:
        values[f"{block.name}.duration"] = block.duration_s
    shares = {use.name: use.share for use in estimate.resources}
    values |= _link_busy(shares, estimate.machine)
    _add_cost(values, estimate.machine)
    memory, capacities = _memory(estimate.nodes)
    return Metrics({**values, **memory}, capacities)


def run_metrics(run: Run) -> Metrics:
    """Every metric that a run has.

    Memory that no counter of the run measures (`peak`) is the schedule's own demand, which the
    run allocated; transfer time hidden behind compute is not measured, so `exposed` is absent.
    """
    values: dict[str, float] = {"makespan": run.makespan_s}
    for flow in run.flows:
        values |= _flow_values(flow, None)
        values[f"{flow.name}.p50"] = flow.p50_s
        values[f"{flow.name}.p95"] = flow.p95_s
        values[f"{flow.name}.error"] = flow.error_factor
    values |= _measured_busy(run)
    _add_cost(values, run.estimate.machine)
    memory, capacities = _memory(run.estimate.nodes)
    return Metrics({**values, **memory}, capacities)


def _flow_values(flow: FlowEstimate | FlowRun, exposed_s: float | None) -> dict[str, float]:
    values = {
        f"{flow.name}.duration": flow.duration_s,
        f"{flow.name}.first": flow.first_s,
        f"{flow.name}.steady": flow.steady_s,
        f"{flow.name}.rate": _rate(flow),
    }
    if exposed_s is not None:
        values[f"{flow.name}.exposed"] = exposed_s
    return values


def _rate(flow: FlowEstimate | FlowRun) -> float:
    """Bytes/s of all repeats over the duration."""
    return flow.size_bytes * flow.repeat / flow.duration_s if flow.duration_s > 0 else 0.0


def _measured_busy(run: Run) -> dict[str, float]:
    """Share of the makespan in which each link was in service, capped at all of it."""
    if run.makespan_s <= 0:
        return {}
    busy: dict[str, float] = {}
    for flow in run.flows:
        for hop in flow.hops:
            busy[hop.resource] = busy.get(hop.resource, 0.0) + hop.busy_s * flow.repeat
    shares = {name: min(1.0, seconds / run.makespan_s) for name, seconds in busy.items()}
    return _link_busy(shares, run.estimate.machine)


def _link_busy(shares: Mapping[str, float], machine: Mapping[str, object]) -> dict[str, float]:
    """`<link>.busy` of every link of the machine: its busier direction, 0 for one at rest.

    A direction is a resource of its own, called `<link>.forward` or `<link>.backward`.
    """
    links = machine.get("links")
    names = list(links) if isinstance(links, Mapping) else []
    directions = ("forward", "backward")
    return {
        f"{name}.busy": max(shares.get(f"{name}.{direction}", 0.0) for direction in directions)
        for name in names
    }


def _memory(nodes: Iterable[NodeUse]) -> tuple[dict[str, float], dict[str, int]]:
    values: dict[str, float] = {}
    capacities: dict[str, int] = {}
    for node in nodes:
        values[f"{node.name}.peak"] = node.peak_bytes
        values[f"{node.name}.pinned"] = node.pinned_bytes
        if node.capacity_bytes is not None:
            capacities[f"{node.name}.peak"] = node.capacity_bytes
            capacities[f"{node.name}.pinned"] = node.capacity_bytes
    return values, capacities


def _add_cost(values: dict[str, float], machine: Mapping[str, object]) -> None:
    """The machine's cost for the makespan, where its nodes state one (an hour's price each)."""
    nodes = machine.get("nodes")
    if not isinstance(nodes, Mapping):
        return
    prices = [n["cost"] for n in nodes.values() if isinstance(n, Mapping) and n.get("cost")]
    if prices:
        values["cost"] = sum(prices) * values["makespan"] / _SECONDS_PER_HOUR


def judge(
    objective: Objective, metrics: Metrics, *, holds_while: str | None = None
) -> ObjectiveResult:
    """The objective with its value, margin and whether it is met."""
    name = f"{objective.subject}.{objective.metric}" if objective.subject else objective.metric
    value = _value(objective, name, metrics)
    passed = None if value is None else objective.met(value)
    return ObjectiveResult(
        text=objective.text,
        metric=name,
        value=value,
        limit=objective.limit,
        unit=objective.unit,
        passed=passed,
        margin=None if value is None else margin(objective, value),
        holds_while=holds_while if passed else None,
    )


def _value(objective: Objective, name: str, metrics: Metrics) -> float | None:
    """The metric in the objective's own unit; a limit in per cent turns bytes into a share."""
    value = metrics.values.get(name)
    if value is None or objective.unit != "share" or objective.metric == "busy":
        return value
    capacity = metrics.capacities.get(name)
    return value / capacity if capacity else None


def margin(objective: Objective, value: float) -> float | None:
    """Room to the limit as a share of the limit, positive while the objective is met.

    `None` for a limit of zero, of which nothing is a share.
    """
    if objective.limit == 0:
        return None
    room = objective.limit - value
    return (room if objective.operator in ("<=", "<") else -room) / objective.limit


def judge_all(objectives: Iterable[Objective], metrics: Metrics) -> tuple[ObjectiveResult, ...]:
    """Every objective judged, in the order of the plan."""
    return tuple(judge(objective, metrics) for objective in objectives)
