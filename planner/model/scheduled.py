"""From a saved schedule back to a way with its shapes, to predict and run it as it is."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import InfeasibleError
from planner.machine.schema import Machine
from planner.machine.topology import Topology
from planner.model.choose import Candidate, setup_of, steady_of
from planner.model.movement import Movement
from planner.model.need import Need, Pins
from planner.model.strategies import Shape
from planner.model.strategies.unmeasured import how_to_measure
from planner.model.ways import Way, ways
from planner.results import FlowSchedule, Hop


def candidate_of(topology: Topology, need: Need, schedule: FlowSchedule) -> Candidate:
    """The candidate that a schedule describes, on this machine.

    Raises
    ------
    InfeasibleError
        If the machine has no such links or strategies.

    """
    machine = topology.machine
    way = _way(topology, need, schedule)
    reason = way.lacks()
    if reason is not None:
        raise InfeasibleError(
            f"flow {need.name}: {machine.name} cannot run the schedule: {reason}",
            hint=how_to_measure(machine, [reason]),
        )
    shapes = _shapes(way, schedule)
    steady = steady_of(need, way.movements, shapes)
    return Candidate(way, shapes, steady, setup_of(machine, need, way, shapes))


def rebased(machine: Machine, need: Need, candidate: Candidate) -> Candidate:
    """The same choices on a machine with other numbers, or for a need with other `turns`."""
    crossings = tuple(
        replace(crossing, machine=machine, turns=need.turns) for crossing in candidate.way.crossings
    )
    way = Way(crossings, candidate.way.strategies)
    steady = steady_of(need, way.movements, candidate.shapes)
    setup = setup_of(machine, need, way, candidate.shapes)
    return Candidate(way, candidate.shapes, steady, setup)


def _way(topology: Topology, need: Need, schedule: FlowSchedule) -> Way:
    """The way whose links and strategies the schedule names."""
    # What the schedule does by name counts as asked for.
    asked = Pins(by_hop={f"{h.start} -> {h.end}": h.strategy for h in schedule.hops})
    free = replace(need, size=schedule.size_bytes, pins=asked)
    matching = [way for way in ways(topology, free) if _matches(way, schedule.hops)]
    if matching:
        # Buffers on the way may differ where the hops do not: the one that applies is meant.
        return next((way for way in matching if way.lacks() is None), matching[0])
    told = ", ".join(f"{h.start} -> {h.end} by {h.strategy}" for h in schedule.hops)
    raise InfeasibleError(
        f"flow {need.name}: {topology.machine.name} has no way that matches the schedule ({told})"
    )


def _matches(way: Way, hops: tuple[Hop, ...]) -> bool:
    if len(way.crossings) != len(hops):
        return False
    coupled = [i < len(m.crossings) - 1 for m in way.movements for i in range(len(m.crossings))]
    return all(
        (c.link, c.start, c.end, s.name, joint) == (h.link, h.start, h.end, h.strategy, h.coupled)
        for c, s, joint, h in zip(way.crossings, way.strategies, coupled, hops, strict=True)
    )


def _shapes(way: Way, schedule: FlowSchedule) -> tuple[Shape, ...]:
    """The shape of each movement, from its first hop."""
    shapes, at = [], 0
    for movement in way.movements:
        hop = schedule.hops[at]
        shapes.append(Shape(hop.chunk_bytes, hop.depth, hop.workers))
        at += len(movement.crossings)
    return tuple(shapes)


def movements_of(
    machine: Machine, need: Need, schedule: FlowSchedule
) -> tuple[tuple[Movement, Shape], ...]:
    """The movements of a schedule with their shapes: what a virtual clock needs to play it."""
    candidate = candidate_of(Topology(machine), need, schedule)
    return tuple(zip(candidate.way.movements, candidate.shapes, strict=True))
