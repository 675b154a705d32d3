"""From a schedule to what workers do: which hops run together, over which routes, and who copies.

The hops of one way are movements one after another; all ways of a split flow are one movement; and
copies that are passed on chunk by chunk are further hops of the movement that brings the bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from planner.engine.backends.base import Backend
from planner.engine.files import FileRanges
from planner.engine.measure import Interval
from planner.engine.memory import HostBuffer, Mapped, Mapping
from planner.engine.numa import cores_near, nodes
from planner.engine.places import DevicePlace, FilePlace, HostPlace, MappedPlace, Place
from planner.engine.route import Route, passed_on
from planner.engine.transfer import Moved, Transfer
from planner.errors import UnavailableError
from planner.machine.schema import Hbm, Machine
from planner.results import FlowSchedule, Hop, SetupStep, SplitPart


@dataclass
class Copy:
    """A copy that each chunk of a flow is passed on to, and what it took in the present sample."""

    flow: str
    hop: Hop
    place: DevicePlace
    setup: list[SetupStep] = field(default_factory=list)
    moves: list[Moved] = field(default_factory=list)

    def begin(self) -> None:
        """A new sample begins."""
        self.setup, self.moves = [], []


def all_hops(schedule: FlowSchedule) -> tuple[Hop, ...]:
    """The hops of all ways of a flow, one way after another."""
    if not schedule.parts:
        return schedule.hops
    return tuple(hop for part in schedule.parts for hop in part.hops)


def grouped(hops: Sequence[Hop]) -> list[list[Hop]]:
    """The hops of each movement of one way: a coupled hop runs with the next."""
    groups: list[list[Hop]] = [[]]
    for hop in hops:
        groups[-1].append(hop)
        if not hop.coupled:
            groups.append([])
    return [group for group in groups if group]


def groups_of(schedule: FlowSchedule) -> list[list[list[Hop]]]:
    """The groups of hops of each movement that moves bytes: several where it has several routes.

    The order of movements, and of routes in them, is that in which a sample logs them.
    """
    if not schedule.parts:
        return [[group] for group in _moving(schedule.hops)]
    return [[only_movement(schedule.flow, part) for part in schedule.parts]]


def only_movement(flow: str, part: SplitPart) -> list[Hop]:
    """The hops of one of several ways; raises `UnavailableError` where they do not run together."""
    moving = _moving(part.hops)
    if len(moving) != 1:
        raise UnavailableError(
            f"flow {flow}: one of its ways rests whole at "
            f"{', '.join(group[-1].end for group in moving[:-1])}, so it cannot share a queue of "
            "chunks with the others",
            hint="pin the route of the flow",
        )
    return moving[0]


def _moving(hops: Sequence[Hop]) -> list[list[Hop]]:
    """The groups that move bytes; a mapping that others follow only makes them reachable."""
    groups = grouped(hops)
    return [g for k, g in enumerate(groups) if k == len(groups) - 1 or g[-1].strategy != "mmap"]


def pinned_in_place(hops: Sequence[Hop]) -> bool:
    """Whether a way's files are mapped and registered whole, for a GPU that reaches into them."""
    return hops[0].strategy == "mmap" and not hops[0].coupled and len(hops) > 1


def workers_of(schedule: FlowSchedule) -> int:
    """Workers that a flow needs at once."""
    movements = groups_of(schedule)
    return max((sum(group[0].workers for group in routes) for routes in movements), default=1)


def gpus_of(machine: Machine, hops: Sequence[Hop]) -> list[int]:
    """The driver's indices of all GPUs on the way."""
    found = [machine.nodes[name] for hop in hops for name in (hop.start, hop.end)]
    return list(dict.fromkeys(node.device for node in found if isinstance(node, Hbm)))


def with_copies(
    machine: Machine, route: Route, target: DevicePlace, copies: Sequence[Copy]
) -> tuple[Route, DevicePlace]:
    """The route with all copies behind it, each taken from the one before, and its last place."""
    for copy in copies:
        route, target = passed_on(machine, route, target, copy.hop), copy.place
    return route, target


def near_gpu(backend: Backend, machine: Machine, route: Route) -> Route:
    """The route with its workers bound to the cores beside its first GPU, where that matters."""
    if len(nodes()) < 2:
        return route
    first = gpus_of(machine, route.hops)[:1]
    wanted = [backend.numa_node(gpu) for gpu in first]
    return replace(route, cores=cores_near(wanted, nodes()))


def parted(move: Moved, copies: int) -> tuple[Moved, list[Moved]]:
    """The flow's own part of a movement, and the part of each copy that it is passed on to."""
    if not copies:
        return move, []
    own = len(move.intervals) - copies
    arrived = _last(move.intervals[own - 1], move.end)
    first = Moved(move.start, arrived, move.intervals[:own], move.servers[:own], move.shares)
    return first, [
        Moved(move.start, _last(rows, move.end), (rows,), (server,))
        for rows, server in zip(move.intervals[own:], move.servers[own:], strict=True)
    ]


def _last(intervals: Sequence[Interval], otherwise: float) -> float:
    return max((end for _, end in intervals), default=otherwise)


def source_for(
    source: Place, schedule: FlowSchedule, hop: Hop, undo: contextlib.ExitStack
) -> Place:
    """The flow's source as the way wants it that begins with the hop; `undo` closes its files."""
    if not isinstance(source, (FilePlace, MappedPlace)):
        return source
    if hop.strategy == "mmap":
        return source if isinstance(source, MappedPlace) else MappedPlace(source.ranges)
    direct = hop.strategy == "direct"
    if direct == (schedule.hops[0].strategy == "direct"):
        return FilePlace(source.ranges)
    ranges = FileRanges(source.ranges.sources)
    undo.callback(ranges.close)
    ranges.open(direct=direct)
    return FilePlace(ranges)


def map_files(place: MappedPlace, undo: contextlib.ExitStack) -> list[Mapping]:
    """Map the files of a place, which has them from then on; `undo` takes the mappings away."""
    found = []
    for source in place.ranges.sources:
        if source.size_bytes:
            one = Mapping(source.path, source.offset, source.size_bytes)
            undo.callback(one.close)
            found.append(one)
    place.mapped = Mapped(found)
    return found


def _registers(transfer: Transfer) -> bool:
    """Whether a route copies from, or into, the caller's own memory registered in place."""
    return any(
        route.hops[0].strategy in ("registered", "zero_copy") for route in transfer.line.routes
    )


def registrable(transfer: Transfer) -> list[HostBuffer]:
    """The caller's own memory at the ends of a copy that needs it registered."""
    if not _registers(transfer):
        return []
    ends = (transfer.line.source, transfer.line.target)
    buffers = [one for place in ends if isinstance(place, HostPlace) for one in place.every]
    return [buffer for buffer in buffers if buffer.size and not buffer.pinned]
