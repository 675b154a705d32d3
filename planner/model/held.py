"""What the arrangements of a plan hold: peaks of memory at each node, rings and workers in use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from planner.machine.replicate import members
from planner.machine.schema import Disk, Hbm, Machine, Node, Ram
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
    by_node = held(machine, demands, arrangements, composed)
    found = []
    for name, node in machine.nodes.items():
        own = by_node.get(name)
        if not own:
            continue
        found.append(
            NodeUse(
                name=name,
                peak_bytes=peak([h for h in own if not h.again]),
                pinned_bytes=peak([h for h in own if h.pinned]),
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
        name: (peak(pinned.get(name, ())), peak(workers.get(name, ())))
        for name in pinned.keys() | workers.keys()
    }


def held(
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    composed: Composition,
) -> dict[str, list[Holding]]:
    """What every node holds, and when; bytes that several flows read count once.

    Those are the source of copies to several destinations, and what a flow that went before has
    brought to where this one begins.
    """
    by_node: dict[str, list[Holding]] = defaultdict(list)
    brought = _brought(demands)
    sources: dict[tuple[str, str], Holding] = {}
    for demand, arrangement, part in zip(demands, arrangements, composed.parts, strict=True):
        span = composed.start(part), composed.finish(part)
        for holding in _of_one(demand, arrangement, *span):
            if not holding.source:
                by_node[holding.node].append(_times(machine, demand, holding))
                continue
            left = max(0, holding.size - brought[holding.flow])
            own = _times(machine, demand, replace(holding, size=left))
            key = holding.node, demand.flow if demand.copies else holding.flow
            sources[key] = _longer(sources.get(key, own), own)
    for holding in sources.values():
        if holding.size:
            by_node[holding.node].append(holding)
    return by_node


def _of_one(
    demand: Demand, arrangement: Arrangement, start: float, finish: float
) -> Iterator[Holding]:
    """What one demand holds; all its lanes read from one source."""
    read: Holding | None = None
    for lane in arrangement.lanes:
        own = replace(demand, need=lane.need)
        if arrangement.source is not None:  # the source is another flow's destination
            own = replace(own, need=replace(lane.need, first="file"))
        found = [
            replace(h, flow=demand.need.name) for h in _lane_holdings(own, lane, start, finish)
        ]
        if demand.kept > 1 and lane.need.last != "file":  # the first is among the above
            size = lane.need.size * (demand.kept - 1)
            found.append(Holding(lane.need.end, size, start, finish, flow=demand.need.name))
        for holding in found:
            if holding.source:
                read = replace(holding, size=holding.size + (read.size if read else 0))
            else:
                yield holding
    if read is not None:
        yield read


def _longer(one: Holding, other: Holding) -> Holding:
    """The same bytes, held while either of two flows needs them."""
    return replace(one, end=max(one.end, other.end), size=max(one.size, other.size))


def _brought(demands: Sequence[Demand]) -> dict[str, int]:
    """Bytes that flows which a flow waits for have brought to its source, by the flow's name."""
    by_flow: dict[str, list[Demand]] = defaultdict(list)
    for demand in demands:
        by_flow[demand.flow].append(demand)

    def before(flow: str, seen: set[str]) -> set[str]:
        for earlier in {name for demand in by_flow.get(flow, ()) for name in demand.after} - seen:
            seen.add(earlier)
            before(earlier, seen)
        return seen

    found: dict[str, int] = {}
    for flow, own in by_flow.items():
        earlier = [d for name in sorted(before(flow, set())) for d in by_flow.get(name, ())]
        for demand in own:
            found[demand.need.name] = sum(
                d.need.size for d in earlier if d.need.end == demand.need.start
            )
    return found


def room_of(node: Node) -> int | None:
    """Bytes that a node may hold, `None` where that is not known or it is no memory."""
    if isinstance(node, Ram):
        return node.limit or node.capacity
    return node.capacity if isinstance(node, Hbm) else None


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


def peak(own: Iterable[Holding]) -> int:
    """The largest sum held at one instant; what ends at an instant goes first."""
    changes = sorted(
        [(h.start, 1, h.size) for h in own] + [(h.end, 0, -h.size) for h in own],
        key=lambda change: change[:2],
    )
    now = highest = 0
    for _, _, size in changes:
        now += size
        highest = max(highest, now)
    return highest
