"""Words of a plan that change nothing where its flow goes: told, or they would be believed.

A page cache that a flow never meets, a host buffer that it does not have, slots of a ring that its
way lacks: the words are right, and the plan may be meant for another machine, so they are no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from planner.machine.schema import Machine
from planner.model.arrange import Arrangement
from planner.model.contend import Chosen
from planner.model.need import Need
from planner.plan.schema import Flow, Plan

_START, _END, _EITHER = slice(0, 1), slice(1, 2), slice(0, 2)
_OF_ENDS: Final = (
    ("cache", _START, "disk", "the page cache is that of a disk source"),
    ("release_cache", _START, "disk", "the page cache is that of a disk source"),
    ("host_source", _START, "ram", "the bytes do not start in host memory"),
    ("memory", _EITHER, "ram", "no end of it is a buffer in host memory"),
    ("fsync", _END, "disk", "it does not end on a disk"),
)
"""Words, the ends that they speak of, the kind of node that one has to be, and why else not."""


def unheeded(plan: Plan, machine: Machine, flows: Sequence[Chosen]) -> Iterator[str]:
    """One line for each word that changes nothing, with the reason.

    The first of the flows that were made of one of the plan's counts for all of them.
    """
    first = {item.demand.flow: item for item in reversed(flows)}
    for name in plan.flows:
        need, arrangement = first[name].demand.need, first[name].arrangement
        for word, why in (*_of_ends(plan.flows[name], machine, need), *_of_ring(need, arrangement)):
            yield f"{name}: {word} changes nothing: {why}"


def _of_ends(flow: Flow, machine: Machine, need: Need) -> Iterator[tuple[str, str]]:
    """What is said of ends that the flow does not have."""
    kinds = [machine.nodes[node].kind for node in (need.start, need.end)]
    for word, ends, kind, why in _OF_ENDS:
        field = Flow.model_fields[word]
        if getattr(flow, word) != field.default and kind not in kinds[ends]:
            yield str(field.validation_alias or word), why


def _of_ring(need: Need, arrangement: Arrangement) -> Iterator[tuple[str, str]]:
    """Slots and workers that the chosen way does not have."""
    movements = [movement for lane in arrangement.lanes for movement in lane.movements]
    if any(not m.single or m.streams for m in movements):
        return
    ways = " and ".join(dict.fromkeys(s.name for m in movements for s in m.strategies))
    shapes = [shape for lane in arrangement.lanes for shape in lane.candidate.shapes]
    if need.pins.depth is not None and need.pins.depth > 1 and len(arrangement.lanes) == 1:
        yield f"depth {need.pins.depth}", f"{ways} has no ring"
    workers = need.pins.workers
    if workers is not None and all(shape.workers != workers for shape in shapes):
        yield f"workers {workers}", f"{ways} is issued by {max(s.workers for s in shapes)}"
