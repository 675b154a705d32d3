"""Whether everything that lives together has room, and if not, what would fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.errors import InfeasibleError
from planner.machine.replicate import members
from planner.machine.schema import Disk, Hbm, Machine, Ram
from planner.model.arrange import Arrangement
from planner.model.compose import Composition
from planner.model.held import held, peak, room_of
from planner.model.memory import Holding
from planner.model.needs import Demand
from planner.units import format_size, format_time

TOLD = 4
"""Flows that a message names at the most."""


@dataclass(frozen=True, slots=True)
class _Full:
    """A node that would hold `wanted` of `room` bytes, at `time`, by flow."""

    node: str
    room: int
    wanted: int
    time: float | None
    by_flow: Mapping[str, int]


def may_overflow(machine: Machine, demands: Sequence[Demand]) -> bool:
    """Whether the flows' bytes could fill any memory at all; where not, nobody need look closer."""
    rooms = [room_of(node) for node in machine.nodes.values() if isinstance(node, (Ram, Hbm))]
    # A flow holds its bytes at both ends and between two movements, none of it more than once.
    most = sum(3 * d.need.size * max(1, d.kept) * d.members for d in demands)
    return most > min((room for room in rooms if room is not None), default=most)


def overdrawn(
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    composed: Composition,
) -> float:
    """How far memories are overdrawn at their peaks, as shares of what they have, summed."""
    excess = 0.0
    for name, own in sorted(held(machine, demands, arrangements, composed).items()):
        room = room_of(machine.nodes[name])
        if room is not None:
            excess += max(0.0, peak(_once(own)) / max(1, room) - 1)
    return excess


def require_room(
    machine: Machine,
    demands: Sequence[Demand],
    arrangements: Sequence[Arrangement],
    composed: Composition,
) -> None:
    """Raise `InfeasibleError` where flows together do not fit, with the number that would."""
    full = _full_disk(machine, demands)
    if full is None and may_overflow(machine, demands):
        full = _full_memory(machine, held(machine, demands, arrangements, composed))
    if full is not None:
        raise InfeasibleError(_told(full), hint=_hint(full))


def _full_memory(machine: Machine, by_node: Mapping[str, Sequence[Holding]]) -> _Full | None:
    for name, node in machine.nodes.items():
        room, own = room_of(node), _once(by_node.get(name, ()))
        if room is None or peak(own) <= room:
            continue
        wanted = peak(own)
        time = min(h.start for h in own if _at(own, h.start) == wanted)
        by_flow: dict[str, int] = defaultdict(int)
        for holding in own:
            if holding.start <= time < holding.end:
                by_flow[holding.flow] += holding.size
        return _Full(name, room, wanted, time, by_flow)
    return None


def _once(own: Sequence[Holding]) -> list[Holding]:
    return [holding for holding in own if not holding.again]


def _at(own: Sequence[Holding], time: float) -> int:
    return sum(h.size for h in own if h.start <= time < h.end)


def _full_disk(machine: Machine, demands: Sequence[Demand]) -> _Full | None:
    """Files that are written stay: the sum of all on a disk has to fit, whenever they come."""
    for name, node in machine.nodes.items():
        if not isinstance(node, Disk) or node.capacity is None:
            continue
        by_flow = {
            d.need.name: d.need.size * max(1, d.members // members(machine, name))
            for d in demands
            if d.need.end == name
        }
        wanted = sum(by_flow.values())
        if wanted > node.capacity:
            return _Full(name, node.capacity, wanted, None, by_flow)
    return None


def _told(full: _Full) -> str:
    largest = sorted(full.by_flow.items(), key=lambda row: (-row[1], row[0]))
    told = [f"{name} {format_size(size)}" for name, size in largest[:TOLD]]
    if len(largest) > TOLD:
        told.append(f"{len(largest) - TOLD} more")
    when = "" if full.time is None else f" at {format_time(full.time)}"
    return (
        f"{full.node} holds {format_size(full.room)}, the flows need "
        f"{format_size(full.wanted)} there together{when}: {', '.join(told)}"
    )


def _hint(full: _Full) -> str:
    """The size at which the largest flow would fit, or how much is too much."""
    over = full.wanted - full.room
    largest = max(full.by_flow.items(), key=lambda row: (row[1], row[0]))
    if largest[1] > over:
        return f"with {format_size(largest[1] - over)} there for {largest[0]} it would fit"
    return f"{format_size(over)} less would fit"
