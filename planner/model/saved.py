"""From a saved schedule back to an arrangement: one way, several at once, or a copy of a copy."""

from __future__ import annotations

from dataclasses import replace

from planner.machine.topology import Topology
from planner.model.arrange import Arrangement, Lane, carried
from planner.model.need import Need
from planner.model.scheduled import candidate_of
from planner.results import FlowSchedule, Hop


def arrangement_of(topology: Topology, need: Need, schedule: FlowSchedule) -> Arrangement:
    """The arrangement that a schedule describes, on this machine.

    Raises `InfeasibleError` if the machine has no such links or strategies.
    """
    if schedule.copy_of is not None:
        start = schedule.hops[0].start
        need = replace(need, start=start, first="device", cached=1.0, hot=False, pieces=())
    if not schedule.parts:
        lane = Lane(replace(need, size=schedule.size_bytes), candidate_of(topology, need, schedule))
        return Arrangement(
            (lane,), source=schedule.copy_of, fan=schedule.fan, behind=schedule.behind
        )
    lanes = []
    for part in schedule.parts:
        hops, streamed = _cut(topology, part.hops)
        own = schedule.model_copy(
            update={"hops": hops, "size_bytes": part.share_bytes, "parts": ()}
        )
        share = replace(need, size=part.share_bytes)
        lane = Lane(share, candidate_of(topology, share, own), streamed)
        lanes.append(carried(topology.machine, lane))
    return Arrangement(tuple(lanes), reason=f"{len(lanes)} ways at once")


def _cut(topology: Topology, hops: tuple[Hop, ...]) -> tuple[tuple[Hop, ...], bool]:
    """The hops with their couplings over a GPU's memory taken away, and whether there were any."""
    nodes = topology.machine.nodes
    cut = tuple(
        hop.model_copy(update={"coupled": False})
        if hop.coupled and nodes[hop.end].kind == "hbm"
        else hop
        for hop in hops
    )
    return cut, cut != hops
