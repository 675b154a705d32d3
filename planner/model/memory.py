"""How much memory a plan takes at each node, and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.model.choose import Candidate
from planner.model.compose import Composition
from planner.model.needs import Demand, pinned_budget
from planner.results import NodeUse


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes held at a node from one instant to another; `pinned` if page-locked."""

    node: str
    size: int
    start: float
    end: float
    pinned: bool = False


RESTING = ("pageable", "pinned", "mapped", "managed", "device")
"""Kinds of memory that hold all bytes of a flow; a disk's are not counted."""
LOCKED = ("pinned", "mapped")


def holdings(demand: Demand, candidate: Candidate, start: float, finish: float) -> list[Holding]:
    """What one flow holds: its rings, buffers between movements, and its destination.

    The destination stays; ring and buffers go when the flow ends. A source belongs to the user and
    counts where it is host or GPU memory, for as long as the flow needs it.
    """
    need = demand.need
    found: list[Holding] = []
    way = candidate.way
    for movement, shape in zip(way.movements, candidate.shapes, strict=True):
        rings = movement.ring_hosts
        found.extend(Holding(host, shape.ring, start, finish, pinned=True) for host in rings)
        last = movement.crossings[-1]
        if last.end != need.end and last.after in RESTING:
            pins = last.after in LOCKED
            found.append(Holding(last.end, need.size, start, finish, pinned=pins))
        for crossing, strategy in zip(movement.crossings, movement.strategies, strict=True):
            # Its mapping is the buffer of the way where `mmap` made one, counted above.
            if strategy.pins_all(crossing) and strategy.name != "mmap":
                found.append(Holding(crossing.host, need.size, start, finish, pinned=True))
    if need.first in RESTING:
        locked = need.first in LOCKED
        found.append(Holding(need.start, need.size, 0.0, finish, pinned=locked))
    if need.last in RESTING and way.strategies[-1].resides:
        locked = need.last in LOCKED
        found.append(Holding(need.end, need.size, start, float("inf"), pinned=locked))
    return found


def peaks(
    machine: Machine,
    demands: Sequence[Demand],
    candidates: Sequence[Candidate],
    composed: Composition,
) -> tuple[NodeUse, ...]:
    """The peak of each node that holds anything, in the machine's order."""
    by_node: dict[str, list[Holding]] = defaultdict(list)
    for demand, candidate, part in zip(demands, candidates, composed.parts, strict=True):
        span = composed.start(part), composed.finish(part)
        for holding in holdings(demand, candidate, *span):
            by_node[holding.node].append(holding)
    found = []
    for name, node in machine.nodes.items():
        held = by_node.get(name)
        if not held:
            continue
        capacity = node.capacity if isinstance(node, (Disk, Ram, Hbm)) else None
        found.append(
            NodeUse(
                name=name,
                peak_bytes=_peak(held),
                pinned_bytes=_peak([h for h in held if h.pinned]),
                capacity_bytes=capacity,
                pinned_limit_bytes=pinned_budget(node) if isinstance(node, Ram) else None,
            )
        )
    return tuple(found)


def _peak(held: Iterable[Holding]) -> int:
    """The largest sum of bytes held at one instant; what ends at an instant goes first."""
    changes = sorted(
        [(h.start, 1, h.size) for h in held] + [(h.end, 0, -h.size) for h in held],
        key=lambda change: change[:2],
    )
    now = highest = 0
    for _, _, size in changes:
        now += size
        highest = max(highest, now)
    return highest
