"""How far the bottleneck may slow down before an objective is missed.

What a link or a port must give is found by playing the plan again on slower ones (`shared_slack`):
a link is said to have a rate that no copy quite reaches. Of what has no rate of its own, like the
copies of a host, everything but its own busy time is kept as predicted, which holds while it stays
the bottleneck, and slowing it keeps it so. Rates are told in three digits, rounded up: what is
shown has to hold.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from planner.plan.objectives import Objective
from planner.results import Estimate, FlowEstimate, HopEstimate
from planner.review.shared_slack import lowest_rate, rounded_up

_TIMES: Final = ("duration", "rate", "makespan", "first", "steady")
"""The metrics that grow with a slower resource. What compute leaves exposed does not: it depends
on how repeats and blocks happen to lie, and comes and goes as a link gets slower."""


class Slack(NamedTuple):
    """The resource, and the lowest rate in bytes/s at which the objective still holds."""

    resource: str
    rate_bytes_per_s: float


def slack(objective: Objective, estimate: Estimate) -> Slack | None:
    """The slack of an objective on a time or a rate; `None` where none can be told."""
    if objective.metric not in _TIMES:
        return None
    flow = _flow_of(objective, estimate)
    hop = _hop_of(flow)
    if flow is None or (hop is not None and _needs_playing(hop.resource, flow, estimate)):
        return _played(objective, estimate)
    if hop is None or hop.busy_s <= 0:
        return None
    times, value = _exposure(objective, flow, estimate)
    limit = _limit_seconds(objective, flow)
    if times == 0 or limit <= value:
        return None
    # value = rest + times x busy; the limit leaves (limit - rest) / times for one busy time.
    busy = hop.busy_s + (limit - value) / times
    return Slack(hop.resource, rounded_up(flow.size_bytes / busy))


def _needs_playing(resource: str, flow: FlowEstimate, estimate: Estimate) -> bool:
    """Whether it is a link, or something that others use, too."""
    return resource.endswith((".forward", ".backward")) or _shared(resource, flow, estimate)


def _hop_of(flow: FlowEstimate | None) -> HopEstimate | None:
    """The hop that limits the flow, where it is one."""
    hops = () if flow is None else flow.hops
    limit = "" if flow is None else flow.bottleneck.resource
    return next((hop for hop in hops if hop.resource == limit), None)


def _played(objective: Objective, estimate: Estimate) -> Slack | None:
    """The slack by playing the plan again; its resource limits the slowest that the metric asks."""
    asked = [
        flow
        for flow in estimate.flows
        if objective.metric == "makespan"
        or objective.subject in (flow.name, flow.name.partition("[")[0])
    ]
    if not asked:
        return None
    limit = estimate.bottleneck
    if objective.metric != "makespan":
        limit = max(asked, key=lambda flow: (flow.duration_s, flow.name)).bottleneck
    rate = lowest_rate(objective, estimate, limit.resource)
    return None if rate is None else Slack(limit.resource, rate)


def _flow_of(objective: Objective, estimate: Estimate) -> FlowEstimate | None:
    """The flow that decides the metric: its own, or the only one for the makespan."""
    if objective.metric == "makespan":
        alone = len(estimate.flows) == 1 and not estimate.compute
        return estimate.flows[0] if alone else None
    return next((f for f in estimate.flows if f.name == objective.subject), None)


def _shared(resource: str, flow: FlowEstimate, estimate: Estimate) -> bool:
    """Whether another flow, or another hop of this one, uses the resource too."""

    def uses(hops: tuple[HopEstimate, ...]) -> int:
        return sum(hop.resource == resource for hop in hops)

    others = sum(uses(f.hops) for f in estimate.flows if f.name != flow.name)
    return others > 0 or uses(flow.hops) > 1


def _exposure(objective: Objective, flow: FlowEstimate, estimate: Estimate) -> tuple[int, float]:
    """How often the bottleneck's busy time is part of the metric, and the metric in seconds."""
    match objective.metric:
        case "duration" | "rate":
            return flow.repeat, flow.duration_s
        case "makespan":
            return flow.repeat, estimate.makespan_s
        case "first":
            return 1, flow.first_s
        case "steady":
            return 1, flow.steady_s
        case _:
            return 0, 0.0


def _limit_seconds(objective: Objective, flow: FlowEstimate) -> float:
    """The limit as the longest time that still meets the objective."""
    if objective.metric == "rate":
        bytes_in_all = flow.size_bytes * flow.repeat
        return bytes_in_all / objective.limit if objective.limit > 0 else float("inf")
    return objective.limit if objective.operator in ("<=", "<") else float("-inf")
