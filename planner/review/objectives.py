"""Objectives held against the metrics of a result.

A metric is named as people write it (`weights.duration`, `host0.pinned`, `makespan`); `values`
reads all metrics of an estimate or a run, `judge` compares. What a result cannot know (`p95`
before anything ran) is neither met nor missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from planner.machine.replicate import count
from planner.plan.objectives import Objective
from planner.results import Estimate, FlowEstimate, FlowRun, NodeUse, ObjectiveResult, Run
from planner.review.verdict import distance

_SECONDS_PER_HOUR: Final = 3600.0

_F = TypeVar("_F", FlowEstimate, FlowRun)


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
    for name, flows in _by_plan_name(estimate.flows).items():
        values |= _flow_values(name, flows)
        values[f"{name}.exposed"] = max(flow.exposed_s for flow in flows)
    for block in estimate.compute:
        values[f"{block.name}.duration"] = block.duration_s
    shares = {use.name: use.share for use in estimate.resources}
    values |= _link_busy(shares, estimate.machine)
    _add_cost(values, estimate.machine)
    memory, capacities = _memory(estimate.nodes, estimate.machine)
    return Metrics({**values, **memory}, capacities)


def run_metrics(run: Run) -> Metrics:
    """Every metric that a run has.

    Memory that no counter of the run measures (`peak`) is the schedule's own demand, which the
    run allocated.
    """
    values: dict[str, float] = {"makespan": run.makespan_s}
    for name, flows in _by_plan_name(run.flows).items():
        values |= _flow_values(name, flows)
        values[f"{name}.p50"] = max(flow.p50_s for flow in flows)
        values[f"{name}.p95"] = max(flow.p95_s for flow in flows)
        values[f"{name}.error"] = max((flow.error_factor for flow in flows), key=distance)
        exposed = [flow.exposed_s for flow in flows if flow.exposed_s is not None]
        if exposed:
            values[f"{name}.exposed"] = max(exposed)
    for block in run.compute:
        values[f"{block.name}.duration"] = block.duration_s
    values |= _measured_busy(run)
    _add_cost(values, run.estimate.machine)
    memory, capacities = _memory(run.estimate.nodes, run.estimate.machine)
    return Metrics({**values, **memory}, capacities)


def _by_plan_name(flows: Sequence[_F]) -> dict[str, list[_F]]:
    """The flows by the name that the plan gives them.

    A plan's flow with `for_each` or several destinations is several here, `load[gpu0]` and so on;
    a metric of `load` is that of its slowest copy, and its rate that of all bytes together.
    """
    found: dict[str, list[_F]] = {}
    for flow in flows:
        found.setdefault(flow.name.partition("[")[0], []).append(flow)
        if "[" in flow.name:
            found[flow.name] = [flow]
    return found


def _flow_values(name: str, flows: Sequence[FlowEstimate] | Sequence[FlowRun]) -> dict[str, float]:
    """The metrics that estimates and runs share."""
    slowest = max(flow.duration_s for flow in flows)
    moved = sum(flow.size_bytes * flow.repeat * getattr(flow, "members", 1) for flow in flows)
    return {
        f"{name}.duration": slowest,
        f"{name}.first": max(flow.first_s for flow in flows),
        f"{name}.steady": max(flow.steady_s for flow in flows),
        f"{name}.rate": moved / slowest if slowest > 0 else 0.0,
    }


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


def _memory(
    nodes: Iterable[NodeUse], machine: Mapping[str, object]
) -> tuple[dict[str, float], dict[str, int]]:
    """The memory metrics of all nodes of the machine: 0 where nothing is held."""
    values: dict[str, float] = {}
    capacities: dict[str, int] = {}
    known = machine.get("nodes")
    for name, node in known.items() if isinstance(known, Mapping) else ():
        metrics = f"{name}.peak", f"{name}.pinned"
        values |= dict.fromkeys(metrics, 0)
        capacity = node.get("capacity") if isinstance(node, Mapping) else None
        if isinstance(capacity, int):
            capacities |= dict.fromkeys(metrics, capacity)
    for use in nodes:
        values[f"{use.name}.peak"] = use.peak_bytes
        values[f"{use.name}.pinned"] = use.pinned_bytes
        if use.capacity_bytes is not None:
            capacities[f"{use.name}.peak"] = use.capacity_bytes
            capacities[f"{use.name}.pinned"] = use.capacity_bytes
    return values, capacities


def _add_cost(values: dict[str, float], machine: Mapping[str, object]) -> None:
    """The machine's cost for the makespan, where its nodes state one (an hour's price each)."""
    price = price_per_hour(machine)
    if price is not None:
        values["cost"] = price * values["makespan"] / _SECONDS_PER_HOUR


def price_per_hour(machine: Mapping[str, object]) -> float | None:
    """The sum of what all nodes cost an hour, each member of a class; `None` where none says."""
    nodes, replicate = machine.get("nodes"), machine.get("replicate")
    if not isinstance(nodes, Mapping):
        return None
    ranges = replicate if isinstance(replicate, Mapping) else {}
    prices = [
        node["cost"] * count(ranges, name)
        for name, node in nodes.items()
        if isinstance(node, Mapping) and node.get("cost")
    ]
    return float(sum(prices)) if prices else None


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
