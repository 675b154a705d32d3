"""What the arrangements of a plan hold: peaks of memory at each node, rings and workers in use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.machine.replicate import members
from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.model.arrange import Arrangement, Lane
from planner.model.compose import Composition
from planner.model.memory import Holding, holdings
from planner.model.needs import Demand, pinned_budget
from planner.results import NodeUse


def peaks(
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    composed: Composition,
) -> tuple[NodeUse, ...]:
    """The peak of each node that holds anything, in the machine's order; of a class, of each."""
    held = _held(machine, demands, arrangements, composed)
    found = []
    for name, node in machine.nodes.items():
        own = held.get(name)
        if not own:
            continue
        found.append(
            NodeUse(
                name=name,
                peak_bytes=_peak(own),
                pinned_bytes=_peak([h for h in own if h.pinned]),
                capacity_bytes=node.capacity if isinstance(node, (Disk, Ram, Hbm)) else None,
                pinned_limit_bytes=pinned_budget(node) if isinstance(node, Ram) else None,
                members=members(machine, name),
            )
        )
    return tuple(found)


def pinned_by_tool(
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    composed: Composition,
) -> dict[str, tuple[int, int]]:
    """Most pinned bytes (the user's own buffers left out) and most workers at once, by host."""
    pinned: dict[str, list[Holding]] = defaultdict(list)
    workers: dict[str, list[Holding]] = defaultdict(list)
    for demand, arrangement, part in zip(demands, arrangements, composed.parts, strict=True):
        span = composed.start(part), composed.finish(part)
        for lane in arrangement.lanes:
            # As if both ends were files: what rests there belongs to the user.
            ends = replace(lane.need, first="file", last="file")
            for holding in _lane_holdings(replace(demand, need=ends), lane, *span):
                if holding.pinned:
                    pinned[holding.node].append(_times(machine, demand, holding))
            for movement, shape in zip(lane.movements, lane.candidate.shapes, strict=True):
                if movement.has_pool:
                    host = movement.crossings[0].host
                    own = Holding(host, shape.workers, *span)
                    workers[host].append(_times(machine, demand, own))
    return {
        name: (_peak(pinned.get(name, ())), _peak(workers.get(name, ())))
        for name in pinned.keys() | workers.keys()
    }


def _held(
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    composed: Composition,
) -> dict[str, list[Holding]]:
    by_node: dict[str, list[Holding]] = defaultdict(list)
    for demand, arrangement, part in zip(demands, arrangements, composed.parts, strict=True):
        span = composed.start(part), composed.finish(part)
        for lane in arrangement.lanes:
            own = replace(demand, need=lane.need)
            if arrangement.source is not None:  # the source is another flow's destination
                own = replace(own, need=replace(lane.need, first="file"))
            for holding in _lane_holdings(own, lane, *span):
                by_node[holding.node].append(_times(machine, demand, holding))
            if demand.kept > 1 and lane.need.last != "file":  # the first is among the above
                further = Holding(lane.need.end, lane.need.size * (demand.kept - 1), *span)
                by_node[lane.need.end].append(_times(machine, demand, further))
    return by_node


def _lane_holdings(demand: Demand, lane: Lane, start: float, finish: float) -> list[Holding]:
    """What a lane holds; streamed movements leave only some chunks between them."""
    found = holdings(demand, lane.candidate, start, finish)
    if not lane.streamed:
        return found
    between = {m.crossings[-1].end for m in lane.movements[:-1]} - {demand.need.end}
    kept = [h for h in found if h.node not in between]
    ring = lane.candidate.shapes[0].ring
    return kept + [Holding(name, ring, start, finish) for name in sorted(between)]


def _times(machine: Machine, demand: Demand, holding: Holding) -> Holding:
    """The holding of all flows of a class on one of the class's nodes."""
    if demand.members == 1:
        return holding
    count = max(1, demand.members // members(machine, holding.node))
    return replace(holding, size=holding.size * count)


def _peak(held: Iterable[Holding]) -> int:
    """The largest sum held at one instant; what ends at an instant goes first."""
    changes = sorted(
        [(h.start, 1, h.size) for h in held] + [(h.end, 0, -h.size) for h in held],
        key=lambda change: change[:2],
    )
    now = highest = 0
    for _, _, size in changes:
        now += size
        highest = max(highest, now)
    return highest
