"""How much memory a plan takes at each node, and when."""

from __future__ import annotations

from dataclasses import dataclass

from planner.model.choose import Candidate
from planner.model.needs import Demand


@dataclass(frozen=True, slots=True)
class Holding:
    """Bytes held at a node from one instant to another; `pinned` if page-locked.

    `flow` holds them, `source` says that they are what it reads, `again` that another holding
    counts them too: a buffer at an end of the flow that is pinned where it lies.
    """

    node: str
    size: int
    start: float
    end: float
    pinned: bool = False
    flow: str = ""
    source: bool = False
    again: bool = False


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
                at, ends = crossing.host, {(need.start, need.first), (need.end, need.last)}
                again = any((at, kind) in ends for kind in RESTING)
                size = need.size if crossing.room is None else crossing.room
                found.append(Holding(at, size, start, finish, pinned=True, again=again))
    if need.first in RESTING:
        locked = need.first in LOCKED
        found.append(Holding(need.start, need.size, 0.0, finish, pinned=locked, source=True))
    if need.last in RESTING and way.strategies[-1].resides:
        locked = need.last in LOCKED
        found.append(Holding(need.end, need.size, start, float("inf"), pinned=locked))
    return found
