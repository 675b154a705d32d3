"""Words of a plan that change nothing where its flow goes: told, or they would be believed.

A page cache that a flow never meets, a host buffer that it does not have, slots of a ring that its
way lacks: the words are right, and the plan may be meant for another machine, so they are no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from planner.machine.schema import Machine
from planner.model.arrange import Arrangement
from planner.model.need import Need
from planner.plan.schema import Flow, Plan

_OF_A_SOURCE: Final = {
    "cache": ("disk", "the page cache is that of a disk source"),
    "release_cache": ("disk", "the page cache is that of a disk source"),
    "host_source": ("ram", "the bytes do not start in host memory"),
}
"""Words about where a flow starts: the kind of node that they speak of, and why else not."""
_SPELLED: Final = {"host_source": "source"}


def unheeded(
    plan: Plan, machine: Machine, flows: Sequence[tuple[str, Need, Arrangement]]
) -> Iterator[str]:
    """One line for each word that changes nothing, with the reason.

    Parameters
    ----------
    plan, machine
        What is to be moved, and where.
    flows
        The flow's name in the plan, its need and what was chosen for it; the first of a name counts
        for all that were made of it.

    """
    told: set[str] = set()
    for name, need, arrangement in flows:
        if name in told:
            continue
        told.add(name)
        for word, why in (*_of_ends(plan.flows[name], machine, need), *_of_ring(need, arrangement)):
            yield f"{name}: {word} changes nothing: {why}"


def _of_ends(flow: Flow, machine: Machine, need: Need) -> Iterator[tuple[str, str]]:
    """What is said of ends that the flow does not have."""
    start, end = (machine.nodes[node].kind for node in (need.start, need.end))
    for word, (kind, why) in _OF_A_SOURCE.items():
        if start != kind and _is_said(flow, word):
            yield _SPELLED.get(word, word), why
    if _is_said(flow, "memory") and "ram" not in (start, end):
        yield "memory", "no end of it is a buffer in host memory"
    if flow.fsync and end != "disk":
        yield "fsync", "it does not end on a disk"


def _is_said(flow: Flow, word: str) -> bool:
    """Whether a word is another than the one that holds where none is written."""
    return bool(getattr(flow, word) != Flow.model_fields[word].default)


def _of_ring(need: Need, arrangement: Arrangement) -> Iterator[tuple[str, str]]:
    """Slots and workers that the chosen way does not have."""
    movements = [movement for lane in arrangement.lanes for movement in lane.movements]
    if any(m.has_ring or m.has_pool or m.ahead or m.streams for m in movements):
        return
    ways = " and ".join(dict.fromkeys(s.name for m in movements for s in m.strategies))
    shapes = [shape for lane in arrangement.lanes for shape in lane.candidate.shapes]
    if need.pins.depth is not None and need.pins.depth > 1 and len(arrangement.lanes) == 1:
        yield f"depth {need.pins.depth}", f"{ways} has no ring"
    workers = need.pins.workers
    if workers is not None and all(shape.workers != workers for shape in shapes):
        yield f"workers {workers}", f"{ways} is issued by {max(s.workers for s in shapes)}"
