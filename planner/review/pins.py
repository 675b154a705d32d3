"""Routes and strategies that a plan pins, held against the routes of a machine.

A pin that no route can follow would otherwise be noticed late, as a flow without any way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from planner.errors import Fault, PlannerError
from planner.machine.override import failed_links
from planner.machine.schema import Machine
from planner.plan.check import check_strategies, near
from planner.plan.load import LoadedPlan
from planner.plan.schema import Flow
from planner.plan.tree import child

if TYPE_CHECKING:
    from planner.machine.topology import Topology
    from planner.model.need import Need

Hop = tuple[str, str]
Reason = tuple[str, str | None]
"""What is wrong, and how to mend it."""


def strategy_names(loaded: LoadedPlan) -> frozenset[str] | None:
    """Every strategy there is, where the plan pins any; `None` where there is nothing to check."""
    if all(flow.strategy is None for flow in loaded.plan.flows.values()):
        return None
    from planner.model.strategies import NAMES

    return NAMES


def unknown_strategies(loaded: LoadedPlan) -> list[Fault]:
    """The faults of strategies that nobody knows, whatever the machine."""
    names = strategy_names(loaded)
    if names is None:
        return []
    return [
        loaded.fault(complaint.path, complaint.message, complaint.suggestion)
        for name, flow in loaded.plan.flows.items()
        for complaint in check_strategies(child(child("flows", name), "strategy"), flow, names)
    ]


def pin_faults(loaded: LoadedPlan, machine: Machine) -> list[Fault]:
    """The faults of the routes and strategies that the plan pins, whose names are known already.

    A pinned route must be one, a pinned hop must lie on a route of its flow, and its strategy must
    carry between such places.
    """
    plan = loaded.plan
    pinned = {name for name, flow in plan.flows.items() if flow.strategy is not None}
    routed = {name for name, flow in plan.flows.items() if flow.route}
    if not pinned and not routed:
        return []
    from planner.machine.topology import Topology
    from planner.model.classes import fitted
    from planner.model.needs import demands

    try:
        machine = fitted(plan, machine)
        found = demands(plan, machine)
    except PlannerError:
        return []  # said better by the prediction itself
    topology = Topology(machine)
    faults: dict[str, Fault] = {}
    for name in sorted(pinned):
        needs = [demand.need for demand in found if demand.flow == name]
        for hop, reason in _wrong(topology, plan.flows[name], needs):
            where = _at(name, hop)
            faults.setdefault(where, loaded.fault(where, *reason))
    routed_wrongly = (
        loaded.fault(child(child("flows", demand.flow), "route"), *wrong)
        for demand in found
        if demand.flow in routed and (wrong := _of_route(topology, demand.need)) is not None
    )
    return [*dict.fromkeys(routed_wrongly), *faults.values()]


def _of_route(topology: Topology, need: Need) -> Reason | None:
    """What is wrong with a pinned route; where a link has failed, or no way is left, not this."""
    if failed_links(topology.machine) or topology.via(need.start, need.pins.route, need.end):
        return None
    others = topology.routes(need.start, need.end)
    if not others:
        return None
    shortest = ", ".join([need.start, *(step.end for step in min(others, key=len))])
    passed = ", ".join(need.pins.route)
    message = f"no way from {need.start} to {need.end} passes {passed} in this order"
    return message, f"the shortest way is {shortest}"


def _at(flow: str, hop: str | None) -> str:
    """The key path of a flow's strategy, or of that of one hop."""
    path = child(child("flows", flow), "strategy")
    return path if hop is None else child(path, hop)


def _wrong(
    topology: Topology, flow: Flow, needs: Sequence[Need]
) -> Iterator[tuple[str | None, Reason]]:
    """What is wrong with a flow's strategy, each with the hop as written, `None` for all hops."""
    machine = topology.machine
    hops = list(dict.fromkeys(hop for need in needs for hop in _hops(topology, need)))
    if not hops:
        return  # no route at all is another fault
    if isinstance(flow.strategy, str):
        reason = _of_flow(machine, flow.strategy, hops)
        if reason is not None:
            yield None, reason
        return
    for need in (needs[0], needs[-1]):
        # Of a flow with `for_each` each need spells the hops with its own numbers.
        for key, (hop, strategy) in zip(
            flow.strategy or {}, need.pins.by_hop.items(), strict=False
        ):
            reason = _of_hop(machine, strategy, hop, hops)
            if reason is not None:
                yield key, reason


def _hops(topology: Topology, need: Need) -> Iterator[Hop]:
    """The hops of every route that the flow may take, shortest routes first."""
    from planner.model.ways import routes_of

    for route in routes_of(topology, need):
        for step in route:
            yield step.start, step.end


def _of_flow(machine: Machine, strategy: str, hops: Sequence[Hop]) -> Reason | None:
    """What is wrong with one strategy for the whole flow."""
    if any(strategy in _carrying(machine, hop) for hop in hops):
        return None
    able = sorted({name for hop in hops for name in _carrying(machine, hop)})
    return f"{strategy} carries across no hop of this flow", near(strategy, able)


def _of_hop(machine: Machine, strategy: str, hop: str, hops: Sequence[Hop]) -> Reason | None:
    """What is wrong with the strategy of one hop."""
    start, _, end = hop.partition(" -> ")
    if (start, end) not in hops:
        told = [f"{a} -> {b}" for a, b in hops]
        turned = f"did you mean {end} -> {start}?" if (end, start) in hops else near(hop, told)
        return f"no route of this flow crosses {hop}", turned
    able = _carrying(machine, (start, end))
    if strategy in able:
        return None
    kinds = (machine.nodes[start].kind, machine.nodes[end].kind)
    return f"{strategy} does not carry from {kinds[0]} to {kinds[1]}", near(strategy, able)


def _carrying(machine: Machine, hop: Hop) -> tuple[str, ...]:
    """The names of the strategies between two such places."""
    from planner.model.strategies import INSIDE, STRATEGIES

    nodes: Mapping[str, object] = machine.nodes
    across = tuple(getattr(nodes[name], "kind", "") for name in hop)
    known = INSIDE if hop[0] == hop[1] else STRATEGIES
    return tuple(dict.fromkeys(s.name for s in known if s.across == across))
