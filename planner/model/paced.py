"""Arrangements of flows with a cap on their rate: all lanes in chunks that suit it."""

from __future__ import annotations

from dataclasses import replace

from planner.machine.schema import Machine
from planner.model.arrange import Arrangement, Lane, carried
from planner.model.spacing import spaced


def paced(machine: Machine, arrangement: Arrangement) -> Arrangement:
    """The same with chunks that suit the cap, unless the plan pins the chunk."""
    return replace(arrangement, lanes=tuple(_cut(machine, lane) for lane in arrangement.lanes))


def _cut(machine: Machine, lane: Lane) -> Lane:
    shapes = tuple(
        spaced(lane.need, [strategy.name for strategy in movement.strategies], shape)
        for movement, shape in zip(lane.movements, lane.candidate.shapes, strict=True)
    )
    if shapes == lane.candidate.shapes:
        return lane
    return carried(machine, replace(lane, candidate=replace(lane.candidate, shapes=shapes)))
