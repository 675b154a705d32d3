"""What the virtual clock plays of a schedule: the model's stages, movement by movement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from planner.engine.backends.null import Track
from planner.engine.queue import Queue
from planner.engine.strategies.base import cut
from planner.machine.topology import Topology
from planner.model.arrange import Arrangement, Lane
from planner.model.copier import Copier, Stream, streamed_into
from planner.model.movement import Movement
from planner.model.needs import Demand
from planner.model.saved import arrangement_of
from planner.model.stage import Stage
from planner.model.strategies import Shape
from planner.model.strategies.copying import COPY
from planner.results import FlowEstimate


@dataclass(frozen=True, slots=True)
class Act:
    """One movement: its routes with their common queue, and the copies that it is passed on to.

    Each copy is one further stage behind those of the (only) route, in order. `lead` are seconds
    before the first chunk is taken, `tail` those in which the GPU uses what has arrived.
    """

    tracks: tuple[Track, ...]
    queue: Queue | None
    lead: float = 0.0
    tail: float = 0.0
    copies: tuple[str, ...] = ()


def acts(
    topology: Topology, demands: Sequence[Demand], flows: Sequence[FlowEstimate]
) -> dict[str, list[Act]]:
    """The movements of every flow in order, by its name; none for what is passed on to it."""
    arranged = {
        flow.name: arrangement_of(topology, demand.need, flow.schedule)
        for demand, flow in zip(demands, flows, strict=True)
    }
    found: dict[str, list[Act]] = {}
    for name, arrangement in arranged.items():
        chained = arrangement.fan == "chain"
        found[name] = [] if chained else _acts(arrangement)
        if arrangement.handed and found[name]:
            first = found[name][0]
            found[name][0] = replace(first, lead=first.lead + arrangement.handed)
    for name, behind in _chains(arranged).items():
        main = arranged[name].main.passing_on(len(behind))
        found[name] = _acts(replace(arranged[name], lanes=(main,)))
        last = found[name][-1]
        stages = [_copy(arranged[copy].main) for copy in behind]
        track = replace(last.tracks[0], stages=(*last.tracks[0].stages, *stages))
        found[name][-1] = replace(last, tracks=(track,), copies=tuple(behind))
    return found


def _acts(arrangement: Arrangement) -> list[Act]:
    if len(arrangement.lanes) > 1:
        size = sum(lane.need.size for lane in arrangement.lanes)
        lead = max(_lead(lane) for lane in arrangement.lanes)
        return [_act(size, [_route(lane) for lane in arrangement.lanes], lead)]
    lane = arrangement.main
    if lane.streamed:
        return [_act(lane.need.size, [_route(lane)], _lead(lane))]
    pairs = zip(lane.movements, lane.candidate.shapes, strict=True)
    return [replace(_act(m.size, [_Course((m,), s)], m.lead(s)), tail=m.tail) for m, s in pairs]


def _lead(lane: Lane) -> float:
    """Seconds before the first of the lane's chunks is taken."""
    pairs = zip(lane.movements, lane.candidate.shapes, strict=True)
    return max(movement.lead(shape) for movement, shape in pairs)


class _Course(NamedTuple):
    """Movements that hand over chunk by chunk, in one shape."""

    movements: tuple[Movement, ...]
    shape: Shape

    def track(self, sizes: Sequence[int]) -> Track:
        """What workers do of chunks of these sizes."""
        shape = self.shape
        each = [(movement, movement.stages(shape)) for movement in self.movements]
        copiers = {
            name: Copier(movement, shape, name)
            for movement, stages in each
            for name in {name for stage in stages for name in stage.charges}
            if name.endswith(COPY)
        }
        for movement in self.movements:
            if (name := streamed_into(movement)) is not None:
                copiers[name] = Stream(movement, shape, name)
        stages = tuple(stage for _, own in each for stage in own)
        depth = min(shape.depth, max(len(sizes), 1))  # more slots than chunks are never met
        return Track(stages, sizes, shape.workers, depth, copiers)


def _route(lane: Lane) -> _Course:
    """All stages of a lane whose movements hand over chunk by chunk, or of which one moves."""
    pairs = list(zip(lane.movements, lane.candidate.shapes, strict=True))
    moving = [(movement, shape) for movement, shape in pairs if movement.stages(shape)]
    return _Course(tuple(movement for movement, _ in moving), moving[0][1])


def _act(size: int, courses: Sequence[_Course], lead: float) -> Act:
    if not size:
        return Act(tuple(course.track(()) for course in courses), None)
    queue = Queue(partial(cut, size), size, [course.shape.chunk for course in courses])
    tracks = tuple(
        course.track(table.sizes) for course, table in zip(courses, queue.tables, strict=True)
    )
    return Act(tracks, queue, lead)


def _copy(lane: Lane) -> Stage:
    return lane.movements[0].stages(lane.candidate.shapes[0])[0]


def _chains(arranged: Mapping[str, Arrangement]) -> dict[str, list[str]]:
    """The copies of each flow that are made chunk by chunk, each behind its source."""
    after = {a.source: name for name, a in arranged.items() if a.fan == "chain"}
    found: dict[str, list[str]] = {}
    for name, arrangement in arranged.items():
        if arrangement.fan == "chain" or name not in after:
            continue
        behind = found[name] = [after[name]]
        while behind[-1] in after:
            behind.append(after[behind[-1]])
    return found
